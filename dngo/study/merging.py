"""The stage that appends an iteration to the archive."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from dngo import archive
from dngo.batch import Batch, Outcome, Proposal
from dngo.errors import UserError
from dngo.storage import picture
from dngo.storage.files import read_json, write_json
from dngo.storage.patience import patiently
from dngo.study.batches import environment, has_model
from dngo.study.beginning import copy_transfer
from dngo.study.ending import ends
from dngo.study.entries import new_notes
from dngo.study.records import Records
from dngo.waiting import dump


def merge(records: Records, t: int, output: Path) -> None:
    """Append iteration t to the archive, once, and write the receipt to `output`.

    After that, raises Halted if the run must not go on.
    """
    paths = records.paths
    if t < records.merged():
        write_json(output, archive.receipt(records.archive, t))
        paths.logs.bundle(records.merged())
        return
    if reason := ends(records, t):
        write_json(output, {"iteration": t, "rows": 0, "ended": reason})
        return
    batch = records.batch(t)
    outcomes = _outcomes(records, batch)
    for proposal in batch.proposals:
        if proposal.told:
            entered = paths.entered_picture(proposal.origin["entry"])
            picture.move(entered, paths.picture(t, proposal.slot))
    write_json(output, _append(records, batch, outcomes))
    # The iteration is safely in the archive, so its files in flight are no longer needed.
    shutil.rmtree(paths.pending(t), ignore_errors=True)
    _settle(records, batch, outcomes)
    failures = records.config.stop.failures
    if t == 0:
        paths.journal.heed_design(outcomes, failures)
    if records.asks_for(t + 1):
        paths.journal.heed(failures)
    paths.logs.bundle(t + 1)  # if the run stops, its message names a log


def _settle(records: Records, batch: Batch, outcomes: list[Outcome]) -> None:
    """Remove the checkpoints of points that no longer need one."""
    if not records.checkpoints.folder.is_dir():
        return
    ladder = records.config.ladder

    def goes_on(proposal: Proposal) -> bool:
        return ladder is not None and not ladder.is_top(
            records.space.from_parameters([proposal.parameters])
        )

    flying = [p for other in records.in_flight(batch.iteration + 1) for p in other.proposals]
    records.checkpoints.settle(batch.proposals, outcomes, goes_on=goes_on, flying=flying)


def _outcomes(records: Records, batch: Batch) -> list[Outcome]:
    """The outcomes of all proposals; raises UserError if one is missing."""
    outcomes = records.outcomes(batch)
    missing = [p.id for p, o in zip(batch.proposals, outcomes, strict=True) if o is None]
    if missing:
        raise UserError(
            f"{records.paths.folder}: {len(missing)} points of iteration {batch.iteration} have no "
            f"outcome yet ({', '.join(missing[:3])} ...); type the same command again"
        )
    return [o for o in outcomes if o is not None]


def _append(records: Records, batch: Batch, outcomes: list[Outcome]) -> dict[str, Any]:
    """Append a batch with its outcomes, and its surrogate if it has one. Returns the receipt."""
    t = batch.iteration
    folders = records.paths.pending(t), records.paths.iteration(t)
    files = [d / "surrogate.h5" for d in folders if (d / "surrogate.h5").exists()]
    surrogates = [file for file in files[:1] if t > 0 and has_model(file)]
    return patiently(
        lambda: archive.append(
            records.archive,
            identity=records.config.identity(),
            batch=batch,
            outcomes=outcomes,
            surrogate=surrogates[0] if surrogates else None,
            transfer=copy_transfer(records) if t == 0 else None,
            environment=_environment(records, t),
        ),
        what=f"merging iteration {t} into {records.archive}",
    )


def _environment(records: Records, t: int) -> dict[str, Any]:
    """Where and when this merge runs, and new notes.

    If a lost archive is written again, the earlier record counts.
    """
    try:
        found = read_json(records.paths.earlier_receipt(t))["merged"]
    except (OSError, ValueError, KeyError):
        found = environment(records)
    held = found.get("notes", [])
    known = {note["name"] for note in held}
    new = [note for note in dump(new_notes(records.archive)) if note["name"] not in known]
    return {**found, "notes": [*held, *new]} if new else found

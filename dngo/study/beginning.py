"""What a run does before its first stage: take back what is not archived, look at the objective."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

from dngo import archive, derive
from dngo.archive import transfer
from dngo.archive.transfer import Earlier
from dngo.batch import WORKED, write_outcomes
from dngo.config import Config
from dngo.errors import UserError
from dngo.evaluation.fingerprint import command_of, data_of, differences, fingerprint, without
from dngo.redaction import redacted_command
from dngo.storage.claim import BEAT
from dngo.study.batches import keep
from dngo.study.records import Records

# What a study makes for Snakemake, beside its iterations: see rules/.
OUTPUTS = (
    "done",
    "best.json",
    *(f"report/{n}" for n in ("report.html", "summary.txt", "scores.csv")),
)


def begin(records: Records) -> str:
    """Begin a run: what lies in `iterations/` is adopted, and the journal is new.

    Says how the objective differs from what was evaluated before; "" if it does not.
    """
    adopt(records)
    changed = "; ".join(changes(records))
    ran = records.archive.exists() and derive.ran(archive.read_table(records.archive)).any()
    flying = records.in_flight(records.merged())
    ends = (o for batch in flying for o in records.outcomes(batch))
    records.paths.journal.begin(
        ran=bool(ran) or any(o is not None and o.status in WORKED for o in ends),
        objective=fingerprint(records.config.objective, records.config.needs),
    )
    return changed


def check_new(records: Records) -> None:
    """Raise UserError where a study that has not begun would replace files of somebody else.

    Snakemake removes the outputs of a job before it begins, even if another program made them.
    """
    paths = records.paths
    if os.path.lexists(paths.archive) or paths.iterations() or paths.journal.path.exists():
        return
    for name in OUTPUTS:
        if os.path.lexists(paths.folder / name):
            raise UserError(
                f"{paths.folder / name}: is there already, and study {records.config.study}, which has not "
                "begun, would replace it; move it, or name another folder under `results`"
            )


def adopt(records: Records) -> None:
    """Take what lies in `iterations/` but is not archived back into `pending/`.

    So an archive that was deleted, or replaced by an older copy, is written again from the outcomes.
    That happens before Snakemake deletes outputs that it wants to make anew.
    """
    for batch in records.in_flight(records.merged()):
        if records.is_kept(batch.iteration):
            continue
        surrogate = records.paths.iteration(batch.iteration) / "surrogate.h5"
        for proposal, outcome in zip(batch.proposals, records.outcomes(batch), strict=True):
            if outcome is not None:
                write_outcomes(records.paths.outcome_file(proposal), [outcome])
        keep(records, batch, surrogate if surrogate.exists() else None)


def changes(records: Records, *, running: bool = False) -> list[str]:
    """How the objective differs from the record of the last run, or else of the last batch.

    running: whether the question is about a run that goes on. Files that are no code do not count where
    evaluations may have written them.
    Raises UserError if there is anything and `objective.strict` says so.
    """
    objective, needs = records.config.objective, records.config.needs
    known, now = _known(records), fingerprint(objective, needs)
    known = {**known, "command": redacted_command(known.get("command"))} if known else known
    until = math.inf if running else _last_sign(records) + BEAT
    data = data_of(objective, needs)
    known = without(known, (name for name, written in data.items() if written <= until))
    meant = command_of(known)
    if meant != known.get("command") == now.get("command"):
        raise UserError(
            "objective.command: {{ and }} stand for one brace each now, and stood for two when this study "
            f"was begun; to go on with the same command write {meant!r}"
        )
    found = differences(known, now)
    if found and records.config.objective.strict:
        raise UserError(
            f"objective.strict: the objective is not what was evaluated before: {'; '.join(found)}. "
            "Put it back, or set objective.strict: false to go on with evaluations of both"
        )
    return found


def _last_sign(records: Records) -> float:
    """When evaluations of the study last gave a sign, in seconds since 1970; -inf without any."""
    paths = records.paths
    signs = [-math.inf]
    for path in (paths.journal.path, paths.run_claim.path, paths.archive):
        with contextlib.suppress(OSError):
            signs.append(path.stat().st_mtime)
    return max(signs)


def _known(records: Records) -> dict[str, Any]:
    """What the last run, or else the last batch, has recorded of the objective; empty without one."""
    known = records.paths.journal.objective
    merged = records.merged()
    for batch in reversed(records.in_flight(merged)):
        known = known or batch.environment.get("objective") or _of(batch.config, batch.versions)
    if not known and merged:
        made = archive.iteration_attributes(records.archive, merged - 1)
        known = json.loads(made["merged"]).get("objective") or {}
        known = known or _of(json.loads(made["config"]), json.loads(made.get("versions", "{}")))
    return known


def _of(config: dict[str, Any], versions: dict[str, int]) -> dict[str, Any]:
    """The objective as a configuration names it, for studies of release 0.1.0, which recorded no more."""
    objective = config["objective"]
    return {name: objective.get(name) for name in ("command", "callable")} | {
        "config": versions.get("config", 1)
    }


def copy_transfer(records: Records) -> Path | None:
    """What a new archive takes from earlier studies; raises UserError if one cannot be read.

    The copy is made once, before the study begins. Later changes of those archives do not matter.
    """
    if not records.config.transfer:
        return None
    path = records.paths.transfer
    if not has_transfer(records):
        earlier = read_transfer(records)
        path.parent.mkdir(parents=True, exist_ok=True)
        transfer.write(path, earlier)
    return path


def read_transfer(records: Records) -> list[Earlier]:
    """The earlier studies that the configuration names; raises UserError if one cannot be read."""
    return transfer.read(records.config.transfer, wanted(records.config), beside=records.beside)


def wanted(config: Config) -> transfer.Wanted:
    """What a study looks for in earlier ones."""
    return transfer.Wanted(config.search_space, sorted(config.thresholds), config.directions)


def has_transfer(records: Records) -> bool:
    """Whether the copy is there, of the studies that the configuration names."""
    path = records.paths.transfer
    return path.exists() and transfer.files(path) == records.config.transfer

"""What a run does before its first stage: take back files that are not archived, and look at the
objective.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
from pathlib import Path
from typing import Any

from dngo import archive, inward
from dngo.archive import transfer
from dngo.archive.transfer import Earlier
from dngo.batch import WORKED, write_outcomes
from dngo.errors import UserError
from dngo.evaluation.fingerprint import (
    command_of,
    data_of,
    differences,
    fingerprint,
    other_function,
    without,
)
from dngo.redaction import redacted_command
from dngo.storage.claim import BEAT
from dngo.study.batches import keep
from dngo.study.records import Records

# Files that a study makes for Snakemake in addition to its iterations: see rules/.
OUTPUTS = (
    "done",
    "best.json",
    *(f"report/{n}" for n in ("report.html", "summary.txt", "scores.csv")),
)


def begin(records: Records) -> str:
    """Begin a run: adopt the files in `iterations/`, and begin a new journal.

    Returns how the objective differs from the one evaluated before; "" if it does not.
    """
    adopt(records)
    changed = "; ".join(changes(records))
    ran = records.archive.exists() and inward.ran(archive.read_table(records.archive)).any()
    ends = (o for _, o in records.evaluations(records.merged()))
    records.paths.journal.begin(
        ran=bool(ran) or any(o is not None and o.status in WORKED for o in ends),
        objective=fingerprint(records.config.objective, records.config.needs),
    )
    return changed


def check_new(records: Records) -> None:
    """Raise UserError if a study that has not begun would replace other files.

    Snakemake removes the outputs of a job before it begins, even if another program made them.
    """
    paths = records.paths
    if os.path.lexists(paths.archive) or paths.iterations() or paths.journal.path.exists():
        return
    for name in OUTPUTS:
        if os.path.lexists(paths.folder / name):
            raise UserError(
                f"{paths.folder / name}: is there already, and study {records.config.study} "
                "has not begun and would replace it; move it, or name another folder under "
                "`results`"
            )


def adopt(records: Records) -> None:
    """Move files that lie in `iterations/` but are not archived back to `pending/`.

    If the archive was deleted or replaced by an older copy, the outcomes in these files are merged
    again. This runs before Snakemake deletes outputs that it wants to make again.
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
    """How the objective differs from the record of the last run, or of the last batch if there was
    no run.

    running: whether a run is going on. Files that are not code do not count if evaluations may have
    written them.
    Raises UserError if something differs and `objective.strict` is set, or if this is a function of
    this process and values of another function were measured.
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
            "objective.command: {{ and }} now stand for one brace each, but stood for two "
            f"when this study began; to go on with the same command write {meant!r}"
        )
    found = differences(known, now)
    if now.get("function"):
        _check_function(
            records, known if known.get("function") else _evaluated(records) or known, now
        )
    if found and records.config.objective.strict:
        raise UserError(
            "objective.strict: the objective has changed since the earlier evaluations: "
            f"{'; '.join(found)}. Restore it, or set objective.strict: false to go on with "
            "evaluations of both"
        )
    return found


def _check_function(records: Records, known: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise UserError if another function gave the values that a study has."""
    if not (found := other_function(known, now)) or not _has_values(records):
        return
    said = "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
    folder = records.paths.folder
    harmless = ""
    if any(text.startswith("the value of ") for text in found):
        harmless = "keep a value that does not matter to the result in os.environ, "
    raise UserError(
        f"{folder}: another function gave its values: {said}. Nothing was evaluated. "
        f"Give this function another `name`, {harmless}or begin a study of another name with these "
        f"evaluations, in a shell: dngo fork {shlex.quote(str(folder))} --name {records.config.study}_2"
    )


def _has_values(records: Records) -> bool:
    """Whether the study's objective was measured at any point, in the archive or in flight."""
    if records.archive.exists() and archive.read_table(records.archive).has_objective.any():
        return True
    ends = (o for _, o in records.evaluations(records.merged()))
    return any(o is not None and (o.objective == o.objective or o.objectives) for o in ends)


def _evaluated(records: Records) -> dict[str, Any]:
    """The latest objective in the archive that was a function of a process; empty without one."""
    for t in reversed(range(records.merged())):
        made = json.loads(archive.iteration_attributes(records.archive, t)["merged"])
        if (known := made.get("objective") or {}).get("function"):
            return dict(known)
    return {}


def _last_sign(records: Records) -> float:
    """The latest time at which an evaluation of the study was active, in seconds since 1970; -inf
    if there was none.
    """
    paths = records.paths
    signs = [-math.inf]
    for path in (paths.journal.path, paths.run_claim.path, paths.archive):
        with contextlib.suppress(OSError):
            signs.append(path.stat().st_mtime)
    return max(signs)


def _known(records: Records) -> dict[str, Any]:
    """The objective that the last run, or else the last batch, has recorded; empty if neither exists."""
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
    """The objective as a configuration names it. Studies of release 0.1.0 recorded no more."""
    objective = config["objective"]
    return {name: objective.get(name) for name in ("command", "callable")} | {
        "config": versions.get("config", 1)
    }


def copy_transfer(records: Records) -> Path | None:
    """Copy what a new archive takes from earlier studies; raises UserError if one cannot be read.

    It copies once, before the study begins. Later changes of those archives have no effect.
    """
    if not records.config.transfer:
        return None
    if not has_transfer(records):
        keep_transfer(records, read_transfer(records))
    return records.paths.transfer


def keep_transfer(records: Records, earlier: list[Earlier]) -> None:
    """Write what a new archive takes from earlier studies, if that is anything."""
    if earlier:
        records.paths.transfer.parent.mkdir(parents=True, exist_ok=True)
        transfer.write(records.paths.transfer, earlier)


def read_transfer(records: Records) -> list[Earlier]:
    """The evaluations of the earlier studies in the configuration; raises UserError if one cannot
    be read.
    """
    config = records.config
    wanted = transfer.Wanted(config.search_space, sorted(config.thresholds), config.directions)
    return transfer.read(config.transfer, wanted, beside=records.beside)


def has_transfer(records: Records) -> bool:
    """Whether the copy exists and comes from the studies in the configuration."""
    path = records.paths.transfer
    return path.exists() and transfer.files(path) == records.config.transfer

"""A warm start: evaluations that somebody made before become iteration 0 of a new study.

They take the place of the initial design. Their proposals have the source "imported"; the record of
the iteration names the file and its SHA-256 digest, and each outcome the row that it came from.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dngo import archive, derive
from dngo.batch import Outcome, Proposal
from dngo.errors import UserError
from dngo.exchange.files import check_columns, read, sha256
from dngo.exchange.outcomes import SOURCE, outcome_of
from dngo.exchange.points import points_of
from dngo.exchange.rows import Row
from dngo.outcomes import with_origin
from dngo.study import Study

_SHOWN = 5  # mistakes in a message
_KEPT = 20  # and in the archive's record


@dataclass(frozen=True)
class Imported:
    """What a warm start brought: outcomes by status, and the rows left out with their reasons.

    unknown: by constraint, the number of evaluations that ran and lack it.
    """

    outcomes: dict[str, int]
    skipped: dict[str, str]
    unknown: dict[str, int] = field(default_factory=dict)


def warm_start(
    study: Study,
    path: Path,
    *,
    objective: str = "objective",
    name: str | None = None,
    skip_invalid: bool = False,
    ignore: Collection[str] = (),
) -> Imported:
    """Make the evaluations in a file iteration 0 of a new study.

    objective: the column that holds it, in a table.  name: the Optuna study, if there are several.
    skip_invalid: leave out rows that do not lie in the space instead of refusing them all.
    ignore: columns that are left out.
    Raises UserError, with a line for each of the first mistakes.
    """
    config = study.config
    _check_new(study)
    study.header()  # a study whose names can be mistaken does not begin
    table = read(path, config, name, ignore)
    check_columns(path, table.rows, config, objective)
    found, skipped = _evaluations(study, path, table.rows, objective, skip_invalid=skip_invalid)
    skipped = {**skipped, **table.left_out}
    record = {
        "file": path.name,
        "format": table.form,
        "sha256": sha256(path),
        "rows": len(table.rows) + len(table.left_out),
        "skipped": len(skipped),
    }
    return begin_with(study, found, record, skipped)


def begin_with(
    study: Study,
    found: Sequence[tuple[Proposal, Outcome]],
    record: dict[str, Any],
    skipped: dict[str, str],
) -> Imported:
    """Make evaluations iteration 0 of a study that has not begun; raises UserError if it has.

    record: where they are from, for the archive.  skipped: what was left out, and why.
    """
    _check_new(study)
    batch = study.record(0, derive.DESIGN, [p for p, _ in found])
    # An attribute of an HDF5 file has little room.
    record["skipped_first"] = [{"row": r, "why": why} for r, why in list(skipped.items())[:_KEPT]]
    batch = replace(batch, environment={**batch.environment, "import": record})
    outcomes = [o for _, o in found]
    study.folder.mkdir(parents=True, exist_ok=True)
    try:
        with study.run_claim.held(wait=5.0, what=f"the study in {study.folder}"):
            _check_new(study)
            archive.append(
                study.archive,
                identity=study.config.identity(),
                batch=batch,
                outcomes=outcomes,
                surrogate=None,
                transfer=study.transfer(),
            )
    except TimeoutError as error:
        raise UserError(f"{error}; a warm start is for a study that has not begun") from None
    unknown = Counter(
        n for o in outcomes if o.ran for n in study.config.constraints if n not in o.constraints
    )
    return Imported(dict(Counter(o.status for o in outcomes)), skipped, dict(unknown))


def _evaluations(
    study: Study, path: Path, rows: list[Row], objective: str, *, skip_invalid: bool
) -> tuple[list[tuple[Proposal, Outcome]], dict[str, str]]:
    """The evaluations in the rows of a file, and why a row was left out, by its place.

    Raises UserError if there are none, or if a row has a mistake and none is to be left out.
    """
    points, problems = points_of(study.space, rows)
    found: list[tuple[Proposal, Outcome]] = []
    for i, row in enumerate(rows):
        if i in problems:
            continue
        try:
            # Only what is kept is numbered: slots have no gaps.
            outcome = outcome_of(len(found), points[i], row, study.config, objective)
        except ValueError as error:
            problems[i] = str(error)
            continue
        place = f"{path.name}, {row.place}"
        proposal = Proposal(iteration=0, slot=len(found), parameters=points[i], source=SOURCE)
        found.append(
            (
                proposal,
                replace(outcome, metadata=with_origin(outcome.metadata, "imported_from", place)),
            )
        )
    skipped = {rows[i].place: problems[i] for i in sorted(problems)}
    if skipped and not skip_invalid:
        lines = [f"{path}: {place}: {why}" for place, why in list(skipped.items())[:_SHOWN]]
        many = f"{len(skipped)} such rows in all, " if len(skipped) > 1 else ""
        lines[-1] += f"; {many}--skip-invalid leaves {'them' if many else 'it'} out"
        raise UserError("\n".join(lines))
    if not found:
        raise UserError(f"{path}: has no evaluation to start from")
    return found, skipped


def _check_new(study: Study) -> None:
    if os.path.lexists(study.archive):
        raise UserError(
            f"{study.archive}: is there already, and a warm start begins a study; "
            "give the study another name"
        )
    for folder in (study.pending(0), study.iteration(0)):
        if (folder / "proposals.json").exists():
            raise UserError(
                f"{folder}: the study has begun with a design; give the study another name"
            )

"""A warm start: evaluations that somebody made before become iteration 0 of a new study.

They replace the initial design. Their proposals have the source "imported". The record of the
iteration names the file and its SHA-256 digest. Each outcome names its row in the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dngo import archive, derive
from dngo.batch import Outcome, Proposal
from dngo.errors import UserError
from dngo.evaluation.pictures import LEFT_OUT, entered
from dngo.exchange.files import check_columns, in_parts, sha256
from dngo.exchange.foreign import Meaning
from dngo.exchange.outcomes import SOURCE, Reader
from dngo.exchange.points import points_of
from dngo.exchange.rows import FileRows, Row
from dngo.outcomes import with_origin
from dngo.study import Study
from dngo.waiting import Note, dump

Part = tuple[list[Proposal], list[Outcome]]
_SHOWN = 5  # mistakes in a message
_KEPT = 20  # and in the archive's record


@dataclass(frozen=True)
class Imported:
    """The result of a warm start: the number of outcomes by status, and why rows were left out.

    unknown: for each constraint, how many evaluations ran but did not report it.
    pictures: why pictures of a table were not kept, by row.
    said: how a file of another program was read.
    """

    outcomes: dict[str, int]
    skipped: dict[str, str]
    unknown: dict[str, int] = field(default_factory=dict)
    pictures: dict[str, str] = field(default_factory=dict)
    said: str = ""


def warm_start(
    study: Study,
    path: Path,
    *,
    meaning: Meaning = Meaning(),
    skip_invalid: bool = False,
) -> Imported:
    """Make the evaluations in a file iteration 0 of a new study.

    meaning: what the user says of the file's columns.
    skip_invalid: leave out rows that do not lie in the space instead of refusing them all.
    Raises UserError, with a line for each of the first mistakes.
    """
    _check_new(study)
    study.header()  # a study with ambiguous names is refused
    first = next(in_parts(path, study.config, meaning))
    record = {"file": path.name, "format": first.form, "sha256": sha256(path)}
    if first.said:
        record["read"] = first.said
    found = _Evaluations(study, path, meaning.objective, skip_invalid)
    parts = found.of(in_parts(path, study.config, meaning), record)
    begun = _begin(study, parts, record, found.skipped)
    return replace(begun, pictures=found.pictures, said=first.said)


def begin_with(
    study: Study,
    parts: Iterator[Part],
    record: dict[str, Any],
    skipped: dict[str, str],
    notes: Callable[[], list[Note]],
) -> Imported:
    """Make evaluations iteration 0 of a study that has not begun; raises UserError if it has.

    parts: the evaluations, some at a time to save memory.
    record: their origin, for the archive.
    skipped: what was left out and why; it is complete after the last part.
    notes: gives the notes that come along, after the last part.
    """
    merged: dict[str, Any] = {}

    def passing() -> Iterator[Part]:
        yield from parts
        record["skipped"], record["skipped_first"] = len(skipped), _first(skipped)
        if found := notes():
            merged["notes"] = dump(found)

    return _begin(study, passing(), record, skipped, merged)


def _first(skipped: dict[str, str]) -> list[dict[str, str]]:
    # HDF5 limits the size of an attribute.
    return [{"row": r, "why": why} for r, why in list(skipped.items())[:_KEPT]]


def _begin(
    study: Study,
    parts: Iterator[Part],
    record: dict[str, Any],
    skipped: dict[str, str],
    merged: dict[str, Any] | None = None,
) -> Imported:
    """Make evaluations iteration 0. merged: the record of the merge; the parts may add to it."""
    _check_new(study)
    batch = study.record(0, derive.DESIGN, [])
    batch = replace(batch, environment={**batch.environment, "import": record})
    tally = _Tally(study)
    made = not study.folder.exists()
    study.folder.mkdir(parents=True, exist_ok=True)
    try:
        with study.run_claim.held(wait=5.0, what=f"the study in {study.folder}"):
            _check_new(study)
            archive.append(
                study.archive,
                identity=study.config.identity(),
                batch=batch,
                outcomes=tally.of(parts),
                surrogate=None,
                environment=merged,
                transfer=study.transfer(),
            )
    except TimeoutError as error:
        raise UserError(f"{error}; a warm start is for a study that has not begun") from None
    finally:
        if made and not study.archive.exists():
            shutil.rmtree(study.folder / "images", ignore_errors=True)
            with contextlib.suppress(OSError):
                study.folder.rmdir()
    return Imported(dict(tally.statuses), skipped, dict(tally.unknown))


class _Tally:
    """Counts outcomes by status, and evaluations that did not report a constraint."""

    def __init__(self, study: Study):
        self.constraints = list(study.config.constraints)
        self.statuses: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def of(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Yields the same outcomes, and counts them."""
        names = self.constraints
        for proposals, outcomes in parts:
            self.statuses.update(o.status for o in outcomes)
            self.unknown.update(
                n for o in outcomes if o.ran for n in names if n not in o.constraints
            )
            yield proposals, outcomes


class _Evaluations:
    """The evaluations in the rows of a file. It also notes what was left out and why, by place."""

    def __init__(self, study: Study, path: Path, objective: str, skip_invalid: bool):
        self.study, self.path, self.objective = study, path, objective
        self.skip_invalid = skip_invalid
        self.reader = Reader(study.config, objective)
        self.skipped: dict[str, str] = {}
        self.pictures: dict[str, str] = {}
        self.number = 0
        self.ids: dict[str, str] = {}  # of the points here, by those in an export

    def _repeats(self, row: Row) -> dict[str, str]:
        """The origin of a row that repeats another one, as an export says; empty for any other."""
        try:
            origin = json.loads(str(row.get("origin")))
        except (ValueError, RecursionError):
            return {}
        again = self.ids.get(str(origin.get("repeats"))) if isinstance(origin, dict) else None
        return {"repeats": again} if again else {}

    def of(self, parts: Iterator[FileRows], record: dict[str, Any]) -> Iterator[Part]:
        """The evaluations of each part of a file, which the record counts.

        Raises UserError after the last row if there are no evaluations. It does so too if a row has
        a mistake and `skip_invalid` is not set.
        """
        rows = 0
        left_out: dict[str, str] = {}
        for part in parts:
            check_columns(self.path, part.rows, self.study.config, self.objective)
            rows += len(part.rows) + len(part.left_out)
            left_out |= part.left_out
            found = self._of_part(part.rows)
            if self.skip_invalid or not self.skipped:
                yield [p for p, _ in found], [o for _, o in found]
        if self.skipped and not self.skip_invalid:
            raise UserError(_mistakes(self.path, self.skipped))
        if not self.number:
            raise UserError(f"{self.path}: has no evaluation to start from")
        self.skipped |= left_out
        record["rows"], record["skipped"] = rows, len(self.skipped)
        record["skipped_first"] = _first(self.skipped)

    def _of_part(self, rows: list[Row]) -> list[tuple[Proposal, Outcome]]:
        points, problems = points_of(self.study.space, rows)
        found = []
        for i, row in enumerate(rows):
            if i in problems:
                continue
            try:
                # Only rows that are kept get a number, so slots have no gaps.
                outcome = self.reader.outcome(self.number, points[i], row)
            except ValueError as error:
                problems[i] = str(error)
                continue
            place = f"{self.path.name}, {row.place}"
            picture = self.study.paths.picture(0, self.number)
            folder = self.path.absolute().parent
            said = entered(outcome.metadata, folder, picture, of_a_file=True)
            if LEFT_OUT in said:
                self.pictures[row.place] = str(said[LEFT_OUT])
            metadata = with_origin(said, "imported_from", place)
            proposal = Proposal(
                iteration=0,
                slot=self.number,
                parameters=points[i],
                source=SOURCE,
                origin=self._repeats(row),
            )
            self.ids[str(row.get("id"))] = proposal.id
            found.append((proposal, replace(outcome, metadata=metadata)))
            self.number += 1
        self.skipped |= {rows[i].place: problems[i] for i in sorted(problems)}
        return found


def _mistakes(path: Path, skipped: dict[str, str]) -> str:
    """A line for each of the first mistakes, and how many there are."""
    lines = [f"{path}: {place}: {why}" for place, why in list(skipped.items())[:_SHOWN]]
    many = f"{len(skipped)} such rows in all, " if len(skipped) > 1 else ""
    lines[-1] += f"; {many}--skip-invalid leaves {'them' if many else 'it'} out"
    return "\n".join(lines)


def _check_new(study: Study) -> None:
    if os.path.lexists(study.archive):
        raise UserError(
            f"{study.archive}: is there already, but a warm start begins a new study; give "
            "the study another name"
        )
    for folder in (study.pending(0), study.iteration(0)):
        if (folder / "proposals.json").exists():
            raise UserError(
                f"{folder}: the study has already begun with a design; give the study another name"
            )

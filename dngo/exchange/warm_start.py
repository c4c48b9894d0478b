"""A warm start: evaluations in a file become iteration 0 of a new study.

The record of the iteration names the file and its SHA-256 digest. Each outcome names its row in the
file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.evaluation.pictures import LEFT_OUT, entered
from dngo.exchange.files import check_columns, in_parts
from dngo.exchange.foreign import Meaning
from dngo.exchange.incoming import Evaluation, Imported, Incoming, check_new
from dngo.exchange.outcomes import Reader
from dngo.exchange.points import points_of
from dngo.exchange.rows import Row
from dngo.storage.digest import digest_file
from dngo.study import Study

_SHOWN = 5  # mistakes in a message


def warm_start(
    study: Study, path: Path, *, meaning: Meaning = Meaning(), skip_invalid: bool = False
) -> Imported:
    """Make the evaluations in a file iteration 0 of a new study.

    meaning: what the user says of the file's columns.
    skip_invalid: leave out rows that do not lie in the space instead of refusing them all.

    Raises UserError, with a line for each of the first mistakes.
    """
    check_new(study)
    study.header()  # a study with ambiguous names is refused
    first = next(in_parts(path, study.config, meaning))
    record = {"file": path.name, "format": first.form, "sha256": digest_file(path)}
    if first.said:
        record["read"] = first.said
    return _Rows(study, record, path, meaning, skip_invalid).begin(first.said)


class _Rows(Incoming):
    """The evaluations in the rows of a file."""

    def __init__(
        self, study: Study, record: dict[str, Any], path: Path, meaning: Meaning, skip_invalid: bool
    ):
        super().__init__(study, record)
        self.path, self.meaning, self.skip_invalid = path, meaning, skip_invalid
        self.reader = Reader(study.config, meaning.objective)

    def parts(self) -> Iterator[list[Evaluation]]:
        """The evaluations of each part of the file.

        Raises UserError after the last row if there are no evaluations. It does so too if a row has
        a mistake and `skip_invalid` is not set.
        """
        rows = 0
        left_out: dict[str, str] = {}
        for part in in_parts(self.path, self.study.config, self.meaning):
            check_columns(self.path, part.rows, self.study.config, self.meaning.objective)
            rows += len(part.rows) + len(part.left_out)
            left_out |= part.left_out
            found = self._of_part(part.rows)
            if self.skip_invalid or not self.skipped:
                yield found
        if self.skipped and not self.skip_invalid:
            raise UserError(_mistakes(self.path, self.skipped))
        if not self.number:
            raise UserError(f"{self.path}: has no evaluation to start from")
        self.skipped |= left_out
        self.record["rows"] = rows

    def _of_part(self, rows: list[Row]) -> list[Evaluation]:
        points, problems = points_of(self.study.space, rows)
        found = []
        for i, row in enumerate(rows):
            if i in problems:
                continue
            try:
                outcome = self.reader.outcome(self.number, points[i], row)
            except ValueError as error:
                problems[i] = str(error)
                continue
            picture = self.study.paths.picture(0, self.number)
            folder = self.path.absolute().parent
            said = entered(outcome.metadata, folder, picture, of_a_file=True)
            if LEFT_OUT in said:
                self.pictures[row.place] = str(said[LEFT_OUT])
            outcome, place = replace(outcome, metadata=said), f"{self.path.name}, {row.place}"
            found.append(self.taken(row.get("id"), _repeats(row), points[i], outcome, place))
        self.skipped |= {rows[i].place: problems[i] for i in sorted(problems)}
        return found


def _repeats(row: Row) -> Any:
    """The id that a row of an export says it repeats; None for any other."""
    try:
        origin = json.loads(str(row.get("origin")))
    except (ValueError, RecursionError):
        return None
    return origin.get("repeats") if isinstance(origin, dict) else None


def _mistakes(path: Path, skipped: dict[str, str]) -> str:
    """A line for each of the first mistakes, and how many there are."""
    lines = [f"{path}: {place}: {why}" for place, why in list(skipped.items())[:_SHOWN]]
    many = f"{len(skipped)} such rows in all, " if len(skipped) > 1 else ""
    lines[-1] += f"; {many}--skip-invalid leaves {'them' if many else 'it'} out"
    return "\n".join(lines)

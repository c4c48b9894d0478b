"""Evaluations as rows of a table. All readers and writers of formats share this module.

Columns have the names of `dngo audit --all`: ``parameter_NAME``, ``constraint_NAME``,
``number_NAME``, ``objective``, ``status`` and so on. A file from elsewhere may leave the prefixes
out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.storage.plain import scalar

MOST_CELLS = 2**24  # in a file: more than any study can use, but few enough for memory


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise UserError if two columns of a file have one name."""
    twice = next((name for name, n in Counter(names).items() if name and n > 1), None)
    if twice is not None:
        raise UserError(f"{path}: has two columns called {twice!r}; leave one of them out")


def check_cells(path: Path, cells: int) -> None:
    """Raise UserError if a file has more cells than can be read."""
    if cells > MOST_CELLS:
        raise UserError(
            f"{path}: has more than {MOST_CELLS} cells, more than a study can use; keep "
            "only some of its rows and columns"
        )


@dataclass(frozen=True)
class Row:
    """One evaluation in a file.

    place: its place in the file ("line 7"). values: its cells, by column name.
    """

    place: str
    values: dict[str, Any]

    def get(self, name: str, prefix: str = "") -> Any:
        """A cell, None if it is empty or there is no such column."""
        for key in (prefix + name, name):
            if key in self.values:
                return known(self.values[key])
        return None


@dataclass(frozen=True)
class FileRows:
    """The rows of a file.

    form: its format. left_out: entries of the file that are not rows, by place, with the reason.
    said: how a file of another program was read, in a line.
    """

    form: str
    rows: list[Row]
    left_out: dict[str, str] = field(default_factory=dict)
    said: str = ""


def known(value: Any, *, nan: bool = False) -> Any:
    """A value, or None where it means "does not apply": NaN, empty text.

    nan: whether NaN counts as a value. An array of one value counts as that value.
    """
    if type(value) is str:  # most cells of a file
        return value or None
    found = scalar(value)
    if found is None or (isinstance(found, str) and found == ""):
        return None
    if isinstance(found, float) and nan:
        return found
    try:
        return None if found != found else found  # NaN, and pandas' NaT
    except Exception:  # an array; or pandas' NA, which is not even false
        return None if type(found).__name__ == "NAType" else found

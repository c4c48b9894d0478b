"""Evaluations as the rows of a table: what the readers and the writers of the formats share.

Columns have the names of `dngo audit --all`: ``parameter_NAME``, ``constraint_NAME``, ``number_NAME``,
``objective``, ``status`` and so on. A file that somebody else made may leave the prefixes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dngo.storage.plain import scalar


@dataclass(frozen=True)
class Row:
    """One evaluation in a file.

    place: where it stands there ("line 7").  values: its cells by the name of their column.
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

    form: its format.  left_out: what it has besides, by place, and why that is no row.
    """

    form: str
    rows: list[Row]
    left_out: dict[str, str] = field(default_factory=dict)


def known(value: Any, *, nan: bool = False) -> Any:
    """A value, or None for what stands for "does not apply": NaN, empty text.

    nan: whether NaN is a value here.  An array of one value is that value.
    """
    found = scalar(value)
    if found is None or (isinstance(found, str) and found == ""):
        return None
    if isinstance(found, float) and nan:
        return found
    try:
        return None if found != found else found  # NaN, and pandas' NaT
    except Exception:  # an array; or pandas' NA, which is not even false
        return None if type(found).__name__ == "NAType" else found

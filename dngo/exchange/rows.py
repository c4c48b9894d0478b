"""Evaluations as the rows of a table: what the readers and the writers of the formats share.

Columns have the names of `dngo audit --all`: ``parameter_NAME``, ``constraint_NAME``, ``number_NAME``,
``objective``, ``status`` and so on. A file that somebody else made may leave the prefixes out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


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


def known(value: Any) -> Any:
    """A value, or None for what stands for "does not apply": NaN, empty text."""
    missing = value is None or (isinstance(value, float) and math.isnan(value)) or value == ""
    return None if missing else value

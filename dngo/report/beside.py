"""Points side by side: how they differ in what the archive knows about them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dngo import archive
from dngo.audit import audit
from dngo.errors import UserError
from dngo.report.left import TAGS, tags_of
from dngo.storage.text import cell, visible
from dngo.units import Units, units_of

# Fields that say what proposed a point.
REASONS = ("stage", "source", "feasibility", "training_rows")


@dataclass(frozen=True)
class NamedValues:
    """One name with the value of each point, None where a point has none.

    log: whether to compare its values as factors, as on a logarithmic scale.
    """

    name: str
    values: tuple[Any, ...]
    log: bool = False

    @property
    def differs(self) -> bool:
        """Whether the points have different values."""
        return any(value != self.values[0] for value in self.values)

    @property
    def difference(self) -> str:
        """The second of two numbers minus the first, or the factor between them; empty otherwise."""
        if len(self.values) != 2 or not self.differs:
            return ""
        first, second = self.values
        if any(isinstance(v, bool) or not isinstance(v, int | float) for v in self.values):
            return "differs"
        if self.log and min(first, second) > 0:
            return f"times {second / first:.4g}"
        return f"{second - first:+.4g}"


def beside(path: Path, proposals: Sequence[str]) -> list[NamedValues]:
    """Parameters, outcomes and reasons of some points, one line for each name.

    Raises UserError for fewer than two points, a repeated point, or an unknown point.
    """
    if len(proposals) < 2:
        raise UserError("name at least two points by their ids, for example 3-1 5-2")
    for name in proposals:
        if not isinstance(name, str):
            raise UserError(f"{name!r} is not the id of a point; an id looks like 3-1")
        if proposals.count(name) > 1:
            raise UserError(f"{name}: is named twice")
    found = [_point(audit(path, name)) for name in proposals]
    log = _logarithmic(path)
    names = dict.fromkeys(name for values in found for name in values)
    lines = [NamedValues(name, tuple(f.get(name) for f in found), name in log) for name in names]
    return [line for line in lines if any(value not in (None, "") for value in line.values)]


def _point(data: dict[str, Any]) -> dict[str, Any]:
    """The values of one audit to compare, by name; NaN is None."""
    came, why = data["outcome"], data["proposed"]
    found = {**data["parameters"], "status": came["status"], "message": came["message"]}
    found |= came["objectives"] or {"objective": came["objective"]}
    for name, one in data["constraints"].items():
        held = {1: "satisfied", 0: "violated", None: None}[one.get("held")]
        found[name] = one.get("number", held)
        if "mean" in one:
            found[f"{name} expected"] = one["mean"]
    if why["means"]:
        found |= {f"{name} expected": mean for name, mean in why["means"].items()}
    else:
        found["objective expected"] = why["mean"]
    found |= {name.replace("_", " "): why[name] for name in REASONS} | {"seconds": came["duration"]}
    said = came["metadata"]
    kept = {n: v for n, v in said.items() if isinstance(v, str | int | float)}
    kept |= {TAGS: tags_of(said)} if TAGS in said else {}
    found |= {name: value for name, value in kept.items() if name not in found}
    return {name: None if _is_nan(value) else value for name, value in found.items()}


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _logarithmic(path: Path) -> set[str]:
    """Names whose values are compared as factors, since their scale is logarithmic."""
    space = archive.read_space(path)
    found = {column.name for column in space.columns if column.log}
    header = archive.read_header(path)
    assert header is not None
    config = json.loads(archive.iteration_attributes(path, header.iterations - 1)["config"])
    units = {"objective": Units.of(config, header.identity["direction"]), **units_of(config)}
    named = [name for name, one in units.items() if one.log]
    return found | {*named, *(f"{name} expected" for name in named)}


def text(proposals: Sequence[str], lines: Sequence[NamedValues]) -> str:
    """The points for a terminal, a column for each. Two points have a column with their difference."""
    more = ["difference"] * (len(proposals) == 2)
    rows = [
        (line.name, [*map(cell, line.values), *[line.difference for _ in more]]) for line in lines
    ]
    return side_by_side([*proposals, *more], rows, 60 + 30 * len(proposals))


def side_by_side(
    heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], width: int
) -> str:
    """A table for a terminal: a name before each row, and a column for each head."""
    shown = Table(box=None, padding=(0, 2), show_header=True)
    shown.add_column("")
    for head in heads:
        shown.add_column(head, justify="right", overflow="fold")
    for name, cells in rows:
        shown.add_row(visible(name), *cells)
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()

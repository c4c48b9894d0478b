"""A search space in Python: `{"x": (0, 1), "n": Int(1, 9), "kind": ["a", "b"]}`.

Each function returns the section of a configuration for its parameter. `dngo.config` checks it.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dngo.config.placeholders import RESERVED
from dngo.elsewhere import in_our_words
from dngo.errors import UserError
from dngo.outcomes import NAMES
from dngo.storage.plain import plain, scalar
from dngo.storage.text import shown


@in_our_words
def Float(
    low: float,
    high: float,
    *,
    log: bool = False,
    step: float | None = None,
    default: float | None = None,
    active_if: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A real number from low to high, both included.

    log: search on a logarithmic scale.
    step: a grid.
    default: evaluated first.
    active_if: the parameter exists only if other parameters have these values: `{"kind": "a"}`.
    """
    found = {"type": "float", "low": low, "high": high, "log": log or None, "step": step}
    return _section({**found, "default": default, "active_if": active_if})


@in_our_words
def Int(
    low: int,
    high: int,
    *,
    log: bool = False,
    step: int | None = None,
    default: int | None = None,
    active_if: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A whole number from low to high, both included. `Float` explains the other arguments."""
    found = {"type": "int", "low": low, "high": high, "log": log or None, "step": step}
    return _section({**found, "default": default, "active_if": active_if})


@in_our_words
def Choice(
    choices: Sequence[Any],
    *,
    ordered: bool = False,
    default: Any = None,
    active_if: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One of several values: text, numbers, true and false.

    ordered: whether their order has a meaning.
    """
    values = list(choices)
    if not ordered and sorted(map(repr, values)) == ["False", "True"]:
        found: dict[str, Any] = {"type": "boolean"}
    elif ordered:
        found = {"type": "ordinal", "values": values}
    else:
        found = {"type": "categorical", "choices": values}
    return _section({**found, "default": default, "active_if": active_if})


@dataclass(frozen=True)
class Named:
    """A space of another library, whose names and choices may be anything.

    names: our name of each parameter. values: for a choice among objects, each object by its word.
    """

    sections: dict[str, dict[str, Any]]
    names: dict[str, str]
    values: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, space: Mapping[str, Any]) -> Named:
        """The space with words for objects.

        Choices that are text, numbers, true or false stay as they are.
        """
        names, given, values = {}, {}, {}
        for i, (name, parameter) in enumerate(space.items()):
            legal = re.fullmatch(r"[A-Za-z_]\w{0,63}", name, re.ASCII)
            own = name if legal and name not in (*RESERVED, *NAMES) else f"parameter_{i}"
            names[name] = own
            choices = parameter if isinstance(parameter, list) else None
            if choices is not None and not _is_plain(choices):
                values[own] = {
                    f"{j}: {str(choice)[:80]}": choice for j, choice in enumerate(choices)
                }
                parameter = Choice(list(values[own]))
            elif choices is not None:
                parameter = Choice(choices)
            given[own] = parameter
        return cls(sections(given), names, values)

    def theirs(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point in the names and values of the other library."""
        return {
            name: self.values[own][point[own]] if own in self.values else point[own]
            for name, own in self.names.items()
            if own in point
        }

    def ours(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point of the other library in the names and values of our study."""
        found = {}
        for name, own in self.names.items():
            if name not in point:
                continue
            value = point[name]
            for word, choice in self.values.get(own, {}).items():
                if choice is value or (type(choice) is type(value) and choice == value):
                    value = word
                    break
            found[own] = value
        return found


def _is_plain(choices: list[Any]) -> bool:
    """Whether an archive can hold every value, and no two values look alike."""
    scalars = (scalar(choice) for choice in choices)
    return all(
        isinstance(c, bool | int | str) or (isinstance(c, float) and math.isfinite(c))
        for c in scalars
    ) and len({str(c).lower() for c in choices}) == len(choices)


def sections(space: Any) -> dict[str, dict[str, Any]]:
    """The section `space` of a configuration; raises UserError for what is not a parameter."""
    if callable(space):
        raise UserError("space: comes second, after the function: dngo.minimize(f, space, 100)")
    if not isinstance(space, Mapping):
        raise UserError(
            f"space: must be a mapping of names to parameters, for example {{'x': (0, 1)}}, "
            f"not {shown(space)}"
        )
    return {str(name): _parameter(str(name), value) for name, value in space.items()}


def outside() -> int:
    """The `stacklevel` with which a caller's warning names the line outside this package."""
    frame, level = inspect.currentframe(), 0
    while frame and frame.f_globals.get("__name__", "").startswith("dngo."):
        frame, level = frame.f_back, level + 1
    return level


def _parameter(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return _section(value)
    if isinstance(value, range):
        if not value:
            raise UserError(f"space.{name}: {value} is empty; write dngo.Int(1, 9)")
        step = abs(value.step)
        return Int(min(value), max(value), step=step if step > 1 else None)
    if isinstance(value, tuple):
        texts = any(isinstance(each, str) for each in value[:2])
        if len(value) in (2, 3) and value[2:] in ((), ("log",)) and not texts:
            return Float(value[0], value[1], log=len(value) == 3)
        raise UserError(
            f"space.{name}: a tuple is (low, high) or (low, high, 'log'); choices stand in a list, and a "
            "grid is dngo.Float(0, 1, step=0.1)"
        )
    if isinstance(value, list):
        if len(value) == 2 and all(type(scalar(each)) in (int, float) for each in value):
            warnings.warn(
                f"space.{name}: {value} is a choice between two numbers; a range is "
                f"({value[0]}, {value[1]}). If you mean the choice, write dngo.Choice({value})",
                stacklevel=outside(),
            )
        return Choice(value)
    if value is bool:
        return Choice([False, True])
    if isinstance(scalar(value), str | int | float):
        return {"type": "fixed", "value": scalar(value)}
    raise UserError(
        f"space.{name}: {shown(value)} is no parameter; write (low, high) for a real "
        "number, dngo.Int(1, 9) for a whole one, ['a', 'b'] for a choice"
    )


def _section(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given keys only, with values as in a configuration."""
    found = {str(key): value for key, value in given.items() if value is not None}
    if isinstance(found.get("active_if"), Mapping):
        found["active_if"] = {
            str(n): list(v) if isinstance(v, tuple | set) else v
            for n, v in found["active_if"].items()
        }
    section: dict[str, Any] = plain(found)
    return section

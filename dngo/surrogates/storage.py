"""Stores the parts of a surrogate in HDF5. Each class writes and reads itself, under a name.

A part is an object with `save(group)` and a class method `load(group)`. The file holds its name.
The class of a name is looked up in the entry points `dngo.components`, of this package and others.
So a file can only name code that was installed on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dngo.plugins import Registry
from dngo.types import Group

FORMAT = 3  # 2: Gaussian processes and weights among the components; 3: types by name
T = TypeVar("T", bound=type)
COMPONENTS = Registry("dngo.components")


def stored_as(name: str) -> Callable[[T], T]:
    """Decorator for a class with `save` and `load`: its type's name in files and of its entry
    point."""

    def register(part: T) -> T:
        part.stored_as = name  # type: ignore[attr-defined]
        return part

    return register


def write(part: Any, group: Group) -> None:
    """Write a part and the name of its type into an empty group."""
    group.attrs["type"] = part.stored_as
    part.save(group)


def read(group: Group, name: str | None = None) -> Any:
    """The part that `write` wrote, or, with a name, a part of that type.

    Raises ValueError if the type is not known, or if its package is not installed.
    """
    name = str(group.attrs["type"] if name is None else name)
    try:
        part = COMPONENTS.find(name)
    except LookupError:
        known = ", ".join(COMPONENTS.names())
        raise ValueError(
            f"{group.name}: no part of a surrogate is called {name!r}; known: {known}"
        ) from None
    return part.load(group)

"""What a Python function is, as digests of its parts: two functions are the same if all of them agree.

The parts are its code, the values that it closes over, its defaults, what is bound to it, and the
globals that it reads. The functions, classes and modules of the user that it reads are followed. Of
an installed package the name and the version count. Comments, docstrings and line numbers do not.
Code is compared as the instructions that run, so a file that was edited since its import, and a
function of a notebook, are no special cases.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import sys
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

from dngo.evaluation.instructions import Uses, code_digest, uses_of
from dngo.evaluation.modules import Imported, is_own, version_of
from dngo.evaluation.values import Incomparable, Value, is_of

THIS = "the function"
VERSION = "the version of "  # an installed package's, among the parts; its text is the version
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# Parts that a digest of another Python does not name in the same way.
OF_PYTHON = ("the code of ", "the module ")
NOT_COMPARED = "not compared"
# A module's and a class's own records of what they are called and where they stand.
_MODULE_NAMES = ("__name__", "__package__", "__spec__", "__loader__", "__file__", "__builtins__")
_CLASS_NAMES = {
    *("__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__annotations__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__", "__firstlineno__"),
    *(
        "__static_attributes__",
        "__slotnames__",
        "__abstractmethods__",
        "__parameters__",
        "__orig_bases__",
    ),
    *("__dataclass_fields__", "__dataclass_params__", "_abc_impl", "__signature__"),
}
_APPENDED = (list, set, dict, deque)


def identity(function: Any) -> dict[str, str]:
    """SHA-256 of each part of a function, by what the part is called.

    A part that cannot be compared (too large, an open connection, a lock) has a text that begins
    with `NOT_COMPARED` and says why.
    """
    walk = _Walk(function)
    walk.part(f"what is bound to {THIS}", function)
    while walk.waiting:
        label, found = walk.waiting.popleft()
        if isinstance(found, type):
            walk.follow_class(label, found)
        else:
            walk.follow_function(label, found)
    walk.imported.follow()
    walk.parts |= walk.imported.parts
    return dict(sorted(walk.parts.items()))


def not_compared(parts: Mapping[str, str]) -> list[str]:
    """The parts of a function that cannot be compared, each with the reason."""
    return [
        f"{name} ({text.removeprefix(NOT_COMPARED + ': ')})"
        for name, text in parts.items()
        if text.startswith(NOT_COMPARED)
    ]


def inner(function: Any) -> Any:
    """The function within a partial one or a method, or the class of an object."""
    while isinstance(function, functools.partial | types.MethodType):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return function if hasattr(function, "__name__") else type(function)


def home_of(function: Any) -> str:
    """The folder of a function's file; paths below it are compared from there. Empty without a file."""
    file = getattr(inner(function), "__globals__", {}).get("__file__")
    return os.path.dirname(os.path.abspath(file)) if isinstance(file, str) else ""


class _Walk:
    """Goes through what a function reads. Each function and class is described once.

    parts: the digests so far.
    waiting: functions and classes that were met and are not yet described, with their labels.
    """

    def __init__(self, function: Any):
        self.parts: dict[str, str] = {}
        self.waiting: deque[tuple[str, Any]] = deque()
        self.imported = Imported()
        self._labels: dict[int, str] = {}
        self._described: dict[int, Any] = {}  # an id stays valid as long as its object does
        self._names: dict[str, int] = {}
        self._values = Value(self, home_of(function))
        self._root = inner(function)
        if isinstance(self._root, types.FunctionType):
            self._labels[id(self._root)] = THIS

    # ---- for values -----------------------------------------------------------------------------

    def label(self, found: Any) -> str:
        """How digests refer to a function or a class of the user, which is described apart."""
        if id(found) not in self._labels:
            name = str(found.__qualname__).replace("<locals>.", "")
            self._names[name] = count = self._names.get(name, 0) + 1
            self._labels[id(found)] = name if count == 1 else f"{name} #{count}"
        label = self._labels[id(found)]
        if id(found) not in self._described:
            self._described[id(found)] = found
            self.waiting.append((label, found))
        return label

    def package(self, module: str) -> None:
        """Note the version of the package that a module belongs to."""
        top = module.partition(".")[0]
        if version := version_of(top):
            self.parts[f"{VERSION}{top}"] = version

    def module(self, module: types.ModuleType) -> None:
        """Note everything in a module of the user, which a function uses as a whole."""
        names = [n for n in vars(module) if not (n.startswith("__") and n.endswith("__"))]
        for name in sorted(names):
            self.part(f"the value of {module.__name__}.{name}", vars(module)[name])

    # ---- what is followed -----------------------------------------------------------------------

    def part(self, name: str, value: Any) -> None:
        """Note the digest of a value."""
        if name in self.parts:
            return
        self.parts[name] = ""  # it may refer to itself
        try:
            self.parts[name] = self._values.digest(value)
        except Incomparable as error:
            self.parts[name] = f"{NOT_COMPARED}: {error}"

    def follow_function(self, label: str, function: types.FunctionType) -> None:
        """Note the parts of a function: its code, defaults, closure, attributes and globals."""
        code = function.__code__
        self.parts[f"the code of {label}"] = code_digest(code)
        plain = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        named = zip(plain[len(plain) - len(defaults) :], defaults, strict=True)
        for name, value in [*named, *(function.__kwdefaults__ or {}).items()]:
            self.part(f"the default of {name} in {label}", value)
        uses = uses_of(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not yet filled
                if not _is_state(uses, name, cell.cell_contents):
                    self.part(f"the value of {name} in {label}", cell.cell_contents)
        for name, value in vars(function).items():
            if name != "__wrapped__":
                self.part(f"the attribute {name} of {label}", value)
        for chain in sorted(uses.chains):
            self._global(label, chain, function.__globals__, uses)
        self.imported.add(uses.imports, function.__globals__)

    def _global(
        self, label: str, chain: tuple[str, ...], names: Mapping[str, Any], uses: Uses
    ) -> None:
        """Note what a name stands for: `helpers.limit` is a value in a module of the user."""
        first, *more = chain
        if first in _MODULE_NAMES:
            return
        if first not in names:
            if not hasattr(builtins, first):
                self.parts[f"the value of {first} in {label}"] = "there is none"
            return
        value, used = names[first], first
        while isinstance(value, types.ModuleType) and is_own(value.__name__) and more:
            used = f"{used}.{more[0]}"
            if not hasattr(value, more[0]):
                self.parts[f"the value of {used} in {label}"] = "there is none"
                return
            value = getattr(value, more.pop(0))
        if not _is_state(uses, first, value):
            self.part(f"the value of {used} in {label}", value)

    def follow_class(self, label: str, found: type) -> None:
        """Note the parts of a class: its bases, its functions and its other attributes."""
        self.part(f"the bases of {label}", (type(found), *found.__bases__))
        for name, value in sorted(vars(found).items()):
            if name in _CLASS_NAMES or (
                name.startswith("__pydantic_") and name != "__pydantic_fields__"
            ):
                continue
            self.part(f"the attribute {name} of {label}", value)


def _is_state(uses: Uses, name: str, value: Any) -> bool:
    """Whether a function writes a value and never reads what was there before its calls: a counter,
    a list that it appends to.
    """
    return name in uses.writes or (name in uses.appended and is_of(value, _APPENDED))

"""The code of a Python function: its digest, and which names it reads.

It is read from the instructions that run, without what depends on where they stand in a file.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Instructions that depend on the layout of the text, or on how much else there is.
_LAYOUT = ("CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PRECALL")
# What a class body writes of its text and its place.
_PLACE = ("__doc__", "__firstlineno__", "__qualname__", "__module__", "__static_attributes__")
_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x100 | 0x200  # *args, **kwargs, generators, coroutines
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_FREE = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF")
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_APPENDS = ("append", "add", "extend", "insert", "appendleft")  # their effect reads nothing


@dataclass
class Uses:
    """The names that a function and the functions within it use.

    chains: each global with the attributes that are read from it at once: ("helpers", "limit").
    writes: globals and closed-over names that it assigns to.
    appended: names that it does nothing with but append.
    imports: (level, module, names) of its import statements.
    """

    chains: set[tuple[str, ...]] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    appended: set[str] = field(default_factory=set)
    imports: set[tuple[int, str, tuple[str, ...]]] = field(default_factory=set)


def code_digest(code: types.CodeType) -> str:
    """SHA-256 of what code does. Comments, docstrings, names of functions and line numbers do not count."""
    state = hashlib.sha256()
    _feed(state, code)
    return state.hexdigest()


@functools.lru_cache(maxsize=4096)
def uses_of(code: types.CodeType) -> Uses:
    """The names that code and the code within it use."""
    found, read = Uses(), set[str]()
    for each in _codes(code):
        _gather(each, found, read)
    found.appended -= read
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _gather(code: types.CodeType, found: Uses, read: set[str]) -> None:
    steps = [step for step in dis.get_instructions(code) if step.opname not in _LAYOUT]
    own = {step.argval for step in steps if step.opname == "STORE_NAME"}
    for i, step in enumerate(steps):
        name = step.argval
        if step.opname in (*_GLOBAL, *_FREE):
            chain = [name]
            for later in steps[i + 1 :]:
                if later.opname not in _ATTRIBUTE:
                    break
                chain.append(later.argval)
            appends = len(chain) == 2 and chain[1] in _APPENDS
            (found.appended if appends else read).add(name)
            if step.opname in _GLOBAL and name not in own:
                found.chains.add(tuple(chain))
        elif step.opname in _WRITES and (name in code.co_freevars or "DEREF" not in step.opname):
            found.writes.add(name)
        elif step.opname == "IMPORT_NAME":
            level, names = (steps[i - 2].argval, steps[i - 1].argval) if i > 1 else (0, None)
            found.imports.add((level if isinstance(level, int) else 0, name, tuple(names or ())))


def _feed(state: Any, code: types.CodeType) -> None:
    arguments = code.co_argcount + code.co_kwonlyargcount
    arguments += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    head = (counts, code.co_flags & _FLAGS, code.co_varnames[:arguments], code.co_freevars)
    state.update(repr(head).encode())
    state.update(code.co_exceptiontable)
    steps = list(dis.get_instructions(code))
    # Jumps count instructions, since their offsets depend on the size of others.
    places, number = {}, 0
    for step in steps:
        places[step.offset] = number
        number += step.opname not in _LAYOUT
    jumps = {*dis.hasjrel, *dis.hasjabs}
    steps = [step for step in steps if step.opname not in _LAYOUT]
    for i, step in enumerate(steps):
        after = steps[i + 1] if i + 1 < len(steps) else None
        value = places.get(step.argval, step.argval) if step.opcode in jumps else step.argval
        if after and after.opname == "STORE_NAME" and after.argval in _PLACE:
            value = None
        state.update(step.opname.encode())
        _constant(state, value)


def _constant(state: Any, value: Any) -> None:
    """Feed an argument of an instruction: constants by type and value, 1 apart from 1.0 and True."""
    if isinstance(value, types.CodeType):
        state.update(b"code")
        _feed(state, value)
    elif isinstance(value, tuple):
        state.update(b"tuple%d:" % len(value))
        for item in value:
            _constant(state, item)
    elif isinstance(value, frozenset):
        state.update(b"set%d:" % len(value))
        for item in sorted(f"{type(v).__name__}:{v!r}" for v in value):
            _constant(state, item)
    else:
        text = hex(value) if type(value) is int else repr(value)
        data = f"{type(value).__name__}:{text}".encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(data) + data)

"""Digests of Python values by their content, for the identity of a function.

Values are taken apart as `copy` does (`__reduce_ex__`), and nothing of them is called again. Equal
values have equal digests in every process: sets and mappings are sorted, memory addresses and the
seed of hashes do not count.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import os
import sys
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Protocol

from dngo.evaluation.instructions import code_digest
from dngo.evaluation.modules import is_own

MOST = 2**28  # bytes of all values of a function; reading more would take seconds
ITEMS = 2_000_000  # objects
SYSTEM = 64  # bits: a longer seed of NumPy comes from the system, and differs each time
_LRU = type(functools.lru_cache(lambda: None))
_ATOMS = (type(None), bool, float, complex, type(...), type(NotImplemented))
_NAMED = (  # parts of classes that stand for themselves
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
_DECORATED: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
    types.CellType: ("cell_contents",),
}


class Incomparable(Exception):
    """A value has no content that can be compared; the text says why."""


class Described(Protocol):
    """Describes functions and classes of the user apart from the values that refer to them."""

    def label(self, found: Any) -> str:
        """The label of a function or a class."""

    def package(self, module: str) -> None:
        """Note the version of a package."""

    def module(self, module: types.ModuleType) -> None:
        """Describe everything in a module of the user."""


def is_of(value: Any, kinds: Iterable[type]) -> bool:
    """Whether a value is exactly of one of these types, and not of a subclass."""
    return type(value) in kinds


class Value:
    """Digests of the values of one function.

    home: paths below this folder are compared from there, so that a project may move.
    """

    def __init__(self, described: Described, home: str = ""):
        self.described, self.home = described, home
        self.bytes, self.items = MOST, ITEMS

    def digest(self, value: Any) -> str:
        """SHA-256 of a value; raises Incomparable."""
        feed = _Feed(self)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                feed.value(value)
        except RecursionError:
            raise Incomparable(f"{kind(value)}: it is nested too deeply") from None
        return feed.state.hexdigest()


def kind(value: Any) -> str:
    """The type of a value in words."""
    found = type(value)
    place = "" if found.__module__ in ("builtins", "__main__") else f"{found.__module__}."
    return f"{place}{found.__qualname__}"


class _Feed:
    """Feeds one value to a digest. seen: containers and objects by their order."""

    def __init__(self, owner: Value):
        self.owner, self.state = owner, hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []

    def tag(self, *words: Any) -> None:
        """Feed words, each with its length."""
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogatepass")
            self.owner.bytes -= len(data)
            self.state.update(b"%d:" % len(data) + data)
        if self.owner.bytes < 0:
            raise Incomparable(f"its values are larger than {MOST // 2**20} MB")

    def value(self, value: Any) -> None:
        """Feed any value."""
        self.owner.items -= 1
        if self.owner.items < 0:
            raise Incomparable(f"its values have more than {ITEMS} parts")
        found = type(value)
        if found in _ATOMS:
            self.tag(found.__name__, repr(value))
        elif found is int:
            self.tag("int", hex(value))
        elif found is str:
            self._text("str", value)
        elif found in (bytes, bytearray):
            self.tag(found.__name__, bytes(value))
        elif found is tuple:
            self._items("tuple", value)
        elif found in (set, frozenset):
            self._sorted(found.__name__, [self.owner.digest(item) for item in value])
        elif found is types.CodeType:
            self.tag("code", code_digest(value))
        elif not self._reference(value) and not self._again(value):
            self._content(value)

    def _text(self, name: str, text: str) -> None:
        home = self.owner.home
        if home and (text == home or text.startswith(home + os.sep)):
            name, text = f"{name} below the function's folder", text[len(home) :]
        self.tag(name, text)

    def _items(self, name: str, values: Iterable[Any]) -> None:
        held = list(values)
        self.tag(name, len(held))
        for item in held:
            self.value(item)

    def _sorted(self, name: str, digests: list[str]) -> None:
        self.tag(name, len(digests), *sorted(digests))

    def _pairs(self, name: str, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Feed the pairs of a mapping, sorted by the digests of their keys."""
        held = sorted(((self.owner.digest(k), v) for k, v in pairs), key=lambda pair: pair[0])
        self.tag(name, len(held))
        for key, value in held:
            self.tag(key)
            self.value(value)

    def _again(self, value: Any) -> bool:
        """Whether an object was fed before: then only its number is, so that circles end."""
        number = self._seen.get(id(value))
        if number is not None:
            self.tag("again", number)
            return True
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        return False

    # ---- functions, classes and modules ---------------------------------------------------------

    def _reference(self, value: Any) -> bool:
        """Feed what is described apart, or by its name; False if a value is nothing of the kind."""
        described = self.owner.described
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            if is_own(str(value.__module__)):
                self.tag("class", described.label(value))
            else:
                self._name("class", value.__module__, value.__qualname__)
        elif isinstance(value, types.ModuleType):
            if is_own(value.__name__):
                described.module(value)
                self.tag("module", value.__name__)
            else:
                self._name("module", value.__name__, "")
        elif isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            bound = value.__self__
            name = getattr(value, "__module__", None) or ""
            self._name("builtin", name, value.__qualname__)
            if not isinstance(bound, types.ModuleType):
                self.value(bound)
        elif isinstance(value, _NAMED):
            self.tag("descriptor", value.__qualname__)
        else:
            return False
        return True

    def _function(self, value: types.FunctionType) -> None:
        module = str(value.__globals__.get("__name__", ""))
        if is_own(module):
            self.tag("function", self.owner.described.label(value))
            return
        self._name("function", module, value.__code__.co_qualname)
        if hasattr(value, "registry") and hasattr(value, "dispatch"):  # functools.singledispatch
            self._pairs("registry", value.registry.items())
            return
        for cell in value.__closure__ or ():  # what a decorator of a package was given
            self.value(cell)

    def _name(self, what: str, module: str, name: str) -> None:
        self.owner.described.package(module)
        self.tag(what, module, name)

    # ---- content --------------------------------------------------------------------------------

    def _content(self, value: Any) -> None:
        found = type(value)
        if found is list:
            self._items("list", value)
        elif found is dict or found is types.MappingProxyType:
            self._pairs("dict", value.items())
        elif found is _LRU:
            self.tag("lru_cache", repr(value.cache_parameters()))
            self.value(value.__wrapped__)
        elif names := _DECORATED.get(found):
            self.tag(found.__name__)
            for name in names:
                self._attribute(value, name)
        elif isinstance(value, PurePath):
            self._text(found.__name__, str(value))
        elif special := _special(value):
            special(self, value)
        else:
            self._reduced(value)

    def _attribute(self, value: Any, name: str) -> None:
        try:
            self.value(getattr(value, name))
        except ValueError:  # a cell that is not yet filled
            self.tag("empty")

    def _reduced(self, value: Any) -> None:
        """Feed an object by its class and its state, as `copy` would take it."""
        try:
            way = copyreg.dispatch_table.get(type(value))
            reduced: Any = way(value) if way else value.__reduce_ex__(4)
        except Exception:
            raise Incomparable(f"{kind(value)}: it has no content to compare") from None
        if isinstance(reduced, str):
            self._name("global", _module_with(value, reduced), reduced)
            return
        made, given, state, items, pairs = [*reduced, None, None, None][:5]
        self.tag("object")
        self.value(made)
        self.value(given)
        self.value(state)
        self._items("items", items or ())
        if isinstance(value, OrderedDict):
            self._items("pairs", [part for pair in pairs or () for part in pair])
        else:
            self._pairs("pairs", pairs or ())


def _module_with(value: Any, name: str) -> str:
    """The module in which an object stands that is known by its name only."""
    first = getattr(value, "__module__", None) or type(value).__module__
    for module in (first, *list(sys.modules)):
        if vars(sys.modules.get(module, sys)).get(name) is value:
            return str(module)
    raise Incomparable(f"{kind(value)} {name}: it has no content to compare")


def _special(value: Any) -> Callable[[_Feed, Any], None] | None:
    """How to feed arrays and random generators; None for all else."""
    top = type(value).__module__.partition(".")[0]
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and top in ("numpy", "random"):
        if type(value) in (numpy.ndarray, numpy.memmap):
            return _array
        if isinstance(value, numpy.random.Generator):
            return _generator
        if isinstance(value, numpy.random.RandomState):
            return _random
    if top == "random" and hasattr(value, "getstate"):
        return _random
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor
    return None


def _array(feed: _Feed, value: Any) -> None:
    feed.owner.bytes -= value.nbytes
    if feed.owner.bytes < 0:
        raise Incomparable(f"an array of {value.nbytes / 2**20:.0f} MB")
    feed.tag("array", value.dtype.str, value.dtype.descr, value.shape)
    if value.dtype.hasobject:
        feed._items("objects", value.ravel().tolist())
    else:
        numpy = sys.modules["numpy"]
        feed.state.update(numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8).data)


def _tensor(feed: _Feed, value: Any) -> None:
    torch = sys.modules["torch"]
    try:
        size = value.numel() * value.element_size()
        if size > feed.owner.bytes:
            raise Incomparable(f"a tensor of {size / 2**20:.0f} MB")
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError):
        raise Incomparable(f"{kind(value)}: its values cannot be read") from None
    feed.tag("tensor", kind(value), value.dtype, tuple(value.shape), bool(value.requires_grad))
    _array(feed, data)


def _generator(feed: _Feed, value: Any) -> None:
    """A generator of NumPy is its seed: its state moves on with each number."""
    source = value.bit_generator
    seed = getattr(source, "seed_seq", None) or getattr(source, "_seed_seq", None)
    entropy = getattr(seed, "entropy", None)
    if seed is None or not isinstance(entropy, int) or entropy.bit_length() > SYSTEM:
        raise Incomparable("a random generator without a known seed")
    feed.tag("generator", kind(source), entropy, tuple(seed.spawn_key))


def _random(feed: _Feed, value: Any) -> None:
    raise Incomparable("a random generator without a known seed")

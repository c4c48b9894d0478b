"""Which modules are the user's, the versions of the others, and modules that functions import."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import site
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from dngo.evaluation.instructions import code_digest, uses_of

OURS = __name__.partition(".")[0]


@functools.cache
def _installed() -> tuple[Path, ...]:
    """The folders of what is installed."""
    names = [sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")]
    names += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple({Path(name).resolve() for name in names if name})


def is_own(name: str) -> bool:
    """Whether a module is the user's, and not this package, of Python, or installed."""
    top = name.partition(".")[0]
    if top == "__main__":
        return True
    if top in sys.stdlib_module_names or top == OURS:
        return False
    file = _file(top)
    return file is None or not _is_installed(file)  # no file: of a notebook or a prompt


@functools.lru_cache(maxsize=4096)
def _is_installed(file: Path) -> bool:
    path = file.resolve()
    if "site-packages" in path.parts or "dist-packages" in path.parts:
        return True
    return any(folder in path.parents for folder in _installed())


def version_of(top: str) -> str:
    """The version of an installed package; empty for one of Python's, for the user's and for this one."""
    if top in sys.stdlib_module_names or top == OURS or is_own(top):
        return ""
    return _version(top)


@functools.cache
def _version(top: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        return importlib.metadata.version(top)
    names = importlib.metadata.packages_distributions().get(top, [])
    return ", ".join(sorted({importlib.metadata.version(name) for name in names}))


def _file(top: str) -> Path | None:
    """The file of a module, or a folder of a package without one; None if it has neither."""
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    if file is None and module is not None:
        file = next(iter(getattr(module, "__path__", ())), None)
    if file is None and module is None and (spec := _spec(top)) is not None:
        file = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    return Path(file) if file is not None else None


@functools.cache
def _spec(name: str) -> ModuleSpec | None:
    """Where a module lies. It is not imported, and neither are the packages around it."""
    top, *inner = name.split(".")
    try:
        found = importlib.util.find_spec(top)
        for i, _ in enumerate(inner):
            if found is None:
                return None
            whole = ".".join([top, *inner[: i + 1]])
            found = PathFinder.find_spec(whole, list(found.submodule_search_locations or ()))
        return found
    except (ImportError, ValueError, AttributeError):
        return None


class Imported:
    """The modules that functions import when they are called, and what these import.

    They are read from their files: importing them here could cost much, or change what a fork can do.
    """

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._waiting: list[str] = []

    def add(
        self, imports: Iterable[tuple[int, str, tuple[str, ...]]], names: Mapping[str, Any]
    ) -> None:
        """Note import statements. names: the globals of the module in which they stand."""
        self._add(imports, str(names.get("__package__") or ""))

    def _add(self, imports: Iterable[tuple[int, str, tuple[str, ...]]], package: str) -> None:
        for level, name, members in sorted(imports):
            if level:
                above = package.split(".")[: len(package.split(".")) - level + 1]
                name = ".".join([*above, *([name] if name else [])])
            if not name:
                continue
            parts = name.split(".")
            self._waiting += [".".join(parts[: i + 1]) for i in range(len(parts))]
            if is_own(name):
                self._waiting += [f"{name}.{m}" for m in members if _spec(f"{name}.{m}")]

    def follow(self) -> None:
        """Digest the modules of the user, and note the versions of the others."""
        _spec.cache_clear()  # a file may be new
        seen = set()
        while self._waiting:
            name = self._waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if not is_own(name):
                top = name.partition(".")[0]
                if version := version_of(top):
                    self.parts[f"the version of {top}"] = version
                continue
            self._read(name)

    def _read(self, name: str) -> None:
        spec = _spec(name)
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            return
        data = Path(spec.origin).read_bytes()
        code: types.CodeType | None = None
        with contextlib.suppress(SyntaxError, ValueError):
            code = compile(data, spec.origin, "exec", dont_inherit=True)
        known = hashlib.sha256(data).hexdigest() if code is None else code_digest(code)
        self.parts[f"the module {name}"] = known
        if code is not None:
            package = name if spec.submodule_search_locations else name.rpartition(".")[0]
            self._add(uses_of(code).imports, package)

"""Objects that people pass to a study: a surrogate or a gain of their own.

A configuration and an archive have an object's name, the digest of its source and its attributes. They
hold no code. An archive from a stranger can name nothing that would be imported: an object is found
only if its class or function was given in this process, or if the user's own configuration names it
(`trust`).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dngo.errors import UserError

ROLES = {
    "surrogate": "an object with fit(x, y) and predict(x), which returns means and deviations",
    "acquisition": "a function gain(values, best) of drawn values",
}


class Reference(BaseModel):
    """What names an object in a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[\w.]+:[\w.]+$",
        description="module:name of a class or a function of your own. In Python, pass the object itself.",
    )
    source: str = Field(
        default="", description="SHA-256 of its source, if no other will do. Python writes it."
    )
    folder: str | None = Field(
        default=None, description="The folder of its module; null: the module is installed."
    )
    attributes: dict[str, Any] = Field(
        default_factory=dict, description="The attributes of an object of that class."
    )

    @property
    def reference(self) -> Reference:
        """The reference alone, if this is a section that has further keys."""
        return Reference(**{name: getattr(self, name) for name in Reference.model_fields})

    @property
    def key(self) -> tuple[str, str]:
        """The name and the source: of equal keys the code is the same."""
        return self.name, self.source


_KNOWN: dict[tuple[str, str], Any] = {}  # classes and functions that were given, by their keys
_TRUSTED: set[tuple[str, str]] = set()  # keys in a user's own configuration


def given(found: Any, role: str) -> Reference:
    """The reference to an object that was passed in this process, as a key of `ROLES`.

    Raises UserError if it cannot have that role, or if an archive could not name it.
    """
    is_kind = inspect.isclass(found) or inspect.isroutine(found)
    fits = (
        callable(found)
        if role == "acquisition"
        else hasattr(found, "fit") and hasattr(found, "predict")
    )
    if not fits:
        raise UserError(f"{role}: must be a name, a mapping, or {ROLES[role]}, not {found!r}")
    attributes = {} if is_kind else vars(found)
    if not _is_plain(attributes):
        raise UserError(
            f"{role}: the attributes of {type(found).__name__} must be numbers, texts, lists and mappings, "
            "so that an archive can hold them; make everything else in `fit`"
        )
    return _reference(found if is_kind else type(found), attributes)


def _is_plain(attributes: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(attributes)) == attributes)
    except (TypeError, ValueError):
        return False


def _reference(kind: Any, attributes: dict[str, Any]) -> Reference:
    """The reference to an object of a class, or to a function, which is known from now on."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    module = Path(file).stem if kind.__module__ == "__main__" and file else kind.__module__
    name = kind.__qualname__.replace("<locals>.", "").replace("<lambda>", "function")
    found = Reference(
        name=f"{module}:{name}",
        source=source_of(kind),
        folder=str(Path(file).resolve().parents[module.count(".")]) if file else None,
        attributes=attributes,
    )
    _KNOWN[found.key] = kind
    return found


def source_of(kind: Any) -> str:
    """SHA-256 of the source of a class or a function; empty if it is not known."""
    try:
        return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        return ""


def trust(reference: Reference) -> None:
    """Note that a user's own configuration names an object, so that its module may be imported."""
    _TRUSTED.add(reference.key)


def find(reference: Reference) -> Any:
    """A function, or a new object with the reference's attributes.

    Raises UserError if it is not known and may not be imported, if it cannot be imported, or if
    its source has changed.
    """
    kind = _KNOWN.get(reference.key) or _imported(reference)
    if not inspect.isclass(kind):
        return kind
    made = kind.__new__(kind)
    vars(made).update(reference.attributes or vars(kind()))
    return made


def _imported(reference: Reference) -> Any:
    if reference.key not in _TRUSTED:
        raise UserError(
            f"{reference.name} is needed, and an archive holds no code. If you trust the file that defines "
            "it: dngo replay STUDY --objects FILE; in Python: dngo.use(object)"
        )
    module, _, name = reference.name.partition(":")
    found: Any = _module(module, reference.folder, reference.name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise UserError(f"{reference.name}: {module} has no {name}")
    if reference.source and source_of(found) != reference.source:
        raise UserError(
            f"{reference.name} has changed since the study named it: pass it again from Python, or leave "
            "`source` out of the configuration"
        )
    _KNOWN[reference.key] = found
    return found


def is_known(reference: Reference) -> bool:
    """Whether `find` may look for an object here."""
    return reference.key in _KNOWN or reference.key in _TRUSTED


def use(*objects: Any) -> None:
    """Let archives find objects, classes and functions that their studies were given."""
    for one in objects:
        _reference(one if hasattr(one, "__qualname__") else type(one), {})


def use_file(path: Path) -> None:
    """The same for all classes and functions of a file, which is imported."""
    module = _module(path.stem, str(path.resolve().parent), str(path))
    own = [
        one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__
    ]
    use(*(one for one in own if inspect.isclass(one) or inspect.isfunction(one)))


def _module(name: str, folder: str | None, wanted: str) -> Any:
    with _on_path(folder):
        try:
            return importlib.import_module(name)
        except Exception as error:  # the file may do anything
            raise UserError(f"{wanted} cannot be imported: {error}") from None


@contextmanager
def _on_path(folder: str | None) -> Iterator[None]:
    if folder is not None:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder is not None:
            sys.path.remove(folder)

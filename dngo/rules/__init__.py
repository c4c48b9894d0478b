"""Every number that the engine uses and no user sets: one frozen tree. It says what each number
gains.

`current()` is the tree that counts. A benchmark tries another one:

    from dngo.rules import current, using

    with using(current().but(nearby={"ranked": 0.8})):
        ...

Each batch records the digest of its tree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import Any

from dngo.rules.acquisition import AcquisitionRules
from dngo.rules.surrogates import SurrogateRules


@dataclass(frozen=True, kw_only=True)
class Rules(AcquisitionRules, SurrogateRules):
    """The tree: one branch for each module."""

    def but(self, **branches: Mapping[str, Any]) -> Rules:
        """The same tree with some other numbers, given by branch."""
        changed = {name: replace(getattr(self, name), **new) for name, new in branches.items()}
        return replace(self, **changed)

    @property
    def digest(self) -> str:
        """SHA-256 of all numbers."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


_PLAIN = Rules()
_current: ContextVar[Rules] = ContextVar("rules", default=_PLAIN)


def current() -> Rules:
    """The tree in use here."""
    return _current.get()


@contextmanager
def using(rules: Rules) -> Iterator[None]:
    """Use another tree within a block."""
    token = _current.set(rules)
    try:
        yield
    finally:
        _current.reset(token)

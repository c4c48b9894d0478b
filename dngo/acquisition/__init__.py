"""Acquisition: which points to evaluate next.

`propose_batch` picks a `Batch` after a `History` by Monte Carlo expected improvement or the like,
`baseline_batch` without a surrogate; `design` spreads the first one over the space. Importing this
package is cheap; the numerical modules are loaded when a name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dngo.acquisition.baselines import baseline_batch
    from dngo.acquisition.batch import Batch
    from dngo.acquisition.candidates import design
    from dngo.acquisition.history import History
    from dngo.acquisition.propose import propose_batch

# Raised when the same model, history, settings and random stream give other proposals.
PROPOSAL_VERSION = 1

_HOMES = {
    "Batch": "dngo.acquisition.batch",
    "History": "dngo.acquisition.history",
    "baseline_batch": "dngo.acquisition.baselines",
    "design": "dngo.acquisition.candidates",
    "propose_batch": "dngo.acquisition.propose",
}

__all__ = ["PROPOSAL_VERSION", "Batch", "History", "baseline_batch", "design", "propose_batch"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

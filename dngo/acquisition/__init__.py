"""Acquisition: which points to evaluate next.

`propose_batch` picks after a `History`, by the stages that its settings name. `design` spreads the first
batch over the space. A stage of another package does what `Stage` says: it gets a `BatchState` and a
number, and yields each `Pick`. Importing this package is cheap: the numerical modules are loaded when a
name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dngo.acquisition.candidates import believed_design, design
    from dngo.acquisition.history import History
    from dngo.acquisition.picks import Pick, Picks
    from dngo.acquisition.pipeline import propose_batch, propose_on_ladder
    from dngo.acquisition.state import BatchState, Stage

# A release raises it if the same model, history, settings and random stream give other proposals.
PROPOSAL_VERSION = 3

_HOMES = {
    "BatchState": "state",
    "History": "history",
    "Pick": "picks",
    "Picks": "picks",
    "Stage": "state",
    "believed_design": "candidates",
    "design": "candidates",
    "propose_batch": "pipeline",
    "propose_on_ladder": "pipeline",
}

__all__ = [
    "PROPOSAL_VERSION",
    "BatchState",
    "History",
    "Pick",
    "Picks",
    "Stage",
    "believed_design",
    "design",
    "propose_batch",
    "propose_on_ladder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dngo.acquisition.{_HOMES[name]}"), name)

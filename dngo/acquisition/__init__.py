"""Acquisition: which points to evaluate next.

`propose_batch` picks after a `History`, by the stages that its settings name. `design` spreads the first
batch over the space. A stage of another package does what `Stage` says: it gets a `BatchState` and a
number, and yields each `Pick`. Importing this package is cheap: the numerical modules are loaded when a
name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dngo.lazy import attributes

if TYPE_CHECKING:
    from dngo.acquisition.candidates import believed_design, design
    from dngo.acquisition.history import History
    from dngo.acquisition.picks import Pick, Picks
    from dngo.acquisition.pipeline import propose_batch, propose_on_ladder
    from dngo.acquisition.state import BatchState, Stage

# A release raises it if the same model, history, settings and random stream give other proposals.
PROPOSAL_VERSION = 3

_HOMES = {
    "candidates": ["believed_design", "design"],
    "history": ["History"],
    "picks": ["Pick", "Picks"],
    "pipeline": ["propose_batch", "propose_on_ladder"],
    "state": ["BatchState", "Stage"],
}
__getattr__ = attributes(__name__, _HOMES)

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

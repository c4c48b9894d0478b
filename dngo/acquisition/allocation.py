"""How many picks of a batch each stage gets: the only place that counts them.

Trust regions get a share of a batch. The archive shows how a study went: stages whose picks gain nothing
lose picks to the others. Within the regions their models share the picks, and some functions search the
whole space. One pick in so many looks on the boundary of what is feasible. Once little is gained inside,
half of the picks look beyond it.

Picks are numbered through the whole study, so that each kind has its turn even if batches are
single points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dngo.acquisition.history import History, batches
from dngo.rules import current
from dngo.space import Space
from dngo.types import Array, Mask, Rows

if TYPE_CHECKING:
    from dngo.acquisition.state import BatchState


def of_share(before: int, number: int, share: float) -> int:
    """How many of the `number` picks after the first `before` belong to a share, spread evenly."""
    return int((before + number) * share) - int(before * share)


def one_in(before: int, number: int, every: int) -> int:
    """How many of the `number` picks after the first `before` are one in `every`; 0 if that is 0."""
    return (before + number) // every - before // every if every > 0 else 0


# ---- of a batch ---------------------------------------------------------------------------------


def of_regions(state: BatchState, number: int, usual: float, stage: str) -> int:
    """How many of the next picks the trust regions get. usual: their share; stage: their stage's name.

    0 if no parameter is ordered: then the model of the whole space already knows what is near a
    point.
    """
    if not state.space.is_ordered.any():
        return 0
    block = max(state.size, least_block(state.space))
    count = of_share(state.turn, number, share_of(state.history, block, usual, stage))
    if state.model.heeds_constraints:
        # If picks come one at a time, a pick on the boundary would otherwise never have its turn.
        count = min(count, number - on_boundary(state, number))
    return count


def on_boundary(state: BatchState, number: int) -> int:
    """How many of the next picks look on the boundary of what is feasible."""
    return one_in(state.turn, number, state.shared.boundary_every)


def beyond(state: BatchState, number: int) -> int:
    """How many of the next picks look beyond the boundary, once little is gained inside."""
    return of_share(state.turn, number, current().beyond.share)


def share_of(history: History, block: int, usual: float, stage: str) -> float:
    """The share of picks for a stage by the study's course, `usual` where that says nothing.

    block: the number of points after which a gain counts half. The share depends on how often the
    stage's picks, and all other picks, have gained lately, wherever they lay.
    """
    y, batch = history.y, history.iteration
    if not np.isfinite(y).any() or not history.stage.any() or not 0 < usual < 1:
        return usual
    share = following(history.stage == stage, gains(y, batch), batch, block, usual)
    return min(share, current().regions.most_share)


def following(own: Mask, paid: Mask, batch: Rows, block: int, usual: float) -> float:
    """A share of the picks, by how often some of the points, and all others, have gained lately.

    own: (n,) which points these are; paid: (n,) which points gained. The first batch does not
    count. block, usual: as
    in `share_of`.
    """
    weight = 0.5 ** ((len(batch) - 1 - np.arange(len(batch))) / block) * (batch > batch[0])
    here, there = (
        (weight @ (paid & place) + 1.0) / (weight @ place + current().regions.nothing_known)
        for place in (own, ~own)
    )
    return float(usual * here / (usual * here + (1 - usual) * there))


def gains(y: Array, batch: Rows) -> Mask:
    """Which outcomes are better than all outcomes of earlier batches: (n,).

    A gain counts from a thousandth (`RegionRules.improved`) of the depth on. The depth is how far
    the best outcome lies below the lowest quarter of the outcomes. So in a search for the last
    digits, the last digits count.
    """
    rules, paid = current().regions, np.zeros(len(y), dtype=bool)
    for rows in batches(batch):
        before = y[: rows.start][np.isfinite(y[: rows.start])]
        if len(before):
            best = float(before.min())
            depth = float(np.quantile(before, current().selection.low)) - best
            paid[rows] = y[rows] < best - rules.improved * depth
    return paid


def led_nowhere(history: History) -> bool:
    """Whether the picks for a first feasible point (`FirstFeasible`) found fewer than one in each batch."""
    own = history.stage == "first_feasible"
    found = int(np.isfinite(history.y[own]).sum())
    return found < len(np.unique(history.iteration[own]))


def gained(state: BatchState) -> float:
    """How much the last evaluations improved on earlier ones, in units of the targets."""
    history = state.history
    batch = int(np.sum(history.iteration == history.iteration[-1]))
    last = max(batch, current().beyond.last_for_each * state.space.k)
    targets = state.model.scale.to_model(history.y)
    before, after = targets[:-last], targets[-last:]
    # A design need not gain anything.
    since = int(np.sum(history.iteration > history.iteration[0]))
    if since < last or not np.isfinite(before).any():
        return np.inf
    lowest = np.nanmin(after) if np.isfinite(after).any() else np.inf
    return max(float(np.nanmin(before) - lowest), 0.0)


# ---- of a region --------------------------------------------------------------------------------


def least_block(space: Space) -> int:
    """Evaluations in a region before it is reconsidered, at least."""
    search = current().search
    return max(search.block_for_each * space.k, search.block_least)


@dataclass(frozen=True)
class Functions:
    """How many functions of a region are searched in it, in the whole space, by the model of the lowest
    points, and by the model of the floor."""

    plain: int
    wide: int
    lowest: int
    floor: int

    @classmethod
    def of(cls, before: int, count: int, *, lowest: bool, floor: bool) -> Functions:
        """before: points of the study. lowest, floor: whether these models exist beside the plain one."""
        kinds = 1 + lowest + floor
        first, second = (one_in(before + i, count, kinds) for i in (0, 1))
        low = first if lowest else 0
        wide = one_in(before, count - low, current().search.wide_every)
        flat = max(second - wide, 0) if floor else 0
        return cls(count - low - wide - flat, wide, low, flat)


def followed_anyway(before: int, count: int) -> int:
    """How many of the functions without a promised gain are followed nevertheless."""
    return one_in(before, count, current().search.kept_every)


def probes(size: int) -> int:
    """How many of `size` steps test whether neighbouring points have similar outcomes."""
    rules = current().steps
    return min(size, max(size // rules.probes, rules.least_probes))

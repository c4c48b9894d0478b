"""Trust regions: the share of a batch that goes to where the best points are.

Each pick in a region (`dngo.acquisition.regions`) is the minimum of a function drawn from the region's own
model (`dngo.acquisition.region_model`). A region has converged if the drawn functions promise nothing more.
It then keeps a few picks. The others go to the regions of other good points, which are not on the
way into the first one. Picks that no region can use go to the stages that search the whole space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dngo.acquisition.allocation import least_block, led_nowhere, of_regions, probes
from dngo.acquisition.blind import steps
from dngo.acquisition.history import History
from dngo.acquisition.picks import Pick
from dngo.acquisition.region_model import Penalty, RegionModel
from dngo.acquisition.regions import regions
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.standing import LOCAL
from dngo.acquisition.state import BatchState
from dngo.rules import current
from dngo.surrogates.apart import SCALED, apart
from dngo.surrogates.data import TargetScale
from dngo.types import Array


@dataclass(frozen=True)
class TrustRegions:
    """The trust regions' picks of a batch. share: of the batch, at the start of a study. conditions:
    whether later stages fantasise their outcomes."""

    share: float = 1.0
    conditions: bool = True
    name = "trust_regions"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        count = of_regions(state, number, self.share, self.name)
        if count == 0 or not state.has_outcome:
            return
        v, sources = self.points(
            state.history,
            count,
            state.streams["trust_regions"],
            spacing=state.spacing.copy(),
            penalty=Penalty.of(state),
        )
        # The acquisition is recorded, although it did not decide these picks.
        values = state.make_pending(v) if self.conditions else state.acquisition(v)
        for point, source, value in zip(v, sources, values, strict=True):
            yield Pick(point, value, f"{LOCAL}{source}")

    def points(
        self,
        history: History,
        size: int,
        rng: np.random.Generator,
        *,
        spacing: Spacing,
        penalty: Penalty,
    ) -> tuple[Array, list[str]]:
        """At most `size` points (m, k), fewer if the regions promise nothing, and each point's source.

        The points are added to `spacing`.
        """
        space, search, y = spacing.space.plain, current().search, history.y
        block = max(size // 2, least_block(space))
        ok = np.flatnonzero(np.isfinite(y))
        picked: list[Array] = []
        sources: list[str] = []
        if not len(ok) or space.k == 0:
            return np.empty((0, space.k)), []
        if len(ok) < current().nearby.least:
            # Too few for a model of their own. What the whole space's model thinks feasible is often
            # wrong then, but neighbours of a feasible point tend to be feasible.
            if penalty.wall is None:
                return np.empty((0, space.k)), []
            centre, largest = history.v[[np.nanargmin(y)]], current().regions.largest
            least, size = current().steps.probing, size if led_nowhere(history) else probes(size)
            picked = steps(
                centre, largest, size, rng, spacing=spacing, penalty=penalty, least=least
            )
            return np.array(picked).reshape(-1, space.k), ["step"] * len(picked)
        u = space.place(history.v, apart=0.0)
        scale = TargetScale.fit(y[ok[apart(u[ok], SCALED, rng)]])
        found = regions(u, scale.to_model(y), history.iteration, block)
        for region in islice(found, search.regions):
            if len(picked) == size:
                break
            (rng,) = rng.spawn(1)
            is_first = "thompson" not in sources
            local = RegionModel.fit(space, history, region, rng, is_first=is_first)
            if is_first:
                local = local.where_believed(block)
                if not picked:
                    picked += local.steps(size, rng, spacing, penalty)
                    sources += ["step"] * len(picked)
                if penalty.wall is None:  # with constraints it costs more than it gains
                    local = local.with_lowest(rng)
            local = local.with_floor(rng, is_first=is_first)
            # Another region must promise enough, compared with the whole space.
            spread = scale.spread * scale.scale
            depth = min(local.depth, spread) if is_first else spread
            least = max(current().regions.improved * depth, search.finest * spread)
            least = max(least, 0.5 * history.least_gain)  # half a step rounds to one
            followed = local.followed(size - len(picked), least, rng, spacing, penalty, turn=len(y))
            picked += followed
            sources += ["thompson"] * len(followed)
        return np.array(picked).reshape(-1, space.k), sources

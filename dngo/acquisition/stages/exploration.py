"""What may follow where improvement has vanished: the point whose value is least certain."""

from __future__ import annotations

from collections.abc import Iterator

from dngo.acquisition.feasibility import likely_enough
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState


class Exploration:
    """Picks of the largest deviation (Brofos, Shu and Jin 2015, section 3.1), each pending then."""

    name = "exploration"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        shortlist = state.shortlist
        if shortlist is None:
            return
        for _ in range(number):
            allowed = shortlist.open.allowed
            if not allowed.any():
                return
            least = state.shared.min_feasibility
            allowed = likely_enough(state, allowed, shortlist.feasibility, least)
            yield shortlist.explore(allowed)

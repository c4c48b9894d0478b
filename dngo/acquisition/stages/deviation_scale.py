"""A stage that picks nothing: wider deviations where the model is sure that nothing is left to gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState


@dataclass(frozen=True, kw_only=True)
class ScaleRules:
    """How far deviations are widened. Not measured."""

    # The scale's limit: with deviations so many times as wide any model expects something somewhere.
    most: float = 64.0
    looked_at: int = 2048  # candidates that the model is asked of, to spare the others


RULES = ScaleRules()


class DeviationScale:
    """Doubles the scale of the fantasies' deviations until something is worth a pick.

    In every other batch only: the model may be right, and what little it promises is then worth
    having. The scale is recorded with every pick that it led to.
    """

    name = "deviation_scale"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        begun = state.turn - len(state.picks)
        if not state.has_outcome or begun // state.size % 2 == 0 or not len(state.candidates):
            return
        x, fantasies = state.candidates.x, state.fantasies
        features = fantasies.features(x[:: max(1, len(x) // RULES.looked_at)])
        vanished = state.settings.vanished_below(float(fantasies.deviation(features).max()))
        while fantasies.deviation_scale < RULES.most:
            if fantasies.improvement(features).max() >= vanished:
                return
            fantasies.deviation_scale *= 2.0
        yield from ()

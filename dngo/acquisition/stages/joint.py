"""All picks by functions that are drawn together: see `dngo.acquisition.joint`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dngo.acquisition.joint import Gain, chosen, improvement
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.acquisition.wavering import Wavering


@dataclass(frozen=True)
class Joint:
    """The batch that gains most in drawn functions. gain: what a function gains at a point. least: smaller
    batches are left to other stages. within: how far inputs waver, by name."""

    gain: Gain = improvement
    least: int = 1
    within: Mapping[str, float] = field(default_factory=dict)
    name = "joint"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        if state.size >= self.least and state.has_outcome and len(state.candidates):
            scale = state.model.scale
            # As other stages record it: in units of the targets, where the scale is linear.
            unit = scale.spread * scale.scale if self.gain is improvement else 1.0
            wavering = Wavering.of(state.space, self.within) if self.within else None
            rng = state.streams["joint"]
            for v, added, second in chosen(state, number, self.gain, rng, wavering):
                yield Pick(v, added / unit, "joint", second / unit)

"""What the benchmarks that one core is enough for have in common: a small search, results that last."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dngo.acquisition import History, propose_batch
from dngo.acquisition.picks import Picks
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

MODEL = SurrogateSettings(kind="gp", hyperparameter_samples=5)
ACQUISITION = AcquisitionSettings(
    uniform_candidates=1024,
    local_candidates=512,
    shortlist=256,
    fantasies=5,
    refinements=2,
    ascents=2,
)


def next_batch(
    space: Space,
    history: History,
    data: TrainingData,
    *,
    size: int,
    key: tuple[int, ...],
    small: bool = True,
) -> tuple[Model, Picks]:
    """A Gaussian process of few hyperparameter samples, and what is picked by it from few candidates.

    key: names the random streams of the fit and of the picks. small: or else the package's defaults.
    """
    surrogate = MODEL if small else SurrogateSettings()
    settings = ACQUISITION if small else AcquisitionSettings()
    model = fit_model(data, surrogate, rng=np.random.default_rng([*key, 0]))
    rng = np.random.default_rng([*key, 1])
    picks = propose_batch(model, space, history, size=size, settings=settings, rng=rng)
    return model, picks


class Results:
    """What was measured, in a file with a line for each key, so that a benchmark goes on where it was."""

    def __init__(self, path: Path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.known: dict[tuple, Any] = {tuple(key): value for key, value in map(json.loads, lines)}

    def of(self, key: tuple, measure: Callable[[], Any]) -> Any:
        """The result of a key, measured unless the file has it."""
        if key not in self.known:
            self.known[key] = measure()
            with self.path.open("a") as stream:
                stream.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]

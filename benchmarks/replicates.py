"""Noisy functions of integers: what second looks at a point are worth.

    python benchmarks/replicates.py --seeds 5 [--noise 0.5] [--results runs.jsonl]

Two integers of ten values each; `families.py` drawn on that grid, with a noise of so many of its own
deviations, which is reported. 10 points of a design and ten batches of five. What counts is the
function without its noise at the point that `dngo best --by model` names, above the least of the grid, in
units of the function's deviation.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

import numpy as np
from families import drawn
from numpy.typing import NDArray
from searching import Results, next_batch

from dngo.acquisition import History
from dngo.acquisition.candidates import design, everything
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.space.parameters import Int
from dngo.surrogates import TrainingData
from dngo.surrogates.nearby import around_the_best

Array = NDArray[np.float64]

GRID = Space({name: Int(type="int", low=0, high=9) for name in ("a", "b")})
FAMILIES = ("bowl", "waves", "peaks", "ripples")
FIRST, BATCH, ROUNDS = 10, 5, 10
RULES = ("never", "reported")


def run(family: str, seed: int, share: float, replicates: str) -> list[float]:
    """How far above the least the recommended point is, and how many points were distinct.

    share: of the function's deviation, what the noise has.
    """
    function, luck = drawn(family, GRID.k, seed), np.random.default_rng([seed, 1])
    every = function(GRID.unit(everything(GRID)))
    noise = share * float(every.std())

    def outcomes(v: Array) -> Array:
        return function(GRID.unit(v)) + noise * luck.standard_normal(len(v))

    none = np.empty((0, GRID.k))
    v = design(GRID, FIRST, rng=np.random.default_rng([seed, 0]), exclude=none)
    y, iteration = outcomes(v), np.zeros(len(v), dtype=np.int64)
    for t in range(ROUNDS):
        reported = np.full(len(v), noise)
        data = TrainingData(
            x=GRID.encode(v), y=y, constraints={"completed": np.ones(len(v))}, noise=reported
        )
        _, batch = next_batch(
            GRID,
            History(v, y, iteration=iteration, noise=reported),
            data,
            size=BATCH,
            key=(seed, 2, t),
            acquisition=AcquisitionSettings(replicates=replicates),
        )
        v, y = np.concatenate([v, batch.v]), np.concatenate([y, outcomes(batch.v)])
        iteration = np.concatenate([iteration, np.full(len(batch), t + 1)])
    rows, mean, _ = around_the_best(GRID.unit(v), GRID.encode(v), y, np.full(len(v), noise))
    recommended = v[[rows[np.argmin(mean)]]]
    above = (function(GRID.unit(recommended))[0] - every.min()) / every.std()
    return [float(above), float(len(np.unique(v, axis=0)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--noise", type=float, default=0.5, help="in deviations of the function")
    parser.add_argument("--results", type=Path, default=Path("replicates.jsonl"))
    given = parser.parse_args()
    results = Results(given.results)
    print(
        f"| noise {given.noise:g} | replicates | above the least | least found | distinct of 60 |"
    )
    print("| --- | --- | --- | --- | --- |")
    for family in FAMILIES:
        for rule in RULES:
            found = [
                results.of(
                    (family, rule, given.noise, seed),
                    partial(run, family, seed, given.noise, rule),
                )
                for seed in range(given.seeds)
            ]
            above, distinct = np.array(found).T
            spread = above.std(ddof=1) / math.sqrt(len(above)) if len(above) > 1 else math.nan
            print(
                f"| {family} | {rule} | {above.mean():.3f} ± {spread:.3f} | "
                f"{np.sum(above < 1e-9)} of {len(above)} | {distinct.mean():.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""How good the picks of one large batch are, from the first eighth to the last.

    python benchmarks/late_picks.py --size 400 --seeds 3

After a Sobol design the package proposes one batch. Of each pick: the share of 4,000 uniform points that
are better. Printed are the means over eighths of the batch in the order of picking, the best value, and
CPU seconds of the proposal, for each function and seed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from objectives import cube, hartmann6

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

Array = NDArray[np.float64]
UNIFORM = 4000


def quadratic(u: Array) -> Array:
    """Minimum 0, at another place along each axis."""
    return np.sum((u - np.linspace(0.25, 0.75, u.shape[1])) ** 2, axis=1)


ROWS = {
    "quadratic, 4 inputs, N = 100": (quadratic, 4, 100),
    "quadratic, 10 inputs, N = 100": (quadratic, 10, 100),
    "Hartmann6, N = 200": (hartmann6, 6, 200),
    "Hartmann6, N = 1000": (hartmann6, 6, 1000),
}


def main() -> None:
    """Print a line for each function and seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=400, help="of the batch")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    print("function | seed | eighths | best | CPU s")
    for name, (function, k, n) in ROWS.items():
        space = cube(k)
        for seed in range(arguments.seeds):
            rng = np.random.default_rng([seed, 0])
            v = design(space, n, rng=rng, exclude=np.empty((0, k)))
            y = function(v)
            data = TrainingData(x=space.encode(v), y=y)
            model = fit_model(data, SurrogateSettings(), rng=np.random.default_rng([seed, 1]))
            begun = time.process_time()
            batch = propose_batch(
                model,
                space,
                History(v, y, iteration=np.zeros(n, dtype=int)),
                size=arguments.size,
                settings=AcquisitionSettings(),
                rng=np.random.default_rng([seed, 2]),
            )
            seconds = time.process_time() - begun
            found = function(batch.v)
            uniform = np.sort(function(np.random.default_rng([seed, 3]).random((UNIFORM, k))))
            better = np.searchsorted(uniform, found) / UNIFORM
            eighths = " ".join(f"{part.mean():.2f}" for part in np.array_split(better, 8))
            print(f"{name} | {seed} | {eighths} | {found.min():.5g} | {seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()

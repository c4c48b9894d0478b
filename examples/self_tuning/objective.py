"""Tune the networks of `surrogate: adaptive_basis` on functions that they have to model.

Snoek et al. (2015, section 3.1.1) tuned the width, the learning rate and the regularisation of their
networks by Bayesian optimisation with a Gaussian process, on the relative loss of searches. Here a
configuration is judged by its predictions at points that it has not seen. That takes one fit for
each function instead of a search, and varies less from seed to seed.

Parameters, a JSON object on standard input, are keys of `surrogate: networks:`:
    layers, width    hidden layers, and units in each
    activation       silu, tanh, relu_tanh or relu
    learning_rate    largest step of Adam
    weight_decay     decoupled
    steps            of training

Outcome, a JSON object as the last line of standard output:
    objective        mean log density of a left-out outcome, in standard deviations of its
                     function's outcomes; higher is better
    metadata         the same for each function; CPU seconds

The data are the same for all configurations; initial weights and minibatches come from the environment
variable DNGO_SEED.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread: evaluations run side by side.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray

from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from families import drawn

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

TUNED_ON = ("waves", "peaks", "valley", "sector")  # families of functions, seed 0 of each
INPUTS = 5
OBSERVATIONS, HELD_OUT = 100, 500


def data(function: Function, inputs: int, seed: int) -> tuple[Array, Array]:
    """Points u (n, inputs) and outcomes (n,) as in a search, in random order. Three in five lie
    anywhere. The others lie around the best one of as many points as a model learns from."""
    rng = np.random.default_rng(seed)
    total = OBSERVATIONS + HELD_OUT
    anywhere = rng.random((total * 3 // 5, inputs))
    best = anywhere[np.argmin(function(anywhere[:OBSERVATIONS]))]
    near = best + 0.1 * rng.standard_normal((total - len(anywhere), inputs))
    u = rng.permutation(np.concatenate([anywhere, np.clip(near, 0, 1)]))
    return u, function(u)


def log_density(networks: dict[str, Any], function: Function, inputs: int, seed: int) -> float:
    """Mean log density of the left-out outcomes, in their standard deviations."""
    u, y = data(function, inputs, seed)
    known, new = slice(OBSERVATIONS), slice(OBSERVATIONS, None)
    model = fit_model(
        TrainingData(x=u[known], y=y[known], constraints={}),
        SurrogateSettings(kind="adaptive_basis", networks=networks),
        rng=np.random.default_rng([seed, int(os.environ.get("DNGO_SEED", "0"))]),
    )
    return float(model.log_density(u[new], y[new])[0].mean() + np.log(y[new].std()))


def main() -> None:
    networks = json.load(sys.stdin)
    found = {name: log_density(networks, drawn(name, INPUTS, 0), INPUTS, 0) for name in TUNED_ON}
    mean = float(np.mean(list(found.values())))
    if not np.isfinite(mean):
        sys.exit(f"training diverged: {found}")
    metadata = {**found, "cpu_seconds": time.process_time()}
    print(json.dumps({"objective": mean, "metadata": metadata}))


if __name__ == "__main__":
    main()

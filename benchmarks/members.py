"""The members of the default mixture, one by one: how well each predicts, and what it predicts of that.

    python benchmarks/members.py [--functions peaks6s0 ...] [--sizes 20 60 200 1000] [--seeds 3]

The mixture weighs a Gaussian process and adaptive bases by how well each predicts left-out rows. So two
questions decide whether its weights are right: does a member predict fresh points as well as it predicted
the left-out ones, and does the better member get the weight? Both are asked here of Sobol points of the
unit cube and 2,000 fresh ones, on the model's scale, in nats.

`TUNED` are the functions on which members are changed, `REPORTED` those on which they are reported.
`--set KEY=VALUE` changes keys of `surrogate:`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from batches import find_problem
from objectives import FUNCTIONS
from scipy.stats import qmc
from searching import add_settings, settings_of

from dngo.surrogates import TrainingData, fit_model, mixture
from dngo.surrogates.linear import FiniteBasis
from dngo.surrogates.settings import SurrogateSettings
from dngo.types import Array

TUNED = ("peaks6s0", "waves6s0", "ripples6s0", "valley6s0", "steep6s0", "walled6s0")
REPORTED = ("hartmann6", "ackley5", "levy8", "rosenbrock4", "friedman10", "peaks6s5")


def measured(name: str, n: int, seed: int, settings: Any) -> dict[str, Any]:
    """One fit: left-out and fresh log densities of both members, the weight of the process, CPU seconds."""
    rng = np.random.default_rng([seed, n, 7])
    if name in FUNCTIONS:
        of = FUNCTIONS[name]
        function, d, noise = of.f, of.d, of.noise
    else:
        problem = find_problem(name)
        d, noise = problem.space.k, 0.0

        def function(u: Array) -> Array:
            return problem.evaluate(u, rng)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Sobol points of a number that is no power of two
        x = qmc.Sobol(d, rng=rng).random(n)
    fresh = rng.random((2000, d))
    y, truth = (function(u) + noise * rng.standard_normal(len(u)) for u in (x, fresh))
    data = TrainingData(x=x, y=y, constraints={"completed": np.ones(n)})
    start = time.process_time()
    model = fit_model(data, settings, rng=rng)
    seconds = time.process_time() - start
    slope = model.scale.log_slope(truth)

    def density(members: tuple[Any, ...]) -> float | None:
        if not members:
            return None
        alone = replace(model, objective=members)
        return float(np.mean(alone.log_density(fresh, truth)[0] - slope))

    # A member's weight may be too small for a number, so each has 1 when it is alone.
    each = [replace(c, weight=1.0) for c in model.objective]
    bases = tuple(c for c in each if isinstance(c, FiniteBasis))
    process = tuple(c for c in each if not isinstance(c, FiniteBasis))
    found = model.diagnostics
    return {
        "function": name,
        "n": n,
        "seed": seed,
        "gp_share": found.get("gp_share", 1.0),
        "gp_left_out": found.get("gp_out_of_fold_log_density"),
        "gp_fresh": density(process),
        "bases_left_out": found.get("basis_out_of_fold_log_density"),
        "bases_fresh": density(bases),
        "mixture_fresh": density(model.objective),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", nargs="+", default=REPORTED)
    parser.add_argument("--sizes", nargs="+", type=int, default=[20, 60, 200, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    add_settings(parser, "--set", "surrogate")
    chosen = parser.parse_args()
    mixture.NEGLIGIBLE = 0.0  # both members are kept, however little one weighs
    settings = settings_of(parser, SurrogateSettings, chosen.set)
    for name in chosen.functions:
        for n in chosen.sizes:
            for seed in range(chosen.seeds):
                print(json.dumps(measured(name, n, seed, settings)), flush=True)


if __name__ == "__main__":
    main()

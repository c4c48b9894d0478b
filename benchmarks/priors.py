"""What a prior saves where it is right, and costs where it is wrong.

    python benchmarks/priors.py [--seeds 3] [--functions bowl3s0 ...] [--results runs.jsonl]

Each function of families.py is minimised three times from a design of eight and in batches of three:
without a prior; with one near the optimum (a twentieth of each range away, a width of a tenth); and
with one of that width as far from it as its mirror image, or more. Counted are evaluations until the value
is reached that one in 3,000 uniform points reaches. Surrogate: a Gaussian process of few
hyperparameter samples, with few candidates.
"""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path

import numpy as np
from families import drawn
from numpy.typing import NDArray
from scipy.optimize import minimize
from searching import SMALL, Results, next_batch

from dngo import derive
from dngo.acquisition import History
from dngo.config import validate
from dngo.surrogates import TrainingData

Array = NDArray[np.float64]
FUNCTIONS = [
    f"{family}{k}s{seed}"
    for k, seed in ((3, 0), (4, 1))
    for family in ("bowl", "waves", "peaks", "ripples", "valley")
]
MOST = 80


def evaluations(name: str, seed: int, belief: str) -> int:
    """Evaluations until the value is reached, MOST if it is not before."""
    family, k, number = re.fullmatch(r"([a-z]+)(\d+)s(\d+)", name).groups()
    function, k = drawn(family, int(k), int(number)), int(k)
    u = np.random.default_rng(0).random((30_000, k))
    values = function(u)
    wanted = float(np.sort(values)[9])
    start = u[np.argmin(values)]
    optimum = minimize(
        lambda x: float(function(x[None])[0]), start, bounds=[(0, 1)] * k, method="Nelder-Mead"
    ).x
    away = np.where(optimum < 0.5, 1.0, -1.0)
    centre = {
        "none": None,
        "right": np.clip(optimum + 0.05 * away, 0, 1),
        "wrong": optimum + away * np.maximum(0.35, np.abs(1 - 2 * optimum)),
    }[belief]
    prior = [{} if centre is None else {"prior": {"value": float(c), "width": 0.1}}
             for c in (np.zeros(k) if centre is None else centre)]  # fmt: skip
    config = validate(
        {
            "study": "s",
            "seed": seed,
            "objective": {"command": "true"},
            "space": {
                f"x{i}": {"type": "float", "low": 0, "high": 1, **prior[i]} for i in range(k)
            },
            "design": {"size": 8},
        }
    )
    space = config.search_space
    v = space.from_parameters([p.parameters for p in derive.design(config)])
    while True:
        y = function(space.unit(v))
        if y.min() <= wanted or len(v) >= MOST:
            return min(int(np.argmax(y <= wanted)) + 1 if y.min() <= wanted else MOST, MOST)
        data = TrainingData(x=space.encode(v), y=y, constraints={"completed": np.ones(len(v))})
        _, picks = next_batch(space, History(v, y), data, size=3, key=(seed, len(v)), **SMALL)
        v = np.concatenate([v, picks.v])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("priors.jsonl"))
    arguments = parser.parse_args()
    results = Results(arguments.results)
    beliefs = ("none", "right", "wrong")
    print("| function | without | right | wrong |\n| --- | --- | --- | --- |")
    for name in arguments.functions:
        cells = []
        for belief in beliefs:
            keys = [(name, seed, belief) for seed in range(arguments.seeds)]
            counts = [results.of(key, partial(evaluations, *key)) for key in keys]
            cells.append(", ".join(map(str, counts)))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    total = [sum(n for key, n in results.known.items() if key[2] == belief) for belief in beliefs]
    print(f"| all | {' | '.join(map(str, total))} |")


if __name__ == "__main__":
    main()

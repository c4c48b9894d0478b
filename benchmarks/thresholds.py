"""Thresholds on numbers against the same constraints as flags: evaluations to the same value.

    python benchmarks/thresholds.py [--problems all] [--seeds 3] [--results runs.jsonl]

Twelve problems with constraints that are numbers; each is studied twice from the same first design, once
with the numbers reported, once with whether they keep their bounds. Both have the same surrogate (a
Gaussian process, with few hyperparameter samples and candidates, so that a core is enough) and the
same acquisition. For each seed the worse of the two final values is what both have to reach, and the
evaluations that each needed are counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from families import drawn
from numpy.typing import NDArray
from searching import SMALL, Results, next_batch

from dngo.acquisition import History, design
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData
from dngo.thresholds import Threshold

Array = NDArray[np.float64]
KEPT = Threshold("<=", 0.0)


@dataclass(frozen=True)
class Problem:
    """limits: (k, 2). values: v (n, k) -> objective (n,) and constraints (c, n), kept where <= 0."""

    limits: tuple[tuple[float, float], ...]
    values: Callable[[Array], tuple[Array, list[Array]]]


def gramacy(v: Array) -> tuple[Array, list[Array]]:
    """Gramacy et al. 2016, "Modeling an augmented Lagrangian for blackbox constrained optimization"."""
    x, y = v.T
    return x + y, [
        1.5 - x - 2 * y - 0.5 * np.sin(2 * np.pi * (x**2 - 2 * y)),
        x**2 + y**2 - 1.5,
    ]


def disk_branin(v: Array) -> tuple[Array, list[Array]]:
    x, y = v.T
    value = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    value += 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10
    return value, [(x - 2.5) ** 2 + (y - 7.5) ** 2 - 50]


def gardner(v: Array) -> tuple[Array, list[Array]]:
    """Gardner et al. 2014, "Bayesian optimization with inequality constraints", the second one."""
    x, y = v.T
    return np.sin(x) + y, [np.sin(x) * np.sin(y) + 0.95]


def townsend(v: Array) -> tuple[Array, list[Array]]:
    x, y = v.T
    t = np.arctan2(x, y)
    edge = 2 * np.cos(t) - 0.5 * np.cos(2 * t) - 0.25 * np.cos(3 * t) - 0.125 * np.cos(4 * t)
    value = -(np.cos((x - 0.1) * y) ** 2) - x * np.sin(3 * x + y)
    return value, [x**2 + y**2 - edge**2 - (2 * np.sin(t)) ** 2]


def bird(v: Array) -> tuple[Array, list[Array]]:
    """Mishra's bird, in a disc."""
    x, y = v.T
    value = np.sin(y) * np.exp((1 - np.cos(x)) ** 2) + np.cos(x) * np.exp((1 - np.sin(y)) ** 2)
    return value + (x - y) ** 2, [(x + 5) ** 2 + (y + 5) ** 2 - 25]


def g24(v: Array) -> tuple[Array, list[Array]]:
    """Of the suite of CEC 2006, as the next one."""
    x, y = v.T
    return -x - y, [
        -2 * x**4 + 8 * x**3 - 8 * x**2 + y - 2,
        -4 * x**4 + 32 * x**3 - 88 * x**2 + 96 * x + y - 36,
    ]


def g04(v: Array) -> tuple[Array, list[Array]]:
    a, b, c, d, e = v.T
    first = 85.334407 + 0.0056858 * b * e + 0.0006262 * a * d - 0.0022053 * c * e
    second = 80.51249 + 0.0071317 * b * e + 0.0029955 * a * b + 0.0021813 * c**2
    third = 9.300961 + 0.0047026 * c * e + 0.0012547 * a * c + 0.0019085 * c * d
    value = 5.3578547 * c**2 + 0.8356891 * a * e + 37.293239 * a - 40792.141
    return value, [first - 92, -first, second - 110, 90 - second, third - 25, 20 - third]


def spring(v: Array) -> tuple[Array, list[Array]]:
    """Weight of a spring: wire, coil, number of coils."""
    d, w, n = v.T
    return (n + 2) * w * d**2, [
        1 - w**3 * n / (71785 * d**4),
        (4 * w**2 - d * w) / (12566 * (w * d**3 - d**4)) + 1 / (5108 * d**2) - 1,
        1 - 140.45 * d / (w**2 * n),
        (w + d) / 1.5 - 1,
    ]


def vessel(v: Array) -> tuple[Array, list[Array]]:
    """Cost of a pressure vessel: thickness of shell and head, radius, length."""
    s, h, r, z = v.T
    value = 0.6224 * s * r * z + 1.7781 * h * r**2 + 3.1661 * s**2 * z + 19.84 * s**2 * r
    volume = np.pi * r**2 * z + 4 / 3 * np.pi * r**3
    return value, [0.0193 * r - s, 0.00954 * r - h, 1296000 - volume]


def family(name: str, limits: str, k: int, share: float, seed: int) -> Problem:
    """A function of families.py where another is low: feasible is a share of the cube."""
    objective, bound = drawn(name, k, seed), drawn(limits, k, seed + 10)
    level = np.quantile(bound(np.random.default_rng(0).random((4096, k))), share)
    return Problem(((0.0, 1.0),) * k, lambda v: (objective(v), [bound(v) - level]))


PROBLEMS = {
    "gramacy": Problem(((0, 1), (0, 1)), gramacy),
    "disk_branin": Problem(((-5, 10), (0, 15)), disk_branin),
    "gardner": Problem(((0, 6), (0, 6)), gardner),
    "townsend": Problem(((-2.25, 2.5), (-2.5, 1.75)), townsend),
    "bird": Problem(((-10, 0), (-6.5, 0)), bird),
    "g24": Problem(((0, 3), (0, 4)), g24),
    "g04": Problem(((78, 102), (33, 45), (27, 45), (27, 45), (27, 45)), g04),
    "spring": Problem(((0.05, 2), (0.25, 1.3), (2, 15)), spring),
    "vessel": Problem(((0.06, 6), (0.06, 6), (10, 50), (10, 200)), vessel),
    "bowl in waves, 4": family("bowl", "waves", 4, 0.2, 0),
    "waves in a bowl, 4": family("waves", "bowl", 4, 0.1, 1),
    "valley in waves, 3": family("valley", "waves", 3, 0.1, 2),
    "waves in peaks, 3": family("waves", "peaks", 3, 0.1, 3),
}


def run(
    problem: Problem, seed: int, *, numbers: bool, size: int, rounds: int, batch: int
) -> list[float]:
    """The best feasible value after each evaluation, infinite before the first."""
    space = Space(
        {f"x{i}": Float(type="float", low=a, high=b) for i, (a, b) in enumerate(problem.limits)}
    )
    v = design(space, size, rng=np.random.default_rng(seed), exclude=np.empty((0, space.k)))
    iteration = np.zeros(size, dtype=int)
    for t in range(1, rounds + 1):
        y, excess = problem.values(v)
        held = {f"c{i}": (c <= 0).astype(float) for i, c in enumerate(excess)}
        ok = np.all(list(held.values()), axis=0)
        y = np.where(ok, y, np.nan)
        data = TrainingData(
            x=space.encode(v),
            y=y,
            constraints={"completed": np.ones(len(v)), **held},
            batch=iteration,
            numbers={f"c{i}": c for i, c in enumerate(excess)} if numbers else {},
            thresholds=dict.fromkeys(held, KEPT),
        )
        history = History(v, y, iteration=iteration, constraints=held)
        _, picks = next_batch(space, history, data, size=batch, key=(seed, t), **SMALL)
        v = np.concatenate([v, picks.v])
        iteration = np.concatenate([iteration, np.full(len(picks), t)])
    y, excess = problem.values(v)
    feasible = np.where(np.all(np.stack(excess) <= 0, axis=0), y, np.inf)
    return np.minimum.accumulate(feasible).tolist()


def needed(curve: list[float], value: float) -> int:
    """Evaluations until a value is reached; all of them and one if it is not."""
    reached = np.array(curve) <= value
    return int(np.argmax(reached)) + 1 if reached.any() else len(curve) + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--schedule", type=int, nargs=3, default=(8, 10, 3))
    parser.add_argument("--results", type=Path, default=Path("thresholds.jsonl"))
    arguments = parser.parse_args()
    schedule = dict(zip(("size", "rounds", "batch"), arguments.schedule, strict=True))
    results = Results(arguments.results)
    print("| problem | flags: final, evaluations | thresholds: final, evaluations | |")
    print("| --- | --- | --- | --- |")
    for name in arguments.problems:
        counts, finals = [], []
        for seed in range(arguments.seeds):
            curves = [
                results.of(
                    (name, seed, numbers),
                    partial(run, PROBLEMS[name], seed, numbers=numbers, **schedule),
                )
                for numbers in (False, True)
            ]
            # Whoever finds nothing feasible does not reach what the other does.
            worse = max((c[-1] for c in curves if np.isfinite(c[-1])), default=np.inf)
            counts.append([needed(curve, worse) for curve in curves])
            finals.append([curve[-1] for curve in curves])
        (flags, numbers), (before, after) = np.median(finals, axis=0), np.sum(counts, axis=0)
        verdict = "thresholds" if after < before else "flags" if after > before else "even"
        print(
            f"| {name} | {flags:.5g}, {before} | {numbers:.5g}, {after} | {verdict} |", flush=True
        )


if __name__ == "__main__":
    main()

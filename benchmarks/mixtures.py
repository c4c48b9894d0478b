"""Mixtures of six under two linear bounds, which an optimiser is told, beside Ax and Optuna's TPE.

    python benchmarks/mixtures.py [--functions bowl6s0 ...] [--seeds 1] [--schedule 40 5 20]

The functions are those of families.py, of the six shares. All begin with the same design. Ax is told the
first five shares, of which the sixth is the rest, and the bounds as linear constraints. TPE knows no such
constraints: what breaks one is worth as much as the worst of the design and more, the farther it is
off, and counts as an evaluation. Printed: the best value of each above the least that a search of the
function itself finds, and CPU seconds. Needs `ax-platform` and `optuna` (benchmarks/rivals.txt).
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from batches import find_problem
from numpy.typing import NDArray
from scipy.optimize import minimize
from searching import Results, next_batch

from dngo.acquisition import History, design
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
NAMES = [f"x{i}" for i in range(6)]
BOUNDS = ["x0 + x1 <= 0.6", "x2 - x3 <= 0.2"]
SPACE = Space(
    {name: Float(type="float", low=0, high=1) for name in NAMES},
    [f"{' + '.join(NAMES)} == 1", *BOUNDS],
)


def excess(v: Array) -> Array:
    """By how much shares v (n, 6) break the bounds: (n,), 0 where they keep them."""
    return (
        np.maximum(v[:, 0] + v[:, 1] - 0.6, 0)
        + np.maximum(v[:, 2] - v[:, 3] - 0.2, 0)
        + np.maximum(-v[:, 5], 0)
    )


def least(function: Function) -> float:
    """The least feasible value, by many points and descents from the best of them."""
    v = np.random.default_rng(0).dirichlet(np.ones(6), 200_000)
    v = v[excess(v) == 0]
    y = function(v)
    rules = [
        {"type": "eq", "fun": lambda x: x.sum() - 1},
        {"type": "ineq", "fun": lambda x: 0.6 - x[0] - x[1]},
        {"type": "ineq", "fun": lambda x: 0.2 - x[2] + x[3]},
    ]
    found = [
        minimize(lambda x: function(x[None])[0], start, bounds=[(0, 1)] * 6, constraints=rules).fun
        for start in v[np.argsort(y)[:20]]
    ]
    return float(min(y.min(), *found))


def ours(function: Function, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """All points that this package asks for with its defaults, the design v (n, 6) first."""
    iteration = np.zeros(len(v), dtype=int)
    for t in range(1, rounds + 1):
        y = function(v)
        data = TrainingData(x=SPACE.encode(v), y=y, constraints={"completed": np.ones(len(v))})
        history = History(v, y, iteration=iteration)
        _, picks = next_batch(SPACE, history, data, size=batch, key=(seed, t))
        v = np.concatenate([v, picks.v])
        iteration = np.concatenate([iteration, np.full(len(picks), t)])
    return v


def ax(function: Function, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """The same of Ax."""
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    logging.disable(logging.WARNING)
    client: Any = Client(random_seed=seed)
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
            for name in NAMES[:5]
        ],
        parameter_constraints=[*BOUNDS, f"{' + '.join(NAMES[:5])} <= 1"],
    )
    client.configure_optimization(objective="-y")
    client.configure_generation_strategy(
        initialization_budget=0,
        initialize_with_center=False,
        use_existing_trials_for_initialization=True,
    )
    for point, value in zip(v.tolist(), function(v), strict=True):
        trial = client.attach_trial(parameters=dict(zip(NAMES[:5], point[:5], strict=True)))
        client.complete_trial(trial_index=trial, raw_data={"y": float(value)})
    for _ in range(rounds):
        asked = client.get_next_trials(max_trials=batch)
        five = np.array([[p[name] for name in NAMES[:5]] for p in asked.values()])
        new = np.column_stack([five, 1.0 - five.sum(axis=1)])
        for trial, value in zip(asked, function(new), strict=True):
            client.complete_trial(trial_index=trial, raw_data={"y": float(value)})
        v = np.concatenate([v, new])
    return v


def tpe(function: Function, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """The same of Optuna's TPE, with a penalty."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=True)
    )
    for row in v.tolist():
        study.enqueue_trial(dict(zip(NAMES[:5], row[:5], strict=True)))
    worst, found = float(function(v).max()), []
    for size in [len(v), *[batch] * rounds]:
        trials = [study.ask() for _ in range(size)]
        five = np.array([[t.suggest_float(name, 0, 1) for name in NAMES[:5]] for t in trials])
        new = np.column_stack([five, 1.0 - five.sum(axis=1)])
        broken = excess(new)
        values = np.where(broken > 0, worst + broken * abs(worst), function(np.clip(new, 0, 1)))
        for trial, value in zip(trials, values, strict=True):
            study.tell(trial, float(value))
        found.append(new)
    return np.concatenate(found)


METHODS: dict[str, Callable[..., Array]] = {"dngo": ours, "Ax": ax, "TPE": tpe}
TOLERANCE = 1e-5  # of a bound: Ax rounds its proposals to six digits


def measure(
    name: str, method: str, schedule: tuple[int, int, int], seed: int
) -> tuple[float, float, float]:
    """The best feasible value above the least, the share that broke a bound, and CPU seconds."""
    problem, (size, rounds, batch) = find_problem(name), schedule
    function = partial(problem.evaluate, rng=np.random.default_rng(0))
    rng = np.random.default_rng(seed)
    v = design(SPACE, size, rng=rng, exclude=np.empty((0, SPACE.k)))
    begun = time.process_time()
    v = METHODS[method](function, v, rounds, batch, seed)
    seconds = time.process_time() - begun
    kept = excess(v) <= TOLERANCE
    return float(function(v[kept]).min() - least(function)), float(np.mean(~kept)), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    drawn = [f"{family}6s{i}" for family in ("bowl", "waves", "peaks", "ripples") for i in (0, 1)]
    parser.add_argument("--functions", nargs="+", default=drawn)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--schedule", type=int, nargs=3, default=(40, 5, 20))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("mixtures.jsonl"))
    given = parser.parse_args()
    if "Ax" in given.methods and not importlib.util.find_spec("ax"):
        parser.error("Ax needs a package: pip install ax-platform; or leave it out by --methods")
    results, schedule = Results(given.results), tuple(given.schedule)
    print(f"| function | {' | '.join(given.methods)} |\n| --- |{' --- |' * len(given.methods)}")
    for name in given.functions:
        cells = []
        for method in given.methods:
            runs = [
                results.of(
                    (name, method, *schedule, s), partial(measure, name, method, schedule, s)
                )
                for s in range(given.seeds)
            ]
            value, broken, seconds = np.mean(runs, axis=0)
            cells.append(f"{value:.3g} ({broken:.0%} broken, {seconds:.0f} s)")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

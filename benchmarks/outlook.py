"""Whether what is stated of the distance to the optimum holds, on functions whose optimum is known.

    python benchmarks/outlook.py [--rounds 6] [--results runs.jsonl]    # the default surrogate
    python benchmarks/outlook.py --process                              # a process, cheaply searched

Twenty functions, each studied from a design of ten in batches of four by the defaults. Before
every batch the model states a distance that the best point known is within with a probability, and what
five batches are expected to gain; printed are how often the distance held, and, over all functions in
units of the spread of a hundred uniform values, what was expected of the batches and what they gained.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from families import drawn
from numpy.typing import NDArray
from objectives import (
    ackley,
    branin,
    cube,
    griewank,
    hartmann6,
    levy,
    michalewicz,
    rastrigin,
    rosenbrock,
)
from scipy.optimize import minimize
from searching import SMALL, Results, Settings, next_batch

from dngo.acquisition import History, design
from dngo.acquisition.outlook import look_ahead
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import TrainingData
from dngo.surrogates.settings import SurrogateSettings

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
PROBABILITIES = (0.25, 0.5, 0.75, 0.9, 0.95)  # the last is the default of stop.probability
BATCH = 4
DEFAULTS = Settings(surrogate=SurrogateSettings(), acquisition=AcquisitionSettings())


def box(
    function: Function, k: int, low: float, high: float, shift: float = 0.0
) -> tuple[int, Function]:
    """A function of u in the unit cube, moved so that no symmetric design meets its optimum."""
    return k, lambda u: function(
        low + (high - low) * u + shift * (high - low) * np.sin(np.arange(k))
    )


FUNCTIONS: dict[str, tuple[int, Function]] = {
    "branin": (2, lambda u: branin(np.stack([15 * u[:, 0] - 5, 15 * u[:, 1]], axis=1))),
    "hartmann6": (6, hartmann6),
    **{f"ackley{k}": box(ackley, k, -5, 5, 0.1) for k in (2, 4)},
    "levy3": box(levy, 3, -10, 10, 0.1),
    "rastrigin2": box(rastrigin, 2, -2, 2, 0.1),
    **{f"rosenbrock{k}": box(rosenbrock, k, -2, 2) for k in (2, 4)},
    "griewank3": box(griewank, 3, -5, 5, 0.1),
    "michalewicz2": box(michalewicz, 2, 0, np.pi),
    **{
        f"{family}{k}s{seed}": (k, drawn(family, k, seed))
        for family in ("bowl", "waves", "peaks", "ripples", "valley")
        for k, seed in ((2, 3), (3, 4))
    },
}


def lowest(k: int, function: Function) -> float:
    """The minimum, by the best of 30,000 points and a simplex from each of the ten best."""
    u = np.random.default_rng(1).random((30_000, k))
    values = function(u)
    starts = u[np.argsort(values)[:10]]

    def at(x: Array) -> float:
        return float(function(np.clip(x, 0, 1)[None])[0])

    options = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 2000}
    return min(float(minimize(at, x, method="Nelder-Mead", options=options).fun) for x in starts)


def run(name: str, rounds: int, settings: Settings) -> list[dict[str, float | list[float]]]:
    """What was stated before each batch, and what is so."""
    k, function = FUNCTIONS[name]
    space = cube(k)
    optimum = lowest(k, function)
    spread = float(np.std(function(np.random.default_rng(2).random((100, k)))))
    v = design(space, 10, rng=np.random.default_rng(0), exclude=np.empty((0, k)))
    found: list[dict[str, float | list[float]]] = []
    for t in range(rounds):
        y = function(v)
        data = TrainingData(x=space.encode(v), y=y, constraints={"completed": np.ones(len(v))})
        history = History(v, y)
        model, picks = next_batch(space, history, data, size=BATCH, key=(t,), **settings)
        outlook = look_ahead(model, space, history, picks.v, rng=np.random.default_rng([t, 2]))
        assert outlook is not None
        found.append(
            {
                "regret": float(y.min()) - optimum,
                "distances": [outlook.distance(p) for p in PROBABILITIES],
                "batch": outlook.batch / spread,
                "further": outlook.further / spread,
                "best": float(y.min()) / spread,
            }
        )
        v = np.concatenate([v, picks.v])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument(
        "--process", action="store_true", help="a Gaussian process, as before 0.3.0"
    )
    parser.add_argument("--results", type=Path, default=Path("outlook.jsonl"))
    arguments = parser.parse_args()
    results = Results(arguments.results)
    settings = SMALL if arguments.process else DEFAULTS
    courses = [
        results.of((name,), partial(run, name, arguments.rounds, settings)) for name in FUNCTIONS
    ]
    states = [state for course in courses for state in course]
    print("| stated | held |\n| --- | --- |")
    for i, p in enumerate(PROBABILITIES):
        held = [state["regret"] <= state["distances"][i] + 1e-9 for state in states]
        print(f"| {p} | {np.mean(held):.2f} of {len(held)} |")
    expected = sum(state["batch"] for course in courses for state in course[:-1])
    gained = sum(course[0]["best"] - course[-1]["best"] for course in courses)
    five = [(c[0]["further"], c[0]["best"] - c[5]["best"]) for c in courses if len(c) > 5]
    print(f"\nOf single batches {expected:.2f} were expected, {gained:.2f} were gained.")
    print(
        "Of five, from the design on: {:.2f} expected, {:.2f} gained.".format(*np.sum(five, axis=0))
    )


if __name__ == "__main__":
    main()

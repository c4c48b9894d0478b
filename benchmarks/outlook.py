"""Whether what is stated of the distance to the optimum holds, on functions whose optimum is known.

    python benchmarks/outlook.py [--rounds 6] [--results runs.jsonl]

Twenty functions, each studied from a design of ten in batches of four with a Gaussian process. Before
every batch the model states a distance that the best point known is within with a probability, and what
five batches are expected to gain; printed are how often the distance held, and, over all functions in
units of the spread of a hundred uniform values, what was expected of the batches and what they gained.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from families import drawn
from numpy.typing import NDArray
from objectives import ackley, branin, griewank, hartmann6, levy, michalewicz, rastrigin, rosenbrock
from scipy.optimize import minimize

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.outlook import look_ahead
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
MODEL = SurrogateSettings(kind="gp", hyperparameter_samples=5)
ACQUISITION = AcquisitionSettings(
    uniform_candidates=1024,
    local_candidates=512,
    shortlist=256,
    fantasies=5,
    refinements=2,
    ascents=2,
)
PROBABILITIES = (0.25, 0.5, 0.75, 0.9)
BATCH = 4


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


def run(name: str, rounds: int) -> list[dict[str, float | list[float]]]:
    """What was stated before each batch, and what is so."""
    k, function = FUNCTIONS[name]
    space = Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(k)})
    optimum = lowest(k, function)
    spread = float(np.std(function(np.random.default_rng(2).random((100, k)))))
    v = design(space, 10, rng=np.random.default_rng(0), exclude=np.empty((0, k)))
    found: list[dict[str, float | list[float]]] = []
    for t in range(rounds):
        y = function(v)
        data = TrainingData(x=space.encode(v), y=y, constraints={"completed": np.ones(len(v))})
        model = fit_model(data, MODEL, rng=np.random.default_rng([t, 0]))
        history = History(v, y)
        rng = np.random.default_rng([t, 1])
        picks = propose_batch(model, space, history, size=BATCH, settings=ACQUISITION, rng=rng)
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
    parser.add_argument("--results", type=Path, default=Path("outlook.jsonl"))
    arguments = parser.parse_args()
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    known = dict(map(json.loads, lines))
    for name in FUNCTIONS:
        if name not in known:
            known[name] = run(name, arguments.rounds)
            with arguments.results.open("a") as stream:
                stream.write(json.dumps([name, known[name]]) + "\n")
    states = [state for course in known.values() for state in course]
    print("| stated | held |\n| --- | --- |")
    for i, p in enumerate(PROBABILITIES):
        held = [state["regret"] <= state["distances"][i] + 1e-9 for state in states]
        print(f"| {p} | {np.mean(held):.2f} of {len(held)} |")
    expected = sum(state["batch"] for course in known.values() for state in course[:-1])
    gained = sum(course[0]["best"] - course[-1]["best"] for course in known.values())
    five = [(c[0]["further"], c[0]["best"] - c[5]["best"]) for c in known.values() if len(c) > 5]
    print(f"\nOf single batches {expected:.2f} were expected, {gained:.2f} were gained.")
    print(
        "Of five, from the design on: {:.2f} expected, {:.2f} gained.".format(*np.sum(five, axis=0))
    )


if __name__ == "__main__":
    main()

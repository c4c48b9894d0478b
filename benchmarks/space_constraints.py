"""Proposals that break a known constraint, of 10,000 in each of 20 generated spaces; the goal is none.

    python benchmarks/space_constraints.py [--spaces 20] [--proposals 10000] [--seed 0]

A space is generated around constraints of one of seven sorts, with numbers drawn at random: a mixture
with bounds, a mixture on a grid, a mixture of few, orders on logarithmic scales, random half-spaces
through a mixed space, products of integers, alternatives. A design, every kind of acquisition after it
and the baselines each propose a part of the points. Whether a point keeps the constraints is judged by
plain arithmetic on the parameters that a job would be given, not by the package.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Int
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import ClassifierSettings, EnsembleSettings, SurrogateSettings

Point = dict[str, Any]
Keeps = Callable[[Point], bool]
KNOWN = 40  # points that the model of each space has seen
NETWORKS = EnsembleSettings(ensemble=3, width=8, steps=50, epochs=0)
MODEL = SurrogateSettings(networks=NETWORKS, hyperparameter_samples=3)
FEW: dict[str, Any] = {"uniform_candidates": 2048, "local_candidates": 512, "fantasies": 5}
# What proposes, and which share of the points.
PARTS: dict[str, tuple[float, dict[str, Any]]] = {
    "design": (0.1, {}),
    "mcei": (0.2, FEW),
    "pi": (0.1, FEW),
    "lcb": (0.1, FEW),
    "thompson": (0.2, {"uniform_candidates": 2048, "local_candidates": 512}),
    "random": (0.14, {}),
    "sobol": (0.14, {}),
    "optuna": (0.02, {"sampler": "tpe"}),
}


def near(a: float, b: float, size: float) -> bool:
    return abs(a - b) <= 1.001e-9 * max(size, abs(b))


def below(a: float, b: float, size: float) -> bool:
    return a <= b or near(a, b, size)


def floats(k: int, **more: Any) -> dict[str, Any]:
    return {f"x{i}": Float(type="float", **{"low": 0, "high": 1, **more}) for i in range(k)}


def mixture(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    k, bound = int(rng.integers(3, 11)), round(float(rng.uniform(0.2, 0.8)), 2)
    total = " + ".join(f"x{i}" for i in range(k))

    def keeps(p: Point) -> bool:
        x = [p[f"x{i}"] for i in range(k)]
        return near(math.fsum(x), 1, 1) and below(x[0] + x[1], bound, 1) and x[2] >= 0.1 - 1e-10

    return floats(k), [f"{total} == 1", f"x0 + x1 <= {bound}", "x2 >= 0.1"], keeps


def gridded(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    k, step = int(rng.integers(4, 9)), float(rng.choice([0.01, 0.02, 0.05]))
    total = " + ".join(f"x{i}" for i in range(k))

    def keeps(p: Point) -> bool:
        x = [p[f"x{i}"] for i in range(k)]
        on = all(near(value / step, round(value / step), 1) for value in x)
        return on and near(math.fsum(x), 1, 1) and below(x[0], x[1], 1)

    return floats(k, step=step), [f"{total} == 1", "x0 <= x1"], keeps


def few(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    k, most = int(rng.integers(5, 11)), int(rng.integers(2, 5))
    names = [f"x{i}" for i in range(k)]

    def keeps(p: Point) -> bool:
        x = [p[name] for name in names]
        return near(math.fsum(x), 1, 1) and sum(value != 0 for value in x) <= most

    texts = [f"{' + '.join(names)} == 1", f"count_nonzero({', '.join(names)}) <= {most}"]
    return floats(k), texts, keeps


def orders(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    k = int(rng.integers(2, 6))
    chain = " < ".join(f"x{i}" for i in range(k))

    def keeps(p: Point) -> bool:
        return all(p[f"x{i}"] < p[f"x{i + 1}"] for i in range(k - 1))

    return floats(k, low=1e-5, high=10, log=True), [chain], keeps


def half_spaces(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    k = int(rng.integers(3, 8))
    parameters: dict[str, Any] = {"c": Categorical(type="categorical", choices=["u", "v", "w"])}
    for i in range(k):
        low = float(rng.integers(-5, 5))
        parameters[f"x{i}"] = (
            Float(type="float", low=low, high=low + 3),
            Float(type="float", low=low, high=low + 3, step=0.1),
            Int(type="int", low=int(low), high=int(low) + 30),
            Float(type="float", low=1e-3, high=100, log=True),
        )[int(rng.integers(4))]
    space = Space(parameters)
    (inside,) = space.to_parameters(space.decode(rng.random((1, space.k))))
    rows = []
    for _ in range(int(rng.integers(1, 5))):
        a = [float(x) for x in np.round(rng.normal(size=k), 2)]
        room = float(rng.choice([0.05, 1.0]))
        rows.append((a, math.fsum(a[i] * inside[f"x{i}"] for i in range(k)) + room))

    def keeps(p: Point) -> bool:
        return all(
            below(math.fsum(t), b, math.fsum(abs(x) for x in t))
            for a, b in rows
            for t in [[a[i] * p[f"x{i}"] for i in range(k)]]
        )

    texts = [" + ".join(f"{a[i]} * x{i}" for i in range(k)) + f" <= {b!r}" for a, b in rows]
    return parameters, texts, keeps


def products(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    most, heads = int(rng.integers(200, 5000)), int(rng.integers(2, 9))
    parameters = {
        "n": Int(type="int", low=1, high=1024, log=True),
        "m": Int(type="int", low=1, high=1024, log=True),
        "h": Int(type="int", low=1, high=heads),
        "r": Float(type="float", low=1e-4, high=1, log=True),
    }

    def keeps(p: Point) -> bool:
        return p["n"] * p["m"] <= most and p["n"] % p["h"] == 0

    return parameters, [f"n * m <= {most}", "n % h == 0"], keeps


def alternatives(rng: np.random.Generator) -> tuple[dict[str, Any], list[str], Keeps]:
    least, radius = round(float(rng.uniform(0.1, 0.4)), 2), round(float(rng.uniform(0.05, 0.3)), 3)
    parameters = floats(4) | {"c": Categorical(type="categorical", choices=["u", "v"])}

    def keeps(p: Point) -> bool:
        first = p["x0"] == 0 or p["x0"] >= least - 1e-10
        ball = (p["x1"] - 0.5) ** 2 + (p["x2"] - 0.5) ** 2
        return (
            first
            and (p["c"] == "u" or below(ball, radius**2, 1.0))
            and near(p["x2"] * 2, 1 - p["x3"], 1)
        )

    texts = [
        f"x0 == 0 or x0 >= {least}",
        f"c == 'u' or (x1 - 0.5)**2 + (x2 - 0.5)**2 <= {radius}**2",
        "2 * x2 + x3 == 1",
    ]
    return parameters, texts, keeps


SORTS = (mixture, gridded, few, orders, half_spaces, products, alternatives)


def proposals(space: Space, number: int, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """What each kind proposes after a few points that were evaluated: name and points (q, k)."""
    rng = np.random.default_rng(seed)
    v = design(space, KNOWN, rng=rng, exclude=np.empty((0, space.k)))
    # An optimum on many of the faces.
    y = ((space.unit(v) - rng.choice([0.0, 0.3, 1.0], space.k)) ** 2).sum(axis=1)
    data = TrainingData(x=space.encode(v), y=y, constraints={"completed": np.ones(len(v))})
    model = fit_model(
        data,
        MODEL,
        ClassifierSettings(networks=NETWORKS.model_dump(exclude_defaults=True)),
        rng=rng,
    )
    for kind, (share, more) in PARTS.items():
        size = round(share * number)
        if kind == "design":
            yield kind, design(space, size, rng=rng, exclude=v)
            continue
        yield (
            kind,
            propose_batch(
                model,
                space,
                History(v, y, np.empty((0, space.k))),
                size=size,
                settings=AcquisitionSettings(kind=kind, **more),
                rng=rng,
                root=np.random.SeedSequence(seed),
            ).v,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spaces", type=int, default=20)
    parser.add_argument("--proposals", type=int, default=10_000, help="in each space")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| space | parameters | share feasible | proposals | distinct | broken | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    proposed = broken = 0
    for i in range(arguments.spaces):
        make = SORTS[i % len(SORTS)]
        parameters, texts, keeps = make(np.random.default_rng((arguments.seed, i)))
        space = Space(parameters, texts)
        began = time.perf_counter()
        found = list(proposals(space, arguments.proposals, i))
        seconds = time.perf_counter() - began
        points = space.to_parameters(np.concatenate([v for _, v in found]))
        distinct = len({tuple(p.items()) for p in points})
        wrong = sum(not keeps(p) for p in points)
        proposed, broken = proposed + len(points), broken + wrong
        share = space.feasible.share()
        print(
            f"| {make.__name__} | {space.k} | {share:.2g} | {len(points)} | {distinct} | {wrong} "
            f"| {seconds:.0f} |",
            flush=True,
        )
    print(f"\n{broken} of {proposed} proposals break a known constraint")


if __name__ == "__main__":
    main()

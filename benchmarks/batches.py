"""Batches against the rivals: functions, the same first designs, the same seeds.

    python benchmarks/batches.py                                  # everything
    python benchmarks/batches.py --problems levy20 --seeds 3 --methods dngo sobol
    python benchmarks/batches.py --problems tuning --methods dngo # what rules are tuned on
    python benchmarks/batches.py --problems reporting             # BBOB, what they are reported on
    python benchmarks/batches.py --problems bbob8d10i5 --schedule 100 2 400
    python benchmarks/batches.py --problems constrained --methods dngo optuna_tpe scbo

What is printed stands in studies.py. Each run starts from 100 Sobol points and then takes ten batches of
100, but for problems with a schedule of their own. Functions of BBOB and of the suites of COCO are problems
by name, too: bbob8d10i5 is the eighth in ten dimensions, instance 5; then there are mixint3d10i5,
noisy107d10i5 and constrained2d10i5, whose bounds are told as numbers. What is `tuning` and what `reporting`
stands in families.py.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable

import numpy as np
from families import (
    BOUNDED,
    CONSTRAINED,
    DECEPTIVE,
    FAMILIES,
    LEVELS,
    NOISES,
    NOISY,
    RARE,
    REPORTED_ON,
    TUNED_ON,
    bounded,
    drawn,
    levels,
    noisy,
)
from networks import NETWORKS
from numpy.typing import NDArray
from objectives import Coco, ackley, bbob, disk_branin, gramacy, hartmann6, levy
from shapes import DECADES, STEPS
from studies import METHODS, Evaluate, Problem, compare, plain

from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Parameter

Array = NDArray[np.float64]
SETS = {
    "tuning": TUNED_ON,
    "bounded": BOUNDED,
    "noisy": NOISY,
    "levels": LEVELS,
    "deceptive": DECEPTIVE,
    "rare": RARE,
    "networks": NETWORKS,
    "steps": STEPS,
    "decades": DECADES,
    "constrained": CONSTRAINED,
    "reporting": REPORTED_ON,
}


def hundreds(
    space: Space, evaluate: Evaluate, truth: Callable[[Array], Array] | None = None
) -> Problem:
    """A problem with the usual schedule of large batches."""
    return Problem(space, evaluate, truth=truth, design=100, rounds=10, batch=100)


def box(k: int, low: float, high: float) -> Space:
    """k floats between the same limits."""
    parameters: dict[str, Parameter] = {
        f"x{i:02d}": Float(type="float", low=low, high=high) for i in range(k)
    }
    return Space(parameters)


def of_levels(sizes: list[int], seed: int) -> Problem:
    """A table of categories' levels."""
    table = levels(sizes, seed)
    parameters: dict[str, Parameter] = {
        f"c{j}": Categorical(type="categorical", choices=[f"l{i}" for i in range(size)])
        for j, size in enumerate(sizes)
    }
    return Problem(Space(parameters), plain(lambda v: table[tuple(v.astype(int).T)]), target=0.0)


def with_numbers(coco: Coco) -> Evaluate:
    """The function's values, and its bounds as numbers."""
    return lambda v, rng: (coco(v), {f"c{i}": x for i, x in enumerate(coco.constraints(v).T)})


# Ackley's function is moved by this vector.
SHIFT = np.random.default_rng(7).uniform(-16.384, 16.384, 10)
DISK = Space({"a": Float(type="float", low=-5, high=10), "b": Float(type="float", low=0, high=15)})
PROBLEMS: dict[str, Problem] = {
    "hartmann6": hundreds(box(6, 0, 1), plain(hartmann6)),
    # Six inputs of forty matter: x04, x11, ... x39.
    "hartmann6of40": hundreds(box(40, 0, 1), plain(lambda v: hartmann6(v[:, 4::7]))),
    "ackley10": hundreds(box(10, -32.768, 32.768), plain(lambda v: ackley(v - SHIFT))),
    "levy20": hundreds(box(20, -10, 10), plain(levy)),
    "disk_branin": Problem(DISK, plain(disk_branin), 0.39795, design=10, rounds=14, batch=5),
    "gramacy": Problem(box(2, 0, 1), plain(gramacy), 0.62, design=10, rounds=14, batch=5),
}


def find_problem(name: str) -> Problem:
    """The problem of that name; ValueError if there is none."""
    if name in PROBLEMS:
        return PROBLEMS[name]
    if make := (STEPS | DECADES).get(name):
        space, function = make()
        return Problem(box(space, 0, 1) if isinstance(space, int) else space, plain(function))
    if name in NETWORKS:
        k, function = NETWORKS[name]
        return hundreds(box(k, 0, 1), plain(function))
    family = f"({'|'.join(FAMILIES)})"
    if match := re.fullmatch(rf"{family}(\d+)s(\d+)(?:{family}(\d+))?", name):
        k, seed = int(match[2]), int(match[3])
        objective = drawn(match[1], k, seed)
        if match[4]:
            objective = bounded(objective, match[4], k, seed, int(match[5]))
        return hundreds(box(k, 0, 1), plain(objective))
    if match := re.fullmatch(rf"{family}(\d+)s(\d+)({'|'.join(NOISES)})", name):
        k = int(match[2])
        objective = drawn(match[1], k, int(match[3]))
        observed = noisy(objective, match[4], k)
        return hundreds(box(k, 0, 1), lambda v, rng: (observed(v, rng), {}), objective)
    if match := re.fullmatch(r"levels(\d+(?:x\d+)*)s(\d+)", name):
        return of_levels([int(size) for size in match[1].split("x")], int(match[2]))
    if match := re.fullmatch(r"(mixint|noisy|constrained)(\d+)d(\d+)i(\d+)", name):
        coco = Coco(f"bbob-{match[1]}", int(match[2]), int(match[3]), int(match[4]))
        if match[1] == "constrained":
            return hundreds(coco.space, with_numbers(coco))
        return hundreds(coco.space, plain(coco), coco.median if match[1] == "noisy" else None)
    match = re.fullmatch(r"bbob(\d+)d(\d+)(?:i(\d+))?", name)
    if match is None:
        raise ValueError(
            f"{name}: no such problem; there are {', '.join(PROBLEMS)}, bbob8d10i5, waves5s0, "
            "bowl2s1waves20, bowl5s0even, mixint3d10i5, noisy107d10i5 and constrained2d10i5"
        )
    number, k, instance = int(match[1]), int(match[2]), int(match[3] or 1)
    if not 1 <= number <= 24 or k < 2:
        raise ValueError(f"{name}: BBOB has functions 1 to 24, in 2 dimensions or more")
    if not importlib.util.find_spec("ioh"):
        raise ValueError("the BBOB functions need a package: pip install ioh")
    return hundreds(box(k, -5, 5), plain(bbob(number, k, instance)))


# Those of one objective that can be without numbers.
USUAL = [
    name
    for name in METHODS
    if name not in ("optuna_multivariate", "cma_ranks", "scbo", "log_nehvi", "nsga2", "sms")
]

if __name__ == "__main__":
    compare(__doc__, find_problem, PROBLEMS, USUAL, SETS)

"""Several objectives against the rivals: the same problems, the same first designs.

    python benchmarks/front.py                                    # everything, three seeds
    python benchmarks/front.py --problems tuning --methods dngo   # what rules are tuned on
    python benchmarks/front.py --problems zdt2x10 --schedule 40 10 10 --rules '{"front": {"boldest": 0.5}}'

Studies and what is printed stand in studies.py. The hypervolume begins a tenth of the best known front's
extent beyond its worst values. Problems are pymoo's (rivals.txt), called by name and number of inputs:
zdt4x10. Those of the family dtlz have three objectives. biobj12x10 is the twelfth function of COCO's suite
bbob-biobj, between -5 and 5; discbrake and vehicle are below. Inputs are scaled to the unit cube.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from objectives import cube
from rivals import NSGA2
from studies import Beside, Problem, Study, compare

from dngo.fronts import hypervolume, on_front

Array = np.ndarray
TUNING = ("zdt1x10", "zdt2x10", "dtlz2x6", "bnh", "c2dtlz2x6")
REPORTING = ("zdt3x10", "zdt4x10", "zdt6x10", "dtlz4x6", "mw1x10", "c1dtlz1x6", "truss2d")


def of_pymoo(name: str) -> Any:
    """A problem as pymoo has it."""
    from pymoo.problems import get_problem
    from pymoo.problems.functional import FunctionalProblem

    kind, _, inputs = name.partition("x") if name[-1].isdigit() else (name, "", "")
    if kind.startswith("biobj"):
        return _biobj(int(kind.removeprefix("biobj")), int(inputs))
    if kind in OWN:
        limits, objectives, bounds = OWN[kind]
        low, high = np.array(limits, dtype=float).T
        return FunctionalProblem(len(low), objectives, constr_ieq=bounds, xl=low, xu=high)
    several = {"n_obj": 3} if "dtlz" in kind else {}
    return get_problem(kind, **({"n_var": int(inputs)} if inputs else {}), **several)


@cache
def find_problem(name: str) -> Problem:
    """The problem of that name; ValueError if there is none."""
    try:
        inner = of_pymoo(name)
    except Exception as error:  # pymoo has several for a name that it does not know
        raise ValueError(
            f"{name}: no such problem; there are zdt4x10, biobj12x10, vehicle"
        ) from error

    def evaluate(u: Array, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = inner.xl + u * (inner.xu - inner.xl)
            found = inner.evaluate(x, return_as_dictionary=True)
        bounds = np.reshape(found.get("G", np.empty((len(u), 0))), (len(u), -1))
        return np.asarray(found["F"], dtype=float), {f"g{j}": g for j, g in enumerate(bounds.T)}

    def share(values: Array) -> float:
        front = best_known(name)
        reference = front.max(axis=0) + 0.1 * np.ptp(front, axis=0)
        return hypervolume(values, reference) / hypervolume(front, reference)

    space = cube(inner.n_var)
    return Problem(space, evaluate, share=share, design=100, rounds=10, batch=100)


@cache
def best_known(name: str) -> Array:
    """The best known front: pymoo's, or where it has none that of a long evolution."""
    with contextlib.suppress(Exception):  # some of pymoo's are files to be downloaded
        front = of_pymoo(name).pareto_front()
        if front is not None:
            return np.asarray(front)[on_front(np.asarray(front))]
    kept = Path(tempfile.gettempdir()) / f"front-of-{name}.npy"
    if not kept.exists():
        study = Study(replace(find_problem(name), design=200), 0)
        search = Beside(NSGA2, study)
        for _ in range(400):
            study.add(search.ask(200), study.noise)
        np.save(kept, study.y[study.ok][on_front(study.y[study.ok])])
    return np.asarray(np.load(kept))


def _biobj(number: int, k: int) -> Any:
    import cocoex
    from pymoo.problems.functional import FunctionalProblem

    where = f"function_indices:{number} dimensions:{k} instance_indices:1"
    problem = cocoex.Suite("bbob-biobj", "", where).get_problem(0)
    both = [lambda x: problem(x)[0], lambda x: problem(x)[1]]
    found = FunctionalProblem(k, both, xl=np.full(k, -5.0), xu=np.full(k, 5.0))
    found.suite = problem  # which ends with the suite
    return found


def _brake(x: Array) -> tuple[float, float]:
    """Of a disc brake's inner and outer radius: the differences of their squares and cubes."""
    return float(x[1] ** 2 - x[0] ** 2), float(x[1] ** 3 - x[0] ** 3)


def _brake_bounds() -> list[Callable[[Array], float]]:
    return [
        lambda x: 20 - (x[1] - x[0]),
        lambda x: x[2] / (3.14 * _brake(x)[0]) - 0.4,
        lambda x: 2.22e-3 * x[2] * _brake(x)[1] / _brake(x)[0] ** 2 - 1,
        lambda x: 900 - 2.66e-2 * x[2] * x[3] * _brake(x)[1] / _brake(x)[0],
    ]


# Ray and Liew 2002: mass and stopping time of a disc brake. Liao et al. 2008: mass, acceleration and
# intrusion of a vehicle's front in a crash, by five thicknesses. Limits, objectives and bounds.
OWN: dict[str, Any] = {
    "discbrake": (
        ((55, 80), (75, 110), (1000, 3000), (11, 20)),
        [
            lambda x: 4.9e-5 * _brake(x)[0] * (x[3] - 1),
            lambda x: 9.82e6 * _brake(x)[0] / (x[2] * x[3] * _brake(x)[1]),
        ],
        _brake_bounds(),
    ),
    "vehicle": (
        ((1, 3),) * 5,
        [
            lambda x: 1640.2823 + x @ [2.3573285, 2.3220035, 4.5688768, 7.7213633, 4.4559504],
            lambda x: (
                6.5856
                + x @ [1.15, -1.0427, 0.9738, 0.8364, 0.0]
                + (-0.3695 * x[0] * x[3] + 0.0861 * x[0] * x[4] + 0.3628 * x[1] * x[3])
                + (-0.1106 * x[0] ** 2 - 0.3437 * x[2] ** 2 + 0.1764 * x[3] ** 2)
            ),
            lambda x: (
                -0.0551
                + x @ [0.0181, 0.1024, 0.0421, 0.0, 0.0]
                + (-0.0073 * x[0] * x[1] + 0.024 * x[1] * x[2] - 0.0118 * x[1] * x[3])
                + (-0.0204 * x[2] * x[3] - 0.008 * x[2] * x[4])
                + (-0.0241 * x[1] ** 2 + 0.0109 * x[3] ** 2)
            ),
        ],
        [],
    ),
}


if __name__ == "__main__":
    sets = {"tuning": TUNING, "reporting": REPORTING}
    usual = ("dngo", "nsga2", "sms", "sobol")
    compare(__doc__, find_problem, (*TUNING, *REPORTING), usual, sets)

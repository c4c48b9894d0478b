"""Several objectives against the rivals: one command, the same problems, the same first designs.

    python benchmarks/front.py                                    # everything, three seeds
    python benchmarks/front.py --problems tuning --methods dngo   # what rules are tuned on
    python benchmarks/front.py --problems zdt2x10 --schedule 40 10 10 --rules '{"boldest": 0.5}'

A run starts from the Sobol points of its seed, for every method the same, and takes batches. Printed is the
hypervolume of all feasible evaluations as a share of that of the best known front, from a tenth of its
extent beyond its worst values, and the feasible share of the last batch, both mean over the seeds. Problems
are pymoo's (rivals.txt), called by name and number of inputs; so are NSGA-II and SMS-EMOA. Other methods
are those of benchmarks/rivals.py: optuna_tpe, log_nehvi, qpots.
A line for each run is appended to `--results` (JSON lines), and runs found there are not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rivals import SeveralRival, installed_several
from scipy.stats import qmc

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.fronts import hypervolume, on_front, ranks
from dngo.rules import current, using
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings
from dngo.thresholds import Threshold

Array = np.ndarray
TUNING = ("zdt1x10", "zdt2x10", "dtlz2x6", "bnh", "c2dtlz2x6")
REPORTING = ("zdt3x10", "zdt4x10", "zdt6x10", "dtlz4x6", "mw1x10", "c1dtlz1x6", "truss2d")
KEPT = Threshold("<=", 0.0)  # pymoo's form of a constraint


@dataclass
class Problem:
    """A problem called by its name and number of inputs, which are scaled to the unit cube.

    zdt4x10 is pymoo's, biobj12x10 the twelfth function of COCO's suite bbob-biobj, between -5 and 5;
    discbrake and vehicle are below. dtlz problems have three objectives.
    """

    name: str

    @cached_property
    def pymoo(self) -> Any:
        """A problem as pymoo has it."""
        from pymoo.problems import get_problem
        from pymoo.problems.functional import FunctionalProblem

        name, _, inputs = (
            self.name.partition("x") if self.name[-1].isdigit() else (self.name, "", "")
        )
        if name.startswith("biobj"):
            return _biobj(int(name.removeprefix("biobj")), int(inputs))
        if name in OWN:
            limits, objectives, bounds = OWN[name]
            low, high = np.array(limits, dtype=float).T
            return FunctionalProblem(len(low), objectives, constr_ieq=bounds, xl=low, xu=high)
        several = {"n_obj": 3} if "dtlz" in name else {}
        return get_problem(name, **({"n_var": int(inputs)} if inputs else {}), **several)

    def __call__(self, u: Array) -> tuple[Array, Array]:
        """Objectives (n, m) and constraints (n, c), kept where 0 or less, at u (n, k)."""
        problem = self.pymoo
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = problem.evaluate(
                problem.xl + u * (problem.xu - problem.xl), return_as_dictionary=True
            )
        bounds = np.reshape(found.get("G", np.empty((len(u), 0))), (len(u), -1))
        return np.asarray(found["F"], dtype=float), np.asarray(bounds, dtype=float)

    @cached_property
    def front(self) -> Array:
        """The best known front: pymoo's, or where it has none that of a long evolution."""
        with contextlib.suppress(Exception):  # some of pymoo's are files to be downloaded
            front = self.pymoo.pareto_front()
            if front is not None:
                return np.asarray(front)[on_front(np.asarray(front))]
        kept = Path(tempfile.gettempdir()) / f"front-of-{self.name}.npy"
        if not kept.exists():
            values, bounds = self(evolution("nsga2", self, first(self, 200, 0), 400, 200, 0))
            feasible = values[(bounds <= 0).all(axis=1)]
            np.save(kept, feasible[on_front(feasible)])
        return np.asarray(np.load(kept))

    def shares(self, values: Array, bounds: Array) -> tuple[float, Array]:
        """The hypervolume of the feasible rows over that of the best known front; which are feasible."""
        front = self.front
        reference = front.max(axis=0) + 0.1 * np.ptp(front, axis=0)
        feasible = (bounds <= 0).all(axis=1)
        volume = hypervolume(values[feasible], reference)
        return volume / hypervolume(front, reference), feasible


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


def first(problem: Problem, size: int, seed: int) -> Array:
    """The design of a seed: (size, k)."""
    k = problem.pymoo.n_var
    exponent = int(np.ceil(np.log2(size)))
    return qmc.Sobol(k, rng=np.random.default_rng(seed)).random_base2(exponent)[:size]


def dngo(problem: Problem, u: Array, batches: int, size: int, seed: int, kind: str) -> Array:
    """The points of a study, its design included."""
    k = u.shape[1]
    space = Space({f"x{i:02d}": Float(type="float", low=0, high=1) for i in range(k)})
    v, batch = space.from_unit(u), np.zeros(len(u), dtype=int)
    for t in range(1, batches + 1):
        values, bounds = problem(space.unit(v))
        feasible = (bounds <= 0).all(axis=1)
        columns = {f"f{j}": values[:, j] for j in range(values.shape[1])}
        flags = {f"g{j}": (bounds[:, j] <= 0).astype(float) for j in range(bounds.shape[1])}
        data = TrainingData(
            space.encode(v),
            np.full(len(v), np.nan),
            constraints=flags,
            numbers={f"g{j}": bounds[:, j] for j in range(bounds.shape[1])},
            thresholds=dict.fromkeys(flags, KEPT),
            batch=batch,
            feasible=feasible,
            objectives=columns,
        )
        fit_stream, stream = (np.random.default_rng((seed, t, i)) for i in range(2))
        model = fit_model(data, SurrogateSettings(kind=kind), rng=fit_stream)
        y = np.full(len(v), np.nan)
        y[feasible] = ranks(values[feasible])
        history = History(v, y, iteration=batch, constraints=flags, objectives=columns)
        picks = propose_batch(
            model,
            space,
            history,
            size=size,
            settings=AcquisitionSettings(),
            rng=stream,
            root=np.random.SeedSequence(seed),
        )
        v = np.concatenate([v, picks.v])
        batch = np.concatenate([batch, np.full(len(picks), t)])
    return space.unit(v)


def evolution(method: str, problem: Problem, u: Array, batches: int, size: int, seed: int) -> Array:
    """The points that pymoo's NSGA-II or SMS-EMOA evaluates."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.algorithms.moo.sms import SMSEMOA
    from pymoo.optimize import minimize

    inner, found = problem.pymoo, []
    kinds = {"nsga2": NSGA2, "sms": SMSEMOA}
    algorithm = kinds[method](
        pop_size=len(u), n_offsprings=size, sampling=inner.xl + u * (inner.xu - inner.xl)
    )

    def note(state: Any) -> None:
        points = state.pop if not found else state.off
        found.append((points.get("X") - inner.xl) / (inner.xu - inner.xl))

    budget = ("n_eval", len(u) + batches * size)
    minimize(inner, algorithm, budget, seed=seed, callback=note)
    return np.concatenate(found)


def asked(rival: SeveralRival, problem: Problem, u: Array, batches: int, size: int) -> Array:
    """The points that a rival of benchmarks/rivals.py asks for, those of its design included."""
    rival.tell(u, *problem(u))
    for _ in range(batches):
        new = rival.ask(size)
        rival.tell(new, *problem(new))
        u = np.concatenate([u, new])
    return u


def run(method: str, problem: Problem, schedule: tuple[int, int, int], seed: int, kind: str) -> Any:
    size, batches, batch = schedule
    u, began = first(problem, size, seed), time.process_time()
    if method == "dngo":
        points = dngo(problem, u, batches, batch, seed, kind)
    elif method == "sobol":
        points = first(problem, size + batches * batch, seed)
    elif method in ("nsga2", "sms"):
        points = evolution(method, problem, u, batches, batch, seed)
    else:
        rival = installed_several()[method](u.shape[1], seed)
        points = asked(rival, problem, u, batches, batch)
    share, feasible = problem.shares(*problem(points))
    last = float(feasible[-batch:].mean())
    return {"share": share, "feasible": last, "seconds": time.process_time() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", nargs="+", default=["tuning", "reporting"])
    parser.add_argument("--methods", nargs="+", default=["dngo", "nsga2", "sms", "sobol"])
    parser.add_argument("--schedule", nargs=3, type=int, default=[100, 10, 100])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kind", default="auto", help="of the surrogate")
    parser.add_argument("--rules", type=json.loads, default={}, help="of the branch `front`")
    parser.add_argument("--results", type=Path, default=Path("results/front.jsonl"))
    given = parser.parse_args()
    sets = {"tuning": TUNING, "reporting": REPORTING}
    names = [n for word in given.problems for n in sets.get(word, (word,))]
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = {json.dumps(line["key"]): line for line in map(json.loads, lines)}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        for method in given.methods:
            found = []
            for seed in range(given.seeds):
                own = [given.kind, given.rules] if method == "dngo" else []
                key = [name, method, list(given.schedule), seed, *own]
                if json.dumps(key) not in known:
                    with using(current().but(front=given.rules)):
                        schedule = tuple(given.schedule)
                        line = {
                            "key": key,
                            **run(method, Problem(name), schedule, seed, given.kind),
                        }
                    known[json.dumps(key)] = line
                    with given.results.open("a") as stream:
                        stream.write(json.dumps(line) + "\n")
                found.append(known[json.dumps(key)])
            share, feasible, seconds = (
                np.mean([line[key] for line in found]) for key in ("share", "feasible", "seconds")
            )
            print(f"{name:12}{method:11}{share:8.4f}{feasible:8.2f}{seconds:8.0f} s", flush=True)


if __name__ == "__main__":
    main()

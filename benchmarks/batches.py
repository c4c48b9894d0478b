"""Batches against the rivals: one command, the same problems, the same seeds.

    python benchmarks/batches.py                                  # everything, ten seeds
    python benchmarks/batches.py --problems levy20 --seeds 3 --methods dngo sobol
    python benchmarks/batches.py --ablation --problems hartmann6  # what each part is worth
    python benchmarks/batches.py --problems tuning --methods dngo # what rules are tuned on
    python benchmarks/batches.py --problems reporting             # BBOB, what they are reported on
    python benchmarks/batches.py --problems bbob8d10i5 --schedule 100 2 400

Each run starts from 100 Sobol points (those of its seed, for every method) and then takes ten
batches of 100; problems with constraints have a schedule of their own. Printed are the best feasible
value, mean and standard deviation over the seeds, the share of points that another of their batch is
nearer to than .01 (root mean square in the unit cube), and CPU seconds of the method on one thread.
Rivals (rivals.py) that are not installed are left out: rivals.txt brings them, and the BBOB suite, whose
functions are problems by name too: bbob8d10i5 is the eighth in ten dimensions, instance 5. What is
`tuning` and what `reporting` stands in families.py; --schedule gives them other batches.
A line for each run is appended to `--results` (JSON lines), and runs found there are not repeated.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from families import (
    BOUNDED,
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
from objectives import (
    Coco,
    ackley,
    bbob,
    disk_branin,
    gramacy,
    griewank,
    hartmann6,
    levy,
    michalewicz,
    mixed,
    rastrigin,
    rosenbrock,
)
from rivals import Rival, installed
from shapes import DECADES, STEPS

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.acquisition.spacing import distances
from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Int, Ordinal, Parameter
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.nearby import around_the_best
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings

Array = NDArray[np.float64]

# ---- problems ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A function to minimise, and how it is to be spent on.

    evaluate: v (n, k) natural values, rng -> y (n,), NaN where infeasible.
    optimum: best possible value. target: what counts as found, or None.
    design, rounds, batch: points of the first design, batches after it, points in each.
    truth: the noiseless function that a result is scored by, at the point that the method
        recommends; None: `evaluate`, at all points.
    """

    space: Space
    evaluate: Callable[[Array, np.random.Generator], Array]
    optimum: float
    target: float | None = None
    design: int = 100
    rounds: int = 10
    batch: int = 100
    truth: Callable[[Array], Array] | None = None

    @property
    def schedule(self) -> str:
        """Points of the design, batches after it and their size, as 100+10x100."""
        return f"{self.design}+{self.rounds}x{self.batch}"

    def score(self, run: Run) -> float:
        """Best value of the feasible points; of a noisy problem, the truth at the recommended one."""
        if not np.isfinite(run.y).any():
            return float("nan")
        if self.truth is None:
            return float(np.nanmin(run.y))
        seen = run.v[np.nanargmin(run.y)]
        return float(self.truth((seen if run.recommended is None else run.recommended)[None])[0])


def box(k: int, low: float, high: float) -> Space:
    """k floats between the same limits."""
    parameters: dict[str, Parameter] = {
        f"x{i:02d}": Float(type="float", low=low, high=high) for i in range(k)
    }
    return Space(parameters)


def _mixed_space() -> Space:
    parameters: dict[str, Parameter] = {
        name: Float(type="float", low=0, high=1) for name in "abcdef"
    }
    parameters["kind"] = Categorical(type="categorical", choices=["p", "q", "r", "s", "t"])
    parameters["level"] = Int(type="int", low=0, high=8)
    parameters["size"] = Ordinal(type="ordinal", values=["s", "m", "l"])
    parameters["units"] = Int(type="int", low=4, high=256, log=True)
    return Space(parameters)


def _of_levels(sizes: list[int], seed: int) -> Problem:
    table = levels(sizes, seed)
    parameters: dict[str, Parameter] = {
        f"c{j}": Categorical(type="categorical", choices=[f"l{i}" for i in range(size)])
        for j, size in enumerate(sizes)
    }
    values = _plain(lambda v: table[tuple(v.astype(int).T)])
    return Problem(Space(parameters), values, 0.0, 0.0, design=20, rounds=5, batch=20)


def _plain(function: Callable[[Array], Array]) -> Callable[[Array, np.random.Generator], Array]:
    return lambda v, rng: function(v)


def _shifted(
    function: Callable[[Array], Array], k: int, reach: float, seed: int
) -> Callable[[Array, np.random.Generator], Array]:
    """The function moved by a fixed vector, uniform within +-reach in each coordinate."""
    shift = np.random.default_rng(seed).uniform(-reach, reach, k)
    return lambda v, rng: function(v - shift)


def _rotated(
    function: Callable[[Array], Array], k: int, reach: float, seed: int
) -> Callable[[Array, np.random.Generator], Array]:
    """Moved, then turned by a random rotation: nothing is separable any more."""
    rng = np.random.default_rng(seed)
    shift = rng.uniform(-reach, reach, k)
    turn = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return lambda v, rng: function((v - shift) @ turn)


def _noisy(v: Array, rng: np.random.Generator) -> Array:
    return hartmann6(v) + 0.2 * rng.standard_normal(len(v))


PROBLEMS: dict[str, Problem] = {
    "hartmann6": Problem(box(6, 0, 1), _plain(hartmann6), -3.32237),
    # Six inputs of forty matter: x04, x11, ... x39.
    "hartmann6of40": Problem(box(40, 0, 1), _plain(lambda v: hartmann6(v[:, 4::7])), -3.32237),
    "ackley10": Problem(box(10, -32.768, 32.768), _shifted(ackley, 10, 16.384, 7), 0.0),
    "levy20": Problem(box(20, -10, 10), _plain(levy), 0.0),
    "rosenbrock8": Problem(box(8, -5, 10), _plain(rosenbrock), 0.0),
    "rastrigin10": Problem(box(10, -5.12, 5.12), _shifted(rastrigin, 10, 2.0, 8), 0.0),
    "griewank10": Problem(box(10, -600, 600), _shifted(griewank, 10, 200.0, 9), 0.0),
    "michalewicz10": Problem(box(10, 0, np.pi), _plain(michalewicz), -9.66015),
    "rotated_ackley10": Problem(box(10, -32.768, 32.768), _rotated(ackley, 10, 12.0, 10), 0.0),
    "rotated_levy10": Problem(box(10, -10, 10), _rotated(levy, 10, 3.0, 11), 0.0),
    "mixed": Problem(_mixed_space(), _plain(mixed), 0.0),
    "noisy_hartmann6": Problem(box(6, 0, 1), _noisy, -3.32237, truth=hartmann6),
    "disk_branin": Problem(
        Space(
            {
                "a": Float(type="float", low=-5, high=10),
                "b": Float(type="float", low=0, high=15),
            }
        ),
        _plain(disk_branin),
        0.397887,
        0.39795,
        design=10,
        rounds=14,
        batch=5,
    ),
    "gramacy": Problem(box(2, 0, 1), _plain(gramacy), 0.5998, 0.62, design=10, rounds=14, batch=5),
}


def find_problem(name: str) -> Problem:
    """The problem of that name; ValueError if there is none."""
    if name in PROBLEMS:
        return PROBLEMS[name]
    if make := (STEPS | DECADES).get(name):
        space, function = make()
        space = box(space, 0, 1) if isinstance(space, int) else space
        return Problem(space, _plain(function), -np.inf, design=20, rounds=5, batch=20)
    if name in NETWORKS:
        k, function = NETWORKS[name]
        return Problem(box(k, 0, 1), _plain(function), -np.inf)
    family = f"({'|'.join(FAMILIES)}|pocket)"
    if match := re.fullmatch(rf"{family}(\d+)s(\d+)(?:{family}(\d+))?", name):
        k, seed = int(match[2]), int(match[3])
        objective = drawn(match[1], k, seed)
        if match[4]:
            objective = bounded(objective, match[4], k, seed, int(match[5]))
        return Problem(box(k, 0, 1), _plain(objective), 0.0)
    if match := re.fullmatch(rf"{family}(\d+)s(\d+)({'|'.join(NOISES)})", name):
        k = int(match[2])
        objective = drawn(match[1], k, int(match[3]))
        return Problem(box(k, 0, 1), noisy(objective, match[4], k), 0.0, truth=objective)
    if match := re.fullmatch(r"levels(\d+(?:x\d+)*)s(\d+)", name):
        return _of_levels([int(size) for size in match[1].split("x")], int(match[2]))
    if match := re.fullmatch(r"(mixint|noisy)(\d+)d(\d+)i(\d+)", name):
        coco = Coco(f"bbob-{match[1]}", int(match[2]), int(match[3]), int(match[4]))
        truth = coco.median if match[1] == "noisy" else None
        return Problem(coco.space, _plain(coco), 0.0, truth=truth)
    match = re.fullmatch(r"bbob(\d+)d(\d+)(?:i(\d+))?", name)
    if match is None:
        raise ValueError(
            f"{name}: no such problem; there are {', '.join(PROBLEMS)}, bbob8d10i5, waves5s0, "
            "bowl2s1waves20, bowl5s0even, mixint3d10i5 and noisy107d10i5"
        )
    number, k, instance = int(match[1]), int(match[2]), int(match[3] or 1)
    if not 1 <= number <= 24 or k < 2:
        raise ValueError(f"{name}: BBOB has functions 1 to 24, in 2 dimensions or more")
    return Problem(box(k, -5, 5), _plain(bbob(number, k, instance)), 0.0)


def find_problems(names: list[str]) -> dict[str, Problem]:
    """Problems by name, all of them without any; ValueError if one is not known."""
    sets = {
        "tuning": TUNED_ON,
        "bounded": BOUNDED,
        "noisy": NOISY,
        "levels": LEVELS,
        "deceptive": DECEPTIVE,
        "rare": RARE,
        "networks": NETWORKS,
        "steps": STEPS,
        "decades": DECADES,
        "reporting": REPORTED_ON,
    }
    every = [each for name in names or PROBLEMS for each in sets.get(name, (name,))]
    return {name: find_problem(name) for name in every}


# ---- methods -------------------------------------------------------------------------------------


@dataclass
class Run:
    """One study so far: points v (n, k), objective y (n,), CPU seconds the method took.

    iteration: (n,) the batch of each point, 0 for the design. stage: (n,) what picked it.
    recommended: (k,) the point that the method would hand over; None: the best that was seen.
    """

    v: Array
    y: Array
    seconds: float = 0.0
    iteration: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    stage: NDArray[np.str_] = field(default_factory=lambda: np.empty(0, dtype=str))
    recommended: Array | None = None


Method = Callable[[Problem, int], Run]


def dngo(surrogate: SurrogateKind | None = None, acquisition: Acquisition | None = None) -> Method:
    """This package, with the given settings or the defaults."""

    def run(problem: Problem, seed: int) -> Run:
        result = begin(problem, seed)
        noise = np.random.default_rng([seed, 1])
        for t in range(problem.rounds):
            start = time.process_time()
            data = TrainingData(
                x=problem.space.encode(result.v),
                y=result.y,
                constraints={"completed": np.isfinite(result.y).astype(float)},
                batch=result.iteration,
                groups=problem.space.groups,
            )
            model = fit_model(
                data, surrogate or SurrogateSettings(), rng=np.random.default_rng([seed, 2, t])
            )
            batch = propose_batch(
                model,
                problem.space,
                History(result.v, result.y, iteration=result.iteration, stage=result.stage),
                size=problem.batch,
                settings=acquisition or AcquisitionSettings(),
                rng=np.random.default_rng([seed, 3, t]),
            )
            result.seconds += time.process_time() - start
            tell(problem, result, batch.v, noise, batch.stage)
        recommend(problem, result)
        return result

    return run


def recommend(problem: Problem, run: Run) -> None:
    """If the problem is noisy: the point to hand over, as `dngo best --by model` does."""
    if problem.truth:
        x, u = problem.space.encode(run.v), problem.space.unit(run.v)
        rows, mean, std = around_the_best(u, x, run.y, np.full(len(x), np.nan))
        run.recommended = run.v[rows[np.argmin(mean + std)]]


def sobol(problem: Problem, seed: int) -> Run:
    """A longer design."""
    result = begin(problem, seed)
    more = design(
        problem.space,
        problem.rounds * problem.batch,
        rng=np.random.default_rng([seed, 4]),
        exclude=result.v,
    )
    tell(problem, result, more, np.random.default_rng([seed, 1]))
    return result


def uniform(problem: Problem, seed: int) -> Run:
    """Random search."""
    result = begin(problem, seed)
    rng = np.random.default_rng([seed, 4])
    more = problem.space.sample(rng.random((problem.rounds * problem.batch, problem.space.k)))
    tell(problem, result, more, np.random.default_rng([seed, 1]))
    return result


def beside(start: Callable[[Space, int], Rival]) -> Method:
    """A rival (rivals.py), told the same design and asked for the same batches."""

    def run(problem: Problem, seed: int) -> Run:
        result = begin(problem, seed)
        noise = np.random.default_rng([seed, 1])
        begun = time.process_time()
        rival = start(problem.space, seed)
        rival.tell(result.v, result.y)
        for _ in range(problem.rounds):
            v = rival.ask(problem.batch)
            result.seconds += time.process_time() - begun
            tell(problem, result, v, noise)
            begun = time.process_time()
            rival.tell(v, result.y[-len(v) :])
        result.seconds += time.process_time() - begun
        if hasattr(rival, "recommended"):
            result.recommended = rival.recommended()
        return result

    return run


def begin(problem: Problem, seed: int) -> Run:
    rng = np.random.default_rng([seed, 0])
    v = design(problem.space, problem.design, rng=rng, exclude=np.empty((0, problem.space.k)))
    run = Run(np.empty((0, problem.space.k)), np.empty(0))
    tell(problem, run, v, np.random.default_rng([seed, 5]))
    return run


def tell(
    problem: Problem,
    run: Run,
    v: Array,
    noise: np.random.Generator,
    stage: Sequence[str] | None = None,
) -> None:
    """Evaluate points v (n, k) and add them to the run. stage: what picked each; not known if None."""
    run.stage = np.concatenate([run.stage, [""] * len(v) if stage is None else stage])
    run.y = np.concatenate([run.y, problem.evaluate(v, noise)])
    run.v = np.concatenate([run.v, v])
    now = 1 + run.iteration[-1:].max(initial=-1)
    run.iteration = np.concatenate([run.iteration, np.full(len(v), now)])


METHODS: dict[str, Method] = {
    "random": uniform,
    "sobol": sobol,
    "dngo": dngo(),
    **{name: beside(rival) for name, rival in installed().items()},
}


class NothingPending(Fantasies):
    """Points of a batch and those under way are as if unknown, but for their distance."""

    def condition(self, z: Array, feasibility: float = 1.0) -> None:
        self.pending += 1


class FixedIncumbent(Fantasies):
    """Pending points change what is believed, but no fantasised outcome is to be improved on."""

    def condition(self, z: Array, feasibility: float = 1.0) -> None:
        best = [part.best for part in self.parts]
        super().condition(z, feasibility)
        for part, before in zip(self.parts, best, strict=True):
            part.best = before


def with_fantasies(kind: type[Fantasies], method: Method) -> Method:
    """The method, with another class of fantasies in the place of the package's."""

    def run(problem: Problem, seed: int) -> Run:
        with mock.patch("dngo.acquisition.state.Fantasies", kind):
            return method(problem, seed)

    return run


def ablation() -> dict[str, Method]:
    """The defaults, and MCEI alone (no trust regions) with one thing changed at a time."""

    def mcei(surrogate: dict[str, Any] | None = None, **acquisition: Any) -> Method:
        return dngo(
            SurrogateSettings(**(surrogate or {})),
            AcquisitionSettings(**{"trust_region_share": 0.0, **acquisition}),
        )

    return {
        "default": dngo(),
        "only trust regions": mcei(trust_region_share=1.0),
        "mcei": mcei(),
        "mcei, nothing pending": with_fantasies(NothingPending, mcei()),
        "mcei, fixed incumbent": with_fantasies(FixedIncumbent, mcei()),
        "mcei, S = 1": mcei(fantasies=1),
        "mcei, S = 100": mcei(fantasies=100),
        "mcei, H = 1": mcei({"hyperparameter_samples": 1}),
        "mcei, 1,500 candidates": mcei(uniform_candidates=1024, local_candidates=512),
        "mcei, bases alone": mcei({"kind": "adaptive_basis"}),
        "mcei, one basis": mcei({"kind": "adaptive_basis", "networks": {"ensemble": 1}}),
        "thompson": mcei(kind="thompson"),
    }


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--problems", nargs="+", default=[], help="default: all but drawn ones")
    parser.add_argument(
        "--schedule",
        nargs=3,
        type=int,
        metavar=("DESIGN", "BATCHES", "SIZE"),
        help="points of the design, batches after it and their size, in place of the problem's",
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--rounds", type=int, help="batches, in place of the problem's")
    parser.add_argument(
        "--ablation",
        nargs="*",
        metavar="VARIANT",
        help="variants of dngo instead, those named or all",
    )
    parser.add_argument("--table", type=Path, help="print what is in such a file, and run nothing")
    parser.add_argument("--results", type=Path, help="file of JSON lines to keep the runs in")
    arguments = parser.parse_args()
    try:
        problems = find_problems(arguments.problems)
    except ValueError as error:
        parser.error(str(error))
    if arguments.schedule:
        first, rounds, size = arguments.schedule
        problems = {
            name: replace(p, design=first, rounds=rounds, batch=size)
            for name, p in problems.items()
        }
    if arguments.rounds:
        problems = {name: replace(p, rounds=arguments.rounds) for name, p in problems.items()}
    if any(n.startswith("bbob") for n in problems) and not importlib.util.find_spec("ioh"):
        parser.error("the BBOB functions need a package: pip install ioh")
    runs = {name: METHODS[name] for name in arguments.methods}
    if arguments.ablation is not None:
        runs = ablation()
        if unknown := set(arguments.ablation) - runs.keys():
            parser.error(f"no variant {', '.join(unknown)}; known: {', '.join(runs)}")
        runs = {name: runs[name] for name in arguments.ablation or runs}
    done = _read(arguments.table or arguments.results)
    print(
        "problem | method | schedule | mean | sd | found | infeasible after 30 | near | CPU s | n"
    )
    if arguments.table:
        for some in dict.fromkeys(key[:3] for key in done):
            rows = [row for key, row in done.items() if key[:3] == some]
            name, label, _ = some
            print(_summary(find_problem(name), name, label, rows))
        return
    for name, problem in problems.items():
        for label, method in runs.items():
            rows = []
            for seed in range(arguments.first, arguments.first + arguments.seeds):
                row = done.get((name, label, problem.schedule, seed))
                if row is None:
                    run = method(problem, seed)
                    row = {
                        "problem": name,
                        "method": label,
                        "seed": seed,
                        "schedule": problem.schedule,
                        "best": problem.score(run),
                        "infeasible": float(np.mean(~np.isfinite(run.y[30:]))),
                        "near": near_duplicates(problem.space, run),
                        "seconds": run.seconds,
                    }
                    if arguments.results:
                        with arguments.results.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                rows.append(row)
            print(_summary(problem, name, label, rows), flush=True)


def near_duplicates(space: Space, run: Run) -> float:
    """Share of the points after the design with an earlier one of their batch within .01 (rms)."""
    near = 0
    for t in range(1, int(run.iteration[-1]) + 1):
        u = space.unit(run.v[run.iteration == t])
        near += int(np.any(np.tril(distances(u, u) < 0.01, -1), axis=1).sum())
    return near / max(int(np.sum(run.iteration > 0)), 1)


def _read(path: Path | None) -> dict[tuple[str, str, int, int], dict[str, Any]]:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["problem"], row["method"], row["schedule"], row["seed"]): row for row in rows}


def _summary(problem: Problem, name: str, label: str, rows: list[dict[str, Any]]) -> str:
    best = np.array([row["best"] for row in rows])
    found = "-" if problem.target is None else str(int(np.sum(best <= problem.target)))
    spread = best.std(ddof=1) if len(best) > 1 else np.nan
    infeasible = np.mean([row["infeasible"] for row in rows])
    near = np.mean([row.get("near", np.nan) for row in rows])
    seconds = np.mean([row["seconds"] for row in rows])
    return (
        f"{name} | {label} | {rows[0]['schedule']} | {best.mean():.5g} | {spread:.2g} | {found} | "
        f"{infeasible:.0%} | {near:.1%} | {seconds:.1f} | {len(rows)}"
    )


if __name__ == "__main__":
    main()

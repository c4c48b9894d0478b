"""Studies of problems by methods, beside each other: what the comparisons with rivals have in common.

batches.py, real.py, rare.py, unseen.py and front.py say which problems there are. Options are the same:

    python benchmarks/real.py --problems svm truss10 --methods dngo random --seeds 1
    python benchmarks/batches.py --problems bbob8d10i5 --schedule 100 2 400 --results runs.jsonl
    python benchmarks/batches.py --table runs.jsonl
    python benchmarks/batches.py --problems reporting --methods dngo --rules '{"local": {"most_turned": 0}}'

A study starts from the Sobol points of its seed, the same for every method. The method is told all outcomes
and asked for batches. Printed are the mean and deviation over the seeds of the best feasible value, and how
many seeds found it. Then come the shares of points that are feasible, after the design and in the last
batch, and the share that another of their batch is nearer to than .01 (root mean square in the unit cube).
Last are the CPU seconds of the method on one thread. Of several objectives the value is what the
hypervolume of all feasible points lacks of that of the best known front, as a share of it. Methods are this
package, random search and what of rivals.py is installed. --rules changes numbers of `dngo/rules/`, and
--set keys of the surrogate. Each study is a line of --results, and none that is there is repeated.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from options import add_settings, settings_of
from rivals import Rival, installed

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import distances
from dngo.fronts import ranks
from dngo.report.best import around_the_best
from dngo.rules import current, using
from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Int, Parameter
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings
from dngo.thresholds import Threshold

Array = NDArray[np.float64]
Evaluate = Callable[[Array, np.random.Generator], tuple[Array, dict[str, Array]]]
# An objective, and numbers that are to be 0 or less.
Report = tuple[float, dict[str, float]]


@dataclass(frozen=True)
class Problem:
    """What is minimised, and how it is to be spent on.

    evaluate: v (n, k) natural values, rng of the noise -> values (n,), or (n, m) of several objectives, NaN
        where there is none; and by name numbers (n,) that are to be 0 or less.
    design, rounds, batch: points of the first design, batches after it, points in each.
    target: what counts as found, or None. needs: a program without which it cannot run.
    truth: the noiseless function that a result is scored by, at the point that the method recommends.
    share: of several objectives: feasible values (n, m) -> their hypervolume, as a share of the best known.
    """

    space: Space
    evaluate: Evaluate
    target: float | None = None
    design: int = 20
    rounds: int = 5
    batch: int = 20
    truth: Callable[[Array], Array] | None = None
    share: Callable[[Array], float] | None = None
    needs: str = ""

    @property
    def schedule(self) -> str:
        """Points of the design, batches after it and their size, as 100+10x100."""
        return f"{self.design}+{self.rounds}x{self.batch}"


def plain(function: Callable[[Array], Array]) -> Evaluate:
    """Without noise and numbers."""
    return lambda v, rng: (function(v), {})


def reported(
    parameters: dict[str, Parameter], report: Callable[..., Report], needs: str = ""
) -> Problem:
    """The problem of a function of a point's parameters by name, which raises where there is no report."""
    space = Space(parameters)

    def evaluate(v: Array, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
        reports: list[Report] = []
        for point in space.to_parameters(v):
            try:
                reports.append(report(**point))
            except Exception:  # of any solver
                reports.append((np.nan, {}))
        names = set[str]().union(*(numbers for _, numbers in reports))
        numbers = {n: np.array([x.get(n, np.nan) for _, x in reports]) for n in names}
        return np.array([y for y, _ in reports]), numbers

    return Problem(space, evaluate, needs=needs)


def problem(
    table: dict[str, Problem], /, *, needs: str = "", **parameters: Parameter
) -> Callable[[Callable[..., Report]], Callable[..., Report]]:
    """Of such a function: adds its problem to a table, under its name."""

    def add(report: Callable[..., Report]) -> Callable[..., Report]:
        table[report.__name__] = reported(parameters, report, needs)
        return report

    return add


def number(low: float, high: float, *, log: bool = False) -> Float:
    return Float(type="float", low=low, high=high, log=log)


def whole(low: int, high: int, *, log: bool = False) -> Int:
    return Int(type="int", low=low, high=high, log=log)


def one_of(*choices: str) -> Categorical:
    return Categorical(type="categorical", choices=list(choices))


class Study:
    """What has been evaluated: v (n, k), values and numbers as `Problem.evaluate` gives them; of each point
    the batch, 0 for the design, and what picked it, for methods that say so."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed, self.space = problem, seed, problem.space
        nothing = np.empty((0, self.space.k))
        self.v, self.y = nothing, np.empty(0)
        self.numbers, self.stage = dict[str, Array](), list[str]()
        self.iteration: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.noise = np.random.default_rng([seed, 1])
        first = design(self.space, problem.design, rng=self.stream(0), exclude=nothing)
        self.add(first, self.stream(5))

    def stream(self, *key: int) -> np.random.Generator:
        """A random stream of the seed."""
        return np.random.default_rng([self.seed, *key])

    def add(self, v: Array, noise: np.random.Generator) -> None:
        """Evaluate points as the next batch."""
        y, numbers = self.problem.evaluate(v, noise)
        before, now = np.full(len(self.v), np.nan), np.full(len(v), np.nan)
        self.numbers = {
            n: np.concatenate([self.numbers.get(n, before), numbers.get(n, now)])
            for n in sorted({*self.numbers, *numbers})
        }
        self.y = np.concatenate([self.y, y]) if len(self.v) else y
        self.v = np.concatenate([self.v, v])
        t = int(self.iteration[-1:].max(initial=-1)) + 1
        self.iteration = np.concatenate([self.iteration, np.full(len(v), t)])
        self.stage += [""] * (len(self.v) - len(self.stage))

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Which points have values."""
        return np.asarray(np.isfinite(self.y.reshape(len(self.v), -1)).all(axis=1))

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Which of them keep all numbers."""
        return self.ran & (self.bounds <= 0).all(axis=1)

    @property
    def bounds(self) -> Array:
        """All numbers: (n, c)."""
        return np.column_stack([np.empty((len(self.v), 0)), *self.numbers.values()])

    @property
    def best(self) -> float:
        """The least feasible value; of several objectives what is missing of the hypervolume."""
        if self.problem.share:
            return 1.0 - self.problem.share(self.y[self.ok])
        return float(self.y[self.ok].min(initial=np.inf))


# ---- methods -------------------------------------------------------------------------------------


class Dngo:
    """This package, with the defaults of its acquisition."""

    def __init__(self, surrogate: SurrogateKind, study: Study) -> None:
        self.surrogate, self.study = surrogate, study

    def ask(self, size: int) -> Array:
        s, t, several = self.study, int(self.study.iteration[-1]), self.study.y.ndim > 1
        flags = {n: np.where(np.isnan(x), np.nan, x <= 0) for n, x in s.numbers.items()}
        objectives = {f"f{j}": y for j, y in enumerate(s.y.T)} if several else {}
        data = TrainingData(
            x=s.space.encode(s.v),
            y=np.full(len(s.v), np.nan) if several else s.y,
            feasible=s.ok,
            constraints={"completed": s.ran.astype(float), **flags},
            numbers=s.numbers,
            thresholds=dict.fromkeys(s.numbers, Threshold("<=", 0.0)),
            batch=s.iteration,
            groups=s.space.groups,
            objectives=objectives,
        )
        model = fit_model(data, self.surrogate, rng=s.stream(2, t))
        y = np.full(len(s.v), np.nan)
        y[s.ok] = ranks(s.y[s.ok]) if several else s.y[s.ok]
        stage = np.array(s.stage)
        picks = propose_batch(
            model,
            s.space,
            History(s.v, y, s.v[:0], s.iteration, flags, objectives=objectives, stage=stage),
            size=size,
            settings=AcquisitionSettings(),
            rng=s.stream(3, t),
            root=np.random.SeedSequence(s.seed) if several else None,
        )
        s.stage += picks.stage
        return picks.v

    def recommended(self) -> Array:
        """The point to hand over under noise, as `dngo best --by model` does: (k,)."""
        x, u = self.study.space.encode(self.study.v), self.study.space.unit(self.study.v)
        rows, mean, std = around_the_best(u, x, self.study.y, np.full(len(x), np.nan))
        return self.study.v[rows[np.argmin(mean + std)]]


class Beside:
    """A rival (rivals.py), told each batch."""

    def __init__(self, start: Callable[[Space, int], Rival], study: Study) -> None:
        self.rival, self.study = start(study.space, study.seed), study

    def _tell(self) -> None:
        s, new = self.study, self.study.iteration == self.study.iteration[-1]
        self.rival.tell(s.v[new], s.y[new], s.bounds[new])

    def ask(self, size: int) -> Array:
        self._tell()
        return self.rival.ask(size)

    def recommended(self) -> Array | None:
        """The point that the rival would hand over, if it says one."""
        if not hasattr(self.rival, "recommended"):
            return None
        self._tell()
        return self.rival.recommended()


@dataclass
class Drawn:
    """Points that heed no outcome: those of a function of the study and a size."""

    draw: Callable[[Study, int], Array]
    study: Study

    def ask(self, size: int) -> Array:
        return self.draw(self.study, size)

    def recommended(self) -> None:
        """None: the best that was seen."""


def uniform(s: Study, size: int) -> Array:
    """Random search."""
    return s.space.sample(s.stream(4, len(s.v)).random((size, s.space.k)))


def sobol(s: Study, size: int) -> Array:
    """A Sobol sequence that goes on."""
    return design(s.space, len(s.v) + size, rng=s.stream(4), exclude=s.v[:0])[-size:]


Method = Callable[[Study], Any]
METHODS: dict[str, Method] = {
    "random": partial(Drawn, uniform),
    "sobol": partial(Drawn, sobol),
    "dngo": partial(Dngo, SurrogateSettings()),
    **{name: partial(Beside, rival) for name, rival in installed().items()},
}


# ---- studies, and a table of them ----------------------------------------------------------------


def run(problem: Problem, method: Method, seed: int) -> dict[str, Any]:
    """One study, as a line of the results."""
    study, seconds = Study(problem, seed), 0.0
    asked, curve = method(study), [study.best]
    for _ in range(problem.rounds):
        begun = time.process_time()
        v = asked.ask(problem.batch)
        seconds += time.process_time() - begun
        study.add(v, study.noise)
        curve.append(study.best)
    best = curve[-1]
    if problem.truth and study.ok.any():
        seen = study.v[study.ok][np.argmin(study.y[study.ok])]
        named = asked.recommended()
        best = float(problem.truth((seen if named is None else named)[None])[0])
    later, last = study.iteration > 0, study.iteration == study.iteration[-1]
    return {
        "schedule": problem.schedule,
        "seed": seed,
        "best": best,
        "curve": curve,
        "feasible first": int(study.ok[~later].sum()),
        "feasible": float(study.ok[later].mean()),
        "feasible last": float(study.ok[last].mean()),
        "near": near_duplicates(study),
        "seconds": round(seconds, 2),
    }


def near_duplicates(study: Study) -> float:
    """Share of the points after the design with an earlier one of their batch within .01 (rms)."""
    near = 0
    for t in range(1, int(study.iteration[-1]) + 1):
        u = study.space.unit(study.v[study.iteration == t])
        near += int(np.any(np.tril(distances(u, u) < 0.01, -1), axis=1).sum())
    return near / max(int(np.sum(study.iteration > 0)), 1)


def summary(rows: list[dict[str, Any]], target: float | None) -> str:
    """The runs of one problem by one method, as a line."""
    best = np.array([row["best"] for row in rows])
    found = "-" if target is None else str(int(np.sum(best <= target)))
    spread = best.std(ddof=1) if len(best) > 1 and np.isfinite(best).all() else np.nan
    kept, last, near, seconds = (
        np.mean([row[name] for row in rows])
        for name in ("feasible", "feasible last", "near", "seconds")
    )
    head = (rows[0][name] for name in ("problem", "method", "schedule"))
    return (
        f"{' | '.join(head)} | {best.mean():.5g} | {spread:.2g} | {found} | {kept:.0%} | {last:.0%} | "
        f"{near:.1%} | {seconds:.1f} | {len(rows)}"
    )


def counts(rows: Iterable[dict[str, Any]]) -> None:
    """Print how often each method is first or level, last, and behind random search, by means over seeds.

    Level is who ends within a thousandth of what the best one gained on the best of the design, or of the
    worst method where the design has nothing feasible.
    """
    cells: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        found = cells.setdefault((row["problem"], row["schedule"]), {})
        found.setdefault(row["method"], []).append((row["best"], row["curve"][0]))
    total: dict[tuple[str, str], Counter[str]] = {}
    for (_, schedule), methods in cells.items():
        means = {name: np.mean(values, axis=0) for name, values in methods.items()}
        best, start = min(means.values(), key=lambda mean: float(mean[0]))
        last = max(mean[0] for mean in means.values())
        finite = [mean[0] for mean in means.values() if np.isfinite(mean[0])]
        gained = (start if np.isfinite(start) else max(finite, default=best)) - best
        for name, (mean, _) in means.items():
            count = total.setdefault((schedule, name), Counter())
            count["problems"] += 1
            count["first or level"] += bool(mean <= best + 1e-3 * max(gained, 0.0))
            count["last"] += bool(mean == last > best)
            count["behind random search"] += bool(mean > means.get("random", [np.inf])[0])
    for (schedule, name), count in total.items():
        print(schedule, name, ", ".join(f"{what} {n}" for what, n in count.items()))


def of(problems: Mapping[str, Problem]) -> Callable[[str], Problem]:
    """A problem of a table by its name; ValueError if there is none."""

    def find(name: str) -> Problem:
        if name not in problems:
            raise ValueError(f"{name}: no such problem; there are {', '.join(problems)}")
        return problems[name]

    return find


def compare(
    doc: str | None,
    find: Callable[[str], Problem],
    default: Iterable[str],
    methods: Iterable[str],
    sets: Mapping[str, Iterable[str]],
) -> None:
    """The command line of such a benchmark. default: names of problems; methods: of methods, if they are
    installed. sets: names of several problems each."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    add = parser.add_argument
    add("--problems", nargs="+", default=list(default), help=f"or {', '.join(sets)}")
    size = ("DESIGN", "BATCHES", "SIZE")
    add("--schedule", nargs=3, type=int, metavar=size, help="in place of the problem's")
    usual = [name for name in methods if name in METHODS]
    add("--methods", nargs="+", choices=METHODS, default=usual)
    add("--seeds", type=int, default=3)
    add("--first", type=int, default=0, help="first seed")
    add(
        "--rules", type=json.loads, default={}, help="other numbers of dngo/rules, by branch (JSON)"
    )
    add_settings(parser, "--set", "surrogate")
    add("--results", type=Path, help="file of JSON lines to keep the studies in")
    add("--table", type=Path, help="print what is in such a file, and run nothing")
    given = parser.parse_args()
    names = [each for name in given.problems for each in sets.get(name, (name,))]
    try:
        problems = {name: find(name) for name in names}
        rules = current().but(**given.rules)
    except (ValueError, TypeError, AttributeError) as error:
        parser.error(str(error))
    ours = partial(Dngo, settings_of(parser, SurrogateSettings, given.set))
    changed = [*given.set, *([json.dumps(given.rules)] if given.rules else [])]
    done = _read(given.table or given.results)
    print("problem | method | schedule | mean | sd | found | feasible | last | near | CPU s | n")
    if given.table:
        for some in dict.fromkeys(key[:3] for key in done):
            rows = [row for key, row in done.items() if key[:3] == some]
            print(summary(rows, find(some[0]).target))
        return counts(done.values())
    shown = []
    for name, problem in problems.items():
        if problem.needs and not shutil.which(problem.needs):
            print(f"{name}: left out, as there is no program {problem.needs}")
            continue
        if given.schedule:
            first, rounds, batch = given.schedule
            problem = replace(problem, design=first, rounds=rounds, batch=batch)
        for method in given.methods:
            label, rows = " ".join([method, *changed]) if method == "dngo" else method, []
            for seed in range(given.first, given.first + given.seeds):
                row = done.get((name, label, problem.schedule, seed))
                if row is None:
                    with using(rules):
                        found = run(problem, ours if method == "dngo" else METHODS[method], seed)
                    row = {"problem": name, "method": label, **found}
                    if given.results:
                        with given.results.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                rows.append(row)
            print(summary(rows, problem.target), flush=True)
            shown += rows
    return counts(shown)


def _read(path: Path | None) -> dict[tuple[str, str, str, int], dict[str, Any]]:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["problem"], row["method"], row["schedule"], row["seed"]): row for row in rows}

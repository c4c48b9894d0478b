"""Figures 4 and 5 of Snoek, Larochelle and Adams (2012), as far as measured tables allow.

    python benchmarks/gp_ei_mcmc.py lda --tables DIR     # 4a, 4b: parallel runs, EI per second
    python benchmarks/gp_ei_mcmc.py svm --tables DIR     # 5a, 5b, 5c: those, and covariances
    python benchmarks/gp_ei_mcmc.py lda svm --tables DIR --results runs.jsonl --plot figures

DIR holds lda_on_grid.csv and svm_on_grid.csv: every point of the grids of figures 4 and 5 with its
value and its duration in seconds. Each run starts from two random points; after that a worker that
is free takes the point that the surrogate proposes, given the outcomes known at that time and the
points that the other workers are at. Time is simulated: evaluations take what the table says, and
proposing takes none. A run ends when the grid's optimum has been evaluated, as it cannot improve.

Printed for each strategy: evaluations and simulated hours until then, and hours until within 1 % of
the optimum's value, mean ± standard error; where the budget was too small, what was spent counts. Then
what EI per second saves, seed by seed. "known" has the durations of the table in place of their model: what
the best of models would give.
With --results, one JSON line a run, an interrupted benchmark goes on where it stopped.

What the tables do not allow: the searches off the grid of figure 4c. What is not here: GP EI Opt
(point estimates of the hyperparameters) and TPA.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from objectives import GRIDS, grid
from scipy.spatial import KDTree

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

GP = {"kind": "gp"}


@dataclass(frozen=True)
class Strategy:
    """surrogate: None is random search; workers: evaluations at the same time; known: the durations."""

    surrogate: dict[str, Any] | None
    per: str | None = None
    workers: int = 1
    known: bool = False


STRATEGIES = {
    "lda": {
        "EI": Strategy(GP),
        "EI per second": Strategy(GP, per="duration"),
        "EI per second, known": Strategy(GP, per="duration", known=True),
        "3x EI": Strategy(GP, workers=3),
        "5x EI": Strategy(GP, workers=5),
        "10x EI": Strategy(GP, workers=10),
        "random": Strategy(None),
    },
    "svm": {
        "EI": Strategy(GP),
        "EI per second": Strategy(GP, per="duration"),
        "EI per second, known": Strategy(GP, per="duration", known=True),
        "3x EI": Strategy(GP, workers=3),
        "3x EI per second": Strategy(GP, per="duration", workers=3),
        "random": Strategy(None),
        "Matern 3/2 ARD": Strategy({**GP, "kernel": "matern32"}),
        "SqExp ARD": Strategy({**GP, "kernel": "squared_exponential"}),
        "SqExp": Strategy({**GP, "kernel": "squared_exponential", "ard": False}),
        "Matern 5/2": Strategy({**GP, "ard": False}),
    },
}
BUDGETS = {"lda": 100, "svm": 200}
SHOWN = {"lda": 50, "svm": 100}  # evaluations on the axis, as in the paper


@dataclass
class Run:
    """One search: values and finishing times (hours) of its evaluations as they finished."""

    problem: str
    strategy: str
    seed: int
    values: list[float]
    hours: list[float]
    found: bool
    cpu: float


class Known:
    """Durations without a model: seconds (n,) of all points v (n, k) of a grid."""

    def __init__(self, space: Any, v: np.ndarray, seconds: np.ndarray) -> None:
        self.tree, self.seconds = KDTree(space.encode(v)), seconds

    def expected(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As of `dngo.surrogates.model.Cost`."""
        seconds = self.seconds[self.tree.query(x)[1]]
        return seconds, 1.0 / seconds


def durations(folder: Path, name: str) -> np.ndarray:
    """Seconds, in the order of `grid`'s points."""
    with (folder / GRIDS[name][0]).open(newline="") as stream:
        return np.array([float(row["duration_s"]) for row in csv.DictReader(stream)])


def run(problem: str, name: str, seed: int, tables: Path) -> Run:
    """One search with simulated time."""
    strategy = STRATEGIES[problem][name]
    space, points, table = grid(tables, problem)
    seconds = durations(tables, problem)
    at = {key: i for i, key in enumerate(space.keys(points))}
    # The same two first points for all strategies.
    shuffled = list(np.random.default_rng([seed, 2012]).permutation(len(points)))
    rng = np.random.default_rng([seed, 1])
    started: set[int] = set()
    running: list[tuple[float, int]] = []
    done: list[int] = []
    result = Run(problem, name, seed, [], [], False, 0.0)
    now, cpu = 0.0, time.process_time()
    while len(done) < BUDGETS[problem] and not result.found:
        while len(running) < strategy.workers:
            if strategy.surrogate is None or len(started) < 2 or not done:
                row = next(i for i in shuffled if i not in started)
            else:
                pending = [i for _, i in running]
                v = propose(space, points, table, seconds, done, pending, strategy, rng)
                row = at[space.keys(v)[0]]
            started.add(row)
            heapq.heappush(running, (now + seconds[row], int(row)))
        now, row = heapq.heappop(running)
        done.append(row)
        result.values.append(float(table[row]))
        result.hours.append(now / 3600)
        result.found = bool(table[row] == table.min())
    result.cpu = time.process_time() - cpu
    return result


def propose(
    space: Any,
    points: np.ndarray,
    table: np.ndarray,
    seconds: np.ndarray,
    done: list[int],
    pending: list[int],
    strategy: Strategy,
    rng: np.random.Generator,
) -> np.ndarray:
    """The next point v (1, k)."""
    data = TrainingData(
        x=space.encode(points[done]),
        y=table[done],
        log_cost=np.log(seconds[done]) if strategy.per else None,
    )
    model = fit_model(data, SurrogateSettings(**strategy.surrogate), rng=rng)
    if strategy.known:
        model = replace(model, cost=Known(space, points, seconds))
    return propose_batch(
        model,
        space,
        History(points[done], table[done], points[pending]),
        size=1,
        settings=AcquisitionSettings(per=strategy.per, trust_region_share=0.0),
        rng=rng,
    ).v


def spread(numbers: list[float]) -> str:
    """Mean and standard error."""
    return f"{np.mean(numbers):.1f} ± {np.std(numbers, ddof=1) / np.sqrt(len(numbers)):.1f}"


def hours_to(run: Run, value: float) -> float:
    """Simulated hours until a value at least this good; all that were spent if there was none."""
    reached = np.flatnonzero(np.array(run.values) <= value)
    return run.hours[reached[0] if len(reached) else -1]


def report(problem: str, runs: list[Run]) -> None:
    print(f"\n| {problem} | evaluations | hours | hours to 1 % | found | CPU s a run |")
    print("| --- | --- | --- | --- | --- | --- |")
    near = 1.01 * min(min(r.values) for r in runs)
    for name in STRATEGIES[problem]:
        mine = [r for r in runs if r.strategy == name]
        if len(mine) > 1:
            print(
                f"| {name} | {spread([len(r.values) for r in mine])} |"
                f" {spread([r.hours[-1] for r in mine])} |"
                f" {spread([hours_to(r, near) for r in mine])} |"
                f" {sum(r.found for r in mine)} of {len(mine)} |"
                f" {np.mean([r.cpu for r in mine]):.1f} |"
            )
    for name, strategy in STRATEGIES[problem].items():
        plain = {r.seed: r for r in runs if r.strategy == name.partition(" per second")[0]}
        pairs = [(r, plain[r.seed]) for r in runs if r.strategy == name and r.seed in plain]
        if strategy.per and len(pairs) > 1:
            later = [a.hours[-1] - b.hours[-1] for a, b in pairs]
            near_later = [hours_to(a, near) - hours_to(b, near) for a, b in pairs]
            print(
                f"\n{name}, hours later than without (over {len(pairs)} seeds): {spread(later)};"
                f" to within 1 %: {spread(near_later)}"
            )


def plot(problem: str, runs: list[Run], folder: Path) -> None:
    """Best value so far, mean over the seeds, by evaluations and by simulated time: an SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    longest = max(r.hours[-1] for r in runs if r.strategy in ("EI", "EI per second"))
    for name in STRATEGIES[problem]:
        mine = [r for r in runs if r.strategy == name]
        if not mine:
            continue
        best = [np.minimum.accumulate(r.values) for r in mine]
        grids = np.arange(1, SHOWN[problem] + 1), np.linspace(0.0, longest, 400)
        by_number = np.array([b[np.minimum(grids[0], len(b)) - 1] for b in best])
        by_time = np.array(
            [
                np.r_[np.nan, b][np.searchsorted(r.hours, grids[1], side="right")]
                for r, b in zip(mine, best, strict=True)
            ]
        )
        for axis, x, curves in zip(axes, grids, (by_number, by_time), strict=True):
            mean = curves.mean(axis=0)
            error = curves.std(axis=0, ddof=min(1, len(mine) - 1)) / np.sqrt(len(mine))
            (line,) = axis.plot(x, mean, label=name)
            axis.fill_between(x, mean - error, mean + error, alpha=0.15, color=line.get_color())
    lowest = min(min(r.values) for r in runs)
    axes[0].set_ylim(0.995 * lowest, 1.08 * lowest)
    axes[0].set(xlabel="function evaluations", ylabel="lowest value")
    axes[1].set(xlabel="simulated time (hours)")
    axes[0].legend(fontsize="small")
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"gp_ei_mcmc_{problem}.svg")
    print(f"{folder / f'gp_ei_mcmc_{problem}.svg'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="+", choices=list(STRATEGIES))
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--strategies", nargs="+", help="some of them, by name")
    parser.add_argument(
        "--results", type=Path, help="JSON lines, a run each; what is there is kept"
    )
    parser.add_argument("--plot", type=Path, help="folder for an SVG of each problem")
    chosen = parser.parse_args()
    runs: list[Run] = []
    if chosen.results and chosen.results.exists():
        runs = [Run(**json.loads(line)) for line in chosen.results.read_text().splitlines()]
    known = {(r.problem, r.strategy, r.seed) for r in runs}
    for problem in chosen.problems:
        names = chosen.strategies or list(STRATEGIES[problem])
        for seed in range(chosen.seeds):
            for name in names:
                if (problem, name, seed) in known:
                    continue
                new = run(problem, name, seed, chosen.tables)
                runs.append(new)
                print(
                    f"{problem} {name} seed {seed}: {len(new.values)} evaluations,"
                    f" {new.hours[-1]:.1f} h, CPU {new.cpu:.1f} s"
                    f"{'' if new.found else ', not found'}",
                    flush=True,
                )
                if chosen.results:
                    with chosen.results.open("a") as stream:
                        stream.write(json.dumps(asdict(new)) + "\n")
    for problem in chosen.problems:
        mine = [r for r in runs if r.problem == problem and r.seed < chosen.seeds]
        report(problem, mine)
        if chosen.plot:
            plot(problem, mine, chosen.plot)


if __name__ == "__main__":
    main()

"""Table 1 of the paper: sequential optimisation, every cell of it with ours beside, ten seeds.

    python benchmarks/table1.py --tables DIR --results runs.jsonl   # all five problems
    python benchmarks/table1.py --tables DIR --seeds 3 --first 10   # three more
    python benchmarks/table1.py hartmann6 --set kind=adaptive_basis
    python benchmarks/table1.py --tables DIR --preset dngo-2015     # as published
    python benchmarks/table1.py branin --rival    # BoTorch's LogEI in our place (rivals.py)

DIR holds lda_on_grid.csv and svm_on_grid.csv; without it the other three problems are run. Each run starts
from 2 d + 1 Sobol points and takes one evaluation at a time. A run ends early when the best value is the
known optimum to within 1e-4 of it (of a table: exactly), as it cannot improve; `--no-stop` spends the whole
budget. Printed for each seed: the best value, the evaluations until within that, CPU seconds of fits and of
proposals; at the end the paper's table, means and standard deviations. With --results, one JSON line a
run, an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from objectives import FUNCTIONS, GRIDS, cube, grid
from rivals import LogEI
from searching import add_preset, add_settings, of_preset, settings_of

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings

# The paper's rows: evaluations, then what SMAC, TPE, Spearmint and DNGO found in ten runs.
METHODS = ("SMAC", "TPE", "Spearmint", "DNGO")
PAPER = {
    "branin": (200, "0.655 ± 0.27", "0.526 ± 0.13", "0.398 ± 0.00", "0.398 ± 0.00"),
    "hartmann6": (200, "-2.977 ± 0.11", "-2.823 ± 0.18", "-3.3166 ± 0.02", "-3.319 ± 0.00"),
    "logistic": (100, "8.6 ± 0.9", "8.2 ± 0.6", "6.88 ± 0.0", "6.89 ± 0.04"),
    "lda": (50, "1269.6 ± 2.9", "1271.5 ± 3.5", "1266.2 ± 0.1", "1266.2 ± 0.0"),
    "svm": (100, "24.1 ± 0.1", "24.2 ± 0.0", "24.1 ± 0.1", "24.1 ± 0.1"),
}
Settings = tuple[SurrogateKind, Acquisition]
UNITS = {"svm": 100.0}  # its table has shares, the paper percent


@dataclass(frozen=True)
class Run:
    """One run of a method: the best value, the evaluations until the optimum (0: not found), and CPU
    seconds. A rival's fits count as proposals."""

    problem: str
    method: str
    seed: int
    budget: int
    best: float
    found: int
    fitting: float
    proposing: float


class Problem:
    """A row of the table: its space, its values, and the value that cannot be improved on."""

    def __init__(self, name: str, tables: Path | None) -> None:
        if name in GRIDS:
            assert tables is not None
            self.space, points, values = grid(tables, name)
            self.known = dict(zip(self.space.keys(points), values, strict=True))
            self.target = float(values.min())
        else:
            self.function = FUNCTIONS[name]
            self.space, self.known = cube(self.function.d), {}
            self.target = self.function.optimum + 1e-4

    def evaluate(self, v: np.ndarray) -> np.ndarray:
        """v (n, k) -> (n,)."""
        if self.known:
            return np.array([self.known[key] for key in self.space.keys(v)])
        return self.function.f(v)


def run(
    problem: Problem, seed: int, budget: int, settings: Settings | None, stop: bool
) -> tuple[float, int, float, float]:
    """The last four fields of a `Run`; without settings, the rival's."""
    space, rng = problem.space, np.random.default_rng([seed, 1])
    v = design(space, 2 * space.k + 1, rng=rng, exclude=np.empty((0, space.k)))
    y, fitting, proposing = problem.evaluate(v), 0.0, 0.0
    other = LogEI(space, seed)
    other.tell(v, y)
    while len(v) < budget and not (stop and y.min() <= problem.target):
        start = middle = time.process_time()
        if settings is None:
            pick = other.ask(1)
        else:
            data = TrainingData(x=space.encode(v), y=y, constraints={"completed": np.ones(len(y))})
            model = fit_model(data, settings[0], rng=rng)
            middle = time.process_time()
            pick = propose_batch(
                model,
                space,
                History(v, y),
                size=1,
                settings=settings[1],
                rng=rng,
            ).v
        fitting += middle - start
        proposing += time.process_time() - middle
        v, y = np.concatenate([v, pick]), np.concatenate([y, problem.evaluate(pick)])
        other.tell(pick, y[-1:])
    found = y <= problem.target
    return float(y.min()), int(np.argmax(found) + 1) if found.any() else 0, fitting, proposing


def report(runs: list[Run], names: list[str]) -> None:
    """The paper's table, with a column of ours: mean and standard deviation over the seeds."""
    heads = (
        "problem",
        "evaluations",
        *METHODS,
        "ours",
        "seeds",
        "optimum found",
        "after: mean (most)",
    )
    print(f"\n| {' | '.join(heads)} |\n{'| --- ' * len(heads)}|")
    for name in names:
        mine = [r for r in runs if r.problem == name]
        best = UNITS.get(name, 1.0) * np.array([r.best for r in mine])
        ours = f"{np.mean(best):.6g} ± {np.std(best, ddof=min(1, len(best) - 1)):.1g}"
        hits = [r.found for r in mine if r.found]
        after = f"{np.mean(hits):.1f} ({max(hits)})" if hits else ""
        optimum = "" if np.isinf(FUNCTIONS[name].optimum if name in FUNCTIONS else 0) else len(hits)
        budgets = ", ".join(str(b) for b in sorted({r.budget for r in mine}))
        cells = (name, budgets, *PAPER[name][1:], ours, len(mine), optimum, after)
        print(f"| {' | '.join(str(cell) for cell in cells)} |")


def parsed() -> argparse.Namespace:
    """The command line, with what it means: the method's name, and its settings."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "problems", nargs="*", help=f"{', '.join(PAPER)}; default: all, of the grids with --tables"
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budget", type=int, help="evaluations, in place of the paper's")
    parser.add_argument("--tables", type=Path, help="the folder of the grids")
    parser.add_argument("--no-stop", action="store_true")
    add_settings(parser, "--set", "surrogate")
    add_preset(parser)
    parser.add_argument("--rival", action="store_true", help="BoTorch's LogEI in our place")
    parser.add_argument(
        "--results", type=Path, help="JSON lines, a run each; what is there is kept"
    )
    chosen = parser.parse_args()
    if not chosen.problems:
        chosen.problems = [name for name in PAPER if chosen.tables or name not in GRIDS]
    for name in chosen.problems:
        if name not in PAPER:
            parser.error(f"{name} is not one of {', '.join(PAPER)}")
        if name in GRIDS and chosen.tables is None:
            parser.error(f"{name} needs its table: --tables DIR")
    if chosen.rival and not importlib.util.find_spec("botorch"):
        parser.error("BoTorch is not installed: benchmarks/rivals.txt")
    ours = [chosen.preset or "dngo", *chosen.set]
    chosen.method = "LogEI" if chosen.rival else " ".join(ours)
    chosen.method += " to the end" if chosen.no_stop else ""
    surrogate, acquisition = (of_preset(chosen.preset, s) for s in ("surrogate", "acquisition"))
    chosen.settings = None
    if not chosen.rival:
        chosen.settings = (
            settings_of(parser, SurrogateSettings, chosen.set, **surrogate),
            AcquisitionSettings(**acquisition),
        )
    return chosen


def main() -> None:
    chosen = parsed()
    runs: list[Run] = []
    if chosen.results and chosen.results.exists():
        runs = [Run(**json.loads(line)) for line in chosen.results.read_text().splitlines()]
    known = {(r.problem, r.method, r.seed, r.budget): r for r in runs}
    wanted: list[Run] = []
    for name in chosen.problems:
        budget, problem = chosen.budget or PAPER[name][0], Problem(name, chosen.tables)
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            key = (name, chosen.method, seed, budget)
            new = known.get(key)
            if new is None:
                new = Run(*key, *run(problem, seed, budget, chosen.settings, not chosen.no_stop))
                if chosen.results:
                    with chosen.results.open("a") as stream:
                        stream.write(json.dumps(asdict(new)) + "\n")
            wanted.append(new)
            print(
                f"{name} seed {seed}: {new.best:.6g} found at {new.found or 'never'},"
                f" fits {new.fitting:.1f} s, proposals {new.proposing:.1f} s",
                flush=True,
            )
    report(wanted, chosen.problems)


if __name__ == "__main__":
    main()

"""Table 1 of the paper: sequential optimisation, every cell of it with ours beside, ten seeds.

    python benchmarks/table1.py --tables DIR --results runs.jsonl   # all five problems
    python benchmarks/table1.py --tables DIR --seeds 3 --first 10   # three more
    python benchmarks/table1.py --tables DIR --preset dngo-2015     # as published

DIR holds lda_on_grid.csv and svm_on_grid.csv; without it the other three problems are run. Each run starts
from 2 d + 1 Sobol points and takes one evaluation at a time. It ends early when the best value is the known
optimum to within 1e-4 of it (of a table: exactly), as it cannot improve. Printed for each seed: the best
value, the evaluations until within that, CPU seconds of fits and proposals; at the end the paper's table,
means and standard deviations. With --results, one JSON line a run, an interrupted benchmark goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from courses import Strategy, Task, search
from objectives import FUNCTIONS, GRIDS
from options import add_preset
from trained import function, table

# The paper's rows: evaluations, then what SMAC, TPE, Spearmint and DNGO found in ten runs.
METHODS = ("SMAC", "TPE", "Spearmint", "DNGO")
PAPER = {
    "branin": (200, "0.655 ± 0.27", "0.526 ± 0.13", "0.398 ± 0.00", "0.398 ± 0.00"),
    "hartmann6": (200, "-2.977 ± 0.11", "-2.823 ± 0.18", "-3.3166 ± 0.02", "-3.319 ± 0.00"),
    "logistic": (100, "8.6 ± 0.9", "8.2 ± 0.6", "6.88 ± 0.0", "6.89 ± 0.04"),
    "lda": (50, "1269.6 ± 2.9", "1271.5 ± 3.5", "1266.2 ± 0.1", "1266.2 ± 0.0"),
    "svm": (100, "24.1 ± 0.1", "24.2 ± 0.0", "24.1 ± 0.1", "24.1 ± 0.1"),
}
UNITS = {"svm": 100.0}  # its table has shares, the paper percent


@dataclass(frozen=True)
class Run:
    """One run of a method: the best value, the evaluations until the optimum (0: never), CPU seconds."""

    problem: str
    method: str
    seed: int
    budget: int
    best: float
    found: int
    seconds: float


def task_of(name: str, tables: Path | None) -> Task:
    """A row of the table."""
    task = table(tables, name) if name in GRIDS else function(name)
    least = task.least if name in GRIDS else FUNCTIONS[name].optimum + 1e-4
    return replace(task, first=2 * task.space.k + 1, sobol=True, least=least)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    of = f"{', '.join(PAPER)}; default: all, of the grids with --tables"
    parser.add_argument("problems", nargs="*", help=of)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budget", type=int, help="evaluations, in place of the paper's")
    parser.add_argument("--tables", type=Path, help="the folder of the grids")
    add_preset(parser)
    parser.add_argument("--results", type=Path, help="JSON lines, a run each, which are kept")
    chosen = parser.parse_args()
    names = chosen.problems or [name for name in PAPER if chosen.tables or name not in GRIDS]
    if unknown := set(names) - set(PAPER):
        parser.error(f"{', '.join(unknown)}: not of {', '.join(PAPER)}")
    runs: list[Run] = []
    if chosen.results and chosen.results.exists():
        runs = [Run(**json.loads(line)) for line in chosen.results.read_text().splitlines()]
    known = {(r.problem, r.method, r.seed, r.budget): r for r in runs}
    wanted: list[Run] = []
    for name in names:
        budget, task = chosen.budget or PAPER[name][0], task_of(name, chosen.tables)
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            key = (name, chosen.preset or "dngo", seed, budget)
            new = known.get(key)
            if new is None:
                course = search(task, Strategy(chosen.preset), budget, seed)
                hits = np.flatnonzero(course.y <= task.least)
                found = int(hits[0]) + 1 if len(hits) else 0
                new = Run(*key, course.best(), found, course.cpu)
                if chosen.results:
                    with chosen.results.open("a") as stream:
                        stream.write(json.dumps(asdict(new)) + "\n")
            wanted.append(new)
            print(
                f"{name} seed {seed}: {new.best:.6g} found at {new.found or 'never'},"
                f" fits and proposals {new.seconds:.1f} s",
                flush=True,
            )
    report(wanted, names)


if __name__ == "__main__":
    main()

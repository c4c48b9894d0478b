"""What a rule is worth: studies without it, or with other numbers, by studies with it.

    python benchmarks/worth.py --results worth.csv --problems reporting --inputs 5 --seeds 3
    python benchmarks/worth.py --results worth.csv models=selection.better=1e9 --whole
    python benchmarks/worth.py --results worth.csv --table

Each variant changes numbers of the tree in `dngo/rules/`: NAME=BRANCH.NUMBER=VALUE, several with commas.
Without any, those in `WITHOUT` are run: each makes one rule have no effect. Studies are of trust regions
alone, a tenth of the time of a whole one, or with --whole of the default. A row of the file is one run, and
no run is repeated.

Printed is the geometric mean of (without) / (with): above 1 the rule helps. A rule that is worth less than
1.05 on functions that it was not tuned on is to be deleted.
"""

from __future__ import annotations

import argparse
import ast
import csv
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from batches import METHODS, find_problems
from trust_regions import study

from dngo.rules import Rules, current, using

COLUMNS = ("variant", "problem", "schedule", "whole", "seed", "best", "seconds")
# Each has the effect that its rule is never used.
WITHOUT = {
    "models of the floor and of the lowest points": "selection.better=1e9",
    "outcomes by their logarithms": "nearby.multiplies=1e9",
    "outliers": "nearby.outlying=1e9",
    "turned axes": "local.most_turned=0",
    "quadratics": "local.most_quadratic=0",
    "functions in the whole space": "search.wide_every=0",
    "functions that promise nothing": "search.kept_every=0",
    "other regions": "search.regions=1",
    "steps where no model is of use": "selection.foresight=-2.0,selection.foresight_alike=-2.0",
    "a good model is of use": "selection.ranked=2.0",
}


def parsed(text: str) -> dict[str, dict[str, Any]]:
    """BRANCH.NUMBER=VALUE, several with commas, as `Rules.but` takes them."""
    found: dict[str, dict[str, Any]] = {}
    for one in text.split(","):
        path, _, value = one.partition("=")
        branch, _, number = path.partition(".")
        found.setdefault(branch, {})[number] = ast.literal_eval(value)
    return found


def best(problem: Any, seed: int, rules: Rules, *, whole: bool) -> tuple[float, float]:
    """The distance of the best outcome from the optimum, if it is known, and CPU seconds.

    Of a noisy problem it is the true value at the recommended point.
    """
    began = time.process_time()
    with using(rules):
        run = METHODS["dngo"](problem, seed) if whole else study(problem, seed)
    optimum = problem.optimum if np.isfinite(problem.optimum) else 0.0
    return problem.score(run) - optimum, time.process_time() - began


def table(path: Path, least: float) -> None:
    """Each variant by the runs with all rules, of the same problem, schedule and seed.

    least: distances below it are alike: nobody asks for these digits.
    """
    runs: dict[tuple[str, ...], dict[str, list[float]]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(line for line in stream if not line.startswith("#")):
            key = (row["whole"], row["schedule"], row["problem"], row["seed"])
            runs.setdefault(key, {})[row["variant"]] = [float(row["best"]), float(row["seconds"])]
    names = dict.fromkeys(name for of in runs.values() for name in of if name)
    print("| without | worth | standard error of its logarithm | worse, better | CPU time | runs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in names:
        both = [(of[""], of[name]) for of in runs.values() if "" in of and name in of]
        logs = np.array([np.log(max(b[0], least) / max(a[0], least)) for a, b in both])
        cost = sum(b[1] for _, b in both) / sum(a[1] for a, _ in both)
        error = logs.std() / np.sqrt(len(logs))
        counts = f"{np.sum(logs > 0.01)}, {np.sum(logs < -0.01)}"
        print(
            f"| {name} | {np.exp(logs.mean()):.2f} | {error:.2f} | {counts} | {cost:.2f} | {len(logs)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variants", nargs="*", metavar="NAME=BRANCH.NUMBER=VALUE")
    parser.add_argument(
        "--results", type=Path, required=True, help="CSV file, to which runs are added"
    )
    parser.add_argument("--problems", nargs="+", default=["reporting"])
    parser.add_argument("--inputs", type=int, default=5)
    parser.add_argument("--schedule", nargs=3, type=int, default=(20, 10, 10))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="default studies, not regions alone")
    parser.add_argument("--least", type=float, default=1e-9, help="distances below are alike")
    parser.add_argument("--table", action="store_true", help="print what is in the file alone")
    options = parser.parse_args()
    if options.table:
        return table(options.results, options.least)
    given = dict(one.split("=", 1) for one in options.variants) or WITHOUT
    trees = {"": current(), **{name: current().but(**parsed(t)) for name, t in given.items()}}
    design, rounds, size = options.schedule
    schedule, done = f"{design} + {rounds} x {size}", set()
    if options.results.exists():
        with options.results.open(newline="") as stream:
            lines = (line for line in stream if not line.startswith("#"))
            done = {tuple(row[c] for c in COLUMNS[:5]) for row in csv.DictReader(lines)}
    else:
        options.results.write_text(",".join(COLUMNS) + "\n")
    problems = find_problems(options.problems)
    for seed in range(options.seeds):
        for name, problem in problems.items():
            if problem.space.k != options.inputs:
                continue
            here = replace(problem, design=design, rounds=rounds, batch=size)
            for variant, rules in trees.items():
                key = (variant, name, schedule, str(int(options.whole)), str(seed))
                if key not in done:
                    found, seconds = best(here, seed, rules, whole=options.whole)
                    with options.results.open("a", newline="") as stream:
                        csv.writer(stream).writerow([*key, repr(found), f"{seconds:.2f}"])
    table(options.results, options.least)


if __name__ == "__main__":
    main()

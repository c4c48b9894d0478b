"""The caption study at the paper's size, on an emulator (Snoek et al. 2015, section 4.2).

    python benchmarks/captions.py                                # how good the emulator is
    python benchmarks/captions.py --seeds 5 --results runs.jsonl # eight batches of 312

The paper evaluated some 2,500 points, 300 to 800 at once. Here gradient-boosted trees (scikit-learn) stand
for the language model, as in surrogate benchmarks: one model for whether an evaluation succeeds, one for
its BLEU, and one for its CPU seconds. They are fitted to the 1,500 real evaluations of
examples/captions/emulator.csv, of which 300 are an earlier study's, 400 are spread evenly and 800 are a
study's. Printed first is how well they predict what was held out, in ten folds, and the study in
results.csv, of which they have seen nothing.

Then every method proposes batches for the emulator, all from the same first design (batches.py). The time
of a batch is that of its evaluations on 300 to 800 cores, drawn for each batch, in the order of the batch.
A line for each run is appended to `--results`, and runs found there are not repeated.
"""

from __future__ import annotations

import argparse
import heapq
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from batches import METHODS, Problem, dngo
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from dngo import config
from dngo.exchange import csv_table
from dngo.exchange.points import points_of
from dngo.space import Space
from dngo.surrogates.settings import SurrogateSettings

Array = NDArray[np.float64]

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "captions"
TABLES, UNSEEN = [EXAMPLE / "emulator.csv"], EXAMPLE / "results.csv"
CHECKED = (1, 2, 5, 8)  # batches, the design included, after which the best BLEU is printed
LIMIT = 6.0  # CPU seconds after which an evaluation is stopped
TREES: dict[str, Any] = {"max_iter": 200, "learning_rate": 0.05, "min_samples_leaf": 5}
RUNS = {
    "random": METHODS["random"],
    **({"optuna_tpe": METHODS["optuna_tpe"]} if "optuna_tpe" in METHODS else {}),
    "adaptive_basis": dngo(SurrogateSettings(kind="adaptive_basis")),
    "dngo": METHODS["dngo"],
}


@dataclass(frozen=True)
class Evaluations:
    """Real evaluations: x (n, d), unit cube; bleu (n,) and seconds (n,), NaN where they failed."""

    space: Space
    x: Array
    bleu: Array
    seconds: Array

    @classmethod
    def read(cls, tables: list[Path]) -> Evaluations:
        """Those of the tables that examples/table.py has made."""
        space = config.load([EXAMPLE / "config.yaml"]).search_space
        rows = [row for table in tables for row in csv_table.read(table)]
        points, problems = points_of(space, rows)
        if problems:
            raise SystemExit(f"{tables}: {problems}")
        numbers = [
            [float(row.get(name) or np.nan) for name in ("objective", "cpu_seconds")]
            for row in rows
        ]
        x = space.encode(space.from_parameters(points))
        return cls(space, x, *np.array(numbers).T)

    @property
    def ok(self) -> NDArray[np.bool_]:
        return np.isfinite(self.bleu)


class Emulator:
    """Boosted trees for success, BLEU and the logarithm of the CPU seconds."""

    def __init__(self, real: Evaluations) -> None:
        self.space = real.space
        self.succeeds = HistGradientBoostingClassifier(random_state=0, **TREES)
        self.bleu = HistGradientBoostingRegressor(random_state=0, **TREES)
        self.log_seconds = HistGradientBoostingRegressor(random_state=0, **TREES)
        self.succeeds.fit(real.x, real.ok)
        self.bleu.fit(real.x[real.ok], real.bleu[real.ok])
        self.log_seconds.fit(real.x[real.ok], np.log(real.seconds[real.ok]))

    def evaluate(self, v: Array, rng: np.random.Generator) -> Array:
        """Minus the BLEU of v (n, k), natural values, NaN where the evaluation fails."""
        x = self.space.encode(v)
        return np.where(self.succeeds.predict(x), -self.bleu.predict(x), np.nan)

    def seconds(self, v: Array) -> Array:
        """CPU seconds (n,) of evaluating v (n, k); the limit where it fails, which is the worst case."""
        x = self.space.encode(v)
        return np.where(self.succeeds.predict(x), np.exp(self.log_seconds.predict(x)), LIMIT)


def held_out(real: Evaluations) -> str:
    """How well each model predicts what it was not fitted to, in ten folds."""
    ok, folds = real.ok, KFold(10, shuffle=True, random_state=0)
    chance = cross_val_predict(
        HistGradientBoostingClassifier(random_state=0, **TREES),
        real.x,
        ok,
        cv=StratifiedKFold(10, shuffle=True, random_state=0),
        method="predict_proba",
    )[:, 1]
    found = [
        cross_val_predict(
            HistGradientBoostingRegressor(random_state=0, **TREES), real.x[ok], truth, cv=folds
        )
        for truth in (real.bleu[ok], np.log(real.seconds[ok]))
    ]
    return agreement(real, chance, *found)


def on_another(emulator: Emulator, other: Evaluations) -> str:
    """How well an emulator predicts a study that it was not fitted to."""
    chance, x = emulator.succeeds.predict_proba(other.x)[:, 1], other.x[other.ok]
    return agreement(other, chance, emulator.bleu.predict(x), emulator.log_seconds.predict(x))


def agreement(real: Evaluations, chance: Array, bleu: Array, log_seconds: Array) -> str:
    """Predictions beside the truth: chances of success (n,), the others of what succeeded."""
    ok = real.ok
    lines = [
        f"{len(ok)} evaluations, {ok.mean():.0%} of them succeed",
        f"success: {np.mean(ok == (chance > 0.5)):.1%} are right, balanced "
        f"{balanced_accuracy_score(ok, chance > 0.5):.1%}, area under the curve "
        f"{roc_auc_score(ok, chance):.3f}",
    ]
    for name, truth, found in (
        ("BLEU", real.bleu[ok], bleu),
        ("log CPU s", np.log(real.seconds[ok]), log_seconds),
    ):
        lines.append(
            f"{name}: root mean square error {np.sqrt(np.mean((truth - found) ** 2)):.3g}, "
            f"R2 {r2_score(truth, found):.2f}, rank correlation {spearmanr(truth, found)[0]:.2f}"
        )
    return "\n".join(lines)


def makespan(seconds: Array, cores: int) -> float:
    """When the last of some evaluations ends, each begun in their order on the first free core."""
    free = [0.0] * cores
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def row_of(method: str, seed: int, problem: Problem, emulator: Emulator) -> dict[str, Any]:
    """A run, batch by batch: best BLEU, share of infeasible points, simulated seconds so far."""
    run = RUNS[method](problem, seed)
    rng = np.random.default_rng([seed, 6])
    best, infeasible, clock, now = [], [], [], 0.0
    for t in range(problem.rounds + 1):
        size = problem.design if t == 0 else problem.batch
        begin = 0 if t == 0 else problem.design + (t - 1) * problem.batch
        here = slice(begin, begin + size)
        now += makespan(emulator.seconds(run.v[here]), int(rng.integers(300, 801)))
        best.append(-float(np.nanmin(run.y[: begin + size])))
        infeasible.append(float(np.mean(np.isnan(run.y[here]))))
        clock.append(now)
    return {
        "method": method,
        "seed": seed,
        "schedule": problem.schedule,
        "best": best,
        "infeasible": infeasible,
        "clock": clock,
        # To be tried on the language model itself: the best of an emulator is also its best mistake.
        "point": problem.space.to_parameters(run.v[[np.nanargmin(run.y)]])[0],
        "seconds": run.seconds,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Best BLEU after some batches, infeasible shares, and simulated and CPU seconds, by method."""
    columns = [t for t in CHECKED if t <= min(len(row["best"]) for row in rows)]
    names = [f"after {t}" for t in columns] + ["infeasible by batch", "simulated s", "CPU s"]
    lines = ["| method | seeds | " + " | ".join(names) + " |", "| --- " * (len(names) + 2) + "|"]
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        best = np.array([row["best"] for row in mine])
        spread = best.std(axis=0, ddof=min(1, len(mine) - 1))
        cells = [f"{best[:, t - 1].mean():.2f} ± {spread[t - 1]:.2f}" for t in columns]
        shares = np.mean([row["infeasible"] for row in mine], axis=0)
        cells.append(" ".join(f"{share:.0%}" for share in shares))
        cells += [f"{np.mean([row['clock'][-1] for row in mine]):.0f}"]
        cells += [f"{np.mean([row['seconds'] for row in mine]):.0f}"]
        lines.append(f"| {method} | {len(mine)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tables", nargs="+", type=Path, default=TABLES)
    parser.add_argument("--methods", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--seeds", type=int, default=0, help="runs of each method; default: none")
    parser.add_argument(
        "--schedule",
        nargs=3,
        type=int,
        default=(312, 7, 312),
        metavar=("DESIGN", "BATCHES", "SIZE"),
        help="points of the design, batches after it and their size; default: 312 7 312",
    )
    parser.add_argument("--results", type=Path, help="file of JSON lines to keep the runs in")
    arguments = parser.parse_args()
    real = Evaluations.read(arguments.tables)
    print(f"Held out: {held_out(real)}", flush=True)
    emulator = Emulator(real)
    print(f"A study not seen: {on_another(emulator, Evaluations.read([UNSEEN]))}", flush=True)
    design, rounds, batch = arguments.schedule
    problem = Problem(real.space, emulator.evaluate, -100.0, None, design, rounds, batch)
    kept = arguments.results
    rows = [json.loads(line) for line in kept.open()] if kept and kept.exists() else []
    rows = [row for row in rows if row["schedule"] == problem.schedule]
    done = {(row["method"], row["seed"]) for row in rows}
    for seed in range(arguments.seeds):
        for method in arguments.methods:
            if (method, seed) not in done:
                rows.append(row_of(method, seed, problem, emulator))
                if kept:
                    with kept.open("a") as stream:
                        stream.write(json.dumps(rows[-1]) + "\n")
    if rows:
        print(table(rows))


if __name__ == "__main__":
    main()

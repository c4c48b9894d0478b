"""Early stopping on the learning curves of `curves.py`: what a rule saves, and what it costs.

    python benchmarks/stopping.py rules --data lcbench --tables tuning
    python benchmarks/stopping.py studies --data lcbench --tables reporting --most 4

rules: random points, some at once, each an epoch at a time; a line of CSV for each rule: the share of the
epochs that were run, that of the evaluations that were stopped, and by how much the best that is left is
worse than the best of all, as a share of the range of the ends: mean and worst over the tables. studies:
the default with and without a rule, for the same epochs; a line for each run, as `curves.py` has them.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np
from curves import EPOCHS, Array, Run, Table, tasks

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.stopping.curves import Curve
from dngo.stopping.ends import predicted
from dngo.stopping.model import Predicted
from dngo.stopping.settings import Asha, Median, Quantile, Stopping
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

MARKS = (
    0.1,
    0.03,
    0.01,
    0.003,
)  # regrets, for which a line says after how many epochs they were reached
RULES: dict[str, Stopping | None] = {
    "none": None,
    "median": Median(),
    "median without patience": Median(patience=0),
    "quantile 0.7": Quantile(share=0.7),
    "asha": Asha(),
    "asha 2": Asha(eta=2),
    "model": Predicted(),
}


def curve_of(values: Array, ended: bool) -> Curve:
    """The first epochs of an evaluation."""
    return Curve(tuple((n, float(y), 0.0) for n, y in enumerate(values, start=1)), ended)


def lockstep(
    rule: Stopping | None, curves: Array, at_once: int, before: list[Curve]
) -> tuple[Array, Array]:
    """The epochs that each of some evaluations came to, and the time at which it was over: two (n,).

    curves: (n, epochs).  at_once: how many run at the same time, an epoch each in turn.  before: those of
    evaluations that are over; those of these are added.
    """
    waiting, running = list(range(len(curves))), dict[int, int]()
    epochs, over, spent = np.zeros(len(curves), dtype=int), np.zeros(len(curves)), 0
    while waiting or running:
        while waiting and len(running) < at_once:
            running[waiting.pop(0)] = 0
        for i in running:
            running[i] += 1
        known = {i: curve_of(curves[i, :n], False) for i, n in running.items()}
        for i in list(running):
            spent += 1
            others = [*before, *(c for j, c in known.items() if j != i)]
            n = running[i]
            if n == curves.shape[1] or (rule and rule.decide(known[i], others, 1.0)):
                epochs[i], over[i] = n, spent
                before.append(curve_of(curves[i, :n], True))
                del running[i], known[i]
    return epochs, over


def study(run: Run, seed: int, at_once: int, rule: Stopping | None) -> None:
    """A study of the default in memory, batch after batch, as long as there are epochs."""
    space, settings = run.table.space, AcquisitionSettings()
    v = design(space, at_once, rng=np.random.default_rng([seed, 0]), exclude=np.empty((0, space.k)))
    points, y, batch = v[:0], np.empty(0), np.empty(0, dtype=int)
    known: list[Curve] = []  # in the order in which they ended
    curves: list[Curve] = []  # in that of the points
    for t in range(10_000):
        whole = run.table.curve(v)
        epochs, over = lockstep(rule, whole, at_once, known)
        curves += [curve_of(c[:n], True) for c, n in zip(whole, epochs, strict=True)]
        for c, n, spent in sorted(zip(whole, epochs, over, strict=True), key=lambda one: one[2]):
            if n == EPOCHS:
                run.note(run.spent + float(spent), c[-1])
        run.spent += float(epochs.sum())
        if run.is_over:
            return
        points, batch = np.concatenate([points, v]), np.concatenate([batch, np.full(len(v), t)])
        y = np.concatenate([y, np.where(epochs == EPOCHS, whole[:, -1], np.nan)])
        ends = predicted(curves, y, np.isnan(y), 1.0)
        taught = np.where(np.isnan(y), ends, y)
        data = TrainingData(
            space.encode(points), taught, batch=batch, groups=space.groups, feasible=np.isfinite(y)
        )
        model = fit_model(data, SurrogateSettings(), rng=np.random.default_rng([seed, t, 1]))
        history = History(v=points, y=y, iteration=batch)
        rng = np.random.default_rng([seed, t, 2])
        v = propose_batch(model, space, history, rng=rng, size=at_once, settings=settings).v


def compare_rules(arguments: argparse.Namespace) -> None:
    """Print what each rule saves and loses on random points."""
    writer = csv.writer(sys.stdout)
    writer.writerow(("rule", "epochs", "stopped", "lost", "lost at most"))
    names = tasks(arguments.data, arguments.tables)[: arguments.most]
    tables = [Table(arguments.data, name) for name in names]
    rng = np.random.default_rng(0)
    drawn = [t.curve(t.space.sample(rng.random((arguments.points, t.space.k)))) for t in tables]
    for name, rule in RULES.items():
        shares, stops, losses = [], [], []
        for curves in drawn:
            epochs, _ = lockstep(rule, curves, arguments.at_once, [])
            ends, left = curves[:, -1], epochs == EPOCHS
            shares.append(epochs.sum() / curves.size)
            stops.append(1.0 - left.mean())
            losses.append((ends[left].min() - ends.min()) / (ends.max() - ends.min()))
        numbers = np.mean(shares), np.mean(stops), np.mean(losses), np.max(losses)
        writer.writerow([name, *(f"{number:.4f}" for number in numbers)])
        sys.stdout.flush()


def compare_studies(arguments: argparse.Namespace) -> None:
    """Print a line for each study."""
    writer = None
    for task in tasks(arguments.data, arguments.tables)[: arguments.most]:
        table = Table(arguments.data, task)
        for seed in range(arguments.seeds):
            for name in arguments.rules:
                budget, began = arguments.budget * EPOCHS, time.process_time()
                run = Run(table, budget)
                study(run, seed, arguments.at_once, RULES[name])
                row = {
                    "task": task,
                    "seed": seed,
                    "rule": name,
                    "regret": f"{run.regret_after(budget):.5f}",
                    "regret at a half": f"{run.regret_after(budget / 2):.5f}",
                    "area": f"{run.area(budget):.3f}",
                    **{f"epochs to {mark:g}": f"{run.reached(mark):.0f}" for mark in MARKS},
                    "course": " ".join(f"{e:.0f}:{r:.5f}" for e, r in run.course),
                    "CPU s": f"{time.process_time() - began:.1f}",
                }
                if writer is None:
                    writer = csv.DictWriter(sys.stdout, list(row))
                    writer.writeheader()
                writer.writerow(row)
                sys.stdout.flush()


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("rules", "studies"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", default="tuning", help="tuning, reporting, or ids with commas")
    parser.add_argument("--most", type=int, help="only so many of the tables")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--points", type=int, default=100, help="of each table, for rules")
    parser.add_argument("--rules", nargs="+", default=["none", "median"], choices=list(RULES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=int, default=40, help="in evaluations with all epochs")
    arguments = parser.parse_args()
    (compare_rules if arguments.what == "rules" else compare_studies)(arguments)


if __name__ == "__main__":
    main()

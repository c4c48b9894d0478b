"""Learning curves: fidelities, promotions and rivals on recorded ones, for the same total of epochs.

    python benchmarks/curves.py --data lcbench --tables tuning --seeds 2
    python benchmarks/curves.py --data lcbench --tables reporting --at-once 100 --budget 300

`--data` is a folder with a model of LCBench's curves (YAHPO Gym's: model.onnx, encoding.json), which needs
onnxruntime. Seven parameters, 1 to 52 epochs, the error of validation in percent. The clock is simulated:
an evaluation takes its epochs, `--at-once` run at the same time, and methods are charged for the epochs
that all of them have run. `--budget` is counted in full evaluations; `--share` is the share of it that
methods with fidelities, or that stop evaluations early, may use.

Regret is at the highest fidelity alone: what a method's best evaluation of 52 epochs has above the best
error that is known, as a share of what the median random point has. A line of CSV a run: the regret at the
end, the area under the logarithm of the regret by the epochs (in shares of the budget; a run that ended
sooner stays where it was), and after how many epochs it had reached some regrets. Tasks whose id is even
are `tuning`, the others `reporting`.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dngo.acquisition import History, design, propose_batch, propose_on_ladder
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.space.ladder import Ladder
from dngo.space.parameters import Float, Int, Parameter
from dngo.surrogates import Model, TargetScale, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

Array = NDArray[np.float64]
EPOCHS = 52
# The curves of what is finished, and that of this evaluation so far -> whether to stop it.
Stopping = Callable[[Sequence[Array], Array], bool]
INPUTS = ("batch_size", "learning_rate", "momentum", "weight_decay", "num_layers", "max_units")
PARAMETERS: dict[str, Parameter] = {
    "batch_size": Int(type="int", low=16, high=512, log=True),
    "learning_rate": Float(type="float", low=1e-4, high=0.1, log=True),
    "momentum": Float(type="float", low=0.1, high=0.99),
    "weight_decay": Float(type="float", low=1e-5, high=0.1),
    "num_layers": Int(type="int", low=1, high=5),
    "max_units": Int(type="int", low=64, high=1024, log=True),
    "max_dropout": Float(type="float", low=0.0, high=1.0),
}


def codes(folder: Path) -> dict[str, int]:
    """The number by which the model knows each task."""
    found: dict[str, int] = json.loads((folder / "encoding.json").read_text())["OpenML_task_id"]
    return found


@dataclass
class Table:
    """The curves of one task: points of `space`, the error of validation after each epoch."""

    folder: Path
    task: str

    @cached_property
    def space(self) -> Space:
        return Space(PARAMETERS)

    @cached_property
    def session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(str(self.folder / "model.onnx"), options)

    def errors(self, v: Array, epochs: Array) -> Array:
        """The error in percent of points v (n, 7) after so many epochs (m,): (n, m)."""
        code = codes(self.folder)[self.task]
        names = [column.name for column in self.space.columns]
        columns = [v[:, names.index(name)] for name in PARAMETERS]
        found = []
        for n in epochs:
            x = np.column_stack([np.full(len(v), n), *columns]).astype(np.float32)
            given = {"x_cat": np.full((len(v), 1), code, dtype=np.int32), "x_cont": x}
            found.append(100.0 - self.session.run(None, given)[0][:, 1])
        return np.column_stack(found).astype(float)

    def curve(self, v: Array) -> Array:
        """The whole curve of points v (n, 7): (n, 52)."""
        return self.errors(np.atleast_2d(v), np.arange(1, EPOCHS + 1))

    @cached_property
    def known(self) -> tuple[float, float]:
        """The best error that is known after all epochs, and the median one of random points."""
        rng = np.random.default_rng(0)
        v = self.space.sample(rng.random((20_000, self.space.k)))
        y = self.errors(v, np.array([EPOCHS]))[:, 0]
        median, width = float(np.median(y)), 0.1
        for _ in range(12):  # around the best ones
            u = self.space.unit(v[np.argsort(y)[:20]])[np.arange(2000) % 20]
            near = self.space.from_unit(u + width * rng.standard_normal(u.shape))
            v = np.concatenate([v, near])
            y = np.concatenate([y, self.errors(near, np.array([EPOCHS]))[:, 0]])
            width *= 0.7
        return float(y.min()), median

    def regret(self, error: float) -> float:
        """Of an error after all epochs, as a share of the median random point's."""
        best, median = self.known
        return max(error - best, 0.0) / (median - best)


@dataclass
class Run:
    """What a method has spent, and the best it had at the highest fidelity: (epochs, regret) falling."""

    table: Table
    budget: float
    spent: float = 0.0
    course: list[tuple[float, float]] = field(default_factory=list)

    def note(self, epochs: float, error: float) -> None:
        """An evaluation with all epochs came to its end when so many epochs had been spent."""
        regret = self.table.regret(error)
        if not self.course or regret < self.course[-1][1]:
            self.course.append((epochs, regret))

    @property
    def is_over(self) -> bool:
        return self.spent >= self.budget

    def regret_after(self, epochs: float) -> float:
        return next((r for e, r in reversed(self.course) if e <= epochs), 1.0)

    def reached(self, regret: float) -> float:
        """After how many epochs it had a regret as low; infinite: never."""
        return next((e for e, r in self.course if r <= regret), float("inf"))

    def area(self, budget: float) -> float:
        """The mean of log10 of the regret over a budget of epochs."""
        grid = np.linspace(0, budget, 201)[1:]
        return float(np.mean([np.log10(max(self.regret_after(e), 1e-4)) for e in grid]))


# ---- ours: batches -----------------------------------------------------------------------------------


def spent_by(run: Run, costs: Array) -> Array:
    """How many epochs had been spent as each evaluation of a batch ended; charges the batch: (q,)."""
    ends = run.spent + np.minimum(costs, costs[:, None]).sum(axis=1)
    run.spent += float(costs.sum())
    return ends


def ours(
    run: Run,
    seed: int,
    at_once: int,
    *,
    kind: str = "mcei",
    low: int = 0,
    stopping: Stopping | None = None,
) -> None:
    """A study of this package in memory. low: the lowest fidelity; 0: none, all epochs of every point."""
    space = run.table.space
    ladder = None
    if low:
        whole = Space({**PARAMETERS, "epochs": Int(type="int", low=1, high=EPOCHS, log=True)})
        ladder = Ladder.of(whole, "epochs", low, EPOCHS, 3)
    settings, surrogate = AcquisitionSettings(kind=kind), SurrogateSettings()
    v = design(space, at_once, rng=np.random.default_rng([seed, 0]), exclude=np.empty((0, space.k)))
    if ladder:
        v = ladder.at(v, 0)
    history = History(v=v[:0], y=np.empty(0))
    curves: list[Array] = []
    for t in range(10_000):
        y, costs, full = _evaluated(run.table, ladder, v, stopping, curves)
        for epochs, error, whole_curve in zip(spent_by(run, costs), y, full, strict=True):
            if whole_curve:
                run.note(epochs, error)
        history = History(
            v=np.concatenate([history.v, v]),
            y=np.concatenate([history.y, y]),
            iteration=np.concatenate([history.iteration, np.full(len(v), t)]).astype(int),
        )
        if run.is_over:
            return
        of_space = ladder.space if ladder else space
        if settings.is_baseline:
            model = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {})
        else:
            data = TrainingData(
                of_space.encode(history.v),
                history.y,
                batch=history.iteration,
                groups=of_space.groups,
            )
            model = fit_model(data, surrogate, rng=np.random.default_rng([seed, t, 1]))
        more = {"size": at_once, "settings": settings}
        rng = np.random.default_rng([seed, t, 2])
        if ladder:
            v = propose_on_ladder(model, ladder, history, rng=rng, **more).v
        else:
            v = propose_batch(model, space, history, rng=rng, **more).v


def _evaluated(
    table: Table,
    ladder: Ladder | None,
    v: Array,
    stopping: Stopping | None,
    curves: list[Array],
) -> tuple[Array, Array, Array]:
    """Errors of points, the epochs that they took, and which had all epochs.

    A promoted point goes on from where it was: it takes what its level has above the one before.
    """
    points = ladder.points.of_full(v) if ladder else v
    last = ladder.values(v).astype(int) if ladder else np.full(len(v), EPOCHS)
    whole = table.curve(points)
    costs = last.astype(float)
    if ladder:
        level = ladder.level(v)
        before = np.where(level > 0, np.asarray(ladder.levels)[np.maximum(level - 1, 0)], 0)
        costs -= before
    if stopping:
        for i, curve in enumerate(whole):
            stops = (n for n in range(1, last[i]) if stopping(curves, curve[:n]))
            last[i] = next(stops, last[i])
            costs[i] = last[i]
        curves += [curve[:n] for curve, n in zip(whole, last, strict=True)]
    return whole[np.arange(len(v)), last - 1], costs, last == EPOCHS


# ---- rivals: one evaluation at a time and worker ---------------------------------------------------------


def optuna_study(sampler: str, pruner: str, seed: int) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, constant_liar=True),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
    }
    pruners = {
        "none": optuna.pruners.NopPruner,
        "median": optuna.pruners.MedianPruner,
        "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=2, max_resource=EPOCHS),
        "asha": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3),
    }
    return optuna.create_study(sampler=samplers[sampler](), pruner=pruners[pruner]())


def with_optuna(run: Run, seed: int, at_once: int, *, sampler: str, pruner: str) -> None:
    """Workers that each run a trial epoch by epoch, all at the same speed."""
    study = optuna_study(sampler, pruner, seed)
    columns = [column.name for column in run.table.space.columns]
    running: list[
        tuple[int, int, Any, Array]
    ] = []  # epoch of the next report, number, trial, curve

    def begin(now: int) -> None:
        trial = study.ask()
        point = {name: _suggest(trial, name, p) for name, p in PARAMETERS.items()}
        v = run.table.space.round(np.array([[point[name] for name in columns]], dtype=float))
        heapq.heappush(running, (now + 1, trial.number, trial, run.table.curve(v)[0]))

    for _ in range(at_once):
        begin(0)
    import optuna

    done: dict[int, int] = {}
    while not run.is_over:
        now, number, trial, curve = heapq.heappop(running)
        n = done[number] = done.get(number, 0) + 1
        run.spent += 1
        trial.report(curve[n - 1], n)
        if n == EPOCHS:
            run.note(run.spent, curve[-1])
            study.tell(trial, curve[-1])
        elif trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            heapq.heappush(running, (now + 1, number, trial, curve))
            continue
        begin(now)


def _suggest(trial: Any, name: str, p: Any) -> float:
    suggest = trial.suggest_int if isinstance(p, Int) else trial.suggest_float
    return float(suggest(name, p.low, p.high, log=p.log))


# ---- the table -------------------------------------------------------------------------------------------

FULL = {"dngo", "tpe", "random"}  # methods that spend the whole budget
METHODS: dict[str, Callable[[Run, int, int], None]] = {
    "dngo": lambda run, seed, at_once: ours(run, seed, at_once),
    "dngo fidelity": lambda run, seed, at_once: ours(run, seed, at_once, low=2),
    "successive_halving": lambda run, seed, at_once: ours(
        run, seed, at_once, kind="successive_halving", low=2
    ),
    "random": lambda r, s, a: with_optuna(r, s, a, sampler="random", pruner="none"),
    "tpe": lambda r, s, a: with_optuna(r, s, a, sampler="tpe", pruner="none"),
    "tpe median": lambda r, s, a: with_optuna(r, s, a, sampler="tpe", pruner="median"),
    "tpe hyperband": lambda r, s, a: with_optuna(r, s, a, sampler="tpe", pruner="hyperband"),
    "random asha": lambda r, s, a: with_optuna(r, s, a, sampler="random", pruner="asha"),
}
MARKS = (0.1, 0.03, 0.01, 0.003)


def tasks(folder: Path, which: str) -> list[str]:
    """The tasks of a set, or the ones named."""
    names = [name for name in codes(folder) if name.isdigit()]
    if which in ("tuning", "reporting"):
        return sorted((n for n in names if int(n) % 2 == (which == "reporting")), key=int)
    return which.split(",")


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each run."""
    for task in tasks(arguments.data, arguments.tables)[: arguments.most]:
        table = Table(arguments.data, task)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for name in arguments.methods:
                budget = arguments.budget * EPOCHS
                run = Run(table, budget * (1.0 if name in FULL else arguments.share))
                began = time.process_time()
                METHODS[name](run, seed, arguments.at_once)
                yield {
                    "task": task,
                    "at_once": arguments.at_once,
                    "budget": budget,
                    "seed": seed,
                    "method": name,
                    "regret": f"{run.regret_after(budget):.5f}",
                    "regret at a third": f"{run.regret_after(budget / 3):.5f}",
                    "area": f"{run.area(budget):.3f}",
                    **{f"epochs to {mark:g}": f"{run.reached(mark):.0f}" for mark in MARKS},
                    "course": " ".join(f"{e:.0f}:{r:.5f}" for e, r in run.course),
                    "CPU s": f"{time.process_time() - began:.1f}",
                }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", default="tuning", help="tuning, reporting, or ids with commas")
    parser.add_argument("--most", type=int, help="only so many of the tables")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--budget", type=int, default=60, help="in evaluations with all epochs")
    parser.add_argument("--share", type=float, default=0.5)
    writer = None
    for row in rows(parser.parse_args()):
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(row))
            writer.writeheader()
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Learning curves: fidelities, promotions and rivals on recorded ones, for the same total of epochs.

    python benchmarks/curves.py --data lcbench --tables tuning --seeds 2
    python benchmarks/curves.py --data lcbench --tables reporting --at-once 100 --budget 300

`--data` is a folder with a model of LCBench's curves (YAHPO Gym's: model.onnx, encoding.json), which needs
onnxruntime; or with curves of another family (`boosting.py`). LCBench has seven parameters, 1 to 52 epochs,
and the error of validation in percent. The clock is simulated: an evaluation takes its epochs, `--at-once`
run at the same time, and methods are charged for the epochs that all of them have run. `--budget` is in
full evaluations; `--share` is the share of it that methods with fidelities, or that stop evaluations early,
may use.

Regret is at the highest fidelity alone: what a method's best evaluation of 52 epochs has above the best
error that is known, as a share of what the median random point has. A line of CSV a run: the regret after
`--share` of the budget, the mean of its logarithm until then, the regret at the end of those that spend all
of it, and after how many epochs a method was as low as `dngo`, without fidelities, is at the end. Tasks
whose id is even are `tuning`, the others `reporting`.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import heapq
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from boosting import DATA, Boosted
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
    parameters = PARAMETERS

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

    table: Table | Boosted
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
        return next((min(r, 1.0) for e, r in reversed(self.course) if e <= epochs), 1.0)

    def reached(self, regret: float) -> float:
        """After how many epochs it had a regret as low; infinite: never."""
        return next((e for e, r in self.course if r <= regret), float("inf"))

    def area(self, budget: float) -> float:
        """The mean of log10 of the regret over so many epochs; at most 1 counts."""
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
        whole = Space(
            {**run.table.parameters, "epochs": Int(type="int", low=1, high=EPOCHS, log=True)}
        )
        ladder = Ladder.of(whole, "epochs", low, EPOCHS, 3)
    settings, surrogate = AcquisitionSettings(kind=kind), SurrogateSettings()
    v = design(space, at_once, rng=np.random.default_rng([seed, 0]), exclude=np.empty((0, space.k)))
    if ladder:
        v = ladder.at(v, 0)
    history = History(v=v[:0], y=np.empty(0))
    curves: list[Array] = []
    done: dict[bytes, int] = {}
    for t in range(10_000):
        y, costs, full = _evaluated(run.table, ladder, v, stopping, curves, done)
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
    table: Table | Boosted,
    ladder: Ladder | None,
    v: Array,
    stopping: Stopping | None,
    curves: list[Array],
    done: dict[bytes, int],
) -> tuple[Array, Array, Array]:
    """Errors of points, the epochs that they took, and which had all epochs.

    A promoted point goes on from where it was: done has the epochs of each point so far.
    """
    points = ladder.points.of_full(v) if ladder else v
    last = ladder.values(v).astype(int) if ladder else np.full(len(v), EPOCHS)
    whole = table.curve(points)
    costs = last.astype(float)
    for i, key in enumerate(table.space.keys(points)):
        costs[i] -= done.get(key, 0)
        done[key] = int(last[i])
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


def in_steps(
    run: Run, at_once: int, begin: Callable[[], tuple[Any, Array]], ends: Callable[..., bool]
) -> None:
    """Workers that each run an evaluation epoch by epoch, all at the same speed.

    begin: another evaluation and its curve. ends: whether an evaluation is over after so many epochs, given
    also its value then; told of the last epoch too.
    """
    running: list[
        tuple[int, int, int, Any, Array]
    ] = []  # epoch by the clock, number, epochs so far

    def start(now: int, number: int) -> None:
        one, curve = begin()
        heapq.heappush(running, (now + 1, number, 1, one, curve))

    for number in range(at_once):
        start(0, number)
    number = at_once
    while not run.is_over:
        now, its, n, one, curve = heapq.heappop(running)
        run.spent += 1
        if n == EPOCHS:
            run.note(run.spent, curve[-1])
        if not ends(one, n, float(curve[n - 1])) and n < EPOCHS:
            heapq.heappush(running, (now + 1, its, n + 1, one, curve))
            continue
        start(now, number)
        number += 1


def curve_of(run: Run, point: Any) -> Array:
    """That of a point by name."""
    v = [[float(point[column.name]) for column in run.table.space.columns]]
    curve: Array = run.table.curve(run.table.space.round(np.array(v)))[0]
    return curve


def with_optuna(run: Run, seed: int, at_once: int, *, sampler: str, pruner: str) -> None:
    """A sampler and a pruner of Optuna's."""
    import optuna

    study = optuna_study(sampler, pruner, seed)

    def begin() -> tuple[Any, Array]:
        trial = study.ask()
        return trial, curve_of(
            run, {name: _suggest(trial, name, p) for name, p in run.table.parameters.items()}
        )

    def ends(trial: Any, n: int, value: float) -> bool:
        trial.report(value, n)
        if n == EPOCHS:
            study.tell(trial, value)
        elif trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return True
        return False

    in_steps(run, at_once, begin, ends)


def with_syne_tune(run: Run, seed: int, at_once: int, *, name: str) -> None:
    """A baseline of Syne Tune's that stops trials at its rungs."""
    from syne_tune import config_space as spaces
    from syne_tune.backend.trial_status import Trial
    from syne_tune.optimizer import baselines

    named = {}
    for key, p in run.table.parameters.items():
        kind = "randint" if isinstance(p, Int) else "uniform"
        named[key] = getattr(spaces, f"log{kind}" if p.log else kind)(p.low, p.high)  # type: ignore[attr-defined]
    scheduler = getattr(baselines, name)(
        named, "error", "epoch", EPOCHS, random_seed=seed, grace_period=2
    )
    started = datetime.datetime(2020, 1, 1)
    numbers = itertools.count()

    def begin() -> tuple[Any, Array]:
        trial = Trial(next(numbers), scheduler.suggest().config, started)
        scheduler.on_trial_add(trial)
        return trial, curve_of(run, trial.config)

    def ends(trial: Any, n: int, value: float) -> bool:
        return bool(scheduler.on_trial_result(trial, {"error": value, "epoch": n}) != "CONTINUE")

    in_steps(run, at_once, begin, ends)


def with_smac(run: Run, seed: int, at_once: int) -> None:
    """SMAC's facade for several fidelities; what it evaluates with more epochs goes on where it was."""
    from ConfigSpace import ConfigurationSpace, Float, Integer
    from smac import MultiFidelityFacade, Scenario
    from smac.runhistory.dataclasses import TrialValue

    space = ConfigurationSpace(seed=seed)
    for name, p in run.table.parameters.items():
        kind = Integer if isinstance(p, Int) else Float
        space.add(kind(name, (p.low, p.high), log=p.log))
    done: dict[Any, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space,
            deterministic=True,
            n_trials=100_000,
            min_budget=2,
            max_budget=EPOCHS,
            seed=seed,
            output_directory=Path(folder),
        )
        smac = MultiFidelityFacade(
            scenario, lambda config, seed, budget: 0.0, overwrite=True, logging_level=False
        )
        running: list[tuple[int, int, Any, int]] = []  # its end by the clock, number, what, epochs

        def start(now: int, number: int) -> None:
            info = smac.ask()
            epochs = max(1, round(info.budget))
            charged = max(epochs - done.get(info.config, 0), 1)
            done[info.config] = epochs
            run.spent += charged
            heapq.heappush(running, (now + charged, number, info, epochs))

        for number in range(at_once):
            start(0, number)
        for number in itertools.count(at_once):
            if run.is_over:
                return
            now, _, info, epochs = heapq.heappop(running)
            error = float(curve_of(run, info.config)[epochs - 1])
            if epochs == EPOCHS:
                run.note(run.spent, error)
            smac.tell(info, TrialValue(cost=error))
            start(now, number)


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
    "syne tune asha cqr": lambda r, s, a: with_syne_tune(r, s, a, name="ASHACQR"),
    "syne tune bohb": lambda r, s, a: with_syne_tune(r, s, a, name="BOHB"),
    "smac multi-fidelity": with_smac,
}


def tasks(folder: Path, which: str) -> list[str]:
    """The tasks of a set, or the ones named."""
    if which not in ("tuning", "reporting"):
        return which.split(",")
    names = [name for name in codes(folder) if name.isdigit()]
    return sorted((n for n in names if int(n) % 2 == (which == "reporting")), key=int)


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each run."""
    for task in tasks(arguments.data, arguments.tables)[: arguments.most]:
        table = (Boosted if task in DATA else Table)(arguments.data, task)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            usual = float("nan")
            for name in arguments.methods:
                budget = arguments.budget * EPOCHS
                horizon = budget * arguments.share
                run = Run(table, budget * (1.0 if name in FULL else arguments.share))
                began = time.process_time()
                METHODS[name](run, seed, arguments.at_once)
                if name == "dngo":
                    usual = run.regret_after(budget)
                yield {
                    "task": task,
                    "at_once": arguments.at_once,
                    "budget": budget,
                    "seed": seed,
                    "method": name,
                    "regret at the share": f"{run.regret_after(horizon):.4f}",
                    "mean log10 regret": f"{run.area(horizon):.3f}",
                    "regret at the end": f"{run.regret_after(budget):.4f}" if name in FULL else "",
                    "epochs to the end of dngo": f"{run.reached(usual):.0f}",
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

"""Fidelities and early stopping on LCBench's learning curves, with one objective or two, beside rivals.

    python benchmarks/curves.py --data DIR                           # odd tables, error alone, three seeds
    python benchmarks/curves.py --data DIR --objectives 2 --methods dngo 'dngo fidelity' nsga2
    python benchmarks/curves.py --table curves.jsonl

DIR holds LCBench's model (`model.onnx`, YAHPO Gym's data). A point trains a network, 52 epochs at most; a
promoted point goes on where it was. The error is 100 minus the validation accuracy; the second objective is
the network's number of weights, on a scale of logarithms. Only points of 52 epochs count.
What is lost is the error above the best known as a share of the median random point's, or the share of the
best known front's hypervolume that is lacking. Printed are, over all tables and seeds, the geometric mean
of what is lost after a quarter, half and all of the epochs of `--budget` whole runs, the mean of its log10
on the way (the area), and the median share of the budget after which a method was as low as dngo at its
end; in brackets how often it never was. All methods of dngo run through `dngo.minimize`, as a user's would.
Each run is a line of --results, and none that is there is repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

import dngo
from dngo.fronts import hypervolume, on_front

EPOCHS, FIRST = 52, 2
ALL = range(1, EPOCHS + 1)
SPACE: dict[str, Any] = {
    "batch_size": {"type": "int", "low": 16, "high": 512, "log": True},
    "learning_rate": {"type": "float", "low": 1e-4, "high": 0.1, "log": True},
    "momentum": {"type": "float", "low": 0.1, "high": 0.99},
    "weight_decay": {"type": "float", "low": 1e-5, "high": 0.1},
    "num_layers": {"type": "int", "low": 1, "high": 5},
    "max_units": {"type": "int", "low": 64, "high": 1024, "log": True},
    "max_dropout": {"type": "float", "low": 0.0, "high": 1.0},
}
NAMES = ("error", "weights")
FIDELITY = {"parameter": "epoch", "low": FIRST, "high": EPOCHS}
OURS: dict[str, dict[str, Any]] = {
    "dngo": {},
    "dngo fidelity": {"fidelity": FIDELITY},
    "dngo early stopping": {"early_stopping": {"kind": "model"}},
    "successive_halving": {"fidelity": FIDELITY, "acquisition": {"kind": "successive_halving"}},
    "random": {"acquisition": {"kind": "random"}},
}


@cache
def session(data: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(data / "model.onnx"), options)


@cache
def tables(data: Path) -> dict[str, int]:
    """The numbers of the tables, by their ids in OpenML."""
    found = json.loads((data / "encoding.json").read_text())["OpenML_task_id"]
    return {name: number for name, number in found.items() if name.isdecimal()}


def curves(
    data: Path, table: int, points: Sequence[Mapping[str, float]], epochs: Sequence[int] = ALL
) -> np.ndarray:
    """Error and weights of points at epochs: (points, epochs, 2)."""
    rows = [[e, *(p[n] for n in SPACE)] for p in points for e in epochs]
    x = {
        "x_cat": np.full((len(rows), 1), table, dtype=np.int32),
        "x_cont": np.array(rows, dtype=np.float32),
    }
    (found,) = session(data).run(None, x)
    # About as many inputs as LCBench's tables have, and layers that shrink evenly.
    weights = [p["max_units"] * (50 + p["max_units"] * (p["num_layers"] - 1) / 2) for p in points]
    error = 100.0 - np.clip(found[:, 1], 0.0, 100.0)
    both = np.column_stack([error, np.repeat(weights, len(epochs))])
    return both.reshape(len(points), len(epochs), 2).astype(float)


class Training:
    """A table's curves, and what has been spent on them.

    objectives: 1 or 2. course: after how many epochs in all which outcome of a whole run was there.
    """

    def __init__(self, data: Path, table: str, objectives: int) -> None:
        self.data, self.table, self.objectives = data, tables(data)[table], objectives
        self.epochs, self.course = 0, []
        self.reached: dict[tuple[float, ...], int] = {}

    epochs: int
    course: list[tuple[int, list[float]]]

    def curves(self, points: Sequence[Mapping[str, float]], epochs: Sequence[int]) -> np.ndarray:
        return curves(self.data, self.table, points, epochs)

    def spend(self, point: Mapping[str, float], until: int) -> None:
        """Count a run of a point, which goes on where an earlier one ended."""
        key = tuple(point[n] for n in SPACE)
        begun = self.reached.get(key, 0)
        self.reached[key] = max(begun, until)
        self.epochs += max(until - begun, 0)
        if begun < until == EPOCHS:
            values = self.curves([point], [until])[0, 0, : self.objectives]
            self.course.append((self.epochs, values.tolist()))

    @cached_property
    def known(self) -> np.ndarray:
        """Whole runs of 20,000 random points: (20000, objectives)."""
        from dngo.space import Space
        from dngo.space.parameters import Float, Int

        space = Space({n: (Int if p["type"] == "int" else Float)(**p) for n, p in SPACE.items()})
        points = space.to_parameters(space.sample(np.random.default_rng(0).random((20_000, 7))))
        return self.curves(points, [EPOCHS])[:, 0, : self.objectives]

    def lost(self, values: np.ndarray) -> float:
        """What outcomes of whole runs (n, objectives) lack of the best known."""
        known = self.known.copy()
        if self.objectives == 1:
            least, median = known.min(), np.median(known)
            return float(max(values.min(initial=median) - least, 0.0) / (median - least))
        known[:, 1], values = np.log(known[:, 1]), values * 1.0
        values[:, 1] = np.log(values[:, 1])
        best = known[on_front(known)]
        reference = best.max(axis=0) + 0.1 * np.ptp(best, axis=0)
        return max(1.0 - hypervolume(values, reference) / hypervolume(best, reference), 0.0)


def ours(
    training: Training, settings: dict[str, Any], seed: int, budget: int, at_once: int
) -> None:
    """One of dngo's methods, until the epochs are spent."""
    stops, several = "early_stopping" in settings, training.objectives == 2
    data, table = training.data, training.table  # all that the objective knows

    def objective(**point: float) -> Any:
        until, curve = int(point.get("epoch", EPOCHS)), curves(data, table, [point])[0]
        for epoch in range(1, until + 1) if stops else ():
            now = curve[epoch - 1].tolist()
            dngo.progress(epoch, dict(zip(NAMES, now, strict=True)) if several else now[0])
            if dngo.should_stop():
                break
        values = curve[until - 1].tolist()
        return dict(zip(NAMES, values, strict=True)) if several else values[0]

    space = dict(SPACE)
    if "fidelity" in settings:
        space["epoch"] = {"type": "int", "low": 1, "high": EPOCHS}
    if several:
        weights = {"direction": "minimize", "scale": "log"}
        settings = settings | {"objectives": {"error": "minimize", "weights": weights}}
        settings |= {"early_stopping": True} if stops else {}
    if stops:  # a process of its own would have ended before anybody looks
        settings = settings | {"workers": 0}
    settings = settings | {"batch_size": at_once, "seed": seed, "progress": False}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        counted = 0
        while training.epochs < budget:
            study = dngo.minimize(objective, space, counted + at_once, name="curves", **settings)
            rows = study.table()
            last = study.curves().groupby("id")["step"].max() if stops else {}
            for _, row in rows.iloc[counted:].iterrows():
                point = {n: row[f"parameter_{n}"] for n in SPACE}
                until = row.get("parameter_epoch", EPOCHS)
                if row["status"] == "stopped":
                    until = last[row["id"]]
                elif row["status"] != "ok":
                    raise SystemExit(f"an evaluation ended as {row['status']}")
                training.spend(point, int(until))
            counted = len(rows)


def optuna(training: Training, name: str, seed: int, budget: int, at_once: int) -> None:
    """Optuna's samplers and pruners, `at_once` points at a time."""
    import optuna as package

    package.logging.set_verbosity(package.logging.ERROR)
    sampler, _, pruner = name.partition(" ")
    samplers = {
        "tpe": lambda: package.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True
        ),
        "nsga2": lambda: package.samplers.NSGAIISampler(seed=seed, population_size=24),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = package.create_study(
            sampler=samplers[sampler](),
            directions=["minimize"] * training.objectives,
            pruner=package.pruners.HyperbandPruner(FIRST, EPOCHS, 3) if pruner else None,
        )
    while training.epochs < budget:
        for trial in [study.ask() for _ in range(at_once)]:
            point = {
                n: (trial.suggest_int if p["type"] == "int" else trial.suggest_float)(
                    n, p["low"], p["high"], log=p.get("log", False)
                )
                for n, p in SPACE.items()
            }
            curve, until = training.curves([point], ALL)[0], EPOCHS
            for epoch in range(1, EPOCHS + 1) if pruner else ():
                trial.report(curve[epoch - 1, 0], epoch)
                if trial.should_prune():
                    until = epoch
                    break
            training.spend(point, until)
            if until < EPOCHS:
                study.tell(trial, state=package.trial.TrialState.PRUNED)
            else:
                values = [curve[-1, 0], float(np.log(curve[-1, 1]))]
                study.tell(trial, values[: training.objectives])


RIVALS = ("tpe", "tpe hyperband", "nsga2")


def run(
    data: Path, table: str, method: str, seed: int, given: argparse.Namespace
) -> dict[str, Any]:
    training, begun = Training(data, table, given.objectives), time.process_time()
    budget = given.budget * EPOCHS
    if method in OURS:
        ours(training, OURS[method], seed, budget, given.at_once)
    else:
        optuna(training, method, seed, budget, given.at_once)
    cpu = time.process_time() - begun
    course, best = [], np.inf
    values = np.array([v for _, v in training.course]).reshape(-1, given.objectives)
    for i, (epochs, _) in enumerate(training.course):
        lost = training.lost(values[: i + 1])
        if lost < best:
            course.append((epochs, best := lost))
    return {
        "table": table, "method": method, "seed": seed, "objectives": given.objectives,
        "budget": budget, "at_once": given.at_once, "cpu": cpu, "points": len(training.reached),
        "course": course,
    }  # fmt: skip


def report(rows: list[dict[str, Any]]) -> None:
    """Print what all runs together say of each method."""
    floor = 1e-4

    def at(row: dict[str, Any], epochs: float) -> float:
        return max(min((lost for e, lost in row["course"] if e <= epochs), default=1.0), floor)

    ends = {(r["table"], r["seed"]): at(r, r["budget"]) for r in rows if r["method"] == "dngo"}
    print("method,runs,points,a quarter,half,the end,area,se,epochs to dngo's end,CPU s a run")
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [r for r in rows if r["method"] == method]
        steps = np.linspace(0.02, 1.0, 50)
        areas = [np.mean([np.log10(at(r, s * r["budget"])) for s in steps]) for r in own]
        means = [
            np.exp(np.mean([np.log(at(r, share * r["budget"])) for r in own]))
            for share in (0.25, 0.5, 1.0)
        ]
        first = [
            next((e / r["budget"] for e, lost in r["course"] if max(lost, floor) <= end), np.inf)
            for r in own
            if (end := ends.get((r["table"], r["seed"]))) is not None
        ]
        never = int(np.isinf(first).sum())
        print(
            f"{method},{len(own)},{np.mean([r['points'] for r in own]):.0f},"
            + ",".join(f"{m:.4f}" for m in means)
            + f",{np.mean(areas):.3f},{np.std(areas, ddof=min(1, len(own) - 1)) / len(own) ** 0.5:.3f},"
            + (f"{np.median(first):.2f} ({never})" if first else "")
            + f",{np.mean([r['cpu'] for r in own]):.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of LCBench's model")
    parser.add_argument("--tables", nargs="+", help="ids; default: the odd ones")
    parser.add_argument("--objectives", type=int, choices=(1, 2), default=1)
    parser.add_argument("--methods", nargs="+", choices=(*OURS, *RIVALS), default=[*OURS, *RIVALS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budget", type=int, default=40, help="whole runs")
    parser.add_argument("--at-once", type=int, default=8, help="points of a batch")
    parser.add_argument("--results", type=Path, default=Path("curves.jsonl"))
    parser.add_argument("--table", type=Path, help="print what is in such a file, and run nothing")
    given = parser.parse_args()
    path = (given.table or given.results).resolve()
    given.data = given.data and given.data.resolve()
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if given.table is None:
        if given.data is None:
            parser.error("--data: say where LCBench's model is")
        ids = given.tables or [name for name in tables(given.data) if int(name) % 2]
        done = {(r["table"], r["method"], r["seed"], r["objectives"], r["at_once"]) for r in rows}
        for seed in range(given.first, given.first + given.seeds):
            for table in ids:
                for method in given.methods:
                    if (table, method, seed, given.objectives, given.at_once) in done:
                        continue
                    rows.append(run(given.data, table, method, seed, given))
                    with path.open("a") as stream:
                        stream.write(json.dumps(rows[-1]) + "\n")
                    print("#", table, method, seed, rows[-1]["course"][-1:], flush=True)
    for objectives, at_once in sorted({(r["objectives"], r["at_once"]) for r in rows}):
        print(f"# objectives {objectives}, {at_once} at once")
        report([r for r in rows if (r["objectives"], r["at_once"]) == (objectives, at_once)])


if __name__ == "__main__":
    main()

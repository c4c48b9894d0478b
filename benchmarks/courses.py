"""Searches by published systems, with several workers and with simulated time, beside each other.

A task is a space, and what a point's evaluation gives and takes. Each worker that is free takes the point
that the system proposes, given the outcomes known at that time and the points under way. Evaluations take
the seconds that the task says, and proposing takes none.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from options import of_preset
from rivals import OptunaTPE

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.space import Space
from dngo.surrogates import EarlierTask, Model, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings

Array = NDArray[np.float64]
GP = "gp-ei-mcmc-2012"


@dataclass(frozen=True)
class Task:
    """What is minimised. evaluate: a point v (k,) -> its value, and seconds. first: random points before
    the first model, or Sobol points. least: a search ends at this value. earlier: outcomes of related
    tasks."""

    space: Space
    evaluate: Callable[[Array], tuple[float, float]]
    first: int = 2
    sobol: bool = False
    least: float = -np.inf
    earlier: tuple[EarlierTask, ...] = ()


@dataclass(frozen=True)
class Strategy:
    """A preset, or "random" or "tpe" (Optuna's); None: the defaults. surrogate: keys that differ, of
    any value. acquisition: all of its keys, instead of the preset's. transfer: whether it sees the related
    tasks."""

    preset: str | None = GP
    workers: int = 1
    surrogate: Mapping[str, Any] = field(default_factory=dict)
    acquisition: Mapping[str, Any] | None = None
    transfer: bool = False

    @property
    def settings(self) -> tuple[SurrogateKind, Acquisition]:
        surrogate = SurrogateSettings(**of_preset(self.preset, "surrogate"))
        acquisition = self.acquisition or of_preset(self.preset, "acquisition")
        return surrogate.model_copy(update=self.surrogate), AcquisitionSettings(**acquisition)


OPT = Strategy(surrogate={"hyperparameter_samples": 0})  # none: the mode


@dataclass(frozen=True)
class Course:
    """Points v (n, k), values y (n,) and ends (n,), in the order in which they ended; CPU seconds of fits
    and proposals."""

    v: Array
    y: Array
    ends: Array
    cpu: float

    def best(self, n: int | None = None, until: float = np.inf) -> float:
        """The least of the first n values, and of those that had ended by then."""
        return float(self.y[:n][self.ends[:n] <= until].min(initial=self.y[0]))


def fit(
    task: Task, strategy: Strategy, v: Array, y: Array, seconds: Array, key: tuple[int, ...]
) -> Model:
    """The strategy's model of what has ended."""
    surrogate, acquisition = strategy.settings
    data = TrainingData(
        x=task.space.encode(v),
        y=y,
        constraints={"completed": np.ones(len(y))},
        log_cost=np.log(seconds) if getattr(acquisition, "per", None) else None,
        earlier=task.earlier if strategy.transfer else (),
    )
    return fit_model(data, surrogate, rng=np.random.default_rng(key))


def search(task: Task, strategy: Strategy, evaluations: int, seed: int) -> Course:
    """One search, until so many evaluations or the least value."""
    space, rival = task.space, OptunaTPE(task.space, seed)
    least = max(task.first, strategy.workers)
    rng = np.random.default_rng([seed, 0])
    first = (
        design(space, least, rng=rng, exclude=np.empty((0, space.k)))
        if task.sobol
        else space.sample(rng.random((least, space.k)))
    )
    running: list[Any] = []
    v, y, seconds, ends = np.empty((0, space.k)), np.empty(0), np.empty(0), np.empty(0)
    now, started, cpu = 0.0, 0, 0.0
    while len(y) < evaluations and y.min(initial=np.inf) > task.least:
        while len(running) < strategy.workers and started < evaluations:
            begun, key = time.process_time(), (seed, 2, started)
            if started < len(first):
                row = first[started]
            elif strategy.preset == "random":
                row = space.sample(np.random.default_rng(key).random((1, space.k)))[0]
            elif strategy.preset == "tpe":
                row = rival.ask(1)[0]
            else:
                model = fit(task, strategy, v, y, seconds, (seed, 1, started))
                pending = np.array([r[2] for r in running]).reshape(-1, space.k)
                (row,) = propose_batch(
                    model,
                    space,
                    History(v, y, pending),
                    size=1,
                    settings=strategy.settings[1],
                    rng=np.random.default_rng(key),
                ).v
            cpu += time.process_time() - begun
            value, took = task.evaluate(row)
            heapq.heappush(running, (now + took, started, row, value, took))
            started += 1
        now, _, row, value, took = heapq.heappop(running)
        v, y = np.concatenate([v, row[None]]), np.append(y, value)
        seconds, ends = np.append(seconds, took), np.append(ends, now)
        if strategy.preset == "tpe" and len(y) >= least:
            rival.tell(*((v, y) if len(y) == least else (row[None], y[-1:])))
    return Course(v, y, ends, cpu)


Compared = dict[str, tuple[Task, Strategy]]


def compare(compared: Compared, evaluations: int, seeds: int) -> dict[str, list[Course]]:
    """All searches; prints a line of CSV for each strategy, and the first lines."""
    found = {}
    for name, (task, strategy) in compared.items():
        found[name] = [search(task, strategy, evaluations, seed) for seed in range(seeds)]
        print(f"# {name}: {', '.join(f'{c.best():.5g}' for c in found[name])}", flush=True)
    fastest = min(np.mean([c.ends[-1] for c in courses]) for courses in found.values())
    third = evaluations // 3
    print(
        f"strategy,seeds,evaluations,after {third},after {2 * third},at the end,se,"
        "seconds simulated,after a third of the fastest's,after the fastest's,CPU s a run"
    )
    for name, courses in found.items():
        numbers = [
            np.mean([len(c.y) for c in courses]),
            *(np.mean([c.best(n) for c in courses]) for n in (third, 2 * third, None)),
            np.std([c.best() for c in courses], ddof=min(1, seeds - 1)) / np.sqrt(seeds),
            np.mean([c.ends[-1] for c in courses]),
            *(np.mean([c.best(until=t) for c in courses]) for t in (fastest / 3, fastest)),
            np.mean([c.cpu for c in courses]),
        ]
        print(f"{name},{seeds},{','.join(f'{number:.5g}' for number in numbers)}", flush=True)
    return found


def plot(plt: Any, found: dict[str, list[Course]], above: float = 0.0) -> Any:
    """The least value so far, the mean over seeds, by evaluation and by simulated time. above: a value that
    is subtracted, on an axis of logarithms."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    until = np.linspace(0, np.median([c.ends[-1] for some in found.values() for c in some]), 300)
    for name, courses in found.items():
        numbers = np.arange(1, 1 + max(len(c.y) for c in courses))
        by_number = np.mean([[c.best(n) for n in numbers] for c in courses], axis=0)
        by_time = np.mean([[c.best(until=t) for t in until] for c in courses], axis=0)
        for panel, x, mean in ((axes[0], numbers, by_number), (axes[1], until, by_time)):
            panel.plot(x, mean - above, label=name)
            panel.set_yscale("log" if above else "linear")
    axes[0].set(xlabel="evaluations", ylabel="lowest value")
    axes[1].set(xlabel="simulated time (s)")
    axes[0].legend(fontsize="small")
    return figure

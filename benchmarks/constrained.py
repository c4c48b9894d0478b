"""The suite bbob-constrained, its bounds reported as numbers, beside Optuna's TPE and SCBO.

    python benchmarks/constrained.py [--functions 2 8 ...] [--inputs 10] [--schedule 100 10 100]

The optimum of each function lies where one to three of its bounds meet. An optimiser is told the
objective and how far each bound is kept, and all begin with the same design. TPE is Optuna's, with its
constraints; SCBO is that of BoTorch's tutorial (Eriksson and Poloczek 2021): a trust region, Thompson
samples of all functions, the best of those that keep all bounds. Printed: the least feasible value that
each has found, above the optimum, and its CPU seconds. Needs `coco-experiment`, `optuna` and `botorch`
(benchmarks/rivals.txt).
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from objectives import Coco
from searching import Results, next_batch

from dngo.acquisition import History, design
from dngo.surrogates import TrainingData
from dngo.thresholds import Threshold

Array = NDArray[np.float64]
INSTANCE = 5
# Of nine functions those with three bounds, of three those with one.
TWELVE = (1, 2, 8, 14, 19, 20, 26, 32, 38, 44, 49, 50)


def ours(problem: Coco, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """All points that this package asks for with its defaults, the design v (n, k) first."""
    iteration, stage = np.zeros(len(v), dtype=int), [""] * len(v)
    for t in range(1, rounds + 1):
        values, excess = problem(v), problem.constraints(v)
        names = [f"c{i}" for i in range(excess.shape[1])]
        held = {name: (excess[:, i] <= 0).astype(float) for i, name in enumerate(names)}
        y = np.where(np.all(excess <= 0, axis=1), values, np.nan)
        data = TrainingData(
            x=problem.space.encode(v),
            y=y,
            constraints={"completed": np.ones(len(v)), **held},
            batch=iteration,
            numbers={name: excess[:, i] for i, name in enumerate(names)},
            thresholds=dict.fromkeys(names, Threshold("<=", 0.0)),
        )
        history = History(v, y, iteration=iteration, stage=np.array(stage), constraints=held)
        _, picks = next_batch(problem.space, history, data, size=batch, key=(seed, t))
        v, stage = np.concatenate([v, picks.v]), [*stage, *picks.stage]
        iteration = np.concatenate([iteration, np.full(len(picks), t)])
    return v


def tpe(problem: Coco, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """The same of Optuna's TPE with constraints."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(
        seed=seed, constant_liar=True, constraints_func=lambda trial: trial.user_attrs["excess"]
    )
    study = optuna.create_study(sampler=sampler)
    for row in problem.space.unit(v).tolist():
        study.enqueue_trial({f"u{i}": value for i, value in enumerate(row)})
    found: list[Array] = []
    for size in [len(v), *[batch] * rounds]:
        trials: list[Any] = [study.ask() for _ in range(size)]
        u = np.array([[t.suggest_float(f"u{i}", 0, 1) for i in range(problem.k)] for t in trials])
        points = problem.space.from_unit(u)
        told = zip(trials, problem(points), problem.constraints(points), strict=True)
        for trial, value, excess in told:
            trial.set_user_attr("excess", excess.tolist())
            study.tell(trial, float(value))
        found.append(points)
    return np.concatenate(found)


@dataclass(frozen=True)
class TrustRegion:
    """The side of SCBO's box, and what changes it, as in the tutorial."""

    length: float = 0.8
    failures: int = 0
    successes: int = 0

    def after(self, better: bool, patience: int) -> TrustRegion:
        """What it is after a batch that has found a better point, or has not."""
        region = replace(
            self,
            failures=0 if better else self.failures + 1,
            successes=self.successes + 1 if better else 0,
        )
        if region.successes == 10:
            return TrustRegion(min(2.0 * self.length, 1.6))
        if region.failures == patience:
            shorter = self.length / 2.0
            return TrustRegion(shorter if shorter >= 0.5**7 else 0.8)
        return region


def scbo(problem: Coco, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """The same of SCBO."""
    import torch

    torch.manual_seed(seed)
    region, patience = TrustRegion(), math.ceil(max(4.0 / batch, problem.k / batch))
    for _ in range(rounds):
        y, excess = problem(v), problem.constraints(v)
        best, u = _best(y, excess), problem.space.unit(v)
        asked = _scbo_batch(u, y, excess, best, region.length, batch, seed)
        v = np.concatenate([v, problem.space.from_unit(asked)])
        better = _best(problem(v), problem.constraints(v)) >= len(y)
        region = region.after(better, patience)
    return v


def _best(y: Array, excess: Array) -> int:
    """The best feasible point, or else the one that breaks its bounds least."""
    broken = np.maximum(excess, 0.0).sum(axis=1)
    return int(np.lexsort((y, broken))[0])


def _scbo_batch(
    v: Array, y: Array, excess: Array, best: int, length: float, batch: int, seed: int
) -> Array:
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation.sampling import ConstrainedMaxPosteriorSampling, MaxPosteriorSampling
    from botorch.models import SingleTaskGP
    from botorch.models.model_list_gp_regression import ModelListGP
    from botorch.models.transforms.outcome import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.tensor(v)

    def model(values: Array, *, standard: bool) -> Any:
        transform = Standardize(m=1) if standard else None
        gp = SingleTaskGP(x, torch.tensor(values)[:, None], outcome_transform=transform)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
        return gp

    objective = model(-y, standard=True)
    bounds = [model(each / each.std(), standard=False) for each in excess.T]
    scales = objective.covar_module.lengthscale.detach().numpy().ravel()
    weights = scales / scales.mean()
    weights /= np.prod(weights ** (1.0 / len(weights)))
    low = np.clip(v[best] - weights * length / 2, 0.0, 1.0)
    high = np.clip(v[best] + weights * length / 2, 0.0, 1.0)
    rng = np.random.default_rng([seed, len(v)])
    candidates = low + (high - low) * rng.random((2000, v.shape[1]))
    moved = rng.random(candidates.shape) <= min(20.0 / v.shape[1], 1.0)
    moved[np.arange(2000), rng.integers(0, v.shape[1], 2000)] = True
    candidates = np.where(moved, candidates, v[best])
    sampling = MaxPosteriorSampling(model=objective, replacement=False)
    if bounds:
        sampling = ConstrainedMaxPosteriorSampling(
            model=objective, constraint_model=ModelListGP(*bounds), replacement=False
        )
    with torch.no_grad():
        found: Array = sampling(torch.tensor(candidates), num_samples=batch).numpy()
    return found


METHODS: dict[str, Callable[..., Array]] = {"dngo": ours, "TPE": tpe, "SCBO": scbo}


def measure(
    number: int, k: int, method: str, schedule: tuple[int, int, int], seed: int
) -> tuple[float, float]:
    """The least feasible value of a run, infinite if there is none, and its CPU seconds."""
    problem, (size, rounds, batch) = Coco("bbob-constrained", number, k, INSTANCE), schedule
    v = design(problem.space, size, rng=np.random.default_rng(seed), exclude=np.empty((0, k)))
    begun = time.process_time()
    v = METHODS[method](problem, v, rounds, batch, seed)
    seconds = time.process_time() - begun
    feasible = np.all(problem.constraints(v) <= 0, axis=1)
    return float(np.min(np.where(feasible, problem(v), np.inf))), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", type=int, nargs="+", default=list(TWELVE))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--inputs", type=int, default=10)
    parser.add_argument("--schedule", type=int, nargs=3, default=(100, 10, 100))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("constrained.jsonl"))
    given = parser.parse_args()
    if "SCBO" in given.methods and not importlib.util.find_spec("botorch"):
        parser.error("SCBO needs a package: pip install botorch; or leave it out by --methods")
    try:
        for number in given.functions:
            Coco("bbob-constrained", number, given.inputs, INSTANCE)
    except ValueError as error:
        parser.error(str(error))
    results, schedule = Results(given.results), tuple(given.schedule)
    print(f"| function | {' | '.join(given.methods)} |\n| --- |{' --- |' * len(given.methods)}")
    for number in given.functions:
        found = [
            results.of(
                (number, given.inputs, method, *schedule, given.seed),
                partial(measure, number, given.inputs, method, schedule, given.seed),
            )
            for method in given.methods
        ]
        cells = [f"{value:.4g} ({seconds:.0f} s)" for value, seconds in found]
        print(f"| {number} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

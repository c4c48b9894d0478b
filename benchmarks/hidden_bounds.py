"""Known functions behind linear bounds that are reported as numbers, beside Optuna's TPE and SCBO.

    python benchmarks/hidden_bounds.py [--functions 1 8 ...] [--inputs 5] [--schedule 20 8 5]

After the suite bbob-constrained: a BBOB function of an instance that nobody tuned on, and three
half-spaces whose planes meet in one point, a tenth of the range away from the function's optimum, which
the first of them cuts off. An optimiser is told the objective and how far each bound is kept, and all
begin with the same design. Ours has a Gaussian process with few hyperparameter samples and
candidates; TPE is Optuna's, with its constraints; SCBO is that of BoTorch's tutorial (Eriksson and Poloczek
2021): a trust region, Thompson samples of all functions, the best of those that keep all bounds.
Printed: the least feasible value that each has found, above the function's own minimum. Needs `ioh`,
`optuna` and `botorch` (benchmarks/rivals.txt).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from objectives import bbob, cube
from small import Results, next_batch

from dngo.acquisition import History, design
from dngo.surrogates import TrainingData
from dngo.thresholds import Threshold

Array = NDArray[np.float64]
TWELVE = (1, 2, 3, 6, 8, 10, 11, 12, 14, 15, 17, 21)
BOUNDS = 3
AWAY = 1.0  # of the optimum from where the bounds meet, where the range is 10


@dataclass(frozen=True)
class Problem:
    """u: (n, k) unit cube -> objective (n,) and bounds (n, BOUNDS), kept where <= 0."""

    number: int
    k: int

    def __call__(self, u: Array) -> tuple[Array, Array]:
        import ioh

        instance = 4 + self.number % 3
        known = ioh.get_problem(self.number, instance, self.k, ioh.ProblemClass.BBOB)
        optimum = np.array(known.optimum.x)
        rng = np.random.default_rng([self.number, self.k])
        normals = rng.standard_normal((BOUNDS, self.k))
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        # Inwards, so that the bounds meet inside the cube; the optimum breaks the first.
        inwards = -np.sign(optimum) * np.abs(normals[0])
        normals[0] = -inwards
        v = 10.0 * u - 5.0
        return bbob(self.number, self.k, instance)(v), (v - optimum - AWAY * inwards) @ normals.T


def ours(problem: Problem, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """All points that this package asks for, the design v (n, k) first."""
    space, size = cube(problem.k), len(v)
    iteration = np.zeros(size, dtype=int)
    for t in range(1, rounds + 1):
        values, excess = problem(v)
        names = [f"c{i}" for i in range(BOUNDS)]
        held = {name: (excess[:, i] <= 0).astype(float) for i, name in enumerate(names)}
        y = np.where(np.all(excess <= 0, axis=1), values, np.nan)
        data = TrainingData(
            x=space.encode(v),
            y=y,
            constraints={"completed": np.ones(len(v)), **held},
            batch=iteration,
            numbers={name: excess[:, i] for i, name in enumerate(names)},
            thresholds=dict.fromkeys(names, Threshold("<=", 0.0)),
        )
        history = History(v, y, iteration=iteration, constraints=held)
        _, picks = next_batch(space, history, data, size=batch, key=(seed, t))
        v = np.concatenate([v, picks.v])
        iteration = np.concatenate([iteration, np.full(len(picks), t)])
    return v


def tpe(problem: Problem, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """The same of Optuna's TPE with constraints."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(
        seed=seed, constant_liar=True, constraints_func=lambda trial: trial.user_attrs["excess"]
    )
    study = optuna.create_study(sampler=sampler)
    for row in v.tolist():
        study.enqueue_trial({f"u{i}": value for i, value in enumerate(row)})
    found: list[Array] = []
    for size in [len(v), *[batch] * rounds]:
        trials: list[Any] = [study.ask() for _ in range(size)]
        u = np.array([[t.suggest_float(f"u{i}", 0, 1) for i in range(problem.k)] for t in trials])
        for trial, value, excess in zip(trials, *problem(u), strict=True):
            trial.set_user_attr("excess", excess.tolist())
            study.tell(trial, float(value))
        found.append(u)
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


def scbo(problem: Problem, v: Array, rounds: int, batch: int, seed: int) -> Array:
    """The same of SCBO."""
    import torch

    torch.manual_seed(seed)
    region, patience = TrustRegion(), math.ceil(max(4.0 / batch, problem.k / batch))
    for _ in range(rounds):
        y, excess = problem(v)
        best = _best(y, excess)
        asked = _scbo_batch(v, y, excess, best, region.length, batch, seed)
        after = np.concatenate([y, (new := problem(asked))[0]]), np.concatenate([excess, new[1]])
        v = np.concatenate([v, asked])
        region = region.after(_best(*after) >= len(y), patience)
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
    from botorch.generation.sampling import ConstrainedMaxPosteriorSampling
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
    bounds = ModelListGP(*(model(excess[:, i], standard=False) for i in range(excess.shape[1])))
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
    sampling = ConstrainedMaxPosteriorSampling(
        model=objective, constraint_model=bounds, replacement=False
    )
    with torch.no_grad():
        found: Array = sampling(torch.tensor(candidates), num_samples=batch).numpy()
    return found


METHODS: dict[str, Callable[..., Array]] = {"dngo": ours, "TPE": tpe, "SCBO": scbo}


def measure(number: int, k: int, method: str, schedule: tuple[int, int, int], seed: int) -> float:
    """The least feasible value of a run, infinite if there is none."""
    problem, (size, rounds, batch) = Problem(number, k), schedule
    rng = np.random.default_rng(seed)
    v = design(cube(k), size, rng=rng, exclude=np.empty((0, k)))
    values, excess = problem(METHODS[method](problem, v, rounds, batch, seed))
    return float(np.min(np.where(np.all(excess <= 0, axis=1), values, np.inf)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", type=int, nargs="+", default=list(TWELVE))
    parser.add_argument("--inputs", type=int, default=5)
    parser.add_argument("--schedule", type=int, nargs=3, default=(20, 8, 5))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("hidden_bounds.jsonl"))
    given = parser.parse_args()
    results, schedule = Results(given.results), tuple(given.schedule)
    print(f"| function | {' | '.join(METHODS)} |\n| --- |{' --- |' * len(METHODS)}")
    for number in given.functions:
        found = [
            results.of(
                (number, given.inputs, method, *schedule, given.seed),
                partial(measure, number, given.inputs, method, schedule, given.seed),
            )
            for method in METHODS
        ]
        print(f"| {number} | {' | '.join(f'{value:.4g}' for value in found)} |", flush=True)


if __name__ == "__main__":
    main()

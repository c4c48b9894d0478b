"""Fitting a model to all that is known. The kind in the settings models the objective and the numbers that
have thresholds. Each flag has a classifier, and the cost a process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dngo.rules import current
from dngo.surrogates.classifier import Classifier
from dngo.surrogates.constraints import fit_classifier
from dngo.surrogates.data import TargetScale, TrainingData
from dngo.surrogates.gaussian_process import fit_process
from dngo.surrogates.kernels import Covariance
from dngo.surrogates.model import Bounded, Cost, Model
from dngo.surrogates.number import fit_number
from dngo.surrogates.numerics import one_thread
from dngo.surrogates.problem import Past, Problem
from dngo.surrogates.settings import ClassifierSettings, SurrogateKind
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.types import Array, Progress, Rows

# Limits of the time that a cost's fit takes, a second or two: observations in it, and those beyond which
# its process is sparse.
MOST_OF_COST, MOST_EXACT = 10_000, 150
PROCESS_OF_COST = Covariance(), 10  # samples of the hyperparameters


def fit_model(
    data: TrainingData,
    settings: SurrogateKind,
    classifier: ClassifierSettings | None = None,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    past: Past | None = None,
) -> Model:
    """Fit the objective to the rows that have one, and each constraint: its number if it has one,
    else its flag.

    classifier: by default the configuration's. past: the data of earlier iterations' fits, for kinds that
    build on it. The result depends only on these and the state of `rng`: neither the order of the
    constraints nor the number of threads changes a bit.
    """
    classifier = classifier or ClassifierSettings()
    names = sorted(data.constraints)
    own, of_cost, *of_names = rng.spawn(2 + len(names))
    stages = 1 + len(names)
    ok = int(data.ok.sum())
    diagnostics: dict[str, float | int | str] = {"observations": len(data.y), "ok": ok}
    with one_thread():
        told = _stage(progress, 0, stages, "objective")
        taught = data if settings.learn_infeasible else data.where_ok()
        learn = _several if data.objectives else fit_number
        objective = learn(taught, settings, rng=own, progress=told, past=past)
        classifiers: dict[str, Classifier | Bounded] = {}
        levels, best = data.levels(), data.best()
        for i, name in enumerate(names):
            told = _stage(progress, 1 + i, stages, name)
            number = data.of_number(name)
            if number is not None:
                found = fit_number(
                    number, settings.for_numbers, rng=of_names[i], progress=told, best=best
                )
                seen = int(np.isfinite(number.y).sum())
                classifiers[name] = Bounded(found, data.thresholds[name], seen, levels.get(name))
                continue
            fitted = fit_classifier(
                data.x,
                data.constraints[name],
                classifier,
                rng=of_names[i],
                progress=told,
            )
            classifiers[name] = fitted
            if not fitted.is_constant:
                diagnostics[f"log_density:{name}"] = fitted.log_density
        cost = None
        if data.log_cost is not None:
            known = np.isfinite(data.log_cost)
            diagnostics["costs"] = int(known.sum())
            if known.any():
                cost = _cost(data.x[known], data.log_cost[known], data.groups, of_cost)
    if progress is not None:
        progress(1.0, "fitted")
    diagnostics |= objective.diagnostics
    return replace(objective, classifiers=classifiers, diagnostics=diagnostics, cost=cost)


def _several(
    data: TrainingData,
    settings: SurrogateKind,
    *,
    rng: np.random.Generator,
    progress: Progress | None,
    past: Past | None,
) -> Model:
    """A model of each of several objectives, by name; their order changes no bit."""
    names = sorted(data.objectives)
    found = {
        name: fit_number(
            data.of_objective(name),
            settings,
            rng=own,
            progress=_stage(progress, i, len(names), name),
            past=None if past is None else past.of_objective(name),
        )
        for i, (name, own) in enumerate(zip(names, rng.spawn(len(names)), strict=True))
    }
    told = {f"{key}:{n}": value for n in names for key, value in found[n].diagnostics.items()}
    return Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {}, told, objectives=found)


def _cost(x: Array, log_cost: Array, groups: Rows | None, rng: np.random.Generator) -> Cost:
    """The cost of an evaluation. log_cost: (n,) finite, n >= 1; rows beyond a limit are thinned."""
    streams = rng.spawn(2)
    if len(x) > MOST_OF_COST:
        rows = np.sort(streams[0].permutation(len(x))[:MOST_OF_COST])
        x, log_cost = x[rows], log_cost[rows]
    scale = TargetScale.fit(log_cost)
    scale = replace(scale, highest=2.0 * scale.highest - scale.centre)
    problem = Problem(x, scale.to_model(log_cost), groups=groups)
    if len(x) <= MOST_EXACT:
        fit = fit_process(problem, *PROCESS_OF_COST, rng=streams[1])
    else:
        inducing = current().sparse.inducing
        fit = fit_sparse_process(problem, *PROCESS_OF_COST, inducing, rng=streams[1])
    return Cost(Model(fit.components, scale, {}, {"observations": len(x), **fit.diagnostics}))


def _stage(progress: Progress | None, i: int, stages: int, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction, message: progress((i + fraction) / stages, f"{name}: {message}")

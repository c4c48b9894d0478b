"""Optuna's samplers as proposers: the archive's rows become trials, and the sampler is asked for
the next ones.

A study in memory is built anew for each batch. So a batch depends on the archive and the seed alone. TPE,
GP and random look only at trials, so rows are added as trials. CMA-ES, NSGA-II and QMC keep count
in attributes that they set when they are asked for a trial. So they are asked batch by batch, and
the rows of the archive then replace what they propose.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dngo.acquisition.candidates import Candidates
from dngo.acquisition.picks import Pick
from dngo.acquisition.state import BatchState
from dngo.space import Column, Space
from dngo.space.distributions import as_told, distributions
from dngo.surrogates.numerics import one_thread
from dngo.types import Array

ASKED = ("cmaes", "nsgaii", "qmc")  # samplers that have to be asked for every row
HEEDING = ("tpe", "gp", "nsgaii")  # samplers that know constraints
# After so many known points in a row a sampler is not asked again: on a small grid it may find no
# new one.
REPEATS = 20


@dataclass(frozen=True)
class Optuna:
    """Returns fewer points than asked for if a sampler repeats itself; other stages pick the rest.

    A row without an objective is a failed trial, and so is an infeasible one for a sampler that
    knows no constraints.
    """

    sampler: str
    name = "optuna"

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        import optuna

        name = self.sampler
        if name == "gp":
            import torch  # noqa: F401  before its threads are limited
        pool = Candidates(state.space, state.spacing.taken)
        with _quiet(optuna), one_thread():
            talk = _told(optuna, state, name)
            repeats = 0
            while len(pool) < number and repeats < REPEATS:
                trial, v = talk.ask()
                before = len(pool)
                pool.add(v, f"optuna:{name}")
                if len(pool) > before:
                    repeats = 0
                else:
                    talk.study.tell(trial, state=optuna.trial.TrialState.FAIL)
                    repeats += 1
        for v in pool.v:
            yield Pick(v, np.nan, f"optuna:{name}")


def _told(optuna: Any, state: BatchState, name: str) -> _Conversation:
    """An Optuna study that knows the history."""
    space, history = state.space, state.history
    told = {n: d for n, d in distributions(optuna, space).items() if n not in space.fixed}
    # QMC is one sequence; the others would repeat their earlier draws.
    source = np.random.default_rng(state.root) if name == "qmc" else state.rng
    seed = int(source.integers(2**31))
    values = history.outcomes if history.objectives else history.y[:, None]
    constraints, batch = history.constraints, history.iteration
    flags = [np.where(constraints[n] == 1.0, -1.0, 1.0) for n in sorted(constraints)]
    excess = np.stack(flags, axis=1) if flags else np.empty((len(values), 0))
    if name not in HEEDING:
        broken = (excess > 0).any(axis=1, keepdims=True)
        values, excess = np.where(broken, np.nan, values), excess[:, :0]
    aims = ["minimize"] * values.shape[1]
    study = optuna.create_study(sampler=_sampler(optuna, name, seed), directions=aims)
    talk = _Conversation(optuna, study, space, told, asked=name in ASKED)
    points = space.to_parameters(history.v)
    for b in np.unique(batch):
        rows = np.flatnonzero(batch == b)
        trials = [talk.add(points[i], values[i].tolist(), excess[i]) for i in rows]
        for trial, i in zip(trials, rows, strict=True):
            talk.finish(trial, values[i].tolist())
    for point in space.to_parameters(history.pending):
        talk.add(point, None, ())
    return talk


class _Conversation:
    """An Optuna study that is given points and asked for others."""

    def __init__(
        self, optuna: Any, study: Any, space: Space, told: dict[str, Any], *, asked: bool
    ) -> None:
        self.optuna, self.study, self.space = optuna, study, space
        self.told, self.asked = told, asked

    def add(self, point: dict[str, Any], values: list[float] | None, excess: Any) -> Any:
        """A point with its objectives, NaN where it failed, None where it is pending: its trial.

        excess: a number for each constraint, over zero where it is broken.
        """
        states = self.optuna.trial.TrialState
        names = [n for n in self.told if n in point]  # an inactive parameter is not suggested
        parameters = {n: as_told(self.told[n], point[n]) for n in names}
        state = states.RUNNING if values is None else states.COMPLETE
        if values is not None and not np.isfinite(values).all():
            state, values = states.FAIL, None
        if not self.asked:
            attributes = {"constraints": [float(e) for e in excess]} if len(excess) else {}
            trial = self.optuna.trial.create_trial(
                state=state,
                values=values,
                params=parameters,
                distributions={n: self.told[n] for n in names},
                system_attrs=attributes,
            )
            self.study.add_trial(trial)
            return trial
        self.study.enqueue_trial(parameters)
        trial = self.study.ask()
        _ = trial.relative_params  # only asked for when needed, and counted then
        for n in names:
            _suggest(trial, n, self.told[n])
        for i, e in enumerate(excess):
            trial.set_constraint(str(i), float(e))
        return trial

    def finish(self, trial: Any, values: list[float]) -> None:
        """End a trial that was asked for."""
        if self.asked:
            states = self.optuna.trial.TrialState
            if np.isfinite(values).all():
                self.study.tell(trial, values)
            else:
                self.study.tell(trial, state=states.FAIL)

    def ask(self) -> tuple[Any, Array]:
        """A trial and its point v (1, k), on the space's grids."""
        trial = self.study.ask()
        v = np.full((1, self.space.k), np.nan)
        for j, column in enumerate(self.space.columns):
            if all(v[0, parent] in wanted for parent, wanted in column.conditions):
                distribution = self.told[column.name]
                v[0, j] = _natural(column, distribution, _suggest(trial, column.name, distribution))
        return trial, self.space.round(v)


def _suggest(trial: Any, name: str, distribution: Any) -> Any:
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        return trial.suggest_categorical(name, choices)
    suggest = trial.suggest_int if type(distribution).__name__[0] == "I" else trial.suggest_float
    options = {"step": distribution.step, "log": distribution.log}
    return suggest(name, distribution.low, distribution.high, **options)


def _natural(column: Column, distribution: Any, value: Any) -> float:
    """A suggested value as a number of a column of v."""
    return float(distribution.choices.index(value) if column.choices is not None else value)


def _sampler(optuna: Any, name: str, seed: int) -> Any:
    samplers = optuna.samplers
    if name == "tpe":
        return samplers.TPESampler(seed=seed, constant_liar=True)
    if name == "gp":
        return samplers.GPSampler(seed=seed, warn_independent_sampling=False)
    if name == "cmaes":
        return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    if name == "nsgaii":
        return samplers.NSGAIISampler(seed=seed)
    if name == "qmc":
        return samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
    return samplers.RandomSampler(seed=seed)


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)

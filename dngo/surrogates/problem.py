"""The input and the result of a fit, the same for all kinds of surrogate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dngo.rules import current
from dngo.surrogates.lessons import key_of, recalled
from dngo.types import Array, Mask, Rows

if TYPE_CHECKING:
    from dngo.surrogates.model import Model

C = TypeVar("C")  # the class of the components
T = TypeVar("T")


@dataclass(frozen=True)
class Past:
    """Earlier fits to prefixes of the same data, for a kind that starts from them.

    iterations: this fit learns from their rows. model: a function of an iteration; returns its
    model and the settings of its fit as plain data, None if there is no record. stream: a function
    of an iteration; returns its random stream, the same at each call. summary: diagnostics of the
    newest model.
    """

    iterations: int
    model: Callable[[int], tuple[Model | None, dict[str, Any]]]
    stream: Callable[[int], np.random.Generator]
    summary: Mapping[str, Any] = field(default_factory=dict)

    def of_objective(self, name: str) -> Past:
        """The past of one of several objectives."""

        def model(s: int) -> tuple[Model | None, dict[str, Any]]:
            found, settings = self.model(s)
            return None if found is None else found.objectives.get(name), settings

        end = f":{name}"
        own = {k.removesuffix(end): v for k, v in self.summary.items() if k.endswith(end)}
        return replace(self, model=model, summary=own)


@dataclass(frozen=True)
class ReportedNoise:
    """How precise each observation is, by the reported noise.

    level: the geometric mean of the reported variances, on the targets' scale; NaN if nothing was
    reported. relative: (n,) each variance divided by the level, 1 if nothing was reported. The model
    learns one factor for all of them.
    """

    level: float
    relative: Array

    @classmethod
    def of(cls, variance: Array) -> ReportedNoise | None:
        """variance: (n,) on the targets' scale, NaN unknown; None if nothing is reported."""
        logs = np.log(variance, where=variance > 0, out=np.full(len(variance), np.nan))
        known = np.isfinite(logs)
        if not known.any():
            return None
        level = float(np.mean(logs[known]))
        least = np.log(current().noise.most_precise)
        logs[variance == 0] = level + least
        relative = np.exp(np.clip(np.where(np.isnan(logs), level, logs) - level, least, -least))
        return cls(float(np.exp(level)), relative)

    def at(self, rows: Rows) -> ReportedNoise:
        """The reported noise of some rows."""
        return replace(self, relative=self.relative[rows])

    def times(self, factor: Array) -> ReportedNoise:
        """The same with a factor (n,) on each variance."""
        return replace(self, relative=self.relative * factor)


@dataclass(frozen=True)
class Lesson:
    """The observations that taught what is learnt slowly (`dngo.surrogates.lessons`).

    problem: these alone; rows: (n,) which ones of a fit's observations they are. key: of all that decides
    what is learnt.
    """

    problem: Problem
    rows: Mask
    key: bytes


@dataclass(frozen=True)
class Problem:
    """Observations of the objective as a surrogate sees them.

    x: (n, d) unit cube, n >= 1. targets: (n,), standardised. batch: (n,) the iteration of each row, if
    known, -1 for other tasks. task: (n,) whole numbers from 0 on, if there are several tasks; task 0 is
    optimised. noise: as reported, if any is. groups: (d,) which inputs belong to one categorical parameter,
    numbers from 0 on; None: none do. best: (m, d) the study's best points, of a number with a threshold;
    None: not known. lesson: what to learn slowly from; None: from all.
    """

    x: Array
    targets: Array
    batch: Array | None = None
    task: Rows | None = None
    past: Past | None = None
    noise: ReportedNoise | None = None
    groups: Rows | None = None
    best: Array | None = None
    lesson: Lesson | None = None

    def learn(
        self,
        what: str,
        function: Callable[[Problem, np.random.Generator], T],
        rng: np.random.Generator,
    ) -> T:
        """What is learnt slowly: `function` of the observations that teach it and a generator. The
        generator is `rng` without a lesson. what: names the function and its settings."""
        lesson = self.lesson
        if lesson is None:
            return function(self, rng)
        return recalled(key_of(lesson.key, what), lambda own: function(lesson.problem, own))

    def at(self, rows: Rows) -> Problem:
        """The observations of some rows, with their noise."""
        noise = None if self.noise is None else self.noise.at(rows)
        return Problem(self.x[rows], self.targets[rows], noise=noise, groups=self.groups)

    @property
    def relative_noise(self) -> Array:
        """The factor on each observation's noise variance: (n,)."""
        return np.ones(len(self.x)) if self.noise is None else self.noise.relative

    def with_tasks_as_inputs(self) -> Problem:
        """The same problem with one more input for each other task. It is 1 in that task's rows and
        0 elsewhere.

        The lengthscale of that input then says how much two tasks have in common.
        """
        if self.task is None:
            return self
        flags = np.eye(int(self.task.max()) + 1)[self.task][:, 1:]
        groups = self.groups
        if groups is not None:
            groups = np.r_[groups, groups.max(initial=-1) + 1 + np.arange(flags.shape[1])]
        x = np.concatenate([self.x, flags], axis=1)
        return replace(self, x=x, task=None, groups=groups)


@dataclass(frozen=True)
class Trial:
    """How well a surrogate predicted observations that it had not seen.

    rows: (m,) which observations; log_density: (m,) their densities before it saw them.
    """

    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    log_density: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Fit(Generic[C]):
    """components: their mixture, by their weights, is the posterior of task 0. diagnostics: numbers
    that describe the fit. trial: empty if nothing was left out."""

    components: tuple[C, ...]
    diagnostics: dict[str, float]
    trial: Trial = Trial()

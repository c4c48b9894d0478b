"""An Optuna loop with the engine of this package: `optuna.create_study(sampler=dngo.optuna.Sampler())`.

It reports the trials of the Optuna study to a study of this package, and asks that study for the
next point.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dngo.api.beginning import FOLDER, create
from dngo.api.parameters import Float, Int, Named
from dngo.api.session import Session
from dngo.api.stages import ask_ahead, claimed, give_up, whole
from dngo.batch import Proposal
from dngo.errors import UserError
from dngo.exchange import package

optuna = package("optuna")

# What Optuna decides or reports, so that a study of this package cannot.
OF_OPTUNA = {
    "direction": "the Optuna study has its own",
    "constraints": "a trial of Optuna does not report them to its sampler",
    "objectives": "the sampler works with one objective",
    "stop": "study.optimize(n_trials=..., timeout=...) and study.stop() end an Optuna study",
    "early_stopping": "the Optuna study has a pruner",
    **dict.fromkeys(
        ("iterations", "iterations_per_run", "batch_size", "batches_in_flight"),
        "Optuna asks for one trial at a time, until its study ends",
    ),
    **dict.fromkeys(
        ("objective", "needs", "checkpoints", "points_per_job", "points_at_once", "retries"),
        "Optuna evaluates the trials",
    ),
    **dict.fromkeys(("escalation", "resources"), "Optuna starts no jobs of a cluster"),
}
MOST_WAITING = 50  # trials at a time; if more run, the first one counts as dead


class Sampler(optuna.samplers.BaseSampler):  # type: ignore[misc, name-defined]
    """Proposes trials by the surrogate of this package, from all earlier trials.

    As in Optuna's own GPSampler, parameters that all trials so far have are proposed together.
    Other parameters (behind an `if`) are drawn at random. Trials that run at the same time count as
    pending. A failed trial teaches where trials fail. A pruned trial teaches nothing.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        startup: int | None = None,
        name: str | None = None,
        folder: str | Path = FOLDER,
        **settings: Any,
    ) -> None:
        """A sampler for one Optuna study with one objective.

        seed: of all random streams.
        startup: trials of the initial design; by default `size` of the setting `design`, or twice the
        number of parameters plus two.
        name: of the study of this package, which is kept in `folder`; None: a temporary one.
        settings: as in `dngo.create`.
        """
        for key in (key for key in settings if key in OF_OPTUNA):
            raise UserError(f"dngo.optuna.Sampler: {key}: {OF_OPTUNA[key]}; leave it out")
        self._seed, self._startup = seed, startup if startup is None else whole("startup", startup)
        self._name, self._folder, self._settings = name, folder, settings
        self._random = optuna.samplers.RandomSampler(seed=seed)
        self._intersection = optuna.search_space.IntersectionSearchSpace()
        self._lock = threading.Lock()
        self._space: dict[str, Any] = {}
        self._named = Named({}, {}, {})
        self._session: Session | None = None
        self._queue: list[Proposal] = []
        self._asked: dict[int, Proposal] = {}
        self._told: set[int] = set()
        self._blind = 0  # trials drawn at random because the design was not complete

    def reseed_rng(self) -> None:
        """Draw other random numbers in a further worker."""
        self._random.reseed_rng()

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """The parameters that all trials so far have, without those with only one value."""
        found = self._intersection.calculate(study)
        return {name: kind for name, kind in found.items() if not kind.single()}

    def sample_relative(
        self, study: Any, trial: Any, search_space: dict[str, Any]
    ) -> dict[str, Any]:
        """The next point in these parameters."""
        if len(study.directions) > 1:
            raise UserError(
                "dngo.optuna.Sampler: works with one objective, but this study has several"
            )
        if not search_space:
            return {}
        with self._lock:
            if search_space != self._space:
                self._begin(study, search_space)
            self._tell(study)
            if not self._queue:
                self._queue = self._ask(len(self._told))
            # The design is not complete, or all points of a small space are known.
            if not self._queue:
                return {}
            self._asked[trial.number] = proposal = self._queue.pop(0)
        return self._named.theirs(proposal.parameters)

    def sample_independent(
        self, study: Any, trial: Any, param_name: str, param_distribution: Any
    ) -> Any:
        """A random value of a parameter that not all trials have."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: Any, trial: Any, state: Any, values: Sequence[float] | None
    ) -> None:
        """Do nothing. A trial's outcome is reported when the next trial begins."""

    def _begin(self, study: Any, search_space: dict[str, Any]) -> None:
        """Begin a study of this package for a changed set of parameters."""
        self._space, self._queue, self._asked, self._told = dict(search_space), [], {}, set()
        self._named = Named.of({name: _parameter(kind) for name, kind in search_space.items()})
        self._session = create(
            self._name,
            self._named.sections,
            direction=study.direction.name.lower(),
            folder=self._folder,
            **{**({} if self._seed is None else {"seed": self._seed}), **self._settings},
        )

    def _ask(self, known: int) -> list[Proposal]:
        assert self._session is not None
        study = self._session._engine
        merged = study.merged()
        if not merged and (flying := study.in_flight(0)):
            # Nothing is learnt before the design is complete. If its points are all under way, a
            # trial is drawn at random.
            self._blind += 1
            if self._blind >= MOST_WAITING:
                with claimed(study):
                    give_up(study, flying[0])
        if merged or study.in_flight(0):
            return ask_ahead(study, 1, MOST_WAITING)
        startup = self._startup
        if startup is None:
            startup = study.config.design.size or 2 * (study.space.k + 1)
        return ask_ahead(study, max(1, startup - known), MOST_WAITING)

    def _tell(self, study: Any) -> None:
        """Report the trials that have ended since the last call, each once."""
        states = optuna.trial.TrialState
        ended = (states.COMPLETE, states.PRUNED, states.FAIL)
        for trial in study.get_trials(deepcopy=False, states=ended):
            if trial.number in self._told:
                continue
            self._told.add(trial.number)
            asked = self._asked.pop(trial.number, None)
            if asked is not None and trial.state == states.PRUNED:
                self._session_of().skip(asked, "the trial was pruned")
            elif asked is not None or trial.params.keys() >= self._space.keys():
                self._enter(trial, asked, trial.state == states.COMPLETE)

    def _enter(self, trial: Any, asked: Proposal | None, complete: bool) -> None:
        said: dict[str, Any] = {"objective": trial.value} if complete else {"status": "failed"}
        if trial.state == optuna.trial.TrialState.PRUNED:
            return
        point = self._named.ours(trial.params)
        # A proposal may have been given up. In a small space, its point may already be known. A trial that
        # failed early lacks parameters.
        whole = [point] if point.keys() >= set(self._named.names.values()) else []
        for named in ([{"id": asked.id}] if asked else []) + whole:
            with contextlib.suppress(UserError):
                self._session_of().tell({**named, **said})
                return

    def _session_of(self) -> Session:
        assert self._session is not None
        return self._session


def _parameter(kind: Any) -> Any:
    """One of Optuna's distributions as a parameter."""
    if isinstance(kind, optuna.distributions.CategoricalDistribution):
        return list(kind.choices)
    if isinstance(kind, optuna.distributions.IntDistribution):
        return Int(kind.low, kind.high, log=kind.log, step=kind.step if kind.step > 1 else None)
    return Float(kind.low, kind.high, log=kind.log, step=kind.step)

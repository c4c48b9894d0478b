"""The common state of a batch's stages: what is known, what has been picked, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dngo.acquisition.belief import log_weight
from dngo.acquisition.candidates import (
    Candidates,
    affordable,
    around,
    incumbents,
    is_listed,
    neighbours,
    uniform,
)
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.history import History
from dngo.acquisition.keys import Keys
from dngo.acquisition.picks import Pick, Picks
from dngo.acquisition.shortlist import Shortlist
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.standing import Standing
from dngo.rules import current
from dngo.space import Space, priors
from dngo.surrogates.model import Model
from dngo.types import Array, Mask, Progress, Rows

# Names of the random streams that stages share. Each stage also has one of its own name.
STREAMS = ("fantasies", "candidates", "refinements")
TOLD_EVERY = 16  # picks between two reports of progress
# Points of the whole space at which all functions are evaluated first, or twice as many as picks. With all
# of the usual 14,000 points a batch of 400 cost a third more and was no better.
SHARED = 4096


class Stage(Protocol):
    """One way to pick points. Its picks are recorded under its name.

    A stage has its own random stream, unless `draws_numbers = False`.
    """

    name: str

    def picks(self, state: BatchState, number: int) -> Iterator[Pick]:
        """Up to `number` further points, as they are found.

        Each is taken (`BatchState.take`) before the next is asked for. If there are fewer, later stages
        pick the rest.
        """
        ...


@dataclass
class BatchState:
    """A batch while it is being picked.

    plan: the stages that pick, in order. rng: the batch's stream; root: the seed of the study's first
    design. picks: so far; stages: the stage of each.
    """

    model: Model
    space: Space
    history: History
    size: int
    shared: Keys
    plan: Sequence[Stage]
    rng: np.random.Generator
    root: np.random.SeedSequence | None = None
    progress: Progress | None = None
    picks: list[Pick] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    shortlist: Shortlist | None = None  # of the improvement stage, for later stages
    standing: Standing | None = None  # of a study with a fidelity

    @property
    def has_outcome(self) -> bool:
        """Whether some outcome is ok: without one there is nothing to improve on."""
        return self.model.knows_objective and bool(np.isfinite(self.history.y).any())

    @property
    def turn(self) -> int:
        """The study's points so far: finished, pending or picked. So what happens at every nth
        point happens also if batches are single points."""
        return len(self.history.y) + self.history.num_pending + len(self.picks)

    @property
    def left(self) -> int:
        """Points still to be picked."""
        return self.size - len(self.picks)

    @cached_property
    def streams(self) -> dict[str, np.random.Generator]:
        """Independent random streams: of `STREAMS`, and of each stage by its name. A stage that draws no
        numbers has none, so that the others draw the same with it and without."""
        own = [stage.name for stage in self.plan if getattr(stage, "draws_numbers", True)]
        names = dict.fromkeys([*STREAMS, *own])
        return dict(zip(names, self.rng.spawn(len(names)), strict=True))

    @cached_property
    def spacing(self) -> Spacing:
        """Which points are taken, or too close to a taken one."""
        return Spacing(self.space, self.history, self.shared.spacing, self.repeatable)

    @cached_property
    def repeatable(self) -> Mask:
        """Which finished points may be picked once more: (n,)."""
        return self.history.repeatable(self.space, self.shared.replicates)

    @cached_property
    def fantasies(self) -> Fantasies:
        """The posterior given everything pending. Picks of this batch belong to it once they are
        made pending."""
        y, shared = self.history.y, self.shared
        fantasies = Fantasies(
            self.model.objective,
            float(np.min(self.model.scale.to_model(y[np.isfinite(y)]))),
            shared.fantasies,
            self.streams["fantasies"],
            noisy=shared.noisy_improvement,
            measure=shared.measure(),
        )
        self._condition(fantasies, self.history.pending)
        return fantasies

    @cached_property
    def candidates(self) -> Candidates:
        """Candidates for the remaining picks: new points over the whole space, and near the best
        ones."""
        space, shared, rng = self.space, self.shared, self.streams["candidates"]
        found = Candidates(space, self.spacing.taken, self.model, self.rate)
        centres = incumbents(self.history.v, self.history.y, shared.incumbents)
        many = max(shared.uniform_candidates, 2 * self.left)
        again = np.flatnonzero(self.repeatable)
        best = again[np.argsort(self.history.y[again], kind="stable")]
        # As many good points as there are candidates near them: a long study has too many points to
        # take all.
        found.add(self.history.v[best[: shared.local_candidates]], "replicate")
        found.add(uniform(space, many, rng), "uniform")
        if priors.believed(space):
            u = rng.random((int(current().candidates.believed * many), space.k))
            found.add(priors.drawn(space, u), "prior")
        found.add(neighbours(space, centres), "neighbour")
        near = affordable(space, shared.local_candidates)
        found.add(around(space, centres, near, rng), "local")
        found.judge()
        return found

    def shared_rows(self, number: int, rng: np.random.Generator, places: int = 1) -> Rows:
        """Rows of free candidates that `number` functions share which search the whole space: all of a
        listed space, some of another. places: at which each is evaluated."""
        pool, most = self.candidates, max(SHARED // places, 2 * number)
        rows = np.flatnonzero(self.spacing.free(pool.v))
        return rows if is_listed(self.space) else np.sort(rng.permutation(rows)[:most])

    def rate(self, v: Array, x: Array) -> Array:
        """Factors on acquisitions beside feasibility: the expected inverse cost, and people's priors. v:
        (n, k), x: (n, d) the same encoded -> (n,)."""
        return self.model.inverse_cost(x) * np.exp(self.belief(v))

    def belief(self, v: Array) -> Array:
        """The logarithm of people's priors at points v (n, k), as far as it counts by now: (n,)."""
        return log_weight(self.space, v, len(self.history.y))

    def make_pending(self, v: Array) -> list[float]:
        """Make picks v (n, k) pending, one after another. Returns the acquisition of each just
        before that."""
        return self._condition(self.fantasies, v)

    def acquisition(self, v: Array) -> list[float]:
        """The acquisition at points v (n, k), given everything that is pending by now."""
        x = self.space.encode(v)
        return [float(a) for a in self.fantasies.at(x, self.model.feasibility(x) * self.rate(v, x))]

    def take(self, stage: str, pick: Pick) -> None:
        """Add a stage's pick to the batch; raises ValueError if it breaks a known constraint."""
        # Points from the space keep known constraints; this finds a stage that makes its own points
        # and breaks one.
        if not self.space.holds(pick.v)[0]:
            raise ValueError(
                f"stage {stage} picked a point that breaks a known constraint: {pick.v}"
            )
        if self.space.keys(pick.v)[0] in self.spacing.finished:
            pick = replace(pick, source="replicate")
        self.picks.append(pick)
        self.stages.append(stage)
        self.spacing.add(pick.v[None])
        done = len(self.picks)
        if self.progress is not None and (done % TOLD_EVERY == 0 or done == self.size):
            self.progress(done / self.size, f"picked {done} of {self.size} points")

    def result(self) -> Picks:
        """The picks, with the model's predictions; a baseline asks no model."""
        q = len(self.picks)
        v = np.array([pick.v for pick in self.picks]).reshape(q, self.space.k)
        x, feasibility = self.space.encode(v), np.full(q, np.nan)
        if q and not self.shared.is_baseline:
            feasibility = self.model.feasibility(x)
        other = np.array([pick.runner_up for pick in self.picks], dtype=float)
        found = self.predicted(x)
        if names := self.history.objectives:
            none = np.full(len(names), np.nan)
            aims = [none if pick.aim is None else pick.aim for pick in self.picks]
            found["aims"] = np.reshape(aims, (q, len(names)))
        return Picks(
            v=v,
            value=np.array([pick.value for pick in self.picks], dtype=float),
            feasibility=feasibility,
            num_pending=self.history.num_pending + np.arange(q),
            runner_up=np.where(np.isfinite(other), other, np.nan),
            source=tuple(pick.source for pick in self.picks),
            stage=tuple(self.stages),
            **found,
        )

    def predicted(self, x: Array) -> dict[str, Any]:
        """The model's means and deviations at encoded picks x (q, d), by their names in `Picks`: of the
        objective, and of each of several. A baseline asks no model."""
        names, asks = list(self.history.objectives), len(x) and not self.shared.is_baseline
        mean, std = self.model.predict(x) if asks else np.full((2, len(x)), np.nan)
        found = {"mean": mean, "std": std}
        if names:
            each = np.full((2, len(x), len(names)), np.nan)
            for j, name in enumerate(names if asks else ()):
                each[:, :, j] = self.model.objectives[name].predict(x)
            found |= {"means": each[0], "stds": each[1]}
        return found

    def _condition(self, fantasies: Fantasies, v: Array) -> list[float]:
        if len(v) == 0:
            return []
        x = self.space.encode(v)
        probability = self.model.feasibility(x)
        weight = probability * self.rate(v, x)
        features = fantasies.features(x)
        values = []
        for j in range(len(v)):
            values.append(float(fantasies.weighted(features[:, [j]], weight[[j]])[0]))
            fantasies.condition(features[:, j], float(probability[j]))
        return values

"""Derives a batch with pure functions of an archive's first iterations, a configuration and a
random stream.

The stages call them to propose, and `dngo replay` calls them to propose the same again. Nothing
here reads a clock, the host, or any file except the archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo import archive, inward
from dngo.acquisition import PROPOSAL_VERSION
from dngo.archive import transfer
from dngo.batch import INVALID, Context, Proposal
from dngo.config import CONFIG_VERSION, Config
from dngo.fronts import derived_reference, hypervolume, ranks
from dngo.surrogates import FIT_VERSION
from dngo.types import Progress

if TYPE_CHECKING:
    from dngo.acquisition import History
    from dngo.space import Space
    from dngo.surrogates import Model

DESIGN, FIT, PROPOSE, EVALUATE = range(4)  # stages, by their numbers in the random streams


def versions() -> dict[str, int]:
    """Versions of the code that makes a batch.

    They are recorded with the batch. A version is raised if the same archive, seed and
    configuration no longer give the same configuration document, surrogate or proposals.
    """
    return {"config": CONFIG_VERSION, "fit": FIT_VERSION, "proposal": PROPOSAL_VERSION}


def spawn_key(t: int, stage: int, *more: int) -> list[int]:
    """The key of a stage's random stream below the study's seed."""
    return [t, stage, *more]


def seed_sequence(config: Config, t: int, stage: int, *more: int) -> np.random.SeedSequence:
    """The seed of one stage of one iteration."""
    return np.random.SeedSequence(config.seed, spawn_key=tuple(spawn_key(t, stage, *more)))


def design(config: Config, context: Context = Context()) -> list[Proposal]:
    """The proposals of iteration 0: given points, the defaults if the user asks for them, and a scrambled
    Sobol design, half of it distributed like priors. Points that are ok from elsewhere count as well.
    """
    from dngo.acquisition import believed_design
    from dngo.acquisition import design as sobol

    ladder, given = config.ladder, list(context.given)
    space = config.search_space if ladder is None else ladder.points
    known = _points(space, [*given, *(p for p, _ in context.told)])
    first = space.defaults() if config.design.include_default else space.defaults()[:0]
    taken = set(space.keys(known))
    fresh = [key not in taken for key in space.keys(first)]
    wanted = config.design_size - context.known - len(given)
    first = first[fresh][: max(wanted, 0)]
    rng = np.random.default_rng(seed_sequence(config, 0, DESIGN))
    size = max(wanted - len(first), 0)
    known = np.concatenate([first, known])
    # By its key: if it were spawned from `rng`, the sequence would change, as SciPy spawns from it too.
    own = np.random.default_rng(seed_sequence(config, 0, DESIGN, 1))
    more = believed_design(space, size // 2, rng=own, exclude=known)
    v = sobol(space, size - len(more), rng=rng, exclude=np.concatenate([known, more]))
    chosen = np.concatenate([first, more, v])
    if ladder is not None:
        space, chosen = ladder.space, ladder.at(chosen, 0)
    points = space.to_parameters(chosen)
    sources = ["default"] * len(first) + ["design:prior"] * len(more) + ["design:sobol"] * len(v)
    return given + [
        Proposal(iteration=0, slot=i, parameters=p, source=s, stage="design")
        for i, (p, s) in enumerate(zip(points, sources, strict=True), start=len(given))
    ]


def _points(space: Space, proposals: Sequence[Proposal]) -> np.ndarray:
    """The natural values of proposals: (n, k)."""
    return space.from_parameters([p.parameters for p in proposals])


@dataclass(frozen=True)
class Basis:
    """What iteration t is derived from: the first `iterations` iterations of an archive, a
    configuration, and a context.

    context: the proposals in flight, in order; the further outcomes that the surrogate knew; and
    the points that the batch begins with.
    """

    path: Path
    config: Config
    t: int
    iterations: int
    context: Context = field(default_factory=Context)

    def fit(self, progress: Progress | None = None) -> Model:
        """The surrogate of the iteration.

        A baseline trains nothing: its model knows neither objective nor constraints.
        """
        config, table, iterations = self.config, self.known, self.iterations
        if config.acquisition.is_baseline:
            from dngo.surrogates import Model, TargetScale

            ok = int(np.sum(table.status == "ok"))
            nothing = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {})
            return replace(nothing, diagnostics={"observations": len(table), "ok": ok})
        from dngo.surrogates import Past, fit_model

        per = getattr(
            config.acquisition, "per", None
        )  # a kind from another package may have no data
        told = [outcome.metadata for _, outcome in self.context.told]
        cost = inward.costs(self.path, table, per, iterations, told)
        ends = inward.ends(self.path, table, config, iterations)
        return fit_model(
            inward.training_data(table, config, cost, transfer.recorded(self.path), ends),
            config.surrogate,
            config.classifier,
            rng=self._stream(FIT),
            progress=progress,
            past=Past(
                iterations,
                model=lambda s: archive.read_surrogate(self.path, s),
                stream=lambda s: np.random.default_rng(seed_sequence(config, s, FIT, 1)),
                summary=archive.fit_summary(self.path, iterations - 1),
            ),
        )

    def propose(self, model: Model, progress: Progress | None = None) -> list[Proposal]:
        """The proposals of the iteration by its surrogate.

        The points that the batch begins with are the first, with the surrogate's predictions.
        """
        from dngo.acquisition import propose_batch, propose_on_ladder

        config, given = self.config, list(self.context.given)
        ladder, space = config.ladder, config.search_space
        choose = partial(propose_batch, model, space)
        if ladder is not None:
            choose = partial(propose_on_ladder, model, ladder)
        found = choose(
            self.history(model),
            size=max(config.batch_size - len(given), 0),
            settings=config.acquisition.inward(inward.units(config)),
            rng=self._stream(PROPOSE),
            root=seed_sequence(config, 0, DESIGN),
            progress=progress,
        )
        mean, std = inward.units(config).outward(found.mean, found.std)
        means, stds = inward.outward(config, found.means, found.stds)
        return _expected(given, config, model) + [
            Proposal(
                iteration=self.t,
                slot=i + len(given),
                parameters=parameters,
                source=str(found.source[i]),
                value=float(found.value[i]),
                mean=float(mean[i]),
                std=float(std[i]),
                feasibility=float(found.feasibility[i]),
                num_pending=int(found.num_pending[i]),
                runner_up=float(found.runner_up[i]),
                stage=found.stage[i],
                means=_named(config, means, i),
                stds=_named(config, stds, i),
                aims=_named(config, found.aims, i),
            )
            for i, parameters in enumerate(space.to_parameters(found.v))
        ]

    def outlook(self, model: Model, proposals: Sequence[Proposal]) -> dict[str, Any]:
        """The expected gain when the iteration was proposed (`dngo.acquisition.outlook`), from a random
        stream of its own: plain data, empty without a surrogate.
        """
        from dngo.acquisition.outlook import look_ahead
        from dngo.acquisition.standing import Standing

        ladder, space, history = self.config.ladder, self.config.search_space, self.history(model)
        if ladder is not None:  # at the highest fidelity
            history, space = Standing.of(ladder, history).at_top(model), ladder.points
        points = _points(space, proposals)
        if self.config.has_several:
            return self._outlook_of_several(model, space.encode(points), history)
        found = look_ahead(model, space, history, points, rng=self._stream(PROPOSE, 1))
        return {} if found is None else asdict(found)

    def _outlook_of_several(self, model: Model, x: np.ndarray, history: History) -> dict[str, Any]:
        """Three values: the reference of hypervolumes in the objectives' units, the front's
        hypervolume, and its expected increase by the batch as a share.
        """
        from dngo.acquisition.aims import expected_gain

        values, each = history.outcomes, inward.each(self.config)
        reference = derived_reference(values, history.iteration, inward.references(self.config))
        if not np.isfinite(reference).all() or not len(x):
            return {}
        found: dict[str, Any] = {
            "reference": {
                name: float(one.outward(value, np.zeros(()))[0])
                for (name, one), value in zip(each.items(), reference, strict=True)
            },
            "hypervolume": hypervolume(values[np.isfinite(values).all(axis=1)], reference),
        }
        if model.knows_objective:
            found["gain"] = expected_gain(model, x, values, reference, self._stream(PROPOSE, 1))
        return found

    def _stream(self, stage: int, *more: int) -> np.random.Generator:
        return np.random.default_rng(seed_sequence(self.config, self.t, stage, *more))

    @cached_property
    def known(self) -> archive.Table:
        """The rows of the first iterations and the outcomes from elsewhere, judged by today's
        thresholds.

        If a later row repeats a row, only the later one counts.
        """
        config = self.config
        table = archive.read_table(self.path, iterations=self.iterations)
        repeated = archive.read_repeated(self.path, iterations=self.iterations)
        if repeated:
            ids = [f"{t}-{slot}" for t, slot in zip(table.iteration, table.slot, strict=True)]
            known = np.where(np.isin(ids, list(repeated)), "lost", table.status)
            table = replace(table, status=known)
        table = table.with_told(config.search_space, self.context.told)
        return table.judged(config.thresholds) if config.thresholds and len(table) else table

    def history(self, model: Model) -> History:
        """What an acquisition knows about these iterations, and about pending points."""
        from dngo.acquisition import History

        config, table, context = self.config, self.known, self.context
        # The samplers of a baseline get the infeasible points themselves.
        told_all = config.acquisition.is_baseline and config.fidelity is None
        known = inward.ran(table) if told_all else table.status == "ok"
        seen = inward.units(config)
        several = inward.minimised(table, config, inward.ran(table, INVALID))
        y = np.where(known, seen.inward(table.objective), np.nan)
        noise = inward.noises(table, config)
        means = inward.means_of(model, table.x) if several and inward.is_noisy(noise) else {}
        if several:
            values = np.column_stack(list((means or several).values()))
            ok = known & np.isfinite(np.column_stack([*several.values(), values])).all(axis=1)
            y[ok] = ranks(values[ok])
        return History(
            v=table.v,
            y=y,
            pending=_points(config.search_space, [*context.pending, *context.given]),
            iteration=table.iteration,
            constraints=table.constraints,
            noise=seen.inward_noise(table.objective, table.noise),
            objectives=several,
            noises=noise,
            means=means,
            reference=inward.references(config) if several else (),
            stage=table.stage,
        )


def durations(config: Config, model: Model, proposals: list[Proposal]) -> list[float]:
    """The predicted seconds of each proposal; empty if durations are not modelled."""
    if model.cost is None or getattr(config.acquisition, "per", None) != "duration":
        return []
    space = config.search_space
    x = space.encode(space.from_parameters([p.parameters for p in proposals]))
    return [float(seconds) for seconds in model.cost.expected(x)[0]]


def _named(config: Config, values: np.ndarray, i: int) -> dict[str, float]:
    """Row i of values (n, m) of several objectives, by name, without NaN; empty without columns."""
    if not values.shape[1]:
        return {}
    pairs = zip(config.directions, values[i], strict=True)
    return {name: float(value) for name, value in pairs if np.isfinite(value)}


def _expected(given: Sequence[Proposal], config: Config, model: Model) -> list[Proposal]:
    """Given points with the surrogate's predictions. A baseline predicts nothing."""
    if not given or config.acquisition.is_baseline:
        return list(given)
    x = config.search_space.encode(_points(config.search_space, given))
    (mean, std), feasibility = inward.units(config).outward(*model.predict(x)), model.feasibility(x)
    names = list(config.directions) if model.objectives else []
    found = np.array([model.objectives[name].predict(x) for name in names]).reshape(-1, 2, len(x))
    means, stds = inward.outward(config, found[:, 0].T, found[:, 1].T)
    return [
        replace(
            p,
            mean=float(mean[i]),
            std=float(std[i]),
            feasibility=float(feasibility[i]),
            means=_named(config, means, i),
            stds=_named(config, stds, i),
        )
        for i, p in enumerate(given)
    ]

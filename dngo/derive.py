"""Derives a batch with pure functions of an archive's first iterations, a configuration and a
random stream.

The stages call them to propose, and `dngo replay` calls them to propose the same again. Nothing
here reads a clock, the host, or any file except the archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo import archive
from dngo.acquisition import PROPOSAL_VERSION
from dngo.archive import transfer
from dngo.batch import INVALID, RAN, STOPPED, UNINFORMATIVE, Context, Outcome, Proposal
from dngo.config import COMPLETED, CONFIG_VERSION, Config
from dngo.errors import UserError
from dngo.fronts import derived_reference, hypervolume, ranks, sign_of
from dngo.stopping.curves import Curve
from dngo.stopping.ends import predicted
from dngo.surrogates import FIT_VERSION
from dngo.types import Progress
from dngo.units import Units, finite

if TYPE_CHECKING:
    from dngo.acquisition import History
    from dngo.space import Space
    from dngo.surrogates import EarlierTask, Model, TrainingData

DESIGN, FIT, PROPOSE, EVALUATE = range(4)  # stages, by their numbers in the random streams


def versions() -> dict[str, int]:
    """Versions of the code that makes a batch.

    They are recorded with the batch. A version is raised if the same archive, seed and
    configuration no longer give the same configuration document, surrogate or proposals.
    """
    return {
        "config": CONFIG_VERSION,
        "fit": FIT_VERSION,
        "proposal": PROPOSAL_VERSION,
    }


def spawn_key(t: int, stage: int, *more: int) -> list[int]:
    """The key of a stage's random stream below the study's seed."""
    return [t, stage, *more]


def seed_sequence(config: Config, t: int, stage: int, *more: int) -> np.random.SeedSequence:
    """The seed of one stage of one iteration."""
    return np.random.SeedSequence(config.seed, spawn_key=tuple(spawn_key(t, stage, *more)))


def sign(config: Config) -> float:
    """1, or -1 if large values are good, since every objective is minimised internally."""
    return sign_of(config.direction) if not config.has_several else 1.0


def units(config: Config) -> Units:
    """The units in which models see the objective."""
    if config.has_several:
        return Units(1.0)
    return Units(sign(config), config.objective.scale == "log")


def minimised(
    table: archive.Table, config: Config, rows: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Each of several objectives, minimised: (n,) by name in order; empty for only one.

    rows: (n,) bool, the rows that have values; None: the ok ones.
    """
    if not config.has_several:
        return {}
    return dict(zip(config.directions, table.outcomes(config.directions, rows).T, strict=True))


def ran(table: archive.Table, *others: str) -> np.ndarray:
    """Whether each row ran to its end, and so has objectives and a cost: (n,) bool.

    others: statuses that count too, such as `INVALID`, which may have some of the objectives.
    """
    return np.isin(table.status, (*RAN, *others))


def training_data(
    table: archive.Table,
    config: Config,
    cost: np.ndarray | None = None,
    earlier: Sequence[transfer.Earlier] = (),
    ends: np.ndarray | None = None,
) -> TrainingData:
    """The training data from an archive's rows. Rows with an objective teach the objective. All
    rows with a known outcome teach the constraints.

    cost: (n,) the cost of each evaluation, NaN if unknown; it is learnt if the objective ran.
    earlier: evaluations of earlier studies, already with the sign that is minimised.
    ends: (n,) the predicted ends of evaluations that were stopped early, minimised, NaN for all
    others.
    """
    from dngo.surrogates import EarlierTask, TrainingData

    # A lost evaluation says nothing about its point, and a withdrawn point has no evaluation. It is
    # unknown how a stopped evaluation would have ended.
    silent = np.isin(table.status, (*UNINFORMATIVE, STOPPED))
    completed = np.where(silent, np.nan, ran(table).astype(float))
    seen = units(config)
    y = np.where(ran(table, INVALID), seen.inward(table.objective), np.nan)
    if ends is not None:
        y = np.where(np.isnan(ends), y, seen.inward(seen.sign * ends))
    return TrainingData(
        x=table.x,
        y=y,
        feasible=table.status == "ok",
        constraints={COMPLETED: completed, **table.constraints},
        numbers=finite(table.numbers, config.thresholds),
        thresholds=config.thresholds,
        noise=seen.inward_noise(table.objective, table.noise),
        log_cost=None if cost is None else np.log(np.where(ran(table) & (cost > 0), cost, np.nan)),
        batch=table.iteration,
        groups=config.search_space.groups,
        earlier=() if config.has_several else _earlier(earlier, seen),
        earlier_numbers={
            name: tuple(EarlierTask(*e.numbers[name]) for e in earlier if name in e.numbers)
            for name in table.numbers
        },
        objectives=minimised(table, config, ran(table, INVALID)),
        noises=table.noises if config.has_several else {},
        earlier_objectives={
            name: tuple(
                EarlierTask(e.x, e.objectives[name]) for e in earlier if name in e.objectives
            )
            for name in config.directions
        },
    )


def _earlier(earlier: Sequence[transfer.Earlier], seen: Units) -> tuple[EarlierTask, ...]:
    """What earlier studies know about the objective, in the models' units."""
    from dngo.surrogates import EarlierTask

    found = [(one.x, seen.inward(seen.sign * one.y)) for one in earlier]
    return tuple(EarlierTask(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in found)


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


def fit(
    path: Path,
    config: Config,
    t: int,
    iterations: int,
    *,
    told: Sequence[tuple[Proposal, Outcome]] = (),
    progress: Progress | None = None,
) -> Model:
    """The surrogate of iteration t, trained on the first `iterations` iterations of an archive.

    told: further outcomes from elsewhere. A baseline trains nothing: its model knows neither
    objective nor constraints.
    """
    table = _known(path, config, iterations, told)
    if config.acquisition.is_baseline:
        from dngo.surrogates import Model, TargetScale

        ok = int(np.sum(table.status == "ok"))
        nothing = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {})
        return replace(nothing, diagnostics={"observations": len(table), "ok": ok})
    from dngo.surrogates import Past, fit_model

    per = getattr(config.acquisition, "per", None)  # a kind from another package may have no data
    cost = costs(path, table, per, iterations, [outcome.metadata for _, outcome in told])
    return fit_model(
        training_data(
            table, config, cost, transfer.recorded(path), _ends(path, table, config, iterations)
        ),
        config.surrogate,
        config.classifier,
        rng=np.random.default_rng(seed_sequence(config, t, FIT)),
        progress=progress,
        past=Past(
            iterations,
            model=lambda s: archive.read_surrogate(path, s),
            stream=lambda s: np.random.default_rng(seed_sequence(config, s, FIT, 1)),
            summary=archive.fit_summary(path, iterations - 1),
        ),
    )


def _ends(path: Path, table: archive.Table, config: Config, iterations: int) -> np.ndarray | None:
    """The predicted final values of evaluations that were stopped early; None if no evaluation was
    stopped."""
    stopped = table.status == STOPPED
    if not stopped.any() or config.has_several:
        return None
    curves = archive.read_curves(path, iterations)
    curves += [Curve()] * (len(table) - len(curves))  # of outcomes from elsewhere
    y = np.where(ran(table), sign(config) * table.objective, np.nan)
    if config.ladder is None:
        return predicted(curves, y, stopped, sign(config))
    # Final values can be compared only between evaluations that run to the same level.
    level, found = config.ladder.level(table.v), np.full(len(table), np.nan)
    for one in np.unique(level[stopped]):
        own = level == one
        ends = predicted(curves, np.where(own, y, np.nan), stopped & own, sign(config))
        found = np.where(own, ends, found)
    return found


def durations(config: Config, model: Model, proposals: list[Proposal]) -> list[float]:
    """The predicted seconds of each proposal; empty if durations are not modelled."""
    if model.cost is None or getattr(config.acquisition, "per", None) != "duration":
        return []
    space = config.search_space
    x = space.encode(space.from_parameters([p.parameters for p in proposals]))
    return [float(seconds) for seconds in model.cost.expected(x)[0]]


def costs(
    path: Path,
    table: archive.Table,
    per: str | None,
    iterations: int | None = None,
    told: Sequence[dict[str, Any]] = (),
) -> np.ndarray | None:
    """The cost of each row, (n,), for the name of a cost; NaN if unknown. None without a name.

    told: the metadata of the table's last rows, if these are not in the archive.
    Raises UserError if evaluations of this study ran, but none reported a number with that name.
    """
    if per is None or per == "duration":
        return None if per is None else np.maximum(table.duration, 1e-6)
    documents = [*archive.read_metadata(path, iterations=iterations), *told]
    values = np.array([_number(document.get(per)) for document in documents])
    if np.any(ran(table) & ~table.told) and np.isnan(values).all():
        known = sorted({name for document in documents for name in document})
        raise UserError(
            f"acquisition.per: no evaluation has a number {per!r} in its metadata; "
            f"known: {', '.join(['duration', *known])[:200]}"
        )
    return values


def _number(value: Any) -> float:
    """A reported number; NaN for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else float("nan")


def propose(
    path: Path,
    config: Config,
    t: int,
    iterations: int,
    model: Model,
    *,
    context: Context = Context(),
    progress: Progress | None = None,
) -> list[Proposal]:
    """The proposals of iteration t by a surrogate of the first `iterations` iterations.

    context: the proposals in flight, in order; the further outcomes that the surrogate knew; and
    the points that the batch begins with. This returns these points with the surrogate's
    predictions.
    """
    from dngo.acquisition import propose_batch, propose_on_ladder

    ladder, space, given = config.ladder, config.search_space, list(context.given)
    choose = partial(propose_batch, model, space)
    if ladder is not None:
        choose = partial(propose_on_ladder, model, ladder)
    found = choose(
        _history(path, config, iterations, context),
        size=max(config.batch_size - len(given), 0),
        settings=config.acquisition.inward(units(config)),
        rng=np.random.default_rng(seed_sequence(config, t, PROPOSE)),
        root=seed_sequence(config, 0, DESIGN),
        progress=progress,
    )
    mean, std = units(config).outward(found.mean, found.std)
    return _expected(given, config, model) + [
        Proposal(
            iteration=t,
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
            means=_named(config, found.means, i, signed=True),
            stds=_named(config, found.stds, i),
            aims=_named(config, found.aims, i),
        )
        for i, parameters in enumerate(space.to_parameters(found.v))
    ]


def _named(config: Config, values: np.ndarray, i: int, *, signed: bool = False) -> dict[str, float]:
    """Row i of values (n, m) of several objectives, by name, without NaN; empty without columns.

    signed: whether the values are minimised, and must be turned back into the objectives' own
    units.
    """
    if not values.shape[1]:
        return {}
    row = values[i] * (_signs(config) if signed else 1.0)
    pairs = zip(config.directions, row, strict=True)
    return {name: float(value) for name, value in pairs if np.isfinite(value)}


def _signs(config: Config) -> np.ndarray:
    """`sign_of` each of several objectives, in the order of their names: (m,)."""
    return np.array([sign_of(direction) for direction in config.directions.values()])


def outlook(
    path: Path,
    config: Config,
    t: int,
    iterations: int,
    model: Model,
    proposals: Sequence[Proposal],
    *,
    context: Context = Context(),
) -> dict[str, Any]:
    """The expected gain when iteration t was proposed (`dngo.acquisition.outlook`), from a random
    stream of its own: plain data, empty without a surrogate.
    """
    from dngo.acquisition.outlook import look_ahead
    from dngo.acquisition.standing import Standing

    if config.has_several:
        return _outlook_of_several(path, config, t, iterations, model, proposals, context)
    ladder, space = config.ladder, config.search_space
    history = _history(path, config, iterations, context)
    if ladder is not None:  # at the highest fidelity
        history, space = Standing.of(ladder, history).at_top(model), ladder.points
    found = look_ahead(
        model,
        space,
        history,
        _points(space, proposals),
        rng=np.random.default_rng(seed_sequence(config, t, PROPOSE, 1)),
    )
    return {} if found is None else asdict(found)


def _outlook_of_several(
    path: Path,
    config: Config,
    t: int,
    iterations: int,
    model: Model,
    proposals: Sequence[Proposal],
    context: Context,
) -> dict[str, Any]:
    """Three values: the reference of hypervolumes in the objectives' units, the front's
    hypervolume, and its expected increase by the batch as a share.
    """
    from dngo.acquisition.aims import expected_gain

    space, history = config.search_space, _history(path, config, iterations, context)
    values = history.outcomes
    reference = derived_reference(values, history.iteration, references(config))
    if not np.isfinite(reference).all() or not len(proposals):
        return {}
    found: dict[str, Any] = {
        "reference": dict(
            zip(config.directions, (_signs(config) * reference).tolist(), strict=True)
        ),
        "hypervolume": hypervolume(values[np.isfinite(values).all(axis=1)], reference),
    }
    if model.knows_objective:
        x = space.encode(_points(space, proposals))
        rng = np.random.default_rng(seed_sequence(config, t, PROPOSE, 1))
        found["gain"] = expected_gain(model, x, values, reference, rng)
    return found


def references(config: Config) -> list[float | None]:
    """The user's references, minimised, in the order of the names."""
    return [
        None if reference is None else sign_of(direction) * reference
        for direction, reference in zip(config.directions.values(), config.references, strict=True)
    ]


def _expected(given: Sequence[Proposal], config: Config, model: Model) -> list[Proposal]:
    """Given points with the surrogate's predictions. A baseline predicts nothing."""
    if not given or config.acquisition.is_baseline:
        return list(given)
    x = config.search_space.encode(_points(config.search_space, given))
    (mean, std), feasibility = units(config).outward(*model.predict(x)), model.feasibility(x)
    names = list(config.directions) if model.objectives else []
    each = np.array([model.objectives[name].predict(x) for name in names]).reshape(-1, 2, len(x))
    return [
        replace(
            p,
            mean=float(mean[i]),
            std=float(std[i]),
            feasibility=float(feasibility[i]),
            means=_named(config, each[:, 0].T, i, signed=True),
            stds=_named(config, each[:, 1].T, i),
        )
        for i, p in enumerate(given)
    ]


def _known(
    path: Path, config: Config, iterations: int, told: Sequence[tuple[Proposal, Outcome]]
) -> archive.Table:
    """The rows of the first iterations and the outcomes from elsewhere, judged by today's thresholds.

    If a later row repeats a row, only the later one counts.
    """
    table = archive.read_table(path, iterations=iterations)
    repeated = archive.read_repeated(path, iterations=iterations)
    if repeated:
        ids = [f"{t}-{slot}" for t, slot in zip(table.iteration, table.slot, strict=True)]
        known = np.where(np.isin(ids, list(repeated)), "lost", table.status)
        table = replace(table, status=known)
    table = table.with_told(config.search_space, told)
    return table.judged(config.thresholds) if config.thresholds and len(table) else table


def _history(path: Path, config: Config, iterations: int, context: Context) -> History:
    """What an acquisition knows about the first `iterations` iterations, and about pending points."""
    from dngo.acquisition import History

    space = config.search_space
    table = _known(path, config, iterations, context.told)
    # The samplers of a baseline get the infeasible points themselves.
    told_all = config.acquisition.is_baseline and config.fidelity is None
    known = ran(table) if told_all else table.status == "ok"
    seen, several = units(config), minimised(table, config, ran(table, INVALID))
    y = np.where(known, seen.inward(table.objective), np.nan)
    if several:
        values = np.column_stack(list(several.values()))
        ok = known & np.isfinite(values).all(axis=1)
        y[ok] = ranks(values[ok])
    return History(
        v=table.v,
        y=y,
        pending=_points(space, [*context.pending, *context.given]),
        iteration=table.iteration,
        constraints=table.constraints,
        noise=seen.inward_noise(table.objective, table.noise),
        objectives=several,
        noises=table.noises if several else {},
        reference=references(config) if several else (),
        stage=table.stage,
    )

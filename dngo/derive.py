"""Deriving a batch: pure functions of an archive's prefix, a configuration and a random stream.

The stages call them to propose, and `dngo replay` to propose the same again. Nothing here reads a
clock, a host or a file but the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo import archive
from dngo.acquisition import PROPOSAL_VERSION
from dngo.archive import transfer
from dngo.batch import Proposal
from dngo.config import COMPLETED, CONFIG_VERSION, Config
from dngo.errors import UserError
from dngo.surrogates import FIT_VERSION

if TYPE_CHECKING:
    from dngo.acquisition import History
    from dngo.surrogates import Model, TrainingData

DESIGN, FIT, PROPOSE, EVALUATE = range(4)  # stages, as the random streams number them
Progress = Callable[[float, str], None]


def versions() -> dict[str, int]:
    """Versions of what makes a batch: recorded with it, and raised when the same archive, seed and
    configuration no longer give the same configuration document, surrogate or proposals."""
    return {
        "config": CONFIG_VERSION,
        "fit": FIT_VERSION,
        "proposal": PROPOSAL_VERSION,
    }


def spawn_key(t: int, stage: int, *more: int) -> list[int]:
    """Which of the streams below the study's seed a stage draws from."""
    return [t, stage, *more]


def seed_sequence(config: Config, t: int, stage: int, *more: int) -> np.random.SeedSequence:
    """The seed of one stage of one iteration."""
    return np.random.SeedSequence(config.seed, spawn_key=tuple(spawn_key(t, stage, *more)))


def sign(config: Config) -> float:
    """Internally every objective is minimised: 1, or -1 where large values are good."""
    return 1.0 if config.objective.direction == "minimize" else -1.0


def ran(table: archive.Table) -> np.ndarray:
    """Which rows came to their end, and so have an objective and a cost: (n,) bool."""
    return np.isin(table.status, ("ok", "infeasible"))


def training_data(
    table: archive.Table,
    config: Config,
    cost: np.ndarray | None = None,
    earlier: Sequence[transfer.Earlier] = (),
) -> TrainingData:
    """What an archive's rows teach: only ok rows the objective, all but lost ones the constraints.

    cost: (n,) what each evaluation cost, NaN unknown; it is learnt where the objective ran.
    earlier: evaluations of earlier studies, already of the sign that is minimised.
    """
    from dngo.surrogates import EarlierTask, TrainingData

    ok = table.status == "ok"
    # A lost evaluation says nothing about its point.
    completed = np.where(table.status == "lost", np.nan, ran(table).astype(float))
    return TrainingData(
        x=table.x,
        y=np.where(ok, sign(config) * table.objective, np.nan),
        constraints={COMPLETED: completed, **table.constraints},
        log_cost=None if cost is None else np.log(np.where(ran(table) & (cost > 0), cost, np.nan)),
        noise=table.noise,
        batch=table.iteration,
        earlier=tuple(EarlierTask(one.x, one.y) for one in earlier),
    )


def design(config: Config) -> list[Proposal]:
    """The proposals of iteration 0: the defaults if asked for, then a scrambled Sobol design."""
    from dngo.acquisition import design as sobol

    space = config.search_space
    first = space.defaults() if config.design.include_default else space.defaults()[:0]
    rng = np.random.default_rng(seed_sequence(config, 0, DESIGN))
    v = sobol(space, config.design_size - len(first), rng=rng, exclude=first)
    points = space.to_parameters(np.concatenate([first, v]))
    sources = ["default"] * len(first) + ["design:sobol"] * len(v)
    return [
        Proposal(iteration=0, slot=i, parameters=p, source=s, stage="design")
        for i, (p, s) in enumerate(zip(points, sources, strict=True))
    ]


def fit(
    path: Path, config: Config, t: int, iterations: int, *, progress: Progress | None = None
) -> Model:
    """The surrogate of iteration t, trained on the first `iterations` iterations of an archive.

    Nothing is trained for a baseline: its model knows neither objective nor constraints.
    """
    table = archive.read_table(path, iterations=iterations)
    if config.acquisition.is_baseline:
        from dngo.surrogates import Model, TargetScale

        ok = int(np.sum(table.status == "ok"))
        return Model(
            (), TargetScale(0.0, 1.0, 0.0, 1.0), {}, {"observations": len(table), "ok": ok}
        )
    from dngo.surrogates import Past, fit_model

    per = getattr(config.acquisition, "per", None)  # a kind of another package may know none
    cost = costs(path, table, per, iterations)
    return fit_model(
        training_data(table, config, cost, transfer.recorded(path)),
        config.surrogate,
        config.classifier,
        rng=np.random.default_rng(seed_sequence(config, t, FIT)),
        progress=progress,
        past=Past(
            iterations,
            model=lambda s: archive.read_surrogate(path, s),
            stream=lambda s: np.random.default_rng(seed_sequence(config, s, FIT, 1)),
        ),
    )


def costs(
    path: Path, table: archive.Table, per: str | None, iterations: int | None = None
) -> np.ndarray | None:
    """What each row cost by the name of a cost, (n,) NaN where unknown; None without a name.

    Raises UserError if evaluations of this study ran and none reported a number of that name.
    """
    if per is None or per == "duration":
        return None if per is None else np.maximum(table.duration, 1e-6)
    documents = archive.read_metadata(path, iterations=iterations)
    values = np.array([_number(document.get(per)) for document in documents])
    own = np.array(["imported_from" not in document for document in documents], dtype=bool)
    if np.any(ran(table) & own) and np.isnan(values).all():
        known = sorted({name for document in documents for name in document})
        raise UserError(
            f"acquisition.per: no evaluation has a number {per!r} in its metadata; "
            f"known: {', '.join(['duration', *known])[:200]}"
        )
    return values


def _number(value: Any) -> float:
    """A number as it was reported; NaN for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else float("nan")


def propose(
    path: Path,
    config: Config,
    t: int,
    iterations: int,
    model: Model,
    *,
    pending: Sequence[Proposal],
    progress: Progress | None = None,
) -> list[Proposal]:
    """The proposals of iteration t by a surrogate of the first `iterations` iterations.

    pending: the proposals under evaluation meanwhile, in order.
    """
    from dngo.acquisition import propose_batch

    space = config.search_space
    found = propose_batch(
        model,
        space,
        _history(path, config, iterations, pending),
        size=config.batch_size,
        settings=config.acquisition,
        rng=np.random.default_rng(seed_sequence(config, t, PROPOSE)),
        root=seed_sequence(config, 0, DESIGN),
        progress=progress,
    )
    return [
        Proposal(
            iteration=t,
            slot=i,
            parameters=parameters,
            source=str(found.source[i]),
            value=float(found.value[i]),
            mean=float(sign(config) * found.mean[i]),
            std=float(found.std[i]),
            feasibility=float(found.feasibility[i]),
            num_pending=int(found.num_pending[i]),
            runner_up=float(found.runner_up[i]),
            stage=found.stage[i],
            deviation_scale=float(found.deviation_scale[i]),
        )
        for i, parameters in enumerate(space.to_parameters(found.v))
    ]


def _history(path: Path, config: Config, iterations: int, pending: Sequence[Proposal]) -> History:
    """What an acquisition is told of the first `iterations` iterations, and of what is pending."""
    from dngo.acquisition import History

    table = archive.read_table(path, iterations=iterations)
    # The samplers of a baseline are told themselves which points are infeasible.
    known = ran(table) if config.acquisition.is_baseline else table.status == "ok"
    return History(
        v=table.v,
        y=np.where(known, sign(config) * table.objective, np.nan),
        pending=config.search_space.from_parameters([p.parameters for p in pending]),
        iteration=table.iteration,
        constraints=table.constraints,
    )

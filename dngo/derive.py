"""Deriving a batch: pure functions of an archive's prefix, a configuration and a random stream.

The stages call them to propose, and `dngo replay` to propose the same again. Nothing here reads a
clock, a host or a file but the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import archive
from .batch import Proposal
from .config import COMPLETED, Config

if TYPE_CHECKING:
    from .surrogates import Model, TrainingData

DESIGN, FIT, PROPOSE, EVALUATE = range(4)  # stages, as the random streams number them
Progress = Callable[[float, str], None]


def spawn_key(t: int, stage: int, *more: int) -> list[int]:
    """Which of the streams below the study's seed a stage draws from."""
    return [t, stage, *more]


def seed_sequence(config: Config, t: int, stage: int, *more: int) -> np.random.SeedSequence:
    """The seed of one stage of one iteration."""
    return np.random.SeedSequence(config.seed, spawn_key=tuple(spawn_key(t, stage, *more)))


def sign(config: Config) -> float:
    """Internally every objective is minimised: 1, or -1 where large values are good."""
    return 1.0 if config.objective.direction == "minimize" else -1.0


def training_data(table: archive.Table, config: Config) -> TrainingData:
    """What an archive's rows teach: only ok rows the objective, all but lost ones the constraints."""
    from .surrogates import TrainingData

    ok = table.status == "ok"
    ran = np.isin(table.status, ("ok", "infeasible"))
    # A lost evaluation says nothing about its point.
    completed = np.where(table.status == "lost", np.nan, ran.astype(float))
    return TrainingData(
        x=table.x,
        y=np.where(ok, sign(config) * table.objective, np.nan),
        constraints={COMPLETED: completed, **table.constraints},
        log_duration=np.where(ran, np.log(np.maximum(table.duration, 1e-6)), np.nan),
        noise=table.noise,
        batch=table.iteration,
    )


def design(config: Config) -> list[Proposal]:
    """The proposals of iteration 0: the defaults if asked for, then a scrambled Sobol design."""
    from .acquisition import design as sobol

    space = config.search_space
    first = space.defaults() if config.design.include_default else space.defaults()[:0]
    rng = np.random.default_rng(seed_sequence(config, 0, DESIGN))
    v = sobol(space, config.design_size - len(first), rng=rng, exclude=first)
    points = space.to_parameters(np.concatenate([first, v]))
    sources = ["default"] * len(first) + ["design:sobol"] * len(v)
    return [
        Proposal(iteration=0, slot=i, parameters=p, source=s)
        for i, (p, s) in enumerate(zip(points, sources, strict=True))
    ]


def fit(
    path: Path, config: Config, t: int, iterations: int, *, progress: Progress | None = None
) -> Model:
    """The surrogate of iteration t, trained on the first `iterations` iterations of an archive."""
    from .surrogates import fit_model

    table = archive.read_table(path, iterations=iterations)
    rng = np.random.default_rng(seed_sequence(config, t, FIT))
    return fit_model(training_data(table, config), config.surrogate, rng=rng, progress=progress)


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
    from .acquisition import propose_batch

    space = config.search_space
    table = archive.read_table(path, iterations=iterations)
    found = propose_batch(
        model,
        space,
        evaluated=table.v,
        y=np.where(table.status == "ok", sign(config) * table.objective, np.nan),
        pending=space.from_parameters([p.parameters for p in pending]),
        size=config.batch_size,
        settings=config.acquisition,
        rng=np.random.default_rng(seed_sequence(config, t, PROPOSE)),
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
        )
        for i, parameters in enumerate(space.to_parameters(found.v))
    ]

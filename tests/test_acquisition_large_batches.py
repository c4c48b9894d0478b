"""Laws of the late picks of a large batch: each of hundreds is a good one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spaces import cube, mixed

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.minima import Box, Slopes, minima
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import distances
from dngo.rules.acquisition import DescentRules
from dngo.space import Space
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SURROGATE = SurrogateSettings(kind="gp", hyperparameter_samples=3)
SIZE = 400


def smooth(u: np.ndarray) -> np.ndarray:
    return ((u - 0.3) ** 2).sum(axis=1)


def rugged(u: np.ndarray) -> np.ndarray:
    return smooth(u) + 0.1 * (1 - np.cos(12 * np.pi * (u - 0.3))).sum(axis=1)


def ordered(u: np.ndarray) -> np.ndarray:
    """Of a space of every kind of parameter; what is inactive is worth the middle."""
    return ((np.where(np.isnan(u), 0.5, u) - 0.4) ** 2).sum(axis=1)


def everywhere(u: np.ndarray) -> np.ndarray:
    return np.ones(len(u), dtype=bool)


def half(u: np.ndarray) -> np.ndarray:
    return u[:, 0] + u[:, 1] > 0.8


PROBLEMS = {
    "smooth": (cube(4), smooth, everywhere, 0.0),
    "rugged": (cube(4), rugged, everywhere, 0.0),
    "constrained": (cube(4), smooth, half, 0.0),
    "mixed": (mixed(), ordered, everywhere, 0.0),
    "noisy": (cube(4), smooth, everywhere, 0.1),
}


def batch_of(
    space: Space,
    function: Callable[[np.ndarray], np.ndarray],
    holds: Callable[[np.ndarray], np.ndarray],
    noise: float,
    settings: AcquisitionSettings | None = None,
):
    """A batch after a design of 100 points."""
    v = design(space, 100, rng=np.random.default_rng(0), exclude=np.empty((0, space.k)))
    u = space.unit(v)
    y = function(u) + noise * np.random.default_rng(1).standard_normal(len(v))
    y = np.where(holds(u), y, np.nan)
    data = TrainingData(x=space.encode(v), y=y, constraints={"completed": holds(u).astype(float)})
    model = fit_model(data, SURROGATE, rng=np.random.default_rng(2))
    return propose_batch(
        model,
        space,
        History(v, y, iteration=np.zeros(len(v), dtype=int)),
        size=SIZE,
        settings=settings or AcquisitionSettings(),
        rng=np.random.default_rng(3),
    )


@pytest.mark.full
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_eighth_of_a_batch_is_far_better_than_uniform_points(name: str) -> None:
    space, function, holds, noise = PROBLEMS[name]
    batch = batch_of(space, function, holds, noise)
    assert len(batch) == SIZE
    uniform = space.unit(space.sample(np.random.default_rng(4).random((4000, space.k))))
    reference = np.sort(function(uniform[holds(uniform)]))
    u = space.unit(batch.v)
    better = np.searchsorted(reference, function(u)) / len(reference)
    # Of uniform points half would be better. A quarter are better here, because a model must be
    # told from noise.
    for part, feasible in zip(np.array_split(better, 8), np.array_split(holds(u), 8), strict=True):
        assert part.mean() < (0.25 if name in ("rugged", "noisy") else 0.15)
        assert feasible.mean() > 0.5


def test_a_batch_of_draws_alone_is_good_to_its_last_pick() -> None:
    settings = AcquisitionSettings(kind="thompson", trust_region_share=0.0)
    batch = batch_of(*PROBLEMS["smooth"], settings)
    reference = np.sort(smooth(np.random.default_rng(4).random((4000, 4))))
    better = np.searchsorted(reference, smooth(batch.v)) / len(reference)
    assert max(part.mean() for part in np.array_split(better, 8)) < 0.15
    gaps = distances(batch.v, batch.v)
    assert gaps[np.triu_indices(SIZE, 1)].min() >= settings.spacing - 1e-9


def test_each_function_is_searched_for_its_own_minimum() -> None:
    rng = np.random.default_rng(5)
    lowest = rng.random((6, 3))

    def own(v: np.ndarray) -> np.ndarray:
        return ((v - lowest[:, None]) ** 2).sum(axis=2)

    shared = rng.random((64, 3))
    values = own(np.broadcast_to(shared, (6, 64, 3)))
    rules = DescentRules(rounds=10, children_wide=100, along_gradient=0)
    v, found = minima(shared, values, own, rng, box=Box.whole(cube(3)), largest=0.2, rules=rules)
    np.testing.assert_allclose(found, own(v))
    assert np.all(np.diff(found, axis=1) >= 0)
    assert np.all(found[:, 0] <= values.min(axis=1))
    assert np.abs(v[:, 0] - lowest).max() < 0.03


def test_the_floor_of_a_long_valley_is_found_within_its_bounds() -> None:
    """Quadratics 10⁴ times as steep one way as another, turned: random steps do not get far."""
    rng = np.random.default_rng(6)
    space, lowest = cube(4), rng.uniform(0.3, 0.7, (6, 4))
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]

    def own(v: np.ndarray) -> np.ndarray:
        return ((v - lowest[:, None]) @ turn) ** 2 @ np.logspace(0, 4, 4)

    shared = 0.5 * rng.random((64, 4))
    values = own(np.broadcast_to(shared, (6, 64, 4)))

    def slopes(v: np.ndarray) -> np.ndarray:
        return 2 * ((v - lowest) @ turn * np.logspace(0, 4, 4)) @ turn.T

    def found(
        evaluations: int,
        high: float = 1.0,
        slopes: Callable[[np.ndarray], np.ndarray] | None = None,
        metric: np.ndarray = np.eye(4),
    ) -> np.ndarray:
        v, value = minima(
            shared,
            values,
            own,
            rng,
            box=Box(space, np.zeros(4), np.full(4, high)),
            largest=0.2,
            rules=DescentRules(rounds=6 if high == 1.0 else 0, along_gradient=evaluations),
            slopes=None if slopes is None else Slopes(slopes, metric),
        )
        np.testing.assert_allclose(value, own(v))
        return np.asarray(v[:, 0])

    assert np.median(np.abs(found(300) - lowest)) < 0.003
    assert np.median(np.abs(found(120, slopes=slopes) - lowest)) < 0.003  # fewer will do
    known = turn / np.logspace(0, 4, 4) @ turn.T  # where every way down is as steep, fewer still
    assert np.median(np.abs(found(20, slopes=slopes, metric=known) - lowest)) < 1e-6
    assert np.median(np.abs(found(20, slopes=slopes) - lowest)) > 1e-3
    assert np.median(np.abs(found(0) - lowest)) > 0.03
    assert found(300, high=0.5).max() == 0.5  # some of the minima lie beyond

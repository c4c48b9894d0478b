"""Laws of picks where a region's model is of no use: too much in a function, or too much noise on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spaces import cube, mixed

from dngo.acquisition import History
from dngo.acquisition.blind import neighbours, steps
from dngo.acquisition.region_model import Penalty
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.surrogates.nearby import Nearby

Function = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def dust(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Triangle waves of ten octaves in each input, without any trend; the minimum is 0."""
    octaves = 2.0 ** np.arange(10)
    z = (u * np.linspace(10, 50, u.shape[1]) + 0.37)[..., None] * octaves
    return (np.abs(z - np.round(z)) / octaves).sum(axis=(1, 2))


def bowl(u: np.ndarray) -> np.ndarray:
    return 0.1 + 10 * ((u - 0.3) ** 2).sum(axis=1)


def hidden(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A bowl, multiplied by noise."""
    return bowl(u) * np.exp(1.5 * rng.standard_normal(len(u)))


def free(v: np.ndarray, centre: np.ndarray) -> np.ndarray:
    return np.zeros(len(v))


def beside(centre: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Short steps around a point."""
    history = History(np.empty((0, 5)), np.empty(0))
    spacing = Spacing(cube(5), history, 0.01)
    return np.array(steps(centre, 0.04, 12, rng, spacing=spacing, penalty=free))


def study(function: Function, seed: int, rounds: int = 8, k: int = 5) -> History:
    """A design of 30 points and batches of ten by trust regions alone."""
    space, noise = cube(k), np.random.default_rng([seed, 1])
    v = np.random.default_rng(seed).random((30, k))
    y, batch = function(v, noise), np.zeros(30, dtype=int)
    for t in range(1, rounds + 1):
        history, rng = History(v, y, iteration=batch), np.random.default_rng([seed, 2, t])
        spacing = Spacing(space, history, 0.01)
        new, _ = TrustRegions().points(history, 10, rng, spacing=spacing, penalty=Penalty())
        v, y = np.concatenate([v, new]), np.concatenate([y, function(new, noise)])
        batch = np.concatenate([batch, np.full(len(new), t)])
    return History(v, y, iteration=batch)


def model(u: np.ndarray, y: np.ndarray) -> Nearby:
    return Nearby.fit(u, y, np.full(len(y), np.nan), rng=np.random.default_rng(0))


def test_a_model_is_of_use_unless_it_foretells_nothing():
    rng = np.random.default_rng(0)
    u = rng.random((150, 5))
    for y, blind in (
        (bowl(u), False),
        (bowl(u) + 0.3 * rng.standard_normal(150), False),
        (rng.standard_normal(150), True),
        (dust(u, rng), True),
    ):
        centre = u[[np.argmin(y)]]
        assert model(u, y).is_blind(u, centre, alike=False) == blind
        few = 20  # of 21 weights
        assert not model(u[:few], y[:few]).is_blind(u[:few], centre, alike=True)


@pytest.mark.parametrize("seed", range(3))
def test_points_next_to_each_other_are_alike_unless_noise_hides_the_function(seed: int):
    rng = np.random.default_rng(seed)
    u = rng.random((60, 5))
    for function, expected in ((dust, "alike"), (hidden, "unlike")):
        y = function(u, rng)
        assert neighbours(u, y) == "unknown"
        more = beside(u[[np.argmin(y)]], rng)
        assert np.abs(more - u[np.argmin(y)]).max() < 0.2
        u_all, y_all = np.concatenate([u, more]), np.concatenate([y, function(more, rng)])
        assert neighbours(u_all, y_all) == expected


def test_steps_among_every_kind_of_parameter_are_new_points_of_the_space():
    space, rng = mixed(), np.random.default_rng(0)
    v = space.from_unit(rng.random((20, space.k)))
    spacing = Spacing(space, History(v, rng.random(20)), 0.01)
    found = np.array(steps(v[[0]], 0.3, 30, rng, spacing=spacing, penalty=free))
    np.testing.assert_array_equal(space.round(found), found)
    assert len(set(space.keys(found)) - set(space.keys(v))) == len(found)


@pytest.mark.full
def test_where_no_model_knows_a_function_steps_go_farther_than_models(monkeypatch):
    by_steps = [study(dust, seed).y.min() for seed in range(3)]
    monkeypatch.setattr(Nearby, "is_blind", lambda *_, **__: False)
    by_models = [study(dust, seed).y.min() for seed in range(3)]
    assert np.mean(by_steps) < 0.8 * np.mean(by_models)


def test_a_pick_says_that_it_is_a_step_and_under_noise_there_are_few():
    for function, least, most in ((dust, 24, 48), (None, 0, 16)):
        found = 0
        for seed in range(4):
            rng = np.random.default_rng(seed)
            v = rng.random((60, 5))
            v = np.concatenate([v, beside(v[[np.argmin(dust(v, rng))]], rng)])
            y = rng.permutation(72).astype(float) if function is None else dust(v, rng)
            history = History(v, y)
            picked, sources = TrustRegions().points(
                history, 12, rng, spacing=Spacing(cube(5), history, 0.01), penalty=Penalty()
            )
            assert len(picked) == len(sources)
            near = np.abs(picked - v[[np.argmin(y)]]).max(axis=1)
            assert "step" not in sources or np.median(near) < 0.2
            found += sources.count("step")
        assert least <= found <= most

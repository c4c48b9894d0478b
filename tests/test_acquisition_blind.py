"""Laws of picks where a region's model is of no use: too much in a function, or too much noise on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from spaces import cube, mixed

from dngo.acquisition import History
from dngo.acquisition.blind import picks, probes, scatter, steps
from dngo.acquisition.spacing import Spacing, distances
from dngo.acquisition.stages.trust_regions import Penalty, TrustRegions
from dngo.surrogates.better_half import BetterHalf, neighbours
from dngo.surrogates.nearby import Nearby

Function = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def dust(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Triangle waves of ten octaves in each input, and nothing under them; least 0."""
    octaves = 2.0 ** np.arange(10)
    z = (u * np.linspace(10, 50, u.shape[1]) + 0.37)[..., None] * octaves
    return (np.abs(z - np.round(z)) / octaves).sum(axis=(1, 2))


def bowl(u: np.ndarray) -> np.ndarray:
    return 0.1 + 10 * ((u - 0.3) ** 2).sum(axis=1)


def hidden(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A bowl, multiplied by noise."""
    return bowl(u) * np.exp(1.5 * rng.standard_normal(len(u)))


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
    return Nearby.fit(u, y, np.full(len(y), np.nan), shares=(0.5,), rng=np.random.default_rng(0))


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


def test_that_points_near_the_best_are_low_needs_no_model():
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random((60, 3)), 0.5 + 0.01 * rng.standard_normal((60, 3))])
    distance = np.linalg.norm(u - 0.5, axis=1)
    y = np.r_[np.ones(60), np.zeros(60)] + 0.3 * rng.standard_normal(120)
    near = model(u, y)
    foretold = near.models[0].targets - near.models[0].left_out_errors()[0]
    assert np.corrcoef(foretold, near.models[0].targets)[0, 1] > 0.7
    assert near.foresight(distance) < 0.3
    assert near.foresight(np.zeros(120)) == 0.0  # undefined


@pytest.mark.parametrize("seed", range(3))
def test_points_next_to_each_other_are_alike_unless_noise_hides_the_function(seed: int):
    rng = np.random.default_rng(seed)
    u = rng.random((60, 5))
    for function, expected in ((dust, "alike"), (hidden, "unlike")):
        y = function(u, rng)
        assert neighbours(u, y) == "unknown"
        draw = steps(cube(5), u[[np.argmin(y)]], 0.04, rng)
        more = draw(15)
        assert np.abs(more - u[np.argmin(y)]).max() < 0.2
        u_all, y_all = np.concatenate([u, more]), np.concatenate([y, function(more, rng)])
        assert neighbours(u_all, y_all) == expected


def test_a_part_of_a_batch_finds_that_out_and_of_a_small_one_all():
    assert [probes(size) for size in (1, 8, 20, 60, 400)] == [1, 8, 8, 15, 100]


def test_the_better_half_is_near_the_minimum_and_the_luckiest_is_not():
    of_half, of_luckiest = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        u = np.concatenate([rng.random((40, 5)), 0.3 + 0.15 * rng.standard_normal((100, 5))])
        y = hidden(u, rng)
        half = BetterHalf.of(u, y)
        assert half.weight.sum() == pytest.approx(1.0)
        assert len(half.rows) == 25  # half of ten for each parameter
        of_half.append(bowl(half.middle[None])[0])
        of_luckiest.append(bowl(u[[np.argmin(y)]])[0])
    assert np.mean(of_half) < 0.4 * np.mean(of_luckiest)


def test_points_far_from_the_distribution_leave_it_as_it_is():
    rng = np.random.default_rng(0)
    u = 0.3 + 0.02 * rng.standard_normal((100, 5))
    corners = np.round(rng.random((50, 5)))
    before = BetterHalf.of(u, bowl(u))
    after = BetterHalf.of(np.concatenate([u, corners]), np.r_[bowl(u), np.full(50, -1.0)])
    np.testing.assert_array_equal(before.middle, after.middle)


def test_scattered_points_have_the_mean_and_the_spread_of_the_better_half():
    space, rng = cube(3), np.random.default_rng(0)
    v = 0.5 + 0.05 * rng.standard_normal((60, 3))
    half = BetterHalf.of(v, bowl(v))
    found = scatter(space, v, bowl(v), rng)(4000)
    np.testing.assert_allclose(found[0], half.middle, atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=0), half.middle, atol=0.01)
    np.testing.assert_allclose(found.std(axis=0), half.deviation, rtol=0.1)


def test_scattered_points_of_every_kind_of_parameter_are_in_the_space():
    space, rng = mixed(), np.random.default_rng(0)
    v = space.from_unit(rng.random((60, space.k)))
    found = scatter(space, v, rng.random(60), rng)(200)
    np.testing.assert_array_equal(space.round(found), found)
    kind = [column.name for column in space.columns].index("kind")
    only = v[v[:, kind] == 1.0]
    assert set(scatter(space, only, rng.random(len(only)), rng)(50)[:, kind]) == {1.0}


def test_picks_are_the_likeliest_of_those_drawn_and_keep_their_distance():
    space, rng = cube(2), np.random.default_rng(0)
    history = History(rng.random((5, 2)), rng.random(5))
    spacing = Spacing(space, history, 0.05)
    found = picks(rng.random, 0, spacing=spacing, penalty=lambda v: v[:, 0])
    assert found.shape == (0, 2)
    found = picks(
        lambda n: rng.random((n, 2)), 10, spacing=spacing, penalty=lambda v: 1e6 * (v[:, 0] > 0.5)
    )
    assert (found[:, 0] <= 0.5).all()
    apart = distances(found, found)[~np.eye(len(found), dtype=bool)]
    assert apart.min() >= 0.05
    with spacing.closer(0.01):
        assert spacing.least == pytest.approx(0.0005)
    assert spacing.least == 0.05


def test_where_no_model_knows_a_function_steps_go_farther_than_models(monkeypatch):
    by_steps = [study(dust, seed).y.min() for seed in range(3)]
    monkeypatch.setattr(Nearby, "is_blind", lambda *_, **__: False)
    by_models = [study(dust, seed).y.min() for seed in range(3)]
    assert np.mean(by_steps) < 0.8 * np.mean(by_models)


def test_where_noise_hides_a_function_the_better_half_goes_farther_than_models(monkeypatch):
    def shallow(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (10 + bowl(u)) * np.exp(1.5 * rng.standard_normal(len(u)))

    def last(seed: int) -> float:
        history = study(shallow, seed)
        return float(np.median(bowl(history.v[history.iteration >= 6])))

    by_half = [last(seed) for seed in range(3)]
    monkeypatch.setattr(Nearby, "is_blind", lambda *_, **__: False)
    assert np.mean(by_half) < 0.85 * np.mean([last(seed) for seed in range(3)])


@pytest.mark.parametrize(("function", "source"), [(dust, "step"), (hidden, "better_half")])
def test_a_pick_says_that_it_was_made_without_a_model(function: Function, source: str):
    space, found = cube(5), 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        v = rng.random((60, 5))
        v = np.concatenate([v, steps(space, v[[np.argmin(dust(v, rng))]], 0.04, rng)(12)])
        y = rng.permutation(72).astype(float) if function is hidden else dust(v, rng)
        history = History(v, y)
        picked, sources = TrustRegions().points(
            history, 12, rng, spacing=Spacing(space, history, 0.01), penalty=Penalty()
        )
        assert len(picked) == len(sources)
        found += sources.count(source)
        near = np.abs(picked - v[[np.argmin(y)]]).max(axis=1)
        assert source not in sources or (np.median(near) < 0.2) == (source == "step")
    assert found >= 12

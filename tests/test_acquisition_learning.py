"""Picks that learn a function, or where it crosses a level, beside picks that look for its minimum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proposing import model_of, propose
from spaces import cube, mixed

import dngo
from dngo.acquisition import History, design
from dngo.acquisition.allocation import Functions, of_share, one_in, share_of
from dngo.acquisition.blind import steps
from dngo.acquisition.region_model import Penalty
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.stages.learning import Belief
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.errors import UserError
from dngo.replay import replay
from dngo.rules import current
from dngo.surrogates.nearby import Nearby
from dngo.surrogates.settings import SurrogateSettings

SPACE = cube(2)
FEW = {"kind": "gp", "hyperparameter_samples": 1}
PROCESS = SurrogateSettings(**FEW)
AT = 1.2
GRID = SPACE.from_unit(np.random.default_rng(9).random((2000, 2)))


def f(v: np.ndarray) -> np.ndarray:
    return np.sin(6 * v[:, 0]) + np.cos(5 * v[:, 1]) + v[:, 0]


def after(acquisition) -> np.ndarray:
    """The points after a design of eight and four batches of five."""
    v = design(SPACE, 8, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    for t in range(4):
        model = model_of(SPACE, v, f(v), 0, PROCESS)
        found = propose(SPACE, v, f(v), 5, seed=t, settings=acquisition, model=model)
        v = np.concatenate([v, found.v])
    return v


def missed(v: np.ndarray) -> tuple[float, float]:
    """The root mean square error over the space, and the share of it on the wrong side of the level."""
    mean, _ = model_of(SPACE, v, f(v), 0, PROCESS).predict(SPACE.encode(GRID))
    return float(np.sqrt(np.mean((mean - f(GRID)) ** 2))), float(
        np.mean((mean < AT) != (f(GRID) < AT))
    )


def test_each_goal_is_served_best_by_its_own_picks() -> None:
    kinds = {
        "learn": AcquisitionSettings(kind="learn"),
        "level_set": AcquisitionSettings(kind="level_set", at=AT),
        "random": AcquisitionSettings(kind="random"),
        "mcei": AcquisitionSettings(uniform_candidates=512, local_candidates=256),
    }
    found = {name: missed(after(kind)) for name, kind in kinds.items()}
    error, wrong = ({n: values[i] for n, values in found.items()} for i in (0, 1))
    assert error["learn"] == min(error.values()) and error["learn"] < 0.5 * error["random"]
    assert wrong["level_set"] < 0.5 * min(wrong["random"], wrong["mcei"])


def test_a_rank_one_update_equals_conditioning_on_the_point() -> None:
    rng = np.random.default_rng(1)
    a = rng.random((6, 6))
    covariance, noise = a @ a.T, 0.1
    belief = Belief(np.zeros(6), covariance.copy(), noise)
    for i in (2, 4):
        belief.learn(i)
    some = covariance[np.ix_([2, 4], [2, 4])] + noise * np.eye(2)
    rest = covariance - covariance[:, [2, 4]] @ np.linalg.solve(some, covariance[[2, 4]])
    np.testing.assert_allclose(belief.covariance, rest, atol=1e-8)


def test_a_whole_study_replays_and_a_maximised_level_is_the_same_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def g(x: float, y: float) -> float:
        return float(f(np.array([[x, y]]))[0])

    def h(x: float, y: float) -> float:
        return -g(x, y)

    level = {"kind": "level_set", "at": AT}
    space, given = {"x": (0, 1), "y": (0, 1)}, {"workers": 0, "batch_size": 4, "surrogate": FEW}
    low = dngo.minimize(g, space, 12, acquisition=level, **given)
    high = dngo.maximize(h, space, 12, acquisition={**level, "at": -AT}, **given)
    assert replay(low.path, 1).verdict == replay(high.path, 1).verdict == "identical"
    one, other = low.table(), high.table()
    np.testing.assert_allclose(one["parameter_x"], other["parameter_x"], atol=1e-9)
    assert set(one["stage"]) == {"design", "learning"}
    with pytest.raises(UserError, match=r"acquisition\.at"):
        dngo.create("wrong", {"x": (0, 1)}, acquisition="level_set")
    below = {"acquisition": {"kind": "level_set", "at": 0}, "objective": {"scale": "log"}}
    with pytest.raises(UserError, match=r"acquisition\.at: must be above 0 on a logarithmic"):
        dngo.create("wrong", {"x": (0, 1)}, **below)


# ---- Laws of picks where a region's model is of no use: too much in a function, or too much noise on it

Function = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def dust(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Triangle waves of ten octaves in each input, without any trend; the minimum is 0."""
    octaves = 2.0 ** np.arange(10)
    z = (u * np.linspace(10, 50, u.shape[1]) + 0.37)[..., None] * octaves
    return (np.abs(z - np.round(z)) / octaves).sum(axis=(1, 2))


def bowl(u: np.ndarray) -> np.ndarray:
    return 0.1 + 10 * ((u - 0.3) ** 2).sum(axis=1)


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


# ---- How many picks go where, over a whole study: laws of the only module that counts them

counts = st.integers(0, 300)


@given(counts, st.lists(counts, min_size=1, max_size=6), st.integers(1, 9), st.floats(0, 1))
def test_batches_of_any_size_count_as_one_batch_of_all(before, sizes, every, share):
    ends = before + np.cumsum([0, *sizes])
    for count in (lambda b, n: one_in(b, n, every), lambda b, n: of_share(b, n, share)):
        each = [count(int(b), n) for b, n in zip(ends, sizes, strict=False)]
        assert sum(each) == count(before, sum(sizes))
        assert all(0 <= found <= n for found, n in zip(each, sizes, strict=True))


@given(counts, counts, st.booleans(), st.booleans())
def test_every_function_is_of_one_model(before, count, lowest, floor):
    each = Functions.of(before, count, lowest=lowest, floor=floor)
    parts = (each.plain, each.wide, each.lowest, each.floor)
    assert sum(parts) == count and min(parts) >= 0
    assert lowest or not each.lowest
    assert floor or not each.floor


def _course(y: np.ndarray, stage: list[str], u: np.ndarray) -> float:
    history = History(u, y, iteration=np.repeat(np.arange(5), 20), stage=np.array(stage))
    return share_of(history, 20, 0.6, "trust_regions")


def test_picks_are_more_where_they_have_paid():
    rng = np.random.default_rng(0)
    near, far = 0.1 + 0.02 * rng.random((50, 2)), 0.9 + 0.02 * rng.random((50, 2))
    u = np.stack([near, far], axis=1).reshape(100, 2)  # by turns
    paying = np.where(np.arange(100) % 2, 1.0, -np.arange(100.0))
    flat = np.r_[-1.0, np.zeros(99)]
    by_turns = ["trust_regions", "draws"] * 50
    assert _course(paying, by_turns, u) > 0.8
    assert _course(flat, by_turns, u) == pytest.approx(0.6, abs=0.05)
    assert _course(paying, [""] * 100, u) == 0.6  # of points that this engine did not pick
    history = History(u, paying, iteration=np.repeat(np.arange(5), 20), stage=np.array(by_turns))
    assert [share_of(history, 20, p, "trust_regions") for p in (0.0, 1.0)] == [0.0, 1.0]
    assert _course(paying, by_turns, u) <= current().regions.most_share

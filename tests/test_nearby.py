"""Laws of the local model around the best point, under noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from dngo.rules import current, using
from dngo.surrogates.data import LogScale
from dngo.surrogates.nearby import Nearby
from dngo.surrogates.selection import predicts_better

UNKNOWN = np.full(120, np.nan)


def _bowl(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (120, 3), a bowl's values there, and standard normal numbers."""
    rng = np.random.default_rng(seed)
    x = rng.random((120, 3))
    return x, 10 * ((x - 0.4) ** 2).sum(axis=1) + 0.1, rng.standard_normal(120)


def _fit(x: np.ndarray, y: np.ndarray, noise: np.ndarray = UNKNOWN) -> Nearby:
    return Nearby.fit(x, y, noise, rng=np.random.default_rng(1))


def test_the_logarithmic_scale_has_an_inverse_and_a_slope():
    y = np.random.default_rng(0).lognormal(size=50) - 3.0
    scale = LogScale.of(y)
    np.testing.assert_allclose(scale.to_objective(scale.to_model(y)), y, rtol=1e-12)
    step = 1e-6
    slope = (scale.to_model(y + step) - scale.to_model(y - step)) / (2 * step)
    np.testing.assert_allclose(scale.log_slope(y), np.log(slope), atol=1e-6)
    assert np.isfinite(scale.to_objective(np.array([-1e6, 1e6]))).all()


@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0.0), (1e-6, 3.0), (2.0, -40.0)])
def test_the_logarithmic_scale_heeds_no_unit_and_no_zero(factor: float, shift: float):
    y = np.random.default_rng(0).lognormal(size=50)
    moved = factor * y + shift
    found = LogScale.of(moved).to_model(moved)
    np.testing.assert_allclose(found, LogScale.of(y).to_model(y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_outcomes_that_noise_multiplies_are_seen_by_their_logarithms_and_no_others(seed: int):
    x, bowl, normal = _bowl(seed)
    assert _fit(x, bowl * np.exp(normal)).by_logarithms
    assert not _fit(x, bowl + 0.5 * normal).by_logarithms
    assert not _fit(x, bowl).by_logarithms


def test_what_is_steep_without_noise_is_seen_as_it_is():
    x, bowl, _ = _bowl()
    assert not _fit(x, bowl**4).by_logarithms
    # Its logarithms are likelier; only that none of them is noise keeps them out.
    with using(current().but(nearby={"multiplies": 0.0})):
        assert _fit(x, bowl**4).by_logarithms


@pytest.mark.parametrize("seed", range(3))
def test_a_few_outliers_of_noise_have_a_noise_of_their_own(seed: int, monkeypatch):
    """Both the high and the low ones, and what is left is known as well as without them."""
    x, bowl, normal = _bowl(seed)
    struck = np.arange(0, 120, 12)
    y = bowl + 0.01 * normal
    y[struck] += np.where(np.arange(10) % 2, 20.0, -20.0)
    near = _fit(x, y)
    assert set(struck) <= set(near.outliers) and len(near.outliers) < 16
    fresh, truth, _ = _bowl(seed + 10)
    assert np.abs(near.function(fresh)[0] - truth).mean() < 0.1
    believed = near.function(x)[0]
    assert bowl[np.argmin(believed)] < bowl[np.argmin(y)]
    monkeypatch.setattr("dngo.surrogates.nearby.ROUNDS", 0)
    assert np.abs(_fit(x, y).function(fresh)[0] - truth).mean() > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_without_outliers_there_are_none(seed: int):
    x, bowl, normal = _bowl(seed)
    for y in (bowl, bowl**4, bowl + 0.5 * normal, bowl * np.exp(normal), np.sin(9 * bowl)):
        assert len(_fit(x, y).outliers) == 0


def _walled(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (200, 3), half of them on a floor, and wells' values there, a few, between walls of 1e4."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.random((100, 3)), rng.uniform(0.25, 0.75, (100, 3))])
    return x, _wells(x) + 1e4 * (np.maximum(4 * np.abs(x - 0.5) - 1, 0) ** 2).sum(axis=1)


def _wells(x: np.ndarray) -> np.ndarray:
    return np.cos(9 * x).sum(axis=1)


def _resolved(near: Nearby) -> Nearby:
    return near.resolved(turn=True, rng=np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(3))
def test_what_walls_hide_is_told_apart_on_a_scale_of_its_own(seed: int):
    x, y = _walled(seed)
    noise = np.full(len(y), np.nan)
    near = _fit(x, y, noise)
    found = _resolved(near)
    level = np.quantile(y, 0.25)
    assert predicts_better(found.log_scores(level), near.log_scores(level), len(y))
    new = np.random.default_rng(seed + 10).uniform(0.25, 0.75, (200, 3))
    missed = [1 - spearmanr(model.function(new)[0], _wells(new))[0] for model in (near, found)]
    assert missed[1] < 0.03 and missed[1] < 0.5 * missed[0]


def test_without_walls_the_scale_stays_as_it_is():
    x, bowl, normal = _bowl()
    for y in (bowl, bowl + 0.5 * normal, bowl * np.exp(normal), np.zeros(120)):
        near = _fit(x, y)
        assert _resolved(near) is near

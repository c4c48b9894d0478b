"""Laws of trust regions, and of draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from proposing import SMALL, fitted_component, height, points, propose
from scipy.optimize import approx_fprime
from scipy.stats import norm, spearmanr
from spaces import cube

from dngo.acquisition import History
from dngo.acquisition.region_model import Penalty, RegionModel
from dngo.acquisition.regions import Region, regions
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import Spacing, distances
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.rules import current, using
from dngo.surrogates.data import LogScale, TargetScale
from dngo.surrogates.draws import draw
from dngo.surrogates.local_process import (
    LocalLikelihood,
    LocalProcess,
    heights,
    likeliest_quadratic,
)
from dngo.surrogates.nearby import Frame, Nearby
from dngo.surrogates.problem import ReportedNoise
from dngo.surrogates.selection import predicts_better


def _process(t: np.ndarray, targets: np.ndarray, rng: np.random.Generator) -> LocalProcess:
    return LocalProcess.sketch(t, targets, ReportedNoise(np.nan, np.ones(len(t))), rng=rng).refined(
        rng
    )


def _local_model(seed: int = 0) -> tuple[LocalProcess, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, (40, 3))
    y = np.sin(3 * t[:, 0]) + t[:, 1] ** 2 + t[:, 0] * t[:, 2]
    return _process(t, (y - y.mean()) / y.std(), rng), t


def test_gradient_of_the_local_likelihood_is_its_derivative():
    model, t = _local_model()
    height = heights(model.targets)
    likelihood = LocalLikelihood(
        t, model.targets, height, ReportedNoise(0.02, np.geomspace(0.2, 5, len(t)))
    )
    theta = np.random.default_rng(1).normal(0, 0.3, 9) - np.array([0, 0, 0, 1, 1, 1, 1, 4, 3])
    numerical = approx_fprime(theta, lambda x: likelihood(x)[0], 1e-6)
    np.testing.assert_allclose(likelihood(theta)[1], numerical, rtol=1e-3, atol=1e-5)


def test_among_low_points_a_steep_valley_is_known_though_others_lie_far_above():
    """Half of the targets within a thousandth of their deviation: as noise these would all be one."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]

    def valley(t: np.ndarray) -> np.ndarray:
        return np.asarray(((t - 0.2) @ turn) ** 2 @ np.logspace(0, 6, 5))

    anywhere = 0.2 + rng.uniform(-1, 1, (2000, 5))
    low = rng.permutation(anywhere[np.argsort(valley(anywhere))[:200]])
    t, others = np.concatenate([rng.uniform(-1, 1, (60, 5)), low[:60]]), low[60:]
    scale = TargetScale.fit(valley(t))
    model = _process(t, scale.to_model(valley(t)), rng)
    found = model.latent(model.features(others))[0][0]
    assert np.corrcoef(found, valley(others))[0, 1] > 0.8


@pytest.mark.parametrize("steepness", [(1.0, 5.0, 30.0, 100.0), (1.0, 1e2, 1e4, 1e6)])
def test_along_the_axes_a_quadratic_is_a_sum(steepness):
    """In a slab of its lowest points, too, which is a thousandth as thick as it is long."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    form = turn * steepness @ turn.T
    t = rng.uniform(-1, 1, (80, 4))
    slab = 0.3 + 0.1 * (t / np.sqrt(steepness)) @ turn.T
    for seen in (t, slab):
        y = np.einsum("ni,ij,nj->n", seen - 0.1, form, seen - 0.1)
        found = likeliest_quadratic(seen, (y - y.mean()) / y.std())
        assert found is not None
        back = np.linalg.inv(found.axes)  # t @ axes is what is seen
        along = back @ form @ back.T
        sizes = np.sqrt(np.diag(along))
        np.testing.assert_allclose(along / np.outer(sizes, sizes), np.eye(4), atol=0.01)


@pytest.mark.filterwarnings("error")
def test_points_that_share_the_values_of_an_input_are_seen_along_axes():
    """In a small region an integer has one value: an axis along it has no extent to be scaled by."""
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.random((60, 2)), np.full(60, 0.5)])
    unknown = np.full(60, np.nan)
    y = np.sin(5 * (x[:, 0] + x[:, 1])) + (x[:, 0] - x[:, 1]) ** 2
    near = Nearby.fit(x, y, unknown, rng=rng)
    mean, deviation = near.function(x)
    np.testing.assert_allclose(mean, y, atol=0.01)
    axes = near.frame.axes
    assert axes is not None and np.all(np.isfinite(axes)) and np.all(np.isfinite(deviation))


def test_paths_have_the_moments_of_the_posterior():
    model, _ = _local_model()
    t = np.random.default_rng(2).uniform(-1, 1, (20, 3))
    mean, variance = (moment[0] for moment in model.latent(model.features(t)))
    deviation = np.sqrt(variance)
    rng = np.random.default_rng(3)
    # Random frequencies are an approximation: many sets of few functions.
    drawn = np.concatenate([draw([model], np.ones(25), rng)(t) for _ in range(80)])
    error = deviation / np.sqrt(len(drawn)) + 1e-3
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 6 * error)
    np.testing.assert_allclose(drawn.std(axis=0), deviation, rtol=0.15, atol=2e-3)
    np.testing.assert_allclose(draw([model], np.zeros(3), rng)(t), [mean] * 3, atol=1e-6)


def test_slopes_are_those_of_the_paths_and_end_at_the_edge():
    model, _ = _local_model()
    rng = np.random.default_rng(4)
    draws = draw([model], np.linspace(0, 1, 5), rng)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    near = Nearby(
        x=np.empty((0, 3)),
        y=np.empty(0),
        noise=np.empty(0),
        middle=np.full(3, 0.5),
        reach=np.array([0.4, 0.3, 0.2]),
        frame=Frame(turn, np.array([0.1, 0.0, -0.1])),
        scale=TargetScale(0.0, 1.0, 0.0, 1.0),
        model=model,
        outliers=np.empty(0, dtype=np.intp),
    )

    def values(x: np.ndarray) -> np.ndarray:
        return draws.own(near.inputs(x.reshape(-1, 3)).reshape(x.shape))

    x = np.concatenate([rng.uniform(0.4, 0.6, (4, 3)), np.full((1, 3), 9.0)])
    steps = 2e-4 * np.eye(3)
    up, down = (values(x[:, None] + sign * steps) for sign in (1.0, -1.0))
    found, expected = near.slopes(x, draws.slopes(near.inputs(x))), (up - down) / 4e-4
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()
    assert np.all(np.abs(found) > 0.0, axis=1).tolist() == [True] * 4 + [False]


def test_regions_are_the_ends_of_funnels_and_the_best_comes_first():
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random((100, 2)), rng.normal(0.2, 0.02, (100, 2))])
    ends = np.array([[0.2, 0.2], [0.8, 0.7]])
    targets = np.min(distances(u, ends) + np.array([0.0, 0.1]), axis=1)
    found = list(itertools.islice(regions(u, targets, np.arange(200), 20), 2))
    assert found[0].centre == int(np.argmin(targets))
    gap = np.abs(u[found[0].centre] - u[found[1].centre]).max()
    assert found[1].half <= 0.5 * gap
    for each, end in zip(found, ends, strict=True):
        assert distances(u[[each.centre]], end[None])[0, 0] < 0.1


def test_a_lucky_outcome_does_not_hold_the_region_where_noise_multiplies():
    """Under noise the lowest point counts like its neighbours. Without noise it is the centre."""
    space, held, moved = cube(3), [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        v = rng.random((120, 3))
        truth = 10 * ((v - 0.3) ** 2).sum(axis=1)
        for y in (truth * np.exp(rng.standard_normal(120)), truth):
            history = History(v, y, iteration=np.repeat(np.arange(6), 20))
            lowest = Region(int(np.argmin(y)), 0.1)
            model = RegionModel.fit(space, history, lowest, rng, is_first=False)
            found = model.where_believed(block=10)
            if y is truth:
                assert found is model
            else:
                held.append(truth[lowest.centre])
                moved.append(truth[found.region.centre])
                assert (np.abs(found.v - found.centre) <= found.region.half + 1e-12).all()
    assert np.mean(moved) < 0.5 * np.mean(held)


def test_what_is_left_out_is_predicted_as_if_it_had_not_been_known():
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, (30, 2))
    targets = np.sin(2 * t[:, 0]) + t[:, 1] ** 2 + 0.1 * rng.standard_normal(30)
    process = _process(t, targets, rng)
    found = process.left_out_density() - 0.5 * np.log(2 * np.pi)
    covariance = process.covariance(t, t)[0] + np.diag(process.noise_of_rows(0))
    for i in (0, 11, 29):
        others = np.delete(np.arange(30), i)
        across = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, i])
        deviation = np.sqrt(covariance[i, i] - across @ covariance[others, i])
        known = norm.logpdf(targets[i], across @ targets[others], deviation)
        assert found[i] == pytest.approx(known, abs=1e-6)


def _one_region(*words, **named):
    """Points of the first region alone."""
    with using(current().but(search={"regions": 1})):
        return TrustRegions().points(*words, **named)


def test_some_picks_leave_the_region_for_where_a_sum_is_lowest():
    """Each term has a second, lower basin, far from a region that has closed in on the first."""
    space, rng = cube(4), np.random.default_rng(0)

    def terms(v: np.ndarray) -> np.ndarray:
        return np.minimum(10 * (v - 0.2) ** 2, 10 * (v - 0.8) ** 2 - 0.3)

    spread = points(space, 120)
    spread = spread[np.sum(spread > 0.6, axis=1) <= 1]
    near = 0.2 + 0.03 * rng.standard_normal((80, 4))
    v = np.concatenate([spread, near])
    v = v[np.r_[0 : len(spread), len(spread) + np.argsort(terms(near).sum(axis=1))]]
    history = History(v, terms(v).sum(axis=1), iteration=np.arange(len(v)) // 10)
    best = history.v[[np.argmin(history.y)]]
    picked, _ = _one_region(
        history,
        24,
        np.random.default_rng(1),
        spacing=Spacing(space, history, 0.01),
        penalty=Penalty(),
    )
    found = terms(picked).sum(axis=1)
    far = np.abs(picked - best).max(axis=1) > 0.4
    assert far.any()
    assert found[far].min() < history.y.min() - 0.3


def test_local_picks_find_the_minimum_of_a_smooth_function():
    space = cube(4)
    v = points(space, 64)
    batch = propose(
        space,
        v,
        np.sum((v - 0.3) ** 2, axis=1),
        10,
        settings=SMALL.model_copy(update={"trust_region_share": 1.0}),
    )
    assert "local:thompson" in batch.source
    assert np.sum((batch.v - 0.3) ** 2, axis=1).min() < 1e-3


def test_picks_without_expected_improvement_are_draws():
    space = cube(2)
    v = points(space, 40)
    settings = SMALL.model_copy(update={"trust_region_share": 0.0, "vanishing": 10.0})
    batch = propose(space, v, height(space, v), 12, settings=settings)
    assert batch.source.count("thompson") == 11
    gaps = distances(batch.v, batch.v)
    assert gaps[np.triu_indices(12, 1)].min() >= settings.spacing - 1e-9
    # The whole batch, if asked for.
    settings = AcquisitionSettings(
        kind="thompson", trust_region_share=0.0, uniform_candidates=128, local_candidates=64
    )
    assert set(propose(space, v, height(space, v), 5, settings=settings).source) == {"thompson"}


# ---- Laws of the local model around the best point, under noise

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


def test_outcomes_that_noise_multiplies_are_seen_by_their_logarithms_and_no_others():
    x, bowl, normal = _bowl()
    assert _fit(x, bowl * np.exp(normal)).by_logarithms
    assert not _fit(x, bowl + 0.5 * normal).by_logarithms
    assert not _fit(x, bowl).by_logarithms
    # Its logarithms are likelier; only that none of them is noise keeps them out.
    assert not _fit(x, bowl**4).by_logarithms


def test_a_few_outliers_of_noise_have_a_noise_of_their_own(monkeypatch):
    """Both the high and the low ones, and what is left is known as well as without them."""
    x, bowl, normal = _bowl()
    struck = np.arange(0, 120, 12)
    y = bowl + 0.01 * normal
    y[struck] += np.where(np.arange(10) % 2, 20.0, -20.0)
    near = _fit(x, y)
    assert set(struck) <= set(near.outliers) and len(near.outliers) < 16
    fresh, truth, _ = _bowl(10)
    assert np.abs(near.function(fresh)[0] - truth).mean() < 0.1
    believed = near.function(x)[0]
    assert bowl[np.argmin(believed)] < bowl[np.argmin(y)]
    monkeypatch.setattr("dngo.surrogates.nearby.ROUNDS", 0)
    assert np.abs(_fit(x, y).function(fresh)[0] - truth).mean() > 0.3


def test_without_outliers_there_are_none():
    x, bowl, normal = _bowl()
    for y in (bowl, bowl**4, bowl + 0.5 * normal, bowl * np.exp(normal), np.sin(9 * bowl)):
        assert len(_fit(x, y).outliers) == 0


def _walled() -> tuple[np.ndarray, np.ndarray]:
    """Points (200, 3), half of them on a floor, and wells' values there, a few, between walls of 1e4."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random((100, 3)), rng.uniform(0.25, 0.75, (100, 3))])
    return x, _wells(x) + 1e4 * (np.maximum(4 * np.abs(x - 0.5) - 1, 0) ** 2).sum(axis=1)


def _wells(x: np.ndarray) -> np.ndarray:
    return np.cos(9 * x).sum(axis=1)


def _resolved(near: Nearby) -> Nearby:
    return near.resolved(turn=True, rng=np.random.default_rng(1))


def test_what_walls_hide_is_told_apart_on_a_scale_of_its_own():
    x, y = _walled()
    noise = np.full(len(y), np.nan)
    near = _fit(x, y, noise)
    found = _resolved(near)
    level = np.quantile(y, 0.25)
    assert predicts_better(found.log_scores(level), near.log_scores(level), len(y))
    new = np.random.default_rng(10).uniform(0.25, 0.75, (200, 3))
    missed = [1 - spearmanr(model.function(new)[0], _wells(new))[0] for model in (near, found)]
    assert missed[1] < 0.03 and missed[1] < 0.5 * missed[0]


def test_without_walls_the_scale_stays_as_it_is():
    x, bowl, normal = _bowl()
    for y in (bowl, bowl + 0.5 * normal, bowl * np.exp(normal), np.zeros(120)):
        near = _fit(x, y)
        assert _resolved(near) is near


def test_draws_have_the_moments_of_the_mixture():
    components = [fitted_component(seed)[0] for seed in (0, 1)]
    x = np.random.default_rng(2).random((5, 2))
    values = draw(components, np.ones(20_000), np.random.default_rng(0))(x)
    parts = [c.predict(c.features(x)) for c in components]
    means = np.concatenate([m for m, _ in parts], axis=1)
    variances = np.concatenate(
        [v - c.noise for (_, v), c in zip(parts, components, strict=True)], axis=1
    )
    mean = means.mean(axis=1)
    variance = variances.mean(axis=1) + means.var(axis=1)
    assert np.all(np.abs(values.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(values)))
    np.testing.assert_allclose(values.var(axis=0), variance, rtol=0.1)


@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0.0), (1e-6, 3.0), (2.0, -40.0)])
def test_the_logarithmic_scale_heeds_no_unit_and_no_zero(factor: float, shift: float):
    y = np.random.default_rng(0).lognormal(size=50)
    moved = factor * y + shift
    found = LogScale.of(moved).to_model(moved)
    np.testing.assert_allclose(found, LogScale.of(y).to_model(y), rtol=1e-6, atol=1e-6)

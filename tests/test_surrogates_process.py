"""Laws of the exact Gaussian process, and of fantasies over it and over mixtures with it."""

from __future__ import annotations

import itertools

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing import drawn_outcomes
from scipy import stats

from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.measures import expected_improvement
from dngo.rules import current
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.data import EarlierTask, TargetScale
from dngo.surrogates.gaussian_process import Evidence, GaussianProcess, fit_process
from dngo.surrogates.kernels import BLOCK, Covariance, correlation, squared_distances, with_slope
from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.mixture import left_out_density
from dngo.surrogates.network import Network
from dngo.surrogates.problem import Problem, ReportedNoise
from dngo.surrogates.settings import SurrogateSettings
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.surrogates.warping import choose_scale

GP = SurrogateSettings(kind="gp", hyperparameter_samples=3)
KERNELS = ["matern52", "matern32", "squared_exponential"]
seeds = st.integers(0, 2**32 - 1)


def _process(seed: int, n: int = 6, d: int = 2, h: int = 2, **more) -> GaussianProcess:
    rng = np.random.default_rng(seed)
    return GaussianProcess(
        rng.random((n, d)),
        rng.standard_normal(n),
        rng.uniform(-1.5, 0.5, (h, d)),
        rng.uniform(0.5, 2.0, h),
        rng.uniform(0.01, 0.3, h),
        **more,
    )


def _basis(seed: int, d: int = 2, h: int = 2, weight: float = 1.0) -> FiniteBasis:
    rng = np.random.default_rng(seed)
    network = Network((rng.standard_normal((d, 4)) * 2,), (rng.standard_normal(4),), "tanh")
    head = Regression.fit(network.features(rng.random((6, d))), rng.standard_normal(6))
    alpha, beta = rng.uniform(0.2, 3, h), rng.uniform(0.5, 50, h)
    return FiniteBasis(network, head.rotation, *head.posterior(alpha, beta), 1 / beta, weight)


def _refit(process: GaussianProcess, x: np.ndarray, y: np.ndarray, h: int) -> GaussianProcess:
    one = slice(h, h + 1)
    return GaussianProcess(
        x, y, process.log_lengthscales[one], process.signal[one], process.noise[one], process.kernel
    )


# ---- the process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("reported", [False, True])
@pytest.mark.parametrize("varies", [True, False])
def test_evidence_is_the_dense_gaussian_density_and_has_its_gradient(kernel, ard, reported, varies):
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 3)), rng.standard_normal(9)
    x[:, 1] = x[:, 1] if varies else 0.0
    noise = ReportedNoise.of(rng.exponential(size=9)) if reported else None
    problem = Problem(x, y, noise=noise)
    evidence = Evidence(problem, Covariance(kernel, ard))
    log = np.r_[rng.uniform(-1, 1, evidence.size - 2), -2.0, 0.3]
    lengthscales = log[:-2] if ard else np.repeat(log[:1], 3)
    signal = np.exp([log[-1]])
    process = GaussianProcess(
        x[:0], y[:0], lengthscales[None], signal, signal * np.exp(log[-2]), kernel
    )
    dense = process.covariance(x, x)[0] + process.noise[0] * np.diag(problem.relative_noise)
    expected = stats.multivariate_normal.logpdf(y, np.zeros(9), dense)
    assert evidence(log) - evidence.log_prior(log) == pytest.approx(expected, rel=1e-9)
    value, gradient = evidence.with_gradient(log)
    assert value == pytest.approx(evidence(log), rel=1e-10)
    for i in range(len(log)):
        step = 1e-5 * np.eye(len(log))[i]
        slope = (evidence(log + step) - evidence(log - step)) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relative", [np.empty(0), np.geomspace(0.1, 10, 6)])
def test_posterior_is_that_of_the_joint_gaussian(kernel, relative):
    process = _process(0, kernel=kernel, relative_noise=relative)
    noise = np.diag(relative if len(relative) else np.ones(6))
    new = np.random.default_rng(1).random((4, 2))
    mean, variance = process.predict(process.features(new))
    for h in range(2):
        data = process.covariance(process.x, process.x)[h] + process.noise[h] * noise
        cross = process.covariance(new, process.x)[h]
        np.testing.assert_allclose(mean[:, h], cross @ np.linalg.solve(data, process.targets))
        prior = process.signal[h] * (1 + current().process.constant) + process.noise[h]
        expected = prior - np.sum(cross * np.linalg.solve(data, cross.T).T, axis=1)
        np.testing.assert_allclose(variance[:, h], expected)


def test_left_out_predictions_are_those_of_the_other_rows():
    process = _process(3, n=11)
    fold = np.arange(11) % 3
    mean, variance = process.left_out(fold)
    for k, h in itertools.product(range(3), range(2)):
        other = _refit(process, process.x[fold != k], process.targets[fold != k], h)
        expected = other.predict(other.features(process.x[fold == k]))
        np.testing.assert_allclose(mean[fold == k, h], expected[0][:, 0], rtol=1e-8)
        np.testing.assert_allclose(variance[fold == k, h], expected[1][:, 0], rtol=1e-8)


def test_relevant_inputs_get_short_lengthscales_and_the_noise_is_found():
    rng = np.random.default_rng(0)
    x = rng.random((80, 3))
    y = np.sin(6 * x[:, 1]) + 0.3 * rng.standard_normal(80)
    fit = fit_process(Problem(x, y), Covariance(), 10, rng=rng)
    (process,) = fit.components
    scales = process.log_lengthscales.mean(axis=0)
    assert scales[1] < min(scales[0], scales[2]) - 0.5
    assert 0.05 < process.noise.mean() < 0.15


def test_a_process_taught_by_some_rows_holds_all_of_them_and_predicts_as_well() -> None:
    """Beyond 300 rows the cubic search for lengthscales sees 300; all rows are in the process, and the density of
    new ones is that of a process which all have taught."""
    rng = np.random.default_rng(0)
    x, new = rng.random((420, 4)), rng.random((400, 4))

    def f(v):
        return np.sin(6 * v[:, 0] * v[:, 1]) + v[:, 2]

    y = f(x)
    problem = Problem(x, (y - y.mean()) / y.std())
    found = {}
    for teachers in (None, 300):
        fit = fit_process(problem, Covariance(), 2, rng=np.random.default_rng(1), teachers=teachers)
        (process,) = fit.components
        assert len(process.x) == len(x)
        mean, variance = process.predict(process.features(new))
        z = ((f(new) - y.mean()) / y.std())[:, None] - mean
        found[teachers] = np.mean(-0.5 * (z**2 / variance + np.log(2 * np.pi * variance)))
    assert found[300] > found[None] - 0.1


@pytest.mark.parametrize("n", [20, 40])
@pytest.mark.parametrize("reported", [False, True])
def test_sparse_process_with_every_input_inducing_is_the_exact_one(n, reported):
    rng = np.random.default_rng(0)
    x, y = (
        stats.qmc.Halton(2, rng=rng).random(n),
        rng.standard_normal(n),
    )  # none too close to another
    fold, rows = np.arange(n) % 4, np.arange(n)
    noise = ReportedNoise.of(np.geomspace(0.05, 0.5, n)) if reported else None
    fit = fit_sparse_process(Problem(x, y, noise=noise), Covariance(), 3, n, (fold, rows), rng=rng)
    (sparse,), density = fit.components, fit.trial.log_density
    exact = GaussianProcess(
        x,
        y,
        sparse.log_lengthscales,
        sparse.signal,
        sparse.noise,
        sparse.kernel,
        relative_noise=np.empty(0) if noise is None else noise.relative,
    )
    new = rng.random((30, 2))
    for a, b in zip(
        sparse.latent(sparse.features(new)), exact.latent(exact.features(new)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=2e-3)
    cross = sparse.posterior_covariance(sparse.features(new), sparse.features(new[:3]))
    expected = exact.posterior_covariance(exact.features(new), exact.features(new[:3]))
    np.testing.assert_allclose(cross, expected, atol=2e-3)
    np.testing.assert_allclose(density, left_out_density(exact, fold), atol=5e-3)


# ---- the scale of the targets --------------------------------------------------------------------


SCALES = [{"power": p} for p in current().warping.powers]
SCALES += [{"floor": f} for f in current().warping.floors]


@pytest.mark.parametrize("how", SCALES, ids=str)
def test_a_bent_scale_and_heights_above_a_floor_are_undone_and_know_their_slope(how):
    y = np.r_[
        np.random.default_rng(0).gamma(1.0, 3.0, 200), 5e4 if "floor" in how else 200.0, -90.0
    ]
    scale = TargetScale.fit(y, **how)
    if "floor" in how:
        assert scale.least == -90.0
        below = np.mean(y <= scale.least + scale.depth)
        assert below == pytest.approx(how["floor"], abs=0.01)
    more = np.r_[y, -100.0, -90.0 - 1e-9]
    t = scale.to_model(more)
    assert np.all(np.diff(t[np.argsort(more)]) > 0)
    np.testing.assert_allclose(scale.to_objective(t), more, rtol=1e-7, atol=1e-7)
    inner = y[:-1]  # at the least value itself a floor has a kink
    slope = (scale.to_model(inner + 1e-5) - scale.to_model(inner - 1e-5)) / 2e-5
    np.testing.assert_allclose(np.exp(scale.log_slope(inner)), slope, rtol=1e-4)


def walled(x):
    """Wells on a floor, and a wall around it."""
    z = 4 * np.abs(x - 0.5)
    return np.cos(9 * x).sum(axis=1) + 1e4 * (np.maximum(z - 1, 0) ** 2).sum(axis=1)


@pytest.mark.parametrize("floor", [None, 0.25, 0.5])
def test_heights_that_no_number_holds_have_no_depth(floor):
    y = np.array([-1.5e308, 1.5e308, *np.arange(1.0, 9.0)])
    scale = TargetScale.fit(y, floor=floor)
    assert np.isinf(scale.depth)
    assert np.isfinite(scale.to_model(y)).all()
    assert np.isfinite(scale.log_slope(y)).all()


def test_a_floor_between_walls_is_resolved_and_other_functions_have_none():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random((80, 2)), 0.25 + 0.5 * rng.random((80, 2))])
    y = walled(x)
    scale, found = choose_scale(x, y, GP, rng=np.random.default_rng(1))
    assert found["floor"] <= 0.5 and np.isfinite(scale.depth)
    low = np.sort(y)[:40]
    apart = [np.ptp(s.to_model(low)) for s in (scale, TargetScale.fit(y))]
    assert apart[0] > 0.5 > 0.05 > apart[1]
    for smooth in (np.sin(3 * x[:, 0]) + x[:, 1], ((x - 0.3) ** 2).sum(axis=1)):
        scale, found = choose_scale(x, smooth, GP, rng=np.random.default_rng(1))
        assert "floor" not in found and np.isinf(scale.depth)


def test_a_skewed_objective_is_bent_and_a_straight_one_is_not():
    rng = np.random.default_rng(0)
    x = rng.random((80, 2))
    smooth = np.sin(3 * x[:, 0]) + x[:, 1]
    for y, low, high in ((np.log1p(3 * smooth**4), 1.5, 2.0), (smooth, 1.0, 1.0)):
        scale, found = choose_scale(x, y, GP, rng=np.random.default_rng(1))
        assert low <= scale.power <= high and np.isinf(scale.depth)
        assert found["power"] == scale.power
    scale, found = choose_scale(x, np.exp(4 * smooth), GP, rng=np.random.default_rng(1))
    assert found["power"] == scale.power
    assert scale.is_bent
    off = GP.model_copy(update={"warp": False})
    assert choose_scale(x, np.exp(4 * smooth), off, rng=rng)[0].power == 1.0


def test_log_density_is_that_of_the_objective_and_predictions_stay_in_its_range():
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    y = np.exp(4 * np.sin(3 * x[:, 0]) + 3 * x[:, 1]) + 4.0
    model = fit_model(TrainingData(x=x, y=y), GP, rng=rng)
    assert model.scale.is_bent
    new = np.repeat(rng.random((1, 2)), 40_001, axis=0)
    grid = np.geomspace(1e-6, 1e5, 40_001) + scale_start(model)
    density, below = model.log_density(new, grid)
    assert np.trapezoid(np.exp(density), grid) == pytest.approx(below[-1] - below[0], abs=1e-3)
    assert np.all(np.diff(below) >= 0)
    mean, std = model.predict(rng.random((200, 2)))
    assert mean.max() <= y.max() and np.all(std >= 0) and std.max() < np.ptp(y)


def scale_start(model: Model) -> float:
    return float(model.scale.to_objective(np.array(-30.0)))


# ---- fantasies -----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=seeds, pending=st.integers(1, 5), n=st.integers(1, 8))
def test_rank_one_updates_equal_refitting_with_the_fantasised_points(seed, pending, n):
    process = _process(seed, n=n)
    rng = np.random.default_rng(seed)
    fantasies = Fantasies([process], 0.0, 3, rng)
    new, test = rng.random((pending, 2)), rng.random((10, 2))
    outcomes = drawn_outcomes(fantasies, new, process.noise)
    ((mean, variance),) = fantasies.moments(fantasies.features(test))
    for h, s in itertools.product(range(2), range(3)):
        targets = np.r_[process.targets, [o[h, s] for o in outcomes]]
        full = _refit(process, np.concatenate([process.x, new]), targets, h)
        expected_mean, expected_variance = full.latent(full.features(test))
        np.testing.assert_allclose(mean[0, h, s], expected_mean[0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(variance[0, h, 0], expected_variance[0], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("noisy", [True, False])
def test_mcei_of_a_mixture_with_nothing_pending_is_the_weighted_expected_improvement(noisy):
    components = [_process(0, weight=3.0), _basis(1), _basis(2)]
    fantasies = Fantasies(components, 0.1, 7, np.random.default_rng(0), noisy=noisy)
    x = np.random.default_rng(2).random((9, 2))
    expected = np.zeros(9)
    for c in components:
        mean, variance = c.predict(c.features(x))
        variance = variance if noisy else variance - c.noise
        value = expected_improvement(np.float64(0.1), mean, np.sqrt(variance)).mean(axis=1)
        expected += c.weight / 5.0 * value
    np.testing.assert_allclose(fantasies.improvement(fantasies.features(x)), expected, rtol=1e-10)


def test_components_of_a_mixture_are_updated_as_each_by_itself():
    """Side by side in one array or alone: the same variances, whatever the fantasies."""
    components = [_basis(1), _basis(2), _process(0), _process(5)]
    new, test = np.random.default_rng(3).random((3, 2)), np.random.default_rng(4).random((6, 2))

    def after(parts):
        fantasies = Fantasies(parts, 0.1, 4, np.random.default_rng(0))
        z = fantasies.features(new)
        for j in range(3):
            fantasies.condition(z[:, j])
        return fantasies.moments(fantasies.features(test))

    bases, *processes = after(components)
    assert bases[0].shape == (2, 2, 13, 6)  # at least fifty fantasies of each kind
    variances = [*bases[1], *(variance[0] for _, variance in processes)]
    for variance, component in zip(variances, components, strict=True):
        np.testing.assert_allclose(variance, after([component])[0][1][0], rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_correlations_block_by_block_are_those_of_all_points_at_once(kernel):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 500, 3)), rng.random((2, 40, 3))
    a[:, 7] = b[:, 3]
    found = correlation(kernel, a, b)
    assert found.size > 2 * BLOCK
    expected, _ = with_slope(kernel, squared_distances(a, b))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7)
    assert found[:, 7, 3] == pytest.approx([1.0, 1.0], abs=1e-7)


@pytest.mark.parametrize("n", [5, 60])  # too few for a power, and enough
def test_without_a_warp_the_objective_is_standardised_and_nothing_more(n: int):
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 2)), rng.standard_cauchy(n) ** 3
    task = EarlierTask(rng.random((20, 2)), 1e3 * rng.standard_cauchy(20))
    settings = SurrogateSettings(kind="gp", warp=False, hyperparameter_samples=2)
    data = TrainingData(x, y, earlier=(task,) if n > 20 else ())
    model = fit_model(data, settings, rng=np.random.default_rng(0))
    targets = model.objective[0].targets
    np.testing.assert_allclose(targets[:n], (y - y.mean()) / y.std(), atol=1e-9)
    if n > 20:
        np.testing.assert_allclose(targets[n:], (task.y - task.y.mean()) / task.y.std())
    with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
        model.save(file)
        scale = Model.load(file).scale
    assert scale == model.scale
    far = np.array([-1e6, 1e6])
    np.testing.assert_allclose(scale.to_objective(scale.to_model(far)), far, rtol=1e-5)
    np.testing.assert_allclose(scale.log_slope(far), -np.log(y.std()))

"""Laws of functions drawn from the posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.draws import draw
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.settings import SurrogateSettings

KINDS = ("matern52", "matern32", "squared_exponential", "sparse", "bases", "sampled")


def fitted(name: str):
    """A component given observations of a smooth function of two inputs."""
    x = np.random.default_rng(0).random((30, 2))
    y = np.sin(4 * x[:, 0]) + x[:, 1] ** 2
    if name in ("bases", "sampled"):
        kinds = {
            "bases": {"kind": "adaptive_basis", "networks": {"steps": 50, "epochs": 0}},
            "sampled": {"kind": "bohamiann", "burn_in": 50, "thin": 5},
        }
        settings = SurrogateSettings(**kinds[name], warp=False)
        data = TrainingData(x=x, y=y)
        return fit_model(data, settings, rng=np.random.default_rng(1)).objective[0]
    process = GaussianProcess(
        x,
        y,
        log_lengthscales=np.log([[0.4, 0.8], [0.3, 0.5]]),
        signal=np.array([1.0, 2.0]),
        noise=np.array([1e-3, 1e-2]),
        kernel="matern52" if name == "sparse" else name,
    )
    if name != "sparse":
        return process
    # Inputs that explain less of the function than they could.
    return replace(
        process, targets=np.empty(0), reduction=0.9 * process.reduction, readout=process.readout
    )


@pytest.fixture(params=KINDS)
def component(request: pytest.FixtureRequest):
    return fitted(request.param)


def test_functions_have_the_moments_of_the_posterior(component) -> None:
    """Mean and covariance of one hyperparameter sample, over many sets of frequencies."""
    rng = np.random.default_rng(2)
    x = rng.random((12, 2))
    one = first_sample(component)
    values = np.concatenate([draw([one], np.ones(40), rng)(x) for _ in range(50)])
    mean, covariance = moments(one, x)
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(values.mean(axis=0) - mean) < 0.12 * deviation)
    found = np.cov(values.T) / np.outer(deviation, deviation)
    assert np.abs(found - covariance / np.outer(deviation, deviation)).max() < 0.25


def test_without_boldness_a_function_is_the_mean(component) -> None:
    x = np.random.default_rng(3).random((9, 2))
    one = first_sample(component)
    values = draw([one], np.zeros(3), np.random.default_rng(4))(x)
    assert np.allclose(values, moments(one, x)[0], atol=1e-6)


def test_a_slope_is_that_of_the_function(component) -> None:
    rng = np.random.default_rng(8)
    draws = draw([component], rng.random(6), rng)
    x = 0.1 + 0.8 * rng.random((6, 2))
    if not isinstance(component, GaussianProcess):
        assert not draws.has_slopes
        return
    # Single precision of the waves: steps that are long enough for it.
    steps = 3e-3 * np.eye(2)
    up, down = (draws.own(x[:, None] + sign * steps) for sign in (1.0, -1.0))
    found, expected = draws.slopes(x), (up - down) / 6e-3
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()


def test_a_function_is_the_same_wherever_it_is_asked_for(component) -> None:
    rng = np.random.default_rng(5)
    draws = draw([component], rng.random(6), rng)
    x = rng.random((6, 4, 2))
    together = draws(x.reshape(-1, 2)).reshape(6, 6, 4)
    own = draws.own(x)
    for i in range(6):
        assert np.allclose(together[i, i], own[i], rtol=1e-5, atol=1e-5)


def test_functions_pass_through_observations_without_noise() -> None:
    x = np.random.default_rng(6).random((20, 2))
    y = np.sin(3 * x[:, 0])
    shape = {"log_lengthscales": np.full((1, 2), np.log(0.5)), "signal": np.ones(1)}
    process = GaussianProcess(x, y, **shape, noise=np.full(1, 1e-8))
    values = draw([process], np.ones(5), np.random.default_rng(7))(x)
    assert np.allclose(values, y, atol=1e-2)


def test_components_are_drawn_by_their_weights() -> None:
    component = fitted("matern52")
    nothing = replace(component, weight=0.0)
    draws = draw([nothing, component], np.ones(30), np.random.default_rng(10))
    assert all(group.process is component for group in draws.groups)


def first_sample(component):
    """The component with its first hyperparameter sample alone."""
    h = slice(0, 1)
    if isinstance(component, GaussianProcess):
        return replace(
            component,
            log_lengthscales=component.log_lengthscales[h],
            signal=component.signal[h],
            noise=component.noise[h],
            reduction=component.reduction[h],
            readout=component.readout[h],
        )
    return replace(
        component, mean=component.mean[h], variance=component.variance[h], noise=component.noise[h]
    )


def moments(component, x):
    """Mean (n,) and covariance (n, n) of the function at x (n, d), of the one sample."""
    z = component.features(x)
    if isinstance(component, GaussianProcess):
        return component.latent(z)[0][0], component.posterior_covariance(z, z)[0]
    return z @ component.mean[0], (z * component.variance[0]) @ z.T

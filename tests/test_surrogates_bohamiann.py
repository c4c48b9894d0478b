"""Laws of BOHAMIANN: its sampler on known posteriors, its gradient, its moments as a basis."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch
from scipy import stats

from dngo.acquisition.fantasies import Fantasies
from dngo.errors import UserError
from dngo.papers.bohamiann import RULES, Posterior
from dngo.papers.sghmc import Sampler
from dngo.surrogates import EarlierTask, Model, TrainingData, fit_model
from dngo.surrogates.problem import Problem
from dngo.surrogates.sections import NetworkSettings
from dngo.surrogates.settings import SurrogateSettings

QUICK = SurrogateSettings(
    kind="bohamiann",
    networks={"width": 20, "layers": 2},
    posterior_samples=30,
    chains=10,
    burn_in=800,
    thin=40,
    warp=False,
)

# ---- the sampler ----------------------------------------------------------------------------------

DEVIATIONS = np.geomspace(0.003, 1.0, 5)
CORRELATION = 0.4 * np.eye(5) + 0.6
COVARIANCE = DEVIATIONS[:, None] * CORRELATION * DEVIATIONS
MEAN = np.array([1.0, -1.0, 2.0, 0.0, 3.0]) * DEVIATIONS
PRECISION = np.linalg.inv(COVARIANCE)


def sampled(gradient, **how) -> np.ndarray:
    start = torch.as_tensor(np.random.default_rng(0).standard_normal((32, 5)))
    sampler = Sampler(gradient, start, noise=torch.Generator().manual_seed(1), **how)
    sampler.burn_in(5000)
    return torch.cat(sampler.samples(100, 40)).numpy()


def exact(theta: torch.Tensor) -> torch.Tensor:
    """The gradient of the Gaussian's U."""
    return (theta - torch.as_tensor(MEAN)) @ torch.as_tensor(PRECISION)


def misfit(x: np.ndarray) -> float:
    """The largest error of a mean, in deviations, or of a covariance, relative."""
    bias = np.abs(x.mean(axis=0) - MEAN) / DEVIATIONS
    wrong = np.abs(np.cov(x.T) - COVARIANCE) / (DEVIATIONS[:, None] * DEVIATIONS)
    return float(max(bias.max(), wrong.max()))


def test_a_badly_scaled_correlated_gaussian_has_the_right_mean_and_covariance():
    assert misfit(sampled(exact)) < 0.25


def test_noisy_gradients_sample_the_same_gaussian():
    rng = np.random.default_rng(2)
    noise = 0.5 * np.sqrt(np.diag(PRECISION))

    def gradient(theta: torch.Tensor) -> torch.Tensor:
        return exact(theta) + torch.as_tensor(noise * rng.standard_normal(theta.shape))

    assert misfit(sampled(gradient, noisy=True)) < 0.45


# ---- the network's posterior ----------------------------------------------------------------------


@pytest.mark.parametrize("heteroscedastic", [False, True])
@pytest.mark.parametrize("tasks", [1, 3])
def test_the_energy_is_the_log_posterior(heteroscedastic: bool, tasks: int):
    rng = np.random.default_rng(0)
    x, t = rng.random((7, 2)), rng.standard_normal(7)
    task = None if tasks == 1 else np.arange(7) % tasks
    settings = QUICK.model_copy(
        update={"networks": NetworkSettings(width=4, layers=2), "heteroscedastic": heteroscedastic}
    )
    posterior = Posterior(
        Problem(x, t, task=task), settings, 2, rng, torch.device("cpu"), torch.float64
    )
    theta = posterior.start()
    posterior.gibbs(theta)
    precision = posterior.precision.numpy()
    *layers, embedding, log_noise = (p.numpy() for p in posterior.split(theta))
    for c, found in enumerate(posterior.energy(theta).tolist()):
        h = 2 * x - 1
        if task is not None:
            h = np.hstack([h, embedding[c][task]])
        for w, b in zip(layers[:-2:2], layers[1:-2:2], strict=True):
            h = np.tanh(h @ w[c] + b[c])
        out = h @ layers[-2][c] + layers[-1][c]
        log_variance = log_noise[c, 0, 0] + (out[:, 1] if heteroscedastic else np.zeros(7))
        error = (out[:, 0] - t) ** 2
        fit = 0.5 * np.sum(log_variance + error * np.exp(-log_variance))
        prior = 0.5 * np.sum(precision[c, :-1] * theta[c, :-1].numpy() ** 2)
        noise = 0.5 * ((float(theta[c, -1]) - RULES.log_noise) / RULES.log_noise_deviation) ** 2
        assert found == pytest.approx(fit + prior + noise, rel=1e-9)
    # Of each network alone: what moves one does not touch another's energy.
    gradient = posterior.gradient(theta)
    step = 1e-6 * torch.as_tensor(rng.standard_normal(theta.shape))
    slope = (posterior.energy(theta + step) - posterior.energy(theta - step)) / 2
    np.testing.assert_allclose((gradient * step).sum(dim=1), slope, rtol=1e-4, atol=1e-10)


def linear(n: int, seed: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return x, 2 * x[:, 0] - x[:, 1] + 0.3 * np.sin(3 * x[:, 0]) + noise * rng.standard_normal(n)


def fitted(x, y, settings=QUICK, earlier=(), seed=3) -> Model:
    data = TrainingData(x=x, y=y, constraints={"completed": np.ones(len(y))}, earlier=earlier)
    return fit_model(data, settings, rng=np.random.default_rng(seed))


@pytest.fixture(scope="module")
def model() -> Model:
    return fitted(*linear(60, 0))


def test_a_nearly_linear_function_is_covered(model: Model):
    new, truth = linear(500, 1)
    density, below = model.log_density(new, truth)
    inside = np.mean((below > 0.025) & (below < 0.975))
    assert 0.88 < inside < 0.999
    # The density of the noise itself is .88; a normal about the mean has -1.1.
    assert 0.6 < density.mean() < 0.95
    mean, _ = model.predict(new)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.13


def test_the_basis_has_the_moments_of_the_networks(model: Model):
    (component,) = model.objective
    x = np.random.default_rng(0).random((9, 2))
    f = component.network.features(x)
    mean, variance = component.predict(component.features(x))
    assert mean[:, 0] == pytest.approx(f.mean(axis=1))
    assert variance[:, 0] == pytest.approx(f.var(axis=1) + component.noise)  # equation (5)


def test_conditioning_on_a_pending_point_is_exact(model: Model):
    (component,) = model.objective
    x = np.random.default_rng(1).random((6, 2))
    fantasies = Fantasies([component], 0.0, 4, np.random.default_rng(2))
    z = fantasies.features(x)
    fantasies.condition(z[:, 0])
    fantasies.condition(z[:, 1])
    ((_, variance),) = fantasies.moments(z)
    joint = np.cov(component.network.features(x), bias=True)
    known = joint[:2, :2] + component.noise * np.eye(2)
    left = np.diag(joint - joint[:, :2] @ np.linalg.solve(known, joint[:2]))
    assert variance[0, 0, 0] == pytest.approx(left, rel=1e-6, abs=1e-12)


@pytest.fixture(scope="module")
def noisy() -> Model:
    """A model of an outcome whose noise is ten times larger in the right half."""
    rng = np.random.default_rng(5)
    x = rng.random((120, 2))
    y = x[:, 1] + np.where(x[:, 0] > 0.5, 0.5, 0.05) * rng.standard_normal(120)
    return fitted(x, y, QUICK.model_copy(update={"heteroscedastic": True, "burn_in": 2000}))


def test_noise_that_depends_on_the_inputs_is_found(noisy: Model):
    new = np.random.default_rng(6).random((200, 2))
    _, deviation = noisy.predict(new)
    assert np.median(deviation[new[:, 0] > 0.6]) > 2.5 * np.median(deviation[new[:, 0] < 0.4])
    with h5py.File("heteroscedastic", "w", driver="core", backing_store=False) as file:
        noisy.save(file.create_group("model"))
        assert Model.load(file["model"]).predict(new)[1].tobytes() == deviation.tobytes()


def test_an_acquisition_counts_the_noise_where_it_is(noisy: Model):
    (component,) = noisy.objective
    new = np.random.default_rng(5).random((6, 2))
    samples = component.network.features(new)
    f, noise = np.split(samples, 2, axis=1)
    noise = np.exp(noise).mean(axis=1)
    assert noise.max() > 2 * noise.min()
    mean, deviation = f.mean(axis=1), np.sqrt(f.var(axis=1) + noise)
    gamma = (-0.5 - mean) / deviation
    expected = deviation * (gamma * stats.norm.cdf(gamma) + stats.norm.pdf(gamma))
    fantasies = Fantasies([component], -0.5, 4, np.random.default_rng(2), noisy=True)
    z = fantasies.features(new)
    np.testing.assert_allclose(fantasies.improvement(z), expected, rtol=1e-6)
    # A pending point teaches the less the noisier it is.
    fantasies.condition(z[:, 0])
    fantasies.condition(z[:, 1])
    joint = np.cov(f, bias=True)
    known = joint[:2, :2] + np.diag(noise[:2])
    left = np.diag(joint - joint[:, :2] @ np.linalg.solve(known, joint[:2]))
    ((_, variance),) = fantasies.moments(z)
    np.testing.assert_allclose(variance[0, 0, 0], left, rtol=1e-6, atol=1e-12)
    # And where the function was evaluated, the noise of that place is what is taken off.
    _, spread = noisy.function(new, np.full(6, np.nan))
    np.testing.assert_allclose(spread / noisy.scale.spread / noisy.scale.scale, f.std(axis=1))


def test_a_single_chain_of_minibatches_as_in_the_paper_learns_a_function():
    rng = np.random.default_rng(0)
    x, new = rng.random((600, 2)), rng.random((300, 2))
    settings = QUICK.model_copy(
        update={
            "chains": 1,
            "burn_in": 2000,
            "posterior_samples": 50,
            "thin": 10,
            "networks": NetworkSettings(minibatch=128),
        }
    )
    model = fitted(x, wave(x), settings, seed=0)
    mean, _ = model.predict(new)
    assert np.sqrt(np.mean((mean - wave(new)) ** 2)) < 0.4 * wave(new).std()
    density, below = model.log_density(new, wave(new))
    assert np.mean((below > 0.025) & (below < 0.975)) > 0.8 and density.mean() > -0.5
    assert 1.0 <= model.summary()["bnn_mixing"] < 10.0


def test_the_vanilla_sampler_needs_a_step_that_is_tuned_and_says_so():
    rng = np.random.default_rng(0)
    x, new = rng.random((30, 2)), rng.random((300, 2))
    vanilla = {"adapt": False, "burn_in": 800, "thin": 10}
    model = fitted(x, wave(x), QUICK.model_copy(update=vanilla | {"step": 0.003}))
    mean, _ = model.predict(new)
    assert np.sqrt(np.mean((mean - wave(new)) ** 2)) < 0.7 * wave(new).std()
    with pytest.raises(UserError, match=r"surrogate.step: 0.1 is too large .* Try 0.01"):
        fitted(x, wave(x), QUICK.model_copy(update=vanilla | {"step": 0.1}))


def test_moments_of_files_without_a_divisor_are_as_they_were(model: Model):
    with h5py.File("bohamiann", "w", driver="core", backing_store=False) as file:
        model.save(file.create_group("model"))
        del file["model/objective/0"].attrs["divisor"]
        (loaded,) = Model.load(file["model"]).objective
    x = np.random.default_rng(0).random((9, 2))
    _, variance = loaded.predict(loaded.features(x))
    f = loaded.network.features(x)
    assert variance[:, 0] == pytest.approx(f.var(axis=1, ddof=1) + loaded.noise)


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(4 * x[:, 0]) + x[:, 1] ** 2


@pytest.mark.parametrize("kind", ["bohamiann", "gp", "adaptive_basis"])
def test_a_related_task_helps_where_little_is_known(kind: str):
    rng = np.random.default_rng(0)
    settings = {
        "bohamiann": QUICK,
        "gp": SurrogateSettings(kind="gp", warp=False),
        "adaptive_basis": SurrogateSettings(
            kind="adaptive_basis", networks={"width": 20, "layers": 2, "steps": 500}, warp=False
        ),
    }[kind]
    related = rng.random((40, 2))
    x, new = rng.random((5, 2)), rng.random((300, 2))
    # Each task has a scale of its own.
    earlier = (EarlierTask(related, 100.0 + 30.0 * wave(related)),)
    alone, helped = (
        np.corrcoef(fitted(x, wave(x), settings, e).predict(new)[0], wave(new))[0, 1]
        for e in ((), earlier)
    )
    assert helped > 0.9
    assert helped > alone

"""Laws of the paper's own recipe: training, the quadratic prior mean, in-sample sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from dngo.papers.equations import Preprint
from dngo.papers.evidence import climb_evidence, log_evidence, torch_features
from dngo.papers.quadratic import (
    QuadraticStatistics,
    coefficients,
    log_horseshoe,
    quadratic_features,
)
from dngo.surrogates.linear import Regression
from dngo.surrogates.network import Network
from dngo.surrogates.sections import TrainedNetworkSettings
from dngo.surrogates.training import backpropagate


def _network(d: int, sizes: tuple[int, ...], activation: str, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    shapes = list(zip((d, *sizes), sizes, strict=False))
    return Network(
        tuple(rng.standard_normal(s) for s in shapes),
        tuple(rng.standard_normal(s[1]) for s in shapes),
        activation,
    )


@pytest.mark.parametrize("activation", ["tanh", "relu_tanh", "relu"])
def test_what_is_climbed_is_equation_8(activation):
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 2)), rng.standard_normal(9)
    network = _network(2, (4, 3), activation)
    weights, biases = (
        [torch.as_tensor(p) for p in part] for part in (network.weights, network.biases)
    )
    phi = torch_features(torch.as_tensor(x), weights, biases, activation)
    logs = torch.tensor([0.3, 1.2], dtype=torch.float64)
    found = log_evidence(phi, torch.as_tensor(y), logs[0], logs[1])
    head = Regression.fit(network.features(x), y)
    assert float(found) == pytest.approx(head.log_evidence(np.exp(0.3), np.exp(1.2)), rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("activation", ["tanh", "relu_tanh", "relu"])
def test_backpropagation_is_the_gradient_of_the_loss(activation, loss):
    rng = np.random.default_rng(0)
    networks = [_network(2, (4, 3, 1), activation, seed) for seed in range(2)]
    parameters = [
        torch.as_tensor(np.stack([getattr(n, part)[layer] for n in networks]))
        for part in ("weights", "biases")
        for layer in range(3)
    ]
    parameters[3:] = [b[:, None] for b in parameters[3:]]
    x, targets = torch.as_tensor(rng.random((2, 9, 2))), torch.as_tensor(rng.random((2, 9)).round())
    gradients = [torch.full_like(p, torch.nan) for p in parameters]
    backpropagate(2 * x - 1, targets, parameters, gradients, activation, loss)

    leaves = [p.clone().requires_grad_() for p in parameters]
    total = torch.zeros(())
    for k in range(2):
        weights, biases = ([p[k] for p in leaves[:3]], [p[k, 0] for p in leaves[3:]])
        features = torch_features(x[k], weights[:2], biases[:2], activation)
        output = (features @ torch.cat([weights[2], biases[2][None]]))[:, 0]
        if loss == "squared":
            total = total + 0.5 * (output - targets[k]).square().mean()
        else:
            chance = torch.sigmoid(output)
            total = total - torch.where(targets[k] > 0, chance, 1 - chance).log().mean()
    for found, expected in zip(gradients, torch.autograd.grad(total, leaves), strict=True):
        torch.testing.assert_close(found, expected)


def test_training_on_the_evidence_raises_it():
    rng = np.random.default_rng(0)
    x = rng.random((40, 2))
    y = np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(40)
    start = _network(2, (10, 10), "tanh")
    trained = climb_evidence(start, x, y, TrainedNetworkSettings(steps=200))

    def best(network: Network) -> float:
        head = Regression.fit(network.features(x), y)
        return max(head.log_evidence(a, b) for a in (0.1, 1.0, 10.0) for b in (1.0, 10.0, 100.0))

    assert best(trained) > best(start) + 10


def test_half_horseshoe_is_a_density_with_a_spike_and_a_heavy_tail():
    total, _ = integrate.quad(lambda v: float(np.exp(log_horseshoe(np.array(v)))), 0, np.inf)
    assert total == pytest.approx(1.0, abs=1e-3)
    # The scale mixture that defines it, at a point: half-normal by a half-Cauchy deviation.
    mixture, _ = integrate.quad(
        lambda s: 2 * stats.norm.pdf(0.7, 0, s) * stats.halfcauchy.pdf(s), 1e-9, np.inf
    )
    assert np.exp(log_horseshoe(np.array(0.7))) == pytest.approx(mixture, rel=1e-5)
    values = log_horseshoe(np.array([1e-8, 1e-2, 1.0, 9.99, 10.01, 1e3]))
    assert np.all(np.diff(values) < 0)
    assert values[-1] - values[2] > -2.5 * np.log(1e3)


def test_coefficients_are_those_of_equation_9():
    rng = np.random.default_rng(0)
    x, centre, curvature = rng.random((5, 3)), rng.random(3), rng.random(3) + 0.1
    expected = 0.4 + np.sum(curvature * (x - centre) ** 2, axis=1)
    theta = coefficients(np.concatenate([[0.4], centre, np.log(curvature)]))
    np.testing.assert_allclose(quadratic_features(x) @ theta, expected)


@pytest.mark.parametrize("n", [3, 8, 30])
def test_statistics_of_the_quadratic_prior_are_sufficient(n):
    rng = np.random.default_rng(0)
    phi, q, y = rng.standard_normal((n, 6)), rng.standard_normal((n, 5)), rng.standard_normal(n)
    theta = rng.standard_normal(5)
    found = QuadraticStatistics.fit(phi, q, y).given(theta)
    expected = Regression.fit(phi, y - q @ theta)
    for alpha, beta in ((0.3, 2.0), (5.0, 0.1)):
        assert found.log_evidence(alpha, beta) == pytest.approx(
            expected.log_evidence(alpha, beta), rel=1e-8
        )
        for a, b in zip(
            found.posterior(np.array([alpha]), np.array([beta])),
            expected.posterior(np.array([alpha]), np.array([beta])),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_the_preprint_is_followed_to_the_letter():
    rng = np.random.default_rng(0)
    phi, y, alpha, beta = rng.standard_normal((7, 4)), rng.standard_normal(7), 0.7, 1.9
    found, preprint = Regression.fit(phi, y), Preprint()
    k = beta * phi.T @ phi + alpha**2 * np.eye(4)  # (7)
    m = beta * np.linalg.solve(k, phi.T @ y)  # (6)
    expected = -0.5 * np.log((2 * np.pi * alpha) ** 7 * 4 * beta * np.linalg.det(k))
    expected -= np.sum((y - phi @ m) ** 2) / (2 * alpha) + m @ m / (2 * beta)  # (8)
    assert preprint.log_evidence(found, alpha, beta) == pytest.approx(expected)
    mean, variance = preprint.posterior(found, np.array([alpha]), np.array([beta]))
    np.testing.assert_allclose(found.rotation @ mean[0], m)
    np.testing.assert_allclose(
        found.rotation @ np.diag(variance[0]) @ found.rotation.T, np.linalg.inv(k)
    )
    assert preprint.noise(np.array([alpha]), np.array([beta])) == pytest.approx(alpha**2)  # (5)

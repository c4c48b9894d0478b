"""Bases trained on the marginal likelihood: the alternative of section 3.1.2 (Snoek et al. 2015)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dngo.surrogates.network import Network
from dngo.surrogates.optimizer import Optimizer, views
from dngo.surrogates.sections import TrainedNetworkSettings
from dngo.surrogates.training import Tensors, deterministic, hidden_layers, train_networks
from dngo.types import Array, Rows

LOG_LIMIT = (
    # bounds of log alpha and log beta: without noise in the data, beta would go to infinity. Not
    # measured.
    12.0
)


def train_on_evidence(
    x: Array,
    targets: Array,
    training_rows: list[Rows],
    settings: TrainedNetworkSettings,
    **how: Any,
) -> list[Network]:
    """Networks that `train_networks` trains with these arguments. Afterwards they climb the
    evidence."""
    networks = train_networks(x, targets, training_rows, settings, **how)
    return [
        climb_evidence(network, x[rows], targets[rows], settings)
        for network, rows in zip(networks, training_rows, strict=True)
    ]


def climb_evidence(
    network: Network, x: Array, targets: Array, settings: TrainedNetworkSettings
) -> Network:
    """Climb the evidence (8) by Adam in all weights of a basis, alpha and beta (section 3.1.2).

    The paper names this alternative to a point estimate of all weights, and decides against it.
    Each step costs a D x D factorisation. It stays overconfident: a basis with enough freedom makes
    the evidence as large as it wants.

    x: (n, d) unit cube, targets: (n,) standardised. Starts from `network`, in float64. Each step
    uses all observations, since the evidence is not a sum over them.
    """
    if len(x) == 0:
        return network
    with deterministic(settings.device) as device:
        start = [*network.weights, *network.biases, np.array([0.0, 2.0])]
        parts = [p.shape for p in start]
        flat = torch.tensor(np.concatenate([p.ravel() for p in start]), device=device)
        decayed = sum(w.size for w in network.weights)
        optimizer = Optimizer(flat, decayed, settings.model_copy(update={"optimizer": "adam"}))
        inputs, y = (torch.as_tensor(a, device=device) for a in (x, targets))
        layers = len(network.weights)
        for step in range(settings.steps):
            *leaves, logs = views(flat.requires_grad_(), parts)
            phi = torch_features(inputs, leaves[:layers], leaves[layers:], network.activation)
            error = -log_evidence(phi, y, logs[0], logs[1]) / len(x)
            optimizer.step(torch.autograd.grad(error, flat)[0], step / settings.steps)
            with torch.no_grad():
                flat[-2:].clamp_(-LOG_LIMIT, LOG_LIMIT)
        *leaves, _ = views(flat.detach(), parts)
        weights, biases = leaves[:layers], leaves[layers:]
        return Network(
            tuple(w.detach().cpu().numpy() for w in weights),
            tuple(b.detach().cpu().numpy() for b in biases),
            network.activation,
        )


def torch_features(
    x: torch.Tensor, weights: Tensors, biases: Tensors, activation: str
) -> torch.Tensor:
    """`Network.features` in torch: x (n, d) unit cube -> (n, width + 1)."""
    w, b = [w[None] for w in weights], [b[None, None] for b in biases]
    hidden = hidden_layers(2.0 * x[None] - 1.0, w, b, activation)[-1][0]
    return torch.cat([hidden, torch.ones_like(hidden[:, :1])], dim=1)


def log_evidence(
    phi: torch.Tensor, y: torch.Tensor, log_alpha: torch.Tensor, log_beta: torch.Tensor
) -> torch.Tensor:
    """log p(y | phi, alpha, beta), equation (8): phi (n, D), y (n,)."""
    n, size = phi.shape
    alpha, beta = log_alpha.exp(), log_beta.exp()
    eye = torch.eye(size, dtype=phi.dtype, device=phi.device)
    factor = torch.linalg.cholesky(beta * phi.T @ phi + alpha * eye)
    mean = beta * torch.cholesky_solve((phi.T @ y)[:, None], factor)[:, 0]
    misfit = beta * (y - phi @ mean).square().sum() + alpha * mean.square().sum()
    fit = size * log_alpha + n * (log_beta - np.log(2 * np.pi)) - misfit
    return 0.5 * fit - factor.diagonal().log().sum()

"""BOHAMIANN: a neural network whose weights are sampled (Springenberg et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from dngo.errors import UserError
from dngo.papers.sampled import SampledBasis, SampledNetworks
from dngo.papers.sghmc import Sampler
from dngo.streams import Streams
from dngo.surrogates.network import inputs_of
from dngo.surrogates.problem import Fit, Problem
from dngo.surrogates.training import affine_tanh, deterministic
from dngo.types import Array, Progress

if TYPE_CHECKING:
    from dngo.papers.settings import Bohamiann


@dataclass(frozen=True, kw_only=True)
class PosteriorRules:
    """Priors of a network's parameters. No number was measured by itself."""

    embedding: int = 5  # L, the inputs that distinguish the tasks
    # The noise variance is a share of the targets' variance, with a log-normal prior. These are the
    # logarithm of its median, and the deviation of the logarithm.
    log_noise: float = float(np.log(1e-2))
    log_noise_deviation: float = 2.0
    # The precision of a layer's weights, divided by its number of inputs, has a gamma prior (here
    # an exponential).
    shape: float = 1.0
    rate: float = 1.0
    gibbs_every: int = 20  # steps between two draws of these precisions, which change slowly
    judged: int = 64  # observations at which the chains' predictions are compared; more cost time
    # A sampler with a larger mean square error there, in variances of the targets, has diverged. A
    # constant has 1. A vanilla chain of 30 points in two inputs had 0.2 at a step of 0.003, and 80
    # at 0.01.
    diverged: float = 9.0


RULES = PosteriorRules()


def fit_bohamiann(
    problem: Problem,
    settings: Bohamiann,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit[SampledBasis]:
    """One component: networks sampled from the posterior (3).

    If there are several tasks, an embedding tells the network which one it sees.
    """
    chains, streams = min(settings.chains, settings.posterior_samples), Streams.below(rng)
    with deterministic(settings.networks.device) as device:
        posterior = Posterior(problem, settings, chains, streams("posterior"), device)
        noise = torch.Generator(device).manual_seed(int(streams("sampler").integers(2**63)))
        sampler = Sampler(
            posterior.gradient,
            posterior.start(),
            noise=noise,
            step=settings.step,
            adapt=settings.adapt,
            noisy=posterior.minibatches,
        )

        def each(step: int) -> None:
            if step % RULES.gibbs_every == 0:
                posterior.gibbs(sampler.theta)
            if progress is not None and step % 200 == 0:
                progress(step / max(settings.burn_in, step + 1), "sampling networks")

        sampler.burn_in(settings.burn_in, each)
        count = -(-settings.posterior_samples // chains)
        states = sampler.samples(count, settings.thin, each)
        if posterior.diverged(states):
            raise UserError(
                f"surrogate.step: {settings.step:g} is too large for these observations: the sampler "
                f"diverged. Try {settings.step / 10:g}"
                + ("" if settings.adapt else ", or leave out adapt: false")
            )
        component = posterior.component(torch.cat(states)[: settings.posterior_samples])
        found = {"bnn_log_noise": float(np.log(component.noise[0]))}
        mixing = posterior.mixing(states)
        if mixing is not None:
            found["bnn_mixing"] = mixing
    return Fit((component,), found)


class Posterior:
    """The log posterior of C networks' parameters, one network a row, and its gradient."""

    def __init__(
        self,
        problem: Problem,
        settings: Bohamiann,
        chains: int,
        rng: np.random.Generator,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        networks, self.device, self.rng, self.chains = settings.networks, device, rng, chains
        self.n, self.d = problem.x.shape
        self.x = torch.as_tensor(inputs_of(problem.x), dtype=dtype, device=device)
        self.targets = torch.as_tensor(problem.targets, dtype=dtype, device=device)
        self.task: torch.Tensor | None = None
        if problem.task is not None:
            flags = np.eye(int(problem.task.max()) + 1)[problem.task]
            self.task = torch.as_tensor(flags, dtype=dtype, device=device)
        tasks = 0 if self.task is None else self.task.shape[1]
        # A minibatch's noise costs accuracy, so data that are hardly larger than a minibatch are
        # used whole.
        self.minibatches = self.n > 2 * networks.minibatch
        self.batch = networks.minibatch if self.minibatches else self.n
        outputs = 2 if settings.heteroscedastic else 1
        inputs = self.d + (RULES.embedding if tasks else 0)
        sizes = [inputs, *[networks.width] * networks.layers, outputs]
        self.layers = list(pairwise(sizes))
        self.shapes = [shape for a, b in self.layers for shape in ((a, b), (1, b))]
        self.shapes += [(tasks, RULES.embedding if tasks else 0), (1, 1)]  # embeddings, log noise
        self.counts = [a * b for a, b in self.shapes]
        # For the priors of all parameters.
        self.precision = torch.ones((chains, sum(self.counts)), dtype=dtype, device=device)
        self.centre = torch.zeros_like(self.precision[0])
        self.precision[:, -1], self.centre[-1] = 1.0 / RULES.log_noise_deviation**2, RULES.log_noise
        for (fan_in, _), block in zip(self.layers, self._weights(self.precision), strict=True):
            block[:] = fan_in

    def start(self) -> torch.Tensor:
        """A first state for each chain: all but the noise is drawn from the prior."""
        drawn = torch.as_tensor(self.rng.standard_normal(self.precision.shape)).to(self.precision)
        theta = drawn / self.precision.sqrt()
        theta[:, -1] = RULES.log_noise
        return theta

    def split(self, theta: torch.Tensor) -> list[torch.Tensor]:
        """Views (C, rows, columns) of every parameter."""
        parts = theta.split(self.counts, dim=1)
        return [p.view(len(theta), *s) for p, s in zip(parts, self.shapes, strict=True)]

    def _weights(self, theta: torch.Tensor) -> list[torch.Tensor]:
        return self.split(theta)[: 2 * len(self.layers) : 2]

    def gibbs(self, theta: torch.Tensor) -> None:
        """Draw the precision of each layer's weights given the weights."""
        blocks = zip(self.layers, self._weights(theta), self._weights(self.precision), strict=True)
        for (fan_in, fan_out), w, block in blocks:
            squares = w.double().square().sum(dim=(1, 2)).cpu().numpy() * fan_in
            shape, rate = RULES.shape + 0.5 * fan_in * fan_out, RULES.rate + 0.5 * squares
            drawn = fan_in * self.rng.standard_gamma(shape, len(w)) / rate
            block[:] = torch.as_tensor(drawn).to(block)[:, None, None]

    def gradient(self, theta: torch.Tensor) -> torch.Tensor:
        """The gradient of `energy`, on a random minibatch if that is smaller than the data."""
        rows = None
        if self.minibatches:
            drawn = self.rng.choice(self.n, self.batch, replace=False, shuffle=False)
            rows = torch.as_tensor(drawn, device=self.device)
        theta = theta.detach().requires_grad_()
        (found,) = torch.autograd.grad(self.energy(theta, rows).sum(), theta)
        return found

    def energy(self, theta: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """U = -log p(data, theta) of each network, up to constants: (C,).

        rows: a sample of the observations, which stands for all; None: all.
        """
        x, t, task = self.x, self.targets, self.task
        if rows is not None:
            x, t, task = x[rows], t[rows], None if task is None else task[rows]
        *layers, embedding, log_noise = self.split(theta)
        out = self._outputs(x, task, layers, embedding)
        log_variance = log_noise + out[..., 1:] if out.shape[-1] == 2 else log_noise
        errors = (out[..., :1] - t[:, None]).square() * torch.exp(-log_variance)
        fit = (errors + log_variance).sum(dim=(1, 2)) * (0.5 * self.n / len(x))
        return fit + 0.5 * (self.precision * (theta - self.centre).square()).sum(dim=1)

    def _outputs(
        self,
        x: torch.Tensor,
        task: torch.Tensor | None,
        layers: Sequence[torch.Tensor],
        embedding: torch.Tensor,
    ) -> torch.Tensor:
        """The outputs of all networks at x (n, d) of tasks (n, .): (C, n, 1 or 2)."""
        h = x.expand(len(embedding), *x.shape)
        if task is not None:
            h = torch.cat([h, task @ embedding], dim=2)
        for w, b in zip(layers[:-2:2], layers[1:-2:2], strict=True):
            h = affine_tanh(b, h, w)
        return torch.baddbmm(layers[-1], h, layers[-2])

    def component(self, theta: torch.Tensor) -> SampledBasis:
        """Task 0 of the networks sampled: theta (M, P)."""
        *layers, embedding, log_noise = (p.cpu().numpy().copy() for p in self.split(theta))
        weights, biases = layers[::2], layers[1::2]
        if self.task is not None:
            # With a single task, the embedding is only a bias of the first layer.
            biases[0] = biases[0] + embedding[:, :1] @ weights[0][:, self.d :]
            weights[0] = np.ascontiguousarray(weights[0][:, : self.d])
        network = SampledNetworks(tuple(weights), tuple(biases))
        if biases[-1].shape[-1] == 2:
            biases[-1][..., 1:] += log_noise
            own = slice(None) if self.task is None else self.task[:, 0].cpu().numpy() == 1
            found = network.features(0.5 * (self.x.cpu().numpy()[own].astype(float) + 1.0))
            noise = float(np.exp(found[:, len(theta) :]).mean())
        else:
            noise = float(np.exp(log_noise.astype(float)).mean())
        return SampledBasis.of(network, noise)

    def _predicted(self, states: Sequence[torch.Tensor]) -> Array:
        """Predictions of the networks of states (C, P) at some observations: (states, C, rows)."""
        task = None if self.task is None else self.task[: RULES.judged]
        found = []
        for theta in states:
            *layers, embedding, _ = self.split(theta)
            found.append(self._outputs(self.x[: RULES.judged], task, layers, embedding)[..., 0])
        return torch.stack(found).cpu().numpy().astype(float)

    def diverged(self, states: Sequence[torch.Tensor]) -> bool:
        """Whether the networks predict their own observations far worse than a constant would."""
        errors = self._predicted(states) - self.targets[: RULES.judged].cpu().numpy()
        return not np.square(errors.mean(axis=(0, 1))).mean() < RULES.diverged

    def mixing(self, states: Sequence[torch.Tensor]) -> float | None:
        """How far the chains disagree: the potential scale reduction of their predictions.

        By Gelman and Rubin, averaged over observations; 1 if all chains sample the same. The two
        halves of a single chain count as two chains. None if a chain has fewer than two samples.
        states: (C, P) each.
        """
        f = self._predicted(states)
        if self.chains == 1:
            half = len(f) // 2
            f = np.concatenate([f[:half], f[-half:]], axis=1) if half else f[:0]
        if len(f) < 2:
            return None
        within = f.var(axis=0, ddof=1).mean(axis=0)
        between = f.mean(axis=0).var(axis=0, ddof=1)
        return float(np.sqrt(1.0 + np.mean(between / np.maximum(within, 1e-300))))

"""Turns gradients into steps: Adam, SGD, and Adam in rotated coordinates (`soap`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from dngo.rules import current
from dngo.surrogates.sections import TrainedNetworkSettings

WIDEST = 128  # side of a matrix that is decomposed: its cost is cubic


def views(flat: torch.Tensor, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """All parameters as views of one vector, so that a step takes few operations."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    return [part.view(tuple(shape)) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


class Optimizer:
    """Adam with decoupled decay (Loshchilov and Hutter 2019), or SGD with momentum and an L2 penalty.

    flat: all parameters, changed in place; the first `decayed` of them decay. The rate falls along a
    cosine. torch's own optimizer loads a compiler at its first step: 1.8 CPU seconds, as much as a fit
    takes.
    """

    def __init__(self, flat: torch.Tensor, decayed: int, settings: TrainedNetworkSettings) -> None:
        self.flat, self.settings, self.steps = flat, settings, 0
        self.decay = torch.zeros_like(flat)
        self.decay[:decayed] = settings.weight_decay
        self.mean, self.square = torch.zeros_like(flat), torch.zeros_like(flat)

    @torch.no_grad()
    def step(self, gradient: torch.Tensor, done: float) -> None:
        """done: share of all steps before this one."""
        rate = self._rate(done)
        if self.settings.optimizer == "sgd":
            gradient = gradient.addcmul(self.decay, self.flat)
            self.mean.mul_(self.settings.momentum or 0.0).add_(gradient)
            self.flat.add_(self.mean, alpha=-rate)
            return
        root, size = self._adam(gradient, rate)
        self.flat.addcdiv_(self.mean, root, value=-size)

    def _rate(self, done: float) -> float:
        return 0.5 * self.settings.learning_rate * (1.0 + math.cos(math.pi * done))

    def _adam(self, gradient: torch.Tensor, rate: float) -> tuple[torch.Tensor, float]:
        """Decays the parameters and updates the averages. Returns a root and a factor: the step is
        the mean divided by the root, times the factor."""
        self.steps += 1
        (first, second), epsilon = current().training.betas, current().training.epsilon
        self.flat.addcmul_(self.flat, self.decay, value=-rate)
        self.mean.lerp_(gradient, 1.0 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        root = self.square.sqrt().mul_((1.0 - second**self.steps) ** -0.5).add_(epsilon)
        return root, rate / (1.0 - first**self.steps)


class Rotated(Optimizer):
    """Adam in the eigenbasis of the gradients' second moments (SOAP, Vyas et al. 2024).

    Adam treats each weight by itself, as if weights did not act together. Here the gradient G of
    each matrix is first turned by the eigenvectors of the averages of G G^T and G^T G. Networks
    then need a small part of the steps (benchmarks/results/fit_size.csv). Biases are not turned.

    shapes: of all parameters: the weights (k, inputs, outputs) of k networks, layer by layer, then the
    biases.
    """

    def __init__(
        self,
        flat: torch.Tensor,
        decayed: int,
        settings: TrainedNetworkSettings,
        shapes: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(flat, decayed, settings)
        self.turned, self.moved = torch.zeros_like(flat), torch.zeros_like(flat)
        self.bases = [_Basis(shape, flat) for shape in shapes[: len(shapes) // 2]]
        self.shapes = shapes
        # The parts of these vectors that are turned, as a matrix for each basis.
        self.means, self.turns, self.moves = (
            views(vector, shapes) for vector in (self.mean, self.turned, self.moved)
        )

    @staticmethod
    def pays(settings: TrainedNetworkSettings, rows: int) -> bool:
        """Whether networks that learn from so many rows are trained so: by `soap`, or if they are many."""
        rules = current().training
        has_many = settings.optimizer == "adam" and rows > rules.most_straight
        is_narrow = settings.width <= WIDEST
        return is_narrow and (has_many or settings.optimizer == "soap")

    @torch.no_grad()
    def step(self, gradient: torch.Tensor, done: float) -> None:
        rules, own = current().training, views(gradient, self.shapes)
        self.turned.copy_(gradient)
        for basis, g, turned, mean in zip(self.bases, own, self.turns, self.means, strict=False):
            if self.steps % rules.averaged_every == 0:
                basis.average(g)
            if self.steps % rules.turned_every == 0:
                basis.renew(mean)
            turned.copy_(basis.into(g))
        root, size = self._adam(self.turned, self._rate(done))
        torch.div(self.mean, root, out=self.moved)
        for basis, moved in zip(self.bases, self.moves, strict=False):
            moved.copy_(basis.out_of(moved))
        self.flat.sub_(self.moved, alpha=size)


class _Basis:
    """The eigenvectors of the averages of G G^T (k, a, a) and G^T G (k, b, b), for gradients G (k, a, b).

    A side with one column, or with too many columns to decompose in time, is not turned.
    """

    def __init__(self, shape: Sequence[int], like: torch.Tensor) -> None:
        k, *sides = shape
        self.averages, self.vectors = [], []
        for size in sides:
            small = 1 < size <= WIDEST
            eye = torch.eye(size if small else 0, dtype=like.dtype, device=like.device)
            self.averages.append(torch.zeros_like(eye).repeat(k, 1, 1))
            self.vectors.append(eye.repeat(k, 1, 1))

    def average(self, g: torch.Tensor) -> None:
        """Take another gradient into the averages."""
        share = current().training.newest
        for average, own in zip(self.averages, (g, g.mT), strict=True):
            if average.numel():
                average.lerp_(torch.bmm(own, own.mT), share)

    def renew(self, mean: torch.Tensor) -> None:
        """Decompose the current averages. mean: (k, a, b), turned to the new basis in place."""
        plain = self.out_of(mean)
        # If the training diverged, the caller repeats it at half the learning rate.
        self.vectors = [
            torch.linalg.eigh(average)[1] if average.isfinite().all() else vectors
            for average, vectors in zip(self.averages, self.vectors, strict=True)
        ]
        mean.copy_(self.into(plain))

    def into(self, g: torch.Tensor) -> torch.Tensor:
        """A matrix (k, a, b) in this basis."""
        left, right = self.vectors
        g = torch.bmm(left.mT, g) if left.numel() else g
        return torch.bmm(g, right) if right.numel() else g

    def out_of(self, turned: torch.Tensor) -> torch.Tensor:
        """The inverse of `into`."""
        left, right = self.vectors
        turned = torch.bmm(left, turned) if left.numel() else turned
        return torch.bmm(turned, right.mT) if right.numel() else turned

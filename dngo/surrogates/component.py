"""A component of the posterior over functions. All questions to models use this interface.

Predictions, fantasies of pending points, and functions drawn from the posterior ask every component the
same questions. A new kind of surrogate answers the first two (`latent`, `save`), inherits the other
answers, and overrides those that it knows better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dngo.surrogates.numerics import cosine
from dngo.types import Array, Group


class Component(ABC):
    """One component of a posterior over functions: Gaussian, for each of H hyperparameter samples.

    noise: (H,) variance of an observation, in units of the targets; the mean variance, if it
    depends on the point (`noise_at`). weight: of the component in the mixture that is the
    posterior. A subclass has a name in files (`dngo.surrogates.storage.stored_as`, or an entry
    point of the group `dngo.components`) and a class method `load(group)`.
    """

    noise: Array
    weight: float
    stored_as: ClassVar[str]

    def features(self, x: Array) -> Array:
        """Features z (n, .) of points x (n, d) in the unit cube, for the other methods."""
        return x

    @property
    def is_known(self) -> bool:
        """Whether this process has the code that it needs."""
        return True

    @abstractmethod
    def latent(self, z: Array) -> tuple[Array, Array]:
        """Mean and variance of the function, without noise: z (n, .) -> two (H, n)."""

    @abstractmethod
    def save(self, group: Group) -> None:
        """Write everything as datasets and attributes of a group; `load` then gives the same bits
        again."""

    def noise_at(self, z: Array) -> Array:
        """Variance of an observation: z (n, .) -> (H, n), or (H, 1) if it is the same everywhere."""
        return self.noise[:, None]

    def posterior_covariance(self, a: Array, b: Array) -> Array:
        """Covariance of the function between features a (n, .) and b (m, .): (H, n, m).

        By default the correlation of two points depends on the distance of their features:
        `exp(-distance^2 / 2)`, in units of `LENGTH` times the root of the features' number.
        """
        squares = np.square(a[:, None] - b[None]).sum(axis=2) / (LENGTH**2 * max(a.shape[1], 1))
        left, right = (np.sqrt(self.latent(z)[1]) for z in (a, b))
        return left[:, :, None] * right[:, None] * np.exp(-0.5 * squares)

    def predict(self, z: Array) -> tuple[Array, Array]:
        """Predictive mean and variance, noise included: z (n, .) -> two (n, H)."""
        mean, variance = self.latent(z)
        return mean.T, (variance + self.noise_at(z)).T

    @property
    def stack(self) -> Hashable:
        """Components of the same stack are conditioned together (`conditioned`), which saves time."""
        return id(self)

    def conditioned(self, components: Sequence[Component]) -> Conditioned:
        """All components of this one's stack, ready for pending points."""
        return Process(self)

    def draw(self, h: int, boldness: Array, rng: np.random.Generator) -> Functions:
        """Functions of sample h, one for each of boldness (count,), which multiplies its deviation from the
        mean.

        By default it is the mean plus the deviation times a smooth function of zero mean and unit
        variance.
        """
        return Modulated.draw(self, h, boldness, rng)


# length of the default correlation, for each input; this package's kinds have their own
LENGTH = 0.3
WAVES = 128  # of the default draw


class Functions(Protocol):
    """Functions drawn from one sample of a component."""

    def __call__(self, x: Array) -> Array:
        """Every function at every point: x (n, d) -> (count, n)."""

    def own(self, x: Array) -> Array:
        """Each function at its own points: x (count, n, d) -> (count, n)."""


@dataclass(frozen=True)
class Modulated:
    """The default draw: functions m(x) + boldness s(x) g(x), where g is a sum of random waves.

    seed: of the waves' frequencies, one number for each input. amplitudes: (count, 2
    WAVES) of their cosines and sines.
    """

    component: Component
    h: int
    boldness: Array
    seed: int
    amplitudes: Array

    @classmethod
    def draw(
        cls, component: Component, h: int, boldness: Array, rng: np.random.Generator
    ) -> Modulated:
        amplitudes = rng.standard_normal((len(boldness), 2 * WAVES)) / np.sqrt(WAVES)
        return cls(component, h, boldness, int(rng.integers(2**63)), amplitudes)

    def __call__(self, x: Array) -> Array:
        mean, deviation, waves = self._at(x)
        return mean + self.boldness[:, None] * deviation * (self.amplitudes @ waves.T)

    def own(self, x: Array) -> Array:
        shape = x.shape[:2]
        mean, deviation, waves = (
            z.reshape(*shape, -1) for z in self._at(x.reshape(-1, x.shape[2]))
        )
        wave = np.matmul(waves, self.amplitudes[:, :, None])[..., 0]
        return np.asarray(mean[..., 0] + self.boldness[:, None] * deviation[..., 0] * wave)

    def _at(self, x: Array) -> tuple[Array, Array, Array]:
        """Mean and deviation of the sample's function, and the waves, at points x (n, d)."""
        mean, variance = (
            part[self.h] for part in self.component.latent(self.component.features(x))
        )
        d = max(x.shape[1], 1)
        normal = np.random.default_rng(self.seed).standard_normal((x.shape[1], WAVES))
        angles = x @ (normal / (LENGTH * np.sqrt(d)))
        return mean, np.sqrt(variance), cosine(np.hstack([angles, angles - 0.5 * np.pi]))


class Conditioned(ABC):
    """C components of one stack, given everything pending, with the incumbents of their fantasies.

    noise: (C, H); weight: (C,), which sum to 1. `dngo.acquisition.fantasies` sets best: (C, H, 1 or
    S), and
    count: S, of the fantasies. Features z of n points are (C, n, .).
    """

    noise: Array
    weight: Array
    best: Array
    count: int
    shape: tuple[int, int]  # C and the number of features, known after the first call

    @abstractmethod
    def features(self, x: Array) -> Array:
        """x: (n, d) -> z: (C, n, .)."""

    @abstractmethod
    def moments(self, z: Array) -> tuple[Array, Array]:
        """z: (C, n, .) -> means (C, H, 1 or S, n), variances (C, H, n)."""

    @abstractmethod
    def at(self, z: Array) -> tuple[Array, Array, Array]:
        """One point, z: (C, 1, .) -> means (C, H, 1 or S), variances (C, H), and the argument `taken` of
        `condition`."""

    @abstractmethod
    def noise_at(self, z: Array) -> Array:
        """Variance of an observation: z (C, n, .) -> (C, H, n), or (C, H, 1)."""

    @abstractmethod
    def condition(self, z: Array, taken: Array, surprise: Array, deviation: Array) -> None:
        """Make the point pending. surprise: (C, H, S) of its outcomes, in units of deviation (C, H)."""


class Process(Conditioned):
    """A component, given everything pending. Each pick adds a row to the Cholesky factor of the
    pending points.

    A candidate needs its earlier mean and variance, and its covariances with the pending points.
    With the factor, these give how much of its variance each pending point takes away. The cost of
    a candidate grows with the square of the number of pending points.
    """

    def __init__(self, component: Component) -> None:
        self.component = component
        self.noise = component.noise[None]
        self.weight = np.array([component.weight])
        h = len(component.noise)
        self.pending: Array | None = None
        self.inverse = np.empty((h, 0, 0))  # the rows of the pending points' Cholesky factor
        self.surprise = np.empty((h, 0, 0))  # (H, J, S)

    def features(self, x: Array) -> Array:
        return self.component.features(x)[None]

    def moments(self, z: Array) -> tuple[Array, Array]:
        mean, variance = self.component.latent(z[0])
        if self.pending is None:
            return mean[None, :, None], variance[None]
        taken = self._taken(z[0])
        means = mean[:, None] + self.surprise.transpose(0, 2, 1) @ taken
        return means[None], (variance - np.einsum("hjn,hjn->hn", taken, taken))[None]

    def at(self, z: Array) -> tuple[Array, Array, Array]:
        mean, variance = self.component.latent(z[0])
        if self.pending is None:
            return mean[None], variance.T, np.empty((1, len(mean), 0))
        taken = self._taken(z[0])[None, :, :, 0]
        means = mean[None] + (taken[..., None, :] @ self.surprise)[..., 0, :]
        return means, variance.T - np.vecdot(taken, taken), taken

    def noise_at(self, z: Array) -> Array:
        return self.component.noise_at(z[0])[None]

    def condition(self, z: Array, taken: Array, surprise: Array, deviation: Array) -> None:
        h, j = len(self.inverse), self.inverse.shape[1]
        bordered = np.zeros((h, j + 1, j + 1))
        bordered[:, :j, :j] = self.inverse
        bordered[:, j, j] = 1.0 / deviation[0]
        row = (taken[0][:, None] @ self.inverse)[:, 0]
        bordered[:, j, :j] = -row / deviation[0][:, None]
        self.inverse = bordered
        before = self.surprise if j else np.empty((h, 0, surprise.shape[2]))
        self.surprise = np.concatenate([before, surprise[0][:, None]], axis=1)
        self.pending = z[0] if self.pending is None else np.concatenate([self.pending, z[0]])

    def _taken(self, z: Array) -> Array:
        """L^-1 times the covariance of the pending points with z (n, .): (H, J, n)."""
        assert self.pending is not None
        return self.inverse @ self.component.posterior_covariance(self.pending, z)

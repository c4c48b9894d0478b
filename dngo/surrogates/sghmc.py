"""Scale-adapted stochastic gradient Hamiltonian Monte Carlo (Springenberg et al. 2016, section 4).

Generic: it samples from exp(-U) given estimates of the gradient of U. Many chains run side by side,
as rows of one matrix, and share what is adapted: averaged over chains as well as over time, the
scales are known sooner, and a gradient without minibatch noise does not mislead them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of one floating-point type, that of the start
Gradient = Callable[[Array], Array]

STEP = 1e-2  # epsilon, "a robust choice" for every problem
DECAY = 0.05  # of the momentum at each step: epsilon V^-1/2 C
LEAST = 1e-12  # of an element of V


class Sampler:
    """C chains of P parameters each.

    gradient: theta (C, P) -> estimates of the gradient of U at each row, (C, P).
    start: (C, P), the first state, of the floating-point type in which to calculate.
    adapt: whether `burn_in` adapts the scales, equations (8) and (9). Without, V stays 1 and these
    are the equations (7) of Chen, Fox and Guestrin (2014), whose step the caller has to tune.
    noisy: whether the gradients are of minibatches, so that B-hat = step V / 2 is to be taken from
    the noise that is injected; exact gradients have no noise of their own.
    """

    def __init__(
        self,
        gradient: Gradient,
        start: Array,
        *,
        rng: np.random.Generator,
        step: float = STEP,
        decay: float = DECAY,
        adapt: bool = True,
        noisy: bool = False,
    ) -> None:
        self.gradient, self.rng, self.noisy = gradient, rng, noisy
        self.step, self.decay, self.adapt = step, decay, adapt
        self.theta = start.copy()
        self.velocity = np.zeros_like(start)
        self.dtype: Any = start.dtype
        self.square = np.ones(start.shape[1], dtype=self.dtype)  # V
        self.window = np.ones_like(self.square)  # tau
        self.smooth = np.zeros_like(self.square)  # g
        self._coefficients()

    def burn_in(self, steps: int, each: Callable[[int], None] | None = None) -> None:
        """Steps whose states are thrown away. each: called with the step's number before it."""
        for i in range(steps):
            if each is not None:
                each(i)
            self._advance(adapt=self.adapt)

    def samples(
        self, count: int, thin: int, each: Callable[[int], None] | None = None
    ) -> list[Array]:
        """`count` states (C, P), `thin` steps apart, at scales that stay fixed."""
        self._coefficients()
        found = []
        for i in range(count * thin):
            if each is not None:
                each(i)
            self._advance(adapt=False)
            if i % thin == thin - 1:
                found.append(self.theta.copy())
        return found

    def _advance(self, *, adapt: bool) -> None:
        gradient = self.gradient(self.theta)
        if adapt:
            self._adapt(gradient)
        noise = self.rng.standard_normal(self.theta.shape, dtype=self.dtype)
        noise *= self._noise
        self.velocity *= self._keep
        self.velocity -= self._pull * gradient
        self.velocity += noise
        self.theta += self.velocity

    def _adapt(self, gradient: Array) -> None:
        """Equations (8) and (9), with averages over the chains in place of one chain's gradient."""
        rate = 1.0 / self.window
        self.smooth += rate * (gradient.mean(axis=0) - self.smooth)
        self.square += rate * ((gradient * gradient).mean(axis=0) - self.square)
        np.maximum(self.square, LEAST, out=self.square)
        self.window += 1.0 - self.smooth**2 / self.square * self.window
        np.maximum(self.window, 1.0, out=self.window)
        self._coefficients(fixed=False)

    def _coefficients(self, *, fixed: bool = True) -> None:
        """The factors of equation (10), elementwise.

        fixed: whether V stays as it is from here on. Then the decay is raised where the noise to be
        injected would else be negative: the constraint on C and epsilon below the equation. At a
        decay of 1 the momentum is forgotten at once, and a gradient noisier than that injects more
        than it should.
        """
        scale = self.square**-0.5
        own = self.step**2 if self.noisy else 0.0  # of the gradient's noise, as a share of step^2
        decay = np.clip(0.5 * own / scale, self.decay, 1.0) if fixed else self.decay
        self._keep = 1.0 - decay
        self._pull = self.step**2 * scale
        variance = np.maximum(2.0 * self.step**2 * scale * decay - self.step**2 * own, 0.0)
        self._noise = np.sqrt(variance)

"""Scale-adapted stochastic gradient Hamiltonian Monte Carlo (Springenberg et al. 2016, section 4).

Generic: it samples from exp(-U), given estimates of the gradient of U. Many chains run side by side as rows
of one matrix and share the adapted scales. As averages over chains and time the scales are known sooner,
and a gradient without minibatch noise does not mislead them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class SamplerRules:
    """The sampler's numbers. The step and the decay are of the paper's section 4, the others are ours."""

    step: float = 1e-2  # epsilon, "a robust choice" for every problem
    decay: float = 0.05  # of the momentum at each step: epsilon V^-1/2 C
    # Least element of V: a gradient that is always zero needs a scale as well. Not measured.
    least: float = 1e-12
    # Least element of tau. The paper names no bound, and a single chain with exact gradients comes to 1.
    # V is then the square of the newest gradient, and the chain diverges. The momentum remembers 1 / decay
    # steps: over fewer the gradients hardly differ. With 30 points in two inputs (one chain, six seeds) the
    # error was 30 deviations for a least tau of 1, 0.26 for 2, and 0.15 for this one.
    shortest: float = 20.0


RULES = SamplerRules()


class Sampler:
    """C chains of P parameters each.

    gradient: theta (C, P) -> estimates of the gradient of U at each row, (C, P).
    start: (C, P), the first state; all calculations use its type and device.
    noise: of the momentum, on that device.
    adapt: whether `burn_in` adapts the scales, equations (8) and (9). Otherwise V stays 1 and these are the
    equations (7) of Chen, Fox and Guestrin (2014), whose step the caller has to tune.
    noisy: whether the gradients are of minibatches. Then B-hat = step V / 2 is subtracted from the injected
    noise; exact gradients have no noise of their own.
    """

    def __init__(
        self,
        gradient: Callable[[torch.Tensor], torch.Tensor],
        start: torch.Tensor,
        *,
        noise: torch.Generator,
        step: float = RULES.step,
        decay: float = RULES.decay,
        adapt: bool = True,
        noisy: bool = True,
    ) -> None:
        self.gradient, self.generator = gradient, noise
        self.step, self.decay, self.adapt, self.noisy = step, decay, adapt, noisy
        self.theta = start.clone()
        self.velocity = torch.zeros_like(self.theta)
        self.square = torch.ones_like(start[0])  # V
        self.window = torch.ones_like(start[0])  # tau
        self.smooth = torch.zeros_like(start[0])  # g
        self._adapted = False
        self._coefficients()

    def burn_in(self, steps: int, each: Callable[[int], None] | None = None) -> None:
        """Steps whose states are dropped. each: called before every step, with its number."""
        for i in range(steps):
            if each is not None:
                each(i)
            self._advance(adapt=self.adapt)

    def samples(
        self, count: int, thin: int, each: Callable[[int], None] | None = None
    ) -> list[torch.Tensor]:
        """`count` states (C, P), `thin` steps apart, at scales that stay fixed.

        Without a burn-in the first gradient sets the scales. At scales of 1 most posteriors diverge.
        """
        if self.adapt and not self._adapted:
            self._adapt(self.gradient(self.theta))
        self._coefficients()
        found = []
        for i in range(count * thin):
            if each is not None:
                each(i)
            self._advance(adapt=False)
            if i % thin == thin - 1:
                found.append(self.theta.clone())
        return found

    def _advance(self, *, adapt: bool) -> None:
        gradient = self.gradient(self.theta)
        if adapt:
            self._adapt(gradient)
        noise = torch.empty_like(self.theta).normal_(generator=self.generator)
        self.velocity.mul_(self._keep).addcmul_(self._pull, gradient, value=-1)
        self.theta += self.velocity.addcmul_(self._noise, noise)

    def _adapt(self, gradient: torch.Tensor) -> None:
        """Equations (8) and (9), with averages over the chains instead of one chain's gradient.

        All three are updated at once, each by the previous values of the others.
        """
        rate = 1.0 / self.window
        window = self.window + 1.0 - self.smooth.square() / self.square * self.window
        self.smooth += rate * (gradient.mean(dim=0) - self.smooth)
        self.square += rate * (gradient.square().mean(dim=0) - self.square)
        self.square.clamp_(min=RULES.least)
        self.window = window.clamp(min=RULES.shortest)
        self._adapted = True
        self._coefficients(fixed=False)

    def _coefficients(self, *, fixed: bool = True) -> None:
        """The factors of equation (10), elementwise. The paper's C I with epsilon V^-1/2 C = 0.05 I has an
        element of C for each parameter.

        fixed: whether V stays as it is from here on. Then the decay is raised where the noise to inject
        would be negative, to V^-1 C >= epsilon / 2. The paper asks for twice that, which damps more than
        needed: on 1,500 points in two inputs the error was 0.015 deviations instead of 0.009 (ten chains).
        The decay stops at 1, where the momentum is forgotten at once: a gradient noisier than that injects
        more than it should. Exact gradients have no noise, and no constraint.
        """
        scale = self.square.rsqrt()
        own = self.step**2 if self.noisy else 0.0  # the gradient's noise, as a share of step^2
        decay = torch.full_like(scale, self.decay)
        if fixed:
            decay = (0.5 * own / scale).clamp(self.decay, 1.0)
        self._keep = 1.0 - decay
        self._pull = self.step**2 * scale
        variance = 2.0 * self.step**2 * scale * decay - self.step**2 * own
        self._noise = variance.clamp(min=0.0).sqrt()

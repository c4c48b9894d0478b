"""Training networks with PyTorch, on a GPU: the same steps as in `network`, on another device.

Worth it for many observations and wide networks; for the default ones a processor's single thread is
as fast, and gives the same bits everywhere. Sums are taken in another order here, so that weights drift
apart in the last of float32's digits and, step by step, further; what is predicted agrees to within a
tenth of its deviation.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dngo.errors import UserError
from dngo.surrogates.settings import TrainedNetworkSettings

if TYPE_CHECKING:
    import torch

Single = NDArray[np.float32]
AT_ONCE = 200  # steps whose minibatches are sent together


def train(
    params: list[Single],
    decays: list[Single],
    x: Single,
    targets: Single,
    draw: Callable[[], NDArray[np.intp]],
    rates: NDArray[np.float64],
    settings: TrainedNetworkSettings,
    *,
    loss: Literal["squared", "logistic"],
    device: str,
    progress: Callable[[int], None],
) -> None:
    """Take a step for each of `rates`, changing `params` in place.

    params: (k, inputs, outputs) and (k, 1, outputs) of each layer in turn; decays: as them. x: (n, d);
    targets: (n,). draw: the rows (k, b) of the next minibatch. device: a name that PyTorch knows.
    Raises UserError where it is "cuda" and PyTorch sees no GPU.
    """
    import torch

    if device == "cuda":
        if not torch.cuda.is_available():
            raise UserError(
                f"networks.device: cuda, and PyTorch {torch.__version__} sees no GPU on "
                f"{socket.gethostname()}; give the fit a GPU (resources.fit), or set device: cpu"
            )
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)

    def send(array: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(array, device=device)

    weights = [send(p.copy()).requires_grad_() for p in params]
    decay, inputs, wanted = [send(d) for d in decays], send(x), send(targets)
    first = [torch.zeros_like(w) for w in weights]
    second = [torch.zeros_like(w) for w in weights]
    for start in range(0, len(rates), AT_ONCE):
        some = rates[start : start + AT_ONCE]
        rows = send(np.stack([draw() for _ in some]))
        for i, rate in enumerate(some.tolist()):
            gradient = torch.autograd.grad(
                _loss(weights, inputs[rows[i]], wanted[rows[i]], settings, loss), weights
            )
            with torch.no_grad():
                if settings.optimizer == "sgd":
                    _momentum(weights, gradient, first, decay, rate, settings.momentum or 0.0)
                else:
                    _adam(weights, gradient, first, second, decay, rate, start + i + 1)
        progress(start + len(some))
    for kept, weight in zip(params, weights, strict=True):
        kept[...] = weight.detach().cpu().numpy()


def _loss(
    weights: list[torch.Tensor],
    x: torch.Tensor,
    targets: torch.Tensor,
    settings: TrainedNetworkSettings,
    loss: str,
) -> torch.Tensor:
    """The sum over networks of the mean loss. x: (k, b, d), targets: (k, b)."""
    import torch

    from dngo.surrogates.network import is_relu

    h = x
    for layer in range(settings.layers):
        h = torch.baddbmm(weights[2 * layer + 1], h, weights[2 * layer])
        relu = is_relu(settings.activation, layer, settings.layers)
        h = torch.relu(h) if relu else torch.tanh(h)
    output = torch.baddbmm(weights[-1], h, weights[-2])[..., 0]
    if loss == "logistic":
        each = torch.nn.functional.softplus(output) - targets * output
    else:
        each = 0.5 * (output - targets) ** 2
    return each.mean(dim=1).sum()


def _adam(
    weights: list[torch.Tensor],
    gradient: tuple[torch.Tensor, ...],
    first: list[torch.Tensor],
    second: list[torch.Tensor],
    decay: list[torch.Tensor],
    rate: float,
    step: int,
) -> None:
    for w, g, m, v, d in zip(weights, gradient, first, second, decay, strict=True):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        corrected = (v / (1 - 0.99**step)).sqrt_().add_(1e-8)
        w.addcdiv_(m, corrected, value=-rate / (1 - 0.9**step))
        w.sub_(d * w, alpha=rate)


def _momentum(
    weights: list[torch.Tensor],
    gradient: tuple[torch.Tensor, ...],
    velocity: list[torch.Tensor],
    decay: list[torch.Tensor],
    rate: float,
    momentum: float,
) -> None:
    for w, g, v, d in zip(weights, gradient, velocity, decay, strict=True):
        v.mul_(momentum).sub_(g + d * w, alpha=rate)
        w.add_(v)

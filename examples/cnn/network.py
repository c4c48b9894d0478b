"""A convolutional network after Snoek et al. 2015 (table 3 and appendix A), in PyTorch, for small images.

Every second one of the paper's eight convolutions is left out, because so many layers do not learn
in the few hundred steps of an evaluation here.

Images are corrupted at random, anew in each epoch. A prediction is averaged over several
corruptions (appendix A.3). objective.py explains the hyperparameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
FILTERS = (16, 32)  # filters before and after the first pooling: a sixth of the paper's
CROP = 8  # width in pixels of the window that the network sees
BATCH = 32
ANNEALED = (0.65, 0.95)  # after these shares of the epochs the learning rate falls to a tenth
SAMPLES = 5  # a prediction is averaged over this many corruptions of an image
# mean and deviation of the pixels, roughly; the network sees them standardised
CENTRE, SPREAD = 0.4, 0.25
UNTRAINED = float(np.log(CLASSES))  # loss of a network that knows nothing, nats per image


class Diverged(Exception):
    """The loss is no number, or far above the loss of a network that knows nothing."""


def network(p: dict[str, Any], generator: torch.Generator) -> nn.Sequential:
    """Convolutions, two poolings with dropout, and the mean over the remaining image (table 3).

    A layer's weights are drawn with a deviation that is divided by the root of the number of a
    filter's weights (appendix A.2).
    """
    few, many = FILTERS

    def pooling(dropout: float) -> list[nn.Module]:
        return [nn.MaxPool2d(3, stride=2, padding=1), nn.Dropout(dropout)]

    def convolution(before: int, filters: int, window: int = 3) -> list[nn.Module]:
        return [nn.Conv2d(before, filters, window, padding=window // 2), nn.ReLU()]

    model = nn.Sequential(
        *convolution(3, few),
        *pooling(p["dropout_1"]),
        *convolution(few, many),
        *pooling(p["dropout_2"]),
        *convolution(many, many),
        nn.Conv2d(many, CLASSES, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    for layer in convolutions:
        deviation = p["input_deviation" if layer is convolutions[0] else "deviation"]
        inputs = layer.weight[0].numel()
        nn.init.normal_(layer.weight, 0, deviation / inputs**0.5, generator=generator)
        nn.init.zeros_(layer.bias)
    return model


def to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue in [0, 6), saturation and value in [0, 1] of images x: (n, 3, h, w); each (n, h, w)."""
    value, which = x.max(dim=1)
    chroma = value - x.min(dim=1).values
    r, g, b = x.unbind(1)
    divisor = torch.where(chroma > 0, chroma, 1)
    sectors = torch.stack([(g - b) / divisor, (b - r) / divisor + 2, (r - g) / divisor + 4])
    hue = sectors.gather(0, which[None])[0] % 6
    return hue, chroma / torch.where(value > 0, value, 1), value


def to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """The inverse of `to_hsv`: (n, 3, h, w)."""
    channels = []
    for n in (5, 3, 1):  # red, green, blue: each is full in its own sector of hues
        k = (n + hue) % 6
        channels.append(value * (1 - saturation * torch.minimum(k, 4 - k).clamp(0, 1)))
    return torch.stack(channels, dim=1)


def corrupted(x: Tensor, p: dict[str, Any], generator: torch.Generator) -> Tensor:
    """Images x: (n, 3, side, side) as the network sees them, drawn anew: (n, 3, 8, 8); appendix A.1."""

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(len(x), 1, 1, generator=generator)

    hue, saturation, value = to_hsv(x)
    hue = (hue + uniform(-1, 1) * p["hue_shift"] / 60) % 6
    bent = []
    for name, field in (("saturation", saturation), ("value", value)):
        bound, shift = 1 + p[f"{name}_scale"], p[f"{name}_shift"]
        bent.append((uniform(1 / bound, bound) * field + uniform(-shift, shift)).clamp(0, 1))
    x = to_rgb(hue, *bent)
    # One interpolation both scales an image and crops a random window from it.
    zoom = uniform(1 / (1 + p["scaling"]), 1 + p["scaling"])[:, 0, 0]
    side = x.shape[-1]
    corner = torch.randint(0, side - CROP + 1, (len(x), 2), generator=generator)
    grid = torch.zeros(len(x), 2, 3)  # in units of half an image, from its middle
    grid[:, 0, 0] = grid[:, 1, 1] = CROP / side / zoom
    grid[:, :, 2] = (2 * corner + CROP - side) / side / zoom[:, None]
    places = functional.affine_grid(grid, [len(x), 3, CROP, CROP], align_corners=False)
    x = functional.grid_sample(x, places, padding_mode="border", align_corners=False)
    kept = torch.rand(x.shape, generator=generator) >= p["pixel_dropout"]
    return (x - CENTRE) / SPREAD * kept


def train(
    x: Tensor,
    labels: Tensor,
    p: dict[str, Any],
    epochs: int,
    generator: torch.Generator,
    after: Callable[[int, nn.Sequential], None] = lambda epoch, model: None,
) -> nn.Sequential:
    """The network after some epochs on images x: (n, 3, side, side); appendix A.2.

    after: is called after each epoch, with its number, from 1 on.

    Raises:
        Diverged: the loss is no number, or far beyond that of knowing nothing.
    """
    model = network(p, generator)
    # The optimizer is written out, because importing torch.optim would take longer than half of the
    # training.
    weights = list(model.parameters())
    velocities = [torch.zeros_like(w) for w in weights]
    momentum, decay = 1 - 0.1 ** p["momentum"], 0.1 ** p["weight_decay"]
    for epoch in range(epochs):
        annealed = sum(epoch >= round(share * epochs) for share in ANNEALED)
        rate = 0.1 ** (p["learning_rate"] + annealed)
        seen = corrupted(x, p, generator)
        for chosen in torch.randperm(len(x), generator=generator).split(BATCH):
            loss = functional.cross_entropy(model(seen[chosen]), labels[chosen])
            # In this form the test is also true for NaN.
            if not loss.item() < 10 * UNTRAINED:
                raise Diverged(f"training diverged: a loss of {loss.item():.3g} nats an image")
            slopes = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for w, v, g in zip(weights, velocities, slopes, strict=True):
                    v.mul_(momentum).add_(g + decay * w)
                    w.sub_(rate * v)
        after(epoch + 1, model)
    return model


@torch.no_grad()
def log_p(model: nn.Sequential, x: Tensor, p: dict[str, Any], generator: torch.Generator) -> Tensor:
    """Mean log probabilities (n, 10) over corruptions and dropout masks; appendix A.3."""
    samples = [functional.log_softmax(model(corrupted(x, p, generator)), 1) for _ in range(SAMPLES)]
    return torch.stack(samples).mean(dim=0)

"""Tune the convolutional network of Snoek et al. 2015, section 4.3, at the size of one core.

The fourteen hyperparameters come from the paper's table 5. The network (network.py) has half of its
layers and a sixth of its filters, the images (images.py) have 10 x 10 pixels instead of 32 x 32,
and there are twenty epochs instead of 200. With only 640 steps the learning rates are ten times as
high.

Parameters, a JSON object on standard input:
    momentum             M: the momentum is 1 - 0.1^M
    learning_rate        L: the learning rate is 0.1^L
    deviation            of the initial weights, times the root of the number of a filter's weights
    input_deviation      the same for the first layer
    hue_shift            bound of the change of the hue, degrees
    saturation_scale     bound A of the factor on the saturation, from 1 / (1 + A) to 1 + A
    saturation_shift     largest amount that is then added to the saturation
    value_scale, value_shift    the same for the value (the brightness)
    pixel_dropout        share of the inputs set to zero
    scaling              bound S of the images' scaling, from 1 / (1 + S) to 1 + S
    weight_decay         W: the weights decay by 0.1^W
    dropout_1, dropout_2 share of the outputs of the two pooling layers left out of a step

Outcome, a JSON object as the last line of standard output:
    objective        validation error in percent; lower is better
    metadata         log loss on the validation images (nats an image), CPU seconds

After each epoch the validation error, with a single corruption, goes to the file in the environment
variable DNGO_PROGRESS, as a line {"step": 3, "objective": 41.5}: `early_stopping: true` in a
configuration then stops evaluations that are worse than the others.

If training diverges, the program says so and exits with status 1. Initial weights, the order of the
images and their corruptions come from the environment variable DNGO_SEED.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

# One thread: evaluations run side by side.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from images import load_images
from network import Diverged, corrupted, log_p, train
from torch import Tensor, nn
from torch.nn import functional

EPOCHS = 20


def report(step: int, objective: float) -> None:
    """Report the progress of training, if anybody wants to know."""
    if place := os.environ.get("DNGO_PROGRESS"):
        with open(place, "a") as stream:
            stream.write(json.dumps({"step": step, "objective": objective}) + "\n")


def judged(
    p: dict[str, Any], learn: list[str], part: str, epochs: int, seed: int
) -> tuple[float, float]:
    """Error in percent and log loss (nats an image) on a part of the images, after training on
    others.

    Raises:
        Diverged: training did.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)  # dropout uses only the global generator
    generator = torch.Generator().manual_seed(seed)
    images = load_images()

    def of(parts: list[str]) -> tuple[Tensor, Tensor]:
        x, labels = (np.concatenate([images[part][i] for part in parts]) for i in (0, 1))
        return torch.from_numpy(x), torch.from_numpy(labels)

    x, labels = of([part])

    def after(epoch: int, model: nn.Sequential) -> None:
        with torch.random.fork_rng([]):  # this look must not change the training
            seen = corrupted(x, p, torch.Generator().manual_seed(seed))
            with torch.no_grad():
                guesses = model(seen).argmax(dim=1)
        report(epoch, 100 * float((guesses != labels).float().mean()))

    model = train(*of(learn), p, epochs, generator, after)
    found = log_p(model, x, p, generator)
    loss = float(functional.nll_loss(found, labels))
    if not np.isfinite(loss):
        raise Diverged(f"training diverged: a loss of {loss} nats an image")
    return 100 * float((found.argmax(dim=1) != labels).float().mean()), loss


def main() -> None:
    p = json.load(sys.stdin)
    seed = int(os.environ.get("DNGO_SEED", "0"))
    try:
        error, loss = judged(p, ["train"], "validation", EPOCHS, seed)
    except Diverged as problem:
        sys.exit(str(problem))
    metadata = {"loss": loss, "cpu_seconds": time.process_time()}
    print(json.dumps({"objective": error, "metadata": metadata}))


if __name__ == "__main__":
    main()

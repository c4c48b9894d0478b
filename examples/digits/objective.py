"""Tune a small neural network that learns to read digits from three hundred images.

The data are scikit-learn's `digits` (1,797 images of 8 x 8 pixels, shipped with the package). The
last 297 are a test set that nothing here ever looks at. The other 1,500 are always divided into the
same five parts. The network (hidden layers of rectified linear units, then softmax) learns from one
part and is judged on the other four. This is done for each part, with several initial weights.
Training is stochastic gradient descent with momentum, in NumPy.

Parameters, a JSON object on standard input:
    learning_rate   step size of the gradient descent
    layers          number of hidden layers
    units           units in each hidden layer
    dropout         share of hidden units left out of a step
    augmentation    what is done to the images anew in each epoch: "none", "shift" or "rotation"
    distance        how far that moves a pixel at most, in pixels (for a rotation: a pixel at the
                    middle of an edge); only with an augmentation
    epochs          passes over the images, 40 if left out (fidelity.yaml has it as a fidelity)

Outcome, a JSON object as the last line of standard output:
    objective       validation error in percent; lower is better
    constraints     "budget": reading one image takes at most 12,000 multiply-adds. They are counted,
                    not timed, so that the answer is the same on every machine
    metadata        multiply-adds, validation loss (nats per image)

If training diverges, the program says so and exits with status 1, as a real one would. So the
search has to learn where training diverges. Initial weights, the order of the images and the
augmentation come from the environment variable DNGO_SEED, so the same evaluation always gives the
same value.
"""

import importlib.util
import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

# One thread: evaluations run side by side. NumPy's linear algebra reads these variables when it is
# imported, hence before the import.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

Array = npt.NDArray[Any]

TEST_IMAGES = 297
PARTS = 5
REPEATS = 3
SIDE = 8
CLASSES = 10
EPOCHS = 40
BATCH = 30
MOMENTUM = 0.9
MAX_MULTIPLY_ADDS = 12_000
UNTRAINED = float(np.log(CLASSES))  # loss of a network that knows nothing, nats per image


class Diverged(Exception):
    """The loss grew instead of falling, or is no number."""


def load_digits() -> tuple[Array, Array]:
    """Images (1797, 64) with pixels in [0, 1] and labels (1797,).

    Reads scikit-learn's file itself: importing the package takes longer than the training.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        sys.exit("the digits example needs scikit-learn for its data: pip install scikit-learn")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1] / 16, table[:, -1].astype(int)


def move(x: Array, augmentation: str, distance: float, rng: np.random.Generator) -> Array:
    """Images x: (n, 64), each shifted or rotated at random by at most `distance` pixels."""
    if augmentation == "none":
        return x
    grid = np.arange(SIDE) - (SIDE - 1) / 2
    rows, columns = np.meshgrid(grid, grid, indexing="ij")
    if augmentation == "shift":
        amount = rng.uniform(-distance, distance, (2, len(x), 1, 1))
        r, c = rows + amount[0], columns + amount[1]
    else:
        angle = rng.uniform(-distance, distance, (len(x), 1, 1)) / (SIDE / 2)
        r = np.cos(angle) * rows - np.sin(angle) * columns
        c = np.sin(angle) * rows + np.cos(angle) * columns
    # Bilinear interpolation in the image with a blank frame. Everything beyond the frame is blank
    # as well.
    framed = np.pad(x.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    r = np.clip(r + (SIDE + 1) / 2, 0, SIDE + 0.999)
    c = np.clip(c + (SIDE + 1) / 2, 0, SIDE + 0.999)
    i, j = r.astype(int), c.astype(int)
    r, c = r - i, c - j
    image = np.arange(len(x))[:, None, None]
    moved = (1 - r) * ((1 - c) * framed[image, i, j] + c * framed[image, i, j + 1])
    moved += r * ((1 - c) * framed[image, i + 1, j] + c * framed[image, i + 1, j + 1])
    return moved.reshape(len(x), -1).astype(np.float32)


def multiply_adds(sizes: list[int]) -> int:
    """Multiply-adds to read one image with layers of these sizes."""
    return sum(a * b for a, b in pairwise(sizes))


def log_softmax(logits: Array) -> Array:
    """Logarithms of the class probabilities; logits: (n, 10)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def predict(x: Array, weights: list[Array], biases: list[Array]) -> Array:
    """Logarithms of the class probabilities of images x: (n, 64), as (n, 10)."""
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = np.maximum(x @ w + b, 0)
    return log_softmax(x @ weights[-1] + biases[-1])


def train(
    x: Array,
    labels: Array,
    sizes: list[int],
    *,
    learning_rate: float,
    dropout: float,
    augmentation: str,
    distance: float,
    rng: np.random.Generator,
    epochs: int | None = None,
) -> tuple[list[Array], list[Array]]:
    """Weights and biases after so many passes (EPOCHS) over images x: (n, 64) with labels: (n,).

    Raises:
        Diverged: the loss is no number, or no better in the end than an untrained network's.
    """
    weights = [rng.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32) for a, b in pairwise(sizes)]
    biases = [np.zeros(b, dtype=np.float32) for b in sizes[1:]]
    velocities = [np.zeros_like(p) for p in weights + biases]
    targets = np.eye(CLASSES, dtype=np.float32)[labels]
    keep = np.float32(1 - dropout)
    for _ in range(EPOCHS if epochs is None else epochs):
        images = move(x, augmentation, distance, rng)
        losses = []
        for chosen in np.array_split(rng.permutation(len(x)), len(x) // BATCH):
            inputs, masks = [images[chosen]], []  # inputs of each layer
            for w, b in zip(weights[:-1], biases[:-1], strict=True):
                hidden = np.maximum(inputs[-1] @ w + b, 0)
                if dropout:
                    masks.append((rng.random(hidden.shape, dtype=np.float32) < keep) / keep)
                    hidden *= masks[-1]
                inputs.append(hidden)
            log_p = log_softmax(inputs[-1] @ weights[-1] + biases[-1])
            losses.append(-(log_p * targets[chosen]).sum() / len(chosen))
            delta = (np.exp(log_p) - targets[chosen]) / len(chosen)
            gradients = []  # last layer first
            for i in reversed(range(len(weights))):
                gradients.append((inputs[i].T @ delta, delta.sum(axis=0)))
                if i:
                    delta = (delta @ weights[i].T) * (inputs[i] > 0)
                    if dropout:
                        delta *= masks[i - 1]
            by_weight, by_bias = zip(*reversed(gradients), strict=True)
            slopes = [*by_weight, *by_bias]
            for p, v, g in zip(weights + biases, velocities, slopes, strict=True):
                v *= MOMENTUM
                v -= learning_rate * g
                p += v
        loss = float(np.mean(losses))
        # A loss of ten times that of a network that knows nothing never recovers: weights overflow
        # some steps later.
        if not loss < 10 * UNTRAINED:  # in this form the test is also true for NaN
            break
    if not loss < UNTRAINED:
        raise Diverged(f"training diverged: a loss of {loss:.3g} nats per image")
    return weights, biases


def evaluate(parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """The outcome document of one set of parameters.

    Raises:
        Diverged: training did.
    """
    x, labels = load_digits()
    x, labels = x[:-TEST_IMAGES], labels[:-TEST_IMAGES]
    # The images are in the order of their writers. Divided at random, each part has all
    # handwritings.
    part = np.random.default_rng(0).permutation(len(x)) % PARTS
    sizes = [x.shape[1], *[int(parameters["units"])] * int(parameters["layers"]), CLASSES]
    errors, losses = [], []
    for repeat in range(REPEATS):
        for k in range(PARTS):
            network = train(
                x[part == k],
                labels[part == k],
                sizes,
                learning_rate=parameters["learning_rate"],
                dropout=parameters["dropout"],
                augmentation=parameters["augmentation"],
                distance=parameters.get("distance") or 0.0,  # absent or null where inactive
                rng=np.random.default_rng([seed, repeat, k]),
                epochs=parameters.get("epochs"),
            )
            log_p = predict(x[part != k], *network)
            truth = labels[part != k]
            errors.append(100 * float(np.mean(log_p.argmax(axis=1) != truth)))
            losses.append(-float(log_p[np.arange(len(truth)), truth].mean()))
    operations = multiply_adds(sizes)
    return {
        "objective": float(np.mean(errors)),
        "constraints": {"budget": operations <= MAX_MULTIPLY_ADDS},
        "metadata": {"multiply_adds": operations, "validation_loss": float(np.mean(losses))},
    }


def main() -> None:
    parameters = json.load(sys.stdin)
    seed = int(os.environ.get("DNGO_SEED", "0"))
    np.seterr(over="ignore", invalid="ignore")  # divergence is reported in words
    try:
        outcome = evaluate(parameters, seed)
    except Diverged as error:
        sys.exit(str(error))
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()

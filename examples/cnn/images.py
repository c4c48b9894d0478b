"""Small colour images of handwritten digits on photographs.

The digits are scikit-learn's `digits` (1,797 images of 8 x 8 pixels), the photographs its two sample
images, a temple and a flower; all are shipped with the package. An image is |patch - digit|, channel by
channel, with 10 x 10 pixels of a photograph: where there is ink, the background has its
complementary colours. Ganin and Lempitsky (2015) made MNIST-M in this way.

Digits and photographs are divided once, so validation and test images have handwriting and
backgrounds that no training image has.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SIDE, DIGIT = 10, 8  # width in pixels of an image, and of the digit in its middle
PHOTOGRAPHS = ("china.jpg", "flower.jpg")
# Digits in the pool, images of each digit, and the part of the photographs' width behind them.
PARTS = {
    "train": (1000, 1, (0.0, 0.5)),
    "validation": (397, 3, (0.5, 0.75)),
    "test": (400, 3, (0.75, 1.0)),
}


def shipped() -> Path:
    """The folder of scikit-learn's data: importing the package takes longer than reading them."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        sys.exit("the cnn example needs scikit-learn for its data: pip install scikit-learn")
    return Path(spec.origin).parent / "datasets"


def load_photographs() -> list[Array]:
    """Each photograph: (height, width, 3), in [0, 1]."""
    try:
        from PIL import Image
    except ImportError:
        sys.exit("the cnn example needs Pillow for its photographs: pip install pillow")
    found = []
    for name in PHOTOGRAPHS:
        with Image.open(shipped() / "images" / name) as photograph:
            found.append(np.asarray(photograph.convert("RGB"), dtype=np.float32) / 255)
    return found


def load_images() -> dict[str, tuple[Array, Array]]:
    """Images (n, 3, 10, 10), pixels in [0, 1], and labels (n,) of each part, always the same."""
    rng = np.random.default_rng(0)
    table = np.loadtxt(shipped() / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32)
    digits, labels = table[:, :-1].reshape(-1, DIGIT, DIGIT) / 16, table[:, -1].astype(int)
    photographs, frame = load_photographs(), (SIDE - DIGIT) // 2
    order, begin, parts = rng.permutation(len(digits)), 0, {}
    for part, (size, times, (left, right)) in PARTS.items():
        chosen = np.tile(order[begin : begin + size], times)
        begin += size
        images = np.empty((len(chosen), 3, SIDE, SIDE), dtype=np.float32)
        for image, digit in zip(images, digits[chosen], strict=True):
            photograph = photographs[rng.integers(len(photographs))]
            height, width = photograph.shape[:2]
            row = rng.integers(height - SIDE + 1)
            column = rng.integers(int(left * width), int(right * width) - SIDE + 1)
            patch = photograph[row : row + SIDE, column : column + SIDE].transpose(2, 0, 1)
            image[:] = np.abs(patch - np.pad(digit, frame))
        parts[part] = images, labels[chosen]
    return parts

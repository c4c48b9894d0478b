"""Small scenes of handwritten digits, with captions. Several wordings are right for a scene.

A scene has two by two cells of 8 x 8 pixels. Two different cells hold a digit each, from scikit-learn's
`digits` (1,797 images, shipped with the package); three in ten digits are faint. The digits are
divided once into three pools. So validation and test scenes have handwriting that no training scene
has.

A caption is drawn from a small grammar:

    caption  = digit [verb] relation digit      | "two" digits arrangement     (of one kind)
    digit    = "a" [faint] name                 | "the" [faint] "digit" name   | ...
    relation = "above" | "over" | "on top of"   | "left of" | "to the left of" | ...

Either digit may come first. The first of several synonyms is the likeliest. Five captions describe
a scene, as in the Microsoft COCO data; for a training scene two are enough, and training is faster.
"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SIDE = 8  # pixels of a cell
FAINT, SHADE = 0.3, 0.4  # share of faint digits, and their remaining brightness
# Digits in the pool, scenes, captions of each scene.
PARTS = {"train": (1000, 800, 2), "validation": (397, 200, 5), "test": (400, 200, 5)}

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
FAINT_WORDS = ("faint", "pale", "light")
NOUNS = ("a {} {}", "the {} digit {}", "a handwritten {} {}")
VERBS = ("is", "", "stands", "sits")
# Relations, by how many rows and columns the first digit lies below and to the right of the second.
RELATIONS = {
    (0, -1): ("left of", "to the left of", "on the left of"),
    (0, 1): ("right of", "to the right of", "on the right of"),
    (-1, 0): ("above", "over", "on top of"),
    (1, 0): ("below", "under", "beneath"),
    (-1, -1): ("above and left of", "over and to the left of"),
    (-1, 1): ("above and right of", "over and to the right of"),
    (1, -1): ("below and left of", "under and to the left of"),
    (1, 1): ("below and right of", "under and to the right of"),
}
PAIRS = {  # arrangements of two equal digits, by whether their rows and their columns differ
    (False, True): ("side by side", "next to each other"),
    (True, False): ("one above the other", "one over the other"),
    (True, True): ("diagonally", "one above and beside the other"),
}


@dataclass(frozen=True)
class Scenes:
    """images: (n, 256), pixels in [0, 1]; captions: the texts for each image, words and spaces."""

    images: Array
    captions: list[list[str]]


def load_digits() -> tuple[Array, Array]:
    """Images (1797, 8, 8) with pixels in [0, 1] and labels (1797,).

    Reads scikit-learn's file itself: importing the package takes longer than the rest of this.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        sys.exit("the captions example needs scikit-learn for its data: pip install scikit-learn")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1].reshape(-1, SIDE, SIDE) / 16, table[:, -1].astype(int)


def pick(words: tuple[str, ...], rng: np.random.Generator) -> str:
    """One of the synonyms; of three, the first has a probability of 0.58, and the last of 0.18."""
    return words[int(len(words) * rng.random() ** 2)]


def describe(names: list[str], faint: list[bool], cells: Array, rng: np.random.Generator) -> str:
    """A caption of two digits in cells: (2, 2), a row and a column for each."""
    first, second = rng.permutation(2)
    down, right = (int(d) for d in cells[first] - cells[second])
    if names[0] == names[1] and faint[0] == faint[1] and rng.random() < 0.5:
        adjective = pick(FAINT_WORDS, rng) if faint[0] else ""
        plural = names[0] + ("es" if names[0] in ("zero", "six") else "s")
        arrangement = pick(PAIRS[down != 0, right != 0], rng)
        return " ".join(f"two {adjective} {plural} {arrangement}".split())
    nouns = [
        pick(NOUNS, rng).format(pick(FAINT_WORDS, rng) if faint[i] else "", names[i])
        for i in (first, second)
    ]
    relation = pick(RELATIONS[down, right], rng)
    caption = " ".join(f"{nouns[0]} {pick(VERBS, rng)} {relation} {nouns[1]}".split())
    return caption.replace("a eight", "an eight")


def compose(
    digits: Array, labels: Array, number: int, wordings: int, rng: np.random.Generator
) -> Scenes:
    """Scenes of two digits each, from digits (n, 8, 8) with labels (n,); a number of scenes, each
    with a number of captions."""
    images = np.zeros((number, 2, SIDE, 2, SIDE), dtype=np.float32)
    captions = []
    for image in images:
        chosen = rng.choice(len(digits), 2, replace=False, shuffle=False)
        faint = [bool(f) for f in rng.random(2) < FAINT]
        cells = np.array([divmod(c, 2) for c in rng.permutation(4)[:2].tolist()])
        for i, (row, column) in enumerate(cells):
            image[row, :, column] = digits[chosen[i]] * (SHADE if faint[i] else 1)
        names = [NAMES[labels[c]] for c in chosen]
        captions.append([describe(names, faint, cells, rng) for _ in range(wordings)])
    return Scenes(images.reshape(number, -1), captions)


def load_scenes() -> dict[str, Scenes]:
    """The scenes to train, validate and test on, always the same."""
    rng = np.random.default_rng(0)
    digits, labels = load_digits()
    order = rng.permutation(len(digits))
    scenes, begin = {}, 0
    for part, (size, number, wordings) in PARTS.items():
        pool, begin = order[begin : begin + size], begin + size
        scenes[part] = compose(digits[pool], labels[pool], number, wordings, rng)
    return scenes

"""Scrambled Sobol sequences, to the bit those of `scipy.stats.qmc`.

`scipy.stats` makes its hundred distributions, and the documentation of each, when it is imported.
That takes 0.4 CPU seconds, a tenth of a job that proposes 400 points. SciPy's table of direction
numbers (Joe and Kuo 2008) is read from its file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import scipy

from dngo.types import Array

BITS = 30  # of a coordinate


class Sobol:
    """A sequence of points of the unit cube in k dimensions, scrambled by a random stream.

    A random linear map and a random shift of each coordinate's bits (Matousek 1998). Numbers of
    points that are powers of two are balanced.
    """

    def __init__(self, k: int, rng: np.random.Generator):
        rng = rng.spawn(1)[0]
        powers = 2 ** np.arange(BITS, dtype=np.uint32)
        self._next = 0
        self._shift = rng.integers(2, size=(k, BITS), dtype=np.uint32) @ powers
        lower = np.tril(rng.integers(2, size=(k, BITS, BITS), dtype=np.uint32))
        lower[:, range(BITS), range(BITS)] = 1
        # Row p of `lower` gives bit BITS - 1 - p of each direction.
        found = _directions(k)[:, :, None] >> np.arange(BITS, dtype=np.uint32)[::-1] & 1
        self._directions = (found @ lower.transpose(0, 2, 1) & 1) @ powers[::-1]

    def random(self, n: int) -> Array:
        """The next n points (n, k)."""
        index = np.arange(self._next, self._next + n)
        self._next += n
        gray = index ^ index >> 1
        found = np.repeat(self._shift[None], n, axis=0)
        for bit in range(int(gray.max(initial=0)).bit_length()):
            found[gray >> bit & 1 == 1] ^= self._directions[:, bit]
        return found * 2.0**-BITS

    def random_base2(self, exponent: int) -> Array:
        """The next 2^exponent points."""
        return self.random(2**exponent)


@cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """Polynomials (21201,) and first direction numbers (21201, 18)."""
    path = Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz"
    with np.load(path, allow_pickle=False) as file:
        return file["poly"], file["vinit"]


@cache
def _directions(k: int) -> np.ndarray:
    """The direction numbers of the first k dimensions: (k, BITS), unscrambled."""
    polynomials, first = _table()
    found = np.ones((k, BITS), dtype=np.uint32)
    for d in range(1, k):
        polynomial = int(polynomials[d])
        degree = polynomial.bit_length() - 1
        row = [int(number) for number in first[d, :degree]]
        for j in range(degree, BITS):
            new = row[j - degree]
            for i in range(1, degree + 1):
                if polynomial >> (degree - i) & 1:
                    new ^= row[j - i] << i
            row.append(new)
        found[d] = row
    return found << np.arange(BITS, dtype=np.uint32)[::-1]

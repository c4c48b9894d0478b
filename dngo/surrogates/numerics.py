"""Small numerical helpers shared by the surrogates and the acquisition."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import scipy.linalg  # noqa: F401  has its own BLAS, which must be loaded before the search for BLAS
from numpy.polynomial import Chebyshev, Polynomial
from threadpoolctl import ThreadpoolController

from dngo.types import Array

# A larger value, such as sys.float_info.max for a run that failed, counts as this one. Sums and
# squares of many such values are still finite.
LARGEST = 1e100
# How far the logarithm of a variance or a length may lie from its expected value, so that nothing
# overflows.
LOG_LIMIT = 18.0
IN_CACHE = 8192  # numbers that a processor has at hand
# Of cos(2 pi t) in t^2, for |t| up to a half.
SERIES = (
    Chebyshev.interpolate(lambda s: np.cos(2.0 * np.pi * np.sqrt(np.abs(s))), 9, [0.0, 0.25])
    .convert(kind=Polynomial)
    .coef.tolist()
)


def one_thread():
    """A context in which BLAS runs on one thread.

    The order of a threaded sum depends on the number of threads. On one thread the same inputs give the
    same bits with any OMP_NUM_THREADS. The matrices here are too small to gain from a second thread.
    """
    return _libraries("torch" in sys.modules).limit(limits=1)


@cache
def _libraries(with_torch: bool) -> ThreadpoolController:
    # The search reads the whole memory map of the process, which takes a millisecond. So it is done
    # once, and once more after PyTorch has loaded its own BLAS.
    return ThreadpoolController()


def bounded(y: Array) -> Array:
    """Values of any shape, clipped to [-LARGEST, LARGEST]; NaN stays NaN."""
    return np.clip(y, -LARGEST, LARGEST)


def with_task(x: Array, inputs: int) -> Array:
    """x: (n, d) -> (n, inputs): the parameters, and then a 0 for each other task."""
    missing = inputs - x.shape[1]
    return np.hstack([x, np.zeros((len(x), missing))]) if missing else x


def cosine(angles: Array) -> Array:
    """The cosine of each angle, (n, m), to 1e-14 for angles up to a hundred.

    It is most of what random waves cost, and takes a third of the time of NumPy's in double precision.
    Chebyshev's series in the square of the angle, folded to half a turn, has the same bits everywhere.
    """
    found = np.empty(angles.shape)
    rows = max(1, IN_CACHE // max(1, angles.shape[1]))
    for first in range(0, len(angles), rows):
        turns = angles[first : first + rows] * (0.5 / np.pi)
        turns -= np.rint(turns)
        turns *= turns
        sums = np.full_like(turns, SERIES[-1])
        for coefficient in SERIES[-2::-1]:
            sums *= turns
            sums += coefficient
        found[first : first + rows] = sums
    return found


def silu(z: Array) -> None:
    """Replace z by z / (1 + exp(-z)), through the hyperbolic tangent, which NumPy computes fastest."""
    gate = np.multiply(z, 0.5)
    np.tanh(gate, out=gate)
    gate += 1.0
    gate *= 0.5
    z *= gate

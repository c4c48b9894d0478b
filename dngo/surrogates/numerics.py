"""Small numerical helpers shared by the surrogates and the acquisition."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import scipy.linalg  # noqa: F401  has its own BLAS, which must be loaded before the search for BLAS
from threadpoolctl import ThreadpoolController

from dngo.types import Array

# A larger value, such as sys.float_info.max for a run that failed, counts as this one. Sums and
# squares of many such values are still finite.
LARGEST = 1e100
# How far the logarithm of a variance or a length may lie from its expected value, so that nothing
# overflows.
LOG_LIMIT = 18.0


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
    """The cosine of each angle, (n, m): most of what random waves cost.

    By the tangent of half the angle: in double precision NumPy computes tangents several at once, and
    cosines one by one.
    """
    found = np.empty_like(angles)
    for first in range(0, len(angles), 64):  # what a processor has at hand
        half = np.tan(0.5 * angles[first : first + 64])
        found[first : first + 64] = 2.0 / (1.0 + half * half)
    return found - 1.0

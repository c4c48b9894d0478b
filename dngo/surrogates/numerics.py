"""Small numerical helpers shared by the surrogates and the acquisition."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import scipy.linalg  # noqa: F401  has its own BLAS, which must be loaded before the search for BLAS
from threadpoolctl import ThreadpoolController

from dngo.types import Array

# A larger value, such as sys.float_info.max for a run that failed, is modelled as this one: sums and
# squares of many such values are still numbers.
LARGEST = 1e100
# The largest distance of a variance's or a length's logarithm from its expected value: no overflow.
LOG_LIMIT = 18.0


def one_thread():
    """Context in which BLAS runs on one thread.

    The order of a threaded sum depends on the number of threads. On one thread the same inputs give the
    same bits with any OMP_NUM_THREADS. The matrices here are too small to gain from a second thread.
    """
    return _libraries("torch" in sys.modules).limit(limits=1)


@cache
def _libraries(with_torch: bool) -> ThreadpoolController:
    # The search reads the whole memory map of the process, which takes a millisecond: it is done once, and
    # once more when PyTorch has brought its own.
    return ThreadpoolController()


def bounded(y: Array) -> Array:
    """Values of any shape, clipped to [-LARGEST, LARGEST]; NaN stays NaN."""
    return np.clip(y, -LARGEST, LARGEST)


def with_task(x: Array, inputs: int) -> Array:
    """x: (n, d) -> (n, inputs): after the parameters, a 0 for every other task."""
    missing = inputs - x.shape[1]
    return np.hstack([x, np.zeros((len(x), missing))]) if missing else x

"""Small numerical helpers shared by the surrogates and the acquisition."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import scipy.linalg  # noqa: F401  its BLAS is its own, and must be there when they are looked for
from threadpoolctl import ThreadpoolController

from dngo.types import Array

# A value beyond it, as sys.float_info.max for a run that failed, is modelled as if it were this one:
# sums and squares of many such values are numbers.
LARGEST = 1e100
# How far the logarithm of a variance or a length goes from where it is expected: against overflow.
LOG_LIMIT = 18.0


def one_thread():
    """Context in which BLAS runs on one thread.

    The order of a threaded sum depends on the number of threads: on one thread the same inputs
    give the same bits whatever OMP_NUM_THREADS says. The matrices here are too small to gain from
    a second thread anyway.
    """
    return _libraries("torch" in sys.modules).limit(limits=1)


@cache
def _libraries(with_torch: bool) -> ThreadpoolController:
    # Looking for them reads the whole of the process's memory map, a millisecond: once, and once
    # more when PyTorch has brought its own.
    return ThreadpoolController()


def bounded(y: Array) -> Array:
    """Values of any shape, clipped to within LARGEST either way; NaN stays NaN."""
    return np.clip(y, -LARGEST, LARGEST)


def with_task(x: Array, inputs: int) -> Array:
    """x: (n, d) -> (n, inputs): after the parameters, a 0 for every task that a point is not of."""
    missing = inputs - x.shape[1]
    return np.hstack([x, np.zeros((len(x), missing))]) if missing else x

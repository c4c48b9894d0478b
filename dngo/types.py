"""Types that the whole package shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
"""Whole numbers: rows of an array, or a label for each of its rows."""
Group = Any
"""A group of an HDF5 file, `h5py.Group`. Only what opens files imports h5py, which has no types."""
Progress = Callable[[float, str], None]
"""Called with the done share of the work, from 0 to 1, and a text that says what is being done."""
Repeats = Literal["reported", "always", "never"]
"""Which finished points may be evaluated again: `acquisition.replicates`."""

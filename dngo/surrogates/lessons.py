"""What is learnt slowly, and for how long it holds.

The objective's scale, the networks' features and the samples of a process's hyperparameters take
nearly all of a fit's time, and change little with a few more observations. They are learnt anew once
the observations have grown by a tenth, or one of them comes as a surprise. In between a fit reuses
them, and its posterior knows every observation. What was learnt depends only on the observations
that taught it. So a fit in another process learns the same again, and a proposal replays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

import numpy as np

from dngo.rules import current
from dngo.types import Array, Mask, Rows

T = TypeVar("T")

MOST = 64  # results kept in this process
_KEPT: OrderedDict[bytes, object] = OrderedDict()


def taught(batch: Array) -> Mask:
    """Which of n observations taught what is learnt slowly. batch: (n,) the iteration of each, as in
    `TrainingData`. It counts as a fit for each iteration."""
    iterations, counts = np.unique(batch, return_counts=True)
    last = until = -1
    for iteration, total in zip(iterations, np.cumsum(counts), strict=True):
        if total >= (1.0 + current().lessons.grown) * last:
            last, until = total, iteration
    return np.asarray(batch <= until)


def key_of(*parts: Array | Rows | bytes | str | None) -> bytes:
    """A digest of arrays and texts, with the numbers in force that people do not set."""
    found = sha256(current().digest.encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            own = part.encode() if isinstance(part, str) else part
            found.update(b"-" if own is None else len(own).to_bytes(8, "big") + own)
    return found.digest()


def recalled(key: bytes, learn: Callable[[np.random.Generator], T]) -> T:
    """What `learn` returns for a generator seeded by the key: from memory if this process has learnt
    it before."""
    if key in _KEPT:
        _KEPT.move_to_end(key)
        return _KEPT[key]  # type: ignore[return-value]
    found = learn(np.random.default_rng(list(key)))
    _KEPT[key] = found
    while len(_KEPT) > MOST:
        _KEPT.popitem(last=False)
    return found

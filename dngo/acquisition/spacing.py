"""The only place that decides which points are taken, and which are too close to a taken one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from scipy.spatial import cKDTree

from dngo.acquisition.history import History
from dngo.space import Space
from dngo.types import Array, Mask

FEW = 16  # points that are looked at together


def distances(a: Array, b: Array) -> Array:
    """Root mean square distances between coordinates a (n, k) and b (m, k): (n, m)."""
    if a.shape[1] == 0:
        return np.zeros((len(a), len(b)))
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2.0 * (a @ b.T)
    return np.sqrt(np.maximum(squares, 0.0) / a.shape[1])


def gaps(a: Array, b: Array) -> Array:
    """The distance of each of a (n, k) to the nearest of b (m, k), infinite if b is empty: (n,)."""
    if a.shape[1] == 0 or len(b) == 0:
        return np.full(len(a), 0.0 if len(b) else np.inf)
    nearest, _ = cKDTree(b).query(a)
    return np.asarray(nearest) / np.sqrt(a.shape[1])


class Spacing:
    """The points of a history, and the picks since.

    No point is picked that is pending or picked. A finished point is picked only if it is `repeatable`
    (n,); without that mask none is. Picks keep the distance `least` from pending points and from each
    other: root mean square over the parameters, each scaled to [0, 1]. They need not keep it from finished
    points: near the best of these there is much to gain.
    """

    def __init__(
        self,
        space: Space,
        history: History,
        least: float,
        repeatable: Mask | None = None,
    ) -> None:
        self.space, self.least = space, least
        self.taken = history.keys(space)
        again = history.v[:0] if repeatable is None else history.v[repeatable]
        self.finished = set(space.keys(again))  # points that may be picked once more
        self.taken -= self.finished - set(space.keys(history.pending))
        self._near = [np.empty((0, space.k))]
        if history.num_pending:
            self._near.append(space.place(history.pending, apart=1.0))

    def copy(self) -> Spacing:
        """A copy: points added to it change nothing here."""
        other = object.__new__(Spacing)
        other.space, other.least, other.finished = self.space, self.least, self.finished
        other.taken, other._near = set(self.taken), list(self._near)
        return other

    @property
    def near(self) -> Array:
        """Coordinates of the points that picks keep their distance from: (m, k)."""
        if len(self._near) > 1:
            self._near = [np.concatenate(self._near)]
        return self._near[0]

    def add(self, v: Array) -> None:
        """Take points v (n, k)."""
        self.taken.update(self.space.keys(v))
        self._near.append(self.space.place(v, apart=1.0))

    @contextmanager
    def closer(self, share: float) -> Iterator[None]:
        """Within this block picks may lie closer: the distance is multiplied by this share."""
        least = self.least
        self.least = share * least
        try:
            yield
        finally:
            self.least = least

    def free(self, v: Array) -> Mask:
        """Which of v (n, k) are not taken: (n,)."""
        return np.array([key not in self.taken for key in self.space.keys(v)], dtype=bool)

    def first(self, v: Array) -> int | None:
        """The first row of v (n, k) that is free and far enough, or None."""
        for start in range(0, len(v), FEW):  # it is usually among the very first
            some = v[start : start + FEW]
            allowed = self.free(some)
            if self.least > 0 and len(self.near):
                places = self.space.place(some, apart=1.0)
                allowed &= distances(places, self.near).min(axis=1) >= self.least
            if allowed.any():
                return start + int(np.argmax(allowed))
        return None

    def lowest_left(self, v: Array, values: Iterable[Array]) -> Iterator[int]:
        """For functions whose minima are all taken: the row of the lowest candidate of v (n, k).

        values: (n,) of each function. If all candidates are too close to others, the distance is ignored.
        """
        open_ = self.among(v)
        for value in values:
            allowed = open_.allowed if open_.allowed.any() else open_.free
            if not allowed.any():
                return
            i = int(np.argmin(np.where(allowed, value, np.inf)))
            open_.take(i)
            yield i

    def among(self, v: Array) -> Open:
        """Like `free`, for fixed candidates v (n, k), to be updated at each pick."""
        return Open(self, v)


class Open:
    """Which of some candidates may be picked.

    u: (n, k) their places, categories apart. free: (n,) not taken; far: (n,) far enough from pending and
    picked points.
    """

    def __init__(self, spacing: Spacing, v: Array) -> None:
        self.u = spacing.space.place(v, apart=1.0)
        self.free = spacing.free(v)
        self.far = np.ones(len(v), dtype=bool)
        # A point at exactly that distance is far enough, whatever the rounding.
        self._radius = spacing.least * np.sqrt(max(spacing.space.k, 1)) * (1 - 1e-9)
        self._tree = cKDTree(self.u) if spacing.least > 0 and len(v) else None
        self._exclude(spacing.near)

    @property
    def allowed(self) -> Mask:
        """Candidates that are free and far."""
        return self.free & self.far

    def take(self, i: int) -> None:
        """Pick candidate i."""
        self.free[i] = False
        self._exclude(self.u[[i]])

    def _exclude(self, u: Array) -> None:
        if self._tree is not None and len(u):
            for rows in self._tree.query_ball_point(u, self._radius):
                self.far[rows] = False

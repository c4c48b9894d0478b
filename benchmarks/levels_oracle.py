"""How often the optimum of `levels` can be found: a search that is told how the functions are made.

    python benchmarks/levels_oracle.py --functions 3 4 5 6 7 --seeds 3

Nothing is fitted. `statistics` knows the true covariances of the generating process. They are averaged over
the hidden places of the levels, so that all levels are alike to it. `places` also knows where each level
lies. Each batch has the points that are most often the minimum of 1,000 functions drawn from the posterior
(`optimal`), the minima of functions one by one (`thompson`), or the highest expected improvement
(`improvement`). In the last batch `optimal` is the best that can be done, if its belief is right.
"""

from __future__ import annotations

import argparse
import itertools
import re

import numpy as np
from batches import begin, find_problem, tell
from families import Array
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

LENGTH, TOGETHER, DRAWS = 1 / 0.7, 0.7, 1000  # the first two as in families.levels


def alike(places: Array | None, size: int) -> Array:
    """Correlations of a parameter's levels, (size, size): by their places, or averaged over these."""
    if places is None:  # squared distances of two normal places: 2 chi-square of three
        other = (1 + 2 / LENGTH**2) ** -1.5
        return other + (1 - other) * np.eye(size)
    squares = ((places[:, None] - places) ** 2).sum(axis=-1)
    return np.asarray(np.exp(-0.5 * squares / LENGTH**2))


class Oracle:
    """The posterior of a table of values, from the covariance that it was made by."""

    def __init__(self, sizes: list[int], places: list[Array] | None) -> None:
        self.parts = [
            alike(p, n) for p, n in zip(places or [None] * len(sizes), sizes, strict=True)
        ]
        self.roots = [np.linalg.cholesky(part + 1e-9 * np.eye(len(part))) for part in self.parts]
        self.sizes = sizes

    def covariance(self, a: Array, b: Array) -> Array:
        """Of the values at levels a (n, k) and b (m, k)."""
        each = [p[np.ix_(a[:, j], b[:, j])] for j, p in enumerate(self.parts)]
        return np.asarray(np.sum(each, axis=0) + TOGETHER**2 * np.prod(each, axis=0))

    def prior(self, rng: np.random.Generator) -> Array:
        """DRAWS functions: (DRAWS, cells)."""
        k = len(self.sizes)
        joint = TOGETHER * rng.standard_normal((DRAWS, *self.sizes))
        for j, root in enumerate(self.roots):
            joint = np.moveaxis(np.tensordot(joint, root.T, axes=(j + 1, 0)), -1, j + 1)
            alone = rng.standard_normal((DRAWS, self.sizes[j])) @ root.T
            joint += alone.reshape(DRAWS, *(self.sizes[j] if i == j else 1 for i in range(k)))
        return np.asarray(joint.reshape(DRAWS, -1))

    def drawn(self, cells: Array, rows: Array, y: Array, rng: np.random.Generator) -> Array:
        """Functions of the posterior, the mean not known: (DRAWS, cells). cells, rows: levels; y: (n,)."""
        f = self.prior(rng) + 10.0 * rng.standard_normal((DRAWS, 1))
        known = self.covariance(rows, rows) + 100.0 + 1e-9 * np.eye(len(y))
        missed = y - f[:, np.ravel_multi_index(tuple(rows.T), self.sizes)]
        weight = cho_solve(cho_factor(known), missed.T)
        return np.asarray(f + (weight.T @ (self.covariance(rows, cells) + 100.0)))


def chosen(how: str, drawn: Array, taken: Array, best: float, size: int) -> Array:
    """The cells of a batch: (size,). taken: those that are known."""
    free = np.setdiff1d(np.arange(drawn.shape[1]), taken)
    there = drawn[:, free]
    if how == "improvement":
        mean, sd = there.mean(axis=0), there.std(axis=0) + 1e-12
        z = (best - mean) / sd
        return free[np.argsort(-sd * (z * ndtr(z) + np.exp(-0.5 * z * z) / 2.5066))[:size]]
    lowest = there.argmin(axis=1)
    if how == "thompson":
        return free[list(dict.fromkeys(lowest))[:size]]
    wins = lowest[there.min(axis=1) < best]
    count = np.bincount(wins, minlength=len(free)) - 1e-3 * there.mean(axis=0)
    return free[np.argsort(-count)[:size]]


def study(sizes: list[int], function: int, seed: int, told: str, how: str) -> list[float]:
    """The lowest value so far, less the optimum, after each batch."""
    problem = find_problem(f"levels{'x'.join(map(str, sizes))}s{function}")
    made = np.random.default_rng([100, *sizes, function])
    places = [made.standard_normal((size, 3)) for size in sizes]
    oracle = Oracle(sizes, places if told == "places" else None)
    run, rng = begin(problem, seed), np.random.default_rng([seed, 3])
    cells = np.array(np.unravel_index(np.arange(np.prod(sizes)), sizes)).T
    curve = [float(run.y.min())]
    for _ in range(problem.rounds):
        rows = run.v.astype(int)
        taken = np.ravel_multi_index(tuple(rows.T), sizes)
        drawn = oracle.drawn(cells, rows, run.y, rng)
        tell(problem, run, cells[chosen(how, drawn, taken, curve[-1], problem.batch)] * 1.0, rng)
        curve.append(float(run.y.min()))
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="22x100")
    parser.add_argument("--functions", nargs="+", type=int, default=[3, 4, 5, 6, 7])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--told", nargs="+", default=["statistics", "places"])
    parser.add_argument("--how", nargs="+", default=["optimal", "thompson", "improvement"])
    arguments = parser.parse_args()
    sizes = [int(size) for size in re.findall(r"\d+", arguments.sizes)]
    for told, how in itertools.product(arguments.told, arguments.how):
        found = []
        for function in arguments.functions:
            ends = [study(sizes, function, s, told, how)[-1] for s in range(arguments.seeds)]
            found += ends
            print(told, how, function, *(f"{end:.2f}" for end in ends), flush=True)
        print(
            f"{told}, {how}: {np.sum(np.array(found) <= 0)} of {len(found)}, mean {np.mean(found):.3f}"
        )


if __name__ == "__main__":
    main()

"""What rules are tuned on, and what they are reported on: two sets that share nothing.

Rules and constants of the acquisition are chosen on `TUNED_ON`: random functions of families of
our own, a seed for each. They are reported on `REPORTED_ON`: functions of the BBOB suite, instances
that nobody tuned on. A rule that helps on the first and not on the second is luck, and goes.

    python benchmarks/batches.py --problems tuning --methods dngo --schedule 100 2 400
    python benchmarks/batches.py --problems reporting --schedule 20 10 10
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
NoisyFunction = Callable[[Array, np.random.Generator], Array]

TUNED_ON = tuple(
    f"{family}{k}s{seed}"
    for k in (5, 10)
    for family in ("bowl", "waves", "peaks", "ripples", "valley", "sector", "steep")
    for seed in (0, 1)
)
# The same, feasible where a second function is under a percentile: objective, inputs, seed, family of the
# second, percentile.
BOUNDED = (
    "bowl2s1waves20",
    "peaks2s2waves20",
    "waves3s3peaks20",
    "bowl3s4peaks10",
    "valley3s5waves20",
    "waves4s6waves10",
    "ripples2s7waves30",
    "bowl5s8waves20",
)
# And under noise, of a kind of its own for each seed (`NOISES`).
NOISY = tuple(
    f"{family}{k}s{seed}{noise}"
    for k in (5, 10)
    for seed, noise in enumerate(("proportional", "even", "heavy"))
    for family in ("bowl", "peaks", "ripples", "valley", "sector", "fractal")
)
# Categories alone: the numbers of their levels, and a seed.
LEVELS = tuple(f"levels{sizes}s{s}" for s in range(3) for sizes in ("22x100", "14x13x19"))
# A second-best minimum that holds searches, and values that many points share.
DECEPTIVE = tuple(
    f"{family}{k}s{s}" for k in (3, 5) for family in ("funnels", "plateaus") for s in (0, 1)
)
# Feasible where a second function is under such a percentile: one point of twenty, or of a hundred.
RARE = ("waves4s0peaks5", "peaks4s1waves5", "bowl5s2waves2", "valley4s3peaks2", "waves6s4bowl1")
# The same where several bounds are numbers that are reported: how many, and the percentage that keeps all.
RARE_NUMBERS = (
    "bowl3s0bounds2at2",
    "valley4s1bounds4at5",
    "waves5s2bounds3at5",
    "peaks5s3bounds5at10",
    "bowl6s4bounds7at1",
    "valley7s5bounds9at5",
    "ripples6s6bounds4at2",
    "waves4s7bounds2at10",
)
# Of bbob-constrained nine functions with three bounds, and three with one. Nothing is tuned on them.
CONSTRAINED = tuple(
    f"constrained{number}d10i5" for number in (1, 2, 8, 14, 19, 20, 26, 32, 38, 44, 49, 50)
)
# Every function of BBOB, in ten inputs and in five, of instances other than the first, on which
# earlier rules were looked at.
REPORTED_ON = tuple(
    f"bbob{number}d{k}i{4 + number % 3}" for k in (10, 5) for number in range(1, 25)
)


def bowl(k: int, rng: np.random.Generator) -> Function:
    """A rotated quadratic, a hundred times as steep along its last axis as along its first."""
    centre, turn = rng.uniform(0.2, 0.8, k), _rotation(k, rng)
    steepness = np.logspace(0, 2, k)
    return lambda u: 10 * ((u - centre) @ turn) ** 2 @ steepness


def waves(k: int, rng: np.random.Generator) -> Function:
    """A draw of a smooth process, by 200 random waves, on a shallow bowl."""
    frequencies = rng.standard_normal((200, k)) * 3.75 / np.sqrt(k)
    phases, heights = rng.uniform(0, 2 * np.pi, 200), rng.standard_normal(200) / 10
    centre = rng.uniform(0.25, 0.75, k)
    return lambda u: (
        np.cos(u @ frequencies.T + phases) @ heights + 2 * ((u - centre) ** 2).mean(axis=1)
    )


def peaks(k: int, rng: np.random.Generator) -> Function:
    """Thirty pits of random widths, one of them the deepest; minimum 0 or near it."""
    centres, widths = rng.uniform(0.1, 0.9, (30, k)), rng.uniform(2, 8, (30, k))
    depths = np.concatenate([[10.0], rng.uniform(1, 9, 29)])

    def value(u: Array) -> Array:
        squares = ((u[:, None] - centres) ** 2 * widths).sum(axis=-1) * 10 / k
        return 10 - (depths * np.exp(-squares)).max(axis=1)

    return value


def ripples(k: int, rng: np.random.Generator) -> Function:
    """A rotated bowl under a cosine along each of its axes; minimum 0."""
    centre, turn = rng.uniform(0.3, 0.7, k), _rotation(k, rng)
    steepness = np.logspace(0, 1, k) * 15 / k

    def value(u: Array) -> Array:
        z = (u - centre) @ turn
        return z**2 @ steepness + 2 * (1 - np.cos(8 * np.pi * z)).mean(axis=1)

    return value


def valley(k: int, rng: np.random.Generator) -> Function:
    """The logarithm of a rotated Rosenbrock: a bent valley; minimum 0 or near it."""
    turn, shift = _rotation(k, rng), 0.3 * rng.uniform(-0.3, 0.3, k)

    def value(u: Array) -> Array:
        z = 4 * (u - 0.5 - shift) @ turn + 0.5
        return np.log1p((20 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (1 - z[:, :-1]) ** 2).sum(axis=1))

    return value


def sector(k: int, rng: np.random.Generator) -> Function:
    """A rotated quadratic, 10⁴ times as steep on one side of its minimum as on the other."""
    centre, turn = rng.uniform(0.2, 0.8, k), _rotation(k, rng)

    def value(u: Array) -> Array:
        z = 4 * (u - centre) @ turn
        return (z**2 * np.where(z > 0, 1e4, 1.0)).sum(axis=1)

    return value


def steep(k: int, rng: np.random.Generator) -> Function:
    """A rotated quadratic, 10⁶ times as steep along its last axis as along its first."""
    centre, turn = rng.uniform(0.2, 0.8, k), _rotation(k, rng)
    steepness = np.logspace(0, 6, k)
    return lambda u: (4 * (u - centre) @ turn) ** 2 @ steepness


def fractal(k: int, rng: np.random.Generator) -> Function:
    """Ripples upon ripples: eight octaves of a cosine along each of its turned axes; minimum 0."""
    centre, turn = rng.uniform(0.3, 0.7, k), _rotation(k, rng)
    octaves = 3.0 ** np.arange(8)

    def value(u: Array) -> Array:
        z = (u - centre) @ turn
        heights = (1 - np.cos(2 * np.pi * octaves * z[..., None])) @ (0.5 ** np.arange(8))
        return heights.mean(axis=1) ** 2 + (z**2).mean(axis=1)

    return value


def funnels(k: int, rng: np.random.Generator) -> Function:
    """A wide funnel that leads nearly everything to the second-best minimum, 0.25, and a narrow one to 0.

    Ripples on both hold a descent up. The narrow one has a thousandth of the volume in five inputs.
    """
    centres = rng.uniform(0.2, 0.8, (2, k))
    while np.abs(centres[0] - centres[1]).mean() < 0.25:
        centres = rng.uniform(0.2, 0.8, (2, k))
    turn = _rotation(k, rng)

    def value(u: Array) -> Array:
        far = [np.sqrt(((u - c) ** 2).mean(axis=1)) for c in centres]
        ripple = 0.02 * (1 - np.cos(12 * np.pi * (u - centres[1]) @ turn)).mean(axis=1)
        return np.minimum(0.25 + far[0], 8.0 * far[1]) + ripple * np.minimum(far[0], far[1]) * 4

    return value


def plateaus(k: int, rng: np.random.Generator) -> Function:
    """`peaks` in eight steps: next to most points nothing changes, and many share every value."""
    smooth = peaks(k, rng)
    return lambda u: np.floor(0.8 * smooth(u))


# A family's number is part of the streams from which its functions are drawn. Those of 9 to 12 are gone.
FAMILIES = {
    "bowl": (1, bowl),
    "waves": (2, waves),
    "peaks": (3, peaks),
    "ripples": (4, ripples),
    "valley": (5, valley),
    "sector": (6, sector),
    "steep": (7, steep),
    "fractal": (8, fractal),
    "funnels": (13, funnels),
    "plateaus": (14, plateaus),
}


def drawn(family: str, k: int, seed: int) -> Function:
    """A function of u (n, k), unit cube: the seed'th of its family in k inputs."""
    number, draw = FAMILIES[family]
    return draw(k, np.random.default_rng([number, k, seed]))


def bounded(objective: Function, family: str, k: int, seed: int, percent: int) -> Function:
    """The objective, NaN but where a function of a family is among its lowest `percent` of values."""
    second = drawn(family, k, seed + 10)
    level = np.percentile(second(np.random.default_rng(0).random((4096, k))), percent)
    return lambda u: np.where(second(u) <= level, objective(u), np.nan)


@dataclass(frozen=True)
class Several:
    """A function and bounds in the unit cube of k inputs, a value and numbers to be 0 or less.

    No number has the scale of another, every second one grows steeply far from its bound, and where the
    last one is broken by far there is no report at all: NaN.
    """

    k: int
    objective: Function
    bounds: tuple[Function, ...]
    levels: Array  # of each bound
    spreads: Array

    def __call__(self, u: Array) -> tuple[Array, Array]:
        """u (n, k) -> values (n,) and numbers (n, bounds)."""
        broken = self.broken(u)
        steep = np.where(np.arange(len(self.bounds)) % 2, np.sinh(3 * broken), broken)
        crashed = broken[:, -1] > 1.5
        value = np.where(crashed, np.nan, self.objective(u))
        return value, steep * 10.0 ** (np.arange(len(self.bounds)) % 5 * 2 - 4)

    def broken(self, u: Array) -> Array:
        """By how many spreads each bound is broken: (n, bounds)."""
        values = np.column_stack([bound(u) for bound in self.bounds])
        return np.asarray((values - self.levels) / self.spreads)


def several(name: str) -> Several:
    """The problem of such a name as those of `RARE_NUMBERS`; ValueError if it is none."""
    match = re.fullmatch(rf"({'|'.join(FAMILIES)})(\d+)s(\d+)bounds(\d+)at(\d+)", name)
    if match is None:
        raise ValueError(f"{name}: such a name is bowl3s0bounds2at5")
    k, seed, count, percent = (int(part) for part in match.groups()[1:])
    kinds = ("waves", "bowl", "peaks", "valley")
    bounds = tuple(drawn(kinds[i % 4], k, 100 * (seed + 1) + i) for i in range(count))
    u = np.random.default_rng([seed, k]).random((8192, k))
    values = np.column_stack([bound(u) for bound in bounds])
    low, high = 0.0, 100.0
    for _ in range(20):  # one percentile of all bounds that leaves so many points
        middle = (low + high) / 2
        kept = np.mean((values <= np.percentile(values, middle, axis=0)).all(axis=1))
        low, high = (low, middle) if 100 * kept > percent else (middle, high)
    levels = np.percentile(values, high, axis=0)
    return Several(k, drawn(match[1], k, seed), bounds, levels, values.std(axis=0))


def noisy(objective: Function, noise: str, k: int) -> NoisyFunction:
    """The objective, 0 or more, as it is observed with noise of this kind."""
    some = objective(np.random.default_rng(0).random((4096, k)))
    return lambda u, rng: NOISES[noise](objective(u), float(some.std()), rng)


def proportional(y: Array, deviation: float, rng: np.random.Generator) -> Array:
    """Multiplied by log-normal numbers, whose median is 1."""
    return y * np.exp(rng.standard_normal(len(y)))


def even(y: Array, deviation: float, rng: np.random.Generator) -> Array:
    """Normal, of a fifth of the function's deviation."""
    return y + 0.2 * deviation * rng.standard_normal(len(y))


def heavy(y: Array, deviation: float, rng: np.random.Generator) -> Array:
    """Cauchy, of a fiftieth of the function's deviation, in one outcome of five."""
    struck = rng.random(len(y)) < 0.2
    return y + 0.02 * deviation * struck * rng.standard_cauchy(len(y))


NOISES = {"proportional": proportional, "even": even, "heavy": heavy}


def levels(sizes: Sequence[int], seed: int) -> Array:
    """The value of every combination of levels, an axis for each parameter; minimum 0.

    Each level has a place of its own in a space of three dimensions that nobody is told of, as a solvent or
    a ligand has. The function is smooth there: one of each parameter's place, and one of all together.
    """
    rng = np.random.default_rng([100, *sizes, seed])
    places = [rng.standard_normal((size, 3)) for size in sizes]
    shape = [len(sizes) * [1] for _ in sizes]
    value = np.zeros(sizes)
    for j, place in enumerate(places):
        shape[j][j] = -1
        value = value + _smooth(place, rng).reshape(shape[j])
    grid = np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")
    together = np.concatenate([p[g.ravel()] for p, g in zip(places, grid, strict=True)], axis=1)
    value += 0.7 * _smooth(together, rng).reshape(tuple(sizes))
    return value - value.min()


def _smooth(place: Array, rng: np.random.Generator) -> Array:
    """A draw of a smooth process, of unit variance, at places (n, d): (n,)."""
    frequencies = rng.standard_normal((100, place.shape[1])) * 0.7
    phases, heights = rng.uniform(0, 2 * np.pi, 100), rng.standard_normal(100) * np.sqrt(0.02)
    return np.asarray(np.cos(place @ frequencies.T + phases) @ heights)


def _rotation(k: int, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((k, k)))[0]

"""Objectives of the benchmarks: functions, and measured tables.

Of functions, v (n, k) are natural values and u (n, k) points of the unit cube.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dngo.space import Space
from dngo.space.parameters import Float, Int, Parameter

Array = NDArray[np.float64]

HARTMANN_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
HARTMANN_C = np.array([1.0, 1.2, 3.0, 3.2])


def hartmann6(u: Array) -> Array:
    """Of fewer inputs: of the first columns of its matrices."""
    k = u.shape[1]
    squares = (HARTMANN_A[:, :k] * (u[:, None] - HARTMANN_P[:, :k]) ** 2).sum(axis=-1)
    return -np.exp(-squares) @ HARTMANN_C


def ackley(v: Array) -> Array:
    """Minimum 0 at the origin."""
    cone = -20 * np.exp(-0.2 * np.sqrt(np.mean(v * v, axis=1)))
    return cone - np.exp(np.mean(np.cos(2 * np.pi * v), axis=1)) + 20 + np.e


def levy(v: Array) -> Array:
    """Minimum 0 at (1, ..., 1)."""
    w = 1 + (v - 1) / 4
    inner = np.sum((w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2), axis=1)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return np.sin(np.pi * w[:, 0]) ** 2 + inner + last


def rosenbrock(v: Array) -> Array:
    """Minimum 0 at (1, ..., 1), along a bent valley."""
    return np.sum(100 * (v[:, 1:] - v[:, :-1] ** 2) ** 2 + (1 - v[:, :-1]) ** 2, axis=1)


def branin(v: Array) -> Array:
    """Minimum 0.397887, at three points."""
    a, b = v.T
    bend = b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6
    return bend**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def disk_branin(v: Array) -> Array:
    """Branin, feasible inside a disk of radius sqrt(50) only; the minimum is at (pi, 2.275)."""
    inside = (v[:, 0] - 2.5) ** 2 + (v[:, 1] - 7.5) ** 2 <= 50
    return np.where(inside, branin(v), np.nan)


def gramacy(v: Array) -> Array:
    """Minimum 0.5998 where both constraints hold (Gramacy and others, 2016)."""
    a, b = v.T
    first = 1.5 - a - 2 * b - 0.5 * np.sin(2 * np.pi * (a * a - 2 * b)) <= 0
    second = a * a + b * b - 1.5 <= 0
    return np.where(first & second, a + b, np.nan)


def friedman(u: Array) -> Array:
    waves = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2
    return waves + 10 * u[:, 3] + 5 * u[:, 4]


def camel(u: Array) -> Array:
    """The three-hump camel from -2 to 3, so that the middle of the cube is not its minimum."""
    a, b = (5 * u - 2).T
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


def franke(u: Array) -> Array:
    a, b = 9 * u.T
    hills = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4)
    hills += 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    hills += 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4)
    return hills - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2)


def ishigami(u: Array) -> Array:
    a, b, c = np.pi * (2 * u - 1).T
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def otl(u: Array) -> Array:
    """The midpoint voltage of an amplifier without an output transformer, of six inputs."""
    low, high = np.array([(50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300)]).T
    b1, b2, f, c1, c2, beta = (low + (high - low) * u).T
    gain = beta * (c2 + 9)
    volts = (12 * b2 / (b1 + b2) + 0.74) * gain / (gain + f) + 11.35 * f / (gain + f)
    return volts + 0.74 * f * gain / ((gain + f) * c1)


def logistic_regression(u: Array) -> Array:
    """Error on held-out digits, in percent, of softmax regression by minibatch SGD.

    The four hyperparameters of Snoek et al. 2012, section 4.2: learning rate (log, 1e-4 to 1), l2
    penalty (0 to 1), size of a minibatch (20 to 2000), epochs (5 to 2000); here on the 1,797 real
    images of 8 x 8 pixels that scikit-learn ships, 1,197 to train on.
    """
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    x, label = images[order] / 16.0, np.eye(10)[digits[order]]
    train, test = slice(0, 1197), slice(1197, None)
    errors = []
    for rate, penalty, minibatch, epochs in u:
        rng = np.random.default_rng(0)
        step, size = 10.0 ** (-4 + 4 * rate), round(20 + 1980 * minibatch)
        size = min(size, 1197)
        w = np.zeros((x.shape[1] + 1, 10))
        inputs = np.hstack([x, np.ones((len(x), 1))])
        for _ in range(round(5 + 1995 * epochs)):
            shuffled = rng.permutation(1197)
            for rows in np.split(shuffled, range(size, 1197, size)):
                chance = softmax(inputs[rows] @ w, axis=1)
                gradient = inputs[rows].T @ (chance - label[train][rows]) / len(rows)
                w -= step * (gradient + penalty * w)
        wrong = np.argmax(inputs[test] @ w, axis=1) != digits[order][test]
        errors.append(100 * float(np.mean(wrong)))
    return np.array(errors)


def bbob(number: int, k: int, instance: int = 1) -> Callable[[Array], Array]:
    """Function 1 to 24 of the BBOB suite in k >= 2 dimensions, less its optimum: minimum 0.

    Takes v (n, k) in [-5, 5]; the instance does not depend on a seed. From the
    `ioh` package, which is asked for at the first evaluation.
    """

    def evaluate(v: Array) -> Array:
        import ioh

        function = ioh.get_problem(number, instance, k, ioh.ProblemClass.BBOB)
        return np.array([function(row) for row in v.tolist()]) - function.optimum.y

    return evaluate


# The numbers of each suite's functions, and of inputs they come with.
SUITES = {
    "bbob-mixint": (range(1, 25), (5, 10, 20, 40, 80, 160)),
    "bbob-noisy": (range(101, 131), (2, 3, 5, 10, 20, 40)),
    "bbob-constrained": (range(1, 55), (2, 3, 5, 10, 20, 40)),
}


@dataclass(frozen=True)
class Coco:
    """A function of a suite of the COCO platform: `bbob-mixint`, `bbob-noisy` or `bbob-constrained`.

    From the package `coco-experiment`; ValueError where that is missing, or has no such function. The
    noise of `bbob-noisy` goes on from the process's last draw: two runs of a method do not see the
    same.
    """

    suite: str
    number: int
    k: int
    instance: int

    def __post_init__(self) -> None:
        if not importlib.util.find_spec("cocoex"):
            raise ValueError(f"{self.suite} needs a package: pip install coco-experiment")
        numbers, dimensions = SUITES[self.suite]
        if not (self.number in numbers and self.k in dimensions and 1 <= self.instance <= 15):
            raise ValueError(
                f"{self.suite} has functions {numbers[0]} to {numbers[-1]}, with "
                f"{', '.join(map(str, dimensions))} inputs, and instances 1 to 15"
            )

    @cached_property
    def _problem(self) -> Any:
        import cocoex

        index = self.number - SUITES[self.suite][0][0] + 1
        suite = cocoex.Suite(
            self.suite,
            "",
            f"function_indices:{index} dimensions:{self.k} instance_indices:{self.instance}",
        )
        return suite.get_problem(0)

    @cached_property
    def optimum(self) -> Array:
        """Where the function is least: (k,)."""
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            self._problem._best_parameter("print")  # into a file, and nowhere else
            (written,) = Path().iterdir()
            return np.loadtxt(written)

    @cached_property
    def least(self) -> float:
        """The function's value there."""
        return float(self._problem(self.optimum))

    @property
    def space(self) -> Space:
        """Its integers, which come first, and floats."""
        whole = self._problem.number_of_integer_variables
        limits = zip(self._problem.lower_bounds, self._problem.upper_bounds, strict=True)
        parameters: dict[str, Parameter] = {
            f"x{i:02d}": Int(type="int", low=int(low), high=int(high))
            if i < whole
            else Float(type="float", low=low, high=high)
            for i, (low, high) in enumerate(limits)
        }
        return Space(parameters)

    def __call__(self, v: Array) -> Array:
        """Values at v (n, k), above the least one: (n,)."""
        return np.array([self._problem(row) for row in v]) - self.least

    def constraints(self, v: Array) -> Array:
        """The constraints at v (n, k), each kept where it is at most 0: (n, c)."""
        return np.array([self._problem.constraint(row) for row in v])

    def median(self, v: Array, draws: int = 301) -> Array:
        """Medians of so many values at v (n, k): (n,). What a noisy function is without its noise."""
        return np.median([self(v) for _ in range(draws)], axis=0)


@dataclass(frozen=True)
class Function:
    """f: (n, d) unit cube -> (n,); noise: standard deviation added to it; optimum: its minimum."""

    f: Callable[[Array], Array]
    d: int
    noise: float = 0.0
    optimum: float = 0.0


FUNCTIONS = {
    "hartmann6": Function(hartmann6, 6, optimum=-3.32237),
    "branin": Function(lambda u: branin(15 * u - [5, 0]), 2, optimum=0.397887),
    "ackley5": Function(lambda u: ackley(65.536 * (u - 0.37)), 5),
    "levy8": Function(lambda u: levy(20 * u - 10), 8),
    "rosenbrock4": Function(lambda u: rosenbrock(15 * u - 5), 4),
    "friedman10": Function(friedman, 10, noise=1.0),
    "logistic": Function(logistic_regression, 4, optimum=-np.inf),  # not known
}
GRIDS = {
    "lda": ("lda_on_grid.csv", ("kappa", "tau", "batch_size"), "perplexity"),
    "svm": ("svm_on_grid.csv", ("C", "alpha", "epsilon"), "error"),
}


def cube(d: int) -> Space:
    """d floats in the unit interval."""
    return Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(d)})


def grid(folder: Path, name: str) -> tuple[Space, Array, Array, Array]:
    """A tabulated objective: its space, all points v (n, k), their values (n,) and seconds (n,)."""
    file, names, target = GRIDS[name]
    with (folder / file).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = {n: np.array([float(row[n]) for row in rows]) for n in names}
    parameters: dict[str, Parameter] = {}
    for n, column in columns.items():
        values = sorted(set(column.tolist()))
        # Spaced by factors, all but kappa, whose values are spaced evenly.
        parameters[n] = Float(type="float", values=values, log=n != "kappa")
    space = Space(parameters)
    v = np.stack([columns[column.name] for column in space.columns], axis=1)
    y, seconds = (np.array([float(row[n]) for row in rows]) for n in (target, "duration_s"))
    return space, v, y, seconds


def regression_table(folder: Path, name: str) -> tuple[Array, Array]:
    """A table whose last column is the target: inputs in the unit cube (n, d), targets (n,)."""
    table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    x = table[:, :-1]
    return (x - x.min(axis=0)) / np.ptp(x, axis=0), table[:, -1]

"""Objectives of the benchmarks of the surrogate: functions of the unit cube, and measured tables."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dngo.parameters import Float, Int
from dngo.space import Space

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


def branin(u: Array) -> Array:
    x, y = u[:, 0] * 15 - 5, u[:, 1] * 15
    bowl = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def hartmann6(u: Array) -> Array:
    squares = (HARTMANN_A * (u[:, None] - HARTMANN_P) ** 2).sum(axis=-1)
    return -np.exp(-squares) @ HARTMANN_C


def ackley(u: Array) -> Array:
    x = (u - 0.37) * 65.536
    hole = -20 * np.exp(-0.2 * np.sqrt((x**2).mean(axis=1)))
    return hole - np.exp(np.cos(2 * np.pi * x).mean(axis=1)) + 20 + np.e


def levy(u: Array) -> Array:
    w = 1 + (u * 20 - 11) / 4
    middle = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return np.sin(np.pi * w[:, 0]) ** 2 + middle.sum(axis=1) + last


def rosenbrock(u: Array) -> Array:
    x = u * 15 - 5
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)


def friedman(u: Array) -> Array:
    waves = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2
    return waves + 10 * u[:, 3] + 5 * u[:, 4]


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


def bbob(number: int, k: int) -> Callable[[Array], Array]:
    """Function 1 to 24 of the BBOB suite in k >= 2 dimensions, less its optimum: minimum 0.

    Takes v (n, k) in [-5, 5]; always instance 1, so that it does not depend on a seed. From the
    `ioh` package, which is asked for at the first evaluation.
    """

    def evaluate(v: Array) -> Array:
        import ioh

        function = ioh.get_problem(number, 1, k, ioh.ProblemClass.BBOB)
        return np.array([function(row) for row in v.tolist()]) - function.optimum.y

    return evaluate


@dataclass(frozen=True)
class Function:
    """f: (n, d) unit cube -> (n,); noise: standard deviation added to it; optimum: its minimum."""

    f: Callable[[Array], Array]
    d: int
    noise: float = 0.0
    optimum: float = 0.0


FUNCTIONS = {
    "hartmann6": Function(hartmann6, 6, optimum=-3.32237),
    "branin": Function(branin, 2, optimum=0.397887),
    "ackley5": Function(ackley, 5),
    "levy8": Function(levy, 8),
    "rosenbrock4": Function(rosenbrock, 4),
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


def grid(folder: Path, name: str) -> tuple[Space, Array, Array]:
    """A tabulated objective: its space, all points v (n, k) and their values (n,)."""
    file, names, target = GRIDS[name]
    with (folder / file).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = {n: np.array([float(row[n]) for row in rows]) for n in names}
    parameters: dict[str, Float | Int] = {}
    for n, column in columns.items():
        values = sorted(set(column.tolist()))
        # Spaced by factors, all but kappa, whose values are spaced evenly.
        parameters[n] = Float(type="float", values=values, log=n != "kappa")
    space = Space(parameters)
    v = np.stack([columns[column.name] for column in space.columns], axis=1)
    return space, v, np.array([float(row[target]) for row in rows])


def regression_table(folder: Path, name: str) -> tuple[Array, Array]:
    """A table whose last column is the target: inputs in the unit cube (n, d), targets (n,)."""
    table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    x = table[:, :-1]
    return (x - x.min(axis=0)) / np.ptp(x, axis=0), table[:, -1]

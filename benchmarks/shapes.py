"""Objectives of unusual shapes: counts, which are steps, and values over several decades.

    python benchmarks/batches.py --problems steps decades --methods dngo optuna_tpe cma_es random --seeds 3

Steps: errors of classifiers that are tuned, jobs that end late, the length of a schedule. Decades: of one
sign or of both. All but two have the unit cube as their space. Nothing is tuned on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Int

Array = NDArray[np.float64]
Function = Callable[[Array], Array]  # v (n, k) natural values -> (n,)
KERNELS = ["rbf", "poly", "sigmoid"]


def each(value: Callable[[Array], float]) -> Function:
    """The function of many points of a function of one."""
    return lambda v: np.array([value(row) for row in v], dtype=float)


# ---- steps -----------------------------------------------------------------------------------------


def votes() -> Function:
    """Errors of a rule: so many of eight measurements of a tumour beyond their limits."""
    x, kind = load_breast_cancer(return_X_y=True)
    x = x[:, [0, 1, 4, 7, 20, 21, 24, 27]]
    rank = np.argsort(np.argsort(x, axis=0), axis=0) / len(x)
    return each(lambda v: np.sum(((rank > v[:8]).sum(axis=1) > np.floor(8 * v[8])) == (kind == 1)))


def neighbours() -> Function:
    """Errors of the three nearest neighbours by weights of thirteen inputs, each left out once."""
    x, kind = load_wine(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)

    def value(v: Array) -> float:
        gap = (((x * v)[:, None] - (x * v)[None]) ** 2).sum(axis=2)
        np.fill_diagonal(gap, np.inf)
        near = kind[np.argsort(gap, axis=1)[:, :3]]
        return sum(
            np.bincount(k, minlength=3).argmax() != own for k, own in zip(near, kind, strict=True)
        )

    return each(value)


def machine() -> tuple[Space, Function]:
    """Errors of a support vector machine on 300 digits."""
    x, kind = load_digits(return_X_y=True)
    x, kind = x[:300] / 16, kind[:300]
    space = Space(
        {
            "C": Float(type="float", low=1e-3, high=1e3, log=True),
            "gamma": Float(type="float", low=1e-5, high=10, log=True),
            "coef0": Float(type="float", low=-2, high=2),
            "kernel": Categorical(type="categorical", choices=KERNELS),
            "degree": Int(type="int", low=1, high=6),
        }
    )

    def value(v: Array) -> float:
        given = dict(zip((c.name for c in space.columns), v, strict=True))
        given |= {"kernel": KERNELS[int(given["kernel"])], "degree": int(given["degree"])}
        return np.sum(cross_val_predict(SVC(**given, max_iter=20_000), x, kind, cv=3) != kind)

    return space, each(value)


def tree() -> tuple[Space, Function]:
    """Errors of a decision tree with seven parameters."""
    x, kind = load_breast_cancer(return_X_y=True)
    space = Space(
        {
            "max_depth": Int(type="int", low=1, high=30),
            "min_samples_leaf": Int(type="int", low=1, high=60, log=True),
            "min_samples_split": Int(type="int", low=2, high=120, log=True),
            "ccp_alpha": Float(type="float", low=1e-5, high=0.1, log=True),
            "max_features": Int(type="int", low=1, high=30),
            "weight": Float(type="float", low=0.1, high=10, log=True),
            "min_impurity_decrease": Float(type="float", low=0, high=0.2),
        }
    )

    def value(v: Array) -> float:
        named = zip(space.columns, v, strict=True)
        given = {c.name: int(x) if c.kind == "int" else x for c, x in named}
        given["class_weight"] = {0: 1, 1: given.pop("weight")}
        model = DecisionTreeClassifier(**given, random_state=0)
        return np.sum(cross_val_predict(model, x, kind, cv=5) != kind)

    return space, each(value)


def flow_shop() -> Function:
    """The length of a schedule of twelve jobs on four machines, in the order of the inputs."""
    hours = np.random.default_rng(4).integers(1, 60, (12, 4))

    def value(v: Array) -> float:
        end = np.zeros(4)
        for job in np.argsort(v, kind="stable"):
            now = 0.0
            for m in range(4):
                end[m] = now = max(now, end[m]) + hours[job, m]
        return now

    return each(value)


def late_customers() -> Function:
    """How many of 400 customers leave two counters late, by the weights that decide who is next."""
    rng, n = np.random.default_rng(5), 400
    comes, kind = np.cumsum(rng.exponential(1, n)), rng.integers(0, 3, n)
    work = rng.exponential([0.6, 1.0, 1.8], (n, 3))[np.arange(n), kind]
    patience = rng.uniform(2, 12, n)

    def value(v: Array) -> float:
        of_kind, slack, age = v[:3] * 3, 0.4 * v[3] - 0.2, 0.4 * v[4] - 0.2
        late, i, free = 0, 0, [0.0, 0.0]
        waiting: list[int] = []
        while i < n or waiting:
            m = int(np.argmin(free))
            while i < n and comes[i] <= free[m]:
                waiting.append(i)
                i += 1
            if not waiting:
                free[m] = comes[i]
                continue
            j = np.array(waiting)
            waits = free[m] - comes[j]
            score = of_kind[kind[j]] + slack * (patience[j] - waits) + age * waits - v[5] * work[j]
            chosen = waiting.pop(int(np.argmax(score)))
            free[m] += work[chosen]
            late += free[m] > comes[chosen] + patience[chosen]
        return late

    return each(value)


# ---- decades ---------------------------------------------------------------------------------------


def likelihood(v: Array) -> Array:
    """Minus the logarithm of three normals' likelihood, from 200 to a million."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(-2, 0.5, 60), rng.normal(1, 1.2, 60), rng.normal(4, 0.2, 40)])
    mean, std, weight = v[:, :3] * 12 - 6, 10 ** (v[:, 3:6] * 3 - 2), np.exp(4 * v[:, 6:9])
    weight /= weight.sum(axis=1, keepdims=True)
    by = (
        0.5 * ((x[None, :, None] - mean[:, None]) / std[:, None]) ** 2
        + np.log(std / weight)[:, None]
    )
    return np.asarray(-np.logaddexp.reduce(-by, axis=2).sum(axis=1))


def sag(v: Array) -> Array:
    """The sag of bars and their weight, from 8 to 2,600."""
    area, length = 10 ** (v[:, :6] * 2 - 1), 1 + 4 * v[:, 6]
    sagging = length**3 * ([1, 2, 3, 1, 2, 5] / area).sum(axis=1)
    return np.asarray(sagging + 0.5 * length * (area * [3, 1, 1, 2, 2, 1]).sum(axis=1))


def resonance(v: Array) -> Array:
    """Minus the gain of three resonators in a row, from -0.1 to -10^6."""
    at, width = (v[:, :3] + 0.15) / ([0.45, 0.7, 0.85]), 10 ** (-2 * v[:, 3:6] - 0.3)
    gain = np.prod(((1 - at**2) ** 2 + (width * (v[:, :3] + 0.15)) ** 2) ** -0.5, axis=1)
    return np.asarray(-gain * (1 - np.abs(v[:, 3:6] - 0.8).sum(axis=1) / 6))


def lowered_valley(v: Array) -> Array:
    """Rosenbrock's function minus 300: of both signs."""
    x = v * 4 - 2
    bent = 100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2
    return np.asarray(bent.sum(axis=1) - 300)


def hills() -> Function:
    """The hyperbolic sine of turned hills, from -10^5 to 10^7."""
    rng = np.random.default_rng(3)
    turn, middle = np.linalg.qr(rng.standard_normal((6, 6)))[0], rng.random(6) * 0.6 + 0.2

    def value(v: Array) -> Array:
        z = (v - middle) @ turn
        hill = np.sin(5 * z[:, 0]) + 0.6 * np.cos(4 * z[:, 1] + 1) + 0.8 * (z**2).sum(axis=1)
        return np.asarray(np.sinh(6 * (hill - 0.9 * np.exp(-8 * (z[:, 2:] ** 2).sum(axis=1)))))

    return value


def two_tanks(v: Array) -> Array:
    """Minus what two reactors in a row yield in an hour, from 0 to -60,000."""
    warm, stay = 300 + 300 * v[:, [0, 3]], 10 ** (4 * v[:, [1, 4]] - 2)
    first = 1e9 * np.exp(-7e4 / 8.314 / warm) * stay
    second = 1e14 * np.exp(-1.15e5 / 8.314 / warm) * stay
    a, b = 10 ** (2 * v[:, 2] - 1), np.zeros(len(v))
    for tank in range(2):
        a = a / (1 + first[:, tank])
        b = (b + first[:, tank] * a) / (1 + second[:, tank])
    return np.asarray(-1e3 * b / (0.02 + stay.sum(axis=1)))


def steep_bowl() -> Function:
    """The exponential of a turned bowl's root minus 50, up to 10^7."""
    rng = np.random.default_rng(8)
    turn, lowest = np.linalg.qr(rng.standard_normal((8, 8)))[0], rng.random(8)
    scale = np.array([1, 2, 5, 1, 10, 3, 1, 20])
    return lambda v: np.exp(3 * np.sqrt(((v - lowest) @ turn) ** 2 @ scale)) - 50


def decays(v: Array) -> Array:
    """The squares that two exponential decays leave, from 3 to 500,000."""
    t, rng = np.linspace(0, 5, 40), np.random.default_rng(2)
    seen = 3 * np.exp(-0.4 * t) + 8 * np.exp(-3 * t) + 0.5 + 0.02 * rng.standard_normal(40)
    size, rate = 10 ** (3 * v[:, :2] - 1), 10 ** (3 * v[:, 2:4] - 1.5)
    by = (size[..., None] * np.exp(-rate[..., None] * t)).sum(axis=1) + 4 * v[:, 4:] - 2
    return np.asarray(((by - seen) ** 2).sum(axis=1))


def loss(v: Array) -> Array:
    """Minus a shop's profit, from -2,500 to 1,800."""
    price, spent, stock = 10 ** (2 * v[:, 0]), 10 ** (4 * v[:, 1] - 1), 10 ** (3 * v[:, 2])
    asked = 1e4 * price ** -(1.5 + v[:, 3]) * spent / (spent + 30)
    asked *= 0.3 + 0.7 * np.exp(-(((v[:, 4] - 0.6) / 0.15) ** 2))
    missed = 0.5 * np.maximum(stock - asked, 0)
    return np.asarray(spent + 0.5 * stock + missed - np.minimum(asked, stock) * (price - 0.8))


def experiment(v: Array) -> Array:
    """Minus the determinant of seven experiments' information on a quadratic, from 0 to -900."""
    a, b = np.moveaxis((v * 2 - 1).reshape(len(v), 7, 2), 2, 0)
    terms = np.stack([np.ones_like(a), a, b, a * b, a * a, b * b], axis=-1)
    return np.asarray(-np.linalg.det(np.swapaxes(terms, 1, 2) @ terms))


# A space, or the number of inputs in the unit cube, and the function; made when they are asked for.
STEPS: dict[str, Callable[[], tuple[Space | int, Function]]] = {
    "votes": lambda: (9, votes()),
    "neighbours": lambda: (13, neighbours()),
    "machine": machine,
    "tree": tree,
    "flow_shop": lambda: (12, flow_shop()),
    "late_customers": lambda: (6, late_customers()),
}
DECADES: dict[str, Callable[[], tuple[Space | int, Function]]] = {
    "likelihood": lambda: (9, likelihood),
    "sag": lambda: (7, sag),
    "resonance": lambda: (6, resonance),
    "lowered_valley": lambda: (6, lowered_valley),
    "hills": lambda: (6, hills()),
    "two_tanks": lambda: (5, two_tanks),
    "steep_bowl": lambda: (8, steep_bowl()),
    "decays": lambda: (5, decays),
    "loss": lambda: (5, loss),
    "experiment": lambda: (14, experiment),
}

"""Real problems that were written after the rules, and run before anyone looked at them.

    python benchmarks/unseen.py                                 # all problems, three seeds
    python benchmarks/unseen.py --problems film lens --seeds 1 --methods dngo random

A fed-batch reactor that may run away, a bridge of catalogue sections, a pipeline of scikit-learn, a store
of three goods, a film of thin layers, a control loop, a lens. Nothing is tuned on them. Methods are
those of rare.py, and studies those of studies.py.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from numpy.typing import NDArray
from rare import BESIDE
from real import sample, truss
from scipy.integrate import solve_ivp
from studies import Problem, Report, compare, number, of, one_of, problem, whole

Array = NDArray[np.float64]
UNSEEN: dict[str, Problem] = {}

# ---- a reactor that is fed -----------------------------------------------------------------------


@problem(
    UNSEEN,
    jacket=number(280, 380),
    feed=number(0.2, 2),
    hours=number(0.5, 12, log=True),
    early=number(-1, 1),
    catalyst=number(0.05, 2, log=True),
    start=number(290, 370),
)
def reactor(
    jacket: float, feed: float, hours: float, early: float, catalyst: float, start: float
) -> Report:
    """A is fed to B, P forms and decays, heat is released: the batch is lost where it runs away."""

    def rates(t: float, s: Array) -> list[float]:
        a, b, p, volume, heat = s
        k = catalyst * np.exp(21.0 - 7000.0 / heat)
        lost = np.exp(27.0 - 10500.0 / heat)
        flow = feed / hours * (1 + early * np.cos(np.pi * t / hours)) if t < hours else 0.0
        made = k * a * b
        cooling = 6.0 * (heat - jacket) / volume**0.33
        return [
            -made + flow * (6.0 - a) / volume,
            -made - flow * b / volume,
            made - lost * p - flow * p / volume,
            flow,
            25.0 * made + 60.0 * lost * p - cooling + flow * (298.0 - heat) / volume,
        ]

    found = solve_ivp(
        rates,
        (0, 1.2 * hours),
        [0.0, 4.0, 0.0, 1.0, start],
        method="LSODA",
        rtol=1e-7,
        max_step=0.2,
    )
    a, _, p, volume, _ = found.y[:, -1]
    hottest = float(found.y[4].max())
    if not found.success or hottest > 480:
        raise ArithmeticError("it ran away")
    money = 12 * p * volume - 1.5 * hours - 3.0 * catalyst - 2.0 * feed
    return -float(money), {
        "hot": hottest - 400.0,
        "left": float(a) - 0.1,
        "full": float(volume) - 2.4,
    }


# ---- a bridge ------------------------------------------------------------------------------------

CATALOGUE = np.array([4, 5, 6.3, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 76, 95, 120]) * 1e-4  # m²
GROUPS = (0, 0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 5)  # lower chord, ends, ..., of each bar
LINKS = (
    (0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (7, 4), (2, 6), (5, 6), (6, 7), (1, 5), (3, 7), (5, 2), (2, 7),
)  # fmt: skip


@problem(
    UNSEEN,
    **{f"s{i}": whole(0, 15) for i in range(6)},
    side=number(1, 6),
    middle=number(1, 8),
    inward=number(-2, 3),
)
def bridge(side: float, middle: float, inward: float, **sections: int) -> Report:
    """Mass of a bridge of six bars from a catalogue and its shape; bounds on stress, buckling and sag."""
    lower, upper = (
        [(6 * i, 0) for i in range(5)],
        [(6 + inward, side), (12, middle), (18 - inward, side)],
    )
    joints = np.array([*lower, *upper], dtype=float)
    area = CATALOGUE[[sections[f"s{g}"] for g in GROUPS]]
    young, loads = 2.1e11, np.zeros(16)
    loads[[3, 5, 7]] = -4.0e4, -6.0e4, -4.0e4
    free = np.setdiff1d(np.arange(16), (0, 1, 9))
    lengths, stress, moved = truss(joints, LINKS, area, young, loads, free)
    critical = np.pi**2 * young * 0.4 * area**2 / lengths**2
    mass = 7850 * float((area * lengths).sum())
    return mass, {
        "stress": float(np.abs(stress).max() / 1.6e8 - 1),
        "buckling": float((-stress * area / critical).max() - 1),
        "sag": float(-moved[1::2].min() / 0.03 - 1),
    }


# ---- a pipeline ----------------------------------------------------------------------------------


@problem(
    UNSEEN,
    scaling=one_of("none", "standard", "range", "quantiles"),
    kept=number(0.05, 1),
    kind=one_of("logistic", "svm", "neighbours", "trees"),
    cost=number(1e-3, 1e3, log=True),
    gamma=number(1e-5, 1, log=True),
    near=whole(1, 40, log=True),
    depth=whole(1, 15),
    leaf=whole(1, 20, log=True),
)
def pipeline(
    scaling: str,
    kept: float,
    kind: str,
    cost: float,
    gamma: float,
    near: int,
    depth: int,
    leaf: int,
) -> Report:
    """Log loss of three folds; each kind of model heeds some of the parameters."""
    from sklearn.decomposition import PCA
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        FunctionTransformer,
        MinMaxScaler,
        QuantileTransformer,
        StandardScaler,
    )
    from sklearn.svm import SVC

    scaler = {
        "none": FunctionTransformer(),
        "standard": StandardScaler(),
        "range": MinMaxScaler(),
        "quantiles": QuantileTransformer(n_quantiles=50),
    }[scaling]
    model = {
        "logistic": LogisticRegression(C=cost, max_iter=200),
        "svm": SVC(C=cost, gamma=gamma, probability=True, random_state=0),
        "neighbours": KNeighborsClassifier(near, weights="distance"),
        "trees": ExtraTreesClassifier(20, max_depth=depth, min_samples_leaf=leaf, random_state=0),
    }[kind]
    x, y = sample("breast_cancer", 300)
    machine = make_pipeline(scaler, PCA(max(1, round(kept * 25)), random_state=0), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(machine, x, y, cv=3, scoring="neg_log_loss")
    return float(np.log(-np.mean(scores))), {}


# ---- a store -------------------------------------------------------------------------------------


@cache
def _demand() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(5)
    season = 1 + 0.3 * np.sin(2 * np.pi * np.arange(730) / 91)
    return rng.poisson(np.array([4.0, 9.0, 20.0]) * season[:, None]), rng.integers(2, 7, (730, 3))


@problem(
    UNSEEN, **{f"{kind}{i}": whole(1, 200, log=True) for kind in ("low", "more") for i in range(3)}
)
def store(**levels: int) -> Report:
    """Cost a day of three goods, each ordered below one level up to another; bounds on what is missed."""
    demand, takes = _demand()
    low = np.array([levels[f"low{i}"] for i in range(3)])
    more = np.array([levels[f"more{i}"] for i in range(3)])
    stock, coming = low + more, np.zeros((740, 3), dtype=np.int64)
    ordered, missed, cost = np.zeros(3, dtype=np.int64), np.zeros(3), 0.0
    for day, wanted in enumerate(demand):
        stock, ordered = stock + coming[day], ordered - coming[day]
        sold = np.minimum(stock, wanted)
        stock, missed = stock - sold, missed + (wanted - sold)
        cost += float(stock @ (0.30, 0.12, 0.05) + (wanted - sold) @ (3.0, 2.0, 1.0))
        short = stock + ordered <= low
        if short.any():
            amount = np.where(short, low + more - stock - ordered, 0)
            coming[day + takes[day], np.arange(3)] += amount
            ordered = ordered + amount
            cost += 18.0 + 7.0 * float(short.sum())
        cost += 0.4 * max(0.0, float(stock @ (1.0, 0.6, 0.3)) - 90)
    share = missed / demand.sum(axis=0)
    return cost / len(demand), {f"missed{i}": float(share[i] - 0.03) for i in range(3)}


# ---- a film of thin layers -----------------------------------------------------------------------

MATERIALS = {"air": 1.0, "MgF2": 1.38, "SiO2": 1.46, "Al2O3": 1.77, "HfO2": 2.0, "TiO2": 2.4}


@problem(
    UNSEEN,
    **{f"m{i}": one_of(*list(MATERIALS)[1:]) for i in range(7)},
    **{f"d{i}": number(5, 200) for i in range(7)},
)
def film(**layers: float | str) -> Report:
    """The logarithm of what seven layers on glass reflect, 400 to 1,000 nm, straight and slanted."""
    waves, total = np.linspace(400, 1000, 61), []
    for angle in (0.0, np.pi / 4):
        whole_film = np.tile(np.eye(2, dtype=complex), (61, 1, 1))
        for i in range(7):
            index, thick = MATERIALS[str(layers[f"m{i}"])], float(layers[f"d{i}"])
            inside = np.sqrt(index**2 - np.sin(angle) ** 2)
            phase = 2 * np.pi * inside * thick / waves
            layer = np.empty((61, 2, 2), dtype=complex)
            layer[:, 0, 0] = layer[:, 1, 1] = np.cos(phase)
            layer[:, 0, 1] = 1j * np.sin(phase) / inside
            layer[:, 1, 0] = 1j * np.sin(phase) * inside
            whole_film = whole_film @ layer
        outside, glass = np.cos(angle), np.sqrt(1.52**2 - np.sin(angle) ** 2)
        b = whole_film[:, 0, 0] + whole_film[:, 0, 1] * glass
        c = whole_film[:, 1, 0] + whole_film[:, 1, 1] * glass
        total.append(np.abs((outside * b - c) / (outside * b + c)) ** 2)
    return float(np.log10(np.mean(total))), {}


# ---- a control loop ------------------------------------------------------------------------------


@problem(
    UNSEEN,
    gain=number(0.1, 30, log=True),
    integral=number(0.01, 5, log=True),
    slope=number(0.01, 5, log=True),
    filtering=number(0.001, 1, log=True),
    weight=number(0, 1),
)
def control(gain: float, integral: float, slope: float, filtering: float, weight: float) -> Report:
    """Error over time of a loop about an unstable plant with delay; there is no value where it is lost."""
    step, delay = 0.02, 10
    level, velocity, total, smooth, previous = 0.0, 0.0, 0.0, 0.0, 0.0
    queue, error_time, most, effort = [0.0] * delay, 0.0, 0.0, 0.0
    for i in range(750):
        time = i * step
        push = 0.5 if time > 7.5 else 0.0
        error = 1.0 - level
        seen = weight - level
        smooth += step / (filtering + step) * (seen - smooth)
        command = gain * (weight - level + integral * total + slope * (smooth - previous) / step)
        previous = smooth
        held = float(np.clip(command, -4.0, 4.0))
        if held == command:
            total += error * step
        queue.append(held)
        velocity += step * (queue.pop(0) - push - 0.6 * velocity + 0.5 * level - 0.2 * level**3)
        level += step * velocity
        if abs(level) > 5:
            raise ArithmeticError("lost")
        error_time += step * time * abs(error)
        most, effort = max(most, level), effort + step * abs(held)
    return float(np.log(error_time)), {"over": most - 1.15, "effort": effort - 25.0}


# ---- a lens --------------------------------------------------------------------------------------

GLASS = (1.0, 1.6204, 1.0, 1.6164, 1.0, 1.6204, 1.0)


@problem(
    UNSEEN,
    **{f"c{i}": number(-0.05, 0.05) for i in range(6)},
    **{f"t{i}": number(2, 20) for i in range(5)},
)
def lens(**shape: float) -> Report:
    """The logarithm of the spot of a triplet, on the axis and at 10 degrees; no value if a ray is lost."""
    bends = [shape[f"c{i}"] for i in range(6)]
    gaps = [shape[f"t{i}"] for i in range(5)]
    spots, height, angle = [], 1.0, 0.0
    for i, bend in enumerate(bends):  # a paraxial ray finds the focus
        angle = (GLASS[i] * angle - height * bend * (GLASS[i + 1] - GLASS[i])) / GLASS[i + 1]
        if i < 5:
            height += gaps[i] * angle
    focal, back = -1.0 / angle, -height / angle
    if not 0 < back < 500:
        raise ArithmeticError("no image")
    for field in (0.0, np.deg2rad(10)):
        y, x = (a.ravel() for a in np.meshgrid(np.linspace(-10, 10, 9), np.linspace(0, 10, 5)))
        kept = x**2 + y**2 <= 100
        place = np.column_stack([x, y - np.tan(field) * 10, np.zeros_like(x)])[kept]
        way = np.tile([0.0, np.sin(field), np.cos(field)], (len(place), 1))
        for i, bend in enumerate(bends):
            place, way = _refracted(place, way, bend, GLASS[i] / GLASS[i + 1])
            place[:, 2] -= gaps[i] if i < 5 else back
        place = place - way * (place[:, 2] / way[:, 2])[:, None]
        spots.append(place[:, :2].var(axis=0).sum() + (place[:, 0] ** 2).mean())
    return float(np.log10(np.sqrt(np.mean(spots)))), {
        "long": focal - 105,
        "short": 95 - focal,
        "close": 40 - back,
    }


def _refracted(place: Array, way: Array, bend: float, ratio: float) -> tuple[Array, Array]:
    """Rays at the next surface of that curvature, which stands at z = 0; ArithmeticError if one is lost."""
    b = way[:, 2] - bend * (place * way).sum(axis=1)
    c = bend * (place**2).sum(axis=1) - 2 * place[:, 2]
    root = b**2 - bend * c
    if (root < 0).any():
        raise ArithmeticError("a ray misses")
    place = place + way * (c / (b + np.sqrt(root)))[:, None]
    normal = -bend * place + np.array([0.0, 0.0, 1.0])
    inward = (way * normal).sum(axis=1)
    left = 1 - ratio**2 * (1 - inward**2)
    if (left < 0).any():
        raise ArithmeticError("a ray is reflected")
    return place, ratio * way + (np.sqrt(left) - ratio * inward)[:, None] * normal


if __name__ == "__main__":
    compare(__doc__, of(UNSEEN), UNSEEN, BESIDE, {})

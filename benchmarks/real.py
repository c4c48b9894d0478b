"""Real problems beside rivals: learning machines, kinetics, beams, trusses and an aerofoil.

    python benchmarks/real.py                                   # all problems, three seeds
    python benchmarks/real.py --problems svm truss10 --seeds 1 --methods dngo random
    python benchmarks/real.py --schedule 100 5 100 --results real.jsonl

Nothing here is tuned on: families.py has what is. Every problem is a solver or a set of data that a package
ships. All methods are told the numbers. Studies and what is printed stand in studies.py.
"""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from studies import Problem, Report, compare, number, of, one_of, problem, whole

Array = NDArray[np.float64]
REAL: dict[str, Problem] = {}

# ---- learning machines ---------------------------------------------------------------------------


@cache
def sample(name: str, rows: int) -> tuple[Array, Array]:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(x))[:rows]
    return x[some], y[some]


def _error(model: Any, name: str, rows: int, scoring: str | None = None) -> Report:
    """1 less the mean score of three folds."""
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = sample(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(
            make_pipeline(StandardScaler(), model), x, y, cv=3, scoring=scoring
        )
    return 1.0 - float(np.mean(scores)), {}


@problem(
    REAL,
    cost=number(1e-3, 1e3, log=True),
    gamma=number(1e-5, 1, log=True),
    kernel=one_of("rbf", "poly", "sigmoid", "linear"),
    degree=whole(2, 5),
)
def svm(cost: float, gamma: float, kernel: str, degree: int) -> Report:
    from sklearn.svm import SVC

    return _error(SVC(C=cost, gamma=gamma, kernel=kernel, degree=degree), "digits", 400)


@problem(
    REAL,
    features=number(0.1, 1),
    leaf=whole(1, 40, log=True),
    depth=whole(1, 20),
    criterion=one_of("squared_error", "absolute_error", "friedman_mse"),
    bootstrap=one_of("yes", "no"),
)
def forest(features: float, leaf: int, depth: int, criterion: str, bootstrap: str) -> Report:
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(
        30,
        max_features=features,
        min_samples_leaf=leaf,
        max_depth=depth,
        criterion=criterion,
        bootstrap=bootstrap == "yes",
        random_state=0,
    )
    return _error(model, "diabetes", 300)


@problem(
    REAL,
    rate=number(1e-5, 1, log=True),
    decay=number(1e-7, 10, log=True),
    width=whole(2, 64, log=True),
    activation=one_of("relu", "tanh", "logistic", "identity"),
    solver=one_of("adam", "sgd"),
)
def net(rate: float, decay: float, width: int, activation: str, solver: str) -> Report:
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(
        (width,),
        learning_rate_init=rate,
        alpha=decay,
        activation=activation,
        solver=solver,
        max_iter=40,
        random_state=0,
    )
    return _error(model, "wine", 178, "neg_log_loss")


@problem(
    REAL,
    rate=number(1e-3, 1, log=True),
    rounds=whole(5, 100, log=True),
    depth=whole(1, 8),
    share=number(0.2, 1),
    leaf=whole(1, 40, log=True),
    loss=one_of("squared_error", "absolute_error", "huber"),
)
def boosting(rate: float, rounds: int, depth: int, share: float, leaf: int, loss: str) -> Report:
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(
        loss=loss,
        learning_rate=rate,
        n_estimators=rounds,
        max_depth=depth,
        subsample=share,
        min_samples_leaf=leaf,
        random_state=0,
    )
    return _error(model, "diabetes", 300)


# ---- kinetics ------------------------------------------------------------------------------------


@problem(
    REAL,
    temperature=number(300, 420),
    hours=number(0.1, 20, log=True),
    excess=number(1, 3),
    catalyst=number(0, 1),
)
def series(temperature: float, hours: float, excess: float, catalyst: float) -> Report:
    """A + B -> P -> W in a batch reactor, minus what it earns; bounds on waste, heat and what is left."""
    k1, k2 = (a * np.exp(-e / temperature) for a, e in ((4e6, 6500.0), (6e9, 9800.0)))
    k1, k2 = k1 * (1 + 8 * catalyst), k2 * (1 + 3 * catalyst)

    def rates(t: float, c: Array) -> list[float]:
        made, lost = k1 * c[0] * c[1], k2 * c[2]
        return [-made, -made, made - lost, lost]

    found = solve_ivp(rates, (0, hours), [1.0, excess, 0.0, 0.0], method="LSODA", rtol=1e-8)
    a, _, p, w = found.y[:, -1]
    money = 10 * p - 0.4 * hours - 2.0 * excess - 6.0 * catalyst
    return -money, {"waste": w - 0.05, "left": a - 0.15, "heat": k1 * excess - 1.5}


@cache
def _observed() -> tuple[Array, Array]:
    times = np.linspace(0.5, 15, 30)
    return times, _oscillator(times, 1.1, 0.4, 0.1, 0.4, 10.0, 5.0)


def _oscillator(times: Array, *p: float) -> Array:
    birth, eaten, gained, death, x, y = p
    found = solve_ivp(
        lambda t, c: [birth * c[0] - eaten * c[0] * c[1], gained * c[0] * c[1] - death * c[1]],
        (0, times[-1]),
        [x, y],
        t_eval=times,
        method="LSODA",
    )
    if not found.success or not np.isfinite(found.y).all():
        raise ArithmeticError("no solution")
    return found.y


@problem(
    REAL,
    birth=number(0.1, 3),
    eaten=number(0.01, 2),
    gained=number(0.01, 1),
    death=number(0.05, 2),
    x=number(1, 30),
    y=number(1, 30),
)
def predators(
    birth: float, eaten: float, gained: float, death: float, x: float, y: float
) -> Report:
    """Six numbers of two species are fitted to what was seen of them."""
    times, seen = _observed()
    found = _oscillator(times, birth, eaten, gained, death, x, y)
    return float(np.log10(np.mean((np.log1p(np.abs(found)) - np.log1p(seen)) ** 2) + 1e-12)), {}


# ---- beams and trusses ---------------------------------------------------------------------------


@problem(REAL, h=number(0.1, 2), length=number(0.1, 10), t=number(0.1, 10), b=number(0.1, 2))
def welded(h: float, length: float, t: float, b: float) -> Report:
    """Cost of a welded beam, with seven bounds (Ragsdell and Phillips 1976)."""
    load, reach, young, shear = 6000.0, 14.0, 30e6, 12e6
    moment = load * (reach + length / 2)
    arm = np.sqrt(length**2 / 4 + ((h + t) / 2) ** 2)
    polar = 2 * np.sqrt(2) * h * length * (length**2 / 12 + ((h + t) / 2) ** 2)
    direct, turning = load / (np.sqrt(2) * h * length), moment * arm / polar
    stress = np.sqrt(direct**2 + direct * turning * length / arm + turning**2)
    buckling = 4.013 * young * np.sqrt(t**2 * b**6 / 36) / reach**2
    buckling *= 1 - t / (2 * reach) * np.sqrt(young / (4 * shear))
    cost = 1.10471 * h**2 * length + 0.04811 * t * b * (14 + length)
    return float(cost), {
        "shear": stress - 13600,
        "bending": 6 * load * reach / (b * t**2) - 30000,
        "weld": h - b,
        "cheap": 0.10471 * h**2 + 0.04811 * t * b * (14 + length) - 5,
        "thin": 0.125 - h,
        "sag": 4 * load * reach**3 / (young * t**3 * b) - 0.25,
        "buckling": load - buckling,
    }


BARS = ((2, 4), (0, 2), (3, 5), (1, 3), (2, 3), (0, 1), (3, 4), (2, 5), (1, 2), (0, 3))
JOINTS = np.array([(720, 360), (720, 0), (360, 360), (360, 0), (0, 360), (0, 0)], dtype=float)


def truss(
    joints: Array,
    bars: Sequence[tuple[int, int]],
    area: Array,
    young: float,
    loads: Array,
    free: Any,
) -> tuple[Array, Array, Array]:
    """By the stiffness method: lengths of bars, stresses, and how far the free coordinates move."""
    stiffness, rows, lengths = np.zeros((len(loads), len(loads))), [], []
    for a, (i, j) in zip(area, bars, strict=True):
        along = joints[j] - joints[i]
        length = float(np.hypot(*along))
        row = np.zeros(len(loads))
        row[2 * i : 2 * i + 2], row[2 * j : 2 * j + 2] = -along / length, along / length
        stiffness += young * a / length * np.outer(row, row)
        rows.append(row * young / length)
        lengths.append(length)
    moved = np.zeros(len(loads))
    moved[free] = np.linalg.solve(stiffness[free][:, free], loads[free])
    return np.array(lengths), np.array(rows) @ moved, moved


@problem(REAL, **{f"a{i}": number(0.1, 35) for i in range(10)})
def truss10(**areas: float) -> Report:
    """Weight of the ten-bar truss, with bounds on stresses and sag."""
    area, loads = np.array([areas[f"a{i}"] for i in range(10)]), np.zeros(12)
    loads[[3, 7]] = -1e5
    lengths, stress, moved = truss(JOINTS, BARS, area, 1e7, loads, np.arange(8))
    bounds = {f"s{i}": float(s - 25000) for i, s in enumerate(np.abs(stress))}
    weight = 0.1 * float((area * lengths).sum())
    return weight, {**bounds, "sag": float(np.abs(moved).max() - 2.0)}


@problem(
    REAL, **{f"b{i}": number(1, 5) for i in range(5)}, **{f"h{i}": number(30, 65) for i in range(5)}
)
def cantilever(**sizes: float) -> Report:
    """Volume of a beam of five steps, widths and heights; bounds on stress, sag and slimness."""
    width = np.array([sizes[f"b{i}"] for i in range(5)])
    height = np.array([sizes[f"h{i}"] for i in range(5)])
    step, load, young = 100.0, 50_000.0, 2e7
    inertia = width * height**3 / 12
    near, far = step * np.arange(5)[::-1], step * np.arange(1, 6)[::-1]
    stress = load * far * height / 2 / inertia
    sag = float(np.sum(load * (far**3 - near**3) / (3 * young * inertia)))
    bounds = {f"s{i}": float(s - 14_000) for i, s in enumerate(stress)}
    slim = {f"r{i}": float(r - 20) for i, r in enumerate(height / width)}
    return float(step * (width * height).sum()), {**bounds, **slim, "sag": sag - 2.7}


# ---- an aerofoil ---------------------------------------------------------------------------------


@cache
def _xfoil() -> Any:
    """The example's objective, as a module."""
    path = Path(__file__).parents[1] / "examples" / "airfoil" / "objective.py"
    spec = importlib.util.spec_from_file_location("airfoil_objective", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@problem(
    REAL,
    thickness_front=number(0.05, 0.35),
    thickness_middle=number(0.02, 0.35),
    thickness_rear=number(0.02, 0.30),
    **{f"camber_{part}": number(-0.1, 0.4) for part in ("front", "middle", "rear")},
    needs="xfoil",
)
def aerofoil(**shape: float) -> Report:
    """Drag over lift by XFOIL, which does not converge for every shape; bounds on thickness and moment."""
    solver = _xfoil()
    points, thickness = solver.outline(shape)
    with tempfile.TemporaryDirectory() as folder:
        state = solver.run_xfoil(points, Path(folder))
    return state["drag"] / state["lift"], {
        "thickness": 0.12 - thickness,
        "moment": -0.12 - state["moment"],
    }


if __name__ == "__main__":
    usual = ("dngo", "random", "optuna_multivariate", "cma_ranks")
    compare(__doc__, of(REAL), REAL, usual, {})

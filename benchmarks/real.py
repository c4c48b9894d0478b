"""Real problems beside rivals: learning machines, kinetics, beams, trusses and an aerofoil.

    python benchmarks/real.py                                   # all problems and regimes, three seeds
    python benchmarks/real.py --problems svm truss10 --regimes 20+5x20 --seeds 1 --methods dngo random
    python benchmarks/real.py --table real.csv

Nothing here is tuned on: families.py has what is. Every problem is a solver or a set of
data that a package ships. Each method starts from the same design, is told all numbers, and is asked for
the same batches. A line for each run goes to `--results` (CSV): the best feasible value after each batch,
the share of the last batch that failed, and CPU seconds of the method. What is there is not repeated.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.space.parameters import Categorical, Float, Int, Parameter
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings
from dngo.thresholds import Threshold

Array = NDArray[np.float64]
Report = tuple[
    float, dict[str, float]
]  # the objective, minimised, and numbers that are to be 0 or less


@dataclass(frozen=True)
class Real:
    """evaluate: parameters by name -> a report; it raises where there is none."""

    parameters: dict[str, Parameter]
    evaluate: Callable[..., Report]
    needs: str = ""  # a program without which it cannot run

    @property
    def space(self) -> Space:
        return Space(self.parameters)


def number(low: float, high: float, *, log: bool = False) -> Float:
    return Float(type="float", low=low, high=high, log=log)


def whole(low: int, high: int, *, log: bool = False) -> Int:
    return Int(type="int", low=low, high=high, log=log)


def one_of(*choices: str) -> Categorical:
    return Categorical(type="categorical", choices=list(choices))


# ---- learning machines ---------------------------------------------------------------------------


@cache
def _sample(name: str, rows: int) -> tuple[Array, Array]:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(x))[:rows]
    return x[some], y[some]


def _error(model: Any, name: str, rows: int, scoring: str | None = None) -> Report:
    """1 less the mean score of three folds."""
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = _sample(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(
            make_pipeline(StandardScaler(), model), x, y, cv=3, scoring=scoring
        )
    return 1.0 - float(np.mean(scores)), {}


def svm(cost: float, gamma: float, kernel: str, degree: int) -> Report:
    from sklearn.svm import SVC

    return _error(SVC(C=cost, gamma=gamma, kernel=kernel, degree=degree), "digits", 400)


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


def predators(
    birth: float, eaten: float, gained: float, death: float, x: float, y: float
) -> Report:
    """Six numbers of two species are fitted to what was seen of them."""
    times, seen = _observed()
    found = _oscillator(times, birth, eaten, gained, death, x, y)
    return float(np.log10(np.mean((np.log1p(np.abs(found)) - np.log1p(seen)) ** 2) + 1e-12)), {}


# ---- beams and trusses ---------------------------------------------------------------------------


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


def truss10(**areas: float) -> Report:
    """Weight of the ten-bar truss: stresses and sag by the stiffness method, bounds on both."""
    area, young = np.array([areas[f"a{i}"] for i in range(10)]), 1e7
    stiffness, loads, weight = np.zeros((12, 12)), np.zeros(12), 0.0
    loads[[3, 7]] = -1e5
    rows = []
    for a, (i, j) in zip(area, BARS, strict=True):
        along = JOINTS[j] - JOINTS[i]
        length = float(np.hypot(*along))
        row = np.zeros(12)
        row[2 * i : 2 * i + 2], row[2 * j : 2 * j + 2] = -along / length, along / length
        stiffness += young * a / length * np.outer(row, row)
        rows.append(row * young / length)
        weight += 0.1 * a * length
    moved = np.zeros(12)
    moved[:8] = np.linalg.solve(stiffness[:8, :8], loads[:8])
    stress = np.abs(np.array(rows) @ moved)
    bounds = {f"s{i}": float(s - 25000) for i, s in enumerate(stress)}
    return weight, {**bounds, "sag": float(np.abs(moved).max() - 2.0)}


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


REAL = {
    "svm": Real(
        {
            "cost": number(1e-3, 1e3, log=True),
            "gamma": number(1e-5, 1, log=True),
            "kernel": one_of("rbf", "poly", "sigmoid", "linear"),
            "degree": whole(2, 5),
        },
        svm,
    ),
    "forest": Real(
        {
            "features": number(0.1, 1),
            "leaf": whole(1, 40, log=True),
            "depth": whole(1, 20),
            "criterion": one_of("squared_error", "absolute_error", "friedman_mse"),
            "bootstrap": one_of("yes", "no"),
        },
        forest,
    ),
    "net": Real(
        {
            "rate": number(1e-5, 1, log=True),
            "decay": number(1e-7, 10, log=True),
            "width": whole(2, 64, log=True),
            "activation": one_of("relu", "tanh", "logistic", "identity"),
            "solver": one_of("adam", "sgd"),
        },
        net,
    ),
    "boosting": Real(
        {
            "rate": number(1e-3, 1, log=True),
            "rounds": whole(5, 100, log=True),
            "depth": whole(1, 8),
            "share": number(0.2, 1),
            "leaf": whole(1, 40, log=True),
            "loss": one_of("squared_error", "absolute_error", "huber"),
        },
        boosting,
    ),
    "series": Real(
        {
            "temperature": number(300, 420),
            "hours": number(0.1, 20, log=True),
            "excess": number(1, 3),
            "catalyst": number(0, 1),
        },
        series,
    ),
    "predators": Real(
        {
            "birth": number(0.1, 3),
            "eaten": number(0.01, 2),
            "gained": number(0.01, 1),
            "death": number(0.05, 2),
            "x": number(1, 30),
            "y": number(1, 30),
        },
        predators,
    ),
    "welded": Real(
        {
            "h": number(0.1, 2),
            "length": number(0.1, 10),
            "t": number(0.1, 10),
            "b": number(0.1, 2),
        },
        welded,
    ),
    "truss10": Real({f"a{i}": number(0.1, 35) for i in range(10)}, truss10),
    "cantilever": Real(
        {
            **{f"b{i}": number(1, 5) for i in range(5)},
            **{f"h{i}": number(30, 65) for i in range(5)},
        },
        cantilever,
    ),
    "aerofoil": Real(
        {
            "thickness_front": number(0.05, 0.35),
            "thickness_middle": number(0.02, 0.35),
            "thickness_rear": number(0.02, 0.30),
            **{f"camber_{part}": number(-0.1, 0.4) for part in ("front", "middle", "rear")},
        },
        aerofoil,
        needs="xfoil",
    ),
}


# ---- studies -------------------------------------------------------------------------------------


@dataclass
class Study:
    """What has been evaluated: points v (n, k), objective and numbers (n,), NaN where there is none.

    stage: (n,) what picked each point, for methods that say so.
    """

    problem: Real
    v: Array
    y: Array = field(default_factory=lambda: np.empty(0))
    numbers: dict[str, Array] = field(default_factory=dict)
    iteration: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    stage: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, v: Array) -> None:
        space, t = self.problem.space, int(self.iteration[-1:].max(initial=-1)) + 1
        reports: list[Report] = []
        for point in space.to_parameters(v):
            try:
                reports.append(self.problem.evaluate(**point))
            except Exception:  # of any solver
                reports.append((np.nan, {}))
        names = sorted({*self.numbers}.union(*(numbers for _, numbers in reports)))
        old = len(self.y)
        self.numbers = {
            n: np.concatenate(
                [
                    self.numbers.get(n, np.full(old, np.nan)),
                    [numbers.get(n, np.nan) for _, numbers in reports],
                ]
            )
            for n in names
        }
        self.v = np.concatenate([self.v, v])
        self.y = np.concatenate([self.y, [y for y, _ in reports]])
        self.iteration = np.concatenate([self.iteration, np.full(len(v), t)])
        self.stage += [""] * (len(self.v) - len(self.stage))

    @property
    def ok(self) -> NDArray[np.bool_]:
        kept = [number <= 0 for number in self.numbers.values()]
        return np.isfinite(self.y) & np.all(kept, axis=0) if kept else np.isfinite(self.y)

    @property
    def feasible(self) -> Array:
        """The objective of feasible points, NaN elsewhere: (n,)."""
        return np.where(self.ok, self.y, np.nan)


Ask = Callable[[Study, int, int], Array]


def dngo(study: Study, size: int, seed: int) -> Array:
    """This package, with its defaults."""
    space, t = study.problem.space, int(study.iteration[-1])
    flags = {n: np.where(np.isnan(x), np.nan, x <= 0) for n, x in study.numbers.items()}
    data = TrainingData(
        x=space.encode(study.v),
        y=study.y,
        feasible=study.ok,
        constraints={"completed": np.isfinite(study.y).astype(float), **flags},
        numbers=study.numbers,
        thresholds=dict.fromkeys(study.numbers, Threshold("<=", 0.0)),
        batch=study.iteration,
        groups=space.groups,
    )
    model = fit_model(data, SurrogateSettings(), rng=np.random.default_rng([seed, 2, t]))
    history = History(
        study.v,
        study.feasible,
        iteration=study.iteration,
        stage=np.array(study.stage),
        constraints=flags,
    )
    picks = propose_batch(
        model,
        space,
        history,
        size=size,
        settings=AcquisitionSettings(),
        rng=np.random.default_rng([seed, 3, t]),
    )
    study.stage += picks.stage
    return picks.v


def random(study: Study, size: int, seed: int) -> Array:
    """Uniform points."""
    space = study.problem.space
    return space.sample(np.random.default_rng([seed, 4, len(study.y)]).random((size, space.k)))


def tpe(study: Study, size: int, seed: int, *, multivariate: bool = True) -> Array:
    """Optuna's TPE, told the numbers of the constraints, with a constant liar inside a batch."""
    import optuna
    from rivals import _distribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = study.problem.space
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(
            seed=seed + len(study.y),
            n_startup_trials=0,
            multivariate=multivariate,
            constant_liar=True,
            constraints_func=lambda trial: trial.system_attrs["constraints"],
        )
    found = optuna.create_study(sampler=sampler)
    distributions = {c.name: _distribution(c) for c in space.columns}
    for i, row in enumerate(study.v):
        parameters = {
            c.name: int(x) if c.choices is not None or c.kind == "int" else float(x)
            for c, x in zip(space.columns, row, strict=True)
        }
        numbers = [float(np.nan_to_num(x[i], nan=1e9)) for x in study.numbers.values()]
        ran = bool(np.isfinite(study.y[i]))
        found.add_trial(
            optuna.trial.create_trial(
                params=parameters,
                distributions=distributions,
                system_attrs={"constraints": numbers or [0.0]},
                **({"value": study.y[i]} if ran else {"state": optuna.trial.TrialState.FAIL}),
            )
        )
    trials = [found.ask(distributions) for _ in range(size)]
    rows = [[t.params[c.name] for c in space.columns] for t in trials]
    return space.on_grid(np.array(rows, dtype=float))


def cma(study: Study, size: int, seed: int) -> Array:
    """CMA-ES on ranks: what is broken counts after all that is feasible, by how much, and crashes last.

    Every batch starts from what was evaluated: a deviation that shrinks by a fifth from batch to batch.
    """
    from cmaes import CMA

    space, worse = study.problem.space, np.zeros(len(study.y))
    for x in study.numbers.values():
        spread = np.nanstd(x) or 1.0
        worse += np.where(np.isnan(x), 0.0, np.maximum(x, 0.0)) / spread
    top = np.nanmax(study.y) if np.isfinite(study.y).any() else 0.0
    value = np.where(study.ok, study.y, top + 1.0 + worse)
    value = np.where(np.isfinite(study.y), value, np.nanmax(value, initial=top) + 1e6)
    order = np.argsort(value, kind="stable")[: max(size // 2, 4)]
    u = space.unit(study.v)
    engine = CMA(
        mean=u[order].mean(axis=0) if study.iteration[-1] else u[order[0]],
        sigma=0.2 * 0.8 ** float(study.iteration[-1]),
        bounds=np.tile([0.0, 1.0], (space.k, 1)),
        seed=seed + len(study.y),
        population_size=max(size, 4),
    )
    return space.from_unit(np.array([engine.ask() for _ in range(size)]))


METHODS: dict[str, Ask] = {"dngo": dngo, "random": random, "tpe": tpe, "cma": cma}
REGIMES = {"20+5x20": (20, 5, 20), "100+5x100": (100, 5, 100), "10+40x1": (10, 40, 1)}
COLUMNS = (
    "problem",
    "regime",
    "method",
    "seed",
    "first",
    "best",
    "curve",
    "feasible",
    "failed_last",
    "seconds",
)


def run(problem: Real, regime: str, method: Ask, seed: int) -> dict[str, Any]:
    """One study, as a row of the results."""
    first, rounds, size = REGIMES[regime]
    space = problem.space
    study = Study(problem, np.empty((0, space.k)))
    rng = np.random.default_rng([seed, 0])
    study.add(design(space, first, rng=rng, exclude=np.empty((0, space.k))))
    curve = [np.nanmin(study.feasible, initial=np.inf)]
    for _ in range(rounds):
        begun = time.process_time()
        v = method(study, size, seed)
        study.seconds += time.process_time() - begun
        study.add(v)
        curve.append(np.nanmin(study.feasible, initial=np.inf))
    last = study.iteration == study.iteration[-1]
    return {
        "regime": regime,
        "seed": seed,
        "first": int(study.ok[:first].sum()),
        "best": float(curve[-1]),
        "curve": " ".join(f"{value:.6g}" for value in curve),
        "feasible": int(study.ok[first:].sum()),
        "failed_last": float(np.mean(~np.isfinite(study.y[last]))),
        "seconds": round(study.seconds, 2),
    }


def table(rows: list[dict[str, str]]) -> None:
    """Means over the seeds, the lowest first, and how often each method is first, level, or last.

    A study that found no feasible point counts as infinite. Level is who ends within a thousandth of what
    the best one gained on the best of the design, or of the worst method where the design has none.
    """
    cells: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        found = cells.setdefault((row["problem"], row["regime"]), {})
        pair = float(row["best"]), float(row["curve"].split()[0])
        found.setdefault(row["method"], []).append(pair)
    counts: dict[tuple[str, str], Counter[str]] = {}
    for (problem, regime), methods in cells.items():
        means = {name: np.mean(values, axis=0) for name, values in methods.items()}
        ordered = sorted(means, key=lambda name: float(means[name][0]))
        best, last = means[ordered[0]][0], means[ordered[-1]][0]
        finite = [mean[0] for mean in means.values() if np.isfinite(mean[0])]
        start = means[ordered[0]][1]
        gained = (start if np.isfinite(start) else max(finite, default=best)) - best
        for name, (mean, _) in means.items():
            count = counts.setdefault((regime, name), Counter())
            count["problems"] += 1
            count["first or level"] += bool(mean <= best + 1e-3 * max(gained, 0.0))
            count["last"] += bool(mean == last > best)
            count["behind random search"] += bool(mean > means.get("random", [np.inf])[0])
        print(problem, regime, *(f"{name} {means[name][0]:.6g}" for name in ordered))
    for (regime, name), count in counts.items():
        print(regime, name, ", ".join(f"{what} {n}" for what, n in count.items()))


def compare(
    doc: str, problems: dict[str, Real], default: list[str], methods: dict[str, Ask]
) -> None:
    """The command line of such a benchmark: studies of problems by methods, and a table of them."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--problems", nargs="+", default=default, choices=list(problems))
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=list(REGIMES))
    parser.add_argument("--methods", nargs="+", default=list(methods), choices=list(methods))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("real.csv"))
    parser.add_argument("--table", type=Path, help="summarise a file of results, and run nothing")
    arguments = parser.parse_args()
    known = _read(arguments.table or arguments.results)
    if arguments.table:
        table(known)
        return
    done = {tuple(row[n] for n in COLUMNS[:4]) for row in known}
    wanted = itertools.product(
        range(arguments.seeds), arguments.regimes, arguments.problems, arguments.methods
    )
    for seed, regime, name, method in wanted:  # all problems before the next seed
        if (name, regime, method, str(seed)) in done:
            continue
        if problems[name].needs and not shutil.which(problems[name].needs):
            print(f"{name}: left out, as there is no program {problems[name].needs}")
            continue
        row = {"problem": name, **run(problems[name], regime, methods[method], seed)}
        row["method"] = method
        begun = arguments.results.exists()
        with arguments.results.open("a", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            if not begun:
                writer.writeheader()
            writer.writerow(row)
        print(*row.values(), flush=True)


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    compare(__doc__, REAL, list(REAL), METHODS)

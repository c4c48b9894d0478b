"""Figures of the papers: docs/presets.md lists each with its command, and what was found.

    python benchmarks/figures.py cost --plot cost.svg
    python benchmarks/figures.py branin --plot branin.svg --seeds 3 --evaluations 50
    python benchmarks/figures.py lda --tables DIR --seeds 10

cost: a fit and one suggestion on Hartmann6 after N random evaluations, CPU seconds: the default, the
adaptive bases alone, and an exact Gaussian process for as long as it can be borne. activations: the
paper's recipe on one input, with tanh, with relu and a tanh last, and with relu alone; printed is the
deviation predicted beside the data over that among them. sinone: BOHAMIANN's prediction after 20 steps.
brofos: regret, and how often the average exceeds a bound. The others compare searches: trained.py.
DIR holds lda_on_grid.csv and svm_on_grid.csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from courses import Strategy, Task, compare, fit, plot, search
from objectives import FUNCTIONS, cube, hartmann6
from scipy.optimize import differential_evolution
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from trained import FIGURES

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

COSTS = {
    "auto (default)": (SurrogateSettings(), 100_000),
    "adaptive_basis": (SurrogateSettings(kind="adaptive_basis"), 100_000),
    "gp": (SurrogateSettings(kind="gp"), 1000),
}
SIZES = (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
PAPER = SurrogateSettings(
    kind="adaptive_basis",
    calibration="in_sample",
    networks={"activation": "tanh", "ensemble": 1, "optimizer": "sgd", "weight_decay": 1e-4},
    warp=False,
)


def data_of(x: np.ndarray, y: np.ndarray) -> TrainingData:
    return TrainingData(x=x, y=y, constraints={"completed": np.ones(len(y))})


def cost(sizes: tuple[int, ...], seeds: int) -> dict[str, list[tuple[int, float, float]]]:
    """Mean and deviation of the CPU seconds of a suggestion by surrogate and N."""
    function = FUNCTIONS["hartmann6"]
    space = cube(function.d)
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in COSTS}
    for n in sizes:
        for name, (settings, most) in COSTS.items():
            if n > most:
                continue
            seconds = []
            for seed in range(seeds):
                rng = np.random.default_rng([seed, n])
                v = rng.random((n, function.d))
                y = function.f(v)
                began = time.process_time()
                model = fit_model(data_of(space.encode(v), y), settings, rng=rng)
                propose_batch(
                    model,
                    space,
                    History(v, y),
                    size=1,
                    settings=AcquisitionSettings(trust_region_share=0.0),
                    rng=rng,
                )
                seconds.append(time.process_time() - began)
            mean, deviation = float(np.mean(seconds)), float(np.std(seconds))
            found[name].append((n, mean, deviation))
            print(f"N = {n:>6} {name:<16} {mean:8.2f} ± {deviation:.2f} CPU-s", flush=True)
    return found


def slope(points: list[tuple[int, float, float]]) -> float:
    """Exponent of N from 1,000 observations on."""
    n, seconds = np.array([(p[0], p[1]) for p in points if p[0] >= 1000]).T
    return float(np.polyfit(np.log(n), np.log(seconds), 1)[0])


def plot_cost(plt, found: dict[str, list[tuple[int, float, float]]]):
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, points in found.items():
        n, mean, deviation = np.array(points).T
        axes.errorbar(n, mean, deviation, marker="o", capsize=2, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("observations")
    axes.set_ylabel("CPU seconds per suggestion")
    axes.legend()
    return figure


def one_input(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in the middle of the interval, none near its ends."""
    rng = np.random.default_rng(seed)
    x = 0.25 + 0.5 * rng.random((20, 1))
    return x, np.sin(12 * x[:, 0]) + 2 * x[:, 0] + 0.05 * rng.standard_normal(20)


def activations(seeds: int) -> dict[str, Model]:
    """The fits of the first seed; prints how far the deviation grows beside the data."""
    inside, beside = np.linspace(0.25, 0.75, 51)[:, None], np.array([[0.0], [1.0]])
    first: dict[str, Model] = {}
    for name in ("tanh", "relu_tanh", "relu"):
        ratios = []
        for seed in range(seeds):
            x, y = one_input(seed)
            networks = PAPER.networks.model_copy(update={"activation": name})
            settings = PAPER.model_copy(update={"networks": networks})
            model = fit_model(data_of(x, y), settings, rng=np.random.default_rng(seed))
            first.setdefault(name, model)
            deviations = [model.predict(at)[1] for at in (inside, beside)]
            ratios.append(np.max(deviations[1]) / np.median(deviations[0]))
        low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
        print(f"{name:<10} {middle:6.1f} times (80 % of {seeds} seeds: {low:.1f} to {high:.1f})")
    return first


def plot_activations(plt, models: dict[str, Model]):
    figure, axes = plt.subplots(1, len(models), figsize=(11, 3.2), sharey=True)
    x, y = one_input(0)
    grid = np.linspace(0, 1, 301)[:, None]
    for panel, (name, model) in zip(axes, models.items(), strict=True):
        mean, deviation = model.predict(grid)
        panel.plot(grid, mean, "C0")
        for times in (1, 2):
            low, high = mean - times * deviation, mean + times * deviation
            panel.fill_between(grid[:, 0], low, high, color="C0", alpha=0.2, lw=0)
        panel.plot(x, y, "k.")
        panel.set_ylim(-6, 8)
        panel.set_title(name)
    return figure


def sin_one(v: np.ndarray) -> np.ndarray:
    """The function sinOne of the paper's authors (RoBO), to be minimised over [0, 1]."""
    return 0.5 * np.sin(13 * v[:, 0]) * np.sin(27 * v[:, 0]) + 0.5


def plot_sin_one(plt, seed: int):
    """The mean and two deviations after 20 steps; prints the distance to the minimum."""
    task = Task(cube(1), lambda v: (float(sin_one(v[None])[0]), 1.0))
    strategy = Strategy("bohamiann-2016")
    course = search(task, strategy, 22, seed)
    v, y = course.v, course.y
    model = fit(task, strategy, v, y, np.ones(len(y)), (seed, 1, len(y)))
    x = np.linspace(0, 1, 501)[:, None]
    mean, deviation = model.predict(x)
    lowest = sin_one(np.linspace(0, 1, 10**6)[:, None]).min()
    held = np.mean(np.abs(sin_one(x) - mean) < 2 * deviation)
    print(
        f"after {len(v)} evaluations: {y.min() - lowest:.2g} above the minimum; "
        f"two deviations hold {held:.2f} of the interval"
    )
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(x, sin_one(x), "k--", label="sinOne")
    axes.plot(x, mean, "C0", label="mean")
    axes.fill_between(x[:, 0], mean - 2 * deviation, mean + 2 * deviation, alpha=0.2, lw=0)
    axes.plot(v, y, "k.")
    axes.legend()
    return figure


def mixture(u: np.ndarray) -> np.ndarray:
    """Four modes of different heights; the paper does not say which."""
    centres = np.array([[0.2, 0.75], [0.75, 0.8], [0.7, 0.25], [0.25, 0.2]])
    squares = ((u[:, None] - centres) ** 2).sum(axis=-1) / np.array([0.12, 0.1, 0.15, 0.2]) ** 2
    return -np.exp(-0.5 * squares) @ [0.7, 1.0, 0.8, 0.5]


def drawn() -> Callable[[np.ndarray], np.ndarray]:
    """A draw of a Gaussian process on the interval, from -1 to 1."""
    x = np.linspace(0, 1, 501)
    y = GaussianProcessRegressor(RBF(0.05)).sample_y(x[:, None], random_state=0)[:, 0]
    return lambda u: np.interp(u[:, 0], x, 2 * (y - y.min()) / np.ptp(y) - 1)


def plot_brofos(plt, seeds: int, queries: int):
    """Regret by query after 50 uniform points, and the share of runs whose average exceeds a bound."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    n = np.arange(1, queries + 1)
    print("function,bound,queries,least regret,average regret,runs above the bound")
    for name, f, d, bound in (
        ("mixture", mixture, 2, 0.2),
        ("Gaussian process", drawn(), 1, 0.7),
        ("Hartmann4", hartmann6, 4, 2.0),
    ):

        def value(v, f=f):
            return float(f(v[None])[0])

        def timed(v, value=value):
            return value(v), 1.0

        best = differential_evolution(value, [(0, 1)] * d, seed=0).fun
        task = Task(cube(d), timed, first=50)
        strategy = Strategy("brofos-2015")
        runs = [search(task, strategy, 50 + queries, seed).y[50:] - best for seed in range(seeds)]
        average = np.cumsum(runs, axis=1) / n
        above = np.mean(average > bound, axis=0)
        for m in (1, queries // 4, queries // 2, queries):
            least = np.min(np.array(runs)[:, :m], axis=1).mean()
            regret = average[:, m - 1].mean()
            print(f"{name},{bound},{m},{least:.3f},{regret:.3f},{above[m - 1]:.2f}", flush=True)
        axes[0].plot(n, average.mean(axis=0), label=name)
        axes[1].semilogy(n, above, label=f"{name}: above {bound}")
    axes[0].set(xlabel="queries", ylabel="average regret")
    axes[1].set(xlabel="queries", ylabel="share of runs")
    axes[1].legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=["cost", "activations", "sinone", "brofos", *FIGURES])
    parser.add_argument("--seeds", type=int, help="default: 5 for cost, else as in the paper")
    parser.add_argument("--evaluations", type=int, help="of each search; default: the paper's")
    parser.add_argument("--tables", type=Path, help="the folder of the grids")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="most observations")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    if options.figure == "cost":
        sizes = tuple(n for n in SIZES if n <= options.largest)
        costs = cost(sizes, options.seeds or 5)
        for name, points in costs.items():
            if points[-1][0] > 1000:
                print(f"{name}: CPU seconds grow as N^{slope(points):.2f} from 1,000 on")
        figure = plot_cost(plt, costs)
    elif options.figure == "activations":
        figure = plot_activations(plt, activations(options.seeds or 20))
    elif options.figure == "sinone":
        figure = plot_sin_one(plt, 0)
    elif options.figure == "brofos":
        figure = plot_brofos(plt, options.seeds or 100, options.evaluations or 1000)
    else:
        shown = FIGURES[options.figure]
        evaluations, seeds = options.evaluations or shown.evaluations, options.seeds or shown.seeds
        found = compare(shown.compared(options.tables), evaluations, seeds)
        figure = plot(plt, found, shown.optimum)
    if options.plot:
        figure.savefig(options.plot, bbox_inches="tight")


if __name__ == "__main__":
    main()

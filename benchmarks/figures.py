"""Figures of the papers: seconds per suggestion, activations and uncertainty, sinOne and Branin.

    python benchmarks/figures.py cost --plot cost.svg                 # 2015, figure 1
    python benchmarks/figures.py activations --plot activations.svg   # 2015, figure 2
    python benchmarks/figures.py sinone --plot sinone.svg             # 2016, figure 1, right
    python benchmarks/figures.py branin --plot branin.svg --seeds 3   # 2016, figure 1, left: hours

cost: a fit and one suggestion on Hartmann6 after N random evaluations, CPU seconds: the default, the
adaptive bases alone, and an exact Gaussian process for as long as it can be borne. activations: the
paper's recipe on one input, with tanh, with relu and a tanh last, and with relu alone; printed is the
deviation predicted beside the data over that among them. sinone: BOHAMIANN's prediction after 20 steps.
branin: the distance to the minimum by evaluation, of BOHAMIANN, DNGO and the Gaussian process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from objectives import FUNCTIONS, cube
from searching import of_preset

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
    first = {}
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


def searched(preset: str, function, k: int, evaluations: int, seed: int):
    """Points and values of a search one by one by a published system, and its last model."""
    space = cube(k)
    surrogate = SurrogateSettings(**of_preset(preset, "surrogate"))
    acquisition = AcquisitionSettings(**of_preset(preset, "acquisition"))
    v = np.random.default_rng([seed, 0]).random((2, k))
    while True:
        y = function(v)
        model = fit_model(
            data_of(space.encode(v), y), surrogate, rng=np.random.default_rng([seed, 1, len(v)])
        )
        if len(v) == evaluations:
            return v, y, model
        history, rng = History(v, y), np.random.default_rng([seed, 2, len(v)])
        found = propose_batch(model, space, history, size=1, settings=acquisition, rng=rng)
        v = np.concatenate([v, found.v])


def plot_sin_one(plt, seed: int):
    """The mean and two deviations after 20 steps; prints the distance to the minimum."""
    v, y, model = searched("bohamiann-2016", sin_one, 1, 22, seed)
    x = np.linspace(0, 1, 501)[:, None]
    mean, deviation = model.predict(x)
    held = np.mean(np.abs(sin_one(x) - mean) < 2 * deviation)
    print(
        f"after {len(v)} evaluations: {y.min() - sin_one(x).min():.2g} above the minimum; "
        f"two deviations hold {held:.2f} of the interval"
    )
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(x, sin_one(x), "k--", label="sinOne")
    axes.plot(x, mean, "C0", label="mean")
    axes.fill_between(x[:, 0], mean - 2 * deviation, mean + 2 * deviation, alpha=0.2, lw=0)
    axes.plot(v, y, "k.")
    axes.legend()
    return figure


def plot_branin(plt, seeds: int):
    """Mean distance to the minimum by evaluation, for each system."""
    figure, axes = plt.subplots(figsize=(6, 4))
    for preset in ("bohamiann-2016", "dngo-2015", "gp-ei-mcmc-2012"):
        runs = [searched(preset, FUNCTIONS["branin"].f, 2, 200, s)[1] for s in range(seeds)]
        regret = np.mean([np.minimum.accumulate(y) for y in runs], axis=0) - 0.397887
        print(f"{preset}: {regret[49]:.2g} after 50, {regret[99]:.2g} after 100, {regret[-1]:.2g}")
        axes.semilogy(np.arange(1, len(regret) + 1), regret, label=preset)
    axes.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=["cost", "activations", "sinone", "branin"])
    parser.add_argument("--seeds", type=int, help="5 for cost, 20 for activations, 30 for branin")
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
    else:
        figure = plot_branin(plt, options.seeds or 30)
    if options.plot:
        figure.savefig(options.plot, bbox_inches="tight")


if __name__ == "__main__":
    main()

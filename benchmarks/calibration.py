"""How well a surrogate predicts what it has not seen: one command, ten seeds.

    python benchmarks/calibration.py                                   # all functions, the default
    python benchmarks/calibration.py hartmann6 --set kind=gp warp=false
    python benchmarks/calibration.py hartmann6 --preset dngo-2015
    python benchmarks/calibration.py --tables DIR                      # four UCI tables too
    python benchmarks/calibration.py hartmann6 --rivals                # others on the same data

Trains on scrambled Sobol points and tests on 2,000 uniform ones; of a table, on ten random 90/10
splits. Printed, as mean ± standard deviation over seeds: the mean log density of a test outcome, in
units of the test outcomes' standard deviation (of a table: in its own units); how many outcomes lie
in the 95 % interval; the root mean square error, in the same units; CPU seconds of a fit on one
thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from objectives import FUNCTIONS, regression_table
from options import add_preset, add_settings, of_preset, settings_of
from rivals import Predict, installed_surrogates
from scipy.stats import norm, qmc

from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings

TABLES = ("boston_housing", "yacht", "concrete", "wine_red")


# Inputs, outcomes, new inputs and the outcomes there, rng -> of each new outcome the log density,
# the predicted share below and the mean; and CPU seconds of the fit.
Fit = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray, float]]


def ours(settings: SurrogateKind) -> Fit:
    """This package's surrogate."""

    def fit(x, y, new, truth, rng):
        start = time.process_time()
        data = TrainingData(x=x, y=y, constraints={"completed": np.ones(len(y))})
        model = fit_model(data, settings, rng=rng)
        seconds = time.process_time() - start
        return *model.log_density(new, truth), model.predict(new)[0], seconds

    return fit


def beside(rival: Callable[..., Predict]) -> Fit:
    """A surrogate of rivals.py."""

    def fit(x, y, new, truth, rng):
        start = time.process_time()
        predict = rival(x, y, int(rng.integers(2**31)))
        seconds = time.process_time() - start
        mean, deviation = predict(new)
        predicted = norm(mean, deviation)
        return predicted.logpdf(truth), predicted.cdf(truth), mean, seconds

    return fit


def trial(name: str, n: int, seed: int, tables: Path | None, fit: Fit) -> list:
    """Log density, coverage, error and seconds of one fit."""
    rng = np.random.default_rng([seed, n])
    if name in TABLES:
        assert tables is not None
        x, y = regression_table(tables, name)
        order = rng.permutation(len(x))
        n = round(0.9 * len(x))
        x, new, y, truth = x[order[:n]], x[order[n:]], y[order[:n]], y[order[n:]]
        unit = 1.0
    else:
        function = FUNCTIONS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Sobol points of a number that is no power of two
            x = qmc.Sobol(function.d, rng=rng).random(n)
        new = rng.random((2000, function.d))
        y = function.f(x) + function.noise * rng.standard_normal(n)
        truth = function.f(new) + function.noise * rng.standard_normal(len(new))
        unit = float(truth.std())
    density, below, mean, seconds = fit(x, y, new, truth, rng)
    return [
        density.mean() + np.log(unit),
        np.mean((below > 0.025) & (below < 0.975)),
        np.sqrt(np.mean((mean - truth) ** 2)) / unit,
        seconds,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tables", type=Path, help="folder of the four tables (CSV)")
    parser.add_argument(
        "--rivals", action="store_true", help="those of rivals.py that are installed"
    )
    add_settings(parser, "--set", "surrogate")
    add_preset(parser)
    chosen = parser.parse_args()
    preset = of_preset(chosen.preset, "surrogate")
    settings = settings_of(parser, SurrogateSettings, chosen.set, **preset)
    fits = {"dngo": ours(settings)}
    if chosen.rivals:
        fits |= {label: beside(rival) for label, rival in installed_surrogates().items()}
    names = chosen.problems or [*FUNCTIONS, *(TABLES if chosen.tables else ())]
    print(
        f"{'':16}{'N':>6}  {'surrogate':16}{'log density':>16}  {'coverage':>13}  {'error':>15}"
        f"  {'CPU s':>6}"
    )
    for name in names:
        for n, (label, fit) in product([0] if name in TABLES else chosen.sizes, fits.items()):
            runs = [trial(name, n, s, chosen.tables, fit) for s in range(chosen.seeds)]
            m, s = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=min(1, len(runs) - 1))
            print(
                f"{name:16}{n or '90 %':>6}  {label:16}{m[0]:8.3f} ± {s[0]:5.3f}"
                f"  {m[1]:5.3f} ± {s[1]:5.3f}  {m[2]:7.3f} ± {s[2]:5.3f}  {m[3]:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

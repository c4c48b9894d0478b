"""How well a surrogate predicts what it has not seen: one command, ten seeds.

    python benchmarks/calibration.py                                   # all functions, the default
    python benchmarks/calibration.py hartmann6 --set kind=gp warp=false
    python benchmarks/calibration.py --tables DIR                      # Boston and Yacht too

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
from pathlib import Path

import numpy as np
import yaml
from objectives import FUNCTIONS, regression_table
from scipy.stats import qmc

from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

TABLES = {"boston_housing": "boston_housing", "yacht": "yacht"}


def trial(name: str, n: int, seed: int, tables: Path | None, settings: SurrogateSettings) -> list:
    """Log density, coverage, error, seconds and the process's share of one fit."""
    rng = np.random.default_rng([seed, n])
    if name in TABLES:
        assert tables is not None
        x, y = regression_table(tables, TABLES[name])
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
    start = time.process_time()
    data = TrainingData(x=x, y=y, constraints={"completed": np.ones(n)})
    model = fit_model(data, settings, rng=rng)
    seconds = time.process_time() - start
    density, below = model.log_density(new, truth)
    mean, _ = model.predict(new)
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
    parser.add_argument("--tables", type=Path, help="folder of boston_housing.csv and yacht.csv")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="surrogate:")
    chosen = parser.parse_args()
    changes = dict(pair.split("=", 1) for pair in chosen.set)
    settings = SurrogateSettings(**{key: yaml.safe_load(v) for key, v in changes.items()})
    names = chosen.problems or [*FUNCTIONS, *(TABLES if chosen.tables else ())]
    print(f"{'':16}{'N':>6}  {'log density':>16}  {'coverage':>13}  {'error':>15}  {'CPU s':>6}")
    for name in names:
        for n in [0] if name in TABLES else chosen.sizes:
            runs = [trial(name, n, s, chosen.tables, settings) for s in range(chosen.seeds)]
            m, s = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=min(1, len(runs) - 1))
            print(
                f"{name:16}{n or '90 %':>6}  {m[0]:8.3f} ± {s[0]:5.3f}  {m[1]:5.3f} ± {s[1]:5.3f}"
                f"  {m[2]:7.3f} ± {s[2]:5.3f}  {m[3]:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

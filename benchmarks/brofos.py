"""The experiments of Brofos, Shu and Jin (2015, section 5): one command, ten seeds.

    python benchmarks/brofos.py                                  # Gaussian mixture and Hartmann, 4 inputs
    python benchmarks/brofos.py mixture --seeds 3 --set relearn_every=10
    python benchmarks/brofos.py --set kind=auto --acquisition when_vanished=thompson

Fifty uniform points, then a hundred queries, one at a time: expected improvement on the regression of
their section 3, and pure exploration where it has vanished. Their mixture is not specified; this one
has four modes of different heights in the unit square. Printed, as mean ± standard deviation over
seeds: the minimum regret Q and the average cumulative regret R / m after m queries (2), (3), the
fifty first points not counted, and CPU seconds of a run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from objectives import HARTMANN_A, HARTMANN_C, HARTMANN_P, cube
from scipy.optimize import minimize
from searching import add_settings, of_preset, settings_of

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import Past, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

FIRST = 50
MARKS = (1, 10, 25, 50, 100)
CENTRES = np.array([[0.2, 0.75], [0.75, 0.8], [0.7, 0.25], [0.25, 0.2]])
WIDTHS = np.array([0.12, 0.1, 0.15, 0.2])
HEIGHTS = np.array([0.7, 1.0, 0.8, 0.5])


def mixture(u: np.ndarray) -> np.ndarray:
    squares = ((u[:, None] - CENTRES) ** 2).sum(axis=-1) / WIDTHS**2
    return -np.exp(-0.5 * squares) @ HEIGHTS


def hartmann4(u: np.ndarray) -> np.ndarray:
    squares = (HARTMANN_A[:, :4] * (u[:, None] - HARTMANN_P[:, :4]) ** 2).sum(axis=-1)
    return -np.exp(-squares) @ HARTMANN_C


PROBLEMS = {"mixture": (mixture, 2), "hartmann4": (hartmann4, 4)}


def optimum(f, d: int) -> float:
    """The minimum, from the best of many starts."""
    u = np.random.default_rng(0).random((20_000, d))
    starts = u[np.argsort(f(u))[:20]]
    bounds = [(0, 1)] * d
    return min(
        float(minimize(lambda v: f(v[None])[0], start, bounds=bounds, tol=1e-12).fun)
        for start in starts
    )


def run(f, d: int, seed: int, queries: int, settings, acquisition) -> tuple[np.ndarray, float]:
    """The values of the queries, in order, and CPU seconds."""
    space, rng = cube(d), np.random.default_rng([seed, d])
    v = rng.random((FIRST, d))
    y = f(v)
    start, fitted, used = time.process_time(), {}, settings.model_dump(mode="json")
    for query in range(queries):
        batch = np.r_[np.zeros(FIRST), 1 + np.arange(query)]
        data = TrainingData(x=v, y=y, constraints={"completed": np.ones(len(y))}, batch=batch)
        past = Past(
            1 + query,
            model=lambda t: (fitted[t], used),
            stream=lambda t: np.random.default_rng([seed, d, t]),
        )
        model = fitted[1 + query] = fit_model(data, settings, rng=rng, past=past)
        found = propose_batch(
            model,
            space,
            History(v, y),
            size=1,
            settings=acquisition,
            rng=rng,
        )
        v, y = np.concatenate([v, found.v]), np.concatenate([y, f(found.v)])
    return y[FIRST:], time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--queries", type=int, default=100)
    add_settings(parser, "--set", "surrogate")
    add_settings(parser, "--acquisition", "acquisition")
    chosen = parser.parse_args()

    surrogate, picks = (of_preset("brofos-2015", s) for s in ("surrogate", "acquisition"))
    settings = settings_of(parser, SurrogateSettings, chosen.set, **surrogate)
    acquisition = settings_of(parser, AcquisitionSettings, chosen.acquisition, **picks)
    for name in chosen.problems:
        f, d = PROBLEMS[name]
        best = optimum(f, d)
        runs = [run(f, d, s, chosen.queries, settings, acquisition) for s in range(chosen.seeds)]
        regret = np.array([values - best for values, _ in runs])
        seconds = np.mean([s for _, s in runs])
        print(f"{name}: optimum {best:.6f}, {len(runs)} seeds, {seconds:.1f} CPU s a run")
        print(f"{'queries':>8}{'minimum regret':>24}{'average regret':>24}")
        for m in MARKS:
            if m <= chosen.queries:
                low, mean = regret[:, :m].min(axis=1), regret[:, :m].mean(axis=1)
                spread = [np.std(a, ddof=min(1, len(runs) - 1)) for a in (low, mean)]
                print(
                    f"{m:8}{np.mean(low):12.4f} ± {spread[0]:.4f}   "
                    f"{np.mean(mean):12.4f} ± {spread[1]:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

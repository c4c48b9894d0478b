"""Trust regions alone, without a surrogate of the whole space: a tenth of the time of a study.

    python benchmarks/trust_regions.py bowl5s0 steep5s0 --schedule 20 10 10 --seeds 3
    python benchmarks/trust_regions.py steep10s0 --schedule 100 8 100 --seeds 2 --foresight

What their model and their search are worth is told best where nothing else picks. Problems are those of
batches.py; the set `tuning` is for rules, `reporting` is not. Printed is the best value of each seed.
With --foresight also how well a region's model ranks the outcomes of the batch that was chosen by it: the
mean over the batches of Spearman's rank correlation, of all and of the lower half. It tells models apart in
few runs.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from batches import Problem, Run, begin, find_problems, recommend, tell
from scipy.stats import spearmanr

from dngo.acquisition import History
from dngo.acquisition.region_model import Penalty
from dngo.acquisition.spacing import Spacing, distances
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.surrogates.nearby import MOST, Nearby
from dngo.surrogates.numerics import one_thread


def study(problem: Problem, seed: int) -> Run:
    """A design, and batches of the trust regions' picks; what they leave is random."""
    run, noise = begin(problem, seed), np.random.default_rng([seed, 1])
    stage, space, size = TrustRegions(), problem.space, problem.batch
    for t in range(problem.rounds):
        rng = np.random.default_rng([seed, 3, t])
        history = History(run.v, run.y, iteration=run.iteration)
        with one_thread():
            v, _ = stage.points(
                history,
                size,
                rng,
                spacing=Spacing(space, history, 0.01),
                penalty=Penalty(),
            )
        others = space.sample(rng.random((size - len(v), space.k)))
        tell(problem, run, np.concatenate([v, others]), noise)
    recommend(problem, run)
    return run


def foresight(problem: Problem, run: Run) -> tuple[float, float]:
    """Rank correlations of the best region's model with the batch after it: of all, of the lower half."""
    space, found = problem.space, []
    for t in range(1, problem.rounds):
        known, after = run.iteration <= t, run.iteration == t + 1
        v, y = run.v[known], run.y[known]
        gap = distances(space.unit(v), space.unit(v[[np.argmin(y)]]))[:, 0]
        rows = np.argsort(gap, kind="stable")[:MOST]
        with one_thread():
            near = Nearby.fit(
                space.encode(v[rows]),
                y[rows],
                np.full(len(rows), np.nan),
                rng=np.random.default_rng(0),
            )
            mean = near.function(space.encode(run.v[after]))[0]
        low = run.y[after] <= np.median(run.y[after])
        found.append([spearmanr(mean[part], run.y[after][part])[0] for part in (low | True, low)])
    every, lower = np.nanmean(found, axis=0)
    return float(every), float(lower)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--schedule", nargs=3, type=int, default=(20, 10, 10))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--foresight", action="store_true", help="how well the models rank")
    arguments = parser.parse_args()
    try:
        problems = find_problems(arguments.problems)
    except ValueError as error:
        parser.error(str(error))
    first, rounds, size = arguments.schedule
    for name, problem in problems.items():
        begun = time.process_time()
        problem = replace(problem, design=first, rounds=rounds, batch=size)
        runs = [study(problem, seed) for seed in range(arguments.seeds)]
        seconds = (time.process_time() - begun) / arguments.seeds
        best = " ".join(f"{run.y.min():.3g}" for run in runs)
        print(f"{name} | {best} | {seconds:.1f} CPU s", end="", flush=True)
        if arguments.foresight:
            every, lower = np.mean([foresight(problem, run) for run in runs], axis=0)
            print(f" | foresight {every:.2f}, lower half {lower:.2f}", end="")
        print(flush=True)


if __name__ == "__main__":
    main()

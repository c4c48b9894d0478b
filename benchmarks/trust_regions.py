"""Trust regions alone, without a surrogate of the whole space: a tenth of the time of a study.

    python benchmarks/trust_regions.py bowl5s0 steep5s0 --schedule 20 10 10 --seeds 3

What their model and their search are worth is told best where nothing else picks. Problems are those of
batches.py; the set `tuning` is for rules, `reporting` is not. Printed is the best value of each seed.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from batches import Problem, Run, begin, find_problems, tell

from dngo.acquisition import History
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.surrogates.numerics import one_thread


def study(problem: Problem, seed: int) -> Run:
    """A design, and batches of the trust regions' picks; what they leave is random."""
    run, noise = begin(problem, seed), np.random.default_rng([seed, 1])
    stage, space, size = TrustRegions(), problem.space, problem.batch
    for t in range(problem.rounds):
        rng = np.random.default_rng([seed, 3, t])
        history = History(run.v, run.y, iteration=run.iteration)
        with one_thread():
            v = stage.points(
                history,
                size,
                rng,
                spacing=Spacing(space, history, 0.01),
                penalty=lambda v, centre: np.zeros(len(v)),
            )
        others = space.sample(rng.random((size - len(v), space.k)))
        tell(problem, run, np.concatenate([v, others]), noise)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--schedule", nargs=3, type=int, default=(20, 10, 10))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        problems = find_problems(arguments.problems)
    except ValueError as error:
        parser.error(str(error))
    first, rounds, size = arguments.schedule
    for name, problem in problems.items():
        begun = time.process_time()
        problem = replace(problem, design=first, rounds=rounds, batch=size)
        best = [study(problem, seed).y.min() for seed in range(arguments.seeds)]
        seconds = (time.process_time() - begun) / arguments.seeds
        print(f"{name} | {' '.join(f'{b:.3g}' for b in best)} | {seconds:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()

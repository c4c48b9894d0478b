"""Where outcomes are noisy: the luckiest point, the surrogate's best, and that of the nearby process.

    python benchmarks/recommended.py [--problems noisy107d10i5 ...] [--rounds 6]

100 Sobol points and batches of 100 by trust regions alone; then what each of three ways takes for the best
of the points, by the function without its noise: the lowest outcome, the lowest mean of the default
surrogate, and the lowest sum of mean and deviation of the process that `dngo best --by model` asks. Needs
`coco-experiment`.
"""

from __future__ import annotations

import argparse

import numpy as np
from batches import begin, find_problems, tell

from dngo.acquisition import History
from dngo.acquisition.region_model import Penalty
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.stages.trust_regions import TrustRegions
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.nearby import around_the_best
from dngo.surrogates.settings import SurrogateSettings

NOISY = [f"noisy{n}d10i5" for n in (107, 112, 113, 118, 122, 130, 105, 111, 116, 125)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--problems", nargs="+", default=NOISY)
    parser.add_argument("--rounds", type=int, default=6, help="batches")
    given = parser.parse_args()
    try:
        problems = find_problems(given.problems)
    except ValueError as error:
        parser.error(str(error))
    print("| problem | luckiest | surrogate | nearby |\n| --- | --- | --- | --- |")
    found = []
    for name, problem in problems.items():
        run, noise = begin(problem, 0), np.random.default_rng([0, 1])
        for t in range(given.rounds):
            history = History(run.v, run.y, iteration=run.iteration)
            v, _ = TrustRegions().points(
                history,
                problem.batch,
                np.random.default_rng([0, 3, t]),
                spacing=Spacing(problem.space, history, 0.01),
                penalty=Penalty(),
            )
            if not len(v):
                break
            tell(problem, run, v, noise)
        x = problem.space.encode(run.v)
        data = TrainingData(x=x, y=run.y, constraints={"completed": np.ones(len(x))})
        model = fit_model(data, SurrogateSettings(), rng=np.random.default_rng([0, 2]))
        mean, _ = model.function(x, np.full(len(x), np.nan))
        rows, nearby, std = around_the_best(
            problem.space.unit(run.v), x, run.y, np.full(len(x), np.nan)
        )
        best = [np.argmin(run.y), np.argmin(mean), rows[np.argmin(nearby + std)]]
        assert problem.truth is not None
        values = problem.truth(run.v[best])
        found.append(values)
        print(f"| {name} | {' | '.join(f'{value:.4g}' for value in values)} |", flush=True)
    means = np.exp(np.log(found).mean(axis=0))
    print(f"| geometric mean | {' | '.join(f'{value:.4g}' for value in means)} |")


if __name__ == "__main__":
    main()

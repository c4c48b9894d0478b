"""What a fit to many observations costs, and how well it predicts: with all of them, and by the rules.

    python benchmarks/fit_size.py --rows 100000 --problems hartmann6 valley
    python benchmarks/fit_size.py --rows 1000000 --rules now

Random points and points around the best, half and half, with a flag that some break. Of 20,000 further
points of the same kind: the mean log density of the objective, in nats, and of the flag. By `all` all
networks pass over all observations in straight steps, and a flag's weights are judged and fitted by all.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from objectives import hartmann6

from dngo.rules import current, using
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings
from dngo.types import Array

HELD_OUT = 20_000
MANY = 10**9
RULES = {
    "all": {
        "training": {"most_straight": MANY},
        "classifier": {"most_judged": MANY, "most": MANY},
    },
    "now": {},
}


def valley(u: Array) -> Array:
    """A quadratic with ripples: minimum near 0.3 to 0.7 along the axes."""
    apart = u - np.linspace(0.3, 0.7, u.shape[1])
    found: Array = np.sum(apart**2 + 0.02 * np.sin(20 * apart), axis=1)
    return found


def banana(u: Array) -> Array:
    """The logarithm of Rosenbrock's function on [-2, 2]^d."""
    z = 4 * u - 2
    valley = 100 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (1 - z[:, :-1]) ** 2
    found: Array = np.log1p(np.sum(valley, axis=1))
    return found


PROBLEMS = {
    "hartmann6": (hartmann6, np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])),
    "valley": (valley, np.linspace(0.3, 0.7, 6)),
    "banana": (banana, np.full(6, 0.75)),
}


def sample(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Points (n, 6), their outcomes with a little noise, and their flags, 1 or 0."""
    function, best = PROBLEMS[name]
    x = rng.random((n, 6))
    near = rng.random(n) < 0.5
    x[near] = np.clip(best + 0.1 * rng.standard_normal((int(near.sum()), 6)), 0, 1)
    y = function(x) + 0.01 * rng.standard_normal(n)
    edge = np.sin(3 * np.pi * x[:, 0]) + x[:, 1] - 1.2
    return x, y, (edge + 0.05 * rng.standard_normal(n) < 0).astype(float)


def main() -> None:
    """Print a line for each fit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("problem,rows,rules,CPU s,MB,log density,log density of the flag", flush=True)
    for name in arguments.problems:
        x, y, flag = sample(name, HELD_OUT, np.random.default_rng([arguments.seed, 1]))
        for rows in arguments.rows:
            known = sample(name, rows, np.random.default_rng([arguments.seed, 0, rows]))
            data = TrainingData(x=known[0], y=known[1], constraints={"flag": known[2]})
            for rules in arguments.rules:
                begun = time.process_time()
                with using(current().but(**RULES[rules])):
                    rng = np.random.default_rng([arguments.seed, 2])
                    model = fit_model(data, SurrogateSettings(), rng=rng)
                seconds = time.process_time() - begun
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                density = float(np.mean(model.log_density(x, y)[0]))
                p = np.clip(model.classifiers["flag"].probability(x), 1e-12, 1 - 1e-12)
                of_flag = float(np.mean(np.log(np.where(flag == 1, p, 1 - p))))
                print(
                    f"{name},{rows},{rules},{seconds:.1f},{memory:.0f},{density:.3f},{of_flag:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

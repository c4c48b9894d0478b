"""What batches in flight cost in quality: the distance to the optimum with one, two and three of them.

    python benchmarks/in_flight.py > benchmarks/results/in_flight.csv

A design of 16 and six batches of 8. With k in flight, a batch is proposed when all before it are known but
k - 1. While one in flight comes to 40 evaluations of 10 to 25 s, two come to 64 (docs/costs.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import numpy as np
from objectives import branin, hartmann6

import dngo

DESIGN, BATCH, EVALUATIONS = 16, 8, 64


def rosenbrock(u: np.ndarray) -> float:
    """On -2 to 2."""
    z = 4 * u - 2
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum())


def ackley(u: np.ndarray) -> float:
    """On a width of 30, with the optimum off the centre."""
    z = 30 * (u - 0.37)
    waves = np.exp(np.cos(2 * np.pi * z).mean())
    return float(-20 * np.exp(-0.2 * np.sqrt((z**2).mean())) - waves + 20 + np.e)


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], float], int]] = {
    "hartmann6": (lambda u: float(hartmann6(u[None])[0]) + 3.32237, 6),
    "branin": (lambda u: float(branin(15 * u[None] - [5, 0])[0]) - 0.397887, 2),
    "rosenbrock4": (rosenbrock, 4),
    "ackley5": (ackley, 5),
}


def course(name: str, in_flight: int, seed: int) -> list[float]:
    """The best value after each batch."""
    function, d = FUNCTIONS[name]
    names = [f"x{i}" for i in range(d)]
    with tempfile.TemporaryDirectory() as folder:
        study = dngo.create(
            "s",
            {n: (0.0, 1.0) for n in names},
            folder=folder,
            batch_size=BATCH,
            design={"size": DESIGN},
            iterations=(EVALUATIONS - DESIGN) // BATCH,
            batches_in_flight=in_flight,
            seed=seed,
        )
        flying, asked, told, best = [study.ask(DESIGN)], DESIGN, 0, [np.inf]
        while told < EVALUATIONS:
            batch = flying.pop(0)
            values = [function(np.array([p.parameters[n] for n in names])) for p in batch]
            study.tell(batch, values)
            told += len(batch)
            best.append(min(best[-1], *values))
            while asked < EVALUATIONS and len(flying) < in_flight:
                flying.append(study.ask(BATCH))
                asked += BATCH
    return best[1:]


def main() -> None:
    """Print a table."""
    steps = range(DESIGN, EVALUATIONS + 1, BATCH)
    print("function,seed,in_flight," + ",".join(f"after_{n}" for n in steps))
    for seed in range(3):
        for name in FUNCTIONS:
            for in_flight in (1, 2, 3):
                best = course(name, in_flight, seed)
                print(name, seed, in_flight, *(f"{x:.6g}" for x in best), sep=",", flush=True)


if __name__ == "__main__":
    main()

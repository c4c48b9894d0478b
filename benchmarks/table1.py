"""Table 1 of the paper: sequential optimisation, one command, ten seeds.

    python benchmarks/table1.py                          # Branin and Hartmann6, 200 evaluations
    python benchmarks/table1.py logistic                 # on real digits, 100 evaluations
    python benchmarks/table1.py lda svm --tables DIR     # on grid: 50 and 100 evaluations
    python benchmarks/table1.py hartmann6 --set kind=adaptive_basis
    python benchmarks/table1.py --rival                  # BoTorch's LogEI in our place (rivals.py)

DIR holds lda_on_grid.csv and svm_on_grid.csv. Each run starts from 2 d + 1 Sobol points and takes
one evaluation at a time. A run ends early when the best value is the known optimum to within 1e-4
of it (of a table: exactly), as it cannot improve; `--no-stop` spends the whole budget. Printed for
each seed: the best value, the evaluations until within that, CPU seconds of fits and of proposals.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np
import yaml
from objectives import FUNCTIONS, GRIDS, cube, grid
from rivals import LogEI

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings

BUDGETS = {"branin": 200, "hartmann6": 200, "logistic": 100, "lda": 50, "svm": 100}


def run(
    name: str,
    seed: int,
    budget: int,
    tables: Path | None,
    settings: SurrogateKind,
    stop: bool,
    rival: bool,
) -> tuple[float, int, float, float]:
    """Best value, evaluations until it was found (0: it was not), seconds of fits, of proposals.

    A rival's fits count as proposals.
    """
    rng = np.random.default_rng([seed, 1])
    if name in GRIDS:
        assert tables is not None, "the tables' folder is missing: --tables DIR"
        space, points, values = grid(tables, name)
        known = dict(zip(space.keys(points), values, strict=True))
        target = float(values.min())

        def evaluate(v: np.ndarray) -> np.ndarray:
            return np.array([known[key] for key in space.keys(v)])
    else:
        function = FUNCTIONS[name]
        space, target = cube(function.d), function.optimum + 1e-4
        evaluate = function.f
    v = design(space, 2 * space.k + 1, rng=rng, exclude=np.empty((0, space.k)))
    y, fitting, proposing = evaluate(v), 0.0, 0.0
    other = LogEI(space, seed)
    other.tell(v, y)
    while len(v) < budget and not (stop and y.min() <= target):
        start = middle = time.process_time()
        if rival:
            pick = other.ask(1)
        else:
            data = TrainingData(x=space.encode(v), y=y, constraints={"completed": np.ones(len(y))})
            model = fit_model(data, settings, rng=rng)
            middle = time.process_time()
            pick = propose_batch(
                model,
                space,
                History(v, y),
                size=1,
                settings=AcquisitionSettings(),
                rng=rng,
            ).v
        fitting += middle - start
        proposing += time.process_time() - middle
        v, y = np.concatenate([v, pick]), np.concatenate([y, evaluate(pick)])
        other.tell(pick, y[-1:])
    found = y <= target
    return float(y.min()), int(np.argmax(found) + 1) if found.any() else 0, fitting, proposing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", default=["branin", "hartmann6"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--budget", type=int, help="evaluations, in place of the paper's")
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--no-stop", action="store_true")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="surrogate:")
    parser.add_argument("--rival", action="store_true", help="BoTorch's LogEI in our place")
    chosen = parser.parse_args()
    if chosen.rival and not importlib.util.find_spec("botorch"):
        parser.error("BoTorch is not installed: benchmarks/rivals.txt")
    changes = dict(pair.split("=", 1) for pair in chosen.set)
    settings = SurrogateSettings(**{key: yaml.safe_load(v) for key, v in changes.items()})
    for name in chosen.problems:
        best, when = [], []
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            value, at, fitting, proposing = run(
                name,
                seed,
                chosen.budget or BUDGETS[name],
                chosen.tables,
                settings,
                not chosen.no_stop,
                chosen.rival,
            )
            best.append(value)
            when.append(at)
            print(
                f"{name} seed {seed}: {value:.6g} found at {at or 'never'},"
                f" fits {fitting:.1f} s, proposals {proposing:.1f} s",
                flush=True,
            )
        hits = [at for at in when if at]
        print(
            f"{name}: {np.mean(best):.6g} ± {np.std(best, ddof=min(1, len(best) - 1)):.2g}, optimum"
            f" in {len(hits)} of {len(when)}, after {np.mean(hits) if hits else float('nan'):.1f}"
            f" evaluations on average, {max(hits, default=0)} at most",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Goals other than the lowest value, beside BoTorch: to learn a function, a level of it, a robust point.

    python benchmarks/goals.py --results goals.jsonl                       # --goals learn for one of them
    python benchmarks/goals.py --results goals.jsonl --seeds 0             # the table of what is there

A study has 12 points, the same for every method of a seed, and 6 batches of 6. learn: the root mean square
error on 2,000 Sobol points, as a share of the function's deviation. level_set: the share of these points
on the wrong side of the function's 0.3 quantile. One model judges all, BoTorch's SingleTaskGP of the points
that each method chose. robust: each input may be off by 0.05 of its range; how far the true average at the
recommended point is above the best known one, as a share of the deviation. dngo recommends by
`best("model")`, the others the evaluated point with the lowest average of BoTorch's model; judged: dngo by
that rule. Printed are means and deviations. Each study is a line of --results, and none is repeated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement, qNegIntegratedPosteriorVariance
from botorch.acquisition.objective import ExpectationPosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputPerturbation
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from gpytorch.mlls import ExactMarginalLogLikelihood
from objectives import Array, camel, franke, ishigami, otl
from scipy.stats import qmc

import dngo

DESIGN, BATCHES, SIZE, OFF = 12, 6, 6, 0.05
FUNCTIONS = {"camel": (camel, 2), "franke": (franke, 2), "ishigami": (ishigami, 3), "otl": (otl, 6)}
CUBE, AVERAGE = torch.tensor([[0.0], [1.0]]).double(), ExpectationPosteriorTransform(n_w=16)


def sobol(n: int, k: int, seed: int = 0) -> Array:
    return qmc.Sobol(k, rng=np.random.default_rng([seed, k])).random(n)


class Task:
    """A function of the unit cube, and what is true of it: values, a level, averages, the best of them."""

    def __init__(self, name: str) -> None:
        self.f, self.k = FUNCTIONS[name]
        self.u = sobol(2048, self.k)[:2000]
        self.y = self.f(self.u)
        self.level = float(np.quantile(self.y, 0.3))
        self.off = OFF * (2 * sobol(512, self.k, seed=1) - 1)
        self.names = [f"x{i}" for i in range(self.k)]
        u, rng = np.concatenate([self.u, sobol(4096, self.k, seed=2)]), np.random.default_rng(0)
        for width in np.geomspace(0.2, 1e-3, 40):  # ever closer around the best point
            best = u[np.argmin(self.average(u))]
            step = rng.standard_normal((400, self.k)) * (rng.random((400, self.k)) < 0.6)
            u = np.vstack([best, np.clip(best + width * step, 0, 1)[1:]])
        self.robust = float(self.average(u).min())

    def average(self, u: Array) -> Array:
        """True averages over where inputs set to u (n, k) may be, inside their bounds: (n,)."""
        moved = np.clip(u[:, None] + self.off, 0, 1).reshape(-1, self.k)
        return self.f(moved).reshape(len(u), -1).mean(axis=1)


def gp(x: Array, y: Array, wavers: bool = False) -> SingleTaskGP:
    """BoTorch's process with its own defaults. wavers: it predicts at 16 places around each point."""
    places = torch.tensor(OFF * (2 * sobol(16, x.shape[1], seed=3) - 1))
    moved = InputPerturbation(places, bounds=CUBE.expand(2, x.shape[1])) if wavers else None
    model = SingleTaskGP(torch.tensor(x), torch.tensor(y)[:, None], input_transform=moved)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def variance(task: Task, x: Array, y: Array) -> Array:
    """What takes most of the variance at 128 points away, one pick after another of 1,024."""
    at, choices = (torch.tensor(sobol(n, task.k, seed=n + len(x))) for n in (128, 1024))
    acquisition = qNegIntegratedPosteriorVariance(gp(x, y), mc_points=at)
    return optimize_acqf_discrete(acquisition, SIZE, choices, 256)[0].numpy()


def straddle(task: Task, x: Array, y: Array) -> Array:
    """The straddle rule (Bryan et al. 2005) on 4,096 points; each pick is then taken for its mean."""
    model, candidates, rows = gp(x, y), torch.tensor(sobol(4096, task.k, seed=len(x))), list[int]()
    for _ in range(SIZE):
        with torch.no_grad():
            found = model.posterior(candidates)
        score = 1.96 * found.variance.sqrt() - (found.mean - task.level).abs()
        rows.append(int(score.argmax()))
        model = model.condition_on_observations(candidates[rows[-1:]], found.mean[rows[-1:]])
    return candidates[rows].numpy()


def noisy_ei(task: Task, x: Array, y: Array) -> Array:
    """Noisy expected improvement of the average; its logarithm, which BoTorch recommends."""
    model, seen = gp(x, -y, wavers=True), torch.tensor(x)
    gain = qLogNoisyExpectedImprovement(model, seen, posterior_transform=AVERAGE)
    how: Any = {"num_restarts": 4, "raw_samples": 128, "options": {"maxiter": 50}}
    return optimize_acqf(gain, CUBE.expand(2, task.k), SIZE, sequential=True, **how)[0].numpy()


RIVALS = {"integrated variance": variance, "straddle": straddle, "noisy ei": noisy_ei}
GOALS = dict(zip(("learn", "level_set", "robust"), RIVALS, strict=True))


def run(goal: str, task: Task, method: str, seed: int) -> dict[str, float]:
    """One study: its value, of robust ones also that by BoTorch's recommendation, and CPU seconds."""
    off = dict.fromkeys(task.names, OFF)
    own: Any = {"learn": {}, "level_set": {"at": task.level}, "robust": {"within": off}}
    kinds = {"dngo": {"kind": goal, **own[goal]}, "dngo mcei": {"kind": "mcei"}}
    how: Any = {"seed": seed, "batch_size": SIZE, "design": {"size": DESIGN}}
    how["acquisition"] = kinds.get(method, {"kind": "sobol"})  # which gives rivals their design
    x, begun, robust = np.empty((0, task.k)), time.process_time(), goal == "robust"
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        study = dngo.create("goals", dict.fromkeys(task.names, (0, 1)), folder=folder, **how)
        while len(x) < DESIGN + BATCHES * SIZE:
            if len(x) and method in RIVALS:
                new = RIVALS[method](task, x, task.f(x))
            else:
                points = study.ask(SIZE if len(x) else DESIGN)
                new = np.array([[p.parameters[n] for n in task.names] for p in points])
                study.tell(points, task.f(new).tolist())
            x = np.concatenate([x, new])
        named = study.best("model").parameters if robust and method in kinds else {}
    seconds, judge = round(time.process_time() - begun, 1), gp(x, task.f(x), wavers=robust)
    with torch.no_grad():
        at, over = (torch.tensor(x), AVERAGE) if robust else (torch.tensor(task.u), None)
        mean = judge.posterior(at, posterior_transform=over).mean.numpy()[:, 0]
    if not robust:
        error = np.sqrt(np.mean((mean - task.y) ** 2)) / task.y.std()
        wrong = np.mean((mean <= task.level) != (task.y <= task.level))
        return {"value": float(error if goal == "learn" else wrong), "seconds": seconds}
    best = x[np.argmin(mean)]
    handed = np.array([named.get(n, b) for n, b in zip(task.names, best, strict=True)])
    value, judged = (task.average(np.array([handed, best])) - task.robust) / task.y.std()
    return {"value": float(value), "judged": float(judged), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--goals", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, required=True, help="a file of JSON lines")
    given = parser.parse_args()
    kept = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in kept]
    tasks, names = {f: Task(f) for f in FUNCTIONS}, ["goal", "function", "method"]
    studies = [(g, f, m) for g in given.goals for f in tasks for m in ("dngo", GOALS[g], "sobol")]
    studies += [("robust", f, "dngo mcei") for f in tasks if "robust" in given.goals]
    for seed, (goal, function, method) in product(range(given.seeds), studies):
        key = {"goal": goal, "function": function, "method": method, "seed": seed}
        if not any(key.items() <= row.items() for row in rows):
            rows.append({**key, **run(goal, tasks[function], method, seed)})
            with given.results.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    columns = {"mean": ("value", "mean"), "deviation": ("value", "std"), "seeds": ("seed", "size")}
    columns |= {"judged": ("judged", "mean"), "seconds": ("seconds", "mean")}
    table = pd.DataFrame(rows).groupby(names).agg(**columns)
    print(table.to_csv(float_format="%.3g"), end="")


if __name__ == "__main__":
    main()

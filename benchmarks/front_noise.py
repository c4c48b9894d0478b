"""Fronts whose outcomes are noisy, and fronts of which a part crashes and reports nothing.

    python benchmarks/front_noise.py                    # everything, three seeds
    python benchmarks/front_noise.py --problems steep --seeds 1

Of a noisy front: the true hypervolume of the points that are stated by the models' means, over the one of
the points whose observed values are on the front. Of a crashing one: the hypervolume of what ran, as a
share of the best, batch by batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.fronts import hypervolume, on_front, ranks
from dngo.inward import means_of
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

Array = np.ndarray


def zdt1(u: Array) -> Array:
    high = 1 + 9 * u[:, 1:].mean(axis=1)
    return np.column_stack([u[:, 0], high * (1 - np.sqrt(u[:, 0] / high))])


def dtlz2(u: Array) -> Array:
    high = 1 + ((u[:, 2:] - 0.5) ** 2).sum(axis=1)
    a, b = 0.5 * np.pi * u[:, 0], 0.5 * np.pi * u[:, 1]
    sides = (np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a))
    return np.column_stack([high * side for side in sides])


def hills(u: Array) -> Array:
    return np.column_stack([np.sqrt(((u - c) ** 2).mean(axis=1)) for c in (0.25, 0.7)])


def _never(u: Array) -> Array:
    return np.zeros(len(u), dtype=bool)


def _middle(u: Array) -> Array:
    """The middle of the front, and what is near it."""
    return (np.abs(u[:, 0] - 0.5) < 0.2) & (9 * u[:, 1:].mean(axis=1) < 1.5)


def _slab(u: Array) -> Array:
    """A slab through the whole space, which crosses the front."""
    return np.abs(u[:, 0] + 0.5 * (u[:, 1] - u[:, 2]) - 0.5) < 0.2


def _most(u: Array) -> Array:
    """All of the front but a quarter, and what is near it."""
    return (u[:, 1:4].mean(axis=1) < 0.25) & (u[:, 0] > 0.25)


@dataclass(frozen=True)
class Problem:
    """Objectives of the unit cube, how noisy each is, where runs crash, inputs, and the schedule."""

    values: Callable[[Array], Array]
    reference: float
    noise: tuple[float, ...] = ()
    crashes: Callable[[Array], Array] = _never
    inputs: int = 5
    schedule: tuple[int, int, int] = (40, 5, 20)


CRASHING = (40, 3, 30)
PROBLEMS = {
    "zdt1": Problem(zdt1, 1.1, (0.1, 0.3)),
    "dtlz2": Problem(dtlz2, 1.1, (0.15, 0.15, 0.15)),
    "hills": Problem(hills, 0.5, (0.06, 0.06)),
    "middle": Problem(zdt1, 1.1, crashes=_middle, inputs=10, schedule=CRASHING),
    "slab": Problem(zdt1, 1.1, crashes=_slab, inputs=10, schedule=CRASHING),
    "steep": Problem(zdt1, 1.1, crashes=_most, inputs=6, schedule=CRASHING),
}


def run(problem: Problem, seed: int, kind: str) -> str:
    """One study, in a line."""
    space = Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(problem.inputs)})
    size, batches, each = problem.schedule
    luck = np.random.default_rng((seed, 9))
    v = space.from_unit(qmc.Sobol(problem.inputs, rng=np.random.default_rng(seed)).random(size))
    batch, seen = np.zeros(size, dtype=int), np.empty((0, len(problem.values(v[:1])[0])))
    shares = []
    for t in range(1, batches + 2):
        true, ok = problem.values(space.unit(v)), ~problem.crashes(space.unit(v))
        new = true[len(seen) :]
        spread = np.array(problem.noise or [0.0] * true.shape[1])
        seen = np.concatenate([seen, new + spread * luck.standard_normal(new.shape)])
        shares.append(_share(problem, true[ok]))
        several = {f"f{j}": np.where(ok, seen[:, j], np.nan) for j in range(true.shape[1])}
        noises = {n: np.full(len(v), s) for n, s in zip(several, problem.noise, strict=False)}
        flags, y = {"completed": ok.astype(float)}, np.full(len(v), np.nan)
        data = TrainingData(
            space.encode(v), y, batch=batch, objectives=several, noises=noises, constraints=flags
        )
        model = fit_model(
            data, SurrogateSettings(kind=kind), rng=np.random.default_rng((seed, t, 0))
        )
        means = means_of(model, space.encode(v)) if problem.noise else {}
        believed = np.column_stack(list((means or several).values()))
        if t == batches + 1:
            break
        y[ok] = ranks(believed[ok])
        history = History(
            v, y, iteration=batch, objectives=several, noises=noises, means=means, constraints=flags
        )
        picks = propose_batch(
            model, space, history, size=each, settings=AcquisitionSettings(),
            rng=np.random.default_rng((seed, t, 1)), root=np.random.SeedSequence(seed),
        )  # fmt: skip
        v = np.concatenate([v, picks.v])
        batch = np.concatenate([batch, np.full(len(picks), t)])
    if not problem.noise:
        return " ".join(f"{share:.3f}" for share in shares)
    reference = np.full(true.shape[1], problem.reference)
    observed, stated = (hypervolume(true[on_front(x)], reference) for x in (seen, believed))
    return f"observed {observed:.4f}, stated {stated:.4f}, ratio {stated / observed:.3f}"


def _share(problem: Problem, values: Array) -> float:
    """The hypervolume of values, over the best of a front of zdt1 that keeps off the crashes."""
    reference = np.full(values.shape[1], problem.reference)
    ends = np.zeros((2001, problem.inputs))
    ends[:, 0] = np.linspace(0, 1, len(ends))
    best = problem.values(ends[~problem.crashes(ends)])
    return hypervolume(values, reference) / hypervolume(best, reference)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kind", default="auto", help="of the surrogate")
    given = parser.parse_args()
    for name in given.problems:
        for seed in range(given.seeds):
            print(f"{name:8}{seed}  {run(PROBLEMS[name], seed, given.kind)}", flush=True)


if __name__ == "__main__":
    main()

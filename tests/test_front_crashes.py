"""A part of the front crashes, and crashed runs report nothing: the other part is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from dngo.acquisition import History, Picks, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.fronts import hypervolume, ranks
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

CUBE = Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(6)})
REFERENCE = np.array([1.1, 1.1])


def measured(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two objectives of u (n, 6), and which runs crash: near the front all but those with x0 < 0.25."""
    high = 1 + 9 * u[:, 1:].mean(axis=1)
    values = np.column_stack([u[:, 0], high * (1 - np.sqrt(u[:, 0] / high))])
    return values, (u[:, 1:4].mean(axis=1) < 0.25) & (u[:, 0] > 0.25)


def picks(v: np.ndarray, size: int, batch: np.ndarray, **acquisition: object) -> Picks:
    values, crashed = measured(CUBE.unit(v))
    ok, y = ~crashed, np.full(len(v), np.nan)
    several = {f"f{j}": np.where(ok, values[:, j], np.nan) for j in range(2)}
    flags = {"completed": ok.astype(float)}
    data = TrainingData(CUBE.encode(v), y, batch=batch, objectives=several, constraints=flags)
    gp = SurrogateSettings(kind="gp", hyperparameter_samples=3)
    model = fit_model(data, gp, rng=np.random.default_rng(1))
    y[ok] = ranks(values[ok])
    history = History(v, y, iteration=batch, objectives=several, constraints=flags)
    settings = AcquisitionSettings(**acquisition)
    return propose_batch(
        model, CUBE, history, size=size, settings=settings, rng=np.random.default_rng(2),
        root=np.random.SeedSequence(3),
    )  # fmt: skip


def design() -> np.ndarray:
    return CUBE.from_unit(qmc.Sobol(6, rng=np.random.default_rng(0)).random_base2(6)[:40])


def test_some_picks_of_a_front_test_where_the_feasible_part_ends() -> None:
    v = design()
    least = 0.5
    found = [picks(v, 20, np.zeros(40), boundary_every=every) for every in (5, 0)]
    doubted = [int((one.feasibility < least).sum()) for one in found]
    assert 1 <= doubted[0] <= 4 and doubted[1] == 0
    # They reach far nearer to the front than what is surely feasible.
    lowest = [(1 + 9 * CUBE.unit(one.v)[:, 1:].mean(axis=1)).min() for one in found]
    assert lowest[0] < lowest[1]


@pytest.mark.full
def test_the_part_that_does_not_crash_is_found() -> None:
    v, batch = design(), np.zeros(40)
    for t in (1, 2, 3):
        new = picks(v, 30, batch).v
        v, batch = np.concatenate([v, new]), np.concatenate([batch, np.full(len(new), t)])
    values, crashed = measured(CUBE.unit(v))
    # The best is 0.618, and 0 was found before.
    assert hypervolume(values[~crashed], REFERENCE) > 0.4

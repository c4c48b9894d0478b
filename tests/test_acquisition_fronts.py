"""How a batch is chosen where there are several objectives: laws, and a front of which a part crashes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.stats import qmc
from test_fronts import document

import dngo
from dngo.acquisition import History, Picks, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.fronts import derived_reference, hypervolume, hypervolumes, on_front, ranks
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

PROCESS = SurrogateSettings(kind="gp", hyperparameter_samples=1)
CUBE = Space({name: Float(type="float", low=0, high=1) for name in ("x", "y", "z", "w")})


def test_a_model_of_several_is_read_back_to_the_bit(known, tmp_path: Path) -> None:
    v, f = known
    columns = {"a": f[:, 0], "b": f[:, 1]}
    data = TrainingData(CUBE.encode(v), np.full(len(v), np.nan), objectives=columns)
    model = fit_model(data, PROCESS, rng=np.random.default_rng(0))
    with h5py.File(tmp_path / "model.h5", "w") as file:
        model.save(file)
    with h5py.File(tmp_path / "model.h5") as file:
        again = Model.load(file)
    x = CUBE.encode(v[:5])
    for name in columns:
        for a, b in zip(
            model.objectives[name].predict(x), again.objectives[name].predict(x), strict=True
        ):
            assert a.tobytes() == b.tobytes()
    assert again.knows_objective


# ---- laws ---------------------------------------------------------------------------------------


def outcomes(x: np.ndarray) -> np.ndarray:
    high = 1 + 3 * x[:, 1:].mean(axis=1)
    return np.column_stack([x[:, 0], high * (1 - np.sqrt(x[:, 0] / high))])


def picks(columns: dict[str, np.ndarray], v: np.ndarray, size: int = 8, reference=()):
    several = {name: np.asarray(values) for name, values in columns.items()}
    y = ranks(np.column_stack(list(several.values())))
    data = TrainingData(CUBE.encode(v), np.full(len(v), np.nan), objectives=several)
    model = fit_model(data, PROCESS, rng=np.random.default_rng(1))
    settings = AcquisitionSettings(uniform_candidates=256, local_candidates=64)
    batch = np.repeat([0, 1], [20, len(v) - 20])
    history = History(v, y, objectives=several, iteration=batch, reference=reference)
    return propose_batch(
        model, CUBE, history, size=size, settings=settings, rng=np.random.default_rng(2),
        root=np.random.SeedSequence(3),
    )  # fmt: skip


@pytest.fixture(scope="module")
def known() -> tuple[np.ndarray, np.ndarray]:
    v = CUBE.from_unit(np.random.default_rng(0).random((30, 4)))
    return v, outcomes(v)


@pytest.fixture(scope="module")
def picked(known) -> Picks:
    v, f = known
    return picks({"a": f[:, 0], "b": f[:, 1]}, v)


def test_the_order_of_the_objectives_changes_nothing(known, picked: Picks) -> None:
    v, f = known
    other = picks({"b": f[:, 1], "a": f[:, 0]}, v)
    assert len(picked) == 8 and picked.v.tobytes() == other.v.tobytes()


def test_the_units_of_an_objective_change_no_pick(known, picked: Picks) -> None:
    v, f = known
    other = picks({"a": 1024 * f[:, 0], "b": f[:, 1] / 4}, v)
    np.testing.assert_allclose(other.v, picked.v, atol=1e-6)
    other = picks({"a": f[:, 0] + 8, "b": f[:, 1] - 4}, v)
    # But for what rounding makes of directions in which hardly anything changes, and of two functions that
    # promise as much because of it.
    assert (np.abs(other.v - picked.v).max(axis=1) < 0.05).sum() >= 6


def test_a_reference_that_nothing_has_reached_is_searched_for(known) -> None:
    v, f = known
    far = np.minimum(np.quantile(f[:, 0], 0.5), 0.5), np.quantile(f[:, 1], 0.02)
    rows = ~np.all(f < far, axis=1)
    v, f = v[rows], f[rows]
    assert not np.all(f < far, axis=1).any() and np.all(f.min(axis=0) < far)
    found = picks({"a": f[:, 0], "b": f[:, 1]}, v, reference=far)
    assert set(found.source) <= {"front:box", "front:space"}
    assert np.isfinite(found.value).all()
    assert np.all(outcomes(found.v) < far, axis=1).any()


def test_a_copy_of_an_objective_has_the_front_of_one(known) -> None:
    v, f = known
    assert on_front(np.column_stack([f[:, 1], f[:, 1]])).sum() == 1
    found = picks({"a": f[:, 1], "b": f[:, 1]}, v)
    assert np.median(outcomes(found.v)[:, 1]) < np.quantile(f[:, 1], 0.1)


def test_one_objective_with_a_name_is_proposed_for_as_ever(tmp_path: Path) -> None:
    found = []
    for name, changes in (("plain", {"objectives": None}), ("named", {"objectives": {"f": {}}})):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").write_text(json.dumps(document(**changes)))
        study = dngo.open(folder / "config.yaml")
        for _ in range(2):
            points = study.ask()
            for p in points:
                value = sum((v - 0.3) ** 2 for v in p.parameters.values())
                said = {"objectives": {"f": value}} if name == "named" else {"objective": value}
                study.tell(p, **said)
        found.append([replace(p, aims={}) for p in points])
        assert study.best().objective < 0.1
    assert repr(found[0]) == repr(found[1])


def test_a_hypervolume_never_falls() -> None:
    rng = np.random.default_rng(4)
    values, batch = rng.random((60, 3)), np.repeat(np.arange(6), 10)
    values[rng.random(60) < 0.3] = np.nan
    found = hypervolumes(values, batch, np.ones(3))
    assert found == sorted(found) and found[-1] > found[0]
    known = values[np.isfinite(values).all(axis=1)]
    assert found[-1] == pytest.approx(hypervolume(known, np.ones(3)))


def test_a_derived_reference_grows_with_the_front() -> None:
    values = np.array([[2.0, 9.0], [3.0, 8.0], [40.0, 1.0], [50.0, 5.0]])
    batch = np.array([0, 0, 1, 1])
    assert derived_reference(values[:2], batch[:2], [None, None]).tolist() == [3.0, 9.0]
    # What joins the front is within it; a bad outcome of a later batch moves nothing.
    assert derived_reference(values, batch, [None, None]).tolist() == [40.0, 9.0]
    assert derived_reference(values, batch, [10.0, None]).tolist() == [10.0, 9.0]


def test_the_part_of_the_front_that_the_first_batch_missed_is_searched_for() -> None:
    """Of the first points only those with a cheap first objective ran to their end."""
    v = CUBE.from_unit(np.random.default_rng(0).random((80, 4)))
    v = v[v[:, 0] < 0.4][:20]
    for _ in range(4):
        f = outcomes(v)
        v = np.concatenate([v, picks({"a": f[:, 0], "b": f[:, 1]}, v, size=10).v])
    assert v[:, 0].max() > 0.55


# ---- A part of the front crashes, and crashed runs report nothing: the other part is found

CRASH_CUBE = Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(6)})
REFERENCE = np.array([1.1, 1.1])


def crash_measured(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two objectives of u (n, 6), and which runs crash: near the front all but those with x0 < 0.25."""
    high = 1 + 9 * u[:, 1:].mean(axis=1)
    values = np.column_stack([u[:, 0], high * (1 - np.sqrt(u[:, 0] / high))])
    return values, (u[:, 1:4].mean(axis=1) < 0.25) & (u[:, 0] > 0.25)


def crash_picks(v: np.ndarray, size: int, batch: np.ndarray, **acquisition: object) -> Picks:
    values, crashed = crash_measured(CRASH_CUBE.unit(v))
    ok, y = ~crashed, np.full(len(v), np.nan)
    several = {f"f{j}": np.where(ok, values[:, j], np.nan) for j in range(2)}
    flags = {"completed": ok.astype(float)}
    data = TrainingData(CRASH_CUBE.encode(v), y, batch=batch, objectives=several, constraints=flags)
    model = fit_model(data, PROCESS, rng=np.random.default_rng(1))
    y[ok] = ranks(values[ok])
    history = History(v, y, iteration=batch, objectives=several, constraints=flags)
    settings = AcquisitionSettings(uniform_candidates=512, local_candidates=128, **acquisition)
    return propose_batch(
        model, CRASH_CUBE, history, size=size, settings=settings, rng=np.random.default_rng(2),
        root=np.random.SeedSequence(3),
    )  # fmt: skip


def design() -> np.ndarray:
    return CRASH_CUBE.from_unit(qmc.Sobol(6, rng=np.random.default_rng(0)).random_base2(6)[:40])


def test_some_picks_of_a_front_test_where_the_feasible_part_ends() -> None:
    v = design()
    least = 0.5
    found = [crash_picks(v, 10, np.zeros(40), boundary_every=every) for every in (5, 0)]
    doubted = [int((one.feasibility < least).sum()) for one in found]
    assert 1 <= doubted[0] <= 4 and doubted[1] == 0
    # They reach far nearer to the front than what is surely feasible.
    lowest = [(1 + 9 * CRASH_CUBE.unit(one.v)[:, 1:].mean(axis=1)).min() for one in found]
    assert lowest[0] < lowest[1]


@pytest.mark.full
def test_the_part_that_does_not_crash_is_found() -> None:
    v, batch = design(), np.zeros(40)
    for t in (1, 2):
        new = crash_picks(v, 30, batch).v
        v, batch = np.concatenate([v, new]), np.concatenate([batch, np.full(len(new), t)])
    values, crashed = crash_measured(CRASH_CUBE.unit(v))
    # The best is 0.618, and 0 was found before.
    assert hypervolume(values[~crashed], REFERENCE) > 0.5

"""Laws of a surrogate as a whole: targets, streams, storage, and what it survives."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ran

from dngo.papers.in_sample import fit_adaptive_basis
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.data import TargetScale
from dngo.surrogates.problem import Problem, ReportedNoise
from dngo.surrogates.settings import ClassifierSettings, EnsembleSettings, SurrogateSettings

NETWORKS = EnsembleSettings(ensemble=3, width=8, steps=30, epochs=0)
QUICK = SurrogateSettings(networks=NETWORKS, hyperparameter_samples=3)
BASIS = SurrogateSettings(kind="adaptive_basis", networks=NETWORKS, hyperparameter_samples=3)
CLASSIFIER = ClassifierSettings(networks=NETWORKS.model_dump(exclude_defaults=True))


def some_data(n: int, d: int = 2, seed: int = 0) -> TrainingData:
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    completed = (x.sum(axis=1) < 0.6 * d).astype(float)
    y = np.where(completed == 1, np.sin(5 * x[:, 0]) + x[:, -1] ** 2, np.nan)
    return TrainingData(x=x, y=y, constraints={"completed": completed})


def _bits(model: Model) -> bytes:
    """Every number in a model, in the order in which HDF5 visits them."""
    parts: list[bytes] = []
    with h5py.File("model.h5", "w", driver="core", backing_store=False) as file:
        model.save(file)
        for name in _names(file):
            item = file[name]
            parts += [name.encode(), repr(sorted(item.attrs.items())).encode()]
            if isinstance(item, h5py.Dataset):
                parts.append(item[()].tobytes())
    return b"".join(parts)


def _names(file: h5py.File) -> list[str]:
    names: list[str] = ["/"]
    file.visit(names.append)
    return names


# ---- targets -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    y=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30),
    outlier=st.sampled_from([None, 1e12, -1e12, 1e300]),
)
def test_target_scale_keeps_the_order_and_is_bounded(y, outlier):
    y = np.array(y if outlier is None else [*y, outlier])
    scale = TargetScale.fit(y)
    t = scale.to_model(y)
    assert np.isfinite(t).all()
    order = np.argsort(y)
    assert np.all(np.diff(t[order]) >= 0)


def test_target_scale_standardises_the_ordinary_and_is_undone():
    y = np.random.default_rng(0).normal(40.0, 7.0, 200)
    scale = TargetScale.fit(y)
    np.testing.assert_allclose(scale.to_model(y), (y - y.mean()) / y.std(), atol=1e-10)
    np.testing.assert_allclose(scale.to_objective(scale.to_model(y)), y)
    far = np.array([-1e4, 1e4])
    np.testing.assert_allclose(scale.to_objective(scale.to_model(far)), far)


def test_an_outlier_leaves_the_others_apart():
    y = np.r_[np.random.default_rng(0).normal(size=50), 1e12]
    assert TargetScale.fit(y).to_model(y)[:50].std() > 0.1


# ---- the model -----------------------------------------------------------------------------------


def test_saved_and_loaded_model_has_the_same_bits(tmp_path):
    model = fit_model(some_data(40), QUICK, CLASSIFIER, rng=np.random.default_rng(0))
    with h5py.File(tmp_path / "surrogate.h5", "w") as file:
        model.save(file.create_group("model"))
    with h5py.File(tmp_path / "surrogate.h5", "r") as file:
        loaded = Model.load(file["model"])
    assert _bits(loaded) == _bits(model)
    assert loaded.summary() == model.summary()
    x = np.random.default_rng(1).random((20, 2))
    for a, b in zip(model.predict(x), loaded.predict(x), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.feasibility(x), loaded.feasibility(x))


def test_load_refuses_a_newer_format_and_a_foreign_group():
    with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
        with pytest.raises(ValueError, match="format"):
            Model.load(file)
        file.attrs["format"] = 99
        with pytest.raises(ValueError, match="format"):
            Model.load(file)


def test_same_stream_same_bits_and_another_stream_others():
    one, two, three = (
        _bits(fit_model(some_data(40), QUICK, CLASSIFIER, rng=np.random.default_rng(s)))
        for s in (0, 0, 1)
    )
    assert one == two
    assert one != three


def test_order_of_the_constraints_does_not_matter():
    data = some_data(30)
    extra = {"b": data.constraints["completed"], "a": (data.x[:, 0] > 0.5).astype(float)}
    forth = TrainingData(x=data.x, y=data.y, constraints=extra)
    back = TrainingData(x=data.x, y=data.y, constraints=dict(reversed(extra.items())))
    models = [fit_model(d, QUICK, CLASSIFIER, rng=np.random.default_rng(0)) for d in (forth, back)]
    assert _bits(models[0]) == _bits(models[1])


DIGEST = """
import hashlib, numpy as np
from dngo.space.parameters import Float
from dngo.space import Space
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings
from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
rng = np.random.default_rng(0)
x = rng.random((700, 3))
c = (x.sum(axis=1) < 2).astype(float)
y = np.where(c == 1, np.sin(5 * x[:, 0]) + x[:, 1], np.nan)
data = TrainingData(x=x, y=y, constraints={"completed": c})
model = fit_model(data, SurrogateSettings(networks={"steps": 100, "epochs": 0}), rng=rng)
space = Space({n: Float(type="float", low=0, high=1) for n in "abc"})
batch = propose_batch(model, space, History(x, y, np.zeros((1, 3))), size=5,
                      settings=AcquisitionSettings(), rng=rng)
parts = [*model.predict(x), model.feasibility(x), batch.v, batch.value]
print(hashlib.sha256(b"".join(p.tobytes() for p in parts)).hexdigest())
"""


@pytest.mark.full
def test_the_number_of_threads_changes_no_bit():
    digests = set()
    for threads in ("1", "2"):
        environment = os.environ | {
            name: threads for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        }
        digests.add(ran([sys.executable, "-c", DIGEST], env=environment, check=True).stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("kind", ["auto", "adaptive_basis"])
@pytest.mark.parametrize("calibration", ["out_of_fold", "in_sample"])
@pytest.mark.parametrize(
    "y",
    [
        [0.3],
        [1.0, 1.0],
        [2.0] * 30,
        [0.0] * 30,
        [*np.linspace(0, 1, 20), 1e12],
        [*np.linspace(0, 1, 20), -1e12],
        [1e-300, 2e-300, 3e-300],
        [1e300, -1e300, 0.0, 1.0],
        [np.nan, 5.0, np.nan],
    ],
    ids=str,
)
def test_fit_survives(y, calibration, kind):
    y = np.array(y)
    data = TrainingData(
        x=np.random.default_rng(0).random((len(y), 3)),
        y=y,
        constraints={"completed": np.isfinite(y).astype(float)},
    )
    s = {"auto": QUICK, "adaptive_basis": BASIS.model_copy(update={"calibration": calibration})}[
        kind
    ]
    classifier = CLASSIFIER.model_copy(update={"calibration": calibration})
    model = fit_model(data, s, classifier, rng=np.random.default_rng(0))
    new = np.random.default_rng(1).random((50, 3))
    mean, std = model.predict(new)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    p = model.feasibility(new)
    assert ((p > 0) & (p < 1)).all()


def test_duplicates_that_disagree_are_noise():
    x = np.repeat(np.random.default_rng(0).random((10, 2)), 2, axis=0)
    y = np.tile([-1.0, 1.0], 10)
    for c in fit_adaptive_basis(Problem(x, y), BASIS, rng=np.random.default_rng(0)).components:
        mean, variance = c.predict(c.features(x))
        assert np.abs(mean).max() < 0.5
        assert variance.min() > 0.3


@pytest.mark.parametrize("kind", ["gp", "adaptive_basis"])
@pytest.mark.parametrize("n", [40, 120])
def test_a_model_heeds_how_precise_an_outcome_is_said_to_be(kind, n):
    rng = np.random.default_rng(n)
    x, exact = rng.random((n, 2)), np.arange(n) % 2 == 0
    truth = np.sin(4 * x[:, 0]) + x[:, 1] ** 2
    noise = np.where(exact, 0.01, 1.0)
    y = truth + noise * rng.standard_normal(n)
    told = TrainingData(x, y, noise=noise)
    gp = SurrogateSettings(kind="gp", hyperparameter_samples=3)
    chosen = gp if kind == "gp" else BASIS
    errors = []
    for data in (told, TrainingData(x, y)):
        model = fit_model(data, chosen, rng=np.random.default_rng(1))
        mean, _ = model.predict(x)
        errors.append(np.sqrt(np.mean((mean - truth) ** 2)))
    assert errors[0] < 0.6 * errors[1]


def test_noise_that_nobody_reported_changes_no_bit():
    data = some_data(60, seed=1)
    silent = replace(data, noise=np.full(60, np.nan))
    one, other = (fit_model(d, QUICK, rng=np.random.default_rng(0)) for d in (data, silent))
    for a, b in zip(one.objective, other.objective, strict=True):
        np.testing.assert_array_equal(a.noise, b.noise)
    np.testing.assert_array_equal(one.predict(data.x), other.predict(data.x))


def test_reported_noise_is_relative_to_its_level_and_bounded():
    noise = ReportedNoise.of(np.array([0.25, 4.0, np.nan, 0.0]))
    assert noise.level == pytest.approx(1.0)
    np.testing.assert_allclose(noise.relative, [0.25, 4.0, 1.0, 1e-3])
    assert ReportedNoise.of(np.full(3, np.nan)) is None
    assert ReportedNoise.of(np.zeros(3)) is None


def test_a_model_without_an_ok_row_still_knows_the_constraints():
    x = np.random.default_rng(0).random((10, 2))
    data = TrainingData(x=x, y=np.full(10, np.nan), constraints={"completed": np.zeros(10)})
    model = fit_model(data, QUICK, CLASSIFIER, rng=np.random.default_rng(0))
    assert model.objective == ()
    assert np.isnan(model.predict(x)[0]).all()
    np.testing.assert_allclose(model.feasibility(x), 1 / 12)

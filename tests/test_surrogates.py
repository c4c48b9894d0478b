"""Laws of a surrogate as a whole: targets, streams, storage, and what it survives."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from running import ran

from dngo.check import about_torch
from dngo.config import validate
from dngo.errors import UserError
from dngo.papers.in_sample import fit_adaptive_basis
from dngo.surrogates import Model, TrainingData, fit_model, mixture
from dngo.surrogates.data import TargetScale
from dngo.surrogates.draws import draw
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.problem import Problem
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


def test_an_outlier_leaves_the_others_apart():
    y = np.r_[np.random.default_rng(0).normal(size=50), 1e12]
    assert TargetScale.fit(y).to_model(y)[:50].std() > 0.1


# ---- the model -----------------------------------------------------------------------------------


FEW = {"steps": 20, "ensemble": 2}
STORED = {
    "auto": QUICK,
    "gp": SurrogateSettings(kind="gp", hyperparameter_samples=3),
    "sparse": SurrogateSettings(gp_limit=20, inducing=20, networks=FEW, hyperparameter_samples=3),
    "bohamiann": SurrogateSettings(kind="bohamiann", burn_in=50, thin=5, posterior_samples=5),
}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("steep", [False, True])  # with walls around a floor
def test_saved_and_loaded_model_has_the_same_bits(kind, steep, monkeypatch):
    monkeypatch.setattr(mixture, "NEGLIGIBLE", 0.0)  # both members are kept
    data = some_data(40)
    data = replace(data, y=np.where(data.x[:, 0] > 0.5, 1e4, 1.0) * data.y) if steep else data
    model = fit_model(data, STORED[kind], CLASSIFIER, rng=np.random.default_rng(0))
    with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
        model.save(file.create_group("model"))
        loaded = Model.load(file["model"])
    assert _bits(loaded) == _bits(model)
    assert loaded.summary() == model.summary() and loaded.scale == model.scale
    x = np.random.default_rng(1).random((20, 2))
    np.testing.assert_array_equal(model.predict(x), loaded.predict(x))
    np.testing.assert_array_equal(model.feasibility(x), loaded.feasibility(x))


def test_load_refuses_a_newer_format_and_a_foreign_group():
    with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
        with pytest.raises(ValueError, match="format"):
            Model.load(file)
        file.attrs["format"] = 99
        with pytest.raises(ValueError, match="format"):
            Model.load(file)


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
x = rng.random((400, 3))
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


@pytest.mark.parametrize(
    ("kind", "calibration"), [("auto", "out_of_fold"), ("adaptive_basis", "in_sample")]
)
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
def test_fit_survives(y, kind, calibration):
    y = np.array(y)
    data = TrainingData(
        x=np.random.default_rng(0).random((len(y), 3)),
        y=y,
        constraints={"completed": np.isfinite(y).astype(float)},
    )
    s = QUICK if kind == "auto" else BASIS.model_copy(update={"calibration": calibration})
    classifier = CLASSIFIER.model_copy(update={"calibration": calibration})
    model = fit_model(data, s, classifier, rng=np.random.default_rng(0))
    new = np.random.default_rng(1).random((50, 3))
    mean, std = model.predict(new)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    p = model.feasibility(new)
    assert ((p > 0) & (p < 1)).all()


@pytest.mark.parametrize("chosen", [STORED["gp"], BASIS], ids=["gp", "adaptive_basis"])
@pytest.mark.parametrize("n", [40, 120])
def test_a_model_heeds_how_precise_an_outcome_is_said_to_be(chosen, n):
    rng = np.random.default_rng(n)
    x, exact = rng.random((n, 2)), np.arange(n) % 2 == 0
    truth = np.sin(4 * x[:, 0]) + x[:, 1] ** 2
    noise = np.where(exact, 0.01, 1.0)
    y = truth + noise * rng.standard_normal(n)
    errors = []
    for data in (TrainingData(x, y, noise=noise), TrainingData(x, y)):
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


def test_a_model_without_an_ok_row_still_knows_the_constraints():
    x = np.random.default_rng(0).random((10, 2))
    data = TrainingData(x=x, y=np.full(10, np.nan), constraints={"completed": np.zeros(10)})
    model = fit_model(data, QUICK, CLASSIFIER, rng=np.random.default_rng(0))
    assert model.objective == ()
    assert np.isnan(model.predict(x)[0]).all()
    np.testing.assert_allclose(model.feasibility(x), 1 / 12)


# ---- Laws of functions drawn from the posterior

DRAWS_KINDS = ("matern52", "matern32", "squared_exponential", "sparse", "bases", "sampled")


def fitted(name: str):
    """A component given observations of a smooth function of two inputs."""
    x = np.random.default_rng(0).random((30, 2))
    y = np.sin(4 * x[:, 0]) + x[:, 1] ** 2
    if name in ("bases", "sampled"):
        kinds = {
            "bases": {"kind": "adaptive_basis", "networks": {"steps": 50, "epochs": 0}},
            "sampled": {"kind": "bohamiann", "burn_in": 50, "thin": 5},
        }
        settings = SurrogateSettings(**kinds[name], warp=False)
        data = TrainingData(x=x, y=y)
        return fit_model(data, settings, rng=np.random.default_rng(1)).objective[0]
    process = GaussianProcess(
        x,
        y,
        log_lengthscales=np.log([[0.4, 0.8], [0.3, 0.5]]),
        signal=np.array([1.0, 2.0]),
        noise=np.array([1e-3, 1e-2]),
        kernel="matern52" if name == "sparse" else name,
    )
    if name != "sparse":
        return process
    # Inputs that explain less of the function than they could.
    return replace(
        process, targets=np.empty(0), reduction=0.9 * process.reduction, readout=process.readout
    )


@pytest.fixture(params=DRAWS_KINDS)
def component(request: pytest.FixtureRequest):
    return fitted(request.param)


def test_functions_have_the_moments_of_the_posterior(component) -> None:
    """Mean and covariance of one hyperparameter sample, over many sets of frequencies."""
    rng = np.random.default_rng(2)
    x = rng.random((12, 2))
    one = first_sample(component)
    values = np.concatenate([draw([one], np.ones(40), rng)(x) for _ in range(50)])
    mean, covariance = moments(one, x)
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(values.mean(axis=0) - mean) < 0.12 * deviation)
    found = np.cov(values.T) / np.outer(deviation, deviation)
    assert np.abs(found - covariance / np.outer(deviation, deviation)).max() < 0.25


def test_without_boldness_a_function_is_the_mean(component) -> None:
    x = np.random.default_rng(3).random((9, 2))
    one = first_sample(component)
    values = draw([one], np.zeros(3), np.random.default_rng(4))(x)
    assert np.allclose(values, moments(one, x)[0], atol=1e-6)


def test_a_slope_is_that_of_the_function(component) -> None:
    rng = np.random.default_rng(8)
    draws = draw([component], rng.random(6), rng)
    x = 0.1 + 0.8 * rng.random((6, 2))
    if not isinstance(component, GaussianProcess):
        assert not draws.has_slopes
        return
    # Single precision of the waves: steps that are long enough for it.
    steps = 3e-3 * np.eye(2)
    up, down = (draws.own(x[:, None] + sign * steps) for sign in (1.0, -1.0))
    found, expected = draws.slopes(x), (up - down) / 6e-3
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()


def test_a_function_is_the_same_wherever_it_is_asked_for(component) -> None:
    rng = np.random.default_rng(5)
    draws = draw([component], rng.random(6), rng)
    x = rng.random((6, 4, 2))
    together = draws(x.reshape(-1, 2)).reshape(6, 6, 4)
    own = draws.own(x)
    for i in range(6):
        assert np.allclose(together[i, i], own[i], rtol=1e-5, atol=1e-5)


def test_components_are_drawn_by_their_weights() -> None:
    component = fitted("matern52")
    nothing = replace(component, weight=0.0)
    draws = draw([nothing, component], np.ones(30), np.random.default_rng(10))
    assert all(group.process is component for group in draws.groups)


def first_sample(component):
    """The component with its first hyperparameter sample alone."""
    h = slice(0, 1)
    if isinstance(component, GaussianProcess):
        return replace(
            component,
            log_lengthscales=component.log_lengthscales[h],
            signal=component.signal[h],
            noise=component.noise[h],
            reduction=component.reduction[h],
            readout=component.readout[h],
        )
    return replace(
        component, mean=component.mean[h], variance=component.variance[h], noise=component.noise[h]
    )


def moments(component, x):
    """Mean (n,) and covariance (n, n) of the function at x (n, d), of the one sample."""
    z = component.features(x)
    if isinstance(component, GaussianProcess):
        return component.latent(z)[0][0], component.posterior_covariance(z, z)[0]
    return z @ component.mean[0], (z * component.variance[0]) @ z.T


# ---- Where networks are trained: deterministically on one thread, or on a GPU if there is one

GPU = torch.cuda.is_available()


def device_fitted(kind: str, device: str):
    rng = np.random.default_rng(0)
    x = rng.random((300, 4))
    y = np.sin(5 * x[:, 0]) + x[:, 1] ** 2 + 0.05 * rng.standard_normal(300)
    networks = {"device": device} | ({} if kind == "bohamiann" else {"steps": 300, "epochs": 5})
    model = fit_model(
        TrainingData(x=x, y=y),
        SurrogateSettings(kind=kind, networks=networks),
        rng=np.random.default_rng(1),
    )
    return model.predict(rng.random((200, 4)))


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("kind", "near"), [("adaptive_basis", 0.1), ("bohamiann", 0.5)])
def test_a_gpu_predicts_what_the_processor_does(kind: str, near: float):
    (mean, deviation), (mean2, deviation2) = device_fitted(kind, "cpu"), device_fitted(kind, "cuda")
    assert np.median(np.abs(mean - mean2) / deviation) < near
    np.testing.assert_allclose(np.median(deviation2 / deviation), 1.0, atol=2 * near)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("kind", ["adaptive_basis", "bohamiann"])
def test_no_gpu_is_one_line(kind: str):
    with pytest.raises(UserError, match=r"sees no GPU on .*; give the fit a GPU"):
        device_fitted(kind, "cuda")


STUDY = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


GPU_KEY = {"surrogate": {"kind": "bohamiann", "networks": {"device": "cuda"}}}


@pytest.mark.parametrize(
    ("build", "needs", "section", "said"),
    [
        (
            "2.14",
            ["filelock", "nvidia-nccl-cu13; platform_system == 'Linux'"],
            {},
            "PyTorch 2.14 has CUDA, some 5 GB that this study does not use; the build at ",
        ),
        ("2.13+cpu", [], GPU_KEY, "Warning: surrogate.networks.device: cuda, and PyTorch "),
    ],
)
def test_a_check_says_which_torch_is_there_and_whether_it_matters(
    monkeypatch: pytest.MonkeyPatch, build: str, needs: list[str], section: dict, said: str
):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: build)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needs)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert about_torch(validate({**STUDY, **section})).startswith(said)


def test_duplicates_that_disagree_are_noise():
    x = np.repeat(np.random.default_rng(0).random((10, 2)), 2, axis=0)
    y = np.tile([-1.0, 1.0], 10)
    for c in fit_adaptive_basis(Problem(x, y), BASIS, rng=np.random.default_rng(0)).components:
        mean, variance = c.predict(c.features(x))
        assert np.abs(mean).max() < 0.5
        assert variance.min() > 0.3

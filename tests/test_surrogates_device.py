"""Where networks are trained: deterministically on one thread, or on a GPU if there is one."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest
import torch

from dngo.check import about_torch
from dngo.config import validate
from dngo.errors import UserError
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

GPU = torch.cuda.is_available()


def fitted(kind: str, device: str):
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
    (mean, deviation), (mean2, deviation2) = fitted(kind, "cpu"), fitted(kind, "cuda")
    assert np.median(np.abs(mean - mean2) / deviation) < near
    np.testing.assert_allclose(np.median(deviation2 / deviation), 1.0, atol=2 * near)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("kind", ["adaptive_basis", "bohamiann"])
def test_no_gpu_is_one_line(kind: str):
    with pytest.raises(UserError, match=r"sees no GPU on .*; give the fit a GPU"):
        fitted(kind, "cuda")


STUDY = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


GPU_KEY = {"surrogate": {"kind": "bohamiann", "networks": {"device": "cuda"}}}


@pytest.mark.parametrize(
    ("build", "needs", "section", "gpu", "said"),
    [
        ("2.13+cpu", None, {}, False, "PyTorch 2.13+cpu has no CUDA, and this study needs none"),
        (
            "2.14",
            ["filelock", "nvidia-nccl-cu13; platform_system == 'Linux'"],
            {},
            False,
            "PyTorch 2.14 has CUDA, some 5 GB that this study does not use; the build at ",
        ),
        (
            "2.14",
            ["cuda-toolkit[cublas]"],
            GPU_KEY,
            True,
            "PyTorch 2.14 sees a GPU, which surrogate.networks.device asks for",
        ),
        ("2.13+cpu", [], GPU_KEY, False, "Warning: surrogate.networks.device: cuda, and PyTorch "),
    ],
)
def test_a_check_says_which_torch_is_there_and_whether_it_matters(
    monkeypatch: pytest.MonkeyPatch,
    build: str,
    needs: list[str] | None,
    section: dict,
    gpu: bool,
    said: str,
):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: build)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needs)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert about_torch(validate({**STUDY, **section})).startswith(said)

"""Training on another device takes the same steps; PyTorch's own CPU stands in where there is no GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dngo.errors import UserError
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates import device as device_module
from dngo.surrogates.network import train_networks
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings, TrainedNetworkSettings

CPU_OF_TORCH = "cuda" if torch.cuda.is_available() else "cpu"
REAL_TRAIN = device_module.train


@pytest.fixture
def any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """`device: cuda` means PyTorch's CPU where it sees no GPU."""

    def train(*arguments, device: str, **options) -> None:
        REAL_TRAIN(*arguments, device=CPU_OF_TORCH, **options)

    monkeypatch.setattr(device_module, "train", train)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("activation", ["tanh", "relu_tanh"])
def test_the_steps_are_the_same(any_device, loss, optimizer, activation):
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 3)), rng.standard_normal(60)
    targets = y if loss == "squared" else (y > 0).astype(float)
    # One network has no rows, and keeps its first weights.
    rows = [np.arange(40), np.arange(20, 60), np.arange(0)]
    found = []
    for device in ("cpu", "cuda"):
        s = TrainedNetworkSettings(
            steps=20,
            epochs=0,
            minibatch=16,
            optimizer=optimizer,
            activation=activation,
            device=device,
        )
        rng = np.random.default_rng(1)
        found.append(train_networks(x, targets, rows, s, loss=loss, rng=rng))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs.features(x), ours.features(x), atol=1e-4)


def test_what_is_predicted_agrees(any_device):
    rng = np.random.default_rng(0)
    x = rng.random((300, 4))
    y = np.sin(5 * x[:, 0]) + x[:, 1] ** 2 + 0.05 * rng.standard_normal(300)
    data = TrainingData(x=x, y=y, constraints={"completed": (x[:, 2] > 0.2).astype(float)})
    new = rng.random((200, 4))
    predictions = []
    for device in ("cpu", "cuda"):
        s = SurrogateSettings(
            kind="adaptive_basis", networks={"steps": 300, "epochs": 5, "device": device}
        )
        model = fit_model(
            data, s, ClassifierSettings(networks=s.networks), rng=np.random.default_rng(1)
        )
        predictions.append((*model.predict(new), model.feasibility(new)))
    (mean, deviation, feasible), (mean2, deviation2, feasible2) = predictions
    assert np.max(np.abs(mean - mean2) / deviation) < 0.1
    np.testing.assert_allclose(deviation2, deviation, rtol=0.1)
    np.testing.assert_allclose(feasible2, feasible, atol=0.02)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line():
    data = TrainingData(x=np.random.default_rng(0).random((20, 2)), y=np.arange(20.0))
    s = SurrogateSettings(kind="adaptive_basis", networks={"steps": 10, "device": "cuda"})
    with pytest.raises(UserError, match=r"sees no GPU on .*; give the fit a GPU"):
        fit_model(data, s, rng=np.random.default_rng(0))

"""Laws of the networks: what they learn, and what left-out rows say about them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import torch
from test_surrogates import CLASSIFIER

from dngo.papers.evidence import torch_features
from dngo.rules import current, using
from dngo.surrogates import TrainingData, fit_model, training
from dngo.surrogates.linear import Regression
from dngo.surrogates.network import Network, WithCosines, WithWaves
from dngo.surrogates.numerics import cosine
from dngo.surrogates.regression import _agreement
from dngo.surrogates.settings import EnsembleSettings, SurrogateSettings
from dngo.surrogates.storage import read, write
from dngo.surrogates.training import train_networks

SHORT = {"steps": 300}


# ---- networks ------------------------------------------------------------------------------------


def small(activation: str, seed: int = 0) -> Network:
    """Two hidden layers on three inputs."""
    rng = np.random.default_rng(seed)
    return Network(
        (rng.standard_normal((3, 5)), rng.standard_normal((5, 4))),
        (rng.standard_normal(5), rng.standard_normal(4)),
        activation,
    )


ACTIVATIONS = pytest.mark.parametrize("activation", ["silu", "tanh", "relu_tanh", "relu"])


@ACTIVATIONS
def test_features_are_those_that_were_trained(activation):
    """Prediction is written in NumPy, training in torch: both are the same function."""
    network, x = small(activation), np.random.default_rng(1).random((7, 3))
    weights, biases = (
        [torch.as_tensor(p) for p in part] for part in (network.weights, network.biases)
    )
    found = torch_features(torch.as_tensor(x), weights, biases, activation)
    np.testing.assert_allclose(found.numpy(), network.features(x), rtol=1e-12, atol=1e-12)


@ACTIVATIONS
def test_slopes_are_finite_differences_of_the_features(activation):
    network, x, step = small(activation), np.random.default_rng(1).random((7, 3)), 1e-6
    there = network.features(x)
    for j, slope in enumerate(network.slopes(x)):
        moved = x + step * np.eye(3)[j]
        expected = np.abs(network.features(moved) - there)[:, :-1].mean() / step
        assert slope == pytest.approx(expected, rel=1e-4)


def test_waves_are_a_smooth_function_of_which_only_size_and_length_are_known(tmp_path):
    """Their covariance is the squared exponential one, and they are stored with what they stand beside."""
    rng = np.random.default_rng(0)
    x, length, count = rng.random((6, 3)), np.array([0.3, 0.6, 1.2]), 40_000
    drawn = rng.standard_normal((3, count)) / length[:, None], rng.uniform(0, 2 * np.pi, count)
    for learnt in (small("silu"), WithCosines.of(small("silu"), x, count=2, most=6)):
        found = WithWaves(learnt, *drawn, amplitude=2.0)
        features = found.features(x)
        waves = features[:, -count:]
        squares = np.sum(((x[:, None] - x) / length) ** 2, axis=2)
        np.testing.assert_allclose(waves @ waves.T, 4.0 * np.exp(-0.5 * squares), atol=0.1)
        np.testing.assert_array_equal(features[:, :-count], learnt.features(x))
        with h5py.File(tmp_path / "basis.h5", "w") as file:
            write(found, file)
            np.testing.assert_array_equal(read(file).features(x), features)


def test_cosines_stand_beside_a_network_and_are_stored(tmp_path):
    """They are of inputs with more than two values alone, and never more than asked for in all."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random((9, 2)), rng.integers(0, 2, 9)])
    network = Network((rng.standard_normal((3, 5)),), (rng.standard_normal(5),), "silu")
    found = WithCosines.of(network, x, count=10, most=6)
    expected = [np.cos(np.pi * j * x[:, i]) for j in (1, 2, 3) for i in (0, 1)]
    features = found.features(x)
    np.testing.assert_allclose(features[:, 6:], np.transpose(expected), atol=1e-12)
    np.testing.assert_array_equal(features[:, :6], network.features(x))
    with h5py.File(tmp_path / "basis.h5", "w") as file:
        write(found, file)
        again = read(file)
    np.testing.assert_array_equal(again.features(x), features)
    for other in (x[:, 2:], np.zeros((9, 3))):
        assert WithCosines.of(network, other, count=10, most=6) is network
    many = rng.random((9, 7))
    assert WithCosines.of(network, many, count=10, most=6) is network


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_one_step_is_of_the_learning_rate_and_an_input_with_one_value_learns_nothing(
    loss, optimizer
):
    """Of Adam the first step is the rate in each weight; of SGD it grows with the rate. The gradient is that
    of test_surrogates_paper. The weights of an input with one value, as a level that nobody has seen, stay."""
    rng = np.random.default_rng(0)
    x, y = np.column_stack([rng.random(6), np.zeros(6)]), (rng.random(6) < 0.5).astype(float)
    few = {"ensemble": 1, "layers": 1, "width": 3, "epochs": 0, "weight_decay": 0}

    def weights(steps: int, rate: float) -> np.ndarray:
        s = EnsembleSettings(**few, optimizer=optimizer, steps=steps, learning_rate=rate)
        (found,) = train_networks(x, y, [np.arange(6)], s, loss=loss, rng=np.random.default_rng(1))
        return found.weights[0]

    start = weights(0, 1e-3)
    once, twice = weights(1, 1e-3) - start, weights(1, 2e-3) - start
    assert (once[0] != 0).all() and (once[1] == 0).all()
    np.testing.assert_allclose(twice, 2 * once, rtol=0.02, atol=1e-7)
    if optimizer == "adam":
        np.testing.assert_allclose(np.abs(once[0]), 1e-3, rtol=0.02)


def _of_many(s: EnsembleSettings, rules: dict[str, int]) -> list[Network]:
    """Networks of 1500 values of a smooth function, which counts as many by `most_straight`: 1000."""
    rng = np.random.default_rng(0)
    x = rng.random((1500, 3))
    y = np.sin(6 * x[:, 0]) * np.cos(4 * x[:, 1]) + x[:, 2]
    with using(current().but(training=rules)):
        return train_networks(
            x, y, [np.arange(1500)] * 2, s, loss="squared", rng=np.random.default_rng(1)
        )


def test_rotated_steps_go_deeper_than_as_many_straight_ones_and_repeat_their_bits():
    s = EnsembleSettings(ensemble=2, width=20, steps=250, epochs=0, activation="tanh")
    rotated, again, straight = (_of_many(s, {"most_straight": most}) for most in (1000, 1000, 1500))
    rng = np.random.default_rng(2)
    x = rng.random((1000, 3))
    y = np.sin(6 * x[:, 0]) * np.cos(4 * x[:, 1]) + x[:, 2]

    def residual(network: Network) -> float:
        return Regression.fit(network.features(x), y).residual

    for k in range(2):
        # 0.3 to 0.7 times, by the processor's last bits.
        assert residual(rotated[k]) < 0.85 * residual(straight[k])
        for one, other in zip(rotated[k].weights, again[k].weights, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rates of all trainings."""
    rates, descend = [], training._descend

    def counted(*given):
        rates.append(given[4].learning_rate)
        return descend(*given)

    monkeypatch.setattr(training, "_descend", counted)
    return rates


def test_a_rotated_training_that_diverges_is_repeated_more_slowly(trainings: list[float]):
    s = EnsembleSettings(
        ensemble=2, width=5, steps=60, epochs=0, learning_rate=1e9, activation="relu"
    )
    networks = _of_many(s, {"most_straight": 1000})
    assert all(np.isfinite(part).all() for one in networks for part in one.weights)
    assert len(trainings) > 1 and trainings == [1e9 / 2**i for i in range(len(trainings))]


# ---- calibration ---------------------------------------------------------------------------------


def test_out_of_fold_calibration_knows_what_the_literal_recipe_does_not():
    """On points it has not seen, the default's 95 % interval holds most; the paper's does not."""
    rng = np.random.default_rng(0)
    x, new = rng.random((60, 5)), rng.random((500, 5))

    def f(v):
        return np.sin(7 * v[:, 0]) * np.cos(5 * v[:, 1]) + np.sin(6 * v[:, 2] * v[:, 3])

    coverage = {}
    for name, s in {
        "default": SurrogateSettings(networks=SHORT),
        "basis": SurrogateSettings(kind="adaptive_basis", networks=SHORT),
        "literal": SurrogateSettings(
            kind="adaptive_basis", calibration="in_sample", networks={**SHORT, "ensemble": 1}
        ),
    }.items():
        data = TrainingData(x=x, y=f(x), constraints={"completed": np.ones(60)})
        mean, std = fit_model(data, s, CLASSIFIER, rng=np.random.default_rng(1)).predict(new)
        coverage[name] = np.mean(np.abs(f(new) - mean) < 1.96 * std)
    assert coverage["default"] > 0.88
    assert coverage["basis"] > 0.88
    assert coverage["literal"] < 0.7


@pytest.mark.parametrize("kind", ["adaptive_basis", "least_squares", "auto"])
def test_a_training_that_diverges_is_repeated_more_slowly(kind: str, trainings: list[float]):
    x = np.random.default_rng(0).random((60, 3))
    networks = {"optimizer": "sgd", "learning_rate": 30.0, "steps": 200}
    settings = SurrogateSettings(kind=kind, networks=networks)
    model = fit_model(TrainingData(x, np.sin(9 * x[:, 0])), settings, rng=np.random.default_rng(0))
    assert np.isfinite(model.predict(x)).all()
    assert trainings[:2] == [30.0, 15.0]


# ---- an ensemble ---------------------------------------------------------------------------------


class _Said:
    """A network that errs by an error of its own and by one that all share, both normal."""

    def __init__(self, own: np.ndarray, shared: np.ndarray, variance: float) -> None:
        self.own, self.shared, self.variance = own, shared, variance

    def features(self, x: np.ndarray) -> np.ndarray:
        return x

    def predict(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = len(z)
        return (self.own + self.shared)[:n, None], np.full((n, 1), self.variance)


@pytest.mark.parametrize("number", [2, 5])
def test_a_mixture_of_networks_is_as_wide_as_their_average_errs(number):
    """One network's error variance is own + shared; that of the average is own / number +
    shared."""
    rng, n, own, shared = np.random.default_rng(0), 4000, 0.3, 1.0
    common = np.sqrt(shared) * rng.standard_normal(n)
    said = [
        _Said(np.sqrt(own) * rng.standard_normal(n), common, own + shared) for _ in range(number)
    ]
    x = rng.random((n, 2))
    with using(current().but(regression={"midpoints": n})):
        agreement = _agreement(said, x, rng)
    among = (1 - 1 / number) * own
    assert agreement * (own + shared) + among == pytest.approx(own / number + shared, rel=0.02)


def test_a_cosine_is_that_of_the_library() -> None:
    z = np.random.default_rng(0).uniform(-100.0, 100.0, (300, 150))
    assert np.abs(cosine(z) - np.cos(z)).max() < 1e-13
    assert cosine(z[:0]).shape == (0, 150) and cosine(z[:, :0]).shape == (300, 0)
    assert cosine(np.full((1, 1), np.pi)) == -1.0

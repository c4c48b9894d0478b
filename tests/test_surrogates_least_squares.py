"""Least squares on a learned representation: its equations, and when it is learnt anew."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from test_transfer import advance, configured

from dngo import archive
from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.papers.least_squares import head
from dngo.replay import replay
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.study import Study
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.network import Network
from dngo.surrogates.settings import SurrogateSettings
from dngo.surrogates.training import train_networks

QUICK = SurrogateSettings(
    kind="least_squares", networks={"width": 8, "steps": 100, "epochs": 0}, warp=False
)


def trained(n: int) -> tuple[Network, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.random((n, 2))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.standard_normal(n)
    (network,) = train_networks(x, y, [np.arange(n)], QUICK.networks, loss="squared", rng=rng)
    return network, x, y


def test_mean_and_variance_are_equations_6_to_8() -> None:
    network, x, y = trained(60)
    basis, residual = head(network, x, y)
    new = np.random.default_rng(1).random((20, 2))
    phi, nu = network.features(x), network.features(new)
    weights = np.linalg.lstsq(phi, y, rcond=None)[0]
    noise = np.mean((y - phi @ weights) ** 2)
    spread = np.sum(nu @ np.linalg.inv(phi.T @ phi) * nu, axis=1)
    mean, variance = basis.predict(basis.features(new))
    assert mean[:, 0] == pytest.approx(nu @ weights, rel=1e-5)
    assert variance[:, 0] == pytest.approx(noise * (1 + spread), rel=1e-4)
    assert residual == pytest.approx(np.sqrt(noise), rel=1e-6)


def test_with_fewer_observations_than_features_it_is_not_certain() -> None:
    network, x, y = trained(7)
    basis, residual = head(network, x, y)
    assert int(np.sum(basis.variance > 0)) == 3
    assert residual > 1e-4


def test_the_representation_outlives_iterations_and_replays(tmp_path: Path) -> None:
    settings = {"kind": "least_squares", "networks": {"width": 6, "steps": 30}, "relearn_every": 3}
    study = Study(configured(tmp_path, surrogate=settings, design={"size": 12}))
    learnt, weights = [], []
    for t in range(6):
        advance(study, t)
        if t > 0:
            model, _ = archive.read_surrogate(study.archive, t)
            learnt.append(model.diagnostics["learnt_iterations"])
            weights.append((model.objective[0].network.weights[0], model.objective[0].mean))
    assert learnt == [1, 1, 1, 4, 4]
    same = [np.array_equal(a[0], b[0]) for a, b in itertools.pairwise(weights)]
    assert same == [True, True, False, True]
    # The regression learns from new outcomes although the network does not.
    assert not np.array_equal(weights[0][1], weights[1][1])
    assert [replay(study.archive, t).verdict for t in range(6)] == ["identical"] * 6


def test_where_nothing_improves_the_least_certain_point_is_explored() -> None:
    space = Space({n: Float(type="float", low=0, high=1) for n in "ab"})
    rng = np.random.default_rng(0)
    x = rng.random((40, 2)) * [0.5, 1.0]  # nothing is known of the right half
    model = fit_model(
        TrainingData(x=x, y=x[:, 0], constraints={"completed": np.ones(40)}), QUICK, rng=rng
    )
    settings = AcquisitionSettings(trust_region_share=0.0, vanishing=1e9, when_vanished="explore")
    batch = propose_batch(
        model, space, History(x, x[:, 0]), size=3, settings=settings, rng=np.random.default_rng(1)
    )
    assert all(source.startswith("explore:") for source in batch.source)
    # The first is the least certain of all, by the model's own account.
    (basis,) = model.objective
    grid = rng.random((2000, 2))
    _, variance = basis.predict(basis.features(np.vstack([batch.v[:1], grid])))
    assert np.mean(variance[1:] <= variance[0]) > 0.97

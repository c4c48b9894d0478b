"""Small studies for the tests of the acquisition."""

from __future__ import annotations

from typing import Any

import numpy as np

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.network import Network
from dngo.surrogates.settings import ClassifierSettings, EnsembleSettings, SurrogateSettings

NETWORKS = EnsembleSettings(ensemble=3, width=8, steps=50, epochs=0)
QUICK = SurrogateSettings(networks=NETWORKS, hyperparameter_samples=3)
QUICK_CLASSIFIER = ClassifierSettings(networks=NETWORKS.model_dump(exclude_defaults=True))
SMALL = AcquisitionSettings(
    uniform_candidates=128, local_candidates=64, shortlist=128, fantasies=5, refinements=1
)


def network_of(d: int, rng: np.random.Generator, width: int = 5) -> Network:
    return Network((rng.standard_normal((d, width)) * 2,), (rng.standard_normal(width),), "tanh")


def fitted_component(seed: int, n: int = 6, d: int = 2, h: int = 2) -> tuple[FiniteBasis, tuple]:
    """A component fitted to n random points, and what it was fitted to."""
    rng = np.random.default_rng(seed)
    network = network_of(d, rng)
    x, y = rng.random((n, d)), rng.standard_normal(n)
    alpha, beta = rng.uniform(0.2, 3, h), rng.uniform(0.5, 50, h)
    head = Regression.fit(network.features(x), y)
    return (
        FiniteBasis(network, head.rotation, *head.posterior(alpha, beta), 1 / beta),
        (network, x, y, alpha, beta),
    )


def drawn_outcomes(fantasies: Fantasies, new: np.ndarray, noise: np.ndarray) -> list[np.ndarray]:
    """Make points (p, d) pending one after another. Returns the drawn outcomes, each (H, 1 or S).

    They are derived from the update of the mean. noise: (H,) variance of the only component.
    """
    outcomes = []
    for point in fantasies.features(new).transpose(1, 0, 2):
        ((before, latent),) = fantasies.moments(point[:, None])
        fantasies.condition(point)
        ((after, _),) = fantasies.moments(point[:, None])
        gain = latent / (latent + noise[None, :, None, None])
        outcomes.append((before + (after - before) / gain)[0, :, :, 0])
    return outcomes


def model_of(
    space: Space,
    v: np.ndarray,
    y: np.ndarray,
    seed: int = 0,
    settings: Any = QUICK,
    classifier: Any = QUICK_CLASSIFIER,
    **data: Any,
) -> Model:
    """A model of outcomes y (NaN where one failed). data: what else is known of them."""
    completed = np.isfinite(y).astype(float)
    known = TrainingData(space.encode(v), y, **{"constraints": {"completed": completed}, **data})
    return fit_model(known, settings, classifier, rng=np.random.default_rng(seed))


def points(space: Space, n: int, seed: int = 0) -> np.ndarray:
    return design(space, n, rng=np.random.default_rng(seed), exclude=np.empty((0, space.k)))


def height(space: Space, v: np.ndarray) -> np.ndarray:
    return np.sum((space.encode(v) - 0.3) ** 2, axis=1)


def propose(
    space, v, y, size, *, pending=None, seed=1, settings=SMALL, model=None, root=None, **history
):
    pending = np.empty((0, space.k)) if pending is None else pending
    return propose_batch(
        model or model_of(space, v, y),
        space,
        History(v, y, pending, **history),
        size=size,
        settings=settings,
        rng=np.random.default_rng(seed),
        root=root,
    )

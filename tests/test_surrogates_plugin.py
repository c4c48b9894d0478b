"""A surrogate from another package: base classes supply what it lacks, and nothing is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from running import installed
from toy import FEW, Toy, advance

from dngo import archive
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.settings import AcquisitionSettings
from dngo.audit import audit
from dngo.config import load
from dngo.replay import replay
from dngo.study import Study
from dngo.surrogates.component import Component
from dngo.surrogates.draws import draw
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.network import Network

# Such a package must supply mean and variance of the function, and its storage.
MODULE = '''
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from dngo.surrogates.component import Component
from dngo.surrogates.problem import Fit
from dngo.surrogates.settings import SurrogateKind
from dngo.surrogates.storage import stored_as


@stored_as("nearest_neighbour")
class Neighbour(Component):
    """The nearest outcome, the less certain the farther it is."""

    def __init__(self, x, targets, noise, weight=1.0):
        self.x, self.targets, self.noise, self.weight = x, targets, noise, weight

    def latent(self, z):
        distance = cdist(z, self.x)
        nearest = distance.argmin(axis=1)
        return self.targets[nearest][None], distance.min(axis=1)[None] ** 2 + 1e-12

    def save(self, group):
        for name in ("x", "targets", "noise"):
            group.create_dataset(name, data=getattr(self, name))

    @classmethod
    def load(cls, group):
        return cls(*(group[name][()] for name in ("x", "targets", "noise")))


class NearestNeighbour(SurrogateKind):
    """The nearest outcome."""

    kind: Literal["nearest"] = "nearest"
    noise: float = 1e-4

    def fit(self, problem, *, rng, progress=None):
        return Fit((Neighbour(problem.x, problem.targets, np.array([self.noise])),), {})
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package, installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    points = (
        "[dngo.surrogates]\nnearest = neighbour:NearestNeighbour\n"
        "[dngo.components]\nnearest_neighbour = neighbour:Neighbour\n"
    )
    installed(folder, "neighbour", MODULE, points)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize(
    "acquisition",
    [
        {"kind": "mcei"},
        {"kind": "mcei", "trust_region_share": 0.0},
        {"kind": "thompson", "trust_region_share": 0.0},
        {"kind": "pi"},
    ],
    ids=str,
)
def test_a_whole_study_by_it_replays(site: None, tmp_path, acquisition: dict) -> None:
    toy = Toy(tmp_path, iterations=2, batch_size=6, sleep=0.0)
    known = AcquisitionSettings.classes[acquisition["kind"]].model_fields
    few = {key: value for key, value in FEW.items() if key in known}
    toy.configure(
        iterations=2, batch_size=6, extra=f"acquisition: {json.dumps(few | acquisition)}\n"
    )
    config = toy.folder / "config.yaml"
    own = [line for line in config.read_text().splitlines() if not line.startswith("surrogate:")]
    config.write_text("\n".join([*own, "surrogate: nearest", ""]))
    run = Study(load([config], {"results": str(tmp_path / "results")}))
    for t in range(3):
        advance(run, t)
    assert [replay(toy.archive, t).verdict for t in range(3)] == ["identical"] * 3
    assert archive.verify(toy.archive) == []
    told = [audit(toy.archive, f"2-{slot}") for slot in range(6)]
    assert all(np.isfinite(one["proposed"]["mean"]) for one in told)


def _neighbour(site: None, weight: float = 1.0) -> Component:
    import neighbour

    rng = np.random.default_rng(0)
    x = rng.random((8, 2))
    return neighbour.Neighbour(x, x.sum(axis=1), np.array([1e-4]), weight)


def _process(weight: float) -> GaussianProcess:
    rng = np.random.default_rng(1)
    x = rng.random((8, 2))
    given = np.zeros((2, 2)), np.ones(2), np.full(2, 1e-4)
    return GaussianProcess(x, x.sum(axis=1), *given, weight=weight)


def _basis(width: int, weight: float) -> FiniteBasis:
    rng = np.random.default_rng(width)
    network = Network((rng.standard_normal((2, width)),), (np.zeros(width),), "tanh")
    x = rng.random((8, 2))
    head = Regression.fit(network.features(x), x.sum(axis=1))
    return FiniteBasis(
        network,
        head.rotation,
        *head.posterior(np.ones(2), np.full(2, 99.0)),
        np.full(2, 0.01),
        weight,
    )


def test_every_component_of_a_mixture_has_its_share(site: None) -> None:
    parts = [_neighbour(site, 0.5), _process(0.2), _basis(3, 0.2), _basis(5, 0.1)]
    x = np.random.default_rng(2).random((7, 2))

    def value(components: list) -> np.ndarray:
        fantasies = Fantasies(components, 0.5, 4, np.random.default_rng(0))
        return fantasies.improvement(fantasies.features(x))

    each = sum(part.weight * value([part]) for part in parts)
    np.testing.assert_allclose(value(parts), each, rtol=1e-10)


def test_pending_points_are_conditioned_on_in_every_component(site: None) -> None:
    parts = [_neighbour(site, 0.5), _process(0.2), _basis(3, 0.2), _basis(5, 0.1)]
    x = np.random.default_rng(2).random((5, 2))
    fantasies = Fantasies(parts, 0.5, 4, np.random.default_rng(0))
    z = fantasies.features(x)
    before = [variance for _, variance in fantasies.moments(z)]
    fantasies.condition(z[:, 0])
    for (_, after), earlier in zip(fantasies.moments(z), before, strict=True):
        assert (after[..., 0] < 0.5 * earlier[..., 0] + 1e-3).all()  # known but for its noise
        assert (after <= earlier + 1e-12).all()


def test_functions_are_drawn_from_every_component(site: None) -> None:
    parts = [_neighbour(site, 0.5), _process(0.2), _basis(3, 0.2), _basis(5, 0.1)]
    x = np.random.default_rng(2).random((6, 2))
    draws = draw(parts, np.ones(400), np.random.default_rng(0))
    values = draws(x)
    assert not draws.has_slopes
    own = draws.own(np.repeat(x[None], 400, axis=0))
    np.testing.assert_allclose(values, own, atol=1e-4)  # waves are in single precision
    neighbour = draw(parts[:1], np.ones(4000), np.random.default_rng(0))(x)
    (mean,), (variance,) = parts[0].latent(x)
    np.testing.assert_allclose(neighbour.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(neighbour.std(axis=0), np.sqrt(variance), rtol=0.1)

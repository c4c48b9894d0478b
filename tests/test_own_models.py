"""Surrogates and gains that are passed as objects: a whole study, its archive, its replay."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from running import installed
from toy import FEW, Toy, advance

import dngo
from dngo import archive, objects
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.settings import AcquisitionSettings
from dngo.archive import verify
from dngo.audit import audit
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.replay import replay
from dngo.study import Study
from dngo.surrogates.component import Component
from dngo.surrogates.draws import draw

PAGE = Path(__file__).parents[1] / "docs" / "own-models.md"
SPACE = {"a": (0, 1), "b": (0, 1)}
MODULE = '''
import numpy as np


class Nearest:
    """The nearest outcome, the less certain the farther it is."""

    def __init__(self, slope=1.0):
        self.slope = slope

    def fit(self, x, y):
        self.x, self.y = x, y

    def predict(self, x):
        distance = np.sqrt(((x[:, None] - self.x) ** 2).sum(axis=2))
        return self.y[distance.argmin(axis=1)], self.slope * distance.min(axis=1)


def likely(values, best):
    return (values < best).astype(float)
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of a user, known to nobody."""
    (tmp_path / "my_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(objects, "_KNOWN", {})
    monkeypatch.setattr(objects, "_TRUSTED", set())
    sys.modules.pop("my_models", None)
    yield importlib.import_module("my_models")
    sys.modules.pop("my_models", None)


def bowl(a: float, b: float) -> float:
    return (a - 0.3) ** 2 + (b - 0.6) ** 2


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process."""
    monkeypatch.setattr(objects, "_KNOWN", {})
    monkeypatch.setattr(objects, "_TRUSTED", set())
    sys.modules.pop("my_models", None)


def test_a_whole_study_by_both_is_recorded_and_replayed(mine, monkeypatch, capsys) -> None:
    study = dngo.minimize(
        bowl, SPACE, 14, name="own", batch_size=3, design={"size": 8}, workers=0,
        surrogate=mine.Nearest(slope=0.5), acquisition=mine.likely,
    )  # fmt: skip
    assert study.best().objective < 0.1 and verify(study.path) == []
    assert {*study.table()["stage"]} == {"design", "joint"}
    kept = study.config.surrogate
    assert kept.name == "my_models:Nearest" and kept.attributes == {"slope": 0.5} and kept.source
    assert [replay(study.path, t).verdict for t in range(3)] == ["identical"] * 3
    study.write_config("config.yaml")
    # Another process has only the archive. It imports nothing until it is told to.
    forget(monkeypatch)
    assert main(["replay", str(study.path)]) == 1
    error = capsys.readouterr().err
    assert "my_models:" in error and "--objects" in error and "my_models" not in sys.modules
    assert main(["best", str(study.path)]) == 0  # by the outcomes alone
    words = ["replay", str(study.path), "--iteration", "2", "--objects", "my_models.py"]
    assert main(words) == 0
    assert dngo.open(study.path).best("model").mean < 0.1
    # The user's own configuration is trusted, and the study goes on with it.
    forget(monkeypatch)
    study = dngo.open("config.yaml")
    assert len(study.ask(1)) == 1


def test_the_same_call_goes_on_and_other_code_is_refused(mine, monkeypatch, tmp_path) -> None:
    def go(evaluations: int, model) -> dngo.Session:
        return dngo.minimize(
            bowl, SPACE, evaluations, name="own", batch_size=1, workers=0, surrogate=model
        )

    go(8, mine.Nearest())
    study = go(9, mine.Nearest())
    assert len(study.table()) == 9
    study.write_config("config.yaml")
    forget(monkeypatch)
    (tmp_path / "my_models.py").write_text(MODULE.replace("argmin", "argmax"))
    importlib.invalidate_caches()
    with pytest.raises(UserError, match="my_models:Nearest has changed since the study named it"):
        dngo.open("config.yaml").ask(2)


class Wide:
    """Its predictions have the wrong shape."""

    def fit(self, x, y): ...

    def predict(self, x):
        return x


class Holds(Wide):
    def __init__(self):
        self.table = np.zeros(3)


def wrong(values, best):
    return values.mean(axis=1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"surrogate": object()}, "surrogate: must be a name, a mapping, or an object with fit"),
        ({"acquisition": 3}, "acquisition: must be a name, a mapping, or a function gain"),
        ({"surrogate": "gq"}, "surrogate"),
        ({"surrogate": Holds()}, "attributes of Holds must be numbers"),
        ({"acquisition": wrong}, ":wrong: must return a finite gain for each of"),
        ({"surrogate": Wide()}, ":Wide: predict must return two arrays"),
    ],
)
def test_a_mistake_is_one_line(mine, given: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        dngo.minimize(bowl, SPACE, 9, name="own", batch_size=1, workers=0, **given)


def test_an_archive_names_nothing_that_would_be_imported(mine) -> None:
    """As a stranger might write it: a program in Python's own library."""
    bad = objects.Reference(name="subprocess:Popen", attributes={"args": ["touch", "hacked"]})
    with pytest.raises(UserError, match="an archive holds no code"):
        objects.find(bad)
    assert not Path("hacked").exists()


def test_the_page_runs_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    (tmp_path / "page.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len(code.strip().splitlines()) <= 40
    page = importlib.import_module("page")
    assert page.study.best().objective < 0.05


# ---- A surrogate from another package: base classes supply what it lacks, and nothing is lost

# Such a package must supply mean and variance of the function, and its storage.
PLUGIN_MODULE = '''
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
    installed(folder, "neighbour", PLUGIN_MODULE, points)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("kind", ["mcei", "thompson"])
def test_a_whole_study_by_it_replays(site: None, tmp_path, kind: str) -> None:
    toy = Toy(tmp_path, iterations=1, batch_size=4, sleep=0.0)
    known = AcquisitionSettings.classes[kind].model_fields
    few = {key: value for key, value in FEW.items() if key in known}
    if kind == "thompson":  # which draws functions from it
        few |= {"kind": kind, "trust_region_share": 0.0}
    toy.configure(iterations=1, batch_size=4, extra=f"acquisition: {json.dumps(few)}\n")
    config = toy.folder / "config.yaml"
    own = [line for line in config.read_text().splitlines() if not line.startswith("surrogate:")]
    config.write_text("\n".join([*own, "surrogate: nearest", ""]))
    run = Study(load([config], {"results": str(tmp_path / "results")}))
    for t in range(2):
        advance(run, t)
    assert replay(toy.archive, 1).verdict == "identical" and archive.verify(toy.archive) == []
    told = [audit(toy.archive, f"1-{slot}") for slot in range(4)]
    assert all(np.isfinite(one["proposed"]["mean"]) for one in told)


@pytest.fixture
def parts(site: None) -> list[Component]:
    import neighbour

    x = np.random.default_rng(0).random((8, 2))
    return [neighbour.Neighbour(x, x.sum(axis=1), np.array([1e-4]))]


def test_pending_points_are_conditioned_on(parts) -> None:
    x = np.random.default_rng(2).random((5, 2))
    fantasies = Fantasies(parts, 0.5, 4, np.random.default_rng(0))
    z = fantasies.features(x)
    before = [variance for _, variance in fantasies.moments(z)]
    fantasies.condition(z[:, 0])
    for (_, after), earlier in zip(fantasies.moments(z), before, strict=True):
        assert (after[..., 0] < 0.5 * earlier[..., 0] + 1e-3).all()  # known but for its noise
        assert (after <= earlier + 1e-12).all()


def test_functions_are_drawn_from_it(parts) -> None:
    x = np.random.default_rng(2).random((6, 2))
    draws = draw(parts, np.ones(4000), np.random.default_rng(0))
    values = draws(x)
    assert not draws.has_slopes
    own = draws.own(np.repeat(x[None], 4000, axis=0))
    np.testing.assert_allclose(values, own, atol=1e-4)  # waves are in single precision
    (mean,), (variance,) = parts[0].latent(x)
    np.testing.assert_allclose(values.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(values.std(axis=0), np.sqrt(variance), rtol=0.1)

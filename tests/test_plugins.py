"""One way to find what is chosen by name: this package's own objects are in a table of entry
points."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from running import installed, ran
from toy import ROOT, advance

from dngo import archive
from dngo.archive import read_table
from dngo.cli import main
from dngo.config import load
from dngo.exchange.fork import fork
from dngo.plugins import OWN, Registry
from dngo.replay import replay
from dngo.space import Space
from dngo.space.types import TYPES
from dngo.storage import hdf5
from dngo.study import Study

ALL = [(group, name) for group, found in OWN.items() for name in found]


@pytest.mark.parametrize(("group", "name"), ALL)
def test_every_name_leads_to_an_object_of_that_name(group: str, name: str) -> None:
    found = Registry(group).find(name)
    assert EntryPoint(name, OWN[group][name], group).load() is found
    if group == "dngo.components":
        assert found.stored_as == name
    elif group in ("dngo.surrogates", "dngo.acquisition"):
        assert found.model_fields["kind"].default == name


def test_an_unknown_name_is_answered_by_those_there_are() -> None:
    with pytest.raises(LookupError, match=r"must be one of map, evidence, .*not maps"):
        Registry("dngo.trainings").find("maps")


# What another package needs to train bases in its own way, to write an export and to draw a figure.
ADDED = """
from dngo.archive import read_table
from dngo.report.figures import Figure
from dngo.report.figures.style import plot
from dngo.surrogates.training import train_networks

def untrained(x, targets, rows, settings, **how):
    return train_networks(x, targets, [part[:0] for part in rows], settings, **how)

class Impostor: ...

def write(archive, output):
    output.write_text(" ".join(map(str, read_table(archive).objective)))

def draw(view):
    figure = plot(200)
    figure.add_scatter(y=view.table.objective.tolist())
    return Figure("raw", "Raw <outcomes>", "As they came.", figure)

def fail(view):
    raise ZeroDivisionError("on purpose")
"""
POINTS = """
[dngo.trainings]
untrained = added:untrained
map = added:Impostor
[dngo.exports]
plain = added:write
[dngo.figures]
raw = added:draw
broken = added:fail
"""
USE = """
import sys
from pathlib import Path
import numpy as np
from dngo.plugins import Registry
from dngo.report.data import View
from dngo.report.figures import all_figures
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings
from dngo.surrogates.training import train_networks

x = np.random.default_rng(0).random((40, 2))
data = TrainingData(x, np.sin(5 * x[:, 0]))

def basis(training):
    settings = SurrogateSettings(kind="adaptive_basis", training=training, networks={"steps": 20})
    return fit_model(data, settings, rng=np.random.default_rng(0)).objective[0].basis(x)[:, :50]

assert Registry("dngo.trainings").names()[-1] == "untrained"
assert Registry("dngo.trainings").find("map") is train_networks
assert not np.array_equal(basis("untrained"), basis("map"))
found = {figure.key: figure for figure in all_figures(View.of(Path(sys.argv[1])))}
assert len(found["raw"].plot.data[0].y) > 0
assert "ZeroDivisionError: on purpose" in found["broken"].caption
"""


def test_another_package_adds_to_each_group_and_cannot_take_a_name(tmp_path, small) -> None:
    installed(tmp_path, "added", ADDED, POINTS)
    path, output = small.paths.archive, tmp_path / "found.txt"
    export = ["-m", "dngo", "export", str(path), "--format", "plain", "--output", str(output)]
    for words in (["-c", USE, str(path)], export):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
        done = ran([sys.executable, *words], cwd=ROOT, env=environment)
        assert done.returncode == 0, done.stderr
    found = [float(word) for word in output.read_text().split()]
    np.testing.assert_array_equal(found, read_table(path).objective)


# ---- Types of parameters from another package: one with its own scale, one with its own choices

# What such a package consists of: a number that is laid out by its reciprocal, and a choice of two words.
MODULE = '''
from typing import Literal

import numpy as np
from pydantic import Field

from dngo.space.parameters import Listed, Real, Whole
from dngo.space.scales import Scale


class Wavelength(Real):
    """A length that is searched by its wave number."""

    type: Literal["wavelength"]

    @property
    def scale(self):
        return Scale(lambda value: -1.0 / value, lambda place: -1.0 / place)


class Teeth(Whole):
    """A number of teeth, by its square."""

    type: Literal["teeth"]

    @property
    def scale(self):
        return Scale(np.square, np.sqrt)


class Base(Listed):
    """A base of RNA."""

    type: Literal["base"]
    modified: bool = Field(False, description="Also pseudouridine.")

    @property
    def listed(self):
        return ("A", "C", "G", "U", *(("Y",) if self.modified else ()))
'''
ENTRY_POINTS = """[dngo.parameters]
wavelength = waves:Wavelength
teeth = waves:Teeth
base = waves:Base
"""
SPACE = """space:
  x: {type: wavelength, low: 0.1, high: 10}
  n: {type: teeth, low: 1, high: 30}
  b: {type: base, modified: true, active_if: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which such a package lies installed."""
    site = tmp_path_factory.mktemp("plugin")
    installed(site, "waves", MODULE, ENTRY_POINTS)
    sys.path.append(str(site))
    yield site
    sys.path.remove(str(site))


def configuration(folder: Path, *, space: str = SPACE, more: str = "") -> Path:
    (folder / "objective.py").write_text(
        "import json, sys\n"
        "point = json.load(open(sys.argv[1]))\n"
        "print(json.dumps({'objective': (1 / point['x'] - 3) ** 2 + abs(point['n'] - 5)"
        " + (point.get('b') != 'Y')}))\n"
    )
    path = folder / "config.yaml"
    path.write_text(
        "study: waves\nbatch_size: 4\ndesign: {size: 6}\niterations: 1\n"
        f"objective: {{command: '{sys.executable} objective.py {{parameters}}'}}\n{space}{more}"
    )
    return path


def test_a_study_of_such_types_runs_replays_and_forks(site: Path, tmp_path: Path) -> None:
    run = Study(load([configuration(tmp_path)]))
    for t in range(2):
        advance(run, t)
    path = run.paths.archive
    assert archive.verify(path) == []
    assert [replay(path, t).verdict for t in range(2)] == ["identical"] * 2
    space = archive.read_space(path)
    assert {type(p).__name__ for p in space.parameters.values()} == {"Wavelength", "Teeth", "Base"}
    other = configuration(tmp_path, space=SPACE.replace("high: 10", "high: 12"))
    other.write_text(other.read_text().replace("study: waves", "study: wider"))
    assert not fork(Study(load([other])), path).skipped


def test_equal_steps_are_those_of_its_scale(site: Path) -> None:
    x, n = TYPES(type="wavelength", low=0.1, high=10), TYPES(type="teeth", low=1, high=30)
    space = Space({"x": x, "n": n})
    u = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    v = space.decode(u)
    j = [c.name for c in space.columns].index("x")
    assert v[:, j] == pytest.approx([0.1, 2 / (10 + 0.1), 10.0])
    assert space.unit(v)[:, j] == pytest.approx(u[:, j])
    assert set(v[:, 1 - j]) <= set(range(1, 31))
    assert v[1, 1 - j] == pytest.approx(np.sqrt((0.5**2 + 30.5**2) / 2), abs=0.5)
    assert np.array_equal(space.round(v), v)
    kept = Space({"x": x, "n": n}, ["x * n <= 20"])
    points = kept.sample(np.random.default_rng(0).random((200, 2)))
    assert np.all(np.prod(points, axis=1) <= 20 * (1 + 1e-9))


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("{type: wavelength, low: -1, high: 10}", ["space.x", "scale", "-1.0 to 10.0"]),
        ("{type: wavelength, low: 1, heigh: 10}", ["space.x.heigh", "high"]),
        ("{type: wavelenght, low: 1, high: 10}", ["space.x", "type", "wavelenght"]),
        ("{type: base, modified: maybe}", ["space.x.modified", "true"]),
    ],
)
def test_its_mistakes_are_one_line(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], parameter: str, words: list[str]
) -> None:
    path = configuration(tmp_path, space=f"space:\n  x: {parameter}\n")
    assert main(["check", str(path)]) == 1
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert len(error.splitlines()) == 1, error


def test_without_the_package_its_archive_says_what_is_missing(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Study(load([configuration(tmp_path)]))
    advance(run, 0)
    hdf5._sound.clear()  # another process
    sys.path.remove(str(site))
    try:
        assert main(["status", str(run.paths.archive)]) == 1
        error = capsys.readouterr().err
    finally:
        sys.path.append(str(site))
    assert "install" in error and "of type" in error, error
    assert "damaged" not in error, error
    assert len(error.splitlines()) == 1, error

"""Types of parameters from another package: one with its own scale, one with its own choices."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from running import installed
from toy import advance

from dngo import archive
from dngo.cli import main
from dngo.config import load
from dngo.exchange.fork import fork
from dngo.replay import replay
from dngo.space import Space
from dngo.space.types import TYPES
from dngo.storage import hdf5
from dngo.study import Study

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

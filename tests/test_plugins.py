"""One way to find what is chosen by name: this package's own objects are in a table of entry
points."""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from running import installed, ran
from toy import ROOT

from dngo.archive import read_table
from dngo.plugins import OWN, Registry

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


# What another package needs to train bases in its own way, and to say a part of a surrogate.
ADDED = """
from dngo.surrogates.training import train_networks

def untrained(x, targets, rows, settings, **how):
    return train_networks(x, targets, [part[:0] for part in rows], settings, **how)

class Impostor: ...
"""
POINTS = """
[dngo.trainings]
untrained = added:untrained
map = added:Impostor
"""
USE = """
import numpy as np
from dngo.plugins import Registry
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
try:
    SurrogateSettings(kind="adaptive_basis", training="untraned")
except ValueError as error:
    assert "'untrained'" in str(error)
else:
    raise AssertionError
"""


def test_another_package_adds_a_training_and_cannot_take_a_name(tmp_path) -> None:
    installed(tmp_path, "added", ADDED, POINTS)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{USE}"
    done = ran([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == 0, done.stderr


WRITES = """
from dngo.archive import read_table

def write(archive, output):
    output.write_text(" ".join(map(str, read_table(archive).objective)))
"""


def test_another_package_adds_an_export(tmp_path, small) -> None:
    installed(tmp_path, "added", WRITES, "[dngo.exports]\nplain = added:write\n")
    words = ["export", "--format", "plain", "--output", tmp_path / "found.txt", small.paths.archive]
    done = ran(
        [sys.executable, "-m", "dngo", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    assert done.returncode == 0, done.stderr
    found = [float(word) for word in (tmp_path / "found.txt").read_text().split()]
    np.testing.assert_array_equal(found, read_table(small.paths.archive).objective)


DRAWS = """
from dngo.report.figures import Figure
from dngo.report.figures.style import plot

def draw(view):
    figure = plot(200)
    figure.add_scatter(y=view.table.objective.tolist())
    return Figure("raw", "Raw <outcomes>", "As they came.", figure)

def fail(view):
    raise ZeroDivisionError("on purpose")
"""


def test_another_package_adds_a_figure_to_the_report(tmp_path, small) -> None:
    installed(tmp_path, "drawn", DRAWS, "[dngo.figures]\nraw = drawn:draw\nbroken = drawn:fail\n")
    code = f"""
from pathlib import Path
from dngo.report.data import View
from dngo.report.figures import all_figures
found = {{figure.key: figure for figure in all_figures(View.of(Path({str(small.paths.archive)!r})))}}
assert len(found["raw"].plot.data[0].y) > 0
assert "ZeroDivisionError: on purpose" in found["broken"].caption
"""
    done = ran(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
    )
    assert done.returncode == 0, done.stderr

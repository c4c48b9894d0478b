"""Figures of studies that look for a function, a level of it, or a point whose inputs waver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import dngo
from dngo.report.data import View
from dngo.report.figures.goals import learnt, level, wavering

FEW = {"kind": "gp", "hyperparameter_samples": 1}
SPACE = {"x": (0, 1), "y": (0, 1)}
AT, WITHIN, HOLE = 1.2, 0.1, (0.2, 0.3)


def wave(x: float, y: float = 0.0) -> float:
    return float(np.sin(6 * x) + np.cos(5 * y) + x)


def hole(x: float, y: float) -> float:
    """A hole of half the inputs' wavering, deeper than a wide basin."""
    to_hole = (x - HOLE[0]) ** 2 + (y - HOLE[1]) ** 2
    return 2.0 * ((x - 0.7) ** 2 + (y - 0.6) ** 2) - 1.4 * float(np.exp(-to_hole / (2 * 0.05**2)))


def viewed(function: Any, folder: Path, acquisition: Any, **more: Any) -> View:
    """A study of a design of eight points and two batches of three."""
    given = {"space": SPACE, "minimise": True, "number": 14, **more}
    run = dngo.minimize if given.pop("minimise") else dngo.maximize
    study = run(
        function, given.pop("space"), given.pop("number"), folder=folder, workers=0, batch_size=3,
        design={"size": 8}, surrogate=FEW, acquisition=acquisition, **given,
    )  # fmt: skip
    return View.of(Path(study.path))


@pytest.fixture(scope="module")
def of_level(tmp_path_factory: pytest.TempPathFactory) -> View:
    return viewed(wave, tmp_path_factory.mktemp("level"), {"kind": "level_set", "at": AT})


def traces(figure: Any) -> dict[str, Any]:
    """What has a name in the legend, by that."""
    return {t.name: t for t in figure.plot.data if t.name}


def test_errors_by_batch_are_those_of_the_archive(tmp_path: Path) -> None:
    view = viewed(wave, tmp_path, "learn")
    figure = learnt(view)
    assert figure is not None and level(view) is wavering(view) is None
    found = traces(figure)
    mean, std, y = view.numbers["mean"], view.numbers["std"], view.table.objective
    for t in (1, 2):
        rows = view.table.iteration == t
        error = np.sqrt(np.mean((y[rows] - mean[rows]) ** 2))
        assert found["as it came"].y[t - 1] == pytest.approx(error, rel=1e-5)
        assert found["as expected"].y[t - 1] == pytest.approx(np.sqrt(np.mean(std[rows] ** 2)))
    assert found["a constant's error"].y[0] == pytest.approx(np.std(y))
    grid = np.random.default_rng(0).random((4000, 2))
    _, everywhere, _ = view.predict(view.space.encode(grid))
    whole = found["expected over the whole space"].y[0]
    assert whole == pytest.approx(np.sqrt(np.mean(everywhere**2)), rel=0.1)


def test_sides_of_a_level_by_batch_and_over_the_space(of_level: View) -> None:
    figure, drawn = learnt(of_level), level(of_level)
    assert figure is not None and drawn is not None and wavering(of_level) is None
    mean, std = of_level.numbers["mean"], of_level.numbers["std"]
    came, expected = (
        next(t for t in figure.plot.data if t.name == name and t.xaxis == "x2").y
        for name in ("as it came", "as expected")
    )
    for t in (1, 2):
        rows = of_level.table.iteration == t
        wrong = (of_level.table.objective[rows] > AT) != (mean[rows] > AT)
        assert came[t - 1] == pytest.approx(wrong.mean())
        likely = ndtr(-np.abs(mean[rows] - AT) / std[rows]).mean()
        assert expected[t - 1] == pytest.approx(likely, rel=1e-4)
    sides = traces(drawn)
    assert len(sides["below"].x) == (of_level.table.objective <= AT).sum()
    assert len(sides["below"].x) + len(sides["above"].x) == len(of_level)
    # The map is of the true sides, x along x, where it is sure.
    chart = drawn.plot.data[0]
    x, y = np.meshgrid(chart.x, chart.y)
    below = np.sin(6 * x) + np.cos(5 * y) + x < AT
    sure = np.abs(chart.z - 0.5) > 0.45
    assert sure.mean() > 0.5 and ((chart.z > 0.5) == below)[sure].mean() > 0.95
    assert drawn.plot.layout.xaxis.title.text == "x"


def test_a_maximised_level_has_the_same_map(of_level: View, tmp_path: Path) -> None:
    def turned(x: float, y: float) -> float:
        return -wave(x, y)

    view = viewed(turned, tmp_path, {"kind": "level_set", "at": -AT}, minimise=False)
    one, other = level(of_level), level(view)
    assert one is not None and other is not None
    np.testing.assert_allclose(one.plot.data[0].z, 1.0 - other.plot.data[0].z, atol=1e-3)


def test_a_hole_looks_better_than_it_is_where_inputs_waver(tmp_path: Path) -> None:
    study = dngo.create(
        "hole", SPACE, folder=tmp_path, batch_size=6, design={"size": 12}, surrogate=FEW,
        acquisition={"kind": "robust", "within": {"x": WITHIN, "y": WITHIN}},
    )  # fmt: skip
    for off in (0.0, 0.03, 0.06):
        point = {"x": HOLE[0] + off, "y": HOLE[1]}
        study.tell({**point, "objective": hole(**point)})
    for _ in range(3):
        points = study.ask()
        study.tell(points, [hole(**one.parameters) for one in points])
    view = View.of(Path(study.path))
    figure = wavering(view)
    assert figure is not None and view.best is not None
    found = traces(figure)
    (name,) = (n for n in found["outcome at the point"].y if n.endswith("(lowest)"))
    at = list(found["outcome at the point"].y).index(name)
    assert found["outcome at the point"].x[at] == pytest.approx(hole(*HOLE), abs=0.01)
    assert found["mean over that, 95 %"].x[at] > hole(*HOLE) + 0.3
    assert (
        "x ± 0.1, y ± 0.1" in figure.caption and figure.plot.data[0].x[0] < figure.plot.data[0].x[1]
    )

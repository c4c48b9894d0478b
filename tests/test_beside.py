"""Points side by side: what differs is said, as a difference or a factor."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from toy import QUICK_STUDY

import dngo
from dngo.audit import audit
from dngo.cli import main
from dngo.errors import UserError
from dngo.report.beside import beside


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dngo.Session:
    """A study on a logarithmic scale, with a choice, a condition, a threshold and a failure."""
    space = {
        "rate": (1e-4, 1, "log"),
        "kind": ["a", "b"],
        "n": dngo.Int(1, 5),
        "more": dngo.Float(0, 1, active_if={"kind": "a"}),
    }
    made = dngo.create(
        "beside",
        space,
        objective={"scale": "log"},
        constraints={"heat": "<= 5"},
        **QUICK_STUDY,
        design={"size": 6},
        folder=tmp_path_factory.mktemp("beside"),
    )
    for n in (6, 2):
        points = made.ask(n)
        made.tell(
            points, [{"objective": 1 / (i + 1), "constraints": {"heat": i}} for i in range(n)]
        )
    made.tell({"id": made.ask(1)[0].id, "status": "failed", "message": "it broke"})
    made.table()
    return made


def test_each_value_is_that_of_the_audit_and_the_difference_that_of_the_values(
    session: dngo.Session,
) -> None:
    ids = ["0-1", "1-0"]
    lines = {line.name: line for line in beside(session.path, ids)}
    for i, name in enumerate(ids):
        data = audit(session.path, name)
        for parameter, value in data["parameters"].items():
            assert lines[parameter].values[i] == value
        assert lines["objective"].values[i] == data["outcome"]["objective"]
        assert lines["heat"].values[i] == data["outcome"]["numbers"]["heat"]
    first, second = lines["heat"].values
    assert float(lines["heat"].difference) == pytest.approx(second - first)
    for name in ("rate", "objective"):
        first, second = lines[name].values
        assert lines[name].difference == f"times {second / first:.4g}"
    assert lines["status"].difference == "" and not lines["status"].differs
    # A design has no prediction: there is nothing to subtract from.
    assert lines["objective expected"].values[0] is None
    assert lines["objective expected"].difference == "differs"


def test_the_command_and_python_show_the_same(session: dngo.Session, capsys) -> None:
    path = str(session.path)
    words = ["audit", path, "--proposal", "0-0", "--proposal", "1-1", "--proposal", "2-0"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.split()[:3] == ["0-0", "1-1", "2-0"] and "difference" not in text
    frame = session.compare("0-0", "1-1", "2-0")
    assert set(frame.index) == {line.split("  ")[1] for line in text.splitlines()[1:]}
    assert frame.loc["message", "2-0"] == "it broke" and frame.loc["status", "2-0"] == "failed"
    assert list(session.compare("0-0", "1-1").columns) == ["0-0", "1-1", "difference"]
    assert main([*words, "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["0-0", "1-1", "2-0"]


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["0-0"], "name at least two points"),
        (["0-0", "0-0"], "0-0: is named twice"),
        (["0-0", "9-0"], "has no proposal 9-0"),
        (["0-0", "x"], "'x'"),
        (["0-0", 3], "3 is not the id of a point"),
    ],
)
def test_a_mistake_is_one_line(session: dngo.Session, ids: list[Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        beside(session.path, ids)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_surprise_on_a_logarithmic_scale_is_that_of_the_logarithm(
    session: dngo.Session, capsys
) -> None:
    data = audit(session.path, "1-1")
    mean, std = data["proposed"]["mean"], data["proposed"]["std"]
    spread = math.sqrt(math.log1p((std / mean) ** 2))
    expected = (math.log(data["outcome"]["objective"]) - math.log(mean) + spread**2 / 2) / spread
    assert data["outcome"]["standardised_residual"] == pytest.approx(expected)
    assert main(["audit", str(session.path), "--proposal", "1-1"]) == 0
    line = next(s for s in capsys.readouterr().out.splitlines() if "Objective expected" in s)
    numbers = [float(n) for n in re.findall(r"[\d.e-]+\d", line.replace("(95 %)", ""))]
    low, high = numbers[1:]
    assert 0 < low < mean < high and "±" not in line


def test_a_linear_scale_keeps_its_deviation(tmp_path: Path) -> None:
    made = dngo.create("plain", {"x": (0, 1)}, **QUICK_STUDY, design={"size": 4}, folder=tmp_path)
    for n in (4, 1):
        made.tell(made.ask(n), [0.1 * i for i in range(n)])
    made.table()
    data = audit(made.path, "1-0")
    mean, std = data["proposed"]["mean"], data["proposed"]["std"]
    residual = (data["outcome"]["objective"] - mean) / std
    assert data["outcome"]["standardised_residual"] == pytest.approx(residual)
    assert "scale" not in data["proposed"]

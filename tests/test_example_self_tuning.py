"""The networks of the package's own surrogate, tuned by examples/self_tuning: a law, and a small study."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from test_examples import EXAMPLES, defaults, module, small_study

from dngo import config
from dngo.exchange import csv_table
from dngo.exchange.points import points_of
from dngo.surrogates.settings import SurrogateSettings

# One function, and few steps for each hundred.
QUICK = (
    "import objective as o; o.TUNED_ON = ('waves',); density = o.log_density;"
    "o.log_density = lambda p, *more: density({**p, 'steps': p['steps'] // 20}, *more); o.main()"
)


def test_self_tuning_begins_with_the_default_networks() -> None:
    networks = SurrogateSettings(kind="adaptive_basis").networks.model_dump()
    given = defaults("self_tuning")
    assert given == {name: networks[name] for name in given}


def test_self_tuning_has_data_around_the_best_and_elsewhere() -> None:
    objective = module("self_tuning")
    centre = np.full(3, 0.8)
    u, y = objective.data(lambda u: ((u - centre) ** 2).sum(axis=1), 3, 1)
    assert u.shape == (objective.OBSERVATIONS + objective.HELD_OUT, 3)
    assert ((u >= 0) & (u <= 1)).all()
    near = np.linalg.norm(u - centre, axis=1) < 0.4
    assert 0.4 < near.mean() < 0.65  # of uniform ones a seventh
    assert y.min() < 0.01


def test_self_tuning_tells_good_networks_from_bad() -> None:
    objective = module("self_tuning")

    def plane(u: np.ndarray) -> np.ndarray:
        return u @ np.array([1.0, -2.0, 0.5, 0.1, -0.5, 1.3])

    small = {"layers": 2, "width": 20, "steps": 300}
    learnt = objective.log_density(small, plane, 6, 0)
    untrained = objective.log_density({**small, "width": 1, "steps": 0}, plane, 6, 0)
    assert learnt > untrained + 1
    # Without any knowledge an outcome has the density of a standard normal.
    assert untrained > -3


@pytest.mark.full
def test_self_tuning_study_is_small_and_real(tmp_path: Path) -> None:
    objective = {"command": f"{{python}} -c {shlex.quote(QUICK)}"}
    table = small_study("self_tuning", tmp_path, objective=objective, surrogate={"kind": "gp"})
    assert (table.status == "ok").all()


def test_self_tuning_page_has_the_table_of_its_results() -> None:
    folder = EXAMPLES / "self_tuning"
    rows = csv_table.read(folder / "results.csv")
    points, problems = points_of(config.load([folder / "config.yaml"]).search_space, rows)
    assert not problems
    assert len(points) == 40
    page = (folder / "README.md").read_text()
    assert module(".", "table").summary([row.values for row in rows]) in page

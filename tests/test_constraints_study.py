"""A study of a mixture: its constraints are kept, recorded and fixed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from toy import FEW, Toy, advance

from dngo.archive import read_header, read_table, verify
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.study import Study

OBJECTIVE = """
import json, sys
p = json.load(sys.stdin)
best = {"x1": 0.35, "x2": 0.25, "x3": 0.4, "x4": 0.0}
print(sum((p[n] - best[n]) ** 2 for n in best))
"""

CONFIG = """
study: toy
objective: {{command: "{{python}} objective.py"}}
space:
  x1: {{type: float, low: 0, high: 1, default: 0.25}}
  x2: {{type: float, low: 0, high: 1, default: {default}}}
  x3: {{type: float, low: 0, high: 1, default: 0.25}}
  x4: {{type: float, low: 0, high: 1, default: 0.25}}
space_constraints: {constraints}
design: {{size: 6}}
iterations: {iterations}
batch_size: 3
points_per_job: 3
surrogate: {{kind: gp, hyperparameter_samples: 2}}
"""
MIXTURE = ["x1 + x2 + x3 + x4 == 1", "x1 + x2 <= 0.6"]


class Mixture(Toy):
    """The toy study's machinery around a mixture of four."""

    def configure(self, *, iterations: int, batch_size: int = 3, extra: str = "") -> None:
        del batch_size, extra
        self.write(iterations=iterations)

    def write(
        self, *, iterations: int = 1, default: float = 0.25, constraints: list[str] = MIXTURE
    ) -> None:
        (self.folder / "objective.py").write_text(OBJECTIVE)
        few = json.dumps(FEW)
        (self.folder / "config.yaml").write_text(
            CONFIG.format(
                iterations=iterations, default=default, constraints=json.dumps(constraints)
            )
            + f"acquisition: {few}\n"
        )

    @property
    def study(self) -> Study:
        return Study(load([self.folder / "config.yaml"], {"results": str(self.results.parent)}))


def test_a_mixture_is_studied_and_derived_again(tmp_path: Path, capsys) -> None:
    study = Mixture(tmp_path / "toy", iterations=1, batch_size=3, sleep=0)
    for t in range(2):
        advance(study.study, t)
    table = read_table(study.archive)
    assert len(table) == 9
    assert verify(study.archive) == []
    np.testing.assert_allclose(table.v.sum(axis=1), 1.0, rtol=1e-9)
    assert (table.v[:, 0] + table.v[:, 1] <= 0.6 * (1 + 1e-9)).all()
    header = read_header(study.archive)
    assert header is not None
    assert header.identity["space_constraints"] == sorted(MIXTURE)
    assert main(["replay", str(study.archive)]) == 0
    assert main(["audit", str(study.archive), "--proposal", "1-0"]) == 0
    page = capsys.readouterr().out
    assert "x1 + x2 <= 0.6          holds" in page
    # They are a part of what the study is.
    study.write(iterations=2, constraints=MIXTURE[:1])
    with pytest.raises(UserError, match="space_constraints was"):
        study.study.plan()
    with pytest.raises(UserError, match="space_constraints was"):
        advance(study.study, 2)
    assert len(read_table(study.archive)) == 9
    # In another order they are the same.
    study.write(iterations=1, constraints=MIXTURE[::-1])
    assert study.study.plan().iterations == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"default": 0.5}, "does not hold at the defaults (x1 = 0.25, x2 = 0.5, x3 = 0.25"),
        ({"constraints": ["x1 + y <= 1"]}, "'x1 + y <= 1', column 6: there is no parameter 'y'"),
    ],
)
def test_check_names_what_is_wrong(tmp_path: Path, capsys, change, message: str) -> None:
    study = Mixture(tmp_path / "toy", iterations=1, batch_size=3, sleep=0)
    study.write(**change)
    assert main(["check", str(study.folder / "config.yaml")]) == 1
    out = capsys.readouterr()
    assert message in out.err
    assert f"{study.folder}/config.yaml:9: space_constraints.0: " in out.err
    assert len(out.err.splitlines()) == 1


def test_check_says_how_much_of_the_space_is_left(tmp_path: Path, capsys) -> None:
    study = Mixture(tmp_path / "toy", iterations=1, batch_size=3, sleep=0)
    study.write(constraints=["x1 + x2 <= 1", "x3 <= x4"])
    assert main(["check", str(study.folder / "config.yaml")]) == 0
    assert "Known constraints: 2; about 0.25 of the space keeps them" in capsys.readouterr().out

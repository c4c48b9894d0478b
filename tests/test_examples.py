"""The examples' objectives, run as a study runs them: parameters in, an outcome document out."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from running import ran
from toy import FEW, advance

from dngo import config
from dngo.archive import Table, read_table
from dngo.exchange import csv_table
from dngo.exchange.points import points_of
from dngo.study import Study
from dngo.surrogates.settings import SurrogateSettings

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
needs_xfoil = pytest.mark.usefixtures("xfoil")


def configuration(name: str) -> Path:
    """The configuration of an example; the default study's is the one in the root."""
    return EXAMPLES.parent / "config.yaml" if name == "digits" else EXAMPLES / name / "config.yaml"


def run(
    name: str, parameters: dict[str, Any], **environment: str
) -> subprocess.CompletedProcess[str]:
    """The objective of an example, alone, in a process of its own."""
    return ran(
        [sys.executable, "objective.py"],
        cwd=EXAMPLES / name,
        input=json.dumps(parameters),
        env={**os.environ, **environment},
    )


def outcome(name: str, parameters: dict[str, Any], **environment: str) -> Any:
    """What the objective says in the last line of its standard output."""
    result = run(name, parameters, **environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def defaults(name: str) -> dict[str, Any]:
    """The default parameters of an example, without the inactive ones."""
    space = yaml.safe_load(configuration(name).read_text())["space"]
    return {k: p["default"] for k, p in space.items() if "active_if" not in p}


def small_study(name: str, folder: Path, **more: Any) -> Table:
    """The archive of three evaluations of an example's own study, with more in its configuration."""
    small = {
        "iterations": 1,
        "batch_size": 1,
        "design": {"size": 2},
        "points_per_job": 100,
        "results": str(folder),
        "acquisition": "random",
        **more,
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(small))
    with contextlib.chdir(EXAMPLES.parent):  # as Snakemake runs there, see the study of aerofoils
        study = Study(config.load([configuration(name), folder / "small.yaml"]))
        for t in range(2):
            advance(study, t)
    table = read_table(folder / name / "archive.h5")
    assert len(table) == study.config.design.size + study.config.batch_size
    return table


def module(name: str, file: str = "objective") -> ModuleType:
    """A file of an example as a module, under a name that no other has."""
    spec = importlib.util.spec_from_file_location(f"{file}_{name}", EXAMPLES / name / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # where dataclasses look for their own module
    spec.loader.exec_module(loaded)
    return loaded


def test_a_training_that_diverges_is_one_line() -> None:
    result = run("digits", {**defaults("digits"), "learning_rate": 1.0, "layers": 3})
    assert result.returncode == 1 and not result.stdout
    assert result.stderr.startswith("training diverged: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["captions", "cnn", "self_tuning"])
def test_a_page_has_the_table_of_its_results(name: str) -> None:
    """The evaluations that are kept lie in the space, and the page tells them as they are."""
    rows = csv_table.read(EXAMPLES / name / "results.csv")
    points, problems = points_of(config.load([configuration(name)]).search_space, rows)
    assert not problems and (points[0] == defaults(name) or len(points) == 40)
    text = module(".", "table").summary([row.values for row in rows], minimize=name == "cnn")
    assert text in (EXAMPLES / name / "README.md").read_text()


@pytest.mark.full
@needs_xfoil
def test_airfoil_study_learns_from_shapes_that_do_not_converge(tmp_path: Path) -> None:
    quick = {"networks": {"steps": 100}}
    more = {"design": {"size": 24}, "acquisition": FEW, "surrogate": quick, "classifier": quick}
    table = small_study("airfoil", tmp_path, **more)
    assert (table.status == "ok").sum() >= 5
    assert {"failed", "infeasible"} <= set(table.status)


# ---- functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("x1", "x2"), [(-math.pi, 12.275), (math.pi, 2.275), (3 * math.pi, 2.475)])
def test_branin_minima(x1: float, x2: float) -> None:
    assert outcome("branin", {"x1": x1, "x2": x2}) == pytest.approx(5 / (4 * math.pi), abs=1e-9)


def test_hartmann6_minimum() -> None:
    best = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    value = outcome("hartmann6", {f"x{i}": x for i, x in enumerate(best, 1)})
    assert value == pytest.approx(-3.32237, abs=1e-5)
    hartmann6 = module("hartmann6").hartmann6
    for i in range(6):
        for step in (-1e-2, 1e-2):
            beside = list(best)
            beside[i] += step
            assert hartmann6(beside) > value


# ---- digits -------------------------------------------------------------------------------------

GOOD = {
    "learning_rate": 0.12,
    "layers": 1,
    "units": 146,
    "dropout": 0.18,
    "augmentation": "shift",
    "distance": 0.3,
}


def test_digits_has_headroom_beyond_the_defaults_and_is_the_same_for_the_same_seed() -> None:
    default, again = (outcome("digits", defaults("digits"), DNGO_SEED="7") for _ in range(2))
    good = outcome("digits", GOOD)
    assert default["constraints"] == good["constraints"] == {"budget": True}
    assert 5 < default["objective"] < 7
    assert 3 < good["objective"] < 4.7
    assert default == again != good


# ---- airfoil ------------------------------------------------------------------------------------


@needs_xfoil
def test_airfoil_flies(tmp_path: Path) -> None:
    result = outcome("airfoil", defaults("airfoil"), DNGO_WORKDIR=str(tmp_path))
    assert result["objective"] == pytest.approx(105, rel=0.03)
    assert result["constraints"] == {"thickness": True, "moment": True}
    assert result["metadata"]["lift"] == pytest.approx(0.8)
    assert {path.name for path in tmp_path.iterdir()} >= {"shape.dat", "xfoil.log"}


def shape(thickness: list[float], camber: list[float]) -> dict[str, float]:
    places = ("front", "middle", "rear")
    found = {f"thickness_{n}": t for n, t in zip(places, thickness, strict=True)}
    return found | {f"camber_{n}": c for n, c in zip(places, camber, strict=True)}


@needs_xfoil
def test_airfoil_breaks_its_constraints_or_does_not_converge(tmp_path: Path) -> None:
    thin = outcome("airfoil", shape([0.14, 0.06, 0.14], [0.18, 0.36, 0.37]))
    assert thin["constraints"] == {"thickness": False, "moment": False}
    blunt = shape([0.05, 0.35, 0.3], [-0.1, 0.4, -0.1])
    result = run("airfoil", blunt, DNGO_WORKDIR=str(tmp_path))
    assert result.returncode == 1 and not result.stdout
    assert result.stderr.startswith("XFOIL")
    assert len(result.stderr.splitlines()) == 1


def test_airfoil_without_xfoil_says_what_to_install(tmp_path: Path) -> None:
    result = run("airfoil", defaults("airfoil"), PATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr == "the program xfoil is not installed: apt-get install xfoil\n"


STEP = """
  {n}   rms: {rms}   max: -.1E-02   D at   30  1
       a =  2.500      CL =  0.8000
      Cm = -0.0499     CD =  {drag}   =>   CDf =  0.00420    CDp =  0.00177
"""
FAILED = "\n VISCAL:  Convergence failed\n"


def test_only_the_final_state_of_xfoil_counts() -> None:
    final_state = module("airfoil").final_state
    bad = STEP.format(n=200, rms="0.2104E-01", drag="0.03000")
    good = STEP.format(n=5, rms="0.4E-05", drag="0.00600")
    found = {"alpha": 2.5, "lift": 0.8, "drag": 0.006, "moment": -0.0499}
    assert final_state(bad + good) == found
    assert final_state(bad + FAILED + good) == found
    with pytest.raises(ArithmeticError, match="Convergence failed"):
        final_state(good + bad + FAILED)
    with pytest.raises(ArithmeticError, match="ended before"):
        final_state(good + bad)
    with pytest.raises(ArithmeticError, match="ended before"):
        final_state("")


# ---- The networks of the package's own surrogate, tuned by examples/self_tuning: a law, and a small study

# One function, and few steps for each hundred.
QUICK = (
    "import objective as o; o.TUNED_ON = ('waves',); density = o.log_density;"
    "o.log_density = lambda p, *more: density({**p, 'steps': p['steps'] // 20}, *more); o.main()"
)


def test_self_tuning_begins_with_the_default_networks() -> None:
    networks = SurrogateSettings(kind="adaptive_basis").networks.model_dump()
    given = defaults("self_tuning")
    assert given == {name: networks[name] for name in given}


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


# ---- The convolutional network of examples/cnn: its training, a small study

BOUNDS = "hue_shift saturation_scale saturation_shift value_scale value_shift pixel_dropout scaling"
NOTHING = dict.fromkeys(f"{BOUNDS} dropout_1 dropout_2".split(), 0.0)
# Two epochs in place of twenty.
CNN_QUICK = "import objective; objective.EPOCHS = 2; objective.main()"


@pytest.mark.full
def test_cnn_learns_and_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    good = {**defaults("cnn"), **NOTHING, "learning_rate": 1.2, "deviation": 1.4}
    done = [
        ran(
            [sys.executable, "-c", CNN_QUICK.replace("2", "8", 1)],
            cwd=EXAMPLES / "cnn",
            input=json.dumps(good),
            env={**os.environ, "DNGO_SEED": "3", **more},
        )
        # Nor does it matter whether somebody wants to know how far it has come.
        for more in ({}, {"DNGO_PROGRESS": str(tmp_path / "progress")})
    ]
    first, again = (json.loads(one.stdout) for one in done)
    assert first["objective"] < 75  # of ten classes
    assert first["objective"] == again["objective"]
    assert first["metadata"]["cpu_seconds"] < 40
    said = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert [line["step"] for line in said] == list(range(1, len(said) + 1)) and len(said) > 1


@pytest.mark.full
def test_cnn_study_is_small_and_real(tmp_path: Path) -> None:
    objective = {"command": f"{{python}} -c {shlex.quote(CNN_QUICK)}"}
    table = small_study("cnn", tmp_path, objective=objective)
    assert (table.status == "ok").sum() >= 2

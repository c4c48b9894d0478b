"""First mistakes of somebody from Optuna, Ax or scikit-optimize. Each gets one line that helps."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import dngo
from dngo.cli import main
from dngo.config import Config, validate
from dngo.errors import UserError
from dngo.exchange import package

SPACE: dict[str, Any] = {"x": (0.0, 1.0)}


def f(x: float) -> float:
    """A function that a newcomer would try."""
    return (x - 0.3) ** 2


async def awaited(x: float) -> float:
    """A function whose value somebody must await."""
    return x


def imported() -> Any:
    """What Ax's users type first."""
    from dngo import AxClient

    return AxClient


def yielding(x: float) -> Any:
    """A function that gives its values one after another."""
    yield x


def reporting(x: float) -> float:
    """A function that reports as in other packages."""
    import dngo.report

    dngo.report(1, x)  # type: ignore[operator]
    return x


def twice(begun: dngo.Session) -> Any:
    """Asks again before an outcome is told."""
    begun.ask(2)
    return begun.ask(2)


def of_a_trial(trial: Any) -> float:
    """What an objective of Optuna looks like."""
    value: float = trial.suggest_float("x", 0, 1)
    return value


@cache
def study() -> dngo.Session:
    """A study with three evaluations, at which everybody only looks."""
    return dngo.minimize(f, SPACE, 3, name=None, acquisition="sobol", workers=0, progress=False)


def new(**settings: Any) -> dngo.Session:
    """A study without an evaluation."""
    return dngo.create(None, SPACE, **settings)


def minimized(*given: Any, **named: Any) -> Any:
    """A short run in this process."""
    settings = {"name": None, "acquisition": "sobol", "workers": 0, "progress": False}
    return dngo.minimize(*given, **{**settings, **named})


# What is typed, and what the last line of the answer has: our name, or what would be right.
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "dngo.create_study()": (lambda: dngo.create_study, r"dngo\.create\('NAME', space\)"),
    "dngo.fmin": (lambda: dngo.fmin, r"dngo\.minimize\(f, space, 100\)"),
    "dngo.Real(0, 1)": (lambda: dngo.Real(0, 1), r"\(0, 1\), or dngo\.Float\(0, 1\)"),
    "n_trials=": (lambda: minimized(f, SPACE, n_trials=9), r"n_trials is here evaluations"),
    "timeout=": (lambda: minimized(f, SPACE, 9, timeout=3600), r"objective=\{'time_limit': 60\}"),
    "direction=": (lambda: minimized(f, SPACE, 9, direction="maximize"), r"dngo\.maximize"),
    "sampler=": (lambda: new(sampler="TPE"), r"acquisition and surrogate"),
    "x0=": (lambda: minimized(f, SPACE, 9, x0=[0.1]), r"study\.add\(\{\.\.\.\}\)"),
    "n_initial_points=": (lambda: new(n_initial_points=5), r"design=\{'size': 10\}"),
    "parameter_constraints=": (lambda: new(parameter_constraints=["x <= 1"]), r"space_constraints="),
    "space first": (lambda: minimized(SPACE, f, 9), r"second, after the function"),
    "dimensions in a list": (lambda: minimized(f, [(0, 1)], 9), r"mapping of names to parameters"),
    "'log-uniform'": (lambda: new_space(("x", (1e-5, 1, "log-uniform"))), r"\(low, high, 'log'\)"),
    "choices in a tuple": (lambda: new_space(("x", ("a", "b"))), r"choices stand in a list"),
    "an Ax parameter": (
        lambda: new_space(("x", {"type": "range", "bounds": [0, 1]})), r"did you mean 'float'"),
    "study.best_params": (lambda: study().best_params, r"study\.best\(\)\.parameters"),
    "study.trials": (lambda: study().trials, r"study\.table\(\)"),
    "study.enqueue_trial": (lambda: new().enqueue_trial({"x": 0.5}), r"study\.add\(\{\.\.\.\}\)"),
    "study.optimize(n_trials=)": (lambda: new().optimize(f, n_trials=9), r"n_trials is here evaluations"),
    "best.params": (lambda: study().best().params, r"best\.parameters"),
    "study.best.parameters": (
        lambda: study().best.parameters, r"write study\.best\(\)\.parameters"),
    "study.best['x']": (lambda: study().best["x"], r"write study\.best\(\)\['x'\]"),
    "ask(1).parameters": (
        lambda: new().ask(1).parameters, r"in a list; for each, write point\.parameters"),
    "point.suggest_float": (
        lambda: new().ask(1)[0].suggest_float("x", 0, 1), r"point\.parameters\['NAME'\]"),
    "study.tell(7, 0.5)": (lambda: new().tell(7, 0.5), r"\{'x': 0.5\}, or a proposal or its id"),
    "state=": (lambda: told(state="FAIL"), r"unknown name 'state'.*'status'"),
    "trial.suggest_float in f": (
        lambda: minimized(of_a_trial, SPACE, 9), r"suggest_float.*by name: x"),
    "lambda a": (
        lambda: minimized(lambda a: (a - 0.3) ** 2, SPACE, 9), r"write a\['x'\], or name an argument x"),
    "two arguments": (
        lambda: minimized(lambda a, b: a + b, {**SPACE, "y": (0, 1)}, 9), r"arguments.*\(x, y\)"),
    "a tuple of mean and error": (
        lambda: minimized(lambda x: (x, 0.0), SPACE, 9), r"objective must be a number.*a list"),
    "dngo.Space": (lambda: dngo.Space, r"an ordinary dict"),
    "dngo.load": (lambda: dngo.load, r"dngo\.open"),
    "a parameter as text": (lambda: new_space(("x", "uniform(0, 1)")), r"in Python \(0, 1\)"),
    "a step in a tuple": (lambda: new_space(("x", (0, 1, 0.1))), r"dngo\.Float\(0, 1, step=0\.1\)"),
    "choices in a set": (lambda: new_space(("x", {"a", "b"})), r"\['a', 'b'\] for a choice"),
    "a wide logarithm": (lambda: new_space(("x", (0, 1, "log"))), r"values above zero"),
    "ends the wrong way": (lambda: new_space(("x", (1, 0))), r"low \(1.0\) must be below high"),
    "a program": (lambda: minimized("train.py", SPACE, 9), r"a program is run by dngo init"),
    "async def": (lambda: minimized(awaited, SPACE, 9), r"neither be async"),
    "yield": (lambda: minimized(yielding, SPACE, 9), r"nor yield"),
    "returns nothing": (lambda: minimized(lambda x: None, SPACE, 9), r"there is no objective"),
    "returns text": (lambda: minimized(lambda x: "0.5", SPACE, 9), r"must be a number, but is text"),
    "dngo.report(1, x)": (
        lambda: minimized(reporting, SPACE, 9), r"dngo\.progress\(step, value\)"),
    "workers=-1": (lambda: minimized(f, SPACE, 9, workers=-1), r"os\.cpu_count\(\)"),
    "surrogate='GP'": (lambda: new(surrogate="GP"), r"did you mean 'gp'"),
    "acquisition='EI'": (lambda: new(acquisition="EI"), r"did you mean 'mcei'"),
    "constraints as a function": (
        lambda: new(constraints=lambda x: x < 1), r"space_constraints: \['x \+ y <= 1'\]"),
    "a constraint of parameters": (
        lambda: new(constraints=["x <= 0.5"]), r"stands in space_constraints"),
    "objectives in a list": (
        lambda: new(objectives=["error", "speed"]), r"\{error: minimize, speed: maximize\}"),
    "best()['x']": (lambda: study().best()["x"], r"best\.parameters\['x'\]"),
    "point['x']": (lambda: new().ask(1)[0]["x"], r"point\.parameters\['x'\]"),
    "study['x']": (lambda: study()["x"], r"study\.table\(\)"),
    "for trial in study": (lambda: list(study()), r"study\.table\(\)"),
    "study.stop": (lambda: study().stop(), r"dngo stop"),
    "study.plot_optimization_history": (
        lambda: study().plot_optimization_history(), r"study\.figure\('progress'\)"),
    "tell without a value": (lambda: told(), r"no objective, and no status"),
    "tell(value, point)": (lambda: new().tell(0.5, 1), r"\{'x': 0.5\}, or a proposal or its id"),
    "ask(4) again": (lambda: twice(new()), r"waits for outcomes"),
    "open by a name alone": (lambda: dngo.open("mine"), r"no such file"),
    "from dngo import AxClient": (imported, r"dngo\.create\('NAME', space\)"),
    "Float(prior=)": (lambda: dngo.Float(1e-5, 1, prior="log-uniform"), r"log=True"),
    "Float('x', 0, 1)": (lambda: dngo.Float("x", 0, 1), r"its arguments are low, high"),
    "minimize(worker=2)": (lambda: minimized(f, SPACE, 6, worker=2), r"did you mean 'workers'"),
    "range(5, 1)": (lambda: new_space(("n", range(5, 1))), r"is empty; write dngo\.Int\(1, 9\)"),
    "f(**point)": (lambda: f(**new().ask(1)[0]), r"\*\*point\.parameters"),
    "{'loss': ...}": (lambda: minimized(lambda x: {"loss": x}, SPACE, 9), r"'loss'.*'objective'"),
}  # fmt: skip


def new_space(parameter: tuple[str, Any]) -> dngo.Session:
    """A study of one parameter."""
    return dngo.create(None, dict([parameter]))


def told(**outcome: Any) -> Any:
    """An outcome of a point that was asked for."""
    begun = new()
    return begun.tell(begun.ask(1)[0], **outcome)


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_first_mistake_gets_a_line_that_helps(typed: str) -> None:
    mistake, said = MISTAKES[typed]
    with pytest.raises((dngo.UserError, AttributeError, ImportError)) as error:
        mistake()
    message = str(error.value)
    assert re.search(said, message), message
    assert len(message.splitlines()) == 1


def test_other_names_are_as_unknown_as_ever() -> None:
    begun = new()
    assert not hasattr(begun, "nothing") and not hasattr(dngo, "nothing")
    assert not hasattr(begun, "__array__") and not hasattr(begun.ask(1)[0], "_ipython_display_")
    assert "table" in dir(begun)
    assert (
        str(inspect.signature(begun.best)).startswith("(by: ")
        and "best evaluated point" in begun.best.__doc__
    )


@pytest.mark.parametrize(
    ("name", "said"), [("f.py", "is a program"), (".", "goes on by the same call")]
)
def test_what_is_no_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    (tmp_path / "f.py").write_text("def f(x):\n    return x\n")
    assert main(["check", str(tmp_path / name)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["optimize"], "did you mean 'run'"),
        (["dashboard"], "did you mean 'serve'"),
        (["run", "--n-trials", "100"], "iterations"),
        (["run", "my.yaml", "-j", "4"], "dngo run -- -j 4"),
        (["report", "my.yaml", "--output", "r.html"], "--html FILE"),
        (["audit", "my.yaml", "0-1"], "--proposal 7-12"),
        (["tell", "7-12", "0.5"], "--set id=7-12 objective=4.1"),
        (["replay", "my.yaml", "3"], "--iteration 3"),
        (["import", "t.csv", "my.yaml"], "--config my.yaml"),
        (["note", "my.yaml", "text"], "--point 7-12"),
        (["skip", "7-12"], "--reason 'the reactor is down'"),
        (["export", "my.yaml"], "--format csv --output my.csv"),
        (["bound", "heat=320"], "'<= 320'"),
        (["best", "--study", "my"], "dngo best my.yaml"),
        (["serve", "my.yaml", "--host", "0.0.0.0"], "ssh -L"),
        (["version"], "did you mean '--version'"),
    ],
)
def test_commands_of_elsewhere(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    line = capsys.readouterr().err
    assert ended.value.code == 2 and said in line and len(line.splitlines()) == 1


def test_a_point_is_no_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "0-1"]) == 1
    assert "dngo audit STUDY --proposal 0-1" in capsys.readouterr().err


def test_a_column_of_a_parameter_has_its_name_and_that_of_elsewhere() -> None:
    table = study().table()
    for name in ("x", "params_x"):
        assert (table[name] == table["parameter_x"]).all()
    assert list(table[["id", "parameter_x"]]) == ["id", "parameter_x"]
    with pytest.raises(KeyError):
        table["z"]


# ---- What a newcomer types once: it is said before anything is paid for, or nothing happens to the terminal

GIVEN: dict[str, Any] = {
    "study": "s",
    "objective": {"command": "true"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


def config(**more: Any) -> Config:
    return validate({**GIVEN, **more})


def checked(capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    Path("s.yaml").write_text(yaml.safe_dump({**GIVEN, **more}))
    capsys.readouterr()
    assert main(["check", "s.yaml"]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_nothing_in_a_choice_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    choices = ["\x1b[31mred", "\x9b2J", "a\u202eb", "plain", "two\rlines"]
    study = dngo.create("s", {"k": choices}, folder="results", acquisition="random")
    study.optimize(lambda k: len(k), 5, workers=0, progress=False)
    place = str(study.path)
    commands = [["audit", place, "--all"], ["audit", place, "--all", "--json"], ["status", place]]
    commands += [["audit", place, "--proposal", each] for each in study.table()["id"]]
    commands += [["audit", place, "--proposal", "0-0", "--proposal", "0-1"]]
    commands += [["best", place], ["report", place], ["compare", place, place]]
    for words in commands:
        assert main(words) == 0
        out = capsys.readouterr().out
        assert not set("\x1b\x9b\u202e\r") & set(out.replace("\r\n", "\n")), words
    assert main(["audit", place, "--all"]) == 0
    assert r"\x1b[31mred" in capsys.readouterr().out
    assert main(["export", place, "--format", "csv", "--output", "out.csv"]) == 0
    assert "\x1b[31mred" in Path("out.csv").read_text(), "a file keeps what it is"


@pytest.mark.usefixtures("here")
def test_a_shell_that_reads_a_choice_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    space = {"k": {"type": "categorical", "choices": ["a", "$(touch /tmp/here)"]}}
    for command in ('bash -c "echo {k}"', ["sh", "-ec", "run --kind={k}"]):
        said = checked(capsys, objective={"command": command}, space=space)
        assert "a shell will read k as a part of its program" in said and "$(touch" in said
    for command in ("echo {k}", ["bash", "-c", 'echo "$1"', "run", "{k}"]):
        assert "a shell will read" not in checked(
            capsys, objective={"command": command}, space=space
        )
    space["k"]["choices"] = ["a", "b-2", "1e-3"]
    assert "a shell will" not in checked(
        capsys, objective={"command": 'bash -c "echo {k}"'}, space=space
    )


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.usefixtures("here")
def test_a_target_is_a_number(value: str) -> None:
    with pytest.raises(UserError, match=r"stop.target"):
        config(stop={"target": float(value)})


@pytest.mark.usefixtures("here")
def test_a_belief_off_the_grid_is_refused_and_a_study_that_began_with_it_goes_on() -> None:
    x = {"type": "float", "low": 0, "high": 1, "step": 0.25, "prior": {"value": 0.3}}
    with pytest.raises(UserError, match=r"space.x.prior.value: x never has the value 0.3"):
        config(space={"x": x})
    assert validate({**GIVEN, "space": {"x": x}}, is_archived=True).space["x"].prior is not None


@pytest.mark.usefixtures("here")
def test_a_transfer_with_other_names_is_refused_by_ask_as_well() -> None:
    dngo.create("old", {"z": (0, 1)}, folder="results", acquisition="random").optimize(
        lambda z: z, 3, workers=0, progress=False
    )
    study = dngo.create("new", {"x": (0, 1)}, transfer=["results/old/archive.h5"])
    with pytest.raises(UserError, match="lacks the parameters x"):
        study.ask(2)
    assert study.pending() == []


@pytest.mark.usefixtures("here")
def test_a_gpu_that_is_missing_is_said_before_the_design(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    surrogate = {"kind": "adaptive_basis", "networks": {"device": "cuda"}}
    said = checked(capsys, surrogate=surrogate)
    assert "Warning: surrogate.networks.device: cuda" in said and "sees no GPU" in said
    study = dngo.create("s", {"x": (0, 1)}, surrogate=surrogate)
    with pytest.raises(UserError, match="sees no GPU"):
        study.ask(2)
    with pytest.raises(UserError, match="sees no GPU"):
        study.optimize(lambda x: x, 4, workers=0)
    assert not list(Path("dngo-studies").rglob("*.h5"))
    assert "GPU" not in checked(capsys)


@pytest.mark.usefixtures("here")
def test_a_missing_package_is_one_that_an_index_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wanted in (("optuna", "optuna>="), ("sklearn", "scikit-learn")):
        monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(UserError, match=f"pip install '?{wanted}"):
            package(name)
    here = Path(dngo.__file__).parent
    for path in here.rglob("*.py"):
        assert "pip install 'dngo[" not in path.read_text(), os.path.relpath(path)

"""Thirty first mistakes of somebody from Optuna, Ax or scikit-optimize. Each gets one line that helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dngo
from dngo.cli import main

SPACE: dict[str, Any] = {"x": (0.0, 1.0)}


def f(x: float) -> float:
    """A function that a newcomer would try."""
    return (x - 0.3) ** 2


def of_a_trial(trial: Any) -> float:
    """What an objective of Optuna looks like."""
    value: float = trial.suggest_float("x", 0, 1)
    return value


def study() -> dngo.Session:
    """A study with three evaluations."""
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
    "dngo.Integer(1, 9)": (lambda: dngo.Integer(1, 9), r"dngo\.Int\(1, 9\)"),
    "dngo.Categorical": (lambda: dngo.Categorical(["a"]), r"\['a', 'b'\]"),
    "n_trials=": (lambda: minimized(f, SPACE, n_trials=9), r"n_trials is here evaluations"),
    "n_calls=": (lambda: minimized(f, SPACE, n_calls=9), r"n_calls is here evaluations"),
    "no evaluations": (lambda: minimized(f, SPACE), r"missing a required argument: 'evaluations'"),
    "n_jobs=": (lambda: minimized(f, SPACE, 9, n_jobs=2), r"n_jobs is here workers"),
    "timeout=": (lambda: minimized(f, SPACE, 9, timeout=3600), r"objective=\{'time_limit': 60\}"),
    "direction=": (lambda: minimized(f, SPACE, 9, direction="maximize"), r"dngo\.maximize"),
    "sampler=": (lambda: new(sampler="TPE"), r"acquisition and surrogate"),
    "study_name=": (lambda: dngo.create(study_name="a"), r"study_name is here name"),
    "x0=": (lambda: minimized(f, SPACE, 9, x0=[0.1]), r"study\.add\(\{\.\.\.\}\)"),
    "acq_func=": (lambda: new(acq_func="EI"), r"acq_func is here acquisition"),
    "n_initial_points=": (lambda: new(n_initial_points=5), r"design=\{'size': 10\}"),
    "parameter_constraints=": (lambda: new(parameter_constraints=["x <= 1"]), r"space_constraints="),
    "space first": (lambda: minimized(SPACE, f, 9), r"second, after the function"),
    "dimensions in a list": (lambda: minimized(f, [(0, 1)], 9), r"mapping of names to parameters"),
    "'log-uniform'": (lambda: new_space(("x", (1e-5, 1, "log-uniform"))), r"\(low, high, 'log'\)"),
    "choices in a tuple": (lambda: new_space(("x", ("a", "b"))), r"choices stand in a list"),
    "an Ax parameter": (
        lambda: new_space(("x", {"type": "range", "bounds": [0, 1]})), r"did you mean 'float'"),
    "study.best_params": (lambda: study().best_params, r"study\.best\(\)\.parameters"),
    "study.best_value": (lambda: study().best_value, r"study\.best\(\)\.objective"),
    "study.trials": (lambda: study().trials, r"study\.table\(\)"),
    "study.enqueue_trial": (lambda: new().enqueue_trial({"x": 0.5}), r"study\.add\(\{\.\.\.\}\)"),
    "study.optimize(n_trials=)": (lambda: new().optimize(f, n_trials=9), r"n_trials is here evaluations"),
    "result.fun": (lambda: study().fun, r"study\.best\(\)\.objective"),
    "client.get_next_trials": (lambda: new().get_next_trials(4), r"study\.ask\(4\)"),
    "best.params": (lambda: study().best().params, r"best\.parameters"),
    "point.suggest_float": (
        lambda: new().ask(1)[0].suggest_float("x", 0, 1), r"point\.parameters\['NAME'\]"),
    "study.tell(7, 0.5)": (lambda: new().tell(7, 0.5), r"a dict, a proposal or its id"),
    "state=": (lambda: told(state="FAIL"), r"unknown name 'state'.*'status'"),
    "trial.suggest_float in f": (
        lambda: minimized(of_a_trial, SPACE, 9), r"suggest_float.*by name: x"),
    "lambda a": (
        lambda: minimized(lambda a: (a - 0.3) ** 2, SPACE, 9), r"write a\['x'\], or name an argument x"),
    "two arguments": (
        lambda: minimized(lambda a, b: a + b, {**SPACE, "y": (0, 1)}, 9), r"arguments.*\(x, y\)"),
    "a tuple of mean and error": (
        lambda: minimized(lambda x: (x, 0.0), SPACE, 9), r"objective must be a number.*a list"),
    "{'loss': ...}": (lambda: minimized(lambda x: {"loss": x}, SPACE, 9), r"'loss'.*'objective'"),
}  # fmt: skip


def new_space(parameter: tuple[str, Any]) -> dngo.Session:
    """A study of one parameter."""
    return dngo.create(None, dict([parameter]))


def told(**outcome: Any) -> Any:
    """An outcome of a point that was asked for."""
    begun = new()
    return begun.tell(begun.ask(1)[0], **outcome)


def test_there_are_thirty() -> None:
    assert len(MISTAKES) >= 30


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_first_mistake_gets_a_line_that_helps(typed: str) -> None:
    mistake, said = MISTAKES[typed]
    with pytest.raises((dngo.UserError, AttributeError)) as error:
        mistake()
    message = str(error.value)
    assert re.search(said, message), message
    assert len(message.splitlines()) == 1


def test_other_names_are_as_unknown_as_ever() -> None:
    begun = new()
    assert not hasattr(begun, "nothing") and not hasattr(dngo, "nothing")
    assert not hasattr(begun, "__array__") and not hasattr(begun.ask(1)[0], "_ipython_display_")
    assert "table" in dir(begun)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n_trials: 100", "did you mean 'iterations'"),
        ("parameters: {x: 1}", "did you mean 'space'"),
        ("direction: maximize", "objective.direction"),
        ("sampler: tpe", "acquisition.sampler"),
    ],
)
def test_keys_of_elsewhere_in_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "study: a\nobjective: {command: prog}\nspace: {x: {type: float, low: 0, high: 1}}\n" + text
    )
    assert main(["check", str(path)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["optimize"], "did you mean 'run'"),
        (["create-study"], "did you mean 'init'"),
        (["best-trial"], "did you mean 'best'"),
        (["dashboard"], "did you mean 'serve'"),
        (["trials"], "did you mean 'best'"),
        (["run", "--n-trials", "100"], "iterations"),
    ],
)
def test_commands_of_elsewhere(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    line = capsys.readouterr().err
    assert ended.value.code == 2 and said in line and len(line.splitlines()) == 1

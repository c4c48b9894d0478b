"""What a newcomer types once: it is said before anything is paid for, or nothing happens to the terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import dngo
from dngo.cli import main
from dngo.config import Config, validate
from dngo.errors import UserError
from dngo.exchange import package

pytestmark = pytest.mark.usefixtures("here")

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
def test_a_target_is_a_number(value: str) -> None:
    with pytest.raises(UserError, match=r"stop.target"):
        config(stop={"target": float(value)})


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ({"type": "float", "low": 0, "high": 1, "step": 0.25}, 0.3),
        ({"type": "int", "low": 0, "high": 10}, 2.5),
        ({"type": "int", "low": 1, "high": 9, "step": 2}, 4),
    ],
)
def test_a_value_off_the_grid_is_none_of_the_parameter(
    parameter: dict[str, Any], value: float
) -> None:
    good = parameter["low"] + parameter.get("step", 1)
    config(space={"x": {**parameter, "prior": {"value": good}}})
    with pytest.raises(UserError, match=r"space.x.prior.value: x never has the value"):
        config(space={"x": {**parameter, "prior": {"value": value}}})
    other = {"type": "float", "low": 0, "high": 1, "active_if": {"x": value}}
    with pytest.raises(UserError, match="x never has the value"):
        config(space={"x": parameter, "y": other})
    # A study that began with it goes on.
    begun = {**GIVEN, "space": {"x": {**parameter, "prior": {"value": value}}}}
    assert validate(begun, is_archived=True).space["x"].prior is not None


def test_a_transfer_with_other_names_is_refused_by_ask_as_well() -> None:
    dngo.create("old", {"z": (0, 1)}, folder="results", acquisition="random").optimize(
        lambda z: z, 3, workers=0, progress=False
    )
    study = dngo.create("new", {"x": (0, 1)}, transfer=["results/old/archive.h5"])
    with pytest.raises(UserError, match="lacks the parameters x"):
        study.ask(2)
    assert study.pending() == []


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


def test_a_missing_package_is_one_that_an_index_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wanted in (("optuna", "optuna>="), ("sklearn", "scikit-learn")):
        monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(UserError, match=f"pip install '?{wanted}"):
            package(name)
    here = Path(dngo.__file__).parent
    for path in here.rglob("*.py"):
        assert "pip install 'dngo[" not in path.read_text(), os.path.relpath(path)

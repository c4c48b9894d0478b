"""Braces in a command: which are placeholders, which stay, and what earlier releases did."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import h5py
import pytest
from fuzzing.archive import rechain
from hypothesis import given, settings
from hypothesis import strategies as st
from mine import Mine, ends

from dngo.batch import Proposal
from dngo.cli import main
from dngo.config import Objective, load
from dngo.config.placeholders import doubled, filled, options, words_of
from dngo.config.upgrade import upgrade
from dngo.errors import UserError
from dngo.evaluation.command import Places, call_of
from dngo.evaluation.fingerprint import fingerprint

VALUES = {"x": "0.5", "y": "7"}
# Texts of braces, names and what else stands in commands.
TEXTS = st.lists(st.sampled_from(["{", "}", "{{", "}}", "{x}", "{y}", "x", "$", ":", " "])).map(
    "".join
)


def value(name: str) -> str:
    return VALUES.get(name, "another")


def before(word: str) -> str:
    """What release 0.1.0 started."""
    return re.sub(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda match: value(match[1]), word)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_a_text_that_python_formats_is_what_python_makes_of_it(text: str) -> None:
    try:
        wanted = text.format(**VALUES)
    except (ValueError, KeyError, IndexError):
        return  # single braces: see below
    if re.search(r"\{[xy][^}]", text.replace("{{", "")):
        return  # a format, as {x:3}, which is none here
    assert filled(text, VALUES.__getitem__) == wanted


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_an_old_command_is_brought_up_and_starts_the_same_words(text: str) -> None:
    assert filled(doubled([text])[0], value) == before(text)
    assert upgrade({"objective": {"command": [text]}}, 2, "")["objective"]["command"] == doubled(
        [text]
    )
    if "{{" not in text and "}}" not in re.sub(r"\{x+\}|\{y\}", "", text):
        assert doubled([text]) == [text]


@pytest.mark.parametrize(
    ("word", "started"),
    [
        # Single braces stay, as in all releases.
        ("{print $1}", "{print $1}"),
        ('{"a": {"b": {x}}}', '{"a": {"b": 0.5}}'),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{{x}: 1}", "{0.5: 1}"),
        ("{{x}, {y}}", "{0.5, 7}"),
        ("${HOME:-{x}}", "${HOME:-0.5}"),
    ],
)
def test_braces(word: str, started: str) -> None:
    assert filled(word, VALUES.__getitem__) == started


def test_a_program_is_given_the_braces(tmp_path: Path) -> None:
    echo = "import sys; print(sys.argv[1:])"
    words = [sys.executable, "-c", echo, "{{x}}", "${{x}}", "{x}", "{print $1}"]
    objective = Objective(command=words, working_directory=str(tmp_path))
    point = Proposal(iteration=0, slot=0, parameters={"x": 0.5}, source="check")
    call = call_of(objective, point, Places(tmp_path), ["x"], 0)
    assert call.words[3:] == ["{x}", "${x}", "0.5", "{print $1}"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('sh -c \'echo "${note}"\'', "${note} would be $ and the value of note; write {note} for the value alone, or "
            "${{note}} for a shell's variable"),
        ("awk {print}", "{print} is not a parameter; known: "),
        ("prog [--loading {loading}", "'[--loading' is not closed: end the option with ]"),
        ("prog [--base {base} [--loading {loading}]]", "'[--base' is not closed by ] before '[--loading'"),
        (["prog", "[--loading {loading}]"],
            "'[--loading {loading}]' is one word, in which no program finds an option; write "
            "'[--loading', '{loading}]'"),
    ],
)  # fmt: skip
def test_what_may_be_meant_otherwise_is_refused(
    tmp_path: Path, command: str | list[str], said: str
) -> None:
    path = configured(tmp_path, command)
    with pytest.raises(UserError) as error:
        load([path])
    assert str(error.value).startswith(f"{path}:1: objective.command: {said}")


OLD = '{command: ["{python}", objective.py, "{{x}}"]}'
NOW = '{command: ["{python}", objective.py, "{{{x}}}"]}'


@pytest.mark.parametrize("released", ["0.1.0", "later", "in flight"])
def test_a_study_that_was_begun_before_does_not_change_its_meaning(
    mine: Mine, capsys: pytest.CaptureFixture[str], released: str
) -> None:
    """Its command meant "{0.5}": it is refused until that is what it says."""
    mine.write(OLD)
    study = mine.study
    study.begin()
    study.propose(0, None, study.folder / "proposals.json")
    batch = study.paths.pending(0) / "proposals.json"
    if released == "in flight":
        as_it_was = json.loads(batch.read_text())
        del as_it_was["environment"]["objective"]["config"]
        batch.write_text(json.dumps(as_it_was))
    else:
        ends(study)
        study.merge(0, study.folder / "receipt.json")
        with h5py.File(study.archive, "r+") as file:
            made = file["iterations/0"].attrs
            merged = json.loads(made["merged"])
            if released == "0.1.0":
                del merged["objective"]
                made["versions"] = json.dumps({"config": 1})
            else:
                del merged["objective"]["config"]
            made["merged"] = json.dumps(merged)
            rechain(file)
    study.journal.path.unlink()
    assert mine.dngo("check") == 1
    said = capsys.readouterr().err
    assert "to go on with the same command write ['{python}', 'objective.py', '{{{x}}}']" in said
    with pytest.raises(UserError, match="stood for two when this study began"):
        mine.study.begin()
    mine.write(NOW)
    assert mine.study.begin() == "", "the same command: nothing has changed"
    assert mine.study.changes() == []
    mine.write(OLD)
    assert "'{{x}}'" in mine.study.begin(), "another one, on purpose"


def test_a_file_whose_name_has_braces_is_known(tmp_path: Path) -> None:
    (tmp_path / "{a}.py").write_text("print(1)")
    objective = Objective(command="python {{a}}.py", working_directory=str(tmp_path))
    assert list(fingerprint(objective)["files"]) == ["{a}.py"]


SPACE = {
    "base": {"type": "categorical", "choices": ["none", "tea"]},
    "loading": {"type": "float", "low": 0, "high": 1, "active_if": {"base": "tea"}},
    "note": {"type": "fixed", "value": "two words"},
}
PRINTS = "import sys; print(sys.argv[1:])"


def arguments(tmp_path: Path, command: str | list[str], parameters: dict[str, object]) -> list[str]:
    """The arguments that a program gets."""
    objective = Objective(command=command, working_directory=str(tmp_path))
    point = Proposal(iteration=0, slot=0, parameters=parameters, source="check")
    call = call_of(objective, point, Places(tmp_path), list(SPACE), 0)
    return call.words[call.words.index("-c") + 2 :]


@pytest.mark.parametrize(
    ("words", "active", "inactive"),
    [
        ("[--loading {loading}]", ["--loading", "0.5"], []),
        ("[-l{loading}] x", ["-l0.5", "x"], ["x"]),
        ("[--loading={loading}]", ["--loading=0.5"], []),
        ("[--both {base} {loading}]", ["--both", "tea", "0.5"], []),
        ("[--range [0,{loading}]]", ["--range", "[0,0.5]"], []),
        ("[--note '{note}'] [--base {base}]", ["--note", "two words", "--base", "tea"], None),
        ("[-s {seed}]", ["-s", "0"], ["-s", "0"]),
        # As in all releases.
        ("--loading {loading}", ["--loading", "0.5"], ["--loading", ""]),
        ("[{loading}] '[{loading}, 1]'", ["[0.5]", "[0.5, 1]"], ["[]", "[, 1]"]),
        ("[-a-z] [--all]", ["[-a-z]", "[--all]"], ["[-a-z]", "[--all]"]),
        ("[ -n {loading} ]", ["[", "-n", "0.5", "]"], ["[", "-n", "", "]"]),
    ],
)
def test_an_option_of_an_inactive_parameter_is_left_out(
    tmp_path: Path, words: str, active: list[str], inactive: list[str] | None
) -> None:
    whole = {"base": "tea", "loading": 0.5, "note": "two words"}
    lacks = {"base": "none", "note": "two words"}
    if inactive is None:
        inactive = [word.replace("tea", "none") for word in active]
    text = f"{sys.executable} -c '{PRINTS}' {words}"
    for command in (text, words_of(text)):
        assert arguments(tmp_path, command, whole) == active
        assert arguments(tmp_path, command, lacks) == inactive


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["[--a", "[-b{x}]", "{x}]", "]", "[", "{x}", "--c", "[{x}]", "w"])))
def test_brackets_lose_no_word(words: list[str]) -> None:
    parts = list(options(words))
    bare = [word for part, _ in parts for word in part]
    assert "".join(bare).replace("[", "").replace("]", "") == "".join(words).replace(
        "[", ""
    ).replace("]", "")
    assert len(bare) == len(words)
    for part, is_option in parts:
        assert is_option or len(part) == 1
        assert not is_option or (part[0].startswith("-") and "{x}" in "".join(part))


def configured(tmp_path: Path, command: str | list[str]) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"study": "a", "objective": {"command": command}, "space": SPACE}))
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("[--loading {loading}]",
            "Option: --loading {loading}: left out where loading is inactive, as here"),
        ("--loading {loading}",
            "Warning: objective.command: where loading is inactive, --loading {loading} has no value; "
            "[--loading {loading}] leaves it out there"),
    ],
)  # fmt: skip
def test_check_shows_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    (tmp_path / "objective.py").write_text("print(1)")
    path = configured(tmp_path, f"{{python}} objective.py --base {{base}} {words}")
    assert main(["check", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert said in lines
    assert sum("loading" in line for line in lines) == 1 + ("[" not in words)

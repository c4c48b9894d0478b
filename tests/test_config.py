"""The configuration: the schema does not drift, and every mistake is one line that helps."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dngo.batch import numbers_of
from dngo.cli import main
from dngo.config import Config, Objective, keys, load, schema, validate, with_defaults
from dngo.config.keys import Design, Resources, Stop
from dngo.errors import UserError
from dngo.exchange.points import number as cell
from dngo.init import parameter
from dngo.storage.text import number_in
from dngo.thresholds import Threshold

ROOT = Path(__file__).resolve().parents[1]
HEAD = "study: a\nobjective: {command: run}\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def mistake(tmp_path: Path, text: str) -> str:
    """The message for a wrong configuration; every line of it names file and line."""
    path = write(tmp_path, text)
    with pytest.raises(UserError) as error:
        load([path])
    lines = str(error.value).splitlines()
    assert all(line.startswith(str(path)) for line in lines)
    assert all(len(line) < 500 for line in lines)
    return "\n".join(lines)


def test_schema_is_that_of_the_model() -> None:
    stored = (ROOT / "dngo" / "config.schema.json").read_text()
    assert stored == schema(), "mend it: dngo check --schema > dngo/config.schema.json"


def test_page_of_all_keys_is_that_of_the_model() -> None:
    stored = (ROOT / "docs" / "configuration.md").read_text()
    assert stored == keys(), "mend it: dngo check --keys > docs/configuration.md"


def test_what_is_commented_out_in_the_manual_shows_defaults(tmp_path: Path) -> None:
    manual = (ROOT / "config.yaml").read_text()
    assert manual == with_defaults(manual), (
        "mend it: dngo check --defaults > new.yaml && mv new.yaml config.yaml"
    )
    # Each such key stands where it belongs: as no comment it changes nothing.
    text, count = re.subn(r"^( *)# ( *[a-z_]+:( .*)?)$", r"\1\2", manual, flags=re.M)
    assert count > 20
    live = load([write(tmp_path, text)]).model_dump()
    live["objective"]["working_directory"] = str(ROOT)
    live["results"] = str(ROOT / "results")
    assert live == load([ROOT / "config.yaml"]).model_dump()


def test_the_manual_has_every_key_that_is_not_of_a_kind() -> None:
    manual = (ROOT / "config.yaml").read_text()
    for section in (Config, Objective, Design, Stop, Resources):
        for key in section.model_fields:
            assert re.search(rf"^[# ]*{key}:", manual, re.M), key


@pytest.mark.parametrize(
    "path", [ROOT / "config.yaml", *sorted(ROOT.glob("examples/*/config.yaml"))]
)
def test_shipped_configurations_are_valid(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(path)]) == 0
    assert "valid" in capsys.readouterr().out


def test_defaults_are_filled_in_and_numbers_read_as_people_write_them(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        HEAD + "space:\n  rate: {type: float, low: 1e-5, high: 1e0, log: true}\n"
        "  mode: {type: categorical, choices: [on, off, no]}\n",
    )
    config = load([path])
    assert config.space["rate"].low == 1e-5  # type: ignore[union-attr]
    assert config.space["mode"].choices == ["on", "off", "no"]  # type: ignore[union-attr]
    assert config.batches_in_flight == "auto"
    assert config.objective.working_directory == str(tmp_path)


SPACES = {
    "x: {type: float, low: 1, high: 1}": ["space.x", "must be below high"],
    "x: {type: float, low: 0, high: 1, log: true}": ["space.x", "above zero"],
    "x: {type: float, low: 0, high: 1, default: 2}": ["space.x", "outside the range"],
    "x: {type: float, low: 0, high: 1, step: 2}": ["space.x", "wider than the range"],
    "x: {type: int, values: [1, 2, 2]}": ["space.x", "twice"],
    "x: {type: categorical, choices: [a, a]}": ["space.x", "twice"],
    "x: {type: categorical, choices: [a, b], default: c}": ["not one of"],
    "x: {type: categorical, choices: [a, [b]]}": ["space.x.choices.1", "must be text"],
    f"x: {{type: categorical, choices: [a, {'b' * 1_000_000}]}}": ["1 to 200", "1000000"],
    f"{'x' * 1000}: {{type: boolean}}": ["letters, digits"],
    "seed: {type: boolean}": ["placeholder"],
    "x: {type: fixed, value: 1}": ["nothing to search"],
    "x: {type: boolean, active_if: {z: 1}}": ["space.x.active_if.z", "no parameter 'z'"],
    "x: {type: boolean, active_if: {x: true}}": ["depend on itself"],
    "x: {type: boolean, active_if: {y: true}}\n  y: {type: boolean, active_if: {x: true}}": [
        *("circle", "x -> y -> x")
    ],
    "x: {type: boolean}\n  x: {type: boolean}": ["space.x", "given twice"],
}
OF_X = HEAD + "space: {x: {type: boolean}}\n"
TEXTS = {
    "": ["must be a mapping", "empty"],
    "- a\n- b\n": ["must be a mapping", "list"],
    "just text": ["must be a mapping", "text"],
    "a: [1,\n": [":2:", "not valid YAML"],
    "a: !!python/object/apply:os.system [ls]\n": [":1:", "not valid YAML"],
    "study: !!bool a\n": ["not a usable configuration"],
    "study: a\n---\nstudy: b\n": [":2:", "not valid YAML"],
    "study: &a [*a]\n": ["not a usable configuration"],
    f"study: {'[' * 5000}\n": ["not a usable configuration"],
    "study: a\nstudy: b\n": [":2:", "study", "given twice"],
    HEAD: ["space", "is missing"],
    OF_X + "constraints: [a, a]\n": ["twice"],
    OF_X + "constraints: [completed]\n": ["always there"],
    OF_X.replace("command: run", ""): ["command or callable"],
    OF_X.replace("run", "'run {y}'"): ["{y}"],
    # Keys of version 1 say where they are now.
    OF_X + "surrogate: {steps: 50}": [":4:", "surrogate.networks.steps"],
    OF_X + "surrogate: {networks: 1}": [":4:", "networks.ensemble now"],
    OF_X + "surrogate: {constraint_likelihood: step}": [":4:", "is classifier.likelihood now"],
    OF_X + "acquisition: {local_share: 0.3}": [":4:", "is acquisition.trust_region_share now"],
    OF_X + "acquisition: {min_distance: 0.1}": [":4:", "is acquisition.spacing now"],
    **{f"{HEAD}space:\n  {space}\n": words for space, words in SPACES.items()},
}


@pytest.mark.parametrize("text", TEXTS)
def test_mistakes(tmp_path: Path, text: str) -> None:
    """Beside those of tests/test_config_messages.py, by every word of them."""
    message = mistake(tmp_path, text)
    assert all(word in message for word in TEXTS[text])


def test_a_flood_of_aliases_is_refused(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x]"] + [
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)
    ]
    assert "nodes" in mistake(tmp_path, "\n".join(levels))


def test_a_file_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes("study: é".encode("latin-1"))
    with pytest.raises(UserError, match=r"^\S*config\.yaml: cannot be read as text \(.*\)$"):
        load([path])


def test_anchors_and_merge_keys_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        HEAD + "space:\n  x: &unit {type: float, low: 0, high: 1}\n  y: {<<: *unit, high: 2}\n",
    )
    space = load([path]).space
    assert (space["x"].high, space["y"].low, space["y"].high) == (1, 0, 2)  # type: ignore[union-attr]


def test_missing_file_and_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "/nowhere/config.yaml"]) == 1
    assert capsys.readouterr().err.startswith("/nowhere/config.yaml: there is no such file")


def test_later_files_and_the_command_line_win(tmp_path: Path) -> None:
    first = write(tmp_path, HEAD + "space: {x: {type: boolean}}\niterations: 3\n")
    second = tmp_path / "site.yaml"
    second.write_text("resources: {evaluate: {slurm_partition: long}}\niterations: 4\n")
    config = load([first, second], {"batch_size": 7})
    assert (config.iterations, config.batch_size) == (4, 7)
    assert config.resources.evaluate == {"slurm_partition": "long"}
    with pytest.raises(
        UserError, match=r"^--config: bach_size: unknown key; did you mean 'batch_size'"
    ):
        load([first], {"bach_size": 7})


@pytest.mark.parametrize(
    ("text", "words"),
    [(r'"b\u0000"', "NUL"), (r'"\ud800"', "half of a surrogate"), (r'"a\udc00b"', "half of a")],
)
@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("space: {x: {type: categorical, choices: [a, TEXT]}}\n", "space.x"),
        (OF_X.replace("command: run", "command: run, environment: {V: TEXT}"), "environment"),
        (OF_X.replace("command: run", "command: run, environment: {TEXT: v}"), "environment"),
    ],
)
def test_text_that_no_archive_can_hold_is_refused_with_its_place(
    tmp_path: Path, text: str, words: str, document: str, place: str
) -> None:
    head = "" if "study" in document else HEAD
    path = write(tmp_path, head + document.replace("TEXT", text))
    with pytest.raises(UserError, match=words) as error:
        load([path])
    str(error.value).encode()
    assert place in str(error.value)
    with pytest.raises(UserError, match=f"results.*{words}"):
        load([write(tmp_path, OF_X)], {"results": json.loads(text)})


def test_an_emoji_as_json_writes_it_is_that_emoji(tmp_path: Path) -> None:
    space = {"x": {"type": "categorical", "choices": ["🙂", "b"]}}
    document = {"study": "s", "objective": {"command": "run"}, "space": space}
    config = load([write(tmp_path, json.dumps(document))])
    assert config.space["x"].choices == ["🙂", "b"]  # type: ignore[union-attr]
    assert validate(json.loads(config.resolved())).identity() == config.identity()


# ---- Text that is a number: one function says so, wherever text comes in

# Python takes the first five for numbers, or parts of them.
NONE = ["1_000", "2024_10", "\u0663", "\u0663\u066b\u0665", "\uff11\uff12"]
NONE += ["0x10", "1e", "1,5", "", " ", ".", "--1", "1 2", "true"]


@given(st.integers(-(10**25), 10**25) | st.floats(allow_nan=False))
def test_what_programs_write_comes_back_with_every_digit(value: float) -> None:
    for text in (repr(value), f" {value!r}\t", json.dumps(value)):
        assert number_in(text) == value
        assert type(number_in(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("+7", 7), ("5.", 5.0), (".5", 0.5), ("1E3", 1e3), ("-inf", -math.inf), ("1" * 400, math.inf)],
)
def test_other_ways_to_write_a_number(text: str, value: float) -> None:
    assert number_in(text) == value
    assert math.isnan(number_in("NaN"))


@pytest.mark.parametrize("text", NONE)
@pytest.mark.parametrize(
    "reads",
    [
        lambda text: cell("x", text),
        lambda text: Threshold.parse(f"<= {text}"),
        lambda text: numbers_of(f"{text}-0"),
    ],
    ids=["cell", "threshold", "proposal"],
)
def test_nothing_else_is_a_number_anywhere(reads: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"not a (number|proposal)|bound must be written"):
        reads(text)
    assert number_in(text) is None


def test_an_answer_to_init_is_a_range_of_numbers_or_choices() -> None:
    assert parameter("n 1 20") == ("n", {"type": "int", "low": 1, "high": 20})
    assert parameter("x 0 1")[1]["type"] == parameter("x 0.5 1")[1]["type"] == "float"


@pytest.mark.parametrize(
    ("line", "message"),
    {
        "choices: [2024_10, 2024_11]": "2024_10 is a number in YAML; write it in quotes if it is a word; write 202410 if",
        "choices: [a, 007]": "choices.1: 007 is a number in YAML; write it in quotes if it is a word; write 7 if",
        "choices: [1_0.005, b]": "write 10.005 if it is meant to be one",
        "choices: ['2024_10', '007', 1.005, 0, 0.5]": "",
    }.items(),
)
def test_a_number_in_yaml_is_one_for_everybody(tmp_path: Path, line: str, message: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"{HEAD}space:\n  x: {{type: categorical, {line}}}\n")
    if not message:
        assert load([config]).search_space.columns[0].choices == ("2024_10", "007", 1.005, 0, 0.5)
        return
    with pytest.raises(UserError, match=re.escape(message)) as error:
        load([config])
    assert str(error.value).startswith(f"{config}:4: space.x.choices.")


@pytest.mark.parametrize("text", ["1_0", "\u0661", "0x10", "ten"])
def test_a_quoted_number_of_the_configuration_is_one(tmp_path: Path, text: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"{HEAD}space: {{x: {{type: int, low: 1, high: '{text}'}}}}\n", encoding="utf-8"
    )
    with pytest.raises(
        UserError, match=r"c\.yaml:3: space\.x\.high: must be (a number|an integer)"
    ):
        load([config])
    config.write_text(f"{HEAD}batch_size: ' 12'\nspace: {{x: {{type: boolean}}}}\n")
    assert load([config]).batch_size == 12

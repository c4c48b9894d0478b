"""Text that is a number: one function says so, wherever text comes in."""

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
from dngo.config import load
from dngo.errors import UserError
from dngo.exchange.points import number as cell
from dngo.init import parameter
from dngo.storage.text import number_in
from dngo.thresholds import Threshold

HEAD = "study: s\nobjective: {command: 'true'}\n"
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
    for line in ("n 1_0 20", "n \u0661 \u0669"):
        with pytest.raises(Exception, match="is not NAME LOW HIGH"):
            parameter(line)


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

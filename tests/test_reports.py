"""Good and bad reports of an objective: each gives the right value, or one line that says what to
change."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluating import outcome_of, python
from hypothesis import given, settings
from hypothesis import strategies as st

from dngo.evaluation.call import document_of
from dngo.evaluation.document import judge
from dngo.evaluation.journal import MISTAKES, cure
from dngo.outcomes import Verdict
from dngo.storage.plain import MAX_DEPTH, plain

NONE: dict[str, Any] = {}
FLAG: dict[str, Any] = {"small": None}


class Odd:
    """What no library knows."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


def returned(result: Any, constraints: dict[str, Any] = NONE) -> Verdict:
    """The verdict on what a function returned."""
    return judge(document_of(result).encode(), "", constraints)


UNREADABLE = [
    ("0,25", "'0,25'", "decimal point: 0.25"),
    ("\x1b[32m0.25\x1b[0m", r"'\x1b[32m0.25\x1b[0m'", "without the codes for colours"),
    ("\x1b[1m0,25\x1b[0m", r"'\x1b[1m0,25\x1b[0m'", "decimal point: 0.25"),
    ("np.float64(0.25)", "'np.float64(0.25)'", "print(float(x))"),
    ("tensor(0.25, dtype=torch.float64)", "'tensor(0.25, dtype", "print(float(x))"),
    ("[0.25]", "'[0.25]'", "without brackets"),
    ("2024_10", "'2024_10'", "digits 0 to 9"),
    ("٢٥", "'٢٥'", "digits 0 to 9"),
    ("1.5D+03", "'1.5D+03'", "1.5e+03"),
    ("loss: 0.25", "'loss: 0.25'", "without words beside it"),
    ("{'objective': 0.25}", "{'objective': 0.25}", "json.dumps"),
    ('{"objective": 0.25', '{"objective": 0.25', "does not end"),
    ('{"objective": 0.25} done', "done", "nothing may follow the mapping"),
    ("}", "'}'", "on one line"),
    ("True", "'True'", "a number or a mapping"),
    ("x" * 10_000, "xxx...", "a number or a mapping"),
]


@pytest.mark.parametrize(("line", "quoted", "advice"), UNREADABLE)
def test_a_line_that_cannot_be_read_is_shown_with_the_reason(
    line: str, quoted: str, advice: str
) -> None:
    verdict = judge(None, line, NONE)
    assert verdict.status == "invalid" and verdict.message.isprintable()
    assert quoted in verdict.message and advice in verdict.message
    assert "char 0" not in verdict.message and "Expecting" not in verdict.message
    assert len(verdict.message) < 260


def test_a_result_before_a_last_line_of_a_log_is_named(tmp_path: Path) -> None:
    code = "print('epoch 9'); print('{\"objective\": 0.25}'); print('saved it'); print('bye')"
    outcome = outcome_of(python(code), tmp_path)
    assert outcome.status == "invalid"
    assert "'bye'" in outcome.message and "print the result last" in outcome.message
    assert """'{"objective": 0.25}' before it""" in outcome.message


def test_what_else_lies_in_the_file_is_named() -> None:
    verdict = judge(b'# of run 7\n{"objective": 1}\n', "", NONE)
    assert """hold only '{"objective": 1}'""" in verdict.message
    assert "which is not text" in judge(b"\xff" * 9, "", NONE).message


@pytest.mark.parametrize(
    ("document", "constraints", "message"),
    [
        ('{"objective": [0.3, 1]}', FLAG, "objective must be a number, but is a list: [0.3, 1]"),
        ('{"objective": NaN}', FLAG, "the objective is nan"),
        ('{"objective": NaN, "constraints": {}}', FLAG, "the objective is nan"),
        ("nan", FLAG, "the objective is nan"),
        ('{"noise": 1}', NONE, "there is no objective"),
        ('{"loss": 1.0}', NONE, "unknown name 'loss'; did you mean 'objective'?"),
        ('{"objektive": 1}', NONE, "'objektive'; did you mean 'objective'?"),
        (
            '{"objective": 1, "small": true, "constraints": {"small": true}}',
            FLAG,
            "'small' is given twice, inside `constraints` and outside",
        ),
        ('{"objective": 1, "small": 0.5}', FLAG, "must be true or false, but is 0.5"),
        ("1", FLAG, "constraints must be {small: true or false}: small is missing"),
        ('{"objective": 1, "objective": 2}', NONE, "'objective' is there twice"),
        (
            '{"objective": 1, "constraints": {"small": true, "small": false}}',
            FLAG,
            "'small' is there twice",
        ),
    ],
)
def test_the_objective_is_judged_first_and_names_are_what_they_are(
    document: str, constraints: dict[str, Any], message: str
) -> None:
    verdict = judge(None, document, constraints)
    assert verdict.status == "invalid" and message in verdict.message


def test_a_wrong_noise_costs_only_itself_and_a_broken_constraint_needs_no_objective() -> None:
    for noise in ("-1", "Infinity"):
        verdict = judge(None, f'{{"objective": 1, "noise": {noise}}}', NONE)
        assert verdict.status == "ok" and "is not a standard deviation" in verdict.message
    for objective in ("", '"objective": NaN, '):
        document = f'{{{objective}"constraints": {{"small": false}}}}'
        assert judge(None, document, FLAG).status == "infeasible"


def test_printing_nan_is_no_mistake_of_the_set_up() -> None:
    message = judge(None, "nan", FLAG).message
    assert cure("invalid", message).startswith("objective: it reported NaN")
    message = judge(None, "1", FLAG).message
    assert cure("invalid", message).startswith("constraints: ") and len(MISTAKES) > 1


def test_a_tensor_is_its_number() -> None:
    import torch

    for value in (torch.tensor(0.25, requires_grad=True), torch.tensor([[0.25]])):
        assert returned(value).fields["objective"] == 0.25


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.True_, "true or false: True"),
        ((0.3, {"a": 1}), "a list: "),
        (1 + 2j, "text: '(1+2j)'"),
        (Odd(), "text: '[left out: Odd]'"),
    ],
)
def test_what_is_no_number_is_said_to_be_none(value: Any, words: str) -> None:
    verdict = returned(value)
    assert verdict.status == "invalid" and words in verdict.message


METADATA = {
    "array": np.arange(3),
    "number": np.int64(3),
    "path": Path("/data/x"),
    "date": datetime.date(2026, 1, 2),
    "odd": Odd(),
    "large": np.zeros(20_000),
    ("a", 1): {1},
    "bytes": b"ab",
    "long": "y" * 3000,
}


def test_no_result_is_dropped_for_its_metadata() -> None:
    kept = returned({"objective": 1, "metadata": METADATA}).fields["metadata"]
    assert kept["array"] == [0, 1, 2] and kept["number"] == 3 and kept["path"] == "/data/x"
    assert kept["date"] == "2026-01-02" and kept["odd"] == "[left out: Odd]"
    assert kept["large"] == "[left out: ndarray of 20000 values]" and len(kept["long"]) == 3000
    circle: dict[str, Any] = {}
    circle["itself"] = circle
    deep: Any = 1
    for _ in range(MAX_DEPTH + 5):
        deep = {"a": deep}
    for metadata in (np.arange(3), circle, deep, {"x": "y" * (2**24 + 1)}, [1], "a note", b"\xff"):
        verdict = returned({"objective": 1, "metadata": metadata})
        assert verdict.status == "ok" and verdict.fields["objective"] == 1
        assert verdict.fields["metadata"]
    raw = '{"objective": 1, "metadata": {"note": "a tab\t and \x1b"}}'
    assert judge(None, raw, NONE).status == "ok"


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.floats(), st.integers(), st.binary(), st.dates(), st.decimals()
    )
    | st.text(st.characters(exclude_categories=()), max_size=9)
    | st.builds(Odd),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_whatever_is_beside_a_result_the_result_is_kept(value: Any) -> None:
    verdict = returned({"objective": 0.5, "metadata": {"value": value}})
    assert verdict.status == "ok" and verdict.fields["objective"] == 0.5
    found = plain(value)
    assert json.dumps(plain(found)) == json.dumps(found)


@pytest.mark.parametrize("depth", [10, 64, 65, 3000, 200_000])
@pytest.mark.parametrize(
    "pair", ["[]", '{"":}', '["]"]'], ids=["lists", "mappings", "signs in text"]
)
def test_metadata_of_any_depth_costs_no_value(depth: int, pair: str) -> None:
    opening, closing = (pair[:-1] + ("," if '"]' in pair else "")), pair[-1]
    text = f'{{"objective": 0.5, "metadata": {{"a": {opening * depth}1{closing * depth}, "b": "\\"]"}}}}'
    for verdict in (judge(text.encode(), "", NONE), judge(None, text, NONE)):
        assert (verdict.status, verdict.fields["objective"]) == ("ok", 0.5)
        kept = verdict.fields["metadata"]
        assert kept["b"] == '"]' and ("nested too deeply" in json.dumps(kept)) == (depth >= 64)


def test_a_last_line_of_any_length_is_read_as_a_whole(tmp_path: Path) -> None:
    """A result is not lost, or taken for another one, because the line before it in the log is long."""
    code = "import json, sys\nprint('begins')\n{}\n"
    long = "json.dumps({'objective': 0.5, 'metadata': {'a': list(range(400_000))}})"
    for i, write in enumerate((f"sys.stdout.write({long})", f"print({long} + 3 * chr(10))")):
        outcome = outcome_of(python(code.format(write)), tmp_path / str(i))
        assert (outcome.status, outcome.objective) == ("ok", 0.5)
        assert outcome.metadata["a"][-1] == 399_999
    outcome = outcome_of(python(code.format("print('x' + 20_000_000 * '0' + '5')")), tmp_path / "x")
    assert outcome.status == "invalid" and "the last line of standard output" in outcome.message


def test_of_two_values_of_one_name_both_are_kept() -> None:
    text = '{"objective": 0.5, "metadata": {"a": 1, "b": {"c": 1, "c": 2, "c": 2}, "a": 2, "a (1)": 3, "a": 4}}'
    kept = judge(text.encode(), "", NONE).fields["metadata"]
    assert kept == {"a": 4, "a (1)": 3, "a (2)": 1, "a (3)": 2, "b": {"c": 2, "c (1)": 1}}


def test_a_function_that_writes_its_report_itself_need_not_return_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import json, os\n"
        "def f(x, **others):\n"
        "    with open(os.environ['DNGO_OUTCOME'], 'w') as stream:\n"
        "        json.dump({'objective': 0.5}, stream)\n"
    )
    from dngo.config import Objective

    outcome = outcome_of(Objective(callable="mine:f", working_directory=str(tmp_path)), tmp_path)
    assert (outcome.status, outcome.objective) == ("ok", 0.5)

"""Whatever an objective reports becomes exactly one outcome: the reader of reports never fails."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dngo.batch import Outcome, read_outcomes, write_outcomes
from dngo.evaluation.document import Verdict, adoptable, judge, judge_file
from dngo.evaluation.unreadable import why
from dngo.storage.text import fault, join_pairs, one_line, shown, storable

EXAMPLES = int(os.environ.get("DNGO_FUZZ_EXAMPLES", "100"))
text = st.text(st.characters(exclude_categories=()), max_size=20)  # halves of pairs and NUL, too
numbers = st.integers() | st.floats() | st.integers(-(10**400), 10**400)
scalars = st.none() | st.booleans() | numbers | text
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)
# Near enough to a report that every branch is taken, and not only the first error's.
reports = st.fixed_dictionaries(
    {},
    optional={
        "objective": documents | st.floats(-1e9, 1e9),
        "constraints": documents | st.fixed_dictionaries({"a": documents | st.booleans()}),
        "noise": documents | st.floats(0, 1),
        "metadata": documents | st.dictionaries(text, documents),
        "score": documents,
    },
)
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "utf-16-le"])


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """What a program may have left: a document in some encoding, whole, cut, doubled or damaged."""
    document = json.dumps(draw(reports | documents), ensure_ascii=draw(st.booleans()))
    found = document.encode(draw(encodings), "surrogatepass")
    kind = draw(st.sampled_from(["whole", "whole", "whole", "cut", "twice", "damaged", "noise"]))
    place = draw(st.integers(0, len(found)))
    if kind == "cut":
        return found[:place]
    if kind == "twice":
        return found + found
    if kind == "damaged":
        return found[:place] + draw(st.binary(min_size=1, max_size=3)) + found[place + 1 :]
    return draw(st.binary(max_size=60)) if kind == "noise" else found


def hold(verdict: Verdict, folder: Path) -> Outcome:
    """The outcome of a verdict, after it was written down and read again: it must survive that."""
    message = one_line(verdict.message, 500)
    outcome = Outcome(0, 0, "d", verdict.status, message=message, **verdict.fields)
    write_outcomes(folder / "outcome.json", [outcome])
    (found,) = read_outcomes(folder / "outcome.json")
    assert repr(found) == repr(outcome)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outcomes")


@settings(max_examples=EXAMPLES, deadline=None)
@given(report=st.none() | written(), last_line=text | reports.map(json.dumps), named=st.booleans())
@example(report=b'{"objective": 1, "constraints": true}', last_line="", named=False)
@example(report=b'{"objective": 1, "constraints": 7}', last_line="", named=True)
@example(report=b'{"objective": 1' + b"0" * 400 + b"}", last_line="", named=False)
@example(report=b"[" * 100_000, last_line="", named=False)
@example(report=b'{"metadata": ' + b'{"a": ' * 900 + b"1" + b"}" * 901, last_line="", named=False)
@example(report=b'{"objective": 1, "objective": 2, "noise": 1e999}', last_line="", named=False)
@example(report=b"9" * 2**24, last_line="", named=False)
@example(report=b"", last_line="0." + "3" * 10**7, named=False)
@example(report=b"\x00", last_line="\x00", named=False)
def test_any_report_is_one_outcome_that_can_be_kept(
    folder: Path, report: bytes | None, last_line: str, named: bool
) -> None:
    constraints = dict.fromkeys(["a"] if named else [])
    verdict = judge(report, last_line, constraints)
    assert verdict.status in ("ok", "infeasible", "invalid")
    outcome = hold(verdict, folder)
    left_out = verdict.message.startswith("left out: ")
    assert (verdict.status == "ok") == (verdict.message == "" or left_out)
    assert verdict.status != "ok" or math.isfinite(outcome.objective)
    assert verdict.status == "invalid" or set(outcome.constraints) == set(constraints)
    texts = json.dumps([outcome.message, outcome.metadata], ensure_ascii=False)
    assert not fault(texts) and "\\u0000" not in texts
    found = adoptable(report, constraints)
    assert found is None or repr(found) == repr(verdict)


@settings(max_examples=EXAMPLES, deadline=None)
@given(reports, st.data())
def test_what_is_unfinished_is_not_adopted(report: dict[str, Any], data: st.DataObject) -> None:
    document = json.dumps(report).encode()
    cut = data.draw(st.integers(0, len(document) - 1))
    found = adoptable(document[:cut], {})
    assert found is None
    assert adoptable(b"0.25\n", {}) == judge(b"0.25", "", {}) and adoptable(b"0.2", {}) is None


@settings(max_examples=EXAMPLES, deadline=None)
@given(text)
def test_text_is_made_storable_and_else_left_alone(given_text: str) -> None:
    kept = storable(given_text)
    assert fault(kept) == ""
    assert kept == given_text or fault(given_text) or join_pairs(given_text) == kept
    assert one_line(given_text, 9).isprintable() and len(one_line(given_text, 9)) <= 9
    assert storable(json.loads(json.dumps("🙂"))) == join_pairs("\ud83d\ude42") == "🙂"


@settings(max_examples=EXAMPLES, deadline=None)
@given(documents)
def test_whatever_a_message_quotes_is_one_short_line(value: Any) -> None:
    assert shown(value, 20).isprintable() and len(shown(value, 20)) < 50 and not fault(shown(value))


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device", "loop", "large", "empty"])
def test_what_lies_at_the_outcomes_place_is_read_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "outcome.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "large":
        with open(path, "wb") as stream:
            stream.truncate(2**24 + 1)
    else:
        path.touch()  # as `mktemp` leaves it: nothing was reported there
    found: list[Verdict] = []
    reader = threading.Thread(target=lambda: found.append(judge_file(path, "0.5", {})), daemon=True)
    reader.start()
    reader.join(10)
    assert [v.status for v in found] == ["ok" if kind == "empty" else "invalid"]


def test_stars_are_a_number_that_fortran_could_not_write() -> None:
    assert why("  ****** ").startswith("Fortran prints stars where a number is too wide")

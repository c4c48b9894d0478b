"""What an objective reports while it runs: it is read by line, thinned, and never makes an
evaluation fail."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluating import POINT, outcome_of, python
from hypothesis import given
from hypothesis import strategies as st

import dngo
from dngo import reporting
from dngo.config import Objective
from dngo.evaluation.command import Places, call_of
from dngo.evaluation.progress import LONGEST, MOST_BYTES, Lines, Printed, Progress, judged
from dngo.stopping.curves import MOST, Curve, Growing, thinned
from dngo.thresholds import Reported, Threshold

FILE = "import json, os; f = open(os.environ['DNGO_PROGRESS'], 'a');"
LINES = "[f.write(json.dumps({'step': s, 'objective': 1 / (s + 1)}) + chr(10)) for s in range(5)];"


def curve(outcome: Any) -> list[tuple[float, float]]:
    return [(step, value) for step, value, _ in Curve.of(outcome.curve).points]


# ---- an evaluation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        f"{FILE} {LINES} f.close(); print(0.1)",
        "import json; [print(json.dumps({'progress': {'step': s, 'objective': 1 / (s + 1)}})) "
        "for s in range(5)]; print(0.1)",
        "import dngo; [dngo.progress(s, 1 / (s + 1)) for s in range(5)]; print(dngo.should_stop() or 0.1)",
    ],
)
def test_ways_to_report_progress(code: str, tmp_path: Path) -> None:
    outcome = outcome_of(python(code), tmp_path)
    assert (outcome.status, outcome.objective, outcome.message) == ("ok", 0.1, "")
    assert curve(outcome) == [(s, 1 / (s + 1)) for s in range(5)]
    seconds = [point[2] for point in outcome.curve]
    assert all(s is not None and 0 <= s < 30 for s in seconds) and seconds == sorted(seconds)  # type: ignore[type-var]


def test_progress_alone_is_no_report_and_a_run_that_fails_keeps_it(tmp_path: Path) -> None:
    line = 'print(\'{"progress": {"step": 1, "objective": 2}}\')'
    outcome = outcome_of(python(line), tmp_path)
    assert outcome.status == "invalid" and "nothing was reported" in outcome.message
    # The result counts, wherever the last line of progress stands.
    assert outcome_of(python(f"print(7); {line}"), tmp_path).objective == 7
    code = f"{FILE} {LINES} f.close(); raise SystemExit('diverged')"
    outcome = outcome_of(python(code), tmp_path)
    assert outcome.status == "failed" and len(outcome.curve) == 5


def test_bad_lines_are_one_message_and_no_failure(tmp_path: Path) -> None:
    wrong = ((-1, 2), ('"a"', 2), (1, '"low"'), ("1e999", 2))
    bad = ["no json", "[1]", '{"step": 1}', "\\x00\\xff", "[" * 2000]
    bad += [f'{{"step": {step}, "objective": {value}}}' for step, value in wrong]
    code = f"{FILE} f.write({chr(10).join(bad)!r} + chr(10)); {LINES} f.close(); print(0.1)"
    outcome = outcome_of(python(code), tmp_path)
    assert (outcome.status, len(outcome.curve)) == ("ok", 5)
    assert outcome.message == (
        f"{len(bad)} lines of its progress could not be read: 'no json' is not a line of JSON"
    )


def test_what_a_function_reports_is_a_number_or_has_names() -> None:
    said: list[dict[str, Any]] = []
    with reporting.heard(said.append, lambda: False):
        dngo.progress(1, 2)
        dngo.progress(2, {"a": None, "b": np.float32(0.5)})
        with pytest.raises(TypeError, match="a mapping of names to numbers: tuple"):
            dngo.progress(3, (1, 2))
    assert said[0] == {"step": 1.0, "objective": 2.0} and len(said) == 2
    assert math.isnan(said[1]["objectives"]["a"]) and said[1]["objectives"]["b"] == 0.5


def test_what_is_no_file_is_no_progress(tmp_path: Path) -> None:
    for made in ("os.mkdir(p)", "os.mkfifo(p)", "os.symlink('/dev/zero', p)"):
        outcome = outcome_of(
            python(f"import os; p = os.environ['DNGO_PROGRESS']; {made}; print(1)"), tmp_path
        )
        assert (outcome.status, outcome.curve) == ("ok", [])


# ---- a line -------------------------------------------------------------------------------------


def test_a_value_that_is_no_number_is_nan() -> None:
    for value in ("null", "NaN", "Infinity", "-Infinity"):
        assert math.isnan(judged(f'{{"step": 1, "objective": {value}}}', {}).values[0])


def test_constraints_may_be_known_early() -> None:
    line = '{"step": 1, "objective": 2, "constraints": {"hot": 400}, "lr": 0.1}'
    known = {"hot": Threshold.parse("<= 350"), "fits": None}
    assert judged(line, known).fields == {"constraints": {"hot": 0}, "numbers": {"hot": 400.0}}
    with pytest.raises(ValueError, match="'hot' is unknown"):
        judged(line, {})
    assert judged(line, {}, heeds=False).fields == {}


@pytest.mark.parametrize("line", ['"objectives": {"b": 2, "a": null}', '"b": 2, "a": NaN, "lr": 3'])
def test_each_of_several_objectives_has_a_value(line: str) -> None:
    nothing, two = judged(f'{{"step": 1, {line}}}', Reported({}, ["a", "b"])).values
    assert math.isnan(nothing) and two == 2


@pytest.mark.parametrize(
    "line", ['"objective": 2', '"objectives": {"a": 1}', '"a": 1', '"objectives": [1, 2]']
)
def test_of_several_objectives_none_may_be_missing(line: str) -> None:
    with pytest.raises(ValueError, match=r'"objectives": \{"a": 0\.31, "b": 0\.31\}') as error:
        judged(f'{{"step": 1, {line}}}', Reported({}, ["a", "b"]))
    assert "\n" not in str(error.value)


# ---- a file -------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=20), st.data())
def test_lines_come_once_and_whole_however_they_are_written(lines: list[bytes], data: Any) -> None:
    whole = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    reader = Lines(Path("unused"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found = []
    for piece in pieces:
        reader._read = lambda piece=piece: piece  # type: ignore[method-assign, misc]
        found += reader.new()
    assert found == [line for line in whole.split(b"\n") if line.strip()]


def test_a_partial_line_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "p"
    lines = Lines(path)
    assert lines.new() == []
    path.write_bytes(b"a\nb")
    assert (lines.new(), lines.new()) == ([b"a"], [])
    with path.open("ab") as stream:
        stream.write(b"c\n")
    assert lines.new() == [b"bc"]
    path.write_bytes(b"n\n")  # begun anew
    assert lines.new() == [b"n"]
    with path.open("ab") as stream:
        stream.write(b"end")
    assert (lines.new(), lines.new(ended=True), lines.new(ended=True)) == ([], [b"end"], [])
    # A line without end is a bad one.
    path = tmp_path / "endless"
    progress = Progress(path, {})
    for piece in [b"x" * (LONGEST - 1)] * 4 + [b'\n{"step": 1, "objective": 2}\n']:
        with path.open("ab") as stream:
            stream.write(piece)
        found = progress.look()
    assert found and progress.bad == 1


def test_of_a_huge_file_no_more_than_its_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p"
    with path.open("wb") as stream:
        stream.truncate(2**36)  # 64 GiB, all of them a hole
        stream.seek(0, 2)
        stream.write(b'\n{"step": 1, "objective": 2}\n')
    progress = Progress(path, {})
    assert progress.look() and progress.lines.skipped
    assert [p[:2] for p in progress.curve.points] == [(1, 2)]
    assert len(progress.lines._held) <= MOST_BYTES


def test_what_is_printed_becomes_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    said = b'hello\n{"progress": {"step": 1, "objective": 2}}\n{"progress": 3, "a": 1}\n{"progress": }\n0.5'
    for size in (1, 7, len(said)):
        path.unlink(missing_ok=True)
        printed = Printed(path)
        for i in range(0, len(said), size):
            printed.feed(said[i : i + size])
        printed.close()
        assert path.read_bytes() == b'{"step": 1, "objective": 2}\n{"progress": }\n'


# ---- a curve ------------------------------------------------------------------------------------

VALUES = st.floats(allow_nan=True, allow_infinity=False, width=32)


@given(st.lists(VALUES, min_size=1, max_size=1500), st.sampled_from([MOST, 50]))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int) -> None:
    points = [(float(i), v, 0.0) for i, v in enumerate(values)]
    kept = thinned(points, most).points
    assert len(kept) <= most and set(map(repr, kept)) <= set(map(repr, points))
    assert repr(kept[0]) == repr(points[0]) and repr(kept[-1]) == repr(points[-1])
    numbers = [v for v in values if not math.isnan(v)]
    if numbers:
        assert {min(numbers), max(numbers)} <= {v for _, v, _ in kept}
    if len(points) <= most - 3:
        assert list(map(repr, kept)) == list(map(repr, points))


@given(st.lists(st.tuples(st.integers(0, 30), VALUES), max_size=80))
def test_steps_rise_and_a_step_back_replaces_what_was_later(said: list[tuple[int, float]]) -> None:
    growing = Growing()
    for step, value in said:
        growing.add((step, value, 0.0))
    expected: list[tuple[int, float]] = []
    for step, value in said:
        expected = [*(p for p in expected if p[0] < step), (step, value)]
    assert repr([p[:2] for p in growing.curve().points]) == repr(expected)


@given(st.lists(VALUES, max_size=50))
def test_a_curve_survives_json(values: list[float]) -> None:
    kept = thinned((float(i), v, math.nan) for i, v in enumerate(values))
    assert repr(Curve.of(json.loads(json.dumps(kept.plain(), allow_nan=False)))) == repr(kept)


def test_a_parameter_that_is_called_progress_is_the_parameter(tmp_path: Path) -> None:
    """So a study of before there was such a placeholder goes on; the file is in the environment."""
    point = replace(POINT, parameters={"progress": 0.5})
    call = call_of(Objective(command="run {progress}"), point, Places(tmp_path), ["progress"], 0)
    assert call.words == ["run", "0.5"]
    assert call.environment["DNGO_PROGRESS"] == str(tmp_path / "progress.jsonl")


RUNS = {
    "a counter that counts down": [float(20 - i) for i in range(20)],
    "the same step": [0.0] * 20,
    "four processes": [float(i // 4) for i in range(20)],
}


@pytest.mark.parametrize("steps", RUNS.values(), ids=RUNS)
def test_steps_that_do_not_rise_are_counted_and_that_is_said(
    steps: list[float], tmp_path: Path
) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(f'{{"step": {s}, "objective": {i}}}\n' for i, s in enumerate(steps)))
    progress = Progress(path, {})
    assert progress.look(ended=True)
    assert [p[:2] for p in progress.curve.points] == [(i + 1.0, float(i)) for i in range(20)]
    assert progress.message.endswith(
        "of 20 reports of its progress did not go on to a later step; the reports are counted instead"
    )


@pytest.mark.parametrize(
    "steps",
    [
        [*range(1, 20), *range(12, 30), *range(25, 40)],  # two checkpoints
        [i // 2 for i in range(40)],  # two processes
        [1, 2, 3, 1, 2, 3, 4],  # too few to know
    ],
)
def test_steps_that_go_back_a_few_times_are_steps(steps: list[int], tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(f'{{"step": {s}, "objective": 1}}\n' for s in steps))
    progress = Progress(path, {})
    progress.look(ended=True)
    assert progress.message == ""
    assert [p[0] for p in progress.curve.points] == sorted({float(s) for s in steps})
    assert progress.reports.unclear == (len(steps) < 8)


def test_the_placeholder_is_the_file(tmp_path: Path) -> None:
    line = '{"step": 1, "objective": 2}'
    words = ["bash", "-c", f"echo '{line}' > $1; echo 3", "bash", "{progress}"]
    outcome = outcome_of(Objective(command=words), tmp_path)
    assert (outcome.objective, curve(outcome)) == (3.0, [(1.0, 2.0)])

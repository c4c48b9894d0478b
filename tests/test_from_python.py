"""A Python function as an objective: whatever it does is an outcome, and no ended evaluation is
lost or repeated."""

from __future__ import annotations

import functools
import io
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import waiting
from running import ran
from toy import BRIEF, ROOT

import dngo
from dngo.archive import read_table, verify
from dngo.audit import audit_all
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.replay import replay

pytestmark = pytest.mark.usefixtures("here")

SPACE = {"x": (0, 1), "y": (0, 1)}
CHEAP: dict[str, Any] = {"acquisition": "random", "folder": "studies"}
FAST = "surrogate='gp', classifier={'networks': {'steps': 20, 'epochs': 1}}"

# Writes down what it began and what it ended.
SCRIPT = """
import os, sys, time
import dngo

def f(x, y):
    with open("began", "a") as stream:
        stream.write(f"{{x!r}} {{y!r}}\\n")
    time.sleep({seconds})
    with open("ended", "a") as stream:
        stream.write(f"{{x!r}} {{y!r}}\\n")
    return (x - 0.3) ** 2 + y

if __name__ == "__main__":
    study = dngo.minimize(f, {{"x": (0, 1), "y": (0, 1)}}, {evaluations}, {settings})
    best = study.best()
    print(best.objective, sorted(best.parameters))
"""


def start(text: str, **options: Any) -> subprocess.Popen[str]:
    Path("run.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "run.py"]
    # A shell's `&` has SIGINT ignored, and what starts the tests may be one.
    if hasattr(signal, "pthread_sigmask"):
        options.setdefault(
            "preexec_fn", lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
        )
    return subprocess.Popen(
        words, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


def lines(name: str) -> list[str]:
    return Path(name).read_text().splitlines() if Path(name).exists() else []


def until(name: str, number: int) -> None:
    waiting.until(lambda: len(lines(name)) >= number)


def recorded() -> int:
    """How many outcomes lie on disk."""
    folder = Path("dngo-studies/f")
    rows = len(read_table(folder / "archive.h5")) if (folder / "archive.h5").exists() else 0
    return rows + len(list(folder.glob("pending/*/outcomes/*.json")))


def test_two_lines_from_a_function_to_its_best_point_and_again() -> None:
    for number in (5, 6):
        text = SCRIPT.format(seconds=0.0, evaluations=number, settings=f"workers=2, {FAST}")
        out, err = start(text).communicate()
        assert out.split()[1:] == ["['x',", "'y']"] and "Error" not in err
        assert len(set(lines("ended"))) == len(lines("ended")) == number


@pytest.mark.parametrize("workers", [2, 0])
def test_whatever_a_function_does_is_an_outcome(workers: int, tmp_path: Path) -> None:
    def f(how: str) -> Any:
        if how == "raises":
            raise ValueError("two\nlines")
        if how == "exits":
            sys.exit(0)
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"number": 0.5, "nothing": None, "nan": float("nan"), "text": "good"}[how]

    hows = ["number", "nothing", "nan", "text", "raises", "exits"]
    hows += ["is killed"] if workers else []
    study = dngo.create("f", {"how": hows}, **CHEAP, stop={"failures": 0})
    table = study.optimize(f, len(hows), workers=workers, progress=False).table()
    found = dict(
        zip(table.parameter_how, zip(table.status, table.message, strict=True), strict=True)
    )
    assert found.keys() == set(hows)
    assert found["number"] == ("ok", "") and study.best().parameters == {"how": "number"}
    assert found["nan"][0] == found["text"][0] == found["nothing"][0] == "invalid"
    assert "no objective" in found["nothing"][1] and "'good'" in found["text"][1]
    assert found["raises"][0] == "failed" and found["raises"][1].endswith("ValueError: two lines")
    assert found["exits"] == ("failed", found["exits"][1]) and "sys.exit(0)" in found["exits"][1]
    if workers:
        assert found["is killed"] == ("failed", "killed by signal 9")
    assert verify(study.path) == []


def test_a_function_may_be_anything_that_can_be_called() -> None:
    class Object:
        def __call__(self, x: float, y: float) -> float:
            return x

        def method(self, **point: float) -> float:
            return point["y"]

    offset = 3.0
    callables = [
        lambda x, y: x + offset,
        lambda point: point["x"],
        functools.partial(lambda a, x, y: x - a, 1.0),
        Object(),
        Object().method,
        lambda x, y, z=1: x + z,
    ]
    for i, function in enumerate(callables):
        study = dngo.maximize(function, SPACE, 1, name=f"f{i}", progress=False, **CHEAP)
        assert list(study.table().status) == ["ok"], i


@pytest.mark.parametrize(
    ("function", "space", "given", "said"),
    [
        (lambda x, z: x, SPACE, {}, "unexpected keyword argument 'y'"),
        (lambda x, y, z: x, SPACE, {}, "missing a required argument: 'z'"),
        (3, SPACE, {}, "must be a function, not int"),
        (
            lambda kind, d: d,
            {"kind": ["a", "b"], "d": dngo.Float(0, 1, active_if={"kind": "a"})},
            {},
            "d is not in every point .active_if.: give it a default",
        ),
        (lambda x: x, {"x": (0, 1, 2)}, {}, "space.x: a tuple is .low, high."),
        (lambda x: x, {"x": None}, {}, "space.x: None is no parameter"),
        (lambda x, y: x, SPACE, {"name": "my study"}, "study: a name has letters"),
        (lambda x, y: x, SPACE, {"objective": 3}, "objective: must be a mapping of limits"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_evaluated(
    function: Any, space: Any, given: dict[str, Any], said: str
) -> None:
    given = {"evaluations": 3, "name": "f", **given}
    with pytest.raises(UserError, match=said) as error:
        dngo.minimize(function, space, **given, **CHEAP)
    assert "\n" not in str(error.value) and not Path("studies").exists()


def test_a_function_with_a_mistake_stops_the_run_at_once() -> None:
    began = Path("began")

    def f(x: float, y: float) -> float:
        began.open("a").write("one\n")
        return x + z  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(dngo.Halted, match=r"name 'z' is not defined.*has a mistake"):
        dngo.minimize(f, SPACE, 50, design={"size": 20}, progress=False, **CHEAP)
    assert len(lines("began")) == 1


def test_what_a_space_may_be_and_another_one_under_its_name() -> None:
    space = {
        "a": (0, 1),
        "b": (1e-5, 1, "log"),
        "c": range(1, 9, 2),
        "d": dngo.Int(1, 100, log=True, default=10),
        "e": [False, True],
        "f": dngo.Choice(["s", "m", "l"], ordered=True),
        "g": dngo.Choice([1, "one"], active_if={"e": True}),
        "h": "fixed",
    }
    study = dngo.create("s", space, direction="maximize", constraints={"t": "<= 3"}, **CHEAP)
    kinds = {n: p.type for n, p in study.config.space.items()}
    whole = ["float", "float", "int", "int", "boolean", "ordinal", "categorical", "fixed"]
    assert list(kinds.values()) == whole and study.config.space["b"].log
    assert not Path("studies").exists()
    points = study.ask(3)
    assert {p.parameters["h"] for p in points} == {"fixed"}
    again = dngo.create("s", space, direction="maximize", constraints={"t": "<= 4"}, **CHEAP)
    assert [p.id for p in again.pending()] == [p.id for p in points]
    other = {**space, "a": (0, 2)}
    with pytest.raises(UserError, match=r"space.a.high was 1.0 and is 2.0.*another name"):
        dngo.create("s", other, direction="maximize", constraints={"t": "<= 3"}, **CHEAP)
    with pytest.raises(UserError, match=r"objective.direction was 'maximize'"):
        dngo.create("s", space, constraints={"t": "<= 3"}, **CHEAP)


def test_what_the_process_holds_is_no_memory_of_its_evaluations() -> None:
    held = b"x" * (400 * 2**20)

    def f(needs: str) -> int:
        mine = b"y" * (400 * 2**20 if needs == "much" else 10)
        time.sleep(3 if needs == "much" else 0)  # it is looked at meanwhile
        return len(held) + len(mine)

    limits = {"memory_mb": 250}
    space = {"needs": ["much", "little"]}
    study = dngo.create("f", space, objective=limits, design={"size": 2}, **CHEAP)
    table = study.optimize(f, 2, progress=False).table()
    assert dict(zip(table.parameter_needs, table.status, strict=True)) == {
        "much": "out_of_memory",
        "little": "ok",
    }


def test_a_smaller_ask_than_the_design_is_said() -> None:
    """If you set the design's size and ask for one point, you would wait for its other points in vain."""
    study = dngo.create("f", SPACE, design={"size": 12}, **CHEAP)
    words = r"ask\(1\) makes the design 1 instead of 12 points"
    with pytest.warns(UserWarning, match=words) as said:
        assert len(study.ask(1)) == 1
    assert said[0].filename == __file__  # the line that asked


def test_a_function_may_have_several_objectives() -> None:
    def f(x: float, y: float) -> dict[str, Any]:
        return {"objectives": {"a": x + y, "b": y - x}, "constraints": {"t": x}}

    def by_name(x: float, y: float) -> dict[str, Any]:
        return {"a": x + y, "b": y - x, "t": x}

    space = {"x": (0, 0.9), "y": (0, 1)}
    how: dict[str, Any] = {"constraints": {"t": "<= 0.9"}, "progress": False, **CHEAP}
    tables = []
    for function, maximize in ((f, {"direction": "maximize"}), (by_name, "maximize")):
        aims: Any = {"a": "minimize", "b": maximize}
        study = dngo.minimize(function, space, 4, workers=2, objectives=aims, **how)
        assert len(study.front()) >= 1 and set(study.table().status) == {"ok"}
        tables.append(study.table()[["objective_a", "objective_b", "number_t"]])
    assert tables[0].equals(tables[1])
    with pytest.raises(UserError, match="b: is given in a point and as an argument as well"):
        study.tell({"x": 0.5, "y": 0.5}, {"a": 1, "b": 2}, b=2)


def test_evaluations_of_noise_have_seeds_of_their_own() -> None:
    study = dngo.minimize(lambda x, y: random.random(), SPACE, 4, name="f", progress=False, **CHEAP)
    first = study.table().objective
    assert len(set(first)) == 4
    other = {**CHEAP, "folder": "others"}
    again = dngo.minimize(lambda x, y: random.random(), SPACE, 4, name="f", progress=False, **other)
    assert list(again.table().objective) == list(first)


@pytest.mark.parametrize("workers", [1, 0])
def test_a_function_gets_the_environment_of_its_study(workers: int) -> None:
    def f(x: float) -> float:
        return float(os.environ["THE_LIMIT"])

    how: dict[str, Any] = {"workers": workers, "progress": False, "name": "f", **CHEAP}
    limits: dict[str, Any] = {"environment": {"THE_LIMIT": "7"}}
    table = dngo.minimize(f, {"x": (0, 1)}, 2, objective=limits, **how).table()
    assert list(table.objective) == [7, 7] and "THE_LIMIT" not in os.environ
    with pytest.raises(UserError, match="A_NAME is not set"):
        dngo.minimize(f, {"x": (0, 1)}, 4, objective={"environment_from": ["A_NAME"]}, **how)


def test_what_a_call_decides_is_no_setting() -> None:
    for key in ("iterations", "points_per_job", "points_at_once"):
        with pytest.raises(UserError, match=f"{key}: .*; leave it out"):
            dngo.minimize(lambda x, y: x, SPACE, 2, name="f", **{key: 2})
    for given in ({"working_directory": "/usr"}, {"time_limit": 5}):
        with pytest.raises(UserError, match=f"objective.{next(iter(given))}: .*; leave "):
            dngo.minimize(lambda x, y: x, SPACE, 2, name="f", workers=0, objective=given)


def test_nothing_is_evaluated_before_the_needed_files_exist() -> None:
    how: dict[str, Any] = {"needs": ["mesh.txt"], "progress": False, "name": "f", **CHEAP}
    with pytest.raises(UserError, match=r"needs\.0: mesh\.txt: there is no such file"):
        dngo.minimize(lambda x, y: x, SPACE, 2, **how)
    Path("mesh.txt").touch()
    assert len(dngo.minimize(lambda x, y: x, SPACE, 2, **how).table()) == 2


def test_a_killed_process_loses_nothing_that_had_ended_and_repeats_none_of_it() -> None:
    text = SCRIPT.format(
        seconds=0.6, evaluations=12, settings="workers=3, batch_size=6, acquisition='random'"
    )
    ended: set[str] = set()
    for number in (2, 7):
        process = start(text)
        until("ended", number)
        ended |= set(lines("ended"))
        # The function's last line is written before its outcome can be.
        waiting.until(lambda: recorded() >= len(ended))  # noqa: B023
        process.kill()
        process.communicate()
    time.sleep(0.5)
    after = set(lines("ended"))
    time.sleep(0.5)
    assert set(lines("ended")) == after, "evaluations end with their process"
    started = lines("began")
    out, err = start(text).communicate()
    assert out and "Error" not in err and len(set(lines("ended"))) == 12
    # Three evaluations at most had written their line at a kill, and not their outcome.
    assert len(lines("ended")) <= 12 + 2 * 3
    assert not ended & set(lines("began")[len(started) :])
    assert verify(Path("dngo-studies/f/archive.h5")) == []


def test_two_processes_do_not_share_a_study() -> None:
    process = start(SCRIPT.format(seconds=60, evaluations=2, settings="acquisition='random'"))
    until("began", 1)
    try:
        with pytest.raises(UserError, match=f"held by process {process.pid}"):
            dngo.minimize(lambda x, y: x, SPACE, 2, name="f", progress=False)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("workers", [2, 0])
def test_ctrl_c_ends_it_and_again_goes_on(workers: int) -> None:
    text = SCRIPT.format(
        seconds="1000 if len(open('began').readlines()) > 2 and not os.path.exists('go') else 0",
        evaluations=6,
        settings=f"workers={workers}, batch_size=6, acquisition='random'",
    )
    process = start(text)
    waiting.until(lambda: recorded() >= 2 and len(lines("began")) >= 3, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == -signal.SIGINT and out == ""
    assert (
        err.splitlines()[-1]
        == "KeyboardInterrupt: outcomes so far are kept, and the same call goes on"
    )
    assert len(lines("ended")) == 2
    Path("go").touch()
    start(text).communicate()
    assert len(lines("ended")) == len(set(lines("ended"))) == 6


def test_where_nobody_sees_a_bar_there_is_a_line_for_each_batch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: float, y: float) -> float:
        return x

    how: dict[str, Any] = {"batch_size": 2, "design": {"size": 2}, **CHEAP}
    for evaluations, said in ((4, ["iteration", "0", "1"]), (6, ["iteration", "2"]), (5, ["f:"])):
        dngo.minimize(f, SPACE, evaluations, **how)
        assert [Path(line.split()[0]).name for line in capsys.readouterr().err.splitlines()] == said
    dngo.minimize(f, SPACE, 8, progress=False, **how)
    assert capsys.readouterr().err == ""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as raw:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, write_through=True))
        assert len(dngo.minimize(f, SPACE, 10, **how).table()) == 10


def test_a_function_that_no_file_has_as_in_a_notebook() -> None:
    text = SCRIPT.format(seconds=0.0, evaluations=3, settings="acquisition='random'")
    text += "    try:\n        study.write_config()\n    except dngo.UserError as error:\n        print(error)\n"
    done = ran(
        [sys.executable, "-"], input=text, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )
    assert len(lines("ended")) == 3
    assert "write_config(objective='objective:f')" in done.stdout and not Path("f.yaml").exists()


@pytest.mark.parametrize("outer", [0, 1])
def test_an_evaluation_may_begin_a_study_of_its_own(outer: int) -> None:
    """What the inner one reports does not count for the outer one."""

    def inner(y: float) -> float:
        dngo.progress(1, y + 10)
        return y + 10

    def f(x: float) -> float:
        dngo.progress(1, x)
        study = dngo.minimize(
            inner, {"y": (0, 1)}, 2, name=None, workers=1, progress=False, **CHEAP
        )
        assert set(study.curves().value) == set(study.table().objective)
        return x

    study = dngo.minimize(f, {"x": (0, 1)}, 2, name="f", workers=outer, progress=False, **CHEAP)
    assert list(study.table().status) == ["ok"] * 2
    assert list(study.curves().value) == list(study.table().objective)


def test_studies_in_two_threads_hear_their_own_functions() -> None:
    found = []

    def f(x: float, k: int) -> float:
        for step in range(4):
            dngo.progress(step, k + x)
            time.sleep(0.01)
        return k + x if dngo.workdir().parts[-4] == f"s{k}" else -1.0

    def run(k: int) -> None:
        given = {"name": f"s{k}", "workers": 0, "progress": False, **CHEAP}
        study = dngo.minimize(f, {"x": (0, 1), "k": k}, 6, **given)
        best = study.table().set_index("id").objective
        found.append([best[point] for point in study.curves().id] == list(study.curves().value))
        found.append(len(study.curves()) == 24 and bool((best >= 0).all()))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 6


def test_a_fork_waits_for_no_thread_that_it_lacks() -> None:
    text = """
import torch, dngo

def f(x, y):
    return float((torch.rand(900, 900) @ torch.rand(900, 900)).sum()) * 0 + x

torch.set_num_threads(2)
f(0, 0)
study = dngo.minimize(f, {"x": (0, 1), "y": (0, 1)}, 1, acquisition="random", objective={"time_limit": 20})
print(list(study.table().status))
"""
    out, err = start(text).communicate()
    assert out.strip() == "['ok']", err


def test_a_script_that_begins_anew_when_it_is_imported_is_not_handed_over() -> None:
    text = SCRIPT.format(seconds=0.0, evaluations=2, settings="acquisition='random'")
    head, _, rest = text.partition('if __name__ == "__main__":\n')
    _, err = start(f"{head}{textwrap.dedent(rest)}study.write_config()\n").communicate()
    assert "importing" in err and "if __name__ == '__main__':" in err


@pytest.mark.parametrize(
    "keys",
    [
        {"early_stopping": "asha"},
        {"fidelity": {"parameter": "y", "low": 0.1, "high": 0.9}},
        {"labels": {"x": "where"}, "checkpoints": {"keep": 3}},
        {"objectives": {"a": "minimize", "b": {"direction": "maximize", "reference": 1}}},
        {"preset": "dngo-2015", "objective": {"scale": "log"}, "direction": "maximize"},
        {"surrogate": "auto", "preset": "dngo-2015"},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_a_written_configuration_says_what_the_study_is(keys: dict[str, Any]) -> None:
    study = dngo.create("mine", {"x": (0, 1), "y": (0.01, 1)}, seed=3, **keys)
    found, own = load([study.write_config(objective="m:f")]).stored(), study._engine.config.stored()
    assert found["objective"].pop("callable") == "m:f" and own["objective"].pop("callable")
    found["objective"]["working_directory"] = None  # the file's folder
    assert found == {**own, "results": found["results"], "iterations": found["iterations"]}


def test_a_bar_of_several_objectives_has_no_best_value(capsys) -> None:
    how: dict[str, Any] = {"objectives": {"a": "minimize", "b": "minimize"}, **CHEAP}
    for n in (4, 6):
        dngo.minimize(lambda x, y: {"a": x, "b": y}, SPACE, n, name="f", progress=True, **how)
    assert "6/6" in (bar := capsys.readouterr().err) and "nan" not in bar and "best" not in bar


def test_what_was_left_for_the_last_batch_is_not_the_size_of_the_next() -> None:
    study = dngo.minimize(lambda x, y: x + y, SPACE, 10, name="f", batch_size=4, **CHEAP)
    sizes = [int((study.table().iteration == t).sum()) for t in (1, 2)]
    opened = dngo.open(study.path)
    assert sizes == [4, 1] and opened.config.batch_size == 4
    assert load([opened.write_config(objective="m:f")]).batch_size == 4


def test_a_written_configuration_names_its_files_from_its_own_folder(monkeypatch) -> None:
    Path("mesh.txt").touch()
    Path("sub").mkdir()
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    study = dngo.create("mine", {"x": (0, 1)}, needs=["mesh.txt"], folder="~/studies")
    assert Path(load([study.write_config("sub/mine.yaml", objective="m:f")]).needs[0]).exists()
    assert study.path == Path("home/studies/mine/archive.h5").absolute()


@pytest.mark.full
def test_what_began_in_python_goes_on_with_snakemake_and_in_python_again() -> None:
    text = SCRIPT.format(seconds=0.0, evaluations=5, settings=f"workers=2, {FAST}")
    text += "    print(study.write_config())\n"
    out, err = start(text).communicate()
    assert "Error" not in err and out.splitlines()[-1] == "f.yaml"
    archive = Path("dngo-studies/f/archive.h5")
    assert verify(archive) == [] and len(audit_all(archive)) == 5
    assert [replay(archive, t).verdict for t in range(2)] == ["identical"] * 2

    path = Path("f.yaml")
    assert "iterations: 1\n" in path.read_text()
    path.write_text(path.read_text().replace("iterations: 1", "iterations: 2"))
    words = [sys.executable, "-m", "dngo", "run", "f.yaml", "--", "--cores", "2", *BRIEF]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(words, env=environment, check=True, capture_output=True)
    assert len(lines("ended")) == len(set(lines("ended"))) == 7

    text = text.replace(", 5,", ", 8,").replace("study.write_config()", "'on'")
    out, err = start(text).communicate()
    assert out.splitlines()[-1] == "on", err
    assert len(lines("ended")) == len(set(lines("ended"))) == 8
    assert verify(archive) == [] and len(audit_all(archive)) == 8
    assert replay(archive, 3).verdict == "identical"


def test_each_batch_of_a_function_learns_from_all_before_it() -> None:
    study = dngo.create("f", SPACE, batches_in_flight=2, batch_size=2, **CHEAP)
    study.optimize(lambda x, y: x, 8, progress=False)
    merged = study._engine.merged()
    assert merged > 2
    assert [study._engine.batch(t).training_iterations for t in range(merged)] == [*range(merged)]


def test_another_space_before_anything_is_merged_names_no_archive_to_bring_along() -> None:
    def broken(x: float) -> float:
        return nothing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UserError, match="NameError"):
        dngo.minimize(broken, {"x": (0, 1)}, 12, name="begun", workers=1)
    with pytest.raises(UserError, match=r"give the study another name$"):
        dngo.minimize(broken, {"x": (0, 2)}, 12, name="begun", workers=1)


def test_in_this_process_a_function_may_change_what_is_there() -> None:
    seen: list[float] = []

    def f(x: float, y: float) -> float:
        seen.append(x)
        return x

    dngo.minimize(f, SPACE, 3, workers=2, progress=False, name="forks", **CHEAP)
    assert seen == []
    study = dngo.minimize(f, SPACE, 3, workers=0, progress=False, name="here", **CHEAP)
    assert seen == list(study.table().parameter_x)


def test_ctrl_c_between_evaluations_says_that_the_same_call_goes_on(monkeypatch) -> None:
    study = dngo.create("halted", {"x": (0, 1)}, batch_size=2, surrogate="gp")
    study.optimize(lambda x: x, 2, workers=0)

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dngo.study.study.Study.fit", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the same call goes on"):
        study.optimize(lambda x: x, 6, workers=0)
    monkeypatch.undo()
    study.optimize(lambda x: x, 6, workers=0)
    assert len(study.table()) == 6


def test_where_to_look_names_only_what_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """No page is written of a study that Python runs: the summary says how to write one."""
    study = dngo.minimize(lambda x, y: x + y, SPACE, 4, name="f", progress=False, **CHEAP)
    named = re.search(r"look next:\n  (.*?)  \(", study.report())
    assert named
    *_, command, folder, option, page = shlex.split(named[1])
    assert (command, option) == ("report", "--html")
    assert main([command, folder, option, page]) == 0
    assert Path(page).read_text().startswith("<!")
    (Path(folder) / "report").mkdir()  # as a workflow does before it writes its page
    assert f"{folder}/report/report.html  (" in study.report()


def test_a_folder_and_a_needed_file_may_lie_in_the_home_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    Path("home").mkdir()
    Path("home/mesh.txt").touch()
    how: dict[str, Any] = {"folder": "~/studies", "needs": ["~/mesh.txt"], "acquisition": "random"}
    study = dngo.minimize(lambda x: x, {"x": (0, 1)}, 1, name="f", **how)
    assert study.path == Path("home/studies/f/archive.h5").absolute() and not Path("~").exists()

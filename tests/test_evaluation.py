"""Every end of an objective becomes a status, and nothing that it does ends the study."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from evaluating import POINT, Share, outcome_of, processes_of, python, runner, supervised

from dngo.batch import find_outcome
from dngo.config import Objective
from dngo.evaluation.chunk import Attempts
from dngo.evaluation.command import CannotStart, command_line
from dngo.storage.digest import digest_parameters


@pytest.mark.parametrize(
    "code",
    [
        "print('loss'); print(0.25)",
        "print('{\"objective\": 0.25}')",
        "import json, os; json.dump({'objective': 0.25}, open(os.environ['DNGO_OUTCOME'], 'w')); print('bye')",
        "import json, sys; p = json.load(sys.stdin); print(p['x'] / 2)",
        "import json, os; p = json.load(open(os.environ['DNGO_PARAMETERS'])); print(p['x'] ** 2)",
    ],
)
def test_ways_to_report(code: str, tmp_path: Path) -> None:
    outcome = outcome_of(python(code), tmp_path)
    assert (outcome.status, outcome.objective, outcome.message) == ("ok", 0.25, "")
    assert outcome.parameters_digest == digest_parameters(POINT.parameters)


@pytest.mark.parametrize("cold", [True, False])
def test_full_document_and_infeasible(tmp_path: Path, cold: bool) -> None:
    report = {"objective": 2, "constraints": {"cold": cold}, "noise": 0.5, "metadata": {"a": [1]}}
    found = outcome_of(python(f"print({json.dumps(report)!r})"), tmp_path, ["cold"])
    assert (found.objective, found.noise, found.metadata) == (2.0, 0.5, {"a": [1]})
    ends = ("ok", {"cold": 1}, "") if cold else ("infeasible", {"cold": 0}, "broke cold")
    assert (found.status, found.constraints, found.message) == ends


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('nan')", "the objective is nan"),
        ("print('{\"objective\": ')", "unreadable outcome"),
        ("print('[' * 100000)", "unreadable outcome"),
        ("pass", "nothing was reported"),
        ("import os; open(os.environ['DNGO_OUTCOME'], 'wb').write(b'\\xff' * 9)", "unreadable"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n')", "unreadable outcome"),
    ],
)
def test_unreadable_reports_are_invalid(code: str, words: str, tmp_path: Path) -> None:
    outcome = outcome_of(python(code), tmp_path)
    assert outcome.status == "invalid"
    assert words in outcome.message
    assert math.isnan(outcome.objective)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('cold start'); print(1)", "exit status 1: cold start"),
        ("print(0.5); raise SystemExit(3)", "exit status 3"),
        ("raise SystemExit(127)", "exit status 127"),  # as a shell says that there is no program
        ("import os; os.kill(os.getpid(), 11)", "killed by signal 11"),
        (
            "import os; open(os.environ['DNGO_OUTCOME'], 'w').write('{\"constr'); raise SystemExit(7)",
            "exit status 7",
        ),
    ],
)
def test_failures_say_why(code: str, message: str, tmp_path: Path) -> None:
    outcome = outcome_of(python(code), tmp_path, ["hot"])
    assert (outcome.status, outcome.message, outcome.constraints) == ("failed", message, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": "/nowhere/program {x}"}, "command: '/nowhere/program' cannot"),
        ({"command": "/etc/passwd"}, "command: '/etc/passwd' cannot be started: Perm"),
        ({"command": "true", "working_directory": "/nowhere"}, "working_directory: /now"),
        ({"command": "run 'x"}, "command: No closing quotation"),
        ({"command": "true", "environment": {"A=B": "c"}}, "environment: illegal"),
        ({"callable": "no.such:f"}, "callable: 'no.such:f' cannot be imported: Mod"),
        ({"callable": "json:nothing"}, "callable: 'json:nothing' .* AttributeError"),
    ],
)
def test_what_cannot_be_started_is_no_outcome(
    given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    objective, words = Objective(**given), f"objective.{words}"
    with pytest.raises(CannotStart, match=words):
        outcome_of(objective, tmp_path)
    # Nor does it use up the attempts, whoever tries again and again.
    share = Share(tmp_path, 1)
    share.run = runner(objective, tmp_path).run  # type: ignore[method-assign]
    for _ in range(3):
        with pytest.raises(CannotStart, match=words):
            share.evaluate(attempts=Attempts("r", 2))
    assert list((tmp_path / "outcomes").iterdir()) == []
    share.run = runner(python("print(1)"), tmp_path).run  # type: ignore[method-assign]
    (outcome,) = share.evaluate(attempts=Attempts("r", 2))
    assert (outcome.status, outcome.attempts) == ("ok", 1)


def test_the_program_is_started_as_any_other(tmp_path: Path) -> None:
    """With the signals, the descriptors and the environment that it would have from a shell."""
    code = (
        "import json, os, signal\n"
        "signals = [signal.getsignal(s).name for s in (signal.SIGPIPE, signal.SIGXFSZ)]\n"
        "files = sorted(map(int, os.listdir('/proc/self/fd')))[:-1]\n"
        "mine = {k for k in os.environ if k.startswith('DNGO_')}\n"
        "print(json.dumps({'objective': 1, 'metadata': {'files': files, 'mine': sorted(mine)}}))\n"
    )
    found = outcome_of(python(code.replace("signals", "_")), tmp_path).metadata
    assert found["files"] == [0, 1, 2]
    assert found["mine"] == [
        f"DNGO_{n}" for n in ("ID", "OUTCOME", "PARAMETERS", "PROGRESS", "SEED", "STOP", "WORKDIR")
    ]
    # Python ignores SIGPIPE for itself, and what is ignored is inherited: a program must not.
    masks = outcome_of(
        Objective(command=["sh", "-c", "grep SigIgn /proc/self/status >&2; echo 1"]), tmp_path
    )
    assert masks.status == "ok"
    ignored = int((tmp_path / "err").read_text().split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def test_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    code = "import subprocess, time; subprocess.Popen(['sleep', '1000']); time.sleep(1000)"
    outcome = outcome_of(python(code, time_limit=0.5), tmp_path)
    assert outcome.status == "timeout"
    assert not processes_of(tmp_path), "a child outlived its evaluation"


def test_the_time_of_a_suspended_evaluation_does_not_count(tmp_path: Path) -> None:
    """Slurm suspends all processes of a job where a more urgent one needs its place."""
    share = Share(tmp_path, 1)
    code = (
        "import pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).touch()\n"
        "for _ in range(10): time.sleep(0.1)\n"
        "print(1)"
    )
    process = supervised(share, command=[sys.executable, "-c", code], time_limit=9)
    here = psutil.Process(process.pid)
    every = [here, *here.children(recursive=True)]
    for one in every:
        one.suspend()
    time.sleep(10)
    for one in reversed(every):
        one.resume()
    assert process.wait() == 0
    outcome = find_outcome(share.outcome_file(share.proposals[0]), share.proposals[0])
    assert outcome is not None and outcome.status == "ok", outcome
    assert 0.9 < outcome.duration < 9


def test_a_time_limit_that_is_ignored_is_enforced(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("dngo.evaluation.supervision.GRACE", 0.5)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    assert outcome_of(python(code, time_limit=0.5), tmp_path).status == "timeout"


LATE = """
import signal, sys, time
def report(*_):
    print({report}, flush=True)
    sys.exit({status})
signal.signal(signal.SIGTERM, report)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("report", "status", "expected", "message"),
    [
        ("0.25", 0, "ok", "late, but valid: stopped after 4 s"),
        ("0.25", 3, "timeout", "stopped after 4 s"),
        ("'no number'", 0, "timeout", "stopped after 4 s"),
    ],
)
def test_a_valid_report_counts_although_it_is_late(
    report: str, status: int, expected: str, message: str, tmp_path: Path
) -> None:
    slow = python(LATE.format(report=report, status=status), time_limit=4)
    outcome = outcome_of(slow, tmp_path)
    assert (outcome.status, outcome.message) == (expected, message)
    assert outcome.objective == 0.25 or expected == "timeout"


def test_memory_limit(tmp_path: Path) -> None:
    code = "x = []\nwhile True: x.append(bytearray(b'1' * 10_000_000))"
    outcome = outcome_of(python(code, memory_mb=200), tmp_path)
    assert outcome.status == "out_of_memory"
    outcome = outcome_of(python("raise MemoryError"), tmp_path)
    assert outcome.status == "out_of_memory"


def test_a_flood_of_output_is_kept_within_bounds_and_its_end_is_read(tmp_path: Path) -> None:
    code = (
        "import sys\nfor i in range(20): sys.stdout.write('x' * 1_000_000)\nprint('\\nbye\\n0.5')"
    )
    outcome = outcome_of(python(code, output_limit=4096), tmp_path)
    assert (outcome.status, outcome.objective) == ("ok", 0.5)
    kept = (tmp_path / "out").read_text()
    assert len(kept) < 4200
    assert "bytes left out" in kept
    assert kept.endswith("bye\n0.5\n")
    assert not (tmp_path / "err").exists(), "empty output leaves no file"


def test_short_output_is_kept_whole(tmp_path: Path) -> None:
    for size in (0, 512, 513, 1024):
        code = f"import sys; sys.stdout.write('{'abcdefgh' * 128}'[:{size}])"
        outcome_of(python(code, output_limit=1024), tmp_path)
        path = tmp_path / "out"
        assert (path.read_text() if path.exists() else "") == ("abcdefgh" * 128)[:size]


def test_placeholders_never_reach_a_shell(tmp_path: Path) -> None:
    show = (
        "import json, sys; print(json.dumps({'objective': 1, 'metadata': {'argv': sys.argv[1:]}}))"
    )
    objective = Objective(
        command=[sys.executable, "-c", show, "--x={x}", "{mode}", "{flag}", "{inactive}", "{id}"]
    )
    argv = outcome_of(objective, tmp_path).metadata["argv"]
    assert argv == ["--x=0.5", "a b; rm -rf $HOME", "true", "", "3-7"]
    with pytest.raises(CannotStart, match="unknown"):
        command_line(Objective(command="run {unknown}"), {"x": 1})


def test_callable_environment_directory_and_workdir(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(
        "import os\n"
        "def f(x, mode, flag):\n"
        "    print('noise on standard output')\n"
        "    return {'objective': x, 'metadata': {'v': os.environ['V'], 'cwd': os.getcwd(),\n"
        "            'workdir': os.path.isdir(os.environ['DNGO_WORKDIR'])}}\n"
    )
    objective = Objective(
        callable="problem:f", environment={"V": "42"}, working_directory=str(tmp_path)
    )
    outcome = outcome_of(objective, tmp_path)
    assert outcome.status == "ok", outcome.message
    assert outcome.metadata == {"v": "42", "cwd": str(tmp_path), "workdir": True}
    assert not (tmp_path / "work").exists()


def test_a_program_that_ignores_its_input_or_leaves_a_child_is_fine(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '1000']); print(0.5)"
    outcome = outcome_of(python(code), tmp_path)
    assert (outcome.status, outcome.objective) == ("ok", 0.5)


@pytest.mark.parametrize("end", ["raise SystemExit('diverged')", "print('half of it')"])
def test_a_run_that_crashes_may_report_the_constraints_that_it_knows(tmp_path, end) -> None:
    known = {"objective": None, "constraints": {"hot": 0}, "metadata": {"step": 3}}
    code = f"import json, os; json.dump({known!r}, open(os.environ['DNGO_OUTCOME'], 'w')); {end}"
    outcome = outcome_of(python(code), tmp_path, ["hot", "wet"])
    assert outcome.status == ("failed" if "raise" in end else "invalid")
    assert (outcome.constraints, outcome.metadata) == ({"hot": 0}, {"step": 3})
    assert math.isnan(outcome.objective) and outcome.message

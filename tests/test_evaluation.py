"""Every way an objective can end becomes its status; nothing it does ends the study."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from dngo.batch import Outcome, Proposal, find_outcome, write_outcomes
from dngo.config import Objective
from dngo.evaluation.chunk import Attempts, evaluate
from dngo.evaluation.objective import Files, JobLimit, Limits, command_line, run
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters

POINT = Proposal(3, 7, {"x": 0.5, "mode": "a b; rm -rf $HOME", "flag": True}, "test")


def python(code: str, **kwargs: Any) -> Objective:
    return Objective(command=[sys.executable, "-c", code], **kwargs)


def outcome_of(
    objective: Objective, tmp_path: Path, constraints: list[str] | None = None, **kwargs: Any
) -> Outcome:
    files = Files(tmp_path / "work", tmp_path / "out", tmp_path / "err")
    names = ["x", "mode", "flag", "inactive"]
    return run(objective, POINT, files, names=names, constraints=constraints or [], **kwargs)


# ---- the contract -------------------------------------------------------------------------------


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


def test_full_document_and_infeasible(tmp_path: Path) -> None:
    def document(cold: bool) -> Objective:
        report = {
            "objective": 2,
            "constraints": {"cold": cold},
            "noise": 0.5,
            "metadata": {"a": [1]},
        }
        return python(f"print('''{json.dumps(report)}''')")

    good = outcome_of(document(True), tmp_path, ["cold"])
    assert (good.status, good.objective, good.noise, good.metadata) == ("ok", 2.0, 0.5, {"a": [1]})
    bad = outcome_of(document(False), tmp_path, ["cold"])
    assert (bad.status, bad.constraints, bad.message) == ("infeasible", {"cold": 0}, "broke cold")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('nan')", "the objective is nan"),
        ("print('-inf')", "the objective is -inf"),
        ("print('{\"objective\": NaN}')", "nan"),
        ("print('garbage')", "unreadable outcome"),
        ("print('{\"objective\": ')", "unreadable outcome"),
        ("print('[' * 100000)", "unreadable outcome"),
        ("pass", "nothing was reported"),
        ("print('{\"objective\": true}')", "must be a number"),
        ('print(\'{"objective": "1"}\')', "must be a number"),
        ("print('{}')", "the objective is None"),
        ('print(\'{"objective": 1, "score": 2}\')', "unknown keys score"),
        ('print(\'{"objective": 1, "constraints": {"dry": true}}\')', "constraints must be"),
        ('print(\'{"objective": 1, "noise": -1}\')', "noise"),
        ("import os; open(os.environ['DNGO_OUTCOME'], 'wb').write(b'\\xff' * 9)", "unreadable"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n')", "unreadable outcome"),
    ],
)
def test_unreadable_reports_are_invalid(code: str, words: str, tmp_path: Path) -> None:
    outcome = outcome_of(python(code), tmp_path)
    assert outcome.status == "invalid"
    assert words in outcome.message
    assert math.isnan(outcome.objective)


def test_failures_say_why(tmp_path: Path) -> None:
    outcome = outcome_of(python("import sys; sys.exit('cold start'); print(1)"), tmp_path)
    assert (outcome.status, outcome.message) == ("failed", "exit status 1: cold start")
    outcome = outcome_of(python("print(0.5); raise SystemExit(3)"), tmp_path)
    assert (outcome.status, outcome.message) == ("failed", "exit status 3")
    outcome = outcome_of(python("import os; os.kill(os.getpid(), 11)"), tmp_path)
    assert (outcome.status, outcome.message) == ("failed", "killed by signal 11")
    outcome = outcome_of(Objective(command="/nowhere/program {x}"), tmp_path)
    assert outcome.status == "failed"
    assert "cannot be started" in outcome.message
    outcome = outcome_of(python("print(1)", working_directory="/nowhere"), tmp_path)
    assert outcome.status == "failed"


def test_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    mark = str(tmp_path / "alive")
    child = f"import time; time.sleep(1.5); open({mark!r}, 'w')"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(60)"
    )
    started = time.monotonic()
    outcome = outcome_of(python(code, time_limit=0.5), tmp_path)
    assert outcome.status == "timeout"
    assert time.monotonic() - started < 5
    time.sleep(1.7)
    assert not os.path.exists(mark), "a child outlived its evaluation"


def test_a_time_limit_that_is_ignored_is_enforced(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("dngo.evaluation.objective.GRACE", 0.5)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    outcome = outcome_of(python(code, time_limit=0.5), tmp_path)
    assert outcome.status == "timeout"
    assert outcome.duration < 10


def test_memory_limit(tmp_path: Path) -> None:
    code = "x = []\nwhile True: x.append(bytearray(b'1' * 10_000_000))"
    outcome = outcome_of(python(code, memory_mb=200), tmp_path)
    assert outcome.status == "out_of_memory"
    outcome = outcome_of(python("raise MemoryError"), tmp_path)
    assert outcome.status == "out_of_memory"


def test_a_flood_of_output_is_kept_within_bounds_and_its_end_is_read(tmp_path: Path) -> None:
    code = (
        "import sys\nfor i in range(100): sys.stdout.write('x' * 1_000_000)\nprint('\\nbye\\n0.5')"
    )
    outcome = outcome_of(python(code, output_limit=4096), tmp_path)
    assert (outcome.status, outcome.objective) == ("ok", 0.5)
    kept = (tmp_path / "out").read_text()
    assert len(kept) < 4200
    assert "bytes left out" in kept
    assert kept.endswith("bye\n0.5\n")
    assert not (tmp_path / "err").exists(), "empty output leaves no file"


def test_short_output_is_kept_whole(tmp_path: Path) -> None:
    for size in (0, 1, 511, 512, 513, 1023, 1024):
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
    with pytest.raises(ValueError, match="unknown"):
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
    started = time.monotonic()
    code = "import subprocess; subprocess.Popen(['sleep', '30']); print(0.5)"
    outcome = outcome_of(python(code), tmp_path)
    assert (outcome.status, outcome.objective) == ("ok", 0.5)
    assert time.monotonic() - started < 5


# ---- sharing, resuming, dying -------------------------------------------------------------------


class Share:
    """A job's share of a batch, with runs counted."""

    def __init__(self, folder: Path, size: int = 3):
        self.folder = folder
        (folder / "outcomes").mkdir(parents=True, exist_ok=True)
        (folder / "claims").mkdir(exist_ok=True)
        self.proposals = [Proposal(0, i, {"x": i / 10}, "test") for i in range(size)]
        self.runs: list[str] = []

    def outcome_file(self, proposal: Proposal) -> Path:
        return self.folder / "outcomes" / f"{proposal.slot}.json"

    def claim_file(self, proposal: Proposal) -> Path:
        return self.folder / "claims" / str(proposal.slot)

    def run_one(self, proposal: Proposal, attempts: int) -> Outcome:
        self.runs.append(proposal.id)
        return Outcome(0, proposal.slot, digest_parameters(proposal.parameters), "ok", 1.0)

    def evaluate(self, archived=lambda p: None, attempts: Attempts = Attempts()) -> list[Outcome]:
        return evaluate(
            self.proposals,
            self.outcome_file,
            self.claim_file,
            self.run_one,
            archived=archived,
            attempts=attempts,
        )


def test_what_has_an_outcome_is_never_run_again(tmp_path: Path) -> None:
    share = Share(tmp_path)
    first = share.evaluate()
    assert share.runs == ["0-0", "0-1", "0-2"]
    assert repr(share.evaluate()) == repr(first)
    share.outcome_file(share.proposals[1]).unlink()
    share.evaluate()
    assert share.runs == ["0-0", "0-1", "0-2", "0-1"]
    assert list((tmp_path / "claims").glob("[0-9]")) == []


def test_an_outcome_of_other_parameters_is_no_outcome_and_is_kept(tmp_path: Path) -> None:
    share = Share(tmp_path, 1)
    other = Outcome(0, 0, digest_parameters({"x": 0.9}), "ok", 5.0)
    write_outcomes(share.outcome_file(share.proposals[0]), [other])
    assert find_outcome(share.outcome_file(share.proposals[0]), share.proposals[0]) is None
    share.evaluate()
    assert share.runs == ["0-0"]
    assert len(list((tmp_path / "outcomes").glob("0.*.replaced.json"))) == 1


def test_what_the_archive_holds_is_handed_back(tmp_path: Path) -> None:
    share = Share(tmp_path)
    known = Outcome(0, 0, "", "failed")
    assert [o.status for o in share.evaluate(archived=lambda p: known)] == ["failed"] * 3
    assert share.runs == []


def test_a_point_with_an_owner_is_waited_for_while_the_others_run(tmp_path: Path) -> None:
    share = Share(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from dngo.storage.claim import Claim\n"
        "from dngo.batch import Outcome, write_outcomes; from dngo.storage.digest import digest_parameters\n"
        f"Claim(Path({str(tmp_path / 'claims' / '0')!r})).acquire(); print('held', flush=True); time.sleep(2)\n"
        f"write_outcomes(Path({str(tmp_path / 'outcomes' / '0.json')!r}),"
        " [Outcome(0, 0, digest_parameters({'x': 0.0}), 'ok', 7.0)])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        outcomes = share.evaluate()
    assert share.runs == ["0-1", "0-2"]
    assert outcomes[0].objective == 7.0


def test_a_point_whose_jobs_die_is_given_up_and_says_nothing(tmp_path: Path) -> None:
    share = Share(tmp_path, 2)

    def die(proposal: Proposal, attempt: int) -> Outcome:
        share.runs.append(proposal.id)
        if proposal.slot == 0:
            raise SystemExit("the node is gone")  # as far as the files can tell
        return Outcome(0, proposal.slot, digest_parameters(proposal.parameters), "ok", 1.0)

    share.run_one = die  # type: ignore[method-assign]
    for run_name in ("first", "second"):  # a new run of Snakemake has all its attempts again
        for _ in range(2):
            with pytest.raises(SystemExit):
                share.evaluate(attempts=Attempts(run=run_name, limit=2))
    outcomes = share.evaluate(attempts=Attempts(run="second", limit=2))
    assert [o.status for o in outcomes] == ["lost", "ok"]
    assert outcomes[0].attempts == 4
    assert share.runs == ["0-0"] * 4 + ["0-1"]


def test_limits_of_the_job(tmp_path: Path) -> None:
    hungry = python("x = []\nwhile True: x.append(bytearray(b'1' * 10_000_000))", time_limit=60)
    slow = python("import time; time.sleep(60)", time_limit=60)
    with pytest.raises(JobLimit) as stopped:
        outcome_of(hungry, tmp_path, limits=Limits(memory=2e8))
    assert stopped.value.outcome.status == "out_of_memory"
    with pytest.raises(JobLimit) as stopped:
        outcome_of(slow, tmp_path, limits=Limits(deadline=time.monotonic() + 0.5))
    assert stopped.value.outcome.status == "timeout"


@pytest.mark.parametrize(
    ("escalates", "before", "status", "ends"),
    [
        (False, 0, "timeout", True),  # it had the whole job and no larger one is to come
        (False, 1, "timeout", False),  # the job's time went to another point
        (True, 0, "timeout", False),  # the next job is larger
        (True, 0, "out_of_memory", False),
        (False, 1, "out_of_memory", True),
    ],
)
def test_what_the_jobs_limits_mean(
    tmp_path: Path, escalates: bool, before: int, status: str, ends: bool
) -> None:
    share = Share(tmp_path, before + 1)

    def run_one(proposal: Proposal, attempt: int) -> Outcome:
        digest = digest_parameters(proposal.parameters)
        if proposal.slot < before:
            return Outcome(0, proposal.slot, digest, "ok", 1.0)
        raise JobLimit(Outcome(0, proposal.slot, digest, status))

    share.run_one = run_one  # type: ignore[method-assign]
    attempts = Attempts(run="r", limit=3, escalates=escalates)
    if ends:
        assert share.evaluate(attempts=attempts)[-1].status == status
    else:
        with pytest.raises(JobLimit):
            share.evaluate(attempts=attempts)


RUNNER = """
import sys
from pathlib import Path
from dngo.batch import Proposal
from dngo.config import Objective
from dngo.evaluation.chunk import evaluate
from dngo.evaluation.objective import Files, Interrupted, run
folder = Path(sys.argv[1])
objective = Objective(command=["sh", "-c", "sleep 300 & echo started > {workdir}/../started; sleep 300"])
one = lambda p, n: run(objective, p, Files(folder / "work", folder / "out", folder / "err"),
                       names=["x"], constraints=[], attempts=n)
try:
    evaluate([Proposal(0, 0, {"x": 1}, "test")], lambda p: folder / "outcomes" / "0.json",
             lambda p: folder / "claims" / "0", one, archived=lambda p: None)
except Interrupted:
    sys.exit(130)
"""


def _processes_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("DNGO_WORKDIR") == str(folder / "work"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return [p for p in found if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_objective_ends_with_its_supervisor_and_leaves_no_outcome(
    tmp_path: Path, number: signal.Signals
) -> None:
    share = Share(tmp_path, 1)
    process = subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path)])
    deadline = time.monotonic() + 20
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes_of(tmp_path)
    process.send_signal(number)
    code = process.wait(timeout=20)
    assert code == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    assert not (tmp_path / "outcomes" / "0.json").exists()
    if number != signal.SIGKILL:
        assert not (tmp_path / "claims" / "0").exists()
        assert _processes_of(tmp_path) == []
    # Whoever comes next takes the point over, ends what is left of it, and counts the attempt.
    share.proposals = [Proposal(0, 0, {"x": 1}, "test")]
    attempts: list[int] = []

    def run_one(proposal: Proposal, attempt: int) -> Outcome:
        attempts.append(attempt)
        files = Files(tmp_path / "work", tmp_path / "out", tmp_path / "err")
        return run(
            python("print(1)"), proposal, files, names=["x"], constraints=[], attempts=attempt
        )

    share.run_one = run_one  # type: ignore[method-assign]
    assert share.evaluate()[0].status == "ok"
    assert attempts == [2]
    assert _processes_of(tmp_path) == []
    assert not Claim(tmp_path / "claims" / "0").owner()

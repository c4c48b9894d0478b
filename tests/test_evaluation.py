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
from dngo.evaluation.chunk import PROGRESS, Attempts, evaluate
from dngo.evaluation.command import CannotStart, command_line
from dngo.evaluation.limits import Limits
from dngo.evaluation.run import Files, JobLimit, JobOver, Runner
from dngo.evaluation.slots import slots
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters

POINT = Proposal(3, 7, {"x": 0.5, "mode": "a b; rm -rf $HOME", "flag": True}, "test")


def python(code: str, **kwargs: Any) -> Objective:
    return Objective(command=[sys.executable, "-c", code], **kwargs)


def runner(
    objective: Objective, folder: Path, constraints: list[str] | None = None, **kwargs: Any
) -> Runner:
    files = Files(folder / "work", folder / "out", folder / "err")
    names = ["x", "mode", "flag", "inactive"]
    return Runner(
        objective, names, dict.fromkeys(constraints or []), lambda proposal: files, **kwargs
    )


def outcome_of(
    objective: Objective, tmp_path: Path, constraints: list[str] | None = None, **kwargs: Any
) -> Outcome:
    one = runner(objective, tmp_path, constraints, **kwargs)
    outcome = one.run(POINT, 1)
    one.tidy(POINT)
    return outcome


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


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (Objective(command="/nowhere/program {x}"), "objective.command: '/nowhere/program' cannot"),
        (
            Objective(command="/etc/passwd"),
            "objective.command: '/etc/passwd' cannot be started: Perm",
        ),
        (
            Objective(command="true", working_directory="/nowhere"),
            "objective.working_directory: /now",
        ),
        (Objective(command="run 'x"), "objective.command: No closing quotation"),
        (Objective(command="true", environment={"A=B": "c"}), "objective.environment: illegal"),
        (
            Objective(callable="no.such:f"),
            "objective.callable: 'no.such:f' cannot be imported: Mod",
        ),
        (
            Objective(callable="json:nothing"),
            "objective.callable: 'json:nothing' .* AttributeError",
        ),
    ],
)
def test_what_cannot_be_started_is_no_outcome(
    objective: Objective, words: str, tmp_path: Path
) -> None:
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
    assert [(o.status, o.attempts) for o in share.evaluate(attempts=Attempts("r", 2))] == [
        ("ok", 1)
    ]


@pytest.mark.parametrize("number", [126, 127])
def test_a_program_that_ends_like_a_shell_without_it_is_an_outcome(
    number: int, tmp_path: Path
) -> None:
    outcome = outcome_of(python(f"raise SystemExit({number})"), tmp_path)
    assert (outcome.status, outcome.message) == ("failed", f"exit status {number}")


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
        f"DNGO_{n}" for n in ("ID", "OUTCOME", "PARAMETERS", "SEED", "WORKDIR")
    ]
    # Python ignores SIGPIPE for itself, and what is ignored is inherited: a program must not.
    masks = outcome_of(
        Objective(command=["sh", "-c", "grep SigIgn /proc/self/status >&2; echo 1"]), tmp_path
    )
    assert masks.status == "ok"
    ignored = int((tmp_path / "err").read_text().split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


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
    monkeypatch.setattr("dngo.evaluation.supervision.GRACE", 0.5)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    outcome = outcome_of(python(code, time_limit=0.5), tmp_path)
    assert outcome.status == "timeout"
    assert outcome.duration < 10


LATE = """
import signal, sys, time
def report(*_):
    print({report}, flush=True)
    sys.exit({status})
signal.signal(signal.SIGTERM, report)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("report", "status", "expected", "message"),
    [
        ("0.25", 0, "ok", "late, but valid: stopped after 1 s"),
        ("0.25", 3, "timeout", "stopped after 1 s"),
        ("'no number'", 0, "timeout", "stopped after 1 s"),
    ],
)
def test_a_valid_report_counts_although_it_is_late(
    report: str, status: int, expected: str, message: str, tmp_path: Path
) -> None:
    slow = python(LATE.format(report=report, status=status), time_limit=1)
    outcome = outcome_of(slow, tmp_path)
    assert (outcome.status, outcome.message) == (expected, message)
    assert outcome.objective == 0.25 or expected == "timeout"


def test_an_allocation_that_is_refused_in_a_small_job_may_do_in_a_larger_one(
    tmp_path: Path,
) -> None:
    refused = python("raise MemoryError")
    assert outcome_of(refused, tmp_path).status == "out_of_memory"
    with pytest.raises(JobLimit) as stopped:
        outcome_of(refused, tmp_path, limits=Limits(memory=2e8))
    assert stopped.value.outcome.status == "out_of_memory"


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

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        return None

    def tidy(self, proposal: Proposal) -> None:
        pass

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        self.runs.append(proposal.id)
        return Outcome(0, proposal.slot, digest_parameters(proposal.parameters), "ok", 1.0)

    def evaluate(self, archived=lambda p: None, attempts: Attempts = Attempts()) -> list[Outcome]:
        return evaluate(
            self.proposals,
            self.outcome_file,
            self.claim_file,
            [self],
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

    share.run = die  # type: ignore[method-assign]
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

    share.run = run_one  # type: ignore[method-assign]
    attempts = Attempts(run="r", limit=3, escalates=escalates)
    if ends:
        assert share.evaluate(attempts=attempts)[-1].status == status
    else:
        with pytest.raises(JobOver):
            share.evaluate(attempts=attempts)


# ---- side by side -------------------------------------------------------------------------------


class SideBySide(Share):
    """Points that a real objective evaluates, two at a time."""

    def __init__(self, folder: Path, number: int, code: str, **limits: float):
        super().__init__(folder, number)
        self.shares = slots(2, 1, Limits(**limits))
        self.runners = [
            Runner(
                python(code, environment=slot.environment),
                ["x"],
                {},
                lambda p: Files(folder / f"work{p.slot}", folder / f"{p.slot}.out", folder / f"{p.slot}.err"),
                limits=slot.limits,
                cpus=slot.cpus,
            )
            for slot in self.shares
        ]  # fmt: skip

    def evaluate_all(self, **kwargs: Any) -> list[Outcome]:
        return evaluate(
            self.proposals,
            self.outcome_file,
            self.claim_file,
            self.runners,
            archived=lambda p: None,
            **kwargs,
        )


def test_points_side_by_side_have_their_shares(tmp_path: Path) -> None:
    code = (
        "import json, os, time; began = time.time(); time.sleep(1)\n"
        "seen = [began, time.time(), sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS']]\n"
        "print(json.dumps({'objective': int(os.environ['DNGO_ID'][-1]), 'metadata': {'seen': seen}}))"
    )
    share = SideBySide(tmp_path, 4, code, memory=4e8)
    outcomes = share.evaluate_all()
    assert [o.objective for o in outcomes] == [0, 1, 2, 3]
    seen = [o.metadata["seen"] for o in outcomes]
    assert most_at_once([s[:2] for s in seen]) == 2
    assert {s[3] for s in seen} == {"1"}
    if len(os.sched_getaffinity(0)) >= 2:
        assert {tuple(s[2]) for s in seen} == {tuple(slot.cpus) for slot in share.shares}
        assert all(len(slot.cpus) == 1 for slot in share.shares)
    assert [slot.limits.memory for slot in share.shares] == [2e8, 2e8]
    assert list((tmp_path / "claims").glob("[0-9]")) == []


def most_at_once(spans: list[list[float]]) -> int:
    return max(sum(b <= began < e for b, e in spans) for began, _ in spans)


def test_gpus_are_shared_by_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,6,7")
    two, eight = slots(2, 1, Limits()), slots(8, 1, Limits())
    assert [s.environment["CUDA_VISIBLE_DEVICES"] for s in two] == ["2,3", "6,7"]
    assert [s.environment["CUDA_VISIBLE_DEVICES"] for s in eight] == ["2", "3", "6", "7"] * 2
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "64")
    assert len(slots("auto", 4, Limits())) == 16


def test_when_the_job_is_over_what_runs_is_seen_to_its_end(tmp_path: Path) -> None:
    """Nothing is started without time for it; a job that evaluated some says so."""
    share = SideBySide(tmp_path, 4, "import time; time.sleep(.5); print(1)")
    needed: list[float] = []
    with pytest.raises(JobOver, match=f"no time for another point; [12] {PROGRESS}"):
        share.evaluate_all(has_time=lambda longest: needed.append(longest) is not None)
    assert all(longest >= 0.5 for longest in needed)
    done = [p for p in share.proposals if find_outcome(share.outcome_file(p), p)]
    assert [p.slot for p in done] == [0, 1]
    assert [o.status for o in share.evaluate_all()] == ["ok"] * 4


RUNNER = """
import json, sys
from pathlib import Path
from dngo.batch import Proposal
from dngo.config import Objective
from dngo.evaluation.chunk import evaluate
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.supervision import Interrupted
folder = Path(sys.argv[1])
one = Runner(Objective(**json.loads(sys.argv[2])), ["x"], {},
             lambda p: Files(folder / "work", folder / "out", folder / "err"))
try:
    evaluate([Proposal(0, 0, {"x": 1}, "test")], lambda p: folder / "outcomes" / "0.json",
             lambda p: folder / "claims" / "0", [one], archived=lambda p: None)
except Interrupted:
    sys.exit(130)
"""


def supervised(share: Share, **objective: Any) -> subprocess.Popen[bytes]:
    """A process that evaluates the one point of a share, once its objective has begun."""
    words = [sys.executable, "-c", RUNNER, str(share.folder), json.dumps(objective)]
    share.proposals = [Proposal(0, 0, {"x": 1}, "test")]
    process = subprocess.Popen(words)
    deadline = time.monotonic() + 60
    while not (share.folder / "started").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)
    return process


def again(share: Share, objective: Objective, **kwargs: Any) -> Outcome:
    """The outcome of the same point, from whoever comes next."""
    share.run, share.adopt, share.tidy = (  # type: ignore[method-assign]
        getattr(runner(objective, share.folder, **kwargs), n) for n in ("run", "adopt", "tidy")
    )
    return share.evaluate()[0]


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
    code = f"import time; open({str(tmp_path / 'started')!r}, 'w'); time.sleep(300)"
    process = supervised(share, command=[sys.executable, "-c", code])
    assert _processes_of(tmp_path)
    process.send_signal(number)
    code_of = process.wait(timeout=20)
    assert code_of == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    assert not (tmp_path / "outcomes" / "0.json").exists()
    time.sleep(0.2)
    assert _processes_of(tmp_path) == []
    assert (tmp_path / "claims" / "0").exists() == (number == signal.SIGKILL)
    # Whoever comes next takes the point over, and counts the attempt.
    outcome = again(share, python("print(1)"))
    assert (outcome.status, outcome.attempts) == ("ok", 2)
    assert not Claim(tmp_path / "claims" / "0").owner()


WRAPPED = """
echo . >> {folder}/runs; touch {folder}/started; sleep 1.5
echo '{{"objective": 0.5}}' > $DNGO_OUTCOME.tmp; mv $DNGO_OUTCOME.tmp $DNGO_OUTCOME
"""
WRAPPERS = {
    "script": ["bash", "-c", "bash {folder}/program.sh; true"],
    "double fork": ["bash", "-c", "(bash {folder}/program.sh &) ; sleep 60"],
    "session": ["bash", "-c", "setsid bash {folder}/program.sh & sleep 60"],
    "other environment": [
        "bash",
        "-c",
        "env -i PATH=$PATH DNGO_OUTCOME=$DNGO_OUTCOME bash {folder}/program.sh; true",
    ],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("late", [False, True])
def test_what_goes_on_under_a_wrapper_is_waited_for_and_adopted(
    tmp_path: Path, wrapper: str, late: bool
) -> None:
    (tmp_path / "program.sh").write_text(WRAPPED.format(folder=tmp_path))
    share = Share(tmp_path, 1)
    command = [w.format(folder=tmp_path) for w in WRAPPERS[wrapper]]
    process = supervised(share, command=command)
    process.kill()  # the kernel ends the wrapper with it, and not the program
    process.wait()
    if late:
        time.sleep(2.5)
    outcome = again(share, Objective(command=command))
    assert (outcome.status, outcome.objective, outcome.attempts) == ("ok", 0.5, 1)
    assert "adopted" in outcome.message
    assert (tmp_path / "runs").read_text() == ".\n"
    assert _processes_of(tmp_path) == []
    assert not (tmp_path / "work").exists()


def test_what_goes_on_keeps_to_its_limits_and_what_it_leaves_unfinished_is_run_again(
    tmp_path: Path,
) -> None:
    share = Share(tmp_path, 1)
    started = f"touch {tmp_path}/started"
    command = ["bash", "-c", f"bash -c '{started}; sleep 60'; true"]
    process = supervised(share, command=command)
    process.kill()
    process.wait()
    begun = time.monotonic()
    assert again(share, Objective(command=command, time_limit=2)).status == "timeout"
    assert time.monotonic() - begun < 10 and _processes_of(tmp_path) == []
    for name in ("started", "outcomes/0.json"):
        (tmp_path / name).unlink()
    half = (
        f"""bash -c 'echo -n "{{\\"objective\\": 0." > $DNGO_OUTCOME; {started}; sleep 1'; true"""
    )
    process = supervised(share, command=["bash", "-c", half])
    process.kill()
    process.wait()
    outcome = again(share, python("print(7)"))
    assert (outcome.objective, outcome.attempts) == (7.0, 3)


def test_what_a_dead_supervisor_had_seen_counts_and_what_failed_does_not(tmp_path: Path) -> None:
    for status, code in (("ok", "print(3)"), ("failed", "raise SystemExit(3)")):
        share = Share(tmp_path / status, 1)
        (point,) = share.proposals = [Proposal(0, 0, {"x": 1}, "test")]
        write = "import os; open(os.environ['DNGO_OUTCOME'], 'w').write('{\"objective\": 3}\\n');"
        outcome = runner(python(write + code), share.folder).run(point, 1)  # and killed just then
        assert outcome.status == status
        assert repr(again(share, python("print(4)"))) == repr(outcome)
    other = Share(tmp_path / "other", 1)
    runner(python("print(3)"), other.folder).run(Proposal(0, 0, {"x": 2}, "test"), 1)
    other.proposals = [Proposal(0, 0, {"x": 1}, "test")]
    assert again(other, python("print(4)")).objective == 4.0, "the outcome of other parameters"


def test_what_a_takeover_ends_is_no_fact_about_the_point(tmp_path: Path) -> None:
    """A supervisor whose claim was taken over leaves the point to the one that took it."""
    share = Share(tmp_path, 1)
    (point,) = share.proposals
    path = tmp_path / "claims" / "0"

    def run(proposal: Proposal, attempts: int) -> Outcome:
        owner = {"host": "elsewhere", "boot": "b", "namespace": "n", "pid": 1, "token": "t"}
        path.write_text(json.dumps(owner))
        digest = digest_parameters(point.parameters)
        write_outcomes(tmp_path / "outcomes" / "0.json", [Outcome(0, 0, digest, "ok", 5.0)])
        return Outcome(0, 0, digest, "failed", message="killed by signal 9")

    share.run = run  # type: ignore[method-assign]
    assert share.evaluate()[0].objective == 5.0


def test_starts_are_read_whatever_lies_there(tmp_path: Path) -> None:
    share = Share(tmp_path, 1)
    starts = tmp_path / "claims" / "0.starts"
    starts.write_bytes(b"r 1.5 host 7\n\n   \nr\nr x host 7\n\xff\x00 9\nr 2.5 host")
    share.run = runner(python("print(1)"), tmp_path).run  # type: ignore[method-assign]
    assert share.evaluate(attempts=Attempts("r", 3))[0].attempts == 2
    assert starts.read_bytes().startswith(b"r 1.5 host 7\n")
    (tmp_path / "outcomes" / "0.json").unlink()
    assert share.evaluate(attempts=Attempts("r", 3))[0].attempts == 3

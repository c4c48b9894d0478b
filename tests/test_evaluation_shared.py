"""Points that several jobs, slots and runs share: each is evaluated once, whoever dies on the way."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from evaluating import (
    Share,
    SideBySide,
    again,
    outcome_of,
    processes_of,
    python,
    runner,
    supervised,
)
from waiting import until

from dngo.batch import Outcome, Proposal, find_outcome, write_outcomes
from dngo.config import Objective
from dngo.evaluation.chunk import PROGRESS, Attempts
from dngo.evaluation.limits import Bounds, Limits
from dngo.evaluation.run import Files, JobLimit, JobOver, Runner
from dngo.evaluation.slots import slots
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters


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
        "import sys; from pathlib import Path; from dngo.storage.claim import Claim\n"
        "from dngo.batch import Outcome, write_outcomes; from dngo.storage.digest import digest_parameters\n"
        f"Claim(Path({str(tmp_path / 'claims' / '0')!r})).acquire(); print('held', flush=True); sys.stdin.readline()\n"
        f"write_outcomes(Path({str(tmp_path / 'outcomes' / '0.json')!r}),"
        " [Outcome(0, 0, digest_parameters({'x': 0.0}), 'ok', 7.0)])\n"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdin is not None
        owner.stdout.readline()
        run = share.run

        def release(proposal: Proposal, attempts: int) -> Outcome:
            if proposal.slot == 2:  # all others have run
                owner.stdin.close()
            return run(proposal, attempts)

        share.run = release  # type: ignore[method-assign]
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
    hungry = python("x = []\nwhile True: x.append(bytearray(b'1' * 10_000_000))", time_limit=600)
    slow = python("import time; time.sleep(1000)", time_limit=600)
    with pytest.raises(JobLimit) as stopped:
        outcome_of(hungry, tmp_path, limits=Limits(memory=2e8))
    assert stopped.value.outcome.status == "out_of_memory"
    with pytest.raises(JobLimit) as stopped:
        outcome_of(slow, tmp_path, limits=Limits(deadline=time.monotonic() + 0.5))
    assert stopped.value.outcome.status == "timeout" and not stopped.value.goes_on


def test_a_point_whose_checkpoint_grew_goes_on_in_the_next_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site cut the time of its job. What it had computed is kept."""
    code = (
        "import os, time; place = os.environ['DNGO_CHECKPOINT'] + '/state'\n"
        "if os.path.exists(place): print(7)\n"
        "else: open(place, 'w').close(); open('saved', 'w').close(); time.sleep(1000)"
    )
    files = Files(tmp_path / "work", tmp_path / "out", tmp_path / "err", tmp_path / "checkpoint")
    files.checkpoint.mkdir()  # type: ignore[union-attr]
    objective = python(code, working_directory=str(tmp_path))
    cut = "Slurm gave it 1 of the 5 minutes in resources.evaluate.runtime"

    saved = tmp_path / "saved"
    # Time runs out once the program has saved its state.
    monkeypatch.setattr(
        Bounds, "deadline", property(lambda self: 0.0 if saved.exists() else math.inf)
    )
    share = Share(tmp_path / "share", 1)
    for limits, ends in ((Limits(deadline=1e12, cut=cut), False), (Limits(), True)):
        one = Runner(objective, ["x"], {}, lambda p: files, limits=limits)
        share.run = one.run  # type: ignore[method-assign]
        attempts = Attempts(run="r", limit=3)
        if ends:
            (outcome,) = share.evaluate(attempts=attempts)
            assert (outcome.status, outcome.objective, outcome.attempts) == ("ok", 7.0, 2)
        else:
            with pytest.raises(JobOver, match=r"its job ran out of time .Slurm gave it 1 of the 5"):
                share.evaluate(attempts=attempts)
            saved.unlink()


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


def together(folder: Path) -> str:
    """Python that ends when both points of a pair, 0-0 and 0-1 or 0-2 and 0-3, have begun."""
    return (
        f"place, name = {str(folder / 'began')!r}, os.environ['DNGO_ID']; open(place + name, 'w')\n"
        "while not os.path.exists(place + '0-' + str(int(name[-1]) ^ 1)): time.sleep(0.01)"
    )


def test_points_side_by_side_have_their_shares(tmp_path: Path) -> None:
    code = (
        f"import json, os, time; began = time.time(); {together(tmp_path)}\n"
        "seen = [began, time.time(), sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS']]\n"
        "print(json.dumps({'objective': int(os.environ['DNGO_ID'][-1]), 'metadata': {'seen': seen}}))"
    )
    share = SideBySide(tmp_path, 4, code, memory=4e8)
    outcomes = share.evaluate_all()
    assert [o.objective for o in outcomes] == [0, 1, 2, 3]
    seen = [o.metadata["seen"] for o in outcomes]
    assert max(sum(b <= began < e for b, e, *_ in seen) for began, *_ in seen) == 2
    assert {s[3] for s in seen} == {"1"}
    if len(os.sched_getaffinity(0)) >= 2:
        assert {tuple(s[2]) for s in seen} == {tuple(slot.cpus) for slot in share.shares}
        assert all(len(slot.cpus) == 1 for slot in share.shares)
    assert [slot.limits.memory for slot in share.shares] == [2e8, 2e8]
    assert list((tmp_path / "claims").glob("[0-9]")) == []


def test_gpus_are_shared_by_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,6,7")
    two, eight = slots(2, 1, Limits()), slots(8, 1, Limits())
    assert [s.environment["CUDA_VISIBLE_DEVICES"] for s in two] == ["2,3", "6,7"]
    assert [s.environment["CUDA_VISIBLE_DEVICES"] for s in eight] == ["2", "3", "6", "7"] * 2
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "64")
    assert len(slots("auto", 4, Limits())) == 16


def test_when_the_job_is_over_what_runs_is_seen_to_its_end(tmp_path: Path) -> None:
    """Nothing is started without time for it; a job that evaluated some says so."""
    share = SideBySide(tmp_path, 4, f"import os, time; {together(tmp_path)}\nprint(1)")
    needed: list[float] = []
    with pytest.raises(JobOver, match=f"no time for another point; [12] {PROGRESS}"):
        share.evaluate_all(has_time=lambda longest: needed.append(longest) is not None)
    assert all(longest > 0 for longest in needed)
    done = [p for p in share.proposals if find_outcome(share.outcome_file(p), p)]
    assert [p.slot for p in done] == [0, 1]
    assert [o.status for o in share.evaluate_all()] == ["ok"] * 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_objective_ends_with_its_supervisor_and_leaves_no_outcome(
    tmp_path: Path, number: signal.Signals
) -> None:
    share = Share(tmp_path, 1)
    code = f"import time; open({str(tmp_path / 'started')!r}, 'w'); time.sleep(300)"
    process = supervised(share, command=[sys.executable, "-c", code])
    assert processes_of(tmp_path)
    process.send_signal(number)
    code_of = process.wait()
    assert code_of == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    assert not (tmp_path / "outcomes" / "0.json").exists()
    until(lambda: not processes_of(tmp_path))
    assert (tmp_path / "claims" / "0").exists() == (number == signal.SIGKILL)
    # Whoever comes next takes the point over, and counts the attempt.
    outcome = again(share, python("print(1)"))
    assert (outcome.status, outcome.attempts) == ("ok", 2)
    assert not Claim(tmp_path / "claims" / "0").owner()


WRAPPED = """
echo . >> {folder}/runs; touch {folder}/started; while [ ! -e {folder}/go ]; do sleep 0.05; done
echo '{{"objective": 0.5}}' > $DNGO_OUTCOME.tmp; mv $DNGO_OUTCOME.tmp $DNGO_OUTCOME; touch {folder}/wrote
"""
BARE = "env -i PATH=$PATH DNGO_OUTCOME=$DNGO_OUTCOME"
WRAPPERS = {
    "script": ["bash", "-c", "bash {folder}/program.sh; true"],
    "double fork": ["bash", "-c", "(bash {folder}/program.sh &) ; sleep 60"],
    "session": ["bash", "-c", "setsid bash {folder}/program.sh & sleep 60"],
    "other environment": ["bash", "-c", f"{BARE} bash {{folder}}/program.sh; true"],
}


@pytest.mark.parametrize(
    ("wrapper", "late"), [*((wrapper, False) for wrapper in WRAPPERS), ("script", True)]
)
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
        (tmp_path / "go").touch()
        until((tmp_path / "wrote").exists)
    else:
        threading.Timer(0.5, (tmp_path / "go").touch).start()
    outcome = again(share, Objective(command=command))
    assert (outcome.status, outcome.objective, outcome.attempts) == ("ok", 0.5, 1)
    assert "adopted" in outcome.message
    assert (tmp_path / "runs").read_text() == ".\n"
    assert processes_of(tmp_path) == []
    assert not (tmp_path / "work").exists()


def test_what_goes_on_keeps_to_its_limits_and_what_it_leaves_unfinished_is_run_again(
    tmp_path: Path,
) -> None:
    share = Share(tmp_path, 1)
    started = f"touch {tmp_path}/started"
    command = ["bash", "-c", f"bash -c '{started}; sleep 1000'; true"]
    process = supervised(share, command=command)
    process.kill()
    process.wait()
    assert again(share, Objective(command=command, time_limit=2)).status == "timeout"
    assert processes_of(tmp_path) == []
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

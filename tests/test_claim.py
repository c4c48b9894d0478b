"""A claim has one owner, and ends with it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import refusing
from needs import mounted
from waiting import until

from dngo.errors import UserError
from dngo.storage import claim as module
from dngo.storage.claim import Claim
from dngo.storage.processes import host

HOLD = """
import sys, time
from pathlib import Path
from dngo.storage.claim import Claim
assert Claim(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_owner_until_it_is_released(tmp_path: Path) -> None:
    first, second = Claim(tmp_path / "c"), Claim(tmp_path / "c")
    assert first.acquire()
    assert not second.acquire()
    with pytest.raises(TimeoutError, match=f"process {os.getpid()} on"):
        second.wait(0.3, "it")
    first.release()
    assert second.acquire()
    first.release()  # not its claim any more
    assert not first.acquire()
    second.release()
    assert list(tmp_path.iterdir()) in ([], [tmp_path / ".takeover"])


def test_a_dead_owner_on_this_host_is_succeeded_at_once(tmp_path: Path) -> None:
    process = holder(tmp_path / "c")
    claim = Claim(tmp_path / "c")
    assert not claim.acquire()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert claim.acquire()


def test_a_step_of_the_clock_kills_no_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot time is the clock minus the time since then, so it moves if the clock is set."""
    process = holder(tmp_path / "c")
    try:
        boot = psutil.boot_time()
        for step in (-3600.0, 5.0, 3600.0):
            monkeypatch.setattr("psutil._pslinux.boot_time", lambda step=step: boot + step)
            monkeypatch.setattr(time, "time", lambda now=time.time, step=step: now() + step)
            assert not Claim(tmp_path / "c").acquire()
    finally:
        process.kill()
        process.wait()
    assert Claim(tmp_path / "c").acquire()


def test_a_claim_of_an_earlier_release_is_kept_while_its_process_lives(tmp_path: Path) -> None:
    owner = {**host(), "pid": os.getpid(), "started": time.time(), "token": "t"}
    (tmp_path / "c").write_text(json.dumps(owner))
    assert not Claim(tmp_path / "c").acquire()
    (tmp_path / "c").write_text(json.dumps({**owner, "pid": 2**22 + 1}))
    assert Claim(tmp_path / "c").acquire()


def _contend(path: str, together, queue) -> None:
    claim = Claim(Path(path))
    together.wait()
    queue.put(claim.acquire())
    together.wait()  # alive until all have tried


def test_many_heirs_one_successor(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for i in range(3):
        path = tmp_path / f"c{i}"
        dead = holder(path)
        dead.kill()
        dead.wait()
        queue, together = context.Queue(), context.Barrier(8)
        heirs = [
            context.Process(target=_contend, args=(str(path), together, queue)) for _ in range(8)
        ]
        for heir in heirs:
            heir.start()
        assert sum(queue.get() for _ in heirs) == 1
        for heir in heirs:
            heir.join()


def test_a_silent_owner_elsewhere_is_succeeded_and_a_beating_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    monkeypatch.setattr(module, "SILENCE", 0.5)
    owner = {"host": "elsewhere", "boot": "b", "namespace": "n", "pid": 1, "token": "t"}
    path.write_text(json.dumps(owner))
    claim = Claim(path)
    assert claim.elsewhere
    for _ in range(8):  # its heart beats: however long we wait, it is alive
        os.utime(path)
        assert not claim.acquire()
        time.sleep(0.1)
    time.sleep(0.6)
    assert claim.acquire()


def test_a_heart_beats_for_all_claims_that_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT", 0.05)
    monkeypatch.setattr(module._Heart, "_thread", None)
    claims = [Claim(tmp_path / name) for name in "ab"]
    assert all(claim.acquire() for claim in claims)
    for claim in claims:
        os.utime(claim.path, (0, 0))
    until(lambda: all(claim.path.stat().st_mtime > 0 for claim in claims))
    claims[0].release()
    assert not claims[0].path.exists() and claims[1].path.exists()
    claims[1].release()


def test_an_owner_is_not_dead_because_the_disk_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the owner cannot show its heartbeat. A waiting process must not take over once the
    disk is back."""
    with mounted(tmp_path / "disk") as disk:
        monkeypatch.setattr(module, "SILENCE", 0.5)
        owner = {"host": "elsewhere", "boot": "b", "namespace": "n", "pid": 1, "token": "t"}
        (disk / "c").write_text(json.dumps(owner))
        claim = Claim(disk / "c")
        assert not claim.acquire()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for _ in range(8):
            with pytest.raises(OSError, match="Read-only"):
                claim.acquire()
            time.sleep(0.1)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        assert not claim.acquire()
        time.sleep(0.6)
        assert claim.acquire()
        claim.release()


def test_a_claim_is_held_although_its_scratch_file_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim(tmp_path / "claim")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *a, **k: (_ for _ in ()).throw(OSError("refused")))
        assert claim.acquire()
    claim.release()
    assert Claim(tmp_path / "claim").acquire()


CONTEND = """
import sys, time
from pathlib import Path
from dngo.storage.claim import Claim
claim = Claim(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
won = claim.acquire()
print(int(won), flush=True)
sys.stdin.readline()
if won:
    claim.release()
"""


@pytest.mark.usefixtures("refused_calls")
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK])
def test_a_file_system_without_hard_links_has_one_owner_too(tmp_path: Path, number: int) -> None:
    words = [*refusing.words(number, "link", "linkat"), sys.executable, "-c", CONTEND]
    path = tmp_path / "c"
    for dead in (False, True):
        if dead:
            path.write_text(json.dumps({**host(), "pid": 2**22 + 1, "ticks": 1, "token": "t"}))
        heirs = [
            subprocess.Popen(
                [*words, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        for go, expected in ("", {"ready"}), ("go\n", {"0", "1"}):
            for heir in heirs:
                assert heir.stdin is not None
                heir.stdin.write(go)
                heir.stdin.flush()
            told = [heir.stdout.readline().strip() for heir in heirs if heir.stdout]
            assert set(told) == expected
        assert told.count("1") == 1
        assert json.loads(path.read_text())["pid"] == heirs[told.index("1")].pid
        for heir in heirs:
            heir.communicate("\n")
        assert not path.exists()
    assert [p.name for p in tmp_path.iterdir()] == [".takeover"]


def test_an_owner_that_died_before_it_wrote_its_name_is_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without links a claim exists before it names its owner."""
    monkeypatch.setattr(module, "SILENCE", 0.5)
    (tmp_path / "c").touch()
    claim = Claim(tmp_path / "c")
    assert not claim.acquire()
    time.sleep(0.6)
    assert claim.acquire()


def test_a_pipe_where_a_claim_is_kept_is_named_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "claim")
    with pytest.raises(UserError, match=r"claim: a claim is kept there, and it is no regular file"):
        Claim(tmp_path / "claim").acquire()

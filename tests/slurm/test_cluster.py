"""That the tests' own cluster is a real one, and comes back from what the tests do to it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from needs import MACHINE, missing
from waiting import until

from .cluster import SCRIPTS, Cluster


def test_after_a_reset_numbers_that_were_given_before_are_good_again(cluster: Cluster) -> None:
    """A node that never heard of a job's end starts no other job of that number."""

    def lose_state() -> None:
        cluster.stop("slurmctld", signal.SIGKILL)
        for path in (cluster.folder / "state" / "slurmctld").glob("job_state*"):
            path.unlink()

    lose_state()
    cluster.up()  # the next job is number 1, as after the second loss
    before = cluster.submit("sleep 2", "--nodelist=node1")
    cluster.wait([before], states={"R"})
    lose_state()
    time.sleep(3)  # the job ends, and nobody is there to say so to its node
    cluster.reset()
    job = cluster.submit("exit 3", "--nodelist=node1")
    assert job == before
    assert cluster.wait([job]) == {job: "F"}


def test_up_waits_for_another_apt_down_stops_everything_and_up_resumes(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The real apt, on lists of its own, where nothing is installed that is there already."""
    apt = tmp_path / "apt.conf"
    apt.write_text(
        f'Dir::State::lists "{tmp_path}/lists";\n'
        'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n'
    )
    (tmp_path / "lists").mkdir()
    missing = tmp_path / "dpkg-query"
    missing.write_text("#!/bin/sh\nexit 1\n")
    missing.chmod(0o755)
    other = Cluster(Path("/tmp") / f"dngo-slurm-{os.getpid()}")
    before = dict(other.environment)
    other.environment |= {"APT_CONFIG": str(apt), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    try:
        with (tmp_path / "lists" / "lock").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            refused = r"status 1: slurm/up: another apt .*Could not get"
            with pytest.raises(RuntimeError, match=refused):
                other.up("--patience", "1")
            release = threading.Timer(3, fcntl.lockf, (lock, fcntl.LOCK_UN))
            release.start()
            try:
                other.up("--nodes", "1", "--cpus", "2", "--prefix", "other")
                assert not release.is_alive()
            finally:
                release.join()
        other.environment = before
        assert other.nodes == {"other1": "idle"}
        mark = tmp_path / "running"
        job = other.submit(f"trap '' TERM; touch {mark}; sleep 345 & sleep 345; wait")
        other.wait([job], states={"R"})
        until(mark.exists)
        pids = [int(path.read_text()) for path in (other.folder / "pid").iterdir()]
        other.down()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        marks = [f"SLURM_CONF={other.folder}/slurm.conf".encode(), f"SLURM_JOB_ID={job}".encode()]
        assert not any(all(m in words for m in marks) for words in environments())
        other.up()
        assert other.nodes == {"other1": "idle"}
        assert len(cluster.nodes) == 4  # the other cluster never noticed
    finally:
        other.down("--purge")
    assert not other.folder.exists()


def environments() -> list[set[bytes]]:
    """The environment of every process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(set(path.read_bytes().split(b"\0")))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the folder"),
        (["--speed"], "unknown option --speed"),
        (["/tmp/a", "/tmp/b"], "give one folder"),
        (["/tmp/a b"], "cannot hold the path"),
        (["/tmp/a", "--nodes", "0"], "whole numbers"),
        (["/tmp/a", "--prefix", "9"], "lower-case letters"),
        (["/tmp/a", "--patience", "long"], "whole number"),
    ],
)
def test_up_explains_its_refusal(words: list[str], message: str) -> None:
    if os.getuid():
        missing(f"{MACHINE}runs the tests as another user than root")
    result = subprocess.run([SCRIPTS / "up", *words], capture_output=True, text=True)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_up_needs_root(tmp_path: Path) -> None:
    user = {} if os.getuid() else {"user": 65534, "group": 65534, "extra_groups": []}
    result = subprocess.run(
        ["bash", "-s", str(tmp_path / "x")],
        input=(SCRIPTS / "up").read_text(),
        capture_output=True,
        text=True,
        cwd="/",
        **user,
    )
    assert result.returncode == 77
    assert "only root" in result.stderr


def test_down_leaves_other_folders_alone(tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.touch()
    result = subprocess.run([SCRIPTS / "down", tmp_path, "--purge"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "is no folder of a cluster" in result.stderr
    assert keep.exists()

"""`dngo check --cluster`: what Slurm takes, and what one job finds on a node, before anything is paid for."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from waiting import until

from .cluster import Cluster
from .study import SlurmStudy


def check(toy: SlurmStudy, *options: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "dngo", "check", "config.yaml", "--cluster", *options]
    return subprocess.Popen(
        words,
        cwd=toy.folder,
        env=toy.cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@contextlib.contextmanager
def untouched(toy: SlurmStudy) -> Iterator[None]:
    """Nothing of the study runs, and nothing is left behind."""
    before = {path: path.stat().st_mtime_ns for path in toy.results.rglob("*")}
    yield
    assert {path: path.stat().st_mtime_ns for path in toy.results.rglob("*")} == before
    assert not toy.events("start")
    assert not list(Path(toy.folder).glob(".snakemake/slurm_logs/*"))


def test_each_rule_is_tested_and_one_job_says_what_it_finds(study, cluster: Cluster) -> None:
    toy = study(designed=False, iterations=1)
    with untouched(toy):
        process = check(toy)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        for rules in ("evaluate", "fit and propose"):
            assert re.search(rf"^{rules} +Slurm takes such a job", output, re.M), output
        number = int(re.search(r"^probe +job (\d+)", output, re.M)[1])
        assert re.search(r"^  name +[0-9a-f-]+|^  name +dngo", output, re.M), output
        for what in ("comment", "account, partition", "time", "memory, CPUs", "temporary files"):
            assert re.search(rf"^  {what} +\S", output, re.M), what
        assert re.search(r"^  Python +3\.\S+ on node\d", output, re.M), output
        assert re.search(r"^  clock +differs by [0-5] s", output, re.M), output
        assert re.search(r"^  folder .*seen, and can be written", output, re.M), output
        assert cluster.squeue("--states=all").keys() >= {number}


def test_a_rule_that_slurm_refuses_is_named_and_no_job_starts(study, cluster: Cluster) -> None:
    toy = study(designed=False, resources={"evaluate": {"slurm_partition": "no_such"}})
    with untouched(toy):
        process = check(toy)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 1
        assert re.search(r"^evaluate +refused: .*slurm_partition of evaluate", output, re.M), output
        assert "Traceback" not in output and "probe" not in output


def test_a_probe_that_waits_says_for_what_and_ctrl_c_cancels_it(study, cluster: Cluster) -> None:
    toy = study(designed=False, resources={"evaluate": {"slurm_extra": "--begin=now+1hour"}})
    with untouched(toy):
        process = check(toy)
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if "waits: BeginTime" in line:
                break
        number = int(re.search(r"^probe +job (\d+)", seen, re.M)[1])
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 130 and f"job {number} cancelled" in output, seen + output
        until(lambda: cluster.squeue("--states=all").get(number) in ("CA", None, "CANCELLED"))


def test_a_profile_without_slurm_starts_nothing(study, cluster: Cluster) -> None:
    toy = study(designed=False)
    with untouched(toy):
        process = check(toy, "profiles/default")
        output, _ = process.communicate(timeout=600)
        assert process.returncode != 0 and "does not say `executor: slurm`" in output, output

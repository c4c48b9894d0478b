"""A small study on the tests' cluster, started as a user starts it, with an objective that can misbehave.

Each evaluation writes a line when it starts and one when it ends, as proof of what was evaluated.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from toy import BRIEF, FEW

from dngo.archive import read_table, verify
from dngo.config import load
from dngo.study import Study

from .cluster import Cluster
from .starter import Run

ROOT = Path(__file__).resolve().parents[2]

# What a point does is written in a file beside it, by its number: a test sets the fault there.
OBJECTIVE = """
import json, os, sys, time
point = os.environ["DNGO_ID"]
p = json.load(sys.stdin)
def note(word):
    with open("events.txt", "a") as stream:
        job = os.environ.get("SLURM_JOB_ID", "-")
        stream.write(f"{word} {point} {job} {time.time():.3f}" + chr(10))
note("start")
try:
    action = json.load(open("actions.json")).get(point, 0.0)
except FileNotFoundError:
    action = 0.0
if action == "exit":
    note("end")
    sys.exit(1)
if action == "memory":
    hog = bytearray(900 * 10**6)
    action = 1.0
if isinstance(action, str):  # until this file is there
    while not os.path.exists(action):
        time.sleep(0.1)
    action = 0.0
time.sleep(action)
note("end")
print((p["x"] - 0.3) ** 2)
"""

# Snakemake with less patience than a real site needs.
HURRIED = """
from dngo.workflow.slurm import calls, executor, reasons, submitting
calls.SLOW, calls.LIMIT, calls.LONGEST_LIMIT = 2, 4, 4
reasons.PATIENCE, reasons.STAYS_FOR, submitting.PAUSE, executor.SILENCE = 5, 2, 1.0, 6
"""


class SlurmStudy:
    """A study in its own folder, with its configuration and its results."""

    def __init__(self, folder: Path, cluster: Cluster, **config: Any):
        self.folder, self.cluster = folder, cluster
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "objective.py").write_text(OBJECTIVE)
        (folder / "actions.json").write_text("{}")
        # `snakemake --profile slurm` finds the Snakefile, the rules and the profile as in a clone.
        for name in ("Snakefile", "rules", "scripts", "dngo", "envs", "profiles", "slurm"):
            (folder / name).symlink_to(ROOT / name)
        self.config: dict[str, Any] = {
            "study": "toy",
            "objective": {"command": "{python} objective.py"},
            "space": {"x": {"type": "float", "low": 0, "high": 1}},
            "design": {"size": 4},
            "iterations": 0,
            "batch_size": 4,
            "points_per_job": 2,
            "surrogate": {"networks": {"steps": 50, "epochs": 1}, "hyperparameter_samples": 3},
            "acquisition": FEW,
        }
        self.configure(**config)
        self.hurried = False  # whether Snakemake waits less for what never comes
        self.heard = 0  # how much `says` has read of what the run said
        self.whole = False  # whether runs write reports as well
        self.process: Run | None = None

    def configure(self, **config: Any) -> None:
        self.config.update(config)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config))

    def actions(self, **by_point: Any) -> None:
        """What points do, as p0_1="exit": seconds, or exit, memory, or a file to wait for."""
        actions = {k[1:].replace("_", "-"): v for k, v in by_point.items()}
        # Renamed into place, so that an evaluation that starts now does not read half of it.
        (self.folder / "actions.new").write_text(json.dumps(actions))
        (self.folder / "actions.new").replace(self.folder / "actions.json")

    def let_go(self, name: str = "go") -> None:
        """Make the file that points wait for."""
        (self.folder / name).touch()

    def propose_design(self) -> None:
        """Choose the first batch in this process, so that a test of evaluations does not wait for
        it."""
        config = load([self.folder / "config.yaml"])
        config = config.model_copy(update={"results": str(self.results.parent)})
        Study(config).propose(0, None, self.results / "iterations" / "0" / "proposals.json")

    @property
    def results(self) -> Path:
        return self.folder / self.config.get("results", "results") / "toy"

    # ---- running ------------------------------------------------------------------------------

    def start(self, *options: str, profile: str = "slurm") -> Run:
        """`snakemake --profile slurm`; asked more often than at a real site how its jobs are."""
        self.output, self.heard = self.folder / f"output-{time.monotonic_ns()}.txt", 0
        environment = {**self.cluster.environment, "OMP_NUM_THREADS": "1"}
        before = HURRIED if self.hurried else ""
        words = self.words(*options, profile=profile)
        self.process = Run(words, self.folder, environment, self.output, before)
        return self.process

    def words(self, *options: str, profile: str = "slurm") -> list[str]:
        """What is typed after `snakemake`."""
        words = ["--profile", profile, *(() if self.whole else BRIEF)]
        words += ["--seconds-between-status-checks", "1", "--latency-wait", "5"]
        if profile == "slurm":
            words += ["--slurm-init-seconds-before-status-checks", "1"]
        return [*words, *options]

    def snakemake(self, *options: str, timeout: float = 600) -> str:
        """What another Snakemake said, as a user starts it, beside the one that `start` started."""
        result = subprocess.run(
            [sys.executable, "-m", "snakemake", *self.words(*options)],
            cwd=self.folder,
            env=self.cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=True,
        )
        return result.stdout

    def terminate(self, number: int = signal.SIGTERM) -> str:
        """End only Snakemake, by a signal, within ten seconds. Returns its output."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.end(check=False)

    def end(self, *, timeout: float = 600, check: bool = True) -> str:
        """Wait for Snakemake; what it said."""
        assert self.process is not None
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"no end after {timeout} s:\n{self.output.read_text()}") from None
        text = self.output.read_text()
        assert not check or self.process.returncode == 0, text
        return text

    def run(self, *options: str, timeout: float = 600, check: bool = True) -> str:
        self.start(*options)
        return self.end(timeout=timeout, check=check)

    def until(self, condition: Callable[[], Any], what: str, timeout: float = 600) -> Any:
        """Wait until a function returns something true, while Snakemake runs. Returns that."""
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()  # a question to Slurm costs more than a look at a file
            found = condition()
            if found:
                return found
            assert time.monotonic() < deadline, f"{what}: not after {timeout} s\n{self.log()}"
            time.sleep(max(0.1, 5 * (time.monotonic() - began)))

    def log(self) -> str:
        return self.output.read_text()

    def says(self, words: str) -> None:
        """Wait until the run says this, after what was waited for before."""
        place = self.until(lambda: self.log().find(words, self.heard) + 1, f"it says {words}")
        self.heard = place + len(words) - 1

    def kill(self) -> None:
        """End Snakemake, and what it runs on this machine, by SIGKILL."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def snakemake_log(self) -> str:
        """All that Snakemake said, of every run so far."""
        found = sorted((self.folder / ".snakemake" / "log").glob("*.log"))
        return "".join(path.read_text() for path in found)

    # ---- what happened ------------------------------------------------------------------------

    def events(self, word: str) -> Counter[str]:
        """How often each point has started or ended, by its id."""
        path = self.folder / "events.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(x.split()[1] for x in lines if x.startswith(word))

    def jobs_of(self, point: str) -> list[int]:
        """The Slurm jobs that have started a point so far."""
        path = self.folder / "events.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [int(x.split()[2]) for x in lines if x.startswith(f"start {point} ")]

    def job_of(self, point: str, *, after: int = 0) -> int:
        """The Slurm job that evaluates a point, once it has started. after: an earlier one."""
        started = self.until(
            lambda: [after, *self.jobs_of(point)][-1] != after and self.jobs_of(point),
            f"point {point} starts",
        )
        return started[-1]

    def jobs(self) -> dict[int, str]:
        """The jobs that are queued or run now, and their states."""
        return self.cluster.squeue("--states=PENDING,RUNNING,COMPLETING")

    def hurry(self) -> None:
        """Start the jobs that Slurm queued again now, not in two minutes."""
        for job in self.cluster.squeue("--states=PENDING"):
            with contextlib.suppress(RuntimeError):  # it has just started
                self.cluster.run("scontrol", "update", f"jobid={job}", "starttime=now")

    def statuses(self) -> dict[str, str]:
        """The outcome of each archived point."""
        table = read_table(self.results / "archive.h5")
        ids = [f"{t}-{s}" for t, s in zip(table.iteration, table.slot, strict=True)]
        assert len(set(ids)) == len(ids)
        return dict(zip(ids, map(str, table.status), strict=True))

    def lawful(self, points: int, *, runs: Mapping[str, int] = {}, **others: str) -> None:
        """Check that every point is archived once, and was evaluated to its end once, except for
        `others`.

        others: the outcomes that are not ok.  runs: ends by point where they are not 1, or 0 for a
        point whose outcome is not ok.
        """
        expected = {k[1:].replace("_", "-"): v for k, v in others.items()}
        statuses = self.statuses()
        assert len(statuses) == points
        assert {p: s for p, s in statuses.items() if s != "ok"} == expected
        assert verify(self.results / "archive.h5") == []
        ends = self.events("end")
        assert {p: ends[p] for p in statuses} == {
            p: runs.get(p, 1 if s in ("ok", "failed") else 0) for p, s in statuses.items()
        }
        assert not any((self.results / "pending").iterdir())

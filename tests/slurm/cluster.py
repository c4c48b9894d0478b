"""A real Slurm on this machine, and what a test does to it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
CANNOT_BE_HAD = 77  # exit status of `up` where such a cluster is out of reach

# Short names of the states in which a job has ended: it will not run (again) by itself.
ENDED = {"CD", "F", "TO", "CA", "NF", "OOM", "BF", "DL"}


class Cluster:
    """A cluster in a folder, with what a test does to it. Everything has a wall-clock limit."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._numbers_anew = False  # whether the controller may give out numbers a second time
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        # A test that itself runs in a job must not pass on that job's variables.
        for name in list(self.environment):
            if name.startswith(("SLURM_", "SBATCH_", "SRUN_")) and name != "SLURM_CONF":
                del self.environment[name]

    def run(self, *command: str | Path, timeout: float = 600) -> str:
        """Standard output of a Slurm command. If it fails, the error has all its output."""
        result = subprocess.run(
            [str(word) for word in command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if result.returncode:
            raise RuntimeError(f"{command}: status {result.returncode}: {result.stderr.strip()}")
        return result.stdout.strip()

    # ---- the cluster --------------------------------------------------------------------------

    def up(self, *options: str) -> None:
        """Start everything that does not run: at first all daemons, later the killed ones."""
        self.run(SCRIPTS / "up", self.folder, *options)

    def down(self, *options: str) -> None:
        self.run(SCRIPTS / "down", self.folder, *options)

    @property
    def nodes(self) -> dict[str, str]:
        """State of each node by name, with a star where it does not answer."""
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return dict(line.split() for line in lines)

    def stop(self, daemon: str, number: int = signal.SIGTERM, timeout: float = 600) -> None:
        """End a daemon, "slurmctld" or the slurmd of a node by the node's name; `up` restarts it.

        The controller saves its jobs every few seconds. After SIGKILL it forgets the newest ones,
        as on any site.
        """
        pid = int((self.folder / "pid" / daemon).read_text())
        os.kill(pid, number)
        self._numbers_anew |= daemon == "slurmctld" and number == signal.SIGKILL
        deadline = time.monotonic() + timeout
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < deadline, f"{daemon} did not stop"
            time.sleep(0.1)

    @contextlib.contextmanager
    def script(self, key: str, text: str) -> Iterator[None]:
        """Have the nodes run a script around each job meanwhile: Epilog, TaskProlog."""
        path = self.folder / f"{key}.now"
        path.with_suffix(".new").write_text(f"{text}\n")
        path.with_suffix(".new").rename(path)
        try:
            yield
        finally:
            path.unlink()

    def set_node(self, name: str, state: str) -> None:
        """Set a node down, drain or resume."""
        self.run("scontrol", "update", f"nodename={name}", f"state={state}", "reason=test")

    def _forget_jobs(self) -> None:
        """Make the nodes forget jobs whose numbers a controller may use again.

        A controller that has lost its state counts its jobs from one again. A node that has started a
        job of that number and was never told of its end, or that finds the folder of one, does not
        start it: `launch failed requeued held`. The first is in the memory of its daemon. Its
        output is removed as well, because another job may be asked to append to it.
        """
        if self._numbers_anew:
            for name in self.nodes:
                self.stop(name)
            for path in (self.folder / "log").glob("job-*.out"):
                path.unlink()
        for path in (self.folder / "spool").glob("*/job*"):
            shutil.rmtree(path, ignore_errors=True)
        if self._numbers_anew:
            self.up()
            self._await_idle()
        self._numbers_anew = False

    # ---- jobs ---------------------------------------------------------------------------------

    def submit(self, script: str, *options: str) -> int:
        """Submit the text of a shell script; the job's number."""
        log = self.folder / "log" / "job-%j.out"
        words = ["--parsable", "--time=5", "--mem=100", f"--output={log}", *options]
        return int(self.run("sbatch", *words, f"--wrap={script}"))

    def output(self, job: int) -> str:
        """What a job that `submit` started has printed."""
        return (self.folder / "log" / f"job-{job}.out").read_text()

    def squeue(self, *options: str) -> dict[int, str]:
        """Short state (PD, R, CD, ...) of each job by number, the ended ones too."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%A %t", *options)
        return {int(job): state for job, state in (line.split() for line in lines.splitlines())}

    def wait(
        self, jobs: Iterable[int], *, states: Iterable[str] = ENDED, timeout: float = 600
    ) -> dict[int, str]:
        """The states of the jobs, once each of them is in one of the `states`."""
        wanted, states = set(jobs), set(states)
        deadline = time.monotonic() + timeout
        while True:
            found = {job: state for job, state in self.squeue().items() if job in wanted}
            if found.keys() == wanted and states.issuperset(found.values()):
                return found
            assert time.monotonic() < deadline, f"after {timeout} s: {self.why(wanted)}"
            time.sleep(0.2)

    def why(self, jobs: Iterable[int]) -> str:
        """What Slurm says of jobs and of its nodes, for the message of a test that fails."""
        found = self.run("squeue", "--states=all", "--format=%A %T %r since %V, to start %S, on %N")
        wanted = set(map(str, jobs))
        table = "\n".join(line for line in found.splitlines() if line.split()[0] in wanted)
        log = (self.folder / "log" / "slurmctld.log").read_text().splitlines()
        return "\n".join([table, str(self.nodes), *log[-20:]])

    def node_of(self, job: int) -> str:
        """The node on which a job runs."""
        return self.run("squeue", "--noheader", f"--jobs={job}", "--format=%N")

    def cancel(self, *jobs: int) -> None:
        """Cancel these jobs, as a user does."""
        self.run("scancel", "--quiet", *map(str, jobs))

    def records(self) -> list[dict[str, str]]:
        """Slurm's own record of each ended job: JobId, JobState, StartTime, EndTime, Tres, ..."""
        text = (self.folder / "jobs.txt").read_text()
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines()]

    def reset(self) -> None:
        """Clean up after a test: no jobs, all daemons running, all nodes idle."""
        self.up()
        self._await_idle()
        self._forget_jobs()

    def _await_idle(self, timeout: float = 600) -> None:
        """Cancel all jobs and let all nodes work, until there are no jobs and no busy nodes."""
        deadline = time.monotonic() + timeout
        while True:
            left = [job for job, state in self.squeue().items() if state not in ENDED]
            if left:
                self.cancel(*left)
            elif set(self.nodes.values()) == {"idle"}:
                return
            for name, state in self.nodes.items():
                if state.startswith(("down", "drain")):
                    # This fails if the node has just come back by itself.
                    with contextlib.suppress(RuntimeError):
                        self.set_node(name, "resume")
            assert time.monotonic() < deadline, f"left: {self.why(left)}"
            time.sleep(0.5)

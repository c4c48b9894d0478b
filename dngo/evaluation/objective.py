"""Running the objective at one point: a process group of its own, within limits, to one outcome.

The contract. In: the parameters as a JSON object on standard input and in the file `{parameters}`
(also `$DNGO_PARAMETERS`), or as placeholders on the command line. Out: a JSON document
`{"objective": 0.1, "constraints": {"name": true}, "noise": 0.01, "metadata": {...}}` in the file
`{outcome}` (`$DNGO_OUTCOME`) or as the last line of standard output, where a bare number will do too.
A constraint is true where it is satisfied. A non-zero exit status is a failure and a fact about the
point, never a failure of the study.

Nothing here imports a numerical module: an evaluation costs its objective.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from dngo.batch import Outcome, Proposal
from dngo.config import PLACEHOLDER, Objective
from dngo.evaluation.document import judge_file
from dngo.storage.digest import digest_parameters
from dngo.storage.text import one_line

GRACE = 5.0  # seconds between SIGTERM and SIGKILL
LAST_WORD = 1.0  # seconds within which a scheduler signals every process of a job
FIRST_LOOK, LOOK = 0.05, 0.25  # seconds between looks at the memory, at first and later on
MAX_MESSAGE = 500
# What common runtimes print when an allocation is refused before any limit of ours is met.
_OUT_OF_MEMORY = re.compile(
    r"\b(MemoryError|bad_alloc|out of memory|OutOfMemoryError|Cannot allocate memory)\b", re.I
)


class Interrupted(Exception):
    """The evaluation was stopped from outside: not an outcome, it will be started again."""


class JobLimit(Exception):
    """The job's own time or memory ended before the objective did; `outcome` is what it amounts to."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome.message)
        self.outcome = outcome


class Stop:
    """SIGTERM and SIGINT end the running objective, and with it this process, without an outcome."""

    requested = False

    @classmethod
    def listen(cls) -> None:
        """Note these signals from now on."""

        def handle(number: int, frame: Any) -> None:
            cls.requested = True

        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(number, handle)


@dataclass(frozen=True)
class Limits:
    """What the job that evaluates may use: deadline (seconds, monotonic clock), memory (bytes)."""

    deadline: float = math.inf
    memory: float = math.inf


@dataclass(frozen=True)
class Files:
    """Where one evaluation keeps its things: private folder, standard output and error."""

    workdir: Path
    stdout: Path
    stderr: Path


def command_line(objective: Objective, values: dict[str, Any]) -> list[str]:
    """The words to start, placeholders filled in; never a string for a shell.

    Raises ValueError for a placeholder that means nothing.
    """
    if objective.callable is not None:
        return [sys.executable, "-m", "dngo.evaluation.call", objective.callable]
    assert objective.command is not None
    words = (
        shlex.split(objective.command)
        if isinstance(objective.command, str)
        else list(objective.command)
    )

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise ValueError(f"objective.command: {{{name}}} is neither a parameter nor known")
        value = values[name]
        return value if isinstance(value, str) else json.dumps(value)

    return [PLACEHOLDER.sub(fill, word) for word in words]


def run(
    objective: Objective,
    proposal: Proposal,
    files: Files,
    *,
    names: list[str],
    constraints: list[str],
    seed: int = 0,
    attempts: int = 1,
    limits: Limits = Limits(),
) -> Outcome:
    """Evaluate one point, whatever happens, to one outcome.

    names: every parameter of the space (an inactive one is an empty word on the command line).
    constraints: names that the outcome document must report.
    limits: those of the job; the objective's own are in its section of the configuration.
    Raises Interrupted if this process was told to stop meanwhile, JobLimit if the job's limits are
    what ended it, OSError if the disk refuses.
    """
    workdir = files.workdir.absolute()
    if attempts > 1:
        _kill_leftovers(workdir)
    shutil.rmtree(workdir, ignore_errors=True)
    workdir.mkdir(parents=True)
    parameters_file, outcome_file = workdir / "parameters.json", workdir / "outcome.json"
    document = json.dumps(proposal.parameters)
    parameters_file.write_text(document, encoding="utf-8")
    known = {
        "parameters": str(parameters_file),
        "outcome": str(outcome_file),
        "workdir": str(workdir),
        "id": proposal.id,
        "seed": str(seed),
    }
    values = {**dict.fromkeys(names, ""), **proposal.parameters, **known, "python": sys.executable}
    environment = {
        **os.environ,
        **objective.environment,
        **{f"DNGO_{k.upper()}": v for k, v in known.items()},
    }
    began = time.time()
    clock = time.monotonic()
    try:
        argv = command_line(objective, values)
        end = _supervise(argv, document, environment, objective, files, limits)
    except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError) as error:
        end = _End("failed", f"cannot be started: {error}", "")
    status, message = end.status, end.message
    result: dict[str, Any] = {}
    if status == "ok":
        verdict = judge_file(outcome_file, end.last_line, constraints)
        status, message, result = verdict.status, verdict.message, verdict.fields
    outcome = Outcome(
        iteration=proposal.iteration,
        slot=proposal.slot,
        parameters_digest=digest_parameters(proposal.parameters),
        status=status,
        duration=time.monotonic() - clock,
        attempts=attempts,
        host=socket.gethostname(),
        job=os.environ.get("SLURM_JOB_ID", ""),
        started=began,
        finished=time.time(),
        message=one_line(message, MAX_MESSAGE),
        **result,
    )
    if not objective.keep_workdir:
        shutil.rmtree(workdir, ignore_errors=True)
    if end.by_job:
        raise JobLimit(outcome)
    return outcome


@dataclass(frozen=True)
class _End:
    status: str
    message: str
    last_line: str
    by_job: bool = False


class _Kept:
    """A stream kept within bounds: the first half as it comes, then the end."""

    def __init__(self, path: Path, limit: int):
        self.path, self.half = path, limit // 2
        self.stream = open(path, "wb", buffering=0)  # noqa: SIM115
        self.written = self.total = 0
        self.tail: deque[bytes] = deque()
        self.tail_size = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        head = data[: max(0, self.half - self.written)]
        if head:
            with contextlib.suppress(OSError):  # a full disk must not end an evaluation
                self.stream.write(head)
            self.written += len(head)
        self.tail.append(data)
        self.tail_size += len(data)
        while self.tail_size - len(self.tail[0]) >= self.half:
            self.tail_size -= len(self.tail.popleft())

    def close(self) -> str:
        """Write the end, close; returns the last `half` bytes as text."""
        end = b"".join(self.tail)[-self.half :]
        with contextlib.suppress(OSError):
            rest = self.total - self.written
            if rest > len(end):
                self.stream.write(b"\n[... %d bytes left out ...]\n" % (rest - len(end)))
            if rest:
                self.stream.write(end[-min(rest, len(end)) :])
        with contextlib.suppress(OSError):
            self.stream.close()
            if self.total == 0:
                self.path.unlink(missing_ok=True)
        return end.decode("utf-8", "replace")


_LIBC = ctypes.CDLL(None)


def _before_exec() -> None:
    """In the child: die with the parent, and be the first that the kernel kills for memory."""
    with contextlib.suppress(AttributeError):
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    with contextlib.suppress(OSError):
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, b"1000")
        os.close(descriptor)


def _kill_leftovers(workdir: Path) -> None:
    """End what an earlier, killed evaluation of this point left running on this host.

    The kernel ends the objective with its supervisor, but not the objective's own children.
    """
    mark = str(workdir)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("DNGO_WORKDIR") == mark:
                process.kill()


def _supervise(
    argv: list[str],
    document: str,
    environment: dict[str, str],
    objective: Objective,
    files: Files,
    limits: Limits,
) -> _End:
    files.stdout.parent.mkdir(parents=True, exist_ok=True)
    own_bytes = objective.memory_mb * 2**20 if objective.memory_mb else _memory_to_hand()
    limit_bytes = min(own_bytes, limits.memory)
    own_deadline = time.monotonic() + (objective.time_limit or math.inf)
    deadline = min(own_deadline, limits.deadline)
    kills_before = _kernel_kills()
    # What may fail for the disk's sake comes first: once it is started, it is not started again.
    out = _Kept(files.stdout, objective.output_limit)
    err = _Kept(files.stderr, objective.output_limit)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=objective.working_directory or ".",
            env=environment,
            start_new_session=True,
            preexec_fn=_before_exec,
        )
    except BaseException:
        out.close()
        err.close()
        raise
    ended_by = ""
    try:
        ended_by = _watch(process, document, deadline, limit_bytes, out, err)
    finally:
        _kill_group(process)
        code = process.wait()
        last_out, last_err = out.close(), err.close()
    last_line = next((x for x in reversed(last_out.splitlines()) if x.strip()), "")
    complaints = [x for x in last_err.splitlines() if x.strip()][-10:]
    complaint = complaints[-1] if complaints else ""
    if ended_by == "timeout":
        if limits.deadline < own_deadline:
            message = "stopped: the time of its job was over"
            return _End("timeout", message, last_line, by_job=True)
        return _End("timeout", f"stopped after {objective.time_limit:g} s", last_line)
    if ended_by == "memory":
        message = f"stopped: more than {limit_bytes / 2**20:.0f} MB, or the machine was full"
        by_job = limits.memory < own_bytes
        return _End("out_of_memory", message, last_line, by_job=by_job)
    if code == 0:
        return _End("ok", "", last_line)
    _heed_scheduler(code)
    reason = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    message = f"{reason}: {complaint}" if complaint else reason
    if code == -signal.SIGKILL and _kernel_kills() > kills_before:
        return _End("out_of_memory", "killed by the kernel, out of memory", last_line)
    if any(_OUT_OF_MEMORY.search(x) for x in complaints):
        return _End("out_of_memory", message, last_line)
    return _End("failed", message, last_line)


def _heed_scheduler(code: int) -> None:
    """Raise Interrupted if the objective failed because its whole job is being ended.

    A scheduler signals every process of a job, one after another, and the objective may go first: a
    job that is cancelled must not pass for a point that fails. A process that is killed ends here.
    """
    if Stop.requested:
        raise Interrupted
    signalled = code < 0 or code > 128
    until = time.monotonic() + LAST_WORD
    while signalled or "SLURM_JOB_ID" in os.environ:
        if Stop.requested:
            raise Interrupted
        if time.monotonic() > until:
            return
        time.sleep(0.02)


def _watch(
    process: subprocess.Popen[bytes],
    document: str,
    deadline: float,
    memory_limit: float,
    out: _Kept,
    err: _Kept,
) -> str:
    """Feed and drain the process until it ends; returns "timeout" or "memory" if it was too much."""
    assert process.stdin and process.stdout and process.stderr
    started = time.monotonic()
    end = started + math.inf
    to_send = document.encode()
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector, _ended(process) as pidfd:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        if pidfd is not None:
            selector.register(pidfd, selectors.EVENT_READ)
        look = started + FIRST_LOOK
        streams = 2
        running = True
        while running or (streams and time.monotonic() < end):
            now = time.monotonic()
            until = min(look, deadline) if running else end
            for key, _ in selector.select(max(0.0, min(until - now, 1.0))):
                if key.fileobj is process.stdin:
                    to_send = _send(process, to_send)
                    if not to_send:
                        selector.unregister(process.stdin)
                        with contextlib.suppress(OSError):
                            process.stdin.close()
                elif key.data is not None:
                    data = os.read(key.fd, 1 << 16)
                    if data:
                        key.data.feed(data)
                    else:
                        selector.unregister(key.fileobj)
                        streams -= 1
            # One that has just ended by itself is judged, not thrown away: it was paid for.
            if Stop.requested and process.poll() is None:
                raise Interrupted
            if not running:
                continue
            if process.poll() is not None:
                running = False
                if pidfd is not None:
                    selector.unregister(pidfd)
                # Children that outlive it may hold the streams open: drain them, but not for ever.
                end = time.monotonic() + 1.0
                continue
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if now >= look:
                used = _memory_of(process.pid)
                if used > memory_limit or _machine_is_full(used):
                    return "memory"
                look = now + (FIRST_LOOK if now - started < 1.0 else LOOK)
    return ""


def _send(process: subprocess.Popen[bytes], data: bytes) -> bytes:
    assert process.stdin
    try:
        return data[os.write(process.stdin.fileno(), data) :]
    except BlockingIOError:
        return data
    except OSError:
        return b""  # it does not read its standard input: its own business


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends, where the system has such a thing."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _memory_of(pid: int) -> float:
    """Resident bytes of a process and its descendants."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def _machine_is_full(used: float) -> bool:
    """Whether the machine is about to run out of memory and this evaluation is a reason why.

    Evaluations side by side can fill it although each keeps within its limit.
    """
    memory = psutil.virtual_memory()
    fair = memory.total / (1 + (os.cpu_count() or 1))
    return memory.available < 0.04 * memory.total and used > fair


def _memory_to_hand() -> float:
    """What one evaluation may use when no limit is configured: what is free, less a reserve.

    An objective without bounds must not take the machine, this process and the study with it.
    """
    free = float(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup/memory.max")
    with contextlib.suppress(OSError, ValueError):
        used = float(Path("/sys/fs/cgroup/memory.current").read_text())
        free = min(free, float(group.read_text()) - used)
    return max(0.9 * free, 64 * 2**20)


def _kernel_kills() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started in its group: politely first."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            with contextlib.suppress(OSError):
                stream.close()

"""A small study through faults: is an evaluation lost, is one repeated, does a command end in a traceback?

    python benchmarks/faults.py --kills 200 --disk 60 --stale 20 --clock 20 --seed 1

Kills: SIGKILL at random moments to Snakemake with all its processes, to Snakemake alone, to one job,
to an objective, to the wrapper around one (every third study has it, and reports in the file), to what
starts them, to a merge, to a fit or proposal. Disk: one call, or some in a row, of those that write
below the results fails with ENOSPC, EDQUOT, EIO or EROFS, in every process of the run. Stale: the same
with ESTALE, as from a file server, and of calls that read as well. A library does that, which is loaded
before the C library; it needs gcc. Clock: the time of day jumps by up to a day, in every process of the
run, by the same library. Whenever Snakemake has ended, the same command is typed again. A line of JSON
for each study, then a table; exit status 1 if anything was lost, or repeated although it had ended
longer than --window seconds before the fault.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from dngo import archive

ROOT = Path(__file__).resolve().parents[1]
KILLS = ("group", "main", "job", "objective", "wrapper", "starter", "merge", "model")
ERRORS = {"ENOSPC": 28, "EIO": 5, "EROFS": 30, "EDQUOT": 122}
STALE = {"ESTALE": 116}
POINTS = 18
REACH = 0.05  # seconds until a kill has reached all whom it ends, one after another

OBJECTIVE = """
import json, os, random, sys, time
def note(what):
    line = f"{what} {os.environ['DNGO_ID']} {time.clock_gettime(time.CLOCK_MONOTONIC):.3f}" + chr(10)
    os.write(log, line.encode())
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
x = json.load(sys.stdin)["x"]
note("start")
time.sleep(random.Random(x).uniform(0.1, 1.0))
note("end")
if len(sys.argv) > 2:
    with open(sys.argv[2] + ".part", "w") as stream:
        stream.write(f"{x}" + chr(10))
    os.rename(sys.argv[2] + ".part", sys.argv[2])
else:
    print(x)
"""

CONFIG = """
study: toy
objective: {{command: "{command}", time_limit: 60}}
space: {{x: {{type: float, low: 0, high: 1}}}}
acquisition: {{kind: random}}
design: {{size: 6}}
batch_size: 6
iterations: 2
points_per_job: 3
retries: 100
"""

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct state { long calls, at, length, error, step; };
static struct state *state;
static const char *folder;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("DNGO_FAULT_STATE");
    folder = getenv("DNGO_FAULT_FOLDER");
    if (!name) return;
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = real(name, O_RDWR);
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found != MAP_FAILED) state = found;
}

static int hit(const char *path) {
    char whole[4096];
    if (!state || !folder || !path) return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, sizeof whole - strlen(path) - 2)) return 0;
        strcat(strcat(whole, "/"), path);
        path = whole;
    }
    if (strncmp(path, folder, strlen(folder))) return 0;
    long call = __sync_fetch_and_add(&state->calls, 1);
    if (call < state->at || call >= state->at + state->length) return 0;
    errno = (int)state->error;
    return 1;
}

static int hit_fd(int fd) {
    char link[64], path[4096];
    if (!state || !folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return hit(path);
}

/* A stale handle of NFS is met by whoever reads, too. */
static int stale(void) { return state && state->error == ESTALE; }

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        if ((stale() || flags & (O_CREAT | O_TRUNC)) && hit(path)) return -1; \
        return real(path, flags, mode); }
OPEN(open)
OPEN(open64)
#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        if ((stale() || flags & (O_CREAT | O_TRUNC)) && hit(path)) return -1; \
        return real(at, path, flags, mode); }
OPENAT(openat)
OPENAT(openat64)
#define CALL(type, name, parameters, arguments, fails) \
    type name parameters { \
        static type (*real) parameters; if (!real) real = dlsym(RTLD_NEXT, #name); \
        return fails ? -1 : real arguments; }
CALL(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), hit_fd(fd))
CALL(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), hit_fd(fd))
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), hit_fd(fd))
CALL(ssize_t, read, (int fd, void *data, size_t n), (fd, data, n), stale() && hit_fd(fd))
CALL(ssize_t, pread, (int fd, void *data, size_t n, off_t at), (fd, data, n, at), stale() && hit_fd(fd))
CALL(ssize_t, pread64, (int fd, void *data, size_t n, off64_t at), (fd, data, n, at), stale() && hit_fd(fd))
CALL(int, fsync, (int fd), (fd), hit_fd(fd))
CALL(int, rename, (const char *a, const char *b), (a, b), hit(b))
CALL(int, link, (const char *a, const char *b), (a, b), hit(b))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), hit(path))
CALL(int, unlink, (const char *path), (path), hit(path))
int clock_gettime(clockid_t which, struct timespec *now) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int failed = real(which, now);
    if (state && !failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        now->tv_sec += state->step;
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    REAL(int, gettimeofday, struct timeval *, void *);
    int failed = real(now, zone);
    if (state && !failed) now->tv_sec += state->step;
    return failed;
}
time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}
"""


class Trial:
    """One study in a folder of its own, its command typed again until it has ended well.

    due: when the next fault is, at random after a start.
    """

    def __init__(
        self,
        folder: Path,
        rng: random.Random,
        *,
        pause: float = 15.0,
        wrapped: bool = False,
        environment: dict[str, str] | None = None,
    ):
        self.folder, self.rng, self.pause = folder, rng, pause
        self.log = folder / "snakemake.log"
        self.events_file = folder / "events.txt"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self.starts, self.due = 0, 0.0
        self.faults: list[tuple[float, str]] = []
        command = f"{sys.executable} {folder}/objective.py {self.events_file}"
        if wrapped:  # a shell that waits for its child, as many a launcher does
            (folder / "wrapper.sh").write_text('"$@"\nstatus=$?\nexit $status\n')
            # What goes on behind it when its supervisor is dead can report in the file only.
            command = f"bash {folder}/wrapper.sh {command} {{outcome}}"
        (folder / "objective.py").write_text(OBJECTIVE)
        (folder / "config.yaml").write_text(CONFIG.format(command=command))

    @property
    def results(self) -> Path:
        return self.folder / "results" / "toy"

    def start(self) -> None:
        self.starts += 1
        self.due = time.monotonic() + self.rng.uniform(1, self.pause)
        if self.starts > 4 + 4 * len(self.faults):
            raise RuntimeError(f"it does not go on:\n{self.log.read_text()[-2000:]}")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "2"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment,
            )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def done(self) -> bool:
        return self.process is not None and self.process.poll() == 0

    def processes(self, words: str) -> list[psutil.Process]:
        """Those of this study whose command line has these words."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd"]):
            line = " ".join(process.info["cmdline"] or [])
            here = str(self.folder) in line or (process.info["cwd"] or "").startswith(
                str(self.folder)
            )
            if here and words in line:
                found.append(process)
        return found

    def fault(self, kind: str) -> None:
        self.faults.append((time.clock_gettime(time.CLOCK_MONOTONIC), kind))

    def through(self, act: Callable[[], None], window: float) -> dict[str, Any]:
        """What became of it, until it has ended well, or for 15 minutes. act: called ten times a second."""
        began = time.monotonic()
        try:
            while not self.done and time.monotonic() - began < 900:
                if not self.running:
                    self.start()
                time.sleep(0.1)
                act()
        finally:
            verdict = self.verdict(window)
            for process in self.processes(""):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            if self.process is not None:
                self.process.wait()
        return verdict

    def verdict(self, window: float) -> dict[str, Any]:
        """What became of every evaluation."""
        ends: dict[str, list[float]] = defaultdict(list)
        starts: Counter[str] = Counter()
        lines = self.events_file.read_text().splitlines() if self.events_file.exists() else []
        for line in lines:
            what, point, when = line.split()
            if what == "end":
                ends[point].append(float(when))
            else:
                starts[point] += 1
        statuses: dict[str, str] = {}
        problems: list[str] = ["no archive"]
        path = self.results / "archive.h5"
        if path.exists():
            table, problems = archive.read_table(path), archive.verify(path)
            statuses = {
                f"{t}-{s}": str(status)
                for t, s, status in zip(table.iteration, table.slot, table.status, strict=True)
            }
        # Seconds from the first end to the nearest fault: how far outside it was. Negative: the end came
        # after that fault, which had not stopped the objective, or not yet.
        gaps = {p: [t - n[0] for t, _ in self.faults] for p, n in ends.items() if len(n) > 1}
        repeated = {p: round(min(gap, key=abs), 3) if gap else math.inf for p, gap in gaps.items()}
        # An objective or its wrapper that is killed has failed: that is what is written down.
        aimed = sum(kind in ("objective", "wrapper") for _, kind in self.faults)
        killed = sorted(p for p, status in statuses.items() if status == "failed")[:aimed]
        log = self.log.read_text(errors="replace")
        for file in self.results.glob("logs/**/*.log"):
            log += file.read_text(errors="replace")
        return {
            "finished": self.done,
            "commands_typed": self.starts,
            "archived": len(statuses),
            "ended": len(ends),
            "started": sum(starts.values()),
            "lost": sorted(p for p in ends if statuses.get(p) != "ok" and p not in killed),
            "killed": killed,
            "missing": POINTS - len(statuses),
            "not_ok": {p: s for p, s in statuses.items() if s != "ok"},
            "repeated": {p: g for p, g in repeated.items() if not -REACH <= g <= window},
            "in_window": {p: g for p, g in repeated.items() if -REACH <= g <= window},
            # Ours, and not of Snakemake itself on a disk that refuses.
            "tracebacks": sum(
                f'"{ROOT}/dngo/' in part.split("Error:")[0]
                for part in log.split("Traceback (most recent call last)")[1:]
            ),
            "archive": problems or "intact",
            "faults": dict(Counter(kind for _, kind in self.faults)),
        }


def kill(trial: Trial, kind: str) -> bool:
    """One kill, if there is somebody to kill."""
    assert trial.process is not None
    words = {
        "job": "evaluate.py",
        "merge": "merge.py",
        "objective": "objective.py",
        "wrapper": "wrapper.sh",
        "starter": "start.py",
    }
    if kind in ("group", "main"):
        target = os.killpg if kind == "group" else os.kill
        with contextlib.suppress(ProcessLookupError):
            trial.fault(kind)
            target(trial.process.pid, signal.SIGKILL)
        trial.process.wait()
        return True
    if kind == "model":
        found = trial.processes(".fit.py") + trial.processes(".propose.py")
    else:
        found = trial.processes(words[kind])
    if kind == "objective":
        found = [p for p in found if "wrapper.sh" not in " ".join(p.info["cmdline"])]
    if not found:
        return False
    trial.fault(kind)
    with contextlib.suppress(psutil.Error):
        found[0].kill()
    return True


def kills(folder: Path, rng: random.Random, most: int, window: float) -> dict[str, Any]:
    """A study in which processes are killed; every third one with a wrapper."""
    trial = Trial(folder, rng, wrapped=rng.random() < 1 / 3)
    wanted: list[str] = []

    def act() -> None:
        late = time.monotonic() - trial.due
        if late < 0 or len(trial.faults) >= most:
            return
        if not wanted or late > 10:  # there was none of that kind
            wanted[:] = [rng.choice(("group", "main") if wanted else KILLS)]
        if trial.running and kill(trial, wanted[0]):
            wanted.clear()
            trial.due = time.monotonic() + rng.expovariate(1 / 4)

    return trial.through(act, window)


class Shim:
    """The library, and what it is to do in all processes that have its environment."""

    def __init__(self, folder: Path) -> None:
        place = Path(tempfile.gettempdir()) / f"dngo-shim-{os.getpid()}"
        place.mkdir(exist_ok=True)
        (place / "shim.c").write_text(SHIM)
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", "shim.so", "shim.c", "-ldl"]
        subprocess.run(command, cwd=place, check=True)
        self.state = folder / "state"
        self.state.write_bytes(struct.pack("5l", 0, 2**40, 0, 0, 0))
        self.environment = {
            "LD_PRELOAD": str(place / "shim.so"),
            "DNGO_FAULT_STATE": str(self.state),
            "DNGO_FAULT_FOLDER": str(folder / "results"),
        }

    @property
    def calls(self) -> int:
        """How many calls there were that may fail."""
        return struct.unpack("5l", self.state.read_bytes())[0]

    def put(self, field: int, *values: int) -> None:
        """Set fields of its state, from one on: 1 the first call that fails, 2 how many, 3 with which
        error, 4 the step of the clock."""
        with open(self.state, "r+b") as stream:
            stream.seek(8 * field)
            stream.write(struct.pack(f"{len(values)}l", *values))


def disk(
    folder: Path, rng: random.Random, most: int, window: float, errors: dict[str, int] = ERRORS
) -> dict[str, Any]:
    """A study whose calls that write fail, one after another or some in a row."""
    shim = Shim(folder)
    trial = Trial(folder, rng, environment=shim.environment)
    pending: list[tuple[int, int, str]] = []

    def act() -> None:
        if pending and shim.calls > pending[0][0]:
            _, length, name = pending.pop()
            if length > 1:
                time.sleep(rng.uniform(0.5, 4.0))  # and then the disk is back
            shim.put(1, 2**40)
            trial.fault(f"{name} {'once' if length == 1 else 'for seconds'}")
        if not pending and len(trial.faults) < most:
            at, length = shim.calls + rng.randrange(1, 60), rng.choice([1, 1, 2**20])
            name = rng.choice(sorted(errors))
            shim.put(1, at, length, errors[name])
            pending.append((at, length, name))

    return trial.through(act, window)


def clock(folder: Path, rng: random.Random, most: int, window: float) -> dict[str, Any]:
    """A study during which the time of day jumps, and Snakemake is killed now and then."""
    shim = Shim(folder)
    trial = Trial(folder, rng, pause=5.0, environment=shim.environment)

    def act() -> None:
        if time.monotonic() > trial.due and len(trial.faults) < most:
            shim.put(4, rng.choice([-86400, -3600, -60, 60, 3600, 86400]))
            trial.fault("clock step")
            if rng.random() < 0.4:
                kill(trial, "main")
            trial.due = time.monotonic() + rng.expovariate(1 / 4)

    return trial.through(act, window)


SORTS: dict[str, Callable[..., dict[str, Any]]] = {
    "kills": kills,
    "disk": disk,
    "stale": partial(disk, errors=STALE),
    "clock": clock,
}


def studies(sort: str, faults: int, seed: int, window: float) -> Iterator[dict[str, Any]]:
    """Studies until there were so many faults of a sort."""
    done = number = 0
    while done < faults:
        rng = random.Random(f"{seed} {sort} {number}")
        with tempfile.TemporaryDirectory(prefix="dngo-faults-") as name:
            most = min(8, faults - done)
            row = SORTS[sort](Path(name).resolve(), rng, most, window)
            bad = row["lost"] or row["repeated"] or row["missing"] or row["archive"] != "intact"
            if bad:
                shutil.copytree(name, f"fault-failures/{sort}-{seed}-{number}", dirs_exist_ok=True)
        number += 1
        done += max(1, sum(row["faults"].values()))
        yield {"sort": sort, "study": number, **row}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--disk", type=int, default=0)
    parser.add_argument("--stale", type=int, default=0)
    parser.add_argument("--clock", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, default=0.2, help="seconds; see docs/faults.md")
    options = parser.parse_args()
    bad = False
    for sort in SORTS:
        total: Counter[str] = Counter()
        wanted = getattr(options, sort)
        if sort != "kills" and wanted and shutil.which("gcc") is None:
            print(f"{sort}: left out, there is no gcc", file=sys.stderr)
            continue
        for row in studies(sort, wanted, options.seed, options.window):
            print(json.dumps(row), flush=True)
            total.update(row["faults"])
            for name in ("lost", "repeated", "in_window"):
                total[name] += len(row[name])
            for name in ("missing", "tracebacks", "ended"):
                total[name] += int(row[name])
            bad |= bool(row["lost"] or row["repeated"] or row["missing"])
        if wanted:
            print(
                json.dumps({"sort": sort, "seed": options.seed, "total": dict(total)}), flush=True
            )
    sys.exit(bad)


if __name__ == "__main__":
    main()

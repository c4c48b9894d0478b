"""How soon the end of an evaluation is safe from a SIGKILL of its supervisor.

First the time from the objective's last act to the note that the next owner of its point reads, for
evaluations that nobody disturbs; then kills, each at a random moment after the objective's end, and
how often the point was started again although it had ended. `python benchmarks/kill_window.py
--load N` keeps N other processes busy meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dngo.batch import Proposal
from dngo.config import Objective
from dngo.evaluation import run as run_module
from dngo.evaluation.chunk import evaluate
from dngo.evaluation.run import Files, Runner

# Its last act is its report, or the renaming that puts the report into place.
PROGRAMS = {
    "stdout": """
import json, os, sys, time
open("runs", "a").write(os.environ["DNGO_ID"] + " " + str(os.getpid()) + chr(10))
time.sleep(0.3)
sys.stdout.write(json.dumps({"objective": 1, "metadata": {"end": time.monotonic()}}) + chr(10))
sys.stdout.flush()
os._exit(0)
""",
    "file": """
import json, os, time
open("runs", "a").write(os.environ["DNGO_ID"] + " " + str(os.getpid()) + chr(10))
time.sleep(0.3)
place = os.environ["DNGO_OUTCOME"]
with open(place + ".tmp", "w") as stream:
    json.dump({"objective": 1, "metadata": {"end": time.monotonic()}}, stream)
os.replace(place + ".tmp", place)
os._exit(0)
""",
}


def share(folder: Path, kind: str, slots: range) -> None:
    """Evaluate some points of a study that is only a folder."""
    for name in ("outcomes", "claims"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    objective = Objective(
        command=[sys.executable, "-c", PROGRAMS[kind]], working_directory=str(folder)
    )
    runner = Runner(
        objective,
        ["x"],
        {},
        lambda p: Files(folder / "work" / str(p.slot), *(folder / f"{p.slot}.{n}" for n in "oe")),
    )
    evaluate(
        [Proposal(0, slot, {"x": slot}, "test") for slot in slots],
        lambda p: folder / "outcomes" / f"{p.slot}.json",
        lambda p: folder / "claims" / str(p.slot),
        [runner],
        archived=lambda p: None,
    )


def undisturbed(folder: Path, kind: str, number: int) -> list[float]:
    """Seconds from each objective's last act until the note of it is in place."""
    found, note = [], run_module._note

    def timed(places, outcome, *, final):
        note(places, outcome, final=final)
        found.append(time.monotonic() - outcome.metadata["end"])

    run_module._note = timed
    share(folder, kind, range(number))
    run_module._note = note
    return found


def killed(folder: Path, kind: str, slot: int, delay: float) -> bool:
    """Kill a supervisor so many seconds after its objective's end; whether the point is run twice."""
    runs = folder / "runs"
    words = [sys.executable, __file__, "--share", str(folder), kind, str(slot)]
    supervisor = subprocess.Popen(words)
    line = ""
    while not line.endswith("\n"):
        lines = runs.read_text().splitlines(True) if runs.exists() else []
        line = next((x for x in lines if x.startswith(f"0-{slot} ")), "")
        if not line and supervisor.poll() is not None:
            sys.exit(f"the supervisor of point 0-{slot} ended before it began the point")
    try:
        pidfd = os.pidfd_open(int(line.split()[1]))
        select.select([pidfd], [], [])
        os.close(pidfd)
    except ProcessLookupError:
        pass
    until = time.monotonic() + delay
    while time.monotonic() < until:
        pass
    supervisor.kill()
    supervisor.wait()
    share(folder, kind, range(slot, slot + 1))
    return sum(x.startswith(f"0-{slot} ") for x in runs.read_text().splitlines()) > 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.share:
        folder, kind, slot = options.share
        return share(Path(folder), kind, range(int(slot), int(slot) + 1))
    rng = random.Random(options.seed)
    load = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)
    ]
    try:
        for kind in PROGRAMS:
            with tempfile.TemporaryDirectory() as name:
                times = sorted(undisturbed(Path(name) / "a", kind, options.number))
                print(
                    f"{kind}: noted after {1e3 * statistics.median(times):.1f} ms (median), "
                    f"{1e3 * times[-1]:.1f} ms (largest of {len(times)})"
                )
                delays = [rng.uniform(0, 0.02) for _ in range(options.number)]
                again = [d for i, d in enumerate(delays) if killed(Path(name) / "b", kind, i, d)]
                print(
                    f"{kind}: of {len(delays)} killed within 20 ms of their end {len(again)} were run "
                    f"again; the latest {1e3 * max(again, default=0):.1f} ms after it",
                    flush=True,
                )
    finally:
        for process in load:
            process.kill()


if __name__ == "__main__":
    main()

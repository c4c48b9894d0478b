"""Kills of a study that stops evaluations early: is one of them lost, or repeated?

    python benchmarks/stop_kills.py --kills 100

A process takes a study through its stages, some points at a time; it is killed with SIGKILL at random
moments, and another goes on. Each evaluation says in a file of its own when it has come to its end, and
when it was told to stop and had written its checkpoint: it may do so once. A line of JSON says what became
of them; exit status 1 if an evaluation was lost or repeated, or if the archive is not what was written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import dngo.acquisition
import dngo.acquisition.stages.baselines
import dngo.surrogates  # noqa: F401
from dngo import archive
from dngo.config import validate
from dngo.study import Study

STEPS, PAUSE = 16, 0.02
LONGEST = 1.2  # seconds from the start of a process to its kill
PROGRAM = f"""
import json, os, signal, sys, time
x = json.load(sys.stdin)["x"]
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(what):
    os.write(notes, (what + " " + os.environ["DNGO_ID"] + chr(10)).encode())
def checkpoint(*_):
    time.sleep(0.05)
    say("stopped")
    os._exit(3)
signal.signal(signal.SIGTERM, checkpoint)
say("began")
for step in range(1, {STEPS} + 1):
    with open(os.environ["DNGO_PROGRESS"], "a") as stream:
        stream.write(json.dumps({{"step": step, "objective": x + 1 / step}}) + chr(10))
    time.sleep({PAUSE})
place = os.environ["DNGO_OUTCOME"]
with open(place + ".tmp", "w") as stream:
    json.dump({{"objective": x}}, stream)
os.replace(place + ".tmp", place)
say("ended")
os._exit(0)
"""


def study_in(folder: Path, iterations: int) -> Study:
    """The study, of batches of eight points, four of them at a time."""
    document = {
        "study": "killed",
        "results": str(folder / "results"),
        "objective": {"command": [sys.executable, "-S", "-c", PROGRAM, str(folder / "notes")]},
        "space": {"x": {"type": "float", "low": 0, "high": 1}},
        "design": {"size": 8},
        "batch_size": 8,
        "iterations": iterations - 1,
        "points_per_job": 8,
        "points_at_once": 4,
        "retries": 100,
        "acquisition": "random",
        "early_stopping": {"kind": "median", "min_curves": 3, "patience": 0},
    }
    return Study(validate(document))


def go_on(study: Study, iterations: int) -> None:
    """Take the study from where it stands to its end."""
    for t in range(study.merged(), iterations):
        folder = study.iteration(t)
        surrogate = folder / "surrogate.h5" if t else None
        if surrogate is not None:
            study.fit(t, surrogate)
        study.propose(t, surrogate, folder / "proposals.json")
        study.evaluate(t, 0, folder / "outcomes" / "0.json")
        study.merge(t, folder / "receipt.json")


def process(study: Study, iterations: int) -> int:
    """The number of a process that does so: a fork, which has all modules already."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            go_on(study, iterations)
            code = 0
        finally:
            os._exit(code)
    return number


def killed(folder: Path, kills: int, iterations: int, seed: int) -> dict[str, Any]:
    """What became of a study that was killed so often."""
    rng, study, done = random.Random(seed), study_in(folder, iterations), 0
    while study.merged() < iterations:
        number = process(study, iterations)
        end = time.monotonic() + (rng.uniform(0.05, LONGEST) if done < kills else 300.0)
        while time.monotonic() < end and os.waitpid(number, os.WNOHANG) == (0, 0):
            time.sleep(0.005)
        else:
            if time.monotonic() >= end:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
                done += 1
    notes = [line.split() for line in (folder / "notes").read_text().splitlines()]
    over = Counter(name for what, name in notes if what != "began")
    table = archive.read_table(study.archive)
    ids = [f"{t}-{slot}" for t, slot in zip(table.iteration, table.slot, strict=True)]
    ended = {name: what for what, name in notes if what != "began"}
    status = dict(zip(ids, table.status.tolist(), strict=True))
    wrong = {"ok": "stopped", "stopped": "ended"}
    return {
        "kills": done,
        "evaluations": len(ids),
        "starts": sum(what == "began" for what, _ in notes),
        "outcomes": dict(Counter(table.status.tolist())),
        "lost": 8 * iterations - len(set(ids)) + (set(status.values()) > {"ok", "stopped"}),
        "repeated": sorted(name for name, times in over.items() if times > 1),
        "contradicted": sorted(n for n in ids if ended.get(n) == wrong.get(status[n])),
        "without_curve": sum(not curve.points for curve in archive.read_curves(study.archive)),
        "problems": archive.verify(study.archive),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=20, help="of eight evaluations each")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    found = killed(folder, arguments.kills, arguments.iterations, arguments.seed)
    print(json.dumps(found))
    shutil.rmtree(folder)
    bad = ("lost", "repeated", "contradicted", "without_curve", "problems")
    return int(any(found[name] for name in bad))


if __name__ == "__main__":
    sys.exit(main())

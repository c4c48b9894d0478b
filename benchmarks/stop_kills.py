"""Kills of a study that stops some evaluations early and promotes others: is one of them lost, or repeated?

    python benchmarks/stop_kills.py --kills 100

A process takes a study through its stages, some points at a time; it is killed with SIGKILL at random
moments, and another goes on. Steps are the fidelity, by successive halving: a promoted point goes on from
its checkpoint, and so does an evaluation after a kill. Each says in a file of its own which steps it made,
when it has come to its end, and when it was told to stop: it may do so once. No point may be archived twice
at the same fidelity, and no step may be made anew but one that a kill cut short. A line of JSON says what
became of them; exit status 1 if an evaluation was lost or repeated, or if the archive is not what was
written.
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
import dngo.rivals.baselines
import dngo.surrogates  # noqa: F401
from dngo import archive
from dngo.config import validate
from dngo.stopping.curves import Curve
from dngo.study import Study

LOW, HIGH, PAUSE = 16, 64, 0.02
LONGEST = 1.2  # seconds from the start of a process to its kill
PROGRAM = f"""
import json, os, signal, sys, time
p = json.load(sys.stdin)
x, left = p["x"], os.path.join(sys.argv[2], "left")
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(what):
    os.write(notes, (what + " " + os.environ["DNGO_ID"] + chr(10)).encode())
def stop(*_):
    time.sleep(0.05)
    say("stopped")
    os._exit(3)
signal.signal(signal.SIGTERM, stop)
def put(path, what):
    with open(path + ".tmp", "w") as stream:
        json.dump(what, stream)
    os.replace(path + ".tmp", path)
say("began")
done = json.load(open(left)) if os.path.exists(left) else 0
for step in range(done + 1, p["steps"] + 1):
    say("step:" + repr(x) + ":" + str(step))
    time.sleep({PAUSE})
    with open(os.environ["DNGO_PROGRESS"], "a") as stream:
        stream.write(json.dumps({{"step": step, "objective": x + 1 / step}}) + chr(10))
    put(left, step)
put(os.environ["DNGO_OUTCOME"], {{"objective": x + 1 / p["steps"]}})
say("ended")
os._exit(0)
"""


def study_in(folder: Path, iterations: int) -> Study:
    """The study, of batches of eight points, four of them at a time."""
    document = {
        "study": "killed",
        "results": str(folder / "results"),
        "objective": {
            "command": [sys.executable, "-S", "-c", PROGRAM, str(folder / "notes"), "{checkpoint}"]
        },
        "space": {
            "x": {"type": "float", "low": 0, "high": 1},
            "steps": {"type": "int", "low": 1, "high": HIGH},
        },
        "fidelity": {"parameter": "steps", "low": LOW, "high": HIGH, "factor": 4},
        "design": {"size": 8},
        "batch_size": 8,
        "iterations": iterations - 1,
        "points_per_job": 8,
        "points_at_once": 4,
        "retries": 100,
        "acquisition": "successive_halving",
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
    # Modules that are imported late are there before the first fork: else most kills hit an import.
    study_in(folder / "other", iterations).propose(0, None, folder / "other.json")
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
    steps = Counter(what for what, _ in notes if what.startswith("step:"))
    ended = {name: what for what, name in notes if what in ("ended", "stopped")}
    over = Counter(name for what, name in notes if what in ("ended", "stopped"))
    table = archive.read_table(study.archive)
    ids = [f"{t}-{slot}" for t, slot in zip(table.iteration, table.slot, strict=True)]
    ladder = study.config.ladder
    assert ladder is not None
    curves = archive.read_curves(study.archive)
    points = Counter(map(tuple, table.v.tolist()))
    status = dict(zip(ids, table.status.tolist(), strict=True))
    wrong = {"ok": "stopped", "stopped": "ended"}
    starts = sum(what == "began" for what, _ in notes)
    return {
        "kills": done,
        "evaluations": len(ids),
        "promoted": int(ladder.is_top(table.v).sum()),
        "starts": starts,
        "outcomes": dict(Counter(table.status.tolist())),
        "steps": steps.total(),
        "steps_again": steps.total() - len(steps),
        "lost": 8 * iterations - len(set(ids)) + (not set(status.values()) <= {"ok", "stopped"}),
        "repeated": sorted(name for name, times in over.items() if times > 1)
        + [str(v) for v, times in points.items() if times > 1],
        # Each kill may cut short a step of those that were under way.
        "wasted": max(0, steps.total() - len(steps) - (starts - len(ids))),
        "contradicted": sorted(n for n in ids if ended.get(n) == wrong.get(status[n])),
        "without_curve": sum(not curve.points for curve in curves),
        # A start that goes on from a checkpoint reports the rest: what was reported before it stays.
        "gaps": sum(_has_gap(curve) for curve in curves),
        "problems": archive.verify(study.archive),
    }


def _has_gap(curve: Curve) -> bool:
    """Whether steps are missing in it; a promoted point begins after those of the lower fidelity."""
    first = LOW + 1 if curve.steps and curve.steps[0] > LOW else 1
    return bool(curve.steps) and curve.steps != [*range(first, first + len(curve.steps))]


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
    bad = ("lost", "repeated", "wasted", "contradicted", "without_curve", "gaps", "problems")
    return int(any(found[name] for name in bad))


if __name__ == "__main__":
    sys.exit(main())

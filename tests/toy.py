"""A small study with a real objective that counts its own runs."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from dngo.archive import read_table, verify

if TYPE_CHECKING:
    from dngo.study import Study

ROOT = Path(__file__).resolve().parents[1]
# For what is the same whatever proposes the points: this takes a moment.
QUICK = ("--config", "acquisition=random")

OBJECTIVE = """
import json, os, sys, time
p = json.load(sys.stdin)
time.sleep({sleep})
with open({runs!r}, "a") as stream:  # one line for each run: the proof of what was evaluated
    stream.write(os.environ["DNGO_ID"] + " " + json.dumps(p, sort_keys=True) + chr(10))
if p["x"] > 0.95:
    sys.exit("this corner does not work")
print(json.dumps({{"objective": (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2,
                  "constraints": {{"small": p["x"] + p["y"] < 1.5}}}}))
"""

CONFIG = """
study: toy
seed: 1
objective:
  command: "{{python}} objective.py"
  time_limit: 30
space:
  x: {{type: float, low: 0, high: 1}}
  y: {{type: float, low: 0, high: 1}}
constraints: [small]
design: {{size: 8}}
iterations: {iterations}
batch_size: {batch_size}
points_per_job: {points_per_job}
surrogate: {{networks: {{steps: 50, epochs: 1}}, hyperparameter_samples: 3}}
classifier: {{networks: {{steps: 50, epochs: 1}}}}
"""
# For runs of which only the evaluations are looked at: two jobs in five are reports.
BRIEF = ("--omit-from", "report", "conclude", "progress")
# Few candidates: no test of a whole study asks how good its points are.
FEW = {
    "kind": "mcei",
    "uniform_candidates": 128,
    "local_candidates": 64,
    "shortlist": 128,
    "refinements": 1,
    "fantasies": 8,
}

# A study in Python of which no more is asked.
QUICK_STUDY = {
    "surrogate": {"kind": "gp", "hyperparameter_samples": 3},
    "classifier": {"networks": {"steps": 20, "epochs": 1}},
    "acquisition": FEW,
}


class Toy:
    """A study in a folder of its own, run by the real Snakemake.

    without: words for Snakemake before all others, as `BRIEF`.
    """

    without: tuple[str, ...] = ()

    def __init__(
        self,
        folder: Path,
        *,
        iterations: int,
        batch_size: int,
        sleep: float,
        points_per_job: int = 4,
    ):
        self.folder, self.points_per_job = folder, points_per_job
        self.runs = folder / "runs.txt"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "objective.py").write_text(OBJECTIVE.format(runs=str(self.runs), sleep=sleep))
        self.configure(iterations=iterations, batch_size=batch_size)

    def configure(self, *, iterations: int, batch_size: int, extra: str = "") -> None:
        text = CONFIG.format(
            iterations=iterations, batch_size=batch_size, points_per_job=self.points_per_job
        )
        few = "" if "acquisition:" in extra else f"acquisition: {json.dumps(FEW)}\n"
        (self.folder / "config.yaml").write_text(text + few + extra)

    def copied(self, folder: Path) -> Toy:
        """The study as it stands, in another folder, where its objective counts on."""
        shutil.copytree(self.folder, folder)
        other = copy.copy(self)
        other.folder, other.runs = folder, folder / "runs.txt"
        path = folder / "objective.py"
        path.write_text(path.read_text().replace(repr(str(self.runs)), repr(str(other.runs))))
        return other

    @property
    def results(self) -> Path:
        return self.folder / "results" / "toy"

    @property
    def archive(self) -> Path:
        return self.results / "archive.h5"

    def evaluations(self) -> Counter[str]:
        """How often each proposal, by id and parameters, was evaluated to its end."""
        return Counter(self.runs.read_text().splitlines() if self.runs.exists() else [])

    def runs_of(self) -> Counter[str]:
        """How often each proposal, by id, was evaluated to its end."""
        return Counter(line.split()[0] for line in self.evaluations().elements())

    def command(self, *options: str, snakefile: Path = ROOT / "Snakefile") -> list[str]:
        return [sys.executable, "-m", "snakemake", "-s", str(snakefile), *self.without, *options]

    def start(self, *options: str, **kwargs) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*options, **kwargs),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def snakemake(self, *options: str, check: bool = True, timeout: float = 600, **kwargs) -> str:
        """Run Snakemake to its end; its whole output."""
        process = self.start(*options, **kwargs)
        output, _ = process.communicate(timeout=timeout)
        assert not check or process.returncode == 0, output
        return output


def advance(study: Study, t: int, *, merge: bool = True) -> None:
    """Run the stages of iteration t in this process. Snakemake would run each in its own."""
    folder = study.iteration(t)
    surrogate = None
    if t:
        surrogate = folder / "surrogate.h5"
        study.fit(t, surrogate)
    study.propose(t, surrogate, folder / "proposals.json")
    if merge:
        finish(study, t)


def finish(study: Study, t: int) -> None:
    """Evaluate and merge the batch that was proposed."""
    for chunk in range(study.num_chunks(t)):
        study.evaluate(t, chunk, study.iteration(t) / "outcomes" / f"{chunk}.json")
    study.merge(t, study.iteration(t) / "receipt.json")


def kill_tree(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Kill a process and all its descendants, wherever their process groups are."""
    process = psutil.Process(pid)
    for member in [process, *process.children(recursive=True)]:
        try:
            member.send_signal(number)
        except psutil.Error:
            continue


def planned(output: str) -> dict[str, int]:
    """Jobs by rule in a dry run's statistics."""
    return {r: int(n) for r, n in re.findall(r"^(\w+) +(\d+)$", output, re.M)}


def held(toy: Toy) -> dict[str, int]:
    """How often each point that has an outcome, archived or not, has run. None of them may run again.

    After a kill this is all that can be asked: an objective writes its line before its outcome is kept.
    """
    found = {f"{p.parents[1].name}-{p.stem}" for p in toy.results.glob("pending/*/outcomes/*.json")}
    if toy.archive.exists():
        table = read_table(toy.archive)
        found |= {f"{t}-{s}" for t, s in zip(table.iteration, table.slot, strict=True)}
    runs = toy.runs_of()
    return {point: runs[point] for point in found}


def kept(toy: Toy, rows: int, before: dict[str, int]) -> None:
    """The archive has this many rows, intact, and nothing that had an outcome `before` a kill ran again."""
    table = read_table(toy.archive)
    assert len(table) == len(set(zip(table.iteration, table.slot, strict=True))) == rows
    assert verify(toy.archive) == []
    runs = toy.runs_of()
    assert len(runs) == rows
    assert {point: runs[point] for point in before} == before


def once_each(toy: Toy, rows: int) -> None:
    """The archive has this many rows, intact, and every one was evaluated exactly once."""
    kept(toy, rows, {})
    assert sorted(toy.evaluations().values()) == [1] * rows

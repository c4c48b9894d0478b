"""A new user's study, made in a folder, run by the command line or by its stages."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from running import ran
from toy import ROOT

from dngo.batch import read_outcomes
from dngo.cli import main
from dngo.config import load
from dngo.study import Study

CONFIG = """
study: mine
objective: {objective}
space:
  x: {{type: float, low: 0, high: 1}}
  y: {{type: float, low: 0, high: 1}}
constraints: [small]
acquisition: sobol
design: {{size: {design}}}
batch_size: {batch}
iterations: {iterations}
points_per_job: {points_per_job}
{more}
"""
# A line for each run that came to its end, as proof of what was evaluated.
GOOD = """
import json, os, sys
p = json.load(sys.stdin)
print(json.dumps({"objective": p["x"], "constraints": {"small": p["y"] < 0.9}}))
with open("runs.txt", "a") as stream:
    stream.write(os.environ["DNGO_ID"] + "\\n")
"""


@dataclass
class Mine:
    """A new user's study, in a folder of its own."""

    folder: Path
    objective: str = '{command: "{python} objective.py"}'
    options: dict[str, object] = field(
        default_factory=lambda: {
            "design": 8,
            "batch": 2,
            "iterations": 1,
            "points_per_job": 8,
            "more": "",
        }
    )

    def write(self, objective: str = "", **files: str) -> None:
        for name, text in {"objective.py": GOOD, **files}.items():
            (self.folder / name).write_text(text)
        text = CONFIG.format(objective=objective or self.objective, **self.options)
        (self.folder / "my.yaml").write_text(text)

    @property
    def study(self) -> Study:
        results = str(self.folder / "results")
        return Study(load([self.folder / "my.yaml"], {"results": results}))

    @property
    def outcomes(self) -> list[str]:
        """Statuses of the evaluations that have ended and are not merged, by slot."""
        files = (self.folder / "results/mine/pending").glob("*/outcomes/*.json")
        found = sorted((o for path in files for o in read_outcomes(path)), key=lambda o: o.slot)
        return [outcome.status for outcome in found]

    def dngo(self, *words: str) -> int:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            return main([*words, "my.yaml"])
        finally:
            os.chdir(before)

    def snakemake(self, *options: str) -> tuple[int, str]:
        words = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "1"]
        done = ran(
            [*words, "--configfile", "my.yaml", *options],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        return done.returncode, done.stderr


def ends(study: Study, iteration: int = 0, chunks: int = 1) -> None:
    """Evaluate a batch as the jobs of a run do."""
    for chunk in range(chunks):
        study.evaluate(iteration, chunk, study.folder / f"chunk-{chunk}.json")

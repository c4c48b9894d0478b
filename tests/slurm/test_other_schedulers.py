"""The documentation's lines for schedulers with a submit command.

Those of Grid Engine run on a real one. Those of PBS run through scripts named like its commands, which stand
on the tests' Slurm, for Debian has no PBS: this tests the lines, and not PBS.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from needs import missing

from dngo.workflow.words import ENDED

from .cluster import CANNOT_BE_HAD, SCRIPTS, Cluster
from .study import ROOT, SlurmStudy

PBS = SCRIPTS / "pbs"


def profile_of(scheduler: str, folder: Path) -> None:
    """As docs/slurm.md says: a copy of the profile without its slurm- lines, and with those of the table."""
    rows = (ROOT / "docs" / "slurm.md").read_text().splitlines()
    row = next(row for row in rows if row.startswith(f"| {scheduler}"))
    lines = dict(re.findall(r"`(cluster-generic-[a-z]+-cmd): \"?(.*?)\"?`", row))
    assert set(lines) == {f"cluster-generic-{name}-cmd" for name in ("submit", "status", "cancel")}
    ours: dict[str, Any] = yaml.safe_load((ROOT / "slurm" / "config.yaml").read_text())
    ours = {key: value for key, value in ours.items() if not key.startswith("slurm-")}
    folder.mkdir()
    (folder / "config.yaml").write_text(
        yaml.safe_dump({**ours, "executor": "cluster-generic", **lines})
    )


def test_a_study_runs_through_the_lines_of_pbs(
    study, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = study(resources={"evaluate": {"threads": 3}})
    toy.actions(p0_1="exit", p0_2="go")
    profile_of("PBS", toy.folder / "pbs")
    path = os.pathsep.join([str(PBS), os.environ["PATH"]])
    before = len(cluster.records())
    monkeypatch.setitem(cluster.environment, "PATH", path)
    toy.start(profile="pbs")
    killed = toy.job_of("0-2")
    cluster.run(PBS / "qdel", str(killed))
    toy.job_of("0-2", after=killed)
    toy.let_go()
    output = toy.end()
    toy.lawful(4, p0_1="failed")
    assert "Best point" in output
    jobs = cluster.records()[before:]
    assert len(jobs) == 3
    assert {job["TimeLimit"] for job in jobs} == {"60"}
    assert all("cpu=3,mem=2000M" in job["Tres"] for job in jobs)


@pytest.fixture
def grid_engine() -> Iterator[Any]:
    """The environment of a Grid Engine of one host, or a skipped test and why."""
    with tempfile.TemporaryDirectory(prefix="dngo-sge-") as folder:
        words = [SCRIPTS / "grid-engine", "up", folder]
        result = subprocess.run(words, capture_output=True, text=True)
        if result.returncode == CANNOT_BE_HAD:
            packages = "gridengine-master gridengine-exec gridengine-client"
            missing(f"no Grid Engine: {result.stderr.strip()}; apt-get install {packages}")
        if result.returncode:
            pytest.fail(result.stdout + result.stderr, pytrace=False)
        try:
            found = dict(word.split("=", 1) for word in result.stdout.split())
            yield SimpleNamespace(environment={**os.environ, **found})
        finally:
            subprocess.run([words[0], "down", folder], check=True)


def test_a_study_runs_on_a_grid_engine(grid_engine, tmp_path: Path) -> None:
    evaluate = {"threads": 2}
    toy = SlurmStudy(tmp_path, grid_engine, resources={"evaluate": evaluate}, iterations=1)
    toy.actions(p0_1="exit", p0_2="go")
    profile_of("Grid Engine", toy.folder / "sge")
    toy.start(profile="sge")
    toy.until(lambda: "0-2" in toy.events("start"), "a point starts")
    subprocess.run(["qdel", "*"], env=grid_engine.environment, check=False)
    toy.until(lambda: toy.events("start")["0-2"] == 2, "another job")
    toy.let_go()
    output = toy.end()
    toy.lawful(8, p0_1="failed")
    assert "Best point" in output
    # No Snakemake ran in a job: it would have said so. A job says that it has ended, and no more.
    logs = (toy.folder / ".snakemake").glob("*.sh.o*")
    assert all(line.startswith(ENDED) for path in logs for line in path.read_text().splitlines())
    account = (
        Path(grid_engine.environment["SGE_ROOT"]) / "default" / "common" / "accounting"
    ).read_text()
    assert "-l h_rt=3600,h_vmem=1000M -pe smp 2" in account

"""The documentation's lines for schedulers with a submit command, through scripts named like those of PBS.

They stand on the tests' Slurm, for Debian has no other scheduler: this tests the lines, and not PBS.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from .cluster import Cluster
from .study import ROOT

pytestmark = pytest.mark.timeout(300)
PBS = Path(__file__).resolve().parent / "pbs"


def test_a_study_runs_through_a_submit_command(
    study, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = study(points_per_job=1)
    toy.actions(p0_1="exit", p0_2="go")
    # As docs/slurm.md says: a copy of the profile without its slurm- lines, and with those of the table.
    lines = dict(re.findall(r"`(cluster-generic-[a-z]+-cmd): \"?(.*?)\"?`", readme_row()))
    assert set(lines) == {"cluster-generic-submit-cmd", "cluster-generic-cancel-cmd"}
    profile = yaml.safe_load((ROOT / "slurm" / "config.yaml").read_text())
    profile = {key: value for key, value in profile.items() if not key.startswith("slurm-")}
    profile |= {"executor": "cluster-generic", **lines}
    profile["cluster-generic-status-cmd"] = str(PBS / "status")
    (toy.folder / "pbs").mkdir()
    (toy.folder / "pbs" / "config.yaml").write_text(yaml.safe_dump(profile))
    path = os.pathsep.join([str(PBS), os.environ["PATH"]])
    before = len(cluster.records())
    monkeypatch.setitem(cluster.environment, "PATH", path)
    toy.start(profile="pbs")
    killed = toy.job_of("0-2")
    cluster.run(PBS / "qdel", str(killed))
    toy.until(lambda: toy.job_of("0-2") != killed, "another job")
    toy.let_go()
    output = toy.end()
    toy.lawful(4, p0_1="failed")
    assert "Best point" in output
    jobs = cluster.records()[before:]
    assert len(jobs) == 5
    assert {job["TimeLimit"] for job in jobs} == {"60"}
    assert all("mem=2000M" in job["Tres"] for job in jobs)


def readme_row() -> str:
    rows = (ROOT / "docs" / "slurm.md").read_text().splitlines()
    return next(row for row in rows if row.startswith("| PBS"))

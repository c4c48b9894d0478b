"""A study whose jobs share no file system with Snakemake: batches and outcomes travel through a storage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from toy import ROOT

from dngo.archive import read_table, verify

pytest.importorskip("snakemake_storage_plugin_fs", reason="snakemake-storage-plugin-fs")
pytest.importorskip("snakemake_executor_plugin_cluster_generic")
if shutil.which("rsync") is None:
    pytest.skip("the storage plugin copies by rsync", allow_module_level=True)

# A machine that jobs run on: another folder, with what an image would hold, and nothing of the study's.
SUBMIT = """#!/bin/bash
cd {machine}
script=$(mktemp "$PWD/job-XXXXXX")
cp "$1" "$script"
(env PATH="{path}" sh "$script" >"$script.log" 2>&1; echo $? >"$script.status") &
echo "$script"
"""
STATUS = """#!/bin/bash
[ -e "$1.status" ] || {{ echo running; exit; }}
[ "$(cat "$1.status")" = 0 ] && echo success || echo failed
"""
OBJECTIVE = """
import json, os, sys
p = json.load(sys.stdin)
with open({runs!r}, "a") as stream:
    stream.write(os.environ["DNGO_ID"] + " " + os.getcwd() + chr(10))
if os.environ["DNGO_ID"] == "0-1":
    sys.exit(3)
print((p["x"] - 0.3) ** 2)
"""


class Apart:
    """A head node, a machine for jobs, and a storage between them."""

    def __init__(self, folder: Path):
        self.head, self.machine = folder / "head", folder / "machine"
        self.storage, self.runs = folder / "storage", folder / "runs.txt"
        config = {
            "study": "toy",
            "objective": {"command": "{python} objective.py"},
            "space": {"x": {"type": "float", "low": 0, "high": 1}},
            "design": {"size": 4},
            "iterations": 0,
            "batch_size": 4,
            "points_per_job": 4,
            "surrogate": {"networks": {"steps": 50, "epochs": 1}},
        }
        for place in (self.head, self.machine):
            place.mkdir(parents=True)
            for name in ("Snakefile", "rules", "scripts", "dngo", "envs", "profiles"):
                (place / name).symlink_to(ROOT / name)
            (place / "config.yaml").write_text(yaml.safe_dump(config))
        (self.machine / "objective.py").write_text(OBJECTIVE.format(runs=str(self.runs)))
        for name, text in (("submit", SUBMIT), ("status", STATUS)):
            script = folder / name
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            script.write_text(text.format(machine=self.machine, path=path))
            script.chmod(0o755)
        profile = {
            "executor": "cluster-generic",
            "jobs": 4,
            "cluster-generic-submit-cmd": str(folder / "submit"),
            "cluster-generic-status-cmd": str(folder / "status"),
            "shared-fs-usage": "none",
            "default-storage-provider": "fs",
            "default-storage-prefix": str(self.storage),
            "seconds-between-status-checks": 1,
            "latency-wait": 5,
            "default-resources": {"mem_mb": 1000, "runtime": 10},
        }
        (self.head / "apart").mkdir()
        (self.head / "apart" / "config.yaml").write_text(yaml.safe_dump(profile))

    def run(self) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", "--profile", "apart"],
            cwd=self.head,
            capture_output=True,
            text=True,
            timeout=240,
        )
        output = done.stdout + done.stderr
        logs = "".join(path.read_text() for path in self.machine.glob("job-*.log"))
        assert done.returncode == 0, output + logs
        return output


def test_a_study_runs_without_a_shared_file_system(tmp_path: Path) -> None:
    apart = Apart(tmp_path)
    output = apart.run()
    archive = apart.head / "results" / "toy" / "archive.h5"
    table = read_table(archive)
    assert Counter(map(str, table.status)) == {"ok": 3, "failed": 1}
    assert verify(archive) == []
    assert "Best point" in output
    # The archive never left, and what travelled is small.
    assert not list(apart.storage.rglob("*.h5")) and not list(apart.machine.rglob("archive.h5"))
    assert {p.name for p in apart.storage.rglob("*.json")} <= {"proposals.json", "0.json"}
    # It goes on, also on other machines.
    shutil.rmtree(apart.machine / "results")
    config = yaml.safe_load((apart.head / "config.yaml").read_text())
    for place in (apart.head, apart.machine):
        (place / "config.yaml").write_text(yaml.safe_dump({**config, "iterations": 1}))
    apart.run()
    assert len(read_table(archive)) == 8
    runs = [line.split(" ", 1) for line in apart.runs.read_text().splitlines()]
    assert Counter(point for point, _ in runs) == {f"{t}-{s}": 1 for t in (0, 1) for s in range(4)}
    assert all(place.startswith(str(apart.machine)) for _, place in runs)

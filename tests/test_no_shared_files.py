"""A study whose jobs share no file system with Snakemake: batches and outcomes travel through a storage."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from running import ran
from toy import BRIEF, ROOT

from dngo.archive import read_table, verify

pytestmark = pytest.mark.usefixtures("rsync")  # by which the storage plugin copies

# A machine for jobs: another folder that has what an image would hold, and nothing of the study.
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
with open(os.path.join(os.environ["DNGO_WORKDIR"], "plot.svg"), "w") as stream:
    stream.write("<svg>" + os.environ["DNGO_ID"] + "</svg>")
print(json.dumps({{"objective": (p["x"] - 0.3) ** 2, "metadata": {{"image": "plot.svg"}}}}))
"""


class Apart:
    """A head node, a machine for jobs, and a storage between them."""

    def __init__(self, folder: Path, storage: Mapping[str, str] = {}):
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
            "acquisition": "random",
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
            **storage,
            "seconds-between-status-checks": 1,
            "latency-wait": 5,
            "default-resources": {"mem_mb": 1000, "runtime": 10},
        }
        (self.head / "apart").mkdir()
        (self.head / "apart" / "config.yaml").write_text(yaml.safe_dump(profile))

    def run(self, *options: str) -> str:
        words = [sys.executable, "-m", "snakemake", "--profile", "apart", *options]
        done = ran(words, cwd=self.head)
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
    # What travelled with it is where the report and the audit look, and once.
    images = archive.parent / "images" / "0"
    shown = {path.name: path.read_text() for path in images.iterdir()}
    assert shown == {f"{slot}.svg": f"<svg>0-{slot}</svg>" for slot in (0, 2, 3)}
    (received,) = (archive.parent / "iterations" / "0" / "outcomes").iterdir()
    assert "pictures" not in json.loads(received.read_text())
    # It goes on, also on other machines.
    shutil.rmtree(apart.machine / "results")
    config = yaml.safe_load((apart.head / "config.yaml").read_text())
    for place in (apart.head, apart.machine):
        (place / "config.yaml").write_text(yaml.safe_dump({**config, "iterations": 1}))
    apart.run(*BRIEF)
    assert len(read_table(archive)) == 8
    runs = [line.split(" ", 1) for line in apart.runs.read_text().splitlines()]
    assert Counter(point for point, _ in runs) == {f"{t}-{s}": 1 for t in (0, 1) for s in range(4)}
    assert all(place.startswith(str(apart.machine)) for _, place in runs)


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Lines of a profile for an S3 server of this machine: moto's, which stands in for one."""
    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    own = ("SNAKEMAKE_STORAGE_S3_ACCESS_KEY", "SNAKEMAKE_STORAGE_S3_SECRET_KEY")
    for name in (*keys, *own):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    with (tmp_path / "moto.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(300):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.2)
        url = f"http://127.0.0.1:{port}"
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="studies")
        yield {
            "default-storage-provider": "s3",
            "default-storage-prefix": "s3://studies/here",
            "storage-s3-endpoint-url": url,
        }
    finally:
        server.terminate()
        server.wait()


def test_a_study_runs_with_an_object_storage_between_the_machines(
    tmp_path: Path, s3: dict[str, str]
) -> None:
    import boto3

    apart = Apart(tmp_path, s3)
    apart.run(*BRIEF)
    archive = apart.head / "results" / "toy" / "archive.h5"
    assert Counter(map(str, read_table(archive).status)) == {"ok": 3, "failed": 1}
    assert verify(archive) == []
    runs = [line.split(" ", 1)[0] for line in apart.runs.read_text().splitlines()]
    assert Counter(runs) == {f"0-{slot}": 1 for slot in range(4)}
    client = boto3.client("s3", endpoint_url=s3["storage-s3-endpoint-url"])
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="studies")["Contents"]]
    assert {Path(key).name for key in keys} == {"proposals.json", "0.json", "0.log"}
    assert not list(apart.machine.rglob("archive.h5"))

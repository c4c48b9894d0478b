"""Nodes on which jobs die before they begin: a study ends well as long as one of four is good."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster

# Python on a node where its files are not mounted: it dies at once, and the node is free again.
BROKEN = 'case $SLURMD_NODENAME in {}) echo "export PYTHONHOME=/nowhere" ;; esac'


def ends(cluster: Cluster, before: int, node: str = "") -> list[str]:
    """How each job that was not well has ended, on one node or on any."""
    records = [r for r in cluster.records()[before:] if node in r["NodeList"]]
    return [r["JobState"] for r in records if r["JobState"] != "COMPLETED"]


@pytest.fixture
def tool(tmp_path: Path, cluster: Cluster) -> Iterator[str]:
    """A program of the site's, which jobs find by their PATH."""
    program = tmp_path / "bin" / "simulate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    before = cluster.environment["PATH"]
    cluster.environment["PATH"] = f"{program.parent}:{before}"
    yield program.name
    cluster.environment["PATH"] = before


def test_two_bad_nodes_of_four(study, cluster: Cluster, tool: str) -> None:
    """On one Python cannot begin, and on one the objective cannot be started. Each job fills a node: one is lost there,
    whatever waits, and the run says where and how."""
    before = len(cluster.records())
    toy = study(
        designed=False,
        design={"size": 6},
        batch_size=2,
        iterations=1,
        points_per_job=1,
        retries=0,
        objective={"command": f"{tool} objective.py"},
        resources={"evaluate": {"mem_mb": 1000, "threads": 4}},
    )
    missing = 'case $SLURMD_NODENAME in node2) echo "export PATH=/usr/bin:/bin" ;; esac'
    with cluster.script("TaskProlog", f"{BROKEN.format('node1')}\n{missing}"):
        output = toy.run()
    toy.lawful(8)
    assert sum(toy.events("start").values()) == 8
    assert len(ends(cluster, before, "node1")) <= 3  # one of each rule
    assert "A job died on node node1 before it began (exit status 1)" in output
    assert "A job died on node node2 before it began (objective.command: 'simulate'" in output
    assert "Error in" not in output


def test_a_bad_node_is_left_out_after_some_jobs(study, cluster: Cluster) -> None:
    before = len(cluster.records())
    toy = study(design={"size": 6}, points_per_job=1, retries=0)
    toy.whole = True
    with cluster.script("TaskProlog", BROKEN.format("node1")):
        output = toy.run()
    toy.lawful(6)
    assert 1 <= len(ends(cluster, before)) <= 4  # as many as it takes at once
    if len(ends(cluster, before)) >= 3:
        assert "Node node1 is left out for the rest of this run: 3 jobs died there" in output
        assert "node1 left out of this run" in (toy.results / "report" / "summary.txt").read_text()


def test_no_node_is_good(study, cluster: Cluster) -> None:
    """The run ends where no job begins, and where the objective cannot be started. Then all is mended."""
    before = len(cluster.records())
    toy = study(
        design={"size": 6}, points_per_job=1, objective={"command": "simulate objective.py"}
    )
    with cluster.script("TaskProlog", BROKEN.format("*")):
        output = toy.run(check=False)
    assert toy.process.returncode
    assert "no job of this run has begun" in output
    assert "exit status 1" in output
    assert len(ends(cluster, before)) <= 3 * 6
    output = toy.run(check=False)
    assert toy.process.returncode
    assert "What stopped it:\n  objective.command: 'simulate'" in output
    assert "Error in" not in output
    toy.configure(objective={"command": "{python} objective.py"})
    toy.run()
    toy.lawful(6)

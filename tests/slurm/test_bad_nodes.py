"""Nodes on which jobs die before they begin: a study ends well as long as one of four is good."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster

# Python on a node where its files are not mounted: it dies at once, and the node is free again.
BROKEN = 'case $SLURMD_NODENAME in {}) echo "export PYTHONHOME=/nowhere" ;; esac'


def ends(cluster: Cluster, before: int) -> list[str]:
    """How each job that was not well has ended."""
    records = cluster.records()[before:]
    return [r["JobState"] for r in records if r["JobState"] != "COMPLETED"]


def test_one_bad_node_of_four(study, cluster: Cluster) -> None:
    """Each job fills a node: one is lost there, whatever waits, and the run says where and how."""
    before = len(cluster.records())
    toy = study(
        designed=False,
        design={"size": 12},
        iterations=1,
        points_per_job=1,
        retries=0,
        resources={"evaluate": {"mem_mb": 1000, "threads": 4}},
    )
    with cluster.script("TaskProlog", BROKEN.format("node1")):
        output = toy.run()
    toy.lawful(16)
    assert sum(toy.events("start").values()) == 16
    assert len(ends(cluster, before)) <= 3  # one of each rule
    assert "A job died on node node1 before it began (exit status 1)" in output
    assert "Error in" not in output


def test_a_bad_node_is_left_out_after_some_jobs(study, cluster: Cluster) -> None:
    before = len(cluster.records())
    toy = study(design={"size": 16}, points_per_job=1, retries=0)
    toy.whole = True
    with cluster.script("TaskProlog", BROKEN.format("node1")):
        output = toy.run()
    toy.lawful(16)
    assert 1 <= len(ends(cluster, before)) <= 4  # as many as it takes at once
    if len(ends(cluster, before)) >= 3:
        assert "Node node1 is left out for the rest of this run: 3 jobs died there" in output
        assert "node1 left out of this run" in (toy.results / "report" / "summary.txt").read_text()


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


def test_the_objective_cannot_be_started_on_one_node(study, cluster: Cluster, tool: str) -> None:
    toy = study(
        design={"size": 8},
        points_per_job=1,
        retries=0,
        objective={"command": f"{tool} objective.py"},
        resources={"evaluate": {"mem_mb": 1000, "threads": 4}},
    )
    missing = 'case $SLURMD_NODENAME in node1) echo "export PATH=/usr/bin:/bin" ;; esac'
    with cluster.script("TaskProlog", missing):
        output = toy.run()
    toy.lawful(8)
    assert "A job died on node node1 before it began (objective.command: 'simulate'" in output
    assert "Error in" not in output


def test_the_objective_cannot_be_started_anywhere(study, cluster: Cluster) -> None:
    toy = study(points_per_job=1, objective={"command": "simulate objective.py"})
    output = toy.run(check=False)
    assert toy.process.returncode
    assert "What stopped it:\n  objective.command: 'simulate'" in output
    assert "Error in" not in output
    toy.configure(objective={"command": "{python} objective.py"})
    toy.run()
    toy.lawful(4)


def test_every_node_is_bad(study, cluster: Cluster) -> None:
    before = len(cluster.records())
    toy = study(design={"size": 8}, points_per_job=1)
    with cluster.script("TaskProlog", BROKEN.format("*")):
        output = toy.run(check=False)
    assert toy.process.returncode
    assert "no job of this run has begun" in output
    assert "exit status 1" in output
    assert len(ends(cluster, before)) <= 3 * 8
    toy.run()
    toy.lawful(8)

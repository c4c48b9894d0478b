"""A real Slurm for the tests in this folder: four nodes on this machine, up once per session."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import CANNOT_BE_HAD, SCRIPTS, Cluster

pytest.register_assert_rewrite("slurm.study")


@pytest.fixture(scope="session")
def cluster_session() -> Iterator[Cluster]:
    """The cluster, or a skipped test and why."""
    # Not pytest's own temporary folder: its path is too long for a socket.
    with tempfile.TemporaryDirectory(prefix="dngo-slurm-") as folder:
        cluster = Cluster(Path(folder).resolve())
        result = subprocess.run(
            [SCRIPTS / "up", folder], capture_output=True, text=True, timeout=600
        )
        if result.returncode == CANNOT_BE_HAD:
            pytest.skip(f"no Slurm: {result.stderr.strip()}")
        if result.returncode:
            pytest.fail(result.stderr, pytrace=False)
        try:
            yield cluster
        finally:
            cluster.down()


@pytest.fixture
def cluster(cluster_session: Cluster) -> Iterator[Cluster]:
    """The cluster as each test finds it: idle, with nothing broken."""
    cluster_session.reset()
    yield cluster_session
    cluster_session.reset()

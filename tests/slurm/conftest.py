"""A real Slurm for the tests in this folder: four nodes on this machine, up once per session."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("slurm.study")  # before it is imported

from .cluster import CANNOT_BE_HAD, SCRIPTS, Cluster  # noqa: E402
from .study import SlurmStudy  # noqa: E402


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


@pytest.fixture
def study(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., SlurmStudy]]:
    """A function that makes a study on the cluster."""
    made = []

    def make(*, designed: bool = True, **config) -> SlurmStudy:
        toy = SlurmStudy(tmp_path / f"study{len(made)}", cluster, **config)
        if designed:
            toy.propose_design()
        made.append(toy)
        return toy

    yield make
    for found in made:
        if found.process is not None and found.process.poll() is None:
            os.killpg(found.process.pid, signal.SIGKILL)
            found.process.wait()

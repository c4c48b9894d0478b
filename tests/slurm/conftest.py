"""A real Slurm for the tests in this folder: four nodes on this machine, up once per session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from needs import missing

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
            [SCRIPTS / "up", folder, "--no-install"], capture_output=True, text=True, timeout=600
        )
        if result.returncode == CANNOT_BE_HAD:
            missing(f"no Slurm: {result.stderr.strip()}; {SCRIPTS}/up /tmp/slurm --install-only")
        if result.returncode:
            pytest.fail(result.stderr, pytrace=False)
        try:
            yield cluster
        finally:
            cluster.down()


@pytest.fixture
def cluster(cluster_session: Cluster) -> Cluster:
    """The cluster as each test finds it: idle, with nothing broken."""
    cluster_session.reset()
    return cluster_session


class Commands:
    """Slurm's commands as the study finds them: the real ones, or a test's replacement before
    them."""

    def __init__(self, folder: Path, cluster: Cluster):
        self.folder, self.path = folder, cluster.environment.get("PATH", os.environ["PATH"])
        folder.mkdir()
        cluster.environment["PATH"] = f"{folder}:{self.path}"

    def replace(self, name: str, script: str) -> None:
        """A shell script in place of a command; `$real` is the real one."""
        real = shutil.which(name, path=self.path)
        new = self.folder / f".{name}"
        new.write_text(f"#!/bin/bash\nreal={real}\n{script}\n")
        new.chmod(0o755)
        new.replace(self.folder / name)  # one that is being started is not changed

    def hang(self, name: str, *, after: bool = False, once: bool = True, unless: str = "-") -> None:
        """Make a command hang, before or after it has done its work.

        once: only the first call does.  unless: a word of calls that do not.
        """
        first = f"mkdir {self.folder}/hung-{name} 2>/dev/null" if once else "true"
        does = '"$real" "$@" >/dev/null 2>&1; ' if after else ""
        mark = f"touch {self.folder}/hangs-{name}"
        self.replace(
            name,
            f'case " $* " in *\' {unless} \'*) exec "$real" "$@" ;; esac\n'
            f'if {first}; then {does}{mark}; sleep 1000; fi\nexec "$real" "$@"',
        )

    def restore(self, *names: str) -> None:
        """Leave the real commands in their place."""
        for name in names:
            (self.folder / name).unlink()

    def hangs(self, name: str) -> bool:
        """Whether a call of the command hangs now."""
        return (self.folder / f"hangs-{name}").exists()


@pytest.fixture
def commands(cluster: Cluster, tmp_path: Path) -> Iterator[Commands]:
    """Slurm's commands as a study finds them, until the test ends."""
    before = cluster.environment.get("PATH")
    try:
        yield Commands(tmp_path / "commands", cluster)
    finally:
        if before is not None:
            cluster.environment["PATH"] = before


@pytest.fixture
def partition(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """A function that changes the cluster's partition until the test ends."""

    def update(**options: str) -> None:
        words = [f"{key}={value}" for key, value in options.items()]
        cluster.run("scontrol", "update", "partitionname=main", *words)

    yield update
    update(state="up", maxtime="infinite")


@pytest.fixture
def study(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., SlurmStudy]]:
    """A function that makes a study on the cluster."""
    made = []

    def make(
        *, designed: bool = True, hurried: bool = False, name: str = "", **config
    ) -> SlurmStudy:
        toy = SlurmStudy(tmp_path / (name or f"study{len(made)}"), cluster, **config)
        toy.hurried = hurried
        if designed:
            toy.propose_design()
        made.append(toy)
        return toy

    yield make
    for found in made:
        if found.process is not None and found.process.poll() is None:
            found.kill()

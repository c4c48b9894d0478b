"""Accounts and QOS limits, on a cluster with accounting of its own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import missing

from .cluster import CANNOT_BE_HAD, SCRIPTS, Cluster
from .study import SlurmStudy


@pytest.fixture(scope="module")
def accounts() -> Iterator[Cluster]:
    """A cluster with a database: account lab, and a QOS `brief` that allows ten minutes."""
    with tempfile.TemporaryDirectory(prefix="dngo-slurm-") as folder:
        cluster = Cluster(Path(folder).resolve())
        words = [SCRIPTS / "up", folder, "--accounting", "--no-install"]
        result = subprocess.run(words, capture_output=True, text=True)
        if result.returncode == CANNOT_BE_HAD:
            install = f"{SCRIPTS}/up /tmp/slurm --accounting --install-only"
            missing(f"no accounting: {result.stderr.strip()}; {install}")
        if result.returncode:
            cluster.down()
            pytest.fail(result.stderr, pytrace=False)
        try:
            for words in ("add qos brief MaxWall=10", "modify user root set qos=normal,brief"):
                cluster.run("sacctmgr", "--immediate", *words.split())
            yield cluster
        finally:
            cluster.down()


def test_a_wrong_account_is_one_line_with_its_key(accounts: Cluster, tmp_path: Path) -> None:
    toy = SlurmStudy(
        tmp_path,
        accounts,
        design={"size": 16},
        points_per_job=1,
        resources={"evaluate": {"slurm_account": "chem"}},
    )
    output = toy.run(check=False)
    assert toy.process.returncode
    (line,) = [line for line in output.splitlines() if "Slurm refuses" in line]
    assert "Slurm refuses jobs of evaluate: " in line
    assert (
        "Invalid account or account/partition combination specified. Change slurm_account" in line
    )
    assert "Error in" not in output
    assert not toy.results.joinpath("pending").exists()  # nor was the design paid for
    assert not accounts.squeue()


def test_a_job_that_is_longer_than_its_qos_allows_ends_the_run(
    accounts: Cluster, tmp_path: Path
) -> None:
    """Slurm takes it, for the QOS has no DenyOnLimit, and --test-only says nothing."""
    toy = SlurmStudy(tmp_path, accounts, resources={"evaluate": {"qos": "brief", "runtime": 20}})
    toy.propose_design()
    toy.hurry_calls()
    output = toy.run(check=False)
    assert toy.process.returncode
    message = (
        "Slurm takes jobs of evaluate but does not start them: QOSMaxWallDurationPerJobLimit. Change "
        "runtime of evaluate (now 20 minutes): `resources: {evaluate: {runtime: ...}}`"
    )
    assert output.count(message) == 1
    assert not toy.jobs()
    toy.configure(resources={"evaluate": {"qos": "brief", "runtime": 5}})
    toy.run()
    toy.lawful(4)


def test_a_partition_that_is_too_short_for_a_rule_is_known_at_once(
    accounts: Cluster, tmp_path: Path
) -> None:
    """Also where the site has Slurm take what it will not start."""
    conf = accounts.folder / "slurm.conf"
    before = conf.read_text()
    conf.write_text(before.replace("EnforcePartLimits=ALL", "EnforcePartLimits=NO"))
    try:
        accounts.run("scontrol", "reconfigure")
        every = {name: {"slurm_partition": "short"} for name in ("fit", "evaluate")}
        every["evaluate"]["runtime"] = 20
        toy = SlurmStudy(tmp_path, accounts, iterations=1, resources=every)
        output = toy.run(check=False)
        assert toy.process.returncode
        message = (
            "Slurm would not start jobs of fit and propose: the partition allows 30 minutes. Change runtime "
            "of fit and propose (now 20 + 20 minutes)"
        )
        assert output.count(message) == 1
        assert "evaluate:" not in output
        every["fit"]["runtime"] = 10
        toy.configure(resources=every)
        toy.run()
        toy.lawful(8)
    finally:
        conf.write_text(before)
        accounts.run("scontrol", "reconfigure")

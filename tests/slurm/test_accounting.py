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


def test_what_accounts_and_limits_refuse_is_one_line_with_its_key(
    accounts: Cluster, tmp_path: Path
) -> None:
    """A wrong account. A partition that is too short for a rule, where the site has Slurm take what it will not start.
    A job that is longer than its QOS allows: Slurm takes it, for the QOS has no DenyOnLimit, and --test-only
    says nothing."""
    conf = accounts.folder / "slurm.conf"
    before = conf.read_text()
    conf.write_text(before.replace("EnforcePartLimits=ALL", "EnforcePartLimits=NO"))
    every = {name: {"slurm_partition": "short"} for name in ("fit", "evaluate")}
    every["evaluate"] |= {"runtime": 20, "slurm_account": "chem"}
    toy = SlurmStudy(tmp_path, accounts, iterations=1, design={"size": 16}, resources=every)
    toy.hurried = True

    def refused() -> str:
        toy.configure(resources=every)
        output = toy.run(check=False)
        assert toy.process.returncode
        assert "Error in" not in output
        assert not toy.jobs()
        return output

    try:
        accounts.run("scontrol", "reconfigure")
        (line,) = [line for line in refused().splitlines() if "Slurm refuses" in line]
        assert "Slurm refuses jobs of evaluate: " in line
        assert (
            "Invalid account or account/partition combination specified. Change slurm_account"
            in line
        )
        assert not toy.results.joinpath("pending").exists()  # nor was the design paid for

        del every["evaluate"]["slurm_account"]
        output = refused()
        message = (
            "Slurm would not start jobs of fit and propose: the partition allows 30 minutes. Change runtime "
            "of fit and propose (now 20 + 20 minutes)"
        )
        assert output.count(message) == 1
        assert "evaluate:" not in output

        every["fit"]["runtime"] = 10
        every["evaluate"]["qos"] = "brief"
        toy.configure(design={"size": 4}, iterations=0)
        message = (
            "Slurm takes jobs of evaluate but does not start them: QOSMaxWallDurationPerJobLimit. Change "
            "runtime of evaluate (now 20 minutes): `resources: {evaluate: {runtime: ...}}`"
        )
        assert refused().count(message) == 1

        every["evaluate"]["runtime"] = 5
        toy.configure(resources=every)
        toy.run()
        toy.lawful(4)
    finally:
        conf.write_text(before)
        accounts.run("scontrol", "reconfigure")

"""`resources` of the configuration: each has an effect, or a line says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from toy import ROOT, Toy

from dngo.config import Config, load
from dngo.workflow.resources import DEFAULTS, asked


def configured(toy: Toy, **resources: dict[str, Any]) -> Config:
    return load([toy.folder / "config.yaml"], {"resources": resources})


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path / "toy", iterations=1, batch_size=2, sleep=0.0)


def test_what_is_configured_is_asked_for(toy: Toy) -> None:
    config = configured(toy, fit={"runtime": 10, "slurm_partition": "short"}, propose={"gpu": 1})
    fit, propose = (asked(config, rule, cluster=True) for rule in ("fit", "propose"))
    assert fit == {"mem_mb": DEFAULTS["fit"]["mem_mb"], "runtime": 10, "slurm_partition": "short"}
    # They are one job: what is a text is that of both, and what is a number of the one that says it.
    assert propose == {**DEFAULTS["propose"], "slurm_partition": "short", "gpu": 1}
    assert asked(config, "evaluate", cluster=True) == {}
    assert asked(config, "propose", cluster=False) == {"gpu": 1}


def test_what_a_fit_is_given_follows_the_number_of_rows(toy: Toy) -> None:
    config = configured(toy, propose={"runtime": 5})
    few, many = (asked(config, "fit", cluster=True, rows=n) for n in (100_000, 1_000_000))
    assert few == DEFAULTS["fit"] and many == {"mem_mb": 9000, "runtime": 60}
    # What people say wins.
    assert asked(config, "propose", cluster=True, rows=10**6) == {"mem_mb": 9000, "runtime": 5}
    assert asked(config, "evaluate", cluster=True, rows=10**6) == {}


PLAN = ("-n", "--quiet")


@pytest.mark.parametrize(
    ("resources", "profile", "options", "message"),
    [
        ({"fit": {"runtime": 10}}, {"set-resources": {"fit": {"mem_mb": 8000}}}, (), ""),
        (
            {"fit": {"runtime": 10}},
            {"set-resources": {"fit": {"runtime": 20}}},
            (),
            "resources.fit.runtime: 10 has no effect, since `set-resources` of the profile says 20; remove "
            "fit's runtime there",
        ),
        (
            {"evaluate": {"threads": 4}},
            {"set-threads": {"evaluate": 2}},
            (),
            "resources.evaluate.threads: 4 has no effect, since `set-threads` of the profile says 2; remove "
            "evaluate's threads there",
        ),
        # Who types it knows that it wins.
        ({"fit": {"runtime": 10}}, {}, ("--set-resources", "fit:runtime=20"), ""),
        (
            {"fit": {"qos": "long"}, "propose": {"qos": "short"}},
            {},
            (),
            "resources.fit.qos: fit and propose are one job, so qos must be the same in both, but is long "
            "and short",
        ),
    ],
)
def test_a_resource_without_an_effect_is_refused(
    toy: Toy, resources: Any, profile: dict[str, Any], options: tuple[str, ...], message: str
) -> None:
    ours = yaml.safe_load((ROOT / "slurm" / "config.yaml").read_text())
    folder = toy.folder / "profile"
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({**ours, **profile}))
    path = toy.folder / "config.yaml"
    path.write_text(path.read_text() + yaml.safe_dump({"resources": resources}))
    output = toy.snakemake(*PLAN, "--profile", str(folder), *options, check=not message)
    lines = [line for line in output.splitlines() if "resources." in line]
    assert lines == ([message] if message else [])
    assert "Traceback" not in output

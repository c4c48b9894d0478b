"""Archives of earlier releases: their studies go on, and replay names the release that derives them
again.

`tests/data/archives/v1-KIND.h5` are of 0.1.0, and `v2-KIND.h5` of 0.2.0: studies of three iterations, twenty
evaluations in all. Of 0.1.0: `bohamiann` with the acquisition lcb, per money; `least_squares` with a network
that serves two iterations, with transfer, and with exploration if nothing is promised; `random` without a
surrogate. Of 0.2.0: `auto` with the classifier of a step; `adaptive_basis` with the preprint's equations,
a quadratic prior mean and lcb, per money; `gp` with one lengthscale and a known constraint.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
from fuzzing.archive import rechain
from ruamel.yaml import YAML
from toy import FEW, ROOT, advance

from dngo import archive, derive
from dngo.audit import audit, audit_all, page
from dngo.batch import Batch
from dngo.cli import main
from dngo.config import CONFIG_VERSION, load
from dngo.errors import UserError
from dngo.plugins import Registry
from dngo.replay import RELEASES, configuration, replay
from dngo.study import Study

ARCHIVES = sorted((ROOT / "tests/data/archives").glob("v*-*.h5"))
RELEASED = {"v1": (1, "0.1.0"), "v2": (2, "0.2.0")}
OBJECTIVE = """
import json, os, sys
p = json.load(sys.stdin)
with open("runs.txt", "a") as stream:  # the proof of what was evaluated
    stream.write(os.environ["DNGO_ID"] + chr(10))
w = p.get("w", 0)
print(json.dumps({"objective": (p["x"] - .3) ** 2 + w, "constraints": {"small": p["x"] < .9},
                  "metadata": {"money": 1 + p["n"]}}))
"""


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an archive, in a folder of its own."""
    return Path(shutil.copy(request.param, tmp_path))


def test_they_are_verified_audited_and_exported(old: Path, capsys) -> None:
    assert main(["verify", str(old)]) == 0
    assert len(audit_all(old)) == 20
    for proposal in ("0-0", "2-4"):
        assert main(["audit", str(old), "--proposal", proposal]) == 0
    assert "Status                  ok" in capsys.readouterr().out
    # One archive takes every form: what a form writes does not depend on the surrogate.
    for form in Registry("dngo.exports").names() if old.stem == "v2-auto" else ["csv"]:
        output = old.with_name(f"exported.{form}")
        assert main(["export", str(old), "--format", form, "--output", str(output)]) == 0
        assert output.exists()


def means(now: object, was: object) -> bool:
    """Whether a value of a configuration is what it was. Keys of later releases change nothing."""
    if isinstance(was, dict) and isinstance(now, dict):
        return all(key in now and means(now[key], was[key]) for key in was)
    if isinstance(was, list) and isinstance(now, dict):  # flags, in 0.1.0
        return now == dict.fromkeys(was, True)
    return now == was


def test_their_configuration_is_brought_up_and_means_the_same(old: Path) -> None:
    for t in range(3):
        was = json.loads(archive.iteration_attributes(old, t)["config"])
        for stage in ("fit", "propose"):
            config = configuration(old, t, stage=stage)
            now = json.loads(config.resolved())
            for name in now.keys() & was.keys() - {"surrogate", "acquisition"}:
                assert means(now[name], was[name]), name
            assert all(parameter["prior"] is None for parameter in now["space"].values())
            for name in ("surrogate", "acquisition"):
                assert now[name]["kind"] == was[name]["kind"]
            assert config.identity() == archive.read_header(old).identity


def test_baselines_and_designs_replay_and_the_rest_names_its_release(old: Path, capsys) -> None:
    version, release = RELEASED[old.stem[:2]]
    status = main(["replay", str(old)])
    first, *others = capsys.readouterr().out.splitlines()
    same = old.stem == "v1-random"
    assert status == (0 if same else 3)
    if old.stem == "v2-gp":  # designs under known constraints were others
        others.append(first)
    else:
        assert first == "iteration 0: identical"
    for line in others:
        if same:
            assert line.endswith(": identical")
        else:
            assert f"another version: made by version {version}" in line
            assert f"dngo {release} derives it again" in line


def test_every_earlier_version_has_a_release_that_the_changelog_names() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    for name in ("fit", "proposal"):
        for version in range(1, derive.versions()[name]):
            assert f"## {RELEASES[name, version]}" in changelog


def test_a_later_version_is_not_called_different(tmp_path: Path, capsys) -> None:
    old = Path(shutil.copy(ARCHIVES[0], tmp_path))
    now = {**derive.versions(), "config": 1}  # that of the document, which stays as it is
    with h5py.File(old, "r+") as file:
        file["iterations/2"].attrs["versions"] = json.dumps(
            {**now, "proposal": now["proposal"] + 1}
        )
        file["iterations/2/surrogate"].attrs["versions"] = json.dumps(now)
        rechain(file)
    verdict = replay(old, 2)
    assert verdict.verdict == "another version"
    assert main(["replay", str(old), "--iteration", "2"]) == 3
    # Of a configuration that is later nothing is known: one line.
    later = json.dumps({"config": CONFIG_VERSION + 1})
    with h5py.File(old, "r+") as file:
        file["iterations/2"].attrs["versions"] = later
        rechain(file)
    capsys.readouterr()
    assert main(["replay", str(old), "--iteration", "2"]) == 1
    error = capsys.readouterr().err
    assert "update dngo" in error
    assert len(error.splitlines()) == 1


def test_a_batch_that_was_in_flight_is_read(tmp_path: Path) -> None:
    old = Path(shutil.copy(ARCHIVES[0], tmp_path))
    batch = archive.read_batch(old, 1, archive.read_space(old))
    path = old.with_name("proposals.json")
    batch.write(path)
    document = json.loads(path.read_text())
    del document["versions"]  # as it was written then
    path.write_text(json.dumps(document))
    assert repr(Batch.read(path)) == repr(batch)  # NaN is not equal to itself
    del document["config"]["space"]
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match="its configuration is incomplete: 'space'"):
        Batch.read(path)


# Archives of 0.1.0 lack these columns.
@pytest.mark.parametrize(
    "old",
    [path for path in ARCHIVES if path.stem in ("v1-random", "v1-least_squares")],
    indirect=True,
    ids=lambda path: path.stem,
)
def test_what_a_resumed_one_records_of_a_pick_leaves_its_old_rows_as_they_were(old: Path) -> None:
    """Old iterations verify though there are new columns, and nothing can be written into these."""
    space, before = archive.read_space(old), archive.read_header(old)
    batch = archive.read_batch(old, 2, space)
    assert {(p.stage, p.deviation_scale) for p in batch.proposals} == {("", 1.0)}
    new = {"iteration": 3, "stage": "improvement", "deviation_scale": 2.0}
    later = replace(batch, iteration=3, proposals=[replace(p, **new) for p in batch.proposals])
    outcomes = [replace(o, iteration=3) for o in archive.read_outcomes(old, batch)]
    archive.append(old, identity=before.identity, batch=later, outcomes=outcomes, surrogate=None)
    assert archive.verify(old) == []
    assert archive.prefix_digest(old, 3) == before.digest
    found = archive.read_batch(old, 3, space).proposals
    assert {(p.stage, p.deviation_scale) for p in found} == {("improvement", 2.0)}
    assert archive.read_batch(old, 2, space).proposals[0].stage == ""
    told = audit(old, "3-0")
    assert (told["proposed"]["stage"], told["proposed"]["deviation_scale"]) == ("improvement", 2.0)
    if "random" not in old.name:
        assert "the stage of improvement" in page(told)
        assert "the model's deviations times 2" in page(told)
    for column, value in (("stage", "draws"), ("deviation_scale", 3.0)):
        for row in (before.rows - 1, before.rows):
            altered = Path(shutil.copy(old, old.with_name("altered.h5")))
            with h5py.File(altered, "r+") as file:
                file[f"proposals/{column}"][row] = value
            assert archive.verify(altered) != []
    with h5py.File(old, "r+") as file:
        file["iterations/3"].attrs["columns"] = "stage"
    assert archive.verify(old) != []


def resumable(old: Path) -> Path:
    """The archive where a study of one more iteration of three points has it."""
    document = json.loads(configuration(old, 2).resolved())
    document |= {"iterations": 3, "batch_size": 3}
    known = document["acquisition"].keys() - {"kind"}
    document["acquisition"] |= {name: FEW[name] for name in FEW.keys() & known}
    study = old.parent / "results" / document["study"]
    study.mkdir(parents=True)
    old.rename(study / "archive.h5")
    with (old.parent / "config.yaml").open("w") as stream:
        YAML().dump(document, stream)
    (old.parent / "f.py").write_text(OBJECTIVE)
    return study / "archive.h5"


def goes_on(path: Path, before: archive.Header) -> None:
    """The archive has one more iteration, whose points were evaluated once. The rest is
    unchanged."""
    header = archive.read_header(path)
    assert (before.rows, header.rows, header.iterations) == (20, 23, 4)
    runs = path.parents[2] / "runs.txt"
    assert sorted(runs.read_text().split()) == ["3-0", "3-1", "3-2"]
    assert archive.prefix_digest(path, 3) == before.digest
    assert archive.verify(path) == []
    assert replay(path, 3).verdict == "identical"


@pytest.mark.full
def test_they_are_resumed(old: Path) -> None:
    path = resumable(old)
    before = archive.read_header(path)
    folder = path.parents[2]
    advance(Study(load([folder / "config.yaml"], {"results": str(folder / "results")})), 3)
    goes_on(path, before)


def test_a_configuration_that_is_none_of_its_version_is_one_line(
    tmp_path: Path, small: Study
) -> None:
    """An archive without versions, as of the first release, and with today's configuration."""
    path = Path(shutil.copy(small.archive, tmp_path))
    assert configuration(path, 1) == configuration(small.archive, 1)
    with h5py.File(path, "r+") as file:
        file["iterations/1"].attrs["versions"] = "{}"
    said = "iteration 1: its configuration does not have version 1"
    with archive.reading(path, as_it_is=True), pytest.raises(UserError, match=said):
        configuration(path, 1)

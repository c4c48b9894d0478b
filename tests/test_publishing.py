"""What leaves a study for others: no secrets, and no names if that is asked for."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import h5py
import pytest
from fuzzing.archive import rechain
from test_entering import study_of
from toy import Toy, advance

import dngo
from dngo.archive import read_header, verify
from dngo.cli import main
from dngo.config import load
from dngo.entering import Source, tell
from dngo.plugins import Registry
from dngo.replay import replay
from dngo.study import Study

TOKEN = "q7-Zebra+spoon/41"
GITHUB = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
HOST, PERSON, HOME = "node-07.example.org", "adalove", "/home/adalove/studies"
THERE = "laptop-of-ada"  # where that person asks


def altered(item: h5py.Group, name: str, **changes: object) -> None:
    """Change a document of an attribute; `objective` is changed in part."""
    document = json.loads(item.attrs[name])
    document.get("objective", {}).update(changes.pop("objective", {}))
    item.attrs[name] = json.dumps(document | changes)


def as_of_before(path: Path) -> None:
    """Put into an archive what an earlier release stored, under digests that fit."""
    command = f"python {HOME}/x.py --password {TOKEN}"
    secret = {"command": command, "environment": {"API_TOKEN": TOKEN, "PLAIN": "kept"}}
    asked = {"by": f"{PERSON}@{THERE}", "through": "api"}
    with h5py.File(path, "r+") as file:
        groups = [file[f"iterations/{t}"] for t in range(int(file.attrs["iterations"]))]
        known = {str(group.attrs["digest"]): group for group in groups}
        for group in groups:
            altered(group, "config", objective=secret, results=f"{HOME}/results")
            for name in ("environment", "merged"):
                altered(group, name, objective={"command": command}, host=HOST, asked=asked)
            if "surrogate" in group:
                altered(group["surrogate"], "environment", host=HOST)
            row = int(group.attrs["first_row"])
            file["outcomes/host"][row] = HOST
            file["outcomes/message"][row] = f"{HOME}/x.py on {HOST}: denied for {GITHUB}"
            file["outcomes/metadata"][row] = json.dumps({"url": "https://u:pw-Zebra9@host/"})
            for each in (group, group.get("surrogate")):
                if each is not None and each.attrs.get("training_digest", "") in known:
                    taught = known[each.attrs["training_digest"]]
                    each.attrs["training_digest"] = taught.attrs["digest"]
            rechain(file)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    toy = Toy(tmp_path_factory.mktemp("publishing"), iterations=1, batch_size=4, sleep=0.0)
    study = study_of(toy)
    for t in range(2):
        advance(study, t)
    path = toy.folder / "old.h5"
    shutil.copy(toy.archive, path)
    as_of_before(path)
    assert verify(path) == []
    return path


@pytest.fixture(scope="module")
def fresh(old: Path) -> Path:
    return old.parent / "results/toy/archive.h5"


def contents(path: Path) -> bytes:
    """All that is in a file, a folder or a packed folder, and in the datasets of HDF5 unpacked."""
    if path.is_dir():
        return b"".join(contents(p) for p in path.rglob("*") if p.is_file())
    data = path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            data += b"".join(file.read(name) for name in file.namelist())
    if h5py.is_hdf5(path):
        with h5py.File(path) as file:
            found: list[str] = []

            def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
                found.extend(map(str, item.attrs.values()))
                if isinstance(item, h5py.Dataset) and item.dtype.kind == "O":
                    found.extend(map(str, item.asstr()[:] if item.shape else [item.asstr()[()]]))

            file.visititems(visit)
        data += "\n".join(found).encode()
    return data


def export(path: Path, output: Path, form: str, *more: str) -> bytes:
    """All that the export has."""
    assert main(["export", str(path), "--format", form, "--output", str(output), *more]) == 0
    data = contents(output)
    if form == "parquet":
        import pyarrow.parquet

        data += str(pyarrow.parquet.read_table(output).to_pylist()).encode()
    return data


FORMS = Registry("dngo.exports").names()


# Each form leaves the same out, as the anonymous ones below.
@pytest.mark.parametrize("form", ["csv", "ro-crate"])
def test_no_export_of_an_old_archive_has_a_secret(
    old: Path, tmp_path: Path, capsys, form: str
) -> None:
    output = tmp_path / f"out.{form}"
    data, before = export(old, output, form), contents(old)
    for secret in (TOKEN, GITHUB, "pw-Zebra9"):
        assert secret.encode() in before and secret.encode() not in data
    assert HOST.encode() in data
    said = capsys.readouterr().out
    assert "left out of: config (2), environment (2), merged (2)" in said
    assert "it names " in said and "--anonymous leaves them out" in said


@pytest.mark.parametrize("form", FORMS)
def test_an_anonymous_export_names_nobody(old: Path, tmp_path: Path, capsys, form: str) -> None:
    output = tmp_path / f"out.{form}"
    data, before = export(old, output, form, "--anonymous"), contents(old)
    for name in (TOKEN, GITHUB, "pw-Zebra9", HOST, PERSON, THERE, HOME, "/home/"):
        assert name.encode() in before and name.encode() not in data, name
    assert b"host-1" in data or b"host-2" in data
    assert "it names" not in capsys.readouterr().out


@pytest.mark.parametrize("more", [(), ("--anonymous",)], ids=["secrets", "names"])
def test_a_published_archive_is_whole_and_replays(old: Path, tmp_path: Path, more: tuple) -> None:
    output = tmp_path / "out.h5"
    export(old, output, "archive", *more)
    assert verify(output) == []
    before, after = read_header(old), read_header(output)
    assert before and after and before.digest != after.digest
    assert [replay(output, t).verdict for t in (0, 1)] == ["identical"] * 2
    with h5py.File(old) as one, h5py.File(output) as other:
        merged = json.loads(other["iterations/1"].attrs["merged"])
        assert merged["copy_of"] == before.digest
        for name in ("proposals/x", "proposals/value", "outcomes/objective", "outcomes/started"):
            assert one[name][:].tobytes() == other[name][:].tobytes()
        kept = json.loads(other["iterations/1"].attrs["config"])["objective"]
    assert kept["environment"] == {"API_TOKEN": "[redacted]", "PLAIN": "kept"}
    assert kept["command"].endswith("x.py --password '[redacted]'")
    assert len(dngo.open(output).table()) == len(dngo.open(old).table())


def test_an_archive_without_secrets_is_published_as_it_is(
    fresh: Path, tmp_path: Path, capsys
) -> None:
    output = tmp_path / "out.h5"
    export(fresh, output, "archive")
    assert output.read_bytes() == fresh.read_bytes()
    assert "left out" not in capsys.readouterr().out


def test_what_was_altered_does_not_get_digests_that_fit(old: Path, tmp_path: Path, capsys) -> None:
    broken = tmp_path / "broken.h5"
    shutil.copy(old, broken)
    with h5py.File(broken, "r+") as file:
        file["outcomes/duration"][1] += 1.0
    words = ["export", str(broken), "--format", "archive", "--output", str(tmp_path / "out.h5")]
    assert main(words) == 1
    assert "was altered after dngo wrote it" in capsys.readouterr().err
    assert not (tmp_path / "out.h5").exists()


def test_looking_at_an_old_archive_shows_no_secret(old: Path, tmp_path: Path, capsys) -> None:
    for more in ("--proposal 1-0", "--proposal 1-0 --json", "--all", "--all --json"):
        assert main(["audit", str(old), *more.split()]) == 0
        said = capsys.readouterr().out
        assert TOKEN not in said and GITHUB not in said and HOST in said


def test_what_is_told_is_stored_without_secrets(tmp_path: Path) -> None:
    toy = Toy(tmp_path, iterations=1, batch_size=4, sleep=0.0)
    study = Study(load([toy.folder / "config.yaml"], {"results": str(toy.folder / "results")}))
    row = {"x": 0.5, "y": 0.5, "status": "failed", "message": f"denied: {GITHUB}"}
    tell(study, Source.of_values([row], "api", "tell"))
    advance(study, 0)
    assert GITHUB.encode() not in contents(toy.folder / "results")

"""Archives of many rows: a file is checked only once, and nothing holds all rows as objects."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import h5py
import pyarrow.parquet as pq
import pytest
from test_archive import append, config, surrogate  # noqa: F401

from dngo import archive
from dngo.archive import writing
from dngo.audit import audit_all
from dngo.cli import main
from dngo.commands.common import finite
from dngo.config import Config
from dngo.errors import UserError
from dngo.exchange import export
from dngo.exchange.fork import fork
from dngo.storage import hdf5
from dngo.study import Study


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was looked through from the start to the end; small files are marked, too."""
    found: list[object] = []
    look = hdf5._look_through

    def count(path: Path, descriptor: int, check: hdf5.Check, size: int) -> None:
        found.append(check)
        look(path, descriptor, check, size)

    monkeypatch.setattr(hdf5, "LEAST_MARKED", 0)
    monkeypatch.setattr(hdf5, "_look_through", count)
    return found


def anew(path: Path, looked: list[object]) -> int:
    """How often a process that knows of no file looks an archive through to read it."""
    hdf5._sound.clear()
    looked.clear()
    with archive.reading(path):
        return len(looked)


def test_what_merge_wrote_is_not_looked_through_again(
    tmp_path: Path,
    config: Config,  # noqa: F811
    looked: list[object],
) -> None:
    path = tmp_path / "archive.h5"
    append(path, config, 0)
    assert anew(path, looked) == 0
    hdf5._sound.clear()
    append(path, config, 1)
    assert len(looked) == 1, "what was appended, and nothing else"
    assert anew(path, looked) == 0 and archive.verify(path) == []


def test_a_mark_is_of_one_file_as_it_is(
    tmp_path: Path,
    config: Config,  # noqa: F811
    looked: list[object],
) -> None:
    path, other = tmp_path / "a" / "archive.h5", tmp_path / "b"
    append(path, config, 0)
    shutil.copytree(path.parent, other)  # with its mark, and its times
    assert anew(other / "archive.h5", looked) == 1
    os.link(path, tmp_path / "second.h5")  # another time of its last change
    assert anew(path, looked) == 1
    append(path, config, 1)
    known = path.stat()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
    with pytest.raises(UserError, match="cannot be read as an archive"):
        anew(path, looked)


@pytest.mark.parametrize("place", ["proposals/v", "outcomes/metadata", "iterations/1"])
def test_what_is_appended_is_looked_through_before_it_takes_the_place(
    tmp_path: Path,
    config: Config,  # noqa: F811
    surrogate: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    path = tmp_path / "archive.h5"
    append(path, config, 0)
    before, write = path.read_bytes(), writing._append

    def spoil(file: h5py.File, *more: object) -> None:
        write(file, *more)  # type: ignore[arg-type]
        if place.startswith("iterations"):
            file[place].attrs["first_row"] = 3
        else:
            file[place][-1] = "[" if place.endswith("metadata") else 1e300

    monkeypatch.setattr(writing, "_append", spoil)
    with pytest.raises(UserError, match="could not be read back"):
        append(path, config, 1)
    assert path.read_bytes() == before


def test_a_flat_table_is_the_same_in_slices_of_any_size(
    tmp_path: Path,
    config: Config,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And says of each row what its proposal and its outcome say."""
    path = tmp_path / "archive.h5"
    for t in range(3):
        append(path, config, t)
    rows = audit_all(path)
    assert main(["audit", str(path), "--all"]) == 0
    table = capsys.readouterr().out
    export(path, tmp_path / "whole.parquet", "parquet")
    monkeypatch.setattr("dngo.archive.flat.ROWS", 4)
    monkeypatch.setattr("dngo.exchange.fork.ROWS", 1)
    export(path, tmp_path / "parts.parquet", "parquet")
    whole, parts = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("whole", "parts"))
    assert whole.equals(parts) and whole.num_rows == len(rows)
    study = Study(config.model_copy(update={"study": "forked", "results": str(tmp_path)}))
    fork(study, path)
    assert [row["parameter_x"] for row in audit_all(study.archive)] == [
        row["parameter_x"] for row in rows if row["status"] not in ("lost", "withdrawn")
    ]
    assert repr(audit_all(path)) == repr(rows)  # NaN as well
    assert main(["audit", str(path), "--all"]) == 0 and capsys.readouterr().out == table
    assert main(["audit", str(path), "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == finite(rows)
    space = archive.read_space(path)
    for row in rows:
        batch = archive.read_batch(path, row["iteration"], space)
        proposal = batch.proposals[row["slot"]]
        outcome = archive.read_outcomes(path, batch)[row["slot"]]
        known = {k: v for k in space.parameters if (v := row[f"parameter_{k}"]) is not None}
        assert known == proposal.parameters and row["id"] == proposal.id
        assert (row["source"], row["stage"]) == (proposal.source, proposal.stage)
        assert (row["status"], row["message"], row["host"]) == (
            outcome.status,
            outcome.message,
            outcome.host,
        )
        flags = {k: f for k in config.constraints if (f := row[f"constraint_{k}"]) is not None}
        assert flags == outcome.constraints
        assert json.loads(row["metadata"]) == outcome.metadata


def test_a_table_is_imported_in_parts_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "x,objective,cold\n" + "".join(f"0.{i},{i},{str(i != 4).lower()}\n" for i in range(1, 9))
    place = tmp_path / "config.yaml"
    place.write_text(
        "study: a\nobjective: {command: run}\nconstraints: [cold]\n"
        "space: {x: {type: float, low: 0, high: 1}}\n"
    )
    (tmp_path / "good.csv").write_text(text)
    (tmp_path / "bad.csv").write_text(text.replace("0.7,", "7,"))
    found = []
    for rows in (100, 3):
        monkeypatch.setattr("dngo.exchange.files.ROWS", rows)
        results = tmp_path / f"results{rows}"
        given = ["--config", str(place), "--results", str(results)]
        assert main(["import", str(tmp_path / "bad.csv"), *given]) == 1
        assert "bad.csv: line 8: " in capsys.readouterr().err and not results.joinpath("a").exists()
        assert main(["import", str(tmp_path / "bad.csv"), "--skip-invalid", *given]) == 0
        assert "7 left out" not in capsys.readouterr().out
        path = results / "a" / "archive.h5"
        assert archive.verify(path) == [] and len(audit_all(path)) == 7
        path.unlink()
        assert main(["import", str(tmp_path / "good.csv"), *given]) == 0
        assert "7 ok, 1 infeasible" in capsys.readouterr().out
        environment = json.loads(archive.iteration_attributes(path, 0)["environment"])["import"]
        assert (environment["rows"], environment["skipped"]) == (8, 0)
        found.append(audit_all(path))
    assert repr(found[0]) == repr(found[1])

"""The archive: append-only, atomic, self-describing, and every altered value shows."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from dngo import archive
from dngo.archive import FORMAT_VERSION
from dngo.archive.verification import OF_EVERY_MODEL
from dngo.batch import Batch, Outcome, Proposal
from dngo.config import Config, validate
from dngo.errors import UserError
from dngo.storage.digest import digest_parameters

DOCUMENT: dict[str, Any] = {
    "study": "a",
    "objective": {"command": "run", "direction": "maximize"},
    "space": {
        "x": {"type": "float", "low": 0, "high": 1},
        "n": {"type": "int", "low": 1, "high": 9, "active_if": {"c": "p"}},
        "c": {"type": "categorical", "choices": ["p", "q", 3, True]},
        "k": {"type": "fixed", "value": "constant"},
    },
    "constraints": ["cold", "dry"],
}


@pytest.fixture
def config() -> Config:
    return validate(DOCUMENT)


def batch_of(config: Config, t: int, size: int = 5) -> tuple[Batch, list[Outcome]]:
    rng = np.random.default_rng(t)
    space = config.search_space
    points = space.to_parameters(space.sample(rng.random((size, space.k))))
    proposals = [
        Proposal(t, i, p, "candidate:local", *rng.random(4).tolist(), i, rng.random())
        for i, p in enumerate(points)
    ]
    outcomes = [
        Outcome(
            t,
            i,
            digest_parameters(p),
            "ok" if i % 3 else "failed",
            objective=float(rng.normal()) if i % 3 else np.nan,
            constraints={"cold": 1, "dry": i % 2} if i % 3 else {},
            duration=rng.random(),
            host="é",
            message="" if i % 3 else "exit status 1",
            metadata={"epochs": [1, 2.5]},
        )
        for i, p in enumerate(points)
    ]
    batch = Batch(t, {"study": "a"}, 2, 7, [t, 2], t, "0" * 64, [], {"python": "3"}, proposals)
    return batch, outcomes


@pytest.fixture
def surrogate(tmp_path: Path) -> Path:
    path = tmp_path / "surrogate.h5"
    with h5py.File(path, "w") as file:
        file.attrs["rows"] = 3
        group = file.create_group("model")
        group["weights"] = np.arange(12.0).reshape(3, 4)
        group.attrs["kind"] = "test"
        for name in OF_EVERY_MODEL:
            group.create_group(name)
    return path


def append(path: Path, config: Config, t: int, surrogate: Path | None = None, size: int = 5) -> Any:
    batch, outcomes = batch_of(config, t, size)
    return archive.append(
        path, identity=config.identity(), batch=batch, outcomes=outcomes, surrogate=surrogate
    )


def test_what_was_appended_is_read_back(tmp_path: Path, config: Config, surrogate: Path) -> None:
    path = tmp_path / "archive.h5"
    for t in range(3):
        receipt = append(path, config, t, surrogate if t else None)
        assert receipt["rows"] == 5
    for t in range(3):
        batch, outcomes = batch_of(config, t)
        found = archive.read_batch(path, t, config.search_space)
        assert repr(found) == repr(batch)  # repr: NaN is not equal to itself
        assert repr(archive.read_outcomes(path, found)) == repr(outcomes)
    table = archive.read_table(path, iterations=2)
    assert len(table) == 10
    assert np.array_equal(table.x, config.search_space.encode(table.v))
    assert np.isnan(table.objective[table.status == "failed"]).all()
    assert np.isnan(table.constraints["dry"][0])
    archive.copy_surrogate(path, 2, tmp_path / "copy.h5")
    with h5py.File(tmp_path / "copy.h5") as file:
        assert np.array_equal(file["model/weights"], np.arange(12.0).reshape(3, 4))
        assert file["model"].attrs["kind"] == "test"


def test_a_surrogate_is_packed_and_keeps_its_bits(tmp_path: Path, config: Config) -> None:
    """Weights in single precision take half of the room. Every value and every type comes back."""
    rng = np.random.default_rng(0)
    arrays = {
        "weights": rng.normal(size=(20, 100, 100)).astype("f4").astype("f8"),
        "covariance": rng.normal(size=(60, 60)),
        "special": np.resize([np.nan, -0.0, np.inf, 5e-324], 5000),
        "counts": np.arange(5000),
        "small": np.arange(3.0),
        "none": np.empty((0, 7)),
        "one": np.array(2.5),
    }
    fitted, path = tmp_path / "surrogate.h5", tmp_path / "archive.h5"
    with h5py.File(fitted, "w") as file:
        for name, array in arrays.items():
            file[f"model/part/{name}"] = array
        file["model/part/weights"].attrs["layer"] = 1
        file["model"].create_dataset("names", data=["é", "b"], dtype=h5py.string_dtype())
        expected = archive.contents(file["model"])
    append(path, config, 0)
    append(path, config, 1, fitted)
    assert path.stat().st_size < 0.6 * fitted.stat().st_size
    archive.copy_surrogate(path, 1, tmp_path / "copy.h5")
    for place, name in ((path, "iterations/1/surrogate/model"), (tmp_path / "copy.h5", "model")):
        with h5py.File(place) as file:
            found = archive.contents(file[name])
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert np.asarray(found[key]).dtype == np.asarray(value).dtype
            assert (
                np.asarray(found[key]).tobytes() == np.asarray(value).tobytes() or key == "/names"
            )
        assert list(found["/names"]) == ["é", "b"]
    assert not any("digest" in problem for problem in archive.verify(path))


def test_plain_h5py_reads_it(tmp_path: Path, config: Config) -> None:
    path = tmp_path / "archive.h5"
    append(path, config, 0)
    with h5py.File(path) as file:
        assert file.attrs["rows"] == 5
        points = file["proposals/parameters"]
        assert set(points) == {"x", "n", "c"}
        assert points["c"].asstr()[0] in ("p", "q", "3", "true")
        names = {v: k for k, v in h5py.check_enum_dtype(file["outcomes/status"].dtype).items()}
        assert names[file["outcomes/status"][0]] == "failed"


def test_append_is_idempotent_and_in_order(tmp_path: Path, config: Config) -> None:
    path = tmp_path / "archive.h5"
    first = append(path, config, 0)
    before = path.read_bytes()
    assert append(path, config, 0) == first
    assert path.read_bytes() == before
    with pytest.raises(UserError, match="cannot follow"):
        append(path, config, 2)
    assert append(path, config, 1)["previous"] == first["digest"]
    assert archive.prefix_digest(path, 1) == first["digest"]
    assert archive.read_header(path).rows == 10  # type: ignore[union-attr]


def test_a_crash_leaves_the_archive_before(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "archive.h5"
    append(path, config, 0)
    before = path.read_bytes()
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *a: (_ for _ in ()).throw(OSError("disk full")))
            with pytest.raises(OSError, match="disk full"):
                append(path, config, 1)
        assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir() if ".tmp" in p.name) == []
    append(path, config, 1)
    assert archive.verify(path) == []


def test_an_archive_of_another_study_is_refused(tmp_path: Path, config: Config) -> None:
    path = tmp_path / "archive.h5"
    append(path, config, 0)
    before = path.read_bytes()
    changes: list[tuple[dict[str, Any], str]] = [
        ({"study": "b"}, "study was 'a'"),
        ({"constraints": ["cold"]}, "constraints"),
        ({"objective": {"command": "run"}}, "direction was 'maximize'"),
        (
            {"space": {**DOCUMENT["space"], "x": {"type": "float", "low": 0, "high": 2}}},
            "space.x.high was 1.0 and is 2.0",
        ),
    ]
    for change, words in changes:
        other = validate({**DOCUMENT, **change})
        with pytest.raises(UserError, match=words):
            archive.read_header(path, other.identity())
        with pytest.raises(UserError, match=words):
            append(path, other, 1)
    assert path.read_bytes() == before


def test_damaged_foreign_and_newer_files_are_refused_and_left_alone(
    tmp_path: Path, config: Config
) -> None:
    good = tmp_path / "good.h5"
    append(good, config, 0)
    half = good.read_bytes()[: good.stat().st_size // 2]
    for content, why in (
        (half, rf"{len(half)} of its \d+ bytes are there"),
        (b"", "does not begin like an HDF5 file"),
        (b"not an archive\n" * 100, "does not begin like an HDF5 file"),
    ):
        path = tmp_path / "damaged.h5"
        path.write_bytes(content)
        with pytest.raises(
            UserError, match=f"damaged.h5: cannot be read as an archive.*{why}"
        ) as no:
            append(path, config, 1)
        assert not re.search("signature|synchronously|eof|sblock", str(no.value)), "words of HDF5"
        assert path.read_bytes() == content
    newer = tmp_path / "newer.h5"
    shutil.copy(good, newer)
    with h5py.File(newer, "r+") as file:
        file.attrs["format_version"] = FORMAT_VERSION + 1
    with pytest.raises(UserError, match="update dngo"):
        archive.read_header(newer)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["data"] = [1, 2]
    with pytest.raises(UserError, match="not a dngo archive"):
        archive.read_header(tmp_path / "other.h5")


def _values(path: Path) -> list[tuple[str, str | None]]:
    """Every dataset and every attribute of an archive."""
    places: list[tuple[str, str | None]] = []
    with h5py.File(path) as file:
        places += [("/", key) for key in file.attrs]

        def visit(name: str, item: Any) -> None:
            places.extend((name, key) for key in item.attrs)
            if isinstance(item, h5py.Dataset) and item.size:
                places.append((name, None))

        file.visititems(visit)
    return places


def test_every_altered_value_shows(tmp_path: Path, config: Config, surrogate: Path) -> None:
    good, bad = tmp_path / "good.h5", tmp_path / "bad.h5"
    for t in range(3):
        append(good, config, t, surrogate if t else None, size=2)
    assert archive.verify(good) == []
    rng = np.random.default_rng(0)
    places = _values(good)
    assert len(places) > 60
    for i, (name, attribute) in enumerate(places):
        shutil.copy(good, bad)
        with h5py.File(bad, "r+") as file:
            if attribute is not None:
                attributes = file[name].attrs
                value = attributes[attribute]
                if isinstance(value, str):
                    changed: Any = value[:-1] + ("0" if value[-1:] != "0" else "1")
                elif getattr(value, "size", 1) == 0:
                    changed = np.array([1])
                else:
                    changed = value + 1
                attributes[attribute] = changed
            else:
                data = file[name]
                index = tuple(int(rng.integers(n)) for n in data.shape)
                value = data[index]
                if isinstance(value, bytes):
                    data[index] = value + b"x"
                elif data.dtype.kind == "f":
                    data[index] = np.nextafter(value, np.inf) if np.isfinite(value) else 1.0
                else:
                    data[index] = value ^ 1
        try:
            found = archive.verify(bad)
        except UserError:
            found = ["refused"]
        assert found, f"{name} {attribute or ''} was altered and nobody noticed"
        if i % 3:
            continue
        # Nor is it read by anybody: every third, because each look takes a process.
        with pytest.raises(UserError, match=r"altered|cannot be read|dngo"), archive.reading(bad):
            pytest.fail(f"{name} {attribute or ''} was altered and read")


def test_a_repacked_archive_still_verifies(tmp_path: Path, config: Config, surrogate: Path) -> None:
    good, repacked = tmp_path / "good.h5", tmp_path / "repacked.h5"
    for t in range(2):
        append(good, config, t, surrogate)
    with h5py.File(good) as source, h5py.File(repacked, "w", libver="latest") as target:
        for key, value in source.attrs.items():
            target.attrs[key] = value
        for key in source:
            source.copy(key, target)
    assert good.read_bytes() != repacked.read_bytes()
    assert archive.verify(repacked) == []


def test_empty_batches_and_many_columns(tmp_path: Path) -> None:
    config = validate(
        {
            "study": "wide",
            "objective": {"command": "run"},
            "space": {f"x{i}": {"type": "float", "low": 0, "high": 1} for i in range(60)},
        }
    )
    path = tmp_path / "archive.h5"
    for t, size in enumerate([3, 0, 2]):
        append(path, config, t, size=size)
    assert len(archive.read_table(path)) == 5
    assert archive.verify(path) == []

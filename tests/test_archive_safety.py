"""Archives that nobody vouches for, text that HDF5 cannot hold, and readers beside a writer."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from fuzzing.archive import ARCHIVES
from fuzzing.damage import plant
from fuzzing.guard import command, guarded, warm
from test_archive import DOCUMENT, batch_of

from dngo import archive
from dngo.archive import predictions
from dngo.batch import Batch, Outcome
from dngo.config import validate
from dngo.errors import UserError

REFUSED = [
    *("lost dataset", "lost group", "soft link", "external link", "cycle", "second name"),
    *("outside", "virtual", "shape", "bomb", "huge", "compound", "reference", "named type"),
    *("group", "deep"),
]

MODELLED = [path for path in ARCHIVES if path.stem != "v1-random"]  # a baseline's model is empty


@pytest.mark.parametrize("kind", REFUSED)
def test_a_structure_that_no_archive_has_is_refused(tmp_path: Path, kind: str) -> None:
    path = Path(shutil.copy(ARCHIVES[0], tmp_path))
    with h5py.File(path, "r+") as file:
        plant(file, random.Random(1), kind)
    result = guarded(command("audit", str(path), "--all"))
    assert result.status == 1
    assert "cannot be read as an archive" in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("name", ["rows", "iterations"])
def test_counts_are_compared_with_what_is_there(tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(ARCHIVES[0], tmp_path))
    for count in (0, 1, 10**9, 2**62):
        with h5py.File(path, "r+") as file:
            file.attrs[name] = count
        with pytest.raises(UserError, match="cannot be read as an archive"):
            archive.read_header(path)


@pytest.mark.parametrize("source", MODELLED, ids=lambda path: path.stem)
def test_a_model_whose_arrays_do_not_fit_is_not_asked(tmp_path: Path, source: Path) -> None:
    """Some of its arrays, as text and with a row or a value too many."""
    path, model, asked = Path(shutil.copy(source, tmp_path)), "iterations/2/surrogate/model", 0
    names: list[str] = []
    with h5py.File(path) as file:
        file[model].visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
    names = random.Random(1).sample(names, min(3, len(names)))
    for name in names:
        for forge in (lambda a: a.astype("S5"), lambda a: np.concatenate([a, a], axis=-1)):
            shutil.copy(source, path)
            with h5py.File(path, "r+") as file:
                values = np.atleast_1d(file[model][name][()])
                del file[model][name]
                file[model][name] = forge(values)
            try:
                found, _ = archive.read_surrogate(path, 2)
            except UserError:
                continue
            assert found is not None
            predictions.of_iteration(h5py.File(path), found, 2)
            asked += 1
    assert asked < len(names)  # most were refused


def test_a_file_of_the_system_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of more than eight bytes" * 20)
    path = Path(shutil.copy(ARCHIVES[0], tmp_path))
    with h5py.File(path, "r+") as file:
        rows = len(file["outcomes/duration"])
        del file["outcomes/duration"]
        file["outcomes"].create_dataset(
            "duration", (rows,), "f8", external=[(str(secret), 0, 8 * rows)]
        )
    with pytest.raises(UserError, match="keeps its values in another file"):
        archive.read_table(path)


def test_text_that_hdf5_cannot_hold_is_archived_all_the_same(tmp_path: Path) -> None:
    document = {**DOCUMENT, "space": {"c": {"type": "categorical", "choices": ["\U0001f600", "b"]}}}
    config = validate(document)
    batch, outcomes = batch_of(config, 0)
    odd = "bad magic \0, half \ud800, pair \ud83d\ude00"
    outcomes = [
        Outcome(**{**vars(o), "message": odd, "host": odd, "metadata": {odd: [odd]}})
        for o in outcomes
    ]
    path = tmp_path / "archive.h5"
    archive.append(path, identity=config.identity(), batch=batch, outcomes=outcomes, surrogate=None)
    assert archive.verify(path) == []
    assert archive.read_header(path, validate(document).identity()) is not None
    found = archive.read_outcomes(path, archive.read_batch(path, 0, config.search_space))
    for one in found:
        assert one.message == "bad magic \ufffd, half \ufffd, pair \U0001f600"
        assert one.metadata == {one.message: [one.message]}


def _rewrite(path: Path, states: list[Path]) -> None:
    """Replace an archive again and again, as merges do, and hold a lock on every copy meanwhile."""
    while True:
        for state in states:
            copy = path.with_name("copy")
            shutil.copy(state, copy)
            with h5py.File(copy, "r+", locking=True):
                os.replace(copy, path)
                time.sleep(0.02)


def test_commands_read_one_state_while_another_process_replaces_the_archive(tmp_path: Path) -> None:
    config = validate({**DOCUMENT, "results": str(tmp_path)})
    states = []
    path = tmp_path / "a" / "archive.h5"
    for t in range(4):
        batch, outcomes = batch_of(config, t)
        batch = Batch(**{**vars(batch), "config": config.model_dump(mode="json")})
        archive.append(
            path, identity=config.identity(), batch=batch, outcomes=outcomes, surrogate=None
        )
        states.append(Path(shutil.copy(path, tmp_path / f"{t}.h5")))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**DOCUMENT, "results": str(tmp_path)}))
    warm()
    commands = [
        ["verify", str(path)],
        ["status", str(tmp_path / "config.yaml")],
        ["audit", str(path), "--all"],
        ["export", str(path), "--format", "csv", "--output", "OUT"],
    ]
    writer = multiprocessing.get_context("fork").Process(target=_rewrite, args=(path, states))
    writer.start()
    try:
        for i in range(8):
            words = [w.replace("OUT", str(tmp_path / f"{i}.csv")) for w in commands[i % 4]]
            result = guarded(command(*words))
            assert result.status == 0, result.output
        for _ in range(8):
            with archive.reading(path):
                # What is read one after another is of one state.
                header, table = archive.read_header(path), archive.read_table(path)
                assert header is not None
                assert header.rows == len(table) == 5 * header.iterations
                assert archive.prefix_digest(path, header.iterations) == header.digest
    finally:
        writer.kill()
        writer.join()
    for i in range(3, 8, 4):
        assert (len((tmp_path / f"{i}.csv").read_text().splitlines()) - 1) % 5 == 0


@pytest.mark.parametrize("source", ARCHIVES[::4], ids=lambda path: path.stem)
def test_what_no_digest_covers_is_named(tmp_path: Path, source: Path) -> None:
    """A comment on any object, an empty group in any group, and bytes around the whole."""
    path, names = tmp_path / "archive.h5", ["/"]
    with h5py.File(source) as file:
        groups = ["/"]
        file.visititems(
            lambda name, item: (
                names.append(f"/{name}"),
                groups.append(f"/{name}") if isinstance(item, h5py.Group) else None,
            )[-1]
        )
    shutil.copy(source, path)
    with h5py.File(path, "r+") as file:
        for name in names:
            h5py.h5o.set_comment(file[name].id, b"told to nobody")
    assert archive.verify(path) == [f"{n}: a comment was added" for n in ["/", *sorted(names[1:])]]

    def told(path: Path) -> str:
        try:
            return "\n".join(archive.verify(path))
        except UserError as error:
            return str(error)

    rng = random.Random(0)
    names = ("objective", "surrogate", "constraints", "diagnostics", "cost", "numbers", "x.1")
    drawn = [(name, rng.choice(groups)) for name in names]
    for name, group in drawn:
        shutil.copy(source, path)
        with h5py.File(path, "r+") as file:
            if name in file[group]:
                continue
            file[group].create_group(name)
        place = f"{group.rstrip('/')}/{name}"
        found = told(path)
        assert f"{place}: was added" in found or "cannot be read as an archive" in found

    data = source.read_bytes()
    path.write_bytes(data + b"more")
    assert archive.verify(path) == ["4 bytes were added after its end"]
    path.write_bytes(b"\0" * 512 + data)
    assert "a user block was added before it" in told(path)


def test_commands_need_no_more_than_their_share_for_a_small_bomb(tmp_path: Path) -> None:
    path = Path(shutil.copy(ARCHIVES[0], tmp_path))
    with h5py.File(path, "r+") as file:
        del file["proposals/x"]
        file["proposals"].create_dataset(
            "x", (2**20, 512), "f8", chunks=(1024, 512), compression="gzip", fillvalue=0.0
        )
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-m", "dngo", "verify", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "cannot be read as an archive" in done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 30  # CPU seconds

"""One damaged archive, given to every command that reads one."""

from __future__ import annotations

import atexit
import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import h5py
import yaml
from toy import ROOT

from dngo import archive as archives
from dngo.archive.digests import genesis_digest, is_replaceable, iteration_digest, model_digest
from fuzzing.damage import damaged_bytes, plant
from fuzzing.guard import Result, command, guarded, plan

ARCHIVES = sorted((ROOT / "tests" / "data" / "archives").glob("*.h5"))


def rechain(file: h5py.File) -> None:
    """Give an archive digests that fit its values, as a forger would."""
    previous = genesis_digest(file)
    for t in range(int(file.attrs["iterations"])):
        record = file[f"iterations/{t}"]
        if is_replaceable(record) and "model" in record["surrogate"]:
            model = record["surrogate/model"]
            record["surrogate"].attrs["model_digest"] = model_digest(model)
        record.attrs["previous"] = previous
        record.attrs["digest"] = previous = iteration_digest(file, record)
    file.attrs["digest"] = previous


@cache
def recent() -> Path:
    """An archive of today's layout: an old one's iterations, which keep the last surrogate's model."""
    folder = Path(tempfile.mkdtemp(prefix="dngo-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source, path, fitted = ARCHIVES[0], folder / "recent.h5", folder / "surrogate.h5"
    header = archives.read_header(source)
    assert header is not None
    for t in range(header.iterations):
        batch = archives.read_batch(source, t, archives.read_space(source))
        archives.copy_surrogate(source, t, fitted)
        with h5py.File(fitted, "r+") as file:
            file.attrs["kept"] = "last"
        archives.append(
            path,
            identity=header.identity,
            batch=batch,
            outcomes=archives.read_outcomes(source, batch),
            surrogate=fitted if t else None,
        )
    return path


def damaged_archive(source: Path, target: Path, rng: random.Random) -> str:
    """A damaged copy of an HDF5 file; says what was done to it."""
    if rng.random() < 0.5:
        kind, data = damaged_bytes(source.read_bytes(), rng)
        target.write_bytes(data)
        return kind
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        what = plant(file, rng)
        if rng.random() < 0.3:
            with contextlib.suppress(Exception):  # damaged values may have no digest
                rechain(file)
                what += ", forged"
        return what


def _study(folder: Path, source: Path) -> dict:
    """A study of an archive: its configuration beside it; returns the document."""
    with h5py.File(source) as file:
        last = file.attrs["iterations"] - 1
        document = json.loads(file[f"iterations/{last}"].attrs["config"])
    document["results"] = str(folder / "results")
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    (folder / "results" / document["study"]).mkdir(parents=True, exist_ok=True)
    return document


def archive(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """One damaged archive, given to every command that reads one."""
    source = rng.choice(ARCHIVES)
    document = _study(folder, source)
    path = folder / "results" / document["study"] / "archive.h5"
    # Forging the digests of a bomb reads it, so it happens in another process. Otherwise this
    # process would keep the memory, and later commands would have larger limits.
    own = random.Random(rng.random())
    made = guarded(lambda: print(damaged_archive(source, path, own)) or 0)
    what = made.output.strip() if made.status == 0 else "the damage could not be completed"
    config, where = str(folder / "config.yaml"), str(path)
    new = folder / "new.yaml"
    new.write_text(yaml.safe_dump({**document, "study": "new", "transfer": [where]}))
    commands = {
        "status": command("status", config),
        "report": command("report", config),
        "check": command("check", str(new)),
        "audit": command("audit", where, "--proposal", "1-0"),
        "audit all": command("audit", where, "--all"),
        "replay": command("replay", where, "--iteration", "0"),
        "import": command("import", where, "--config", str(new)),
        "plan": lambda: plan(config),
        **{
            f"export {form}": command(
                "export", where, "--format", form, "--output", str(folder / f"out.{form}")
            )
            for form in ("csv", "parquet", "optuna", "ro-crate")
        },
    }
    verified = guarded(command("verify", where))
    yield f"verify, {what}", verified
    # All commands refuse a wrong structure in the same way, so only some of the other commands are
    # tried each time.
    refused = "cannot be read as an archive" in verified.output
    for name in rng.sample(sorted(commands), 1 if refused else 4):
        yield f"{name}, {what}", guarded(commands[name])

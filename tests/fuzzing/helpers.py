"""The files that the stages hand on, one of them damaged, given to every stage."""

from __future__ import annotations

import atexit
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import h5py
import yaml

from dngo.batch import Outcome, write_outcomes
from dngo.config import validate
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters
from dngo.study import Study
from dngo.waiting import Entry, Note
from fuzzing.damage import damaged_bytes, damaged_json, plant
from fuzzing.guard import Result, command, guarded, plan, told

HELPERS = {
    "study": "helpers",
    "objective": {"command": "echo 1"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
    "acquisition": {"kind": "random"},
    "design": {"size": 3},
    "batch_size": 3,
}


@cache
def _in_flight() -> Path:
    """A study with one iteration archived, and one of which two points of three were evaluated."""
    folder = Path(tempfile.mkdtemp(prefix="dngo-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    study = _load(folder)
    for t in range(2):
        here = study.iteration(t)
        surrogate = here / "surrogate.h5" if t else None
        if surrogate:
            study.fit(t, surrogate)
        batch = study.propose(t, surrogate, here / "proposals.json")
        for p in batch.proposals[: 3 - t]:
            digest = digest_parameters(p.parameters)
            write_outcomes(study.paths.outcome_file(p), [Outcome(t, p.slot, digest, "ok", 1.0)])
        study.paths.notes.add([Note(f"{t}-1", "leak", ["pump"], {"by": "a@b", "time": 1.7e9})])
        if t == 0:
            study.evaluate(t, 0, here / "outcomes" / "0.json")
            study.merge(t, here / "receipt.json")
    study.waiting.add([Entry({"x": 0.5}, "user", {"by": "a@b", "time": 1.7e9})], len)
    claims = study.paths.pending(1) / "claims"
    Claim(claims / "2").acquire()
    (claims / "2.starts").write_text("4f5a 1700000000.123 node 77\n")
    return folder


def _load(folder: Path) -> Study:
    return Study(validate({**HELPERS, "results": str(folder / "results")}))


def helpers(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """One damaged file of those that the stages hand on, given to every stage."""
    shutil.copytree(_in_flight(), folder, dirs_exist_ok=True)
    study = _load(folder)
    (folder / "config.yaml").write_text(
        yaml.safe_dump({**HELPERS, "results": str(folder / "results")})
    )
    files = sorted(p for p in study.folder.rglob("*") if p.is_file() and p != study.archive)
    path = rng.choice(files)
    what = f"{path.relative_to(study.folder)}: {_damage_helper(path, rng)}"
    here, config = study.iteration(1), str(folder / "config.yaml")
    stages: dict[str, Callable[[], object]] = {
        "status": command("status", config),
        "notes": command("note", "--config", config),
        "a note": command("note", "drift", "--point", "1-0", "--config", config),
        "audit": command("audit", config, "--proposal", "0-1"),
        "report": command("report", config),
        "add": command("add", "--set", "x=0.25", "--config", config),
        "plan": lambda: plan(config),
        "adopt": study.adopt,
        "fit": lambda: study.fit(1, folder / "surrogate.h5"),
        "propose": lambda: study.propose(1, here / "surrogate.h5", folder / "proposals.json"),
        "merge": lambda: study.merge(1, here / "receipt.json"),
        "merge again": lambda: study.merge(0, study.iteration(0) / "receipt.json"),
        "claim": lambda: Claim(study.paths.pending(1) / "claims" / "2").acquire(),
    }
    for name in rng.sample(sorted(stages), 4):
        yield f"{name}, {what}", guarded(told(stages[name]))


def _damage_helper(path: Path, rng: random.Random) -> str:
    if path.suffix == ".h5" and rng.random() < 0.5:
        with h5py.File(path, "r+") as file:
            return plant(file, rng)
    kind = rng.choice(["bytes", "bytes", "json", "empty", "folder", "pipe"])
    if kind == "bytes":
        kind, data = damaged_bytes(path.read_bytes(), rng)
        path.write_bytes(data)
        return kind
    if kind == "json":
        try:
            document = json.loads(path.read_text())
        except (ValueError, UnicodeDecodeError):
            document = []
        path.write_text(json.dumps(damaged_json(document, rng)))
        return kind
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    return kind

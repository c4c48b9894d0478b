"""Files damaged at random: no command may end in a traceback, hang, or take the memory.

    python tests/fuzz.py --seconds 3600 --seed 1 [archive] [corruption] [helpers] ...

Each damaged file is given to the real commands, each in a process of its own with limits of time and
memory. What fails is kept in --keep, with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import yaml

from dngo.archive.digests import genesis_digest, iteration_digest
from dngo.batch import STATUSES, Outcome, read_outcomes, write_outcomes
from dngo.config import validate
from dngo.errors import UserError
from dngo.evaluation.document import judge
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters
from dngo.study import Study

ROOT = Path(__file__).resolve().parents[1]
ARCHIVES = sorted((ROOT / "tests" / "data" / "archives").glob("*.h5"))
SECONDS = 5.0  # that a command may take, of processor time
MEMORY = 500 * 2**20  # bytes that it may take beyond what the test itself has


@dataclass(frozen=True)
class Result:
    """How a command ended: its exit status (negative: a signal) and what it wrote."""

    status: int
    output: str

    @property
    def fault(self) -> str:
        """What was wrong with the way it ended, if anything."""
        if self.status < 0:
            return signal.Signals(-self.status).name
        if self.status not in (0, 1, 2) or "Traceback" in self.output:
            return "traceback"
        lines = [line for line in self.output.splitlines() if line.strip()]
        return "no message" if self.status == 1 and not lines else ""


def guarded(action: Callable[[], int]) -> Result:
    """Run an action in a forked process with little time and memory."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        status = 70
        text = io.StringIO()
        try:
            limit = int(Path("/proc/self/statm").read_text().split()[0]) * 4096 + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
            signal.alarm(240)  # a wait for something that never comes, on a busy machine
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                status = action()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc(file=text)
        os.write(writer, text.getvalue()[-60000:].encode("utf-8", "backslashreplace"))
        os._exit(status)
    os.close(writer)
    with open(reader, "rb") as stream:
        output = stream.read().decode()
    _, ended = os.waitpid(pid, 0)
    return Result(os.waitstatus_to_exitcode(ended), output)


def warm() -> None:
    """Import once what every forked command would import anew."""
    import dngo.exchange.csv_table
    import dngo.exchange.optuna
    import dngo.exchange.parquet
    import dngo.exchange.ro_crate
    import dngo.replay
    import dngo.report
    import dngo.workflow.dag  # noqa: F401

    for name in (
        "optuna.storages",
        "pyarrow.parquet",
        "rocrate.rocrate",
        "sqlalchemy.dialects.sqlite",
    ):
        importlib.import_module(name)


def command(*arguments: str) -> Callable[[], int]:
    from dngo.cli import main

    return lambda: main(list(arguments))


# ---- damage -------------------------------------------------------------------------------------


def damaged_bytes(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Bytes as a bad disk, a cut connection or a careless editor leave them."""
    kind = rng.choice(["flip", "flip", "flip", "cut", "swap", "zero", "double", "noise"])
    array, n = bytearray(data), len(data)
    if n == 0:
        return "empty", data
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 4, 32])):
            array[rng.randrange(n)] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del array[rng.randrange(n) :]
    elif kind == "zero":
        start, size = rng.randrange(n), rng.choice([8, 64, 4096])
        array[start : start + size] = bytes(len(array[start : start + size]))
    elif kind == "noise":
        start, size = rng.randrange(n), rng.choice([1, 8, 64])
        array[start : start + size] = rng.randbytes(len(array[start : start + size]))
    else:
        size = rng.choice([8, 64, 512, 4096])
        a, b = (rng.randrange(max(1, n - size)) for _ in range(2))
        block = array[a : a + size]
        if kind == "double":
            array[b:b] = block
        else:
            array[a : a + size], array[b : b + size] = array[b : b + size], block
    return kind, bytes(array)


def _objects(file: h5py.File) -> tuple[list[str], list[str]]:
    groups, datasets = ["/"], []
    file.visititems(
        lambda name, item: (groups if isinstance(item, h5py.Group) else datasets).append(name)
    )
    return groups, datasets


def _attribute(file: h5py.File, rng: random.Random) -> tuple[h5py.AttributeManager, str]:
    names: list[str] = ["/"]
    file.visit(names.append)
    holders = [n for n in names if len(file[n].attrs)]
    attributes = file[rng.choice(holders)].attrs
    return attributes, rng.choice(sorted(attributes))


ODD = [
    -1,
    10**9,
    2**62,
    1e300,
    float("nan"),
    "",
    "x",
    "[" * 5000,
    "{}",
    "[]",
    "null",
    '{"a": 1}',
    b"\xff\xfe",
    np.zeros(1000),
    np.array([], dtype="i8"),
    np.array(["a", "b"], dtype=object),
]


def plant(file: h5py.File, rng: random.Random, kind: str | None = None) -> str:
    """Damage a sound HDF5 file as a program would; says what was done."""
    groups, datasets = _objects(file)
    if not datasets:
        file["more"] = np.zeros(3)
        datasets = ["more"]
    group, name = file[rng.choice(groups)], rng.choice(datasets)
    parent, _, leaf = f"/{name}".rpartition("/")
    parent = parent or "/"
    kind = kind or rng.choice(PLANTED)
    if kind == "attribute":
        attributes, key = _attribute(file, rng)
        del attributes[key]
        attributes[key] = rng.choice(ODD)
    elif kind == "lost attribute":
        attributes, key = _attribute(file, rng)
        del attributes[key]
    elif kind == "counts":
        file.attrs[rng.choice(["rows", "iterations"])] = rng.choice([0, 1, 2, 10**9, 2**62])
    elif kind == "lost dataset":
        del file[name]
    elif kind == "lost group":
        del file[rng.choice(groups[1:] or datasets)]
    elif kind == "soft link":
        group[f"more{rng.random()}"] = h5py.SoftLink(rng.choice(["/proposals", "/nowhere", "/"]))
    elif kind == "external link":
        del file[name]
        file[name] = h5py.ExternalLink("/etc/passwd", "/")
    elif kind == "cycle":
        group[f"more{rng.random()}"] = file[rng.choice(groups)]
    elif kind == "second name":
        file[f"{name}2"] = file[name]
    else:
        shape, dtype = file[name].shape, file[name].dtype
        del file[name]
        _replace(file[parent], leaf, kind, shape, dtype, rng)
    return f"{kind} at {name}"


PLANTED = [
    "attribute",
    "attribute",
    "lost attribute",
    "counts",
    "lost dataset",
    "lost group",
    "soft link",
    "external link",
    "cycle",
    "second name",
    "outside",
    "virtual",
    "shape",
    "type",
    "bomb",
    "huge",
    "compound",
    "reference",
    "named type",
    "text",
    "values",
    "group",
    "deep",
]


def _replace(
    group: h5py.Group, name: str, kind: str, shape: tuple[int, ...], dtype: np.dtype, rng
) -> None:
    """A dataset of a kind that no archive has, in the place of one."""
    if kind == "outside":
        group.create_dataset(name, (64,), "u1", external=[("/etc/passwd", 0, 64)])
    elif kind == "virtual":
        layout = h5py.VirtualLayout((10,), "f8")
        layout[:] = h5py.VirtualSource("/etc/passwd", "data", (10,))
        group.create_virtual_dataset(name, layout)
    elif kind == "shape":
        odd = rng.choice([(), (0,), (3,), (*shape, 2), (2**20,)])
        group.create_dataset(name, data=np.zeros(odd))
    elif kind == "type":
        odd = rng.choice(["i1", "f4", "S5", "c16", "bool", "u8"])
        group.create_dataset(name, data=np.zeros(shape, odd))
    elif kind == "bomb":
        group.create_dataset(
            name, (2**29,), "f8", chunks=(2**20,), compression="gzip", fillvalue=1.0
        )
    elif kind == "huge":
        group.create_dataset(name, (2**50,), "f8", chunks=(2**20,))
    elif kind == "compound":
        group.create_dataset(name, data=np.zeros(shape, [("a", "f8"), ("b", "i4")]))
    elif kind == "reference":
        group.create_dataset(name, shape, rng.choice([h5py.ref_dtype, h5py.regionref_dtype]))
    elif kind == "named type":
        group[name] = np.dtype("f8")
    elif kind == "text":
        odd = rng.choice([b"\xff\xfe", b"", b"x" * 100000, b"[" * 10000, b"[]"])
        data = np.array([odd] * (shape[0] if shape else 1), dtype=object)
        group.create_dataset(name, data=data, dtype=h5py.string_dtype())
    elif kind == "values":
        if dtype.kind == "O":
            group.create_dataset(name, shape, h5py.string_dtype())
        else:
            odd = rng.choice([-1, 0, 77, 1e300, np.nan, np.inf, -np.inf])
            with np.errstate(all="ignore"):
                group.create_dataset(name, data=np.full(shape, odd).astype(dtype), dtype=dtype)
    elif kind == "group":
        group.create_group(name)
    else:
        group.create_group(name + "/deep" * 2000)


def rechain(file: h5py.File) -> None:
    """Give an archive the digests of what it holds, as a forger would."""
    previous = genesis_digest(file)
    for t in range(int(file.attrs["iterations"])):
        record = file[f"iterations/{t}"]
        record.attrs["previous"] = previous
        record.attrs["digest"] = previous = iteration_digest(file, record)
    file.attrs["digest"] = previous


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
            with contextlib.suppress(Exception):  # of what was damaged there may be no digest
                rechain(file)
                what += ", forged"
        return what


# ---- targets ------------------------------------------------------------------------------------


def _study(folder: Path, source: Path) -> dict:
    """A study of an archive: its configuration beside it; returns the document."""
    with h5py.File(source) as file:
        last = file.attrs["iterations"] - 1
        document = json.loads(file[f"iterations/{last}"].attrs["config"])
    document["results"] = str(folder / "results")
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    (folder / "results" / document["study"]).mkdir(parents=True, exist_ok=True)
    return document


def _plan(config: str) -> int:
    """What Snakemake does first, with a mistake told as the Snakefile tells it."""
    from dngo.locate import find_study
    from dngo.workflow.dag import Dag

    try:
        Dag.build(find_study([config]), main=True, dry=True, remote=False)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def archive(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """One damaged archive, given to every command that reads one."""
    source = rng.choice(ARCHIVES)
    document = _study(folder, source)
    path = folder / "results" / document["study"] / "archive.h5"
    # Forging the digests of a bomb reads it: in a process of its own, or this one keeps the memory, and
    # the limit of every command after it grows by that.
    own = random.Random(rng.random())
    made = guarded(lambda: print(damaged_archive(source, path, own)) or 0)
    what = made.output.strip() if made.status == 0 else "damage that was not finished"
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
        "plan": lambda: _plan(config),
        **{
            f"export {form}": command(
                "export", where, "--format", form, "--output", str(folder / f"out.{form}")
            )
            for form in ("csv", "parquet", "optuna", "ro-crate")
        },
    }
    verified = guarded(command("verify", where))
    yield f"verify, {what}", verified
    # What the structure shows is refused alike by all: the others are asked in turn.
    refused = "cannot be read as an archive" in verified.output
    for name in rng.sample(sorted(commands), 1 if refused else 4):
        yield f"{name}, {what}", guarded(commands[name])


def corruption(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """One thing altered, added or taken away in an archive: `verify` must not pass it."""
    path = folder / "archive.h5"
    shutil.copy(rng.choice(ARCHIVES), path)
    with h5py.File(path, "r+") as file:
        what = corrupt(file, rng)
    result = guarded(command("verify", str(path)))
    missed = result.status == 0
    yield what, Result(70, "Traceback: nobody noticed") if missed else result


def corrupt(file: h5py.File, rng: random.Random) -> str:
    """Alter, add or take away one thing; says what."""
    groups, datasets = _objects(file)
    group, name = file[rng.choice(groups)], rng.choice([n for n in datasets if file[n].size])
    data = file[name]
    kind = rng.choice(CORRUPTIONS)
    if kind == "value":
        index = tuple(rng.randrange(n) for n in data.shape)
        value = data[index]
        if isinstance(value, bytes):
            data[index] = value + b"x"
        elif data.dtype.kind == "f":
            data[index] = 1.0 if np.isnan(value) else np.nextafter(value, rng.choice([-9e9, 9e9]))
        else:
            data[index] = value ^ 1
    elif kind == "attribute":
        attributes, name = _attribute(file, rng)
        value = attributes[name]
        if isinstance(value, str):
            place = rng.randrange(len(value) + 1)
            attributes[name] = value[:place] + rng.choice("x0 ") + value[place:]
        else:
            attributes[name] = np.nan_to_num(value) + 1 if np.size(value) else np.array([1])
    elif kind == "lost attribute":
        attributes, name = _attribute(file, rng)
        del attributes[name]
    elif kind == "lost dataset":
        del file[name]
    elif kind == "lost group":
        name = rng.choice(groups[1:])
        del file[name]
    elif kind == "added attribute":
        holder = file[rng.choice([*groups, *datasets])]
        holder.attrs["note"] = rng.choice(["x", 1.0])
        name = holder.name
    elif kind == "added dataset":
        group["more"] = rng.choice([np.zeros(3), np.zeros(20), "text"])
        name = group.name
    elif kind == "added group":
        group.create_group("more")
        name = group.name
    elif kind == "added link":
        group["more"] = rng.choice(
            [h5py.SoftLink("/proposals"), h5py.ExternalLink("a.h5", "/"), file["outcomes"]]
        )
        name = group.name
    elif kind == "renamed":
        file.move(name, f"{name}2")
    elif kind == "swapped":
        other = rng.choice(sorted({n for n in datasets if n != name}))
        file.move(name, "held")
        file.move(other, name)
        file.move("held", other)
        if _same(file[name], file[other]):
            return corrupt(file, rng)
        name += f" and {other}"
    elif kind == "rows swapped":
        a, b = (rng.randrange(len(data)) for _ in range(2))
        first, second = data[a], data[b]
        if np.array_equal(first, second) or str(first) == str(second):
            return corrupt(file, rng)
        data[a], data[b] = second, first
    elif kind == "row added":
        name = rng.choice([n for n in datasets if file[n].maxshape[:1] == (None,)])
        file[name].resize(len(file[name]) + 1, axis=0)
    elif kind == "row lost":
        name = rng.choice([n for n in datasets if file[n].maxshape[:1] == (None,)])
        file[name].resize(len(file[name]) - 1, axis=0)
    elif kind == "iteration added":
        last = int(file.attrs["iterations"])
        file.copy("iterations/0", file["iterations"], str(last + rng.choice([0, 1])))
        file.attrs["iterations"] = last + rng.choice([0, 1])
    else:
        name = "outcomes/status"
        values = file[name][()]
        del file[name]
        shifted = {s: (i + 1) % len(STATUSES) for i, s in enumerate(STATUSES)}
        file.create_dataset(name, data=values, dtype=h5py.enum_dtype(shifted, "u1"))
    return f"{kind}: {name}"


def _same(a: h5py.Dataset, b: h5py.Dataset) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a[()].tolist() == b[()].tolist()


CORRUPTIONS = [
    "value",
    "attribute",
    "lost attribute",
    "lost dataset",
    "lost group",
    "added attribute",
    "added dataset",
    "added group",
    "added link",
    "renamed",
    "swapped",
    "rows swapped",
    "row added",
    "row lost",
    "iteration added",
    "statuses renamed",
]


# ---- the files that flow ------------------------------------------------------------------------

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
            write_outcomes(study.outcome_file(p), [Outcome(t, p.slot, digest, "ok", 1.0)])
        if t == 0:
            study.evaluate(t, 0, here / "outcomes" / "0.json")
            study.merge(t, here / "receipt.json")
    claims = study.pending(1) / "claims"
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
        "plan": lambda: _plan(config),
        "adopt": study.adopt,
        "fit": lambda: study.fit(1, folder / "surrogate.h5"),
        "propose": lambda: study.propose(1, here / "surrogate.h5", folder / "proposals.json"),
        "merge": lambda: study.merge(1, here / "receipt.json"),
        "merge again": lambda: study.merge(0, study.iteration(0) / "receipt.json"),
        "claim": lambda: Claim(study.pending(1) / "claims" / "2").acquire(),
    }
    for name in rng.sample(sorted(stages), 4):
        yield f"{name}, {what}", guarded(_told(stages[name]))


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


JSON = [None, True, -1, 10**30, 1e300, "", "x\0", "\ud800", [], {}, [[]], {"a": 1}, "9" * 5000]


def damaged_json(document: object, rng: random.Random) -> object:
    """A JSON document with something of it replaced, lost or added."""
    if rng.random() < 0.15 or not isinstance(document, dict | list) or not document:
        return rng.choice(JSON)
    if isinstance(document, list):
        i = rng.randrange(len(document))
        if rng.random() < 0.2:
            return document[:i]
        return [damaged_json(x, rng) if i == j else x for j, x in enumerate(document)]
    key = rng.choice(sorted(document))
    if rng.random() < 0.2:
        return {k: v for k, v in document.items() if k != key}
    if rng.random() < 0.1:
        return {**document, "more": rng.choice(JSON)}
    return {k: damaged_json(v, rng) if k == key else v for k, v in document.items()}


def _told(action: Callable[[], object]) -> Callable[[], int]:
    """A stage, its mistakes told as its script tells them."""

    def run() -> int:
        try:
            found = action()
            return found if isinstance(found, int) else 0
        except UserError as error:
            print(error, file=sys.stderr)
            return 1

    return run


# ---- what people and programs write -------------------------------------------------------------

CONFIGURATIONS = [ROOT / "config.yaml", *sorted((ROOT / "examples").glob("*/config.yaml"))]
SCALARS = [
    *(
        "null",
        "[]",
        "{}",
        "~",
        "-1",
        "0",
        "1e400",
        ".inf",
        ".nan",
        "yes",
        '""',
        "2024-01-01",
        "0x1F",
    ),
    *('"\\0"', '"\\ud800"', '"\\ud83d\\ude00"', "*a", "&a [*a]", "!!python/name:os.system", "!x y"),
    *(
        "[1, 1.0, true]",
        "[" * 2000,
        "{a: " * 500,
        "9" * 5000,
        "1" + "0" * 400,
        "|",
        "'",
        "\t",
        "? x",
    ),
]


def configuration(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """A configuration with something of it damaged, given to `check`."""
    source = rng.choice(CONFIGURATIONS)
    path = folder / "config.yaml"
    if rng.random() < 0.3:
        what, data = damaged_bytes(source.read_bytes(), rng)
        path.write_bytes(data)
    else:
        what, lines = "lines", source.read_text().splitlines()
        for _ in range(rng.choice([1, 1, 2, 5])):
            i, other = (rng.randrange(len(lines)) for _ in range(2))
            kind = rng.choice(["value", "value", "value", "lost", "double", "indent", "key"])
            key, colon, _value = lines[i].partition(":")
            if kind == "value":
                lines[i] = f"{key}{colon or ':'} {rng.choice(SCALARS)}"
            elif kind == "lost":
                del lines[i]
            elif kind == "double":
                lines.insert(other, lines[i])
            elif kind == "indent":
                lines[i] = " " * rng.randrange(8) + lines[i].lstrip()
            else:
                lines[i] = f"{rng.choice(SCALARS)}: 1"
        path.write_text("\n".join(lines) + "\n")
    yield f"{source.parent.name}, {what}", guarded(command("check", str(path)))


DOCUMENTS = [
    {"objective": 0.1},
    {
        "objective": 1,
        "constraints": {"a": True, "b": False},
        "noise": 0.1,
        "metadata": {"n": [1, {}]},
    },
    0.25,
]


def document(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """A hundred reports of an objective, each of which must be one outcome, and a storable one."""

    def judge_all() -> int:
        for _ in range(100):
            report = json.dumps(damaged_json(rng.choice(DOCUMENTS), rng)).encode()
            if rng.random() < 0.5:
                _, report = damaged_bytes(report, rng)
            line = report.decode("utf-8", rng.choice(["replace", "surrogateescape"]))
            verdict = judge(
                *rng.choice([(report, ""), (None, line)]), rng.choice([{}, {"a": None, "b": None}])
            )
            outcome = Outcome(0, 0, "", verdict.status, message=verdict.message, **verdict.fields)
            write_outcomes(folder / "outcome.json", [outcome])
            assert [repr(o) for o in read_outcomes(folder / "outcome.json")] == [repr(outcome)]
        return 0

    yield "documents", guarded(judge_all)


TARGETS = {
    "archive": archive,
    "corruption": corruption,
    "helpers": helpers,
    "configuration": configuration,
    "document": document,
}


def run(
    target: str, seconds: float, seed: int, keep: Path | None = None, most: int = 10**9
) -> Counter:
    """Damage and try for some seconds; counts of files, trials and faults, which are printed."""
    warm()
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(most):
        if time.monotonic() > end:
            break
        rng = random.Random(f"{seed} {target} {number}")
        with tempfile.TemporaryDirectory(prefix="dngo-fuzz-") as name:
            folder = Path(name)
            counts["files"] += 1
            if number % 100 == 99:
                print(f"{target}: {dict(counts)}", flush=True)
            for what, result in TARGETS[target](folder, rng):
                counts["trials"] += 1
                counts["refused"] += result.status != 0
                if result.fault:
                    counts["faults"] += 1
                    print(
                        f"{target} {seed}/{number}: {what}: {result.fault}\n{result.output[-1500:]}"
                    )
                    if keep:
                        shutil.copytree(
                            folder, keep / f"{target}-{seed}-{number}", dirs_exist_ok=True
                        )
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", default=[], help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--files", type=int, default=10**9, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for what failed")
    options = parser.parse_args()
    faults = 0
    for target in options.targets or TARGETS:
        counts = run(target, options.seconds, options.seed, options.keep, options.files)
        print(f"{target}: {dict(counts)}", flush=True)
        faults += counts["faults"]
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()

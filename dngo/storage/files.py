"""Files that survive a crash: atomic replacement, patience with a full or read-only disk."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE = 600.0  # seconds to wait for a disk that is full or read-only to come back
HDF5 = b"\x89HDF\r\n\x1a\n"


def at_home(path: str, beside: Path = Path()) -> str:
    """A path with a home folder in place of `~` or `~user`, unless something of that very name is there.

    beside: the folder that it is relative to.
    """
    if not path.startswith("~") or (beside / path).exists():
        return path
    return os.path.expanduser(path)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    After a crash at any moment `path` is the old file or the new one, never a mixture.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        # mkstemp makes private files; results are as readable as any file the user makes.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def patiently(action: Callable[[], Any], *, what: str, patience: float = PATIENCE) -> Any:
    """Repeat `action` while the disk refuses; what it writes was paid for and must not be dropped.

    Raises the last OSError once `patience` seconds have passed.
    """
    deadline = time.monotonic() + patience
    pause = 0.5
    while True:
        try:
            return action()
        except FileNotFoundError:
            raise  # the folder is gone: waiting does not bring it back
        except OSError as error:
            if time.monotonic() + pause > deadline:
                raise
            with contextlib.suppress(OSError):  # the log may lie on the same full disk
                print(f"{what}: {error}; trying again in {pause:.0f} s", flush=True)
            time.sleep(pause)
            pause = min(pause * 2, 15.0)


def write_json(path: Path, document: Any, *, patience: float = PATIENCE) -> None:
    """Write a JSON document atomically and durably."""
    write_text(path, json.dumps(document, indent=1) + "\n", patience=patience)


def write_text(path: Path, text: str, *, patience: float = PATIENCE) -> None:
    """Write a text atomically and durably."""

    def write() -> None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")

    patiently(write, what=f"writing {path}", patience=patience)


def read_json(path: Path) -> Any:
    """The JSON document in `path`; raises OSError if it cannot be read, ValueError if it is none."""
    # A pipe in place of a file must not block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is no regular file")
        try:
            return json.load(stream)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def is_hdf5(path: Path) -> bool:
    """Whether a file begins as such files do."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(HDF5)) == HDF5
    except OSError:
        return False

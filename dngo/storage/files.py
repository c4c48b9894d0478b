"""Files that survive a crash, are replaced as a whole, and never replace a user's file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from dngo.errors import UserError
from dngo.storage.patience import PATIENCE, is_away, patiently
from dngo.storage.text import storable

HDF5 = b"\x89HDF\r\n\x1a\n"
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*|\{\w+\})")
BEGINNING = 4096  # bytes at the beginning of a file that say what it is
# The errors of file systems without hard links (exFAT, SMB, FUSE, some of clusters).
NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def at_home(path: str, beside: Path = Path()) -> str:
    """A path with a home folder instead of `~` or `~user`, unless a file with exactly that name
    exists.

    beside: the folder that it is relative to.
    """
    if not path.startswith("~") or (beside / path).exists():
        return path
    return os.path.expanduser(path)


def variable_in(path: str, beside: Path = Path()) -> str:
    """The first `$NAME` in a path, unless it belongs to the name of an existing file; otherwise "".

    It stays as it is. beside: the folder to which the path is relative.
    """
    place = beside
    for part in Path(path).parts:
        place /= part
        found = _VARIABLE.search(part)
        if found and not os.path.lexists(place):
            return found[0]
    return ""


def without_variable(name: str) -> str:
    """What to write instead of a variable."""
    return "~" if name in ("$HOME", "${HOME}") else f"what {name} stands for"


def cannot_be_written(folder: str) -> bool:
    """Whether a folder exists and can be read, but no file can be created in it."""
    return os.access(folder, os.X_OK) and not os.access(folder, os.W_OK)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` which replaces it when the block ends without an error.

    After a crash at any moment `path` is the old file or the new one, never a mixture.
    """
    with _temporary(path) as temporary:
        yield temporary
        _finish(temporary)
        os.replace(temporary, path)
        sync_folder(path.parent)


@contextlib.contextmanager
def handing_out(
    path: Path, is_earlier: Callable[[bytes], bool] = lambda beginning: False
) -> Iterator[Path]:
    """A temporary path. When the block ends well, its file is put at `path`, which a user has named.

    The file is new, or it replaces a file of the same kind, which `is_earlier` recognises by its
    beginning.
    Raises UserError if any other file is in the way. This happens before the block, or after it if
    the file appeared meanwhile. That file stays as it is.
    """
    known = _earlier(path, is_earlier)
    with _temporary(known or path) as temporary:
        yield temporary
        _finish(temporary)
        if known is None:
            try:
                appear(temporary, path)
            except FileExistsError:
                raise in_the_way(path) from None
        else:
            os.replace(temporary, known)
        sync_folder((known or path).parent)


def in_the_way(path: Path, other: str = "name another file") -> UserError:
    """The error for a path where something already stands. That is not touched."""
    return UserError(f"{path}: is there already, and is not replaced; {other}")


def _earlier(path: Path, is_earlier: Callable[[bytes], bool]) -> Path | None:
    """The file to replace, at the end of a link if there is one; None if nothing is there."""
    if not os.path.lexists(path):
        return None
    with contextlib.suppress(OSError, ValueError), reading_regular(path) as stream:
        if is_earlier(stream.read(BEGINNING)):
            return path.resolve()
    raise in_the_way(path)


def appear(temporary: Path, path: Path) -> None:
    """Have a file appear at `path`, where nothing may be yet. If several processes try, one wins.

    It is complete from the first moment. On a file system without hard links it is empty for a
    moment first. The temporary file may stay. Raises FileExistsError, OSError.
    """
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with open(temporary, "rb") as source, open(path, "xb", buffering=0) as target:
            try:
                shutil.copyfileobj(source, target)
                os.fsync(target.fileno())
            except OSError:
                path.unlink()
                raise


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _finish(temporary: Path) -> None:
    """Make a file durable, and as readable as the user's other files, since mkstemp makes private
    ones."""
    with open(temporary, "rb+") as stream:
        os.fsync(stream.fileno())
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(temporary, 0o666 & ~umask)


@contextlib.contextmanager
def reading_regular(path: Path) -> Iterator[IO[bytes]]:
    """A file, opened to be read; raises OSError, and ValueError if it is no regular file."""
    # If it is a pipe instead of a file, opening must not block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is no regular file")
        yield stream


def write_json(path: Path, document: Any, *, patience: float = PATIENCE) -> None:
    """Write a JSON document atomically and durably."""
    write_text(path, json.dumps(document, indent=1) + "\n", patience=patience)


def write_text(path: Path, text: str, *, patience: float = PATIENCE) -> None:
    """Write a text atomically and durably. Bytes that are no characters, as in a folder's name, are
    replaced."""

    def write() -> None:
        with replacing(path) as temporary:
            temporary.write_text(storable(text), encoding="utf-8")

    patiently(write, what=f"writing {path}", patience=patience)


def read_json(path: Path) -> Any:
    """The JSON document in `path`; raises OSError if it cannot be read, ValueError if it is no JSON."""

    def read() -> bytes:
        with reading_regular(path) as stream:
            return stream.read()

    text = patiently(read, what=f"reading {path}", refusal=is_away).decode("utf-8")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_hdf5(path: Path) -> bool:
    """Whether a file has the beginning of such files."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(HDF5)) == HDF5
    except OSError:
        return False


def handing_out_page(path: Path, title: str) -> AbstractContextManager[Path]:
    """`handing_out` of an HTML page. It may replace an earlier page with the same title."""
    marks = b'<meta name="dngo-version"', f"<title>{title}</title>".encode()
    return handing_out(path, lambda beginning: all(mark in beginning for mark in marks))

"""HDF5 files that are not trusted.

libhdf5 trusts what it reads. Some damaged files crash it, others keep it busy for ever, and a small
file may unpack to terabytes. So a child process with little time and memory checks a file first. If
the child does not come back, the file is to blame, and the reader gets an error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import math
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5o, h5t, h5z

from dngo.errors import UserError
from dngo.storage.files import replacing
from dngo.storage.patience import has_no_disk, has_no_room, in_words, is_away, patiently
from dngo.version import __version__

Check = Callable[[h5py.File, int], None]  # given the size of the file in bytes too
FILTERS = (h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32)
MOST_DEPTH = 12
MOST_BYTES = 2**19  # of an attribute
TEXT_BYTES = 16  # bytes of an attribute's text of variable length: they say where the text is
SLICE = 1024  # rows of text that are read at once
MEGABYTE = 2**20
ALTERED = "altered: "  # a child's message that begins with this is an `Altered`
MISTAKE = "mistake: "  # a child's message that begins with this blames the reader, and not the file
LEAST_MARKED = MEGABYTE  # bytes; checking a smaller file takes no time

# What is known to be sound, by name: of a dataset the number of its first rows, or a whole group.
Known = Callable[[str], float]

_sound: set[tuple[object, ...]] = set()


class Unsound(ValueError):
    """A file cannot be used; the text says where and why."""


class Altered(Unsound):
    """A file can be used, but its values are not those that were written; the text says where."""


@contextlib.contextmanager
def opened(path: Path, check: Check, *, whole: Check | None = None) -> Iterator[h5py.File]:
    """A file opened to be read, after `check` has accepted it in a process of its own.

    A file is checked only once, until it changes. The same file is read to the end, even if `path`
    is replaced meanwhile. No lock is taken. whole: the check of its kind of file that `check` is a part
    of, or is. What that has accepted is not checked again, and a large file gets a mark (`vouch`).
    Raises OSError if it cannot be opened, and Unsound if it is not accepted.
    """
    # If it is a pipe instead of a file, opening must not block.
    descriptor = _whatever_happens(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    try:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode):
            raise Unsound("it is no regular file")
        state = _signature(known)
        if _sound.isdisjoint({(check, *state), (whole, *state)}):
            if not _is_marked(path, known):
                _look_through(path, descriptor, check, known.st_size)
                if check is whole:
                    vouch(path, known, check)
            _sound.add((check, *state))
        with _file(descriptor) as file:
            yield file
    finally:
        os.close(descriptor)


def vouch(path: Path, written: os.stat_result, check: Check) -> None:
    """Note that a file is sound, now that it has its place, so that it is not checked again.

    That holds for this process. A large file also gets a mark beside it, for other processes; it is
    valid until the file changes or is copied. written: the state of the file when it was checked.
    """
    with contextlib.suppress(OSError):  # the mark only saves time
        known = path.stat()
        if _signature(known) != _signature(written):
            return
        _sound.add((check, *_signature(known)))
        if known.st_size >= LEAST_MARKED:
            _mark(path).write_text(_told_by_mark(known))


def _signature(known: os.stat_result) -> tuple[int, ...]:
    return known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns


def _mark(path: Path) -> Path:
    return path.with_name(f".{path.name}.sound")


def _told_by_mark(known: os.stat_result) -> str:
    """The content of a mark: the state of the file, and a time that nobody can set."""
    return " ".join(map(str, (__version__, *_signature(known), known.st_ctime_ns))) + "\n"


def _is_marked(path: Path, known: os.stat_result) -> bool:
    try:
        return known.st_size >= LEAST_MARKED and _mark(path).read_text() == _told_by_mark(known)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _file(descriptor: int) -> Iterator[h5py.File]:
    # Open it by its descriptor: a file that was replaced has no name any more, and HDF5 needs one.
    stream = _whatever_happens(lambda: open(f"/dev/fd/{descriptor}", "rb"))  # noqa: SIM115
    with stream, h5py.File(stream, "r") as file:
        yield file


@contextlib.contextmanager
def our_own(path: Path) -> Iterator[h5py.File]:
    """A file that a stage wrote for another stage, opened to be read.

    Raises UserError if it is damaged, since it can be made again.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(opened(path, check_tree))
        except (OSError, Unsound) as error:
            raise _damaged(path, error) from None
        try:
            yield file
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error


def write(path: Path, fill: Callable[[h5py.File], Any]) -> None:
    """Write a file for another stage, completely or not at all. Wait while the disk is full.

    fill: a function that gets the file and writes into it; it may be called more than once.
    """

    def once() -> None:
        with replacing(path) as temporary, h5py.File(temporary, "w") as file:
            fill(file)

    patiently(once, what=f"writing {path}", refusal=has_no_disk)


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path}: is damaged ({reason(error)[:160]}); remove it and type the same command again"
    )


def reason(error: Exception) -> str:
    """Why a file cannot be opened, in one line of at most 300 characters, not in HDF5's words."""
    text = " ".join(str(error).split())[:300]
    if "file signature not found" in text:
        return "it does not begin like an HDF5 file"
    if found := re.search(r"truncated file: eof = (\d+), .*stored_eof = (\d+)", text):
        return f"{found[1]} of its {found[2]} bytes are there"
    found = re.fullmatch(r"Unable to .*? \((.*)\)", text)
    return found[1] if found else text


# ---- the child ----------------------------------------------------------------------------------


def _look_through(path: Path, descriptor: int, check: Check, size: int) -> None:
    pid, reader, writer = _whatever_happens(_fork)
    if pid == 0:
        _child(descriptor, check, size, writer)
    os.close(writer)
    with open(reader, "rb") as stream:
        verdict = stream.read().decode()
    # other code of this process has already waited for the child
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    if verdict.startswith(MISTAKE):
        raise UserError(f"{path}: {verdict.removeprefix(MISTAKE)}")
    if verdict.startswith(ALTERED):
        raise Altered(verdict.removeprefix(ALTERED))
    if verdict != "sound":
        raise Unsound(verdict or "the HDF5 library crashes on it, or never ends")


def _whatever_happens(action: Callable[[], Any]) -> Any:
    """The result of an action. It is repeated while the system refuses, since a refusal says
    nothing about the file.

    Raises UserError if the system refuses for too long, and OSError for other reasons.
    """
    try:
        return patiently(
            action, what="opening a file", refusal=lambda e: has_no_room(e) or is_away(e)
        )
    except OSError as error:
        if has_no_room(error):
            raise UserError(in_words(error)) from None
        raise


def _fork() -> tuple[int, int, int]:
    """Fork. Returns the child's number (0 in the child), and the two ends of a pipe."""
    reader, writer = os.pipe()
    try:
        return os.fork(), reader, writer
    except OSError:
        os.close(reader)
        os.close(writer)
        raise


def _child(descriptor: int, check: Check, size: int, writer: int) -> None:
    verdict = ""
    try:
        faulthandler.disable()
        gc.disable()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        _limit(size)
        with _file(descriptor) as file:
            check(file, size)
        verdict = "sound"
    except MemoryError:
        verdict = "it unpacks to far more than its size"
    except Altered as error:
        verdict = f"{ALTERED}{error}"
    except UserError as error:
        verdict = MISTAKE + " ".join(str(error).split())[:300]
    except BaseException as error:
        verdict = " ".join(str(error).split())[:300] or type(error).__name__
    finally:
        os.write(writer, verdict.encode("utf-8", "backslashreplace"))
        os._exit(0)


def _limit(size: int) -> None:
    """Limit this process: to some seconds of CPU time and some further memory, by a file's size."""
    seconds = 4 + size // (2 * MEGABYTE)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # a system without /proc sets no limit
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + 256 * MEGABYTE + 3 * size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


# ---- what any file of ours is made of -----------------------------------------------------------


def check_tree(file: h5py.File, size: int, known: Known = lambda name: 0) -> None:
    """Check everything in a file, except parts that are known to be sound.

    Raises Unsound unless it consists only of groups, and of datasets and attributes of numbers and
    text. All must lie in this file, each in one place, and none may be larger than the file can
    hold.
    """
    _Walk(size, known).group(file["/"].id, "", 0)


class _Walk:
    def __init__(self, size: int, known: Known):
        self.size = size
        self.known = known
        # most bytes that all packed values together may unpack to
        self.room = 16 * MEGABYTE + 8 * size
        self.seen: set[int] = set()

    def group(self, group: h5g.GroupID, path: str, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise Unsound(f"{path}: lies too deep")
        self.attributes(group, path or "/")
        links = group.links
        for raw in group:
            name = f"{path}/{raw.decode()}"
            if "@" in name:  # a digest names an attribute "dataset@attribute"
                raise Unsound(f"{name}: is no name that an archive uses")
            if links.get_info(raw).type != h5py.h5l.TYPE_HARD:
                raise Unsound(f"{name}: is a link, and an archive holds none")
            if self.known(name) < math.inf:
                self.item(h5o.open(group, raw), name, depth)

    def item(self, item: h5o.ObjectID, name: str, depth: int) -> None:
        address = h5o.get_info(item).addr
        if address in self.seen:
            raise Unsound(f"{name}: is in the file under a second name")
        self.seen.add(address)
        if isinstance(item, h5g.GroupID):
            self.group(item, name, depth + 1)
        elif isinstance(item, h5d.DatasetID):
            self.dataset(item, name)
            self.attributes(item, name)
        else:
            raise Unsound(f"{name}: is neither a group nor a dataset")

    def attributes(self, item: h5o.ObjectID, path: str) -> None:
        for index in range(h5a.get_num_attrs(item)):
            size = h5a.get_info(item, index=index).data_size
            if size > MOST_BYTES:
                raise Unsound(f"{path}: has an attribute that is far too large")
            if size % TEXT_BYTES:
                continue  # its value is stored in place, so damage does no harm
            attribute = h5a.open(item, index=index)
            name = f"{path}@{attribute.name.decode()}"
            if _is_text(attribute.get_type(), name):
                if attribute.shape:
                    raise Unsound(f"{name}: is a list of texts")
                found = np.empty((), dtype=attribute.dtype)
                attribute.read(found)
                _decoded(found.item(), name)

    def dataset(self, dataset: h5d.DatasetID, name: str) -> None:
        kind = dataset.get_type()
        text = _is_text(kind, name)
        creation, shape = dataset.get_create_plist(), dataset.shape
        if shape is None:
            raise Unsound(f"{name}: is empty")
        if creation.get_external_count() or creation.get_layout() == h5d.VIRTUAL:
            raise Unsound(f"{name}: keeps its values in another file")
        filters = [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]
        if any(f not in FILTERS for f in filters):
            raise Unsound(f"{name}: is packed in a way that this dngo does not read")
        size, stored = math.prod(shape) * kind.get_size(), dataset.get_storage_size()
        if stored > self.size or (size > stored and not filters):
            raise Unsound(f"{name}: is larger than the file")
        chunk = creation.get_chunk() if creation.get_layout() == h5d.CHUNKED else ()
        self.room -= size if filters else 0
        if self.room < 0 or math.prod(chunk) * kind.get_size() > 16 * MEGABYTE + 8 * self.size:
            raise Unsound(f"{name}: unpacks to far more than the size of the file")
        high_level, first = h5py.Dataset(dataset), int(self.known(name))
        if not text:
            high_level[first:] if first else high_level[()]
            return
        read = 0
        for start in range(first, shape[0] if shape else 0, SLICE):
            values = high_level[start : start + SLICE].ravel().tolist()
            # In UTF-8 no character of several bytes contains the byte of a line's end.
            read += len(_decoded(b"\n".join(values), name))
            if read > 4 * self.size:
                raise Unsound(f"{name}: holds more text than the file has room for")


def _is_text(kind: h5t.TypeID, name: str) -> bool:
    """Whether values of a type are text (else they are numbers); raises Unsound if they are
    neither."""
    group = kind.get_class()
    if group == h5t.STRING:
        return True
    if group in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM) and kind.get_size() <= 8:
        return False
    raise Unsound(f"{name}: holds neither numbers nor text")


def _decoded(value: bytes | str, name: str) -> str:
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError:
        raise Unsound(f"{name}: holds text that is not UTF-8") from None

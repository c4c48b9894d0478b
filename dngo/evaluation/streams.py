"""Keeps what an objective prints, within bounds."""

from __future__ import annotations

import contextlib
import io
import re
from collections import deque
from pathlib import Path

from dngo.evaluation.shortening import LONGEST
from dngo.redaction import Mask

PIECE = 2**16  # bytes of one piece; a piece is dropped as a whole
_END = re.compile(rb"\S[^\S\r\n]*[\r\n]")  # of a line that is not blank


class _Tail:
    """The end of a stream."""

    def __init__(self, size: int):
        self.size, self.pieces, self.held = size, deque[bytes](), 0

    def feed(self, data: bytes) -> None:
        self.pieces.append(data)
        self.held += len(data)
        while self.held - len(self.pieces[0]) >= self.size:
            self.held -= len(self.pieces.popleft())

    def bytes(self) -> bytes:
        return b"".join(self.pieces)[-self.size :]


class _LastLines:
    """The end of a stream. Its last line is complete, unless it is longer than `LONGEST`.

    size: bytes that are held if lines are short.
    """

    def __init__(self, size: int):
        self.size, self.held, self.is_cut = size, 0, False
        # `ends`: the number of ends of lines in each piece.
        self.pieces, self.ends = deque[bytearray](), deque[int]()

    def feed(self, data: bytes) -> None:
        if not self.pieces or len(self.pieces[-1]) >= PIECE:
            self.pieces.append(bytearray())
            self.ends.append(0)
        self.pieces[-1] += data
        self.ends[-1] += len(_END.findall(data))
        self.held += len(data)
        # The last line is complete if the end of the line before it is still in memory.
        while (rest := self.held - len(self.pieces[0])) >= self.size and (
            rest > LONGEST or sum(self.ends) - self.ends[0] >= 2
        ):
            self.held, self.is_cut = rest, True
            self.pieces.popleft()
            self.ends.popleft()

    def lines(self) -> list[str]:
        """The lines that are held. A line without its beginning is replaced by its length."""
        lines = b"".join(self.pieces).decode("utf-8", "replace").splitlines()
        if self.is_cut and lines:
            lines[0] = f"[a line of more than {len(lines[0])} characters]"
        return [line for line in lines if line.strip()]


class Kept:
    """A stream kept within bounds: the first half as it comes, then the end.

    limit: bytes to keep. mask: removes secrets from the file; a result is read from the text before
    masking.
    """

    def __init__(self, path: Path, limit: int, mask: Mask):
        self.path, self.half, self.mask = path, limit // 2, mask
        self.stream: io.FileIO | None = None  # created when there is something to keep
        path.unlink(missing_ok=True)
        self.written = self.total = 0
        self.printed, self.tail = _LastLines(self.half), _Tail(self.half)
        self.held = b""  # the end of the text so far, where a secret may have begun

    def feed(self, data: bytes) -> None:
        """Take the next printed bytes."""
        self.printed.feed(data)
        data = self.mask.take_out(self.held + data)
        at = len(data) - self.mask.begun(data)
        self.held = data[at:]
        self._keep(data[:at])

    def _keep(self, data: bytes) -> None:
        self.total += len(data)
        head = data[: max(0, self.half - self.written)]
        if head:
            with contextlib.suppress(OSError):  # a full disk must not end an evaluation
                self._open().write(head)
            self.written += len(head)
        self.tail.feed(data)

    def _open(self) -> io.FileIO:
        if self.stream is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.stream = io.FileIO(self.path, "wb")
        return self.stream

    def last_lines(self, count: int) -> list[str]:
        """The last lines that are not blank, in their order, as they were printed."""
        return self.printed.lines()[-count:]

    def close(self) -> None:
        """Write the end, and close; an empty stream leaves no file."""
        self._keep(self.held)
        end, rest = self.tail.bytes(), self.total - self.written
        with contextlib.suppress(OSError):
            if rest > len(end):
                self._open().write(b"\n[... %d bytes left out ...]\n" % (rest - len(end)))
            if rest:
                self._open().write(end[-min(rest, len(end)) :])
        with contextlib.suppress(OSError):
            if self.stream is not None:
                self.stream.close()

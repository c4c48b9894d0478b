"""What an objective prints, kept within bounds."""

from __future__ import annotations

import contextlib
import io
from collections import deque
from pathlib import Path


class Kept:
    """A stream kept within bounds: the first half as it comes, then the end.

    limit: bytes that are kept of it.
    """

    def __init__(self, path: Path, limit: int):
        self.path, self.half = path, limit // 2
        self.stream: io.FileIO | None = None  # which is made when there is something to keep
        path.unlink(missing_ok=True)
        self.written = self.total = 0
        self.tail: deque[bytes] = deque()
        self.tail_size = 0

    def feed(self, data: bytes) -> None:
        """Take what was printed next."""
        self.total += len(data)
        head = data[: max(0, self.half - self.written)]
        if head:
            with contextlib.suppress(OSError):  # a full disk must not end an evaluation
                self._open().write(head)
            self.written += len(head)
        self.tail.append(data)
        self.tail_size += len(data)
        while self.tail_size - len(self.tail[0]) >= self.half:
            self.tail_size -= len(self.tail.popleft())

    def _open(self) -> io.FileIO:
        if self.stream is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.stream = io.FileIO(self.path, "wb")
        return self.stream

    def _end(self) -> bytes:
        return b"".join(self.tail)[-self.half :]

    def last_lines(self, count: int) -> list[str]:
        """The last lines that are not blank, in their order."""
        lines = self._end().decode("utf-8", "replace").splitlines()
        return [line for line in lines if line.strip()][-count:]

    def close(self) -> None:
        """Write the end, and close; a stream that nothing came from leaves no file."""
        end, rest = self._end(), self.total - self.written
        with contextlib.suppress(OSError):
            if rest > len(end):
                self._open().write(b"\n[... %d bytes left out ...]\n" % (rest - len(end)))
            if rest:
                self._open().write(end[-min(rest, len(end)) :])
        with contextlib.suppress(OSError):
            if self.stream is not None:
                self.stream.close()

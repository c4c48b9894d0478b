"""Runs commands on a machine without a free process: with a real limit, which can be lifted."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Where control groups of processes are: version 1, and version 2.
PLACES = Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")


class Group:
    """A control group, in which commands are started."""

    def __init__(self, folder: Path):
        self.folder = folder

    def limit(self, number: int | str) -> None:
        """Set the most processes and threads of the group; "max": any number."""
        (self.folder / "pids.max").write_text(str(number))

    def start(self, words: list[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command in it, which counts itself."""
        enter = f'echo $$ > {self.folder}/cgroup.procs; exec "$@"'
        return subprocess.Popen(["sh", "-c", enter, "sh", *words], text=True, **options)


@contextlib.contextmanager
def group() -> Iterator[Group | None]:
    """A new group; None if this user cannot make one on this system."""
    made = None
    for place in PLACES:
        folder = place / f"dngo-test-{uuid.uuid4().hex[:8]}"
        with contextlib.suppress(OSError):
            if not (place / "cgroup.procs").exists():
                continue
            folder.mkdir()
            if (folder / "pids.max").exists():
                made = folder
                break
            folder.rmdir()
    try:
        yield None if made is None else Group(made)
    finally:
        if made is not None:
            for line in (made / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    subprocess.run(["kill", "-9", line], check=False)
            for _ in range(100):
                with contextlib.suppress(OSError):
                    made.rmdir()
                    break
                subprocess.run(["sleep", "0.1"], check=False)

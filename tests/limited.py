"""Commands on a machine that has no process to spare: a real limit, which may be lifted."""

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
        """Let it have so many processes and threads; "max": any number."""
        (self.folder / "pids.max").write_text(str(number))

    def start(self, words: list[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command in it, which counts itself."""
        enter = f'echo $$ > {self.folder}/cgroup.procs; exec "$@"'
        return subprocess.Popen(["sh", "-c", enter, "sh", *words], text=True, **options)


@contextlib.contextmanager
def group() -> Iterator[Group | None]:
    """A group of its own, None where this system gives none to this user."""
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

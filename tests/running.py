"""What tests run: programs to their end, and servers; and packages that they lay beside."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


def ran(words: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with what it said."""
    return subprocess.run(words, capture_output=True, text=True, **{"check": False, **options})


def installed(site: Path, name: str, module: str, points: str) -> None:
    """Lay a package of one module into a folder, as pip installs it."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(module)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)


@contextlib.contextmanager
def serving(shown: Any) -> Iterator[Any]:
    """The server of a study's page."""
    from dngo.report.serve import Server

    server = Server(shown, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

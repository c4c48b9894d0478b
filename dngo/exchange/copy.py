"""A copy of an archive to publish. You can verify, audit and replay it like any other archive."""

from __future__ import annotations

import shutil
from pathlib import Path

from dngo.storage.files import replacing


def write(archive: Path, output: Path) -> None:
    """Copy the archive. `dngo.exchange.export` has already taken its secrets out."""
    with replacing(output) as temporary:
        shutil.copyfile(archive, temporary)

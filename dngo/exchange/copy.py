"""An archive as it is published: HDF5, to be verified, audited and replayed as any other."""

from __future__ import annotations

import shutil
from pathlib import Path

from dngo.storage.files import replacing


def write(archive: Path, output: Path) -> None:
    """Copy the archive, which is without secrets already (`dngo.exchange.export`)."""
    with replacing(output) as temporary:
        shutil.copyfile(archive, temporary)

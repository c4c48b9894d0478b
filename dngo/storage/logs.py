"""What the objective printed at each point. At first each stream has a file. Once an iteration is
merged, it has one bundle.

A bundle is a ZIP file, which every system opens: `unzip -p results/STUDY/logs/points/3.zip 17.out`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import zipfile
from pathlib import Path

from dngo.storage.files import replacing

STREAMS = {"stdout": "out", "stderr": "err"}


class PointLogs:
    """The logs in a folder, `results/STUDY/logs/points`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, t: int, slot: int, stream: str) -> Path:
        """The path of a stream of `STREAMS` while iteration t is in flight."""
        return self.folder / str(t) / f"{slot}.{STREAMS[stream]}"

    def bundle(self, iterations: int) -> None:
        """Bundle the files of the first iterations, and remove them once the bundle is safely on
        disk.

        A file that cannot be bundled stays as it is: no merge fails because of a log.
        """
        folders = self.folder.iterdir() if self.folder.is_dir() else []
        for folder in folders:
            if re.fullmatch("0|[1-9][0-9]{0,8}", folder.name) and int(folder.name) < iterations:
                with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile):
                    self._bundle(folder)

    def _bundle(self, folder: Path) -> None:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        target = self._bundle_of(folder.name)
        if files:
            with replacing(target) as temporary:
                if target.exists():
                    shutil.copyfile(target, temporary)
                else:
                    temporary.unlink()  # an empty file is no ZIP file to add to
                with zipfile.ZipFile(temporary, "a", zipfile.ZIP_DEFLATED) as bundle:
                    known = set(bundle.namelist())
                    for path in files:
                        # otherwise a merge that is killed here would leave it
                        if path.name not in known:
                            bundle.write(path, path.name)
        for path in files:
            path.unlink()
        folder.rmdir()

    def read(self, t: int, slot: int) -> dict[str, str]:
        """What was printed at a point, by stream; unknown streams are left out."""
        found = {}
        for stream in STREAMS:
            path = self.path(t, slot, stream)
            with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile):
                if path.exists():
                    data = path.read_bytes()
                else:
                    with zipfile.ZipFile(self._bundle_of(str(t))) as bundle:
                        data = bundle.read(path.name)
                found[stream] = data.decode("utf-8", "replace")
        return found

    def _bundle_of(self, name: str) -> Path:
        return self.folder / f"{name}.zip"

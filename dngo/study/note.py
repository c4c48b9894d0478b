"""The end of a study whose stop criterion was met while a run was under way: from which iteration on.

Snakemake has planned the iterations after it already. Their stages find the note that is kept here and
do nothing: batches without points, which are never archived. The next run plans nothing. If the note is
lost the iteration is fitted and looked at once more, and nothing is evaluated for it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dngo.config import Config
from dngo.storage.files import read_json, write_json


@dataclass(frozen=True)
class Ending:
    """path: where the note is kept, `ended.json`. It counts under the criteria it was made for."""

    path: Path
    config: Config

    def reason(self, t: int, merged: int) -> str:
        """Why there is no iteration t, with so many in the archive; empty if there is one."""
        note = self.read()
        if note.get("stop") != self._stop or not isinstance(note.get("iteration"), int):
            return ""
        return str(note.get("reason", "")) if merged <= note["iteration"] <= t else ""

    def read(self) -> dict[str, Any]:
        """The note, empty if there is none."""
        with contextlib.suppress(OSError, ValueError):
            note = read_json(self.path)
            return note if isinstance(note, dict) else {}
        return {}

    def note(self, t: int, reason: str, outlook: dict[str, Any]) -> None:
        """Write down that the study ends before iteration t, and why."""
        note = {"iteration": t, "reason": reason, "stop": self._stop, "outlook": outlook}
        write_json(self.path, note)

    @property
    def _stop(self) -> dict[str, Any]:
        return self.config.stop.model_dump(mode="json")

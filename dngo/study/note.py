"""The note of a study's end, if its stop criterion was met during a run: from which iteration on.

Snakemake has already planned later iterations. Their stages find this note and do nothing: they
write batches without points, which are never archived. The next run plans nothing. If the note is
lost, the iteration is fitted and checked again, but nothing is evaluated for it.
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
    """path: of the note, `ended.json`.

    The note counts only for the criteria and the acquisition for which it was written.
    """

    path: Path
    config: Config

    def reason(self, t: int, merged: int) -> str:
        """Why there is no iteration t if the archive has `merged` iterations; empty if there is one."""
        note, by = self.read(), self._by
        if {k: note.get(k) for k in by} != by or not isinstance(note.get("iteration"), int):
            return ""
        return str(note.get("reason", "")) if merged <= note["iteration"] <= t else ""

    def read(self) -> dict[str, Any]:
        """The content of the note, empty without one."""
        with contextlib.suppress(OSError, ValueError):
            note = read_json(self.path)
            return note if isinstance(note, dict) else {}
        return {}

    def note(self, t: int, reason: str, outlook: dict[str, Any]) -> None:
        """Write down that the study ends before iteration t, and why."""
        note = {"iteration": t, "reason": reason, "outlook": outlook, **self._by}
        write_json(self.path, note)

    @property
    def _by(self) -> dict[str, Any]:
        found: dict[str, Any] = self.config.model_dump(mode="json")
        return {key: found[key] for key in ("stop", "acquisition")}

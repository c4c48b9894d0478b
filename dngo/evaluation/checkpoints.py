"""Folders that follow points from fidelity to fidelity. One evaluation leaves files; the next one
finds them.

A folder belongs to a point at all its fidelities. In a study without a fidelity it belongs to a
proposal, and the next start after a kill finds it. Only one evaluation at a time has the folder. It
only saves time: without it, an evaluation begins again. A note next to each folder says how far its
point has come. So dngo knows which folders to keep without reading the archive.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dngo.batch import Outcome, Proposal
from dngo.evaluation.chunk import Around
from dngo.evaluation.supervision import StopSignal
from dngo.fronts import order
from dngo.storage.claim import Claim, describe
from dngo.storage.digest import digest_parameters
from dngo.storage.files import read_json, write_json
from dngo.storage.patience import patiently

WAIT = 0.5  # seconds between two looks at a folder that another evaluation holds


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a study.

    folder: where they are.
    fidelity: the parameter that is not a part of the point; empty: none.
    keep: how many folders stay.
    share: the share of a level's points that may still be promoted. signs: by the name of each objective
    ("objective": the only one), -1 if large values are good.
    """

    folder: Path
    fidelity: str = ""
    keep: int = 100
    share: float = 1 / 3
    signs: Mapping[str, float] = field(default_factory=lambda: {"objective": 1.0})

    def of(self, proposal: Proposal) -> Path:
        """The path of the folder of a proposal's point. The folder may not exist."""
        if not self.fidelity:
            return (self.folder / proposal.id).absolute()
        point = {n: v for n, v in proposal.parameters.items() if n != self.fidelity}
        return (self.folder / digest_parameters(point)[:32]).absolute()

    @contextlib.contextmanager
    def held(self, proposal: Proposal) -> Iterator[None]:
        """Hold the folder for an evaluation. Wait while another evaluation of the point holds it.
        Raises Interrupted.

        If the folder cannot be made, the evaluation has none.
        """
        path = self.of(proposal)
        claim = Claim(_beside(path, "claim"))
        try:
            path.mkdir(parents=True, exist_ok=True)
            said = False
            while not patiently(claim.acquire, what=f"claiming {path}", heed=StopSignal.heed):
                if not said:
                    owner = describe(claim.owner())
                    print(f"{proposal.id}: {owner} has the checkpoint of its point", flush=True)
                said = True
                StopSignal.heed()
                time.sleep(WAIT)
        except OSError as error:
            print(f"{proposal.id}: no checkpoint: {error.strerror}", flush=True)
            yield
            return
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                claim.release()

    def settle(
        self,
        proposals: Sequence[Proposal],
        outcomes: Sequence[Outcome],
        *,
        goes_on: Callable[[Proposal], bool],
        flying: Collection[Proposal],
    ) -> None:
        """Note how far the points of a merged batch have come. Remove folders that are no longer needed.

        goes_on: whether a proposal's point may be evaluated further.
        flying: proposals in flight; their folders stay.
        """
        flown = {self.of(proposal).name for proposal in flying}
        for proposal, outcome in zip(proposals, outcomes, strict=True):
            path = self.of(proposal)
            if path.name in flown or not path.exists():
                continue
            lost = outcome.status == "lost"  # such a point may be retried
            if lost or (outcome.status == "ok" and goes_on(proposal)):
                note = {
                    "level": proposal.parameters.get(self.fidelity),
                    "values": None if lost else self._values(outcome),
                    "at": [proposal.iteration, proposal.slot],
                }
                with contextlib.suppress(OSError):
                    write_json(_beside(path, "json"), note)
            else:
                _remove(path)
        for path in self._excess(flown):
            _remove(path)

    def _excess(self, flown: Collection[str]) -> list[Path]:
        """The folders to remove: first the oldest ones that are not promising."""
        notes = {
            path: _note(path)
            for path in sorted(self.folder.iterdir())
            if path.is_dir() and path.name not in flown
        }
        excess = max(len(notes) - self.keep, 0)
        if not excess:
            return []
        promising: set[Path] = set()
        for level in {note["level"] for note in notes.values()}:
            own = [path for path, note in notes.items() if note["level"] == level]
            known = [path for path in own if notes[path]["values"]]
            places = order(np.array([notes[path]["values"] for path in known]))
            most = math.ceil(len(own) * self.share)
            promising |= {path for path, at in zip(known, places, strict=True) if at < most}
        return sorted(notes, key=lambda path: (path in promising, notes[path]["at"]))[:excess]

    def _values(self, outcome: Outcome) -> list[float] | None:
        """The objectives, minimised; None if one is unknown."""
        known = outcome.objectives or {"objective": outcome.objective}
        found = [sign * known.get(name, math.nan) for name, sign in self.signs.items()]
        return found if all(map(math.isfinite, found)) else None


@dataclass(frozen=True)
class Following(Around):
    """An evaluator that gives each evaluation the checkpoint of its point."""

    checkpoints: Checkpoints

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """The outcome of one more start."""
        with self.checkpoints.held(proposal):
            return super().run(proposal, attempts)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _note(path: Path) -> dict[str, Any]:
    """How far a folder's point has come, by its note; without a note this is unknown."""
    found: dict[str, Any] = {"level": None, "values": None, "at": [-1, -1]}
    with contextlib.suppress(OSError, ValueError):
        found |= read_json(_beside(path, "json"))
    if found.get("objective") is not None:  # a note of 0.3.0 or earlier has one value
        found["values"] = [found["objective"]]
    return found


def _remove(path: Path) -> None:
    """Remove a folder that no evaluation holds."""
    claim = Claim(_beside(path, "claim"))
    with contextlib.suppress(OSError):
        if claim.acquire():
            try:
                shutil.rmtree(path, ignore_errors=True)
                _beside(path, "json").unlink(missing_ok=True)
            finally:
                claim.release()

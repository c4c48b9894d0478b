"""Points that wait to enter a study: added to be evaluated, or reported with an outcome from elsewhere.

They wait in one file of the study's folder. It is replaced as a whole, under a claim. The next
proposed batch takes them: points to evaluate come first, up to its size, and reported ones come
last. Each entry has a name, which its proposal keeps. After a kill, an entry may still be in the
file although a batch has taken it. Its name shows that, so it is not taken again.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dngo.batch import Outcome, Proposal, to_json
from dngo.config.messages import first_of
from dngo.errors import UserError
from dngo.storage.claim import Claim
from dngo.storage.files import read_json, write_json
from dngo.storage.text import one_line

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """A point that waits, and where it comes from.

    source: of its proposal: "user", "retry", "imported", "api".
    origin: who entered it, when, and from where.
    outcome: its outcome from elsewhere, None for a point to evaluate.
    name: its name; by default a new one.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    parameters: dict[str, Any]
    source: str
    origin: dict[str, Any]
    outcome: Outcome | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", secrets.token_hex(4))

    @property
    def again(self) -> bool:
        """Whether to evaluate its point even if it was evaluated before."""
        return self.source == "retry"

    def proposal(self, iteration: int, slot: int) -> Proposal:
        """The entry as a proposal of a batch, which keeps its name."""
        return Proposal(
            iteration=iteration,
            slot=slot,
            parameters=self.parameters,
            source=self.source,
            stage=self.source,
            origin={**self.origin, "entry": self.name},
        )

    def told(self, iteration: int, slot: int) -> tuple[Proposal, Outcome]:
        """The entry as a proposal with its outcome."""
        assert self.outcome is not None
        return self.proposal(iteration, slot), replace(self.outcome, iteration=iteration, slot=slot)


class Waiting:
    """The entries of a study, in the order in which they came."""

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> list[Entry]:
        """All entries; raises UserError if the file is damaged."""
        try:
            document = read_json(self.path)
            if document["format"] > FORMAT:
                raise UserError(f"{self.path}: is of a newer dngo; update dngo")
            return parse(document["entries"])
        except FileNotFoundError:
            return []
        except ValidationError as error:
            reason = first_of(error)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            reason = str(error)
        raise UserError(
            f"{self.path}: is damaged ({one_line(reason, 160)}); put a good copy in its place, or "
            "delete it: the points in it must then be entered again"
        )

    def add(self, entries: Sequence[Entry], check: Callable[[list[Entry]], None]) -> None:
        """Let further points wait, all or none.

        check: raises UserError if they must not wait; it gets the entries that wait already, and
        nothing changes until it has returned.
        """
        with self.changing() as waiting:
            check(waiting)
            self.write([*waiting, *entries])

    def drop(self, names: set[str]) -> None:
        """Remove entries: a batch has taken them, or they were withdrawn."""
        if not any(entry.name in names for entry in self.read()):
            return
        with self.changing() as waiting:
            self.write([entry for entry in waiting if entry.name not in names])

    @contextlib.contextmanager
    def changing(self) -> Iterator[list[Entry]]:
        """Hold the claim on the file, and yield its entries.

        Raises UserError if another process keeps the claim.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        claim = Claim(self.path.with_name(f".{self.path.name}.claim"))
        try:
            with claim.held(wait=90.0, what=f"{self.path}"):
                yield self.read()
        except TimeoutError as error:
            raise UserError(f"{error}; try again") from None

    def write(self, entries: Sequence[Entry]) -> None:
        """Replace the entries. Call it only within `changing`."""
        write_json(self.path, {"format": FORMAT, "entries": dump(entries)})


def dump(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Entries as JSON."""
    return [
        {**asdict(e), "outcome": None if e.outcome is None else to_json(e.outcome)} for e in entries
    ]


def parse(document: Any) -> list[Entry]:
    """Read the entries of `dump`; raises pydantic's ValidationError."""
    entries: list[Entry] = _ENTRIES.validate_python(document)
    return entries


_ENTRIES: TypeAdapter[Any] = TypeAdapter(list[Entry])

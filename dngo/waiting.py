"""What people entered: points that wait to enter a study, and notes.

A point is added to be evaluated, or reported with an outcome from elsewhere.

They wait in one file of the study's folder. It is replaced as a whole, under a claim. The next
proposed batch takes them: points to evaluate come first, up to its size, and reported ones come
last. Each entry has a name, which its proposal keeps. After a kill, an entry may still be in the
file although a batch has taken it. Its name shows that, so it is not taken again.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

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


@dataclass(frozen=True)
class Note:
    """A remark of people, on a point or on the study.

    point: the id of a proposal; empty for the study.
    text, tags: one of them may be empty.
    origin: who wrote it, and when; in a fork also where it comes from.
    name: its name; by default a new one.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    point: str
    text: str
    tags: list[str]
    origin: dict[str, Any]
    name: str = field(default_factory=lambda: secrets.token_hex(4))


T = TypeVar("T", bound="Entry | Note")


class _Kept(Generic[T]):
    """What people entered, in one file, in the order in which it came."""

    what = ""
    kind: TypeAdapter[Any]

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> list[T]:
        """All entries; raises UserError if the file is damaged."""
        try:
            document = read_json(self.path)
            if document["format"] > FORMAT:
                raise UserError(f"{self.path}: is of a newer dngo; update dngo")
            found: list[T] = self.kind.validate_python(document[self.what])
            return found
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        except ValidationError as error:
            reason = first_of(error)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            reason = str(error)
        raise UserError(
            f"{self.path}: is damaged ({one_line(reason, 160)}); put a good copy in its place, or "
            f"delete it: the {self.what} in it must then be entered again"
        )

    def add(self, entries: Sequence[T], check: Callable[[list[T]], object] = len) -> None:
        """Add further ones, all or none.

        check: raises UserError if they must not be added; it gets those that are there already, and
        nothing changes until it has returned.
        """
        with self.changing() as waiting:
            check(waiting)
            self.write([*waiting, *entries])

    @contextlib.contextmanager
    def changing(self) -> Iterator[list[T]]:
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

    def write(self, entries: Sequence[T]) -> None:
        """Replace the entries. Call it only within `changing`."""
        write_json(self.path, {"format": FORMAT, self.what: dump(entries)})


def dump(entries: Sequence[Entry | Note]) -> list[dict[str, Any]]:
    """Entries or notes as JSON."""
    found = [asdict(entry) for entry in entries]
    for entry, plain in zip(entries, found, strict=True):
        if isinstance(entry, Entry) and entry.outcome is not None:
            plain["outcome"] = to_json(entry.outcome)
    return found


def parse(document: Any) -> list[Entry]:
    """Read the entries of `dump`; raises pydantic's ValidationError."""
    entries: list[Entry] = Waiting.kind.validate_python(document)
    return entries


class Waiting(_Kept[Entry]):
    """The points that wait for a batch."""

    what, kind = "entries", TypeAdapter(list[Entry])

    def drop(self, names: set[str]) -> None:
        """Remove entries: a batch has taken them, or they were withdrawn."""
        if not any(entry.name in names for entry in self.read()):
            return
        with self.changing() as waiting:
            self.write([entry for entry in waiting if entry.name not in names])


class Notes(_Kept[Note]):
    """The notes of a study. A merge copies new ones into the archive; here they stay."""

    what, kind = "notes", TypeAdapter(list[Note])

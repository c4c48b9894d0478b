"""What people enter: points to evaluate, outcomes from elsewhere, points to withdraw, notes.

Points to evaluate wait for the next batch (`dngo.waiting`), and so do outcomes of points that
nobody proposed. An outcome or a withdrawal of a point in flight becomes its only outcome. If the
point already has one, or is being evaluated, it is refused. Either everything is written or
nothing.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dngo import provenance
from dngo.batch import Outcome, Proposal, numbers_of, write_outcomes
from dngo.errors import UserError
from dngo.evaluation.pictures import LEFT_OUT, entered
from dngo.exchange.files import check_columns, read
from dngo.exchange.foreign import Meaning
from dngo.exchange.names import PARAMETER, ColumnNames
from dngo.exchange.outcomes import Reader
from dngo.exchange.points import points_of
from dngo.exchange.rows import Row, known
from dngo.outcomes import MAX_MESSAGE, with_origin
from dngo.redaction import redacted
from dngo.storage import picture
from dngo.storage.digest import digest_file, digest_parameters
from dngo.storage.text import one_line
from dngo.study import Study, entries
from dngo.waiting import Entry, Note

SHOWN = 5  # most mistakes in a message


@dataclass(frozen=True)
class Source:
    """Rows that somebody enters.

    name: of the source, in messages.
    kind: source of their proposals.
    origin: for the archive: who, when, file and digest.
    left_out: other entries of a file, and why they are no rows.
    folder: where relative names of pictures start.
    said: how a file of another program was read.
    """

    name: str
    kind: str
    rows: list[Row]
    origin: dict[str, Any]
    left_out: dict[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path.cwd)
    said: str = ""

    @classmethod
    def of_file(
        cls,
        study: Study,
        path: Path,
        kind: str,
        objective: str | None = None,
        meaning: Meaning = Meaning(),
    ) -> Source:
        """The rows of a file (CSV, Parquet, an Optuna study, other programs'); raises UserError.

        objective: the column of the outcomes, if there must be some.
        meaning: what the user says of the file's columns.
        """
        table = read(path, study.config, meaning)
        if not table.rows:
            others = f": {next(iter(table.left_out.values()))}" if table.left_out else ""
            raise UserError(f"{path}: has no point{others}")
        told = objective is not None
        check_columns(path, table.rows, study.config, objective, by_id=told)
        origin = {**provenance.who(), "file": path.name, "sha256": digest_file(path)}
        folder = path.absolute().parent
        return cls(str(path), kind, table.rows, origin, table.left_out, folder, table.said)

    @classmethod
    def of_values(cls, points: Sequence[Mapping[str, Any]], kind: str, name: str) -> Source:
        """Points from a command line or a call."""
        rows = [Row(f"point {i}", dict(p)) for i, p in enumerate(points, start=1)]
        return cls(name, kind, rows, provenance.who())

    @property
    def of_a_file(self) -> bool:
        return "file" in self.origin

    def origin_of(self, row: Row) -> dict[str, Any]:
        """The origin of one row, for the archive."""
        return {**self.origin, "row": row.place} if self.of_a_file else self.origin


@dataclass(frozen=True)
class Told:
    """The result of `tell`: ids of proposals in flight that now have their outcome, entries that
    wait, and rows that were left out, with their reasons; pictures that could not be kept, likewise.
    """

    concluded: list[str]
    waiting: list[Entry]
    skipped: dict[str, str]
    pictures: dict[str, str] = field(default_factory=dict)


# ---- add ----------------------------------------------------------------------------------------


def add(study: Study, source: Source) -> list[Entry]:
    """Let points wait, to be evaluated first in the next batch.

    Raises UserError, with a line for each of the first mistakes: a point outside the space or its
    known constraints, or a point that was proposed before or already waits.
    """
    problems = _misnamed(study, source, told=False)
    points, outside = points_of(study.space, source.rows)
    problems = {**outside, **problems}
    for i, point in enumerate(points):
        if i not in problems and (broken := _broken(study, point)):
            problems[i] = f"breaks the known constraint {broken!r}"
    entries = [
        Entry(point, source.kind, source.origin_of(row))
        for point, row in zip(points, source.rows, strict=True)
    ]

    def check(waiting: list[Entry]) -> None:
        good = {i: p for i, p in enumerate(points) if i not in problems}
        problems.update(_twice(study, study.known(), waiting, good))
        _refuse(source, problems)
        if not points:
            raise UserError(f"{source.name}: has no point")

    study.header()  # checks whose study it is
    study.waiting.add(entries, check)
    return entries


def _misnamed(
    study: Study, source: Source, *, told: bool, objective: str | None = None
) -> dict[int, str]:
    """Unknown names in the rows, by the number of the row.

    told: whether the rows may hold outcomes. The columns of a file have been checked already.
    """
    names, problems = ColumnNames.of(study.config, objective), {}
    for i, row in enumerate(source.rows if not source.of_a_file else ()):
        try:
            kinds = {key: names.meaning(key, row.values)[0] for key in row.values}
        except ValueError as error:
            problems[i] = str(error)
            continue
        others = [key for key, kind in kinds.items() if kind != PARAMETER]
        if others and not told:
            problems[i] = f"{others[0]} is no parameter; outcomes are entered by `dngo tell`"
    return problems


def _broken(study: Study, point: dict[str, Any]) -> str:
    v = study.space.from_parameters([point])
    return next((c.text for c in study.space.conditions if not c.holds(v)[0]), "")


def _twice(
    study: Study,
    known: dict[bytes, tuple[str, str]],
    waiting: Sequence[Entry],
    points: Mapping[int, dict[str, Any]],
) -> dict[int, str]:
    """Reasons why points need not be entered, by the points' numbers."""

    def keys(some: Iterable[dict[str, Any]]) -> list[bytes]:
        return study.space.keys(study.space.from_parameters(list(some)))

    waits = dict(zip(keys(e.parameters for e in waiting), waiting, strict=True))
    first: dict[bytes, int] = {}
    found = {}
    for i, key in zip(points, keys(points.values()), strict=True):
        if key in known:
            name, status = known[key]
            found[i] = f"is proposal {name}, " + {
                "pending": "which is in flight",
                "ok": "which was evaluated",
                "infeasible": "which was evaluated",
            }.get(status, f"whose outcome is {status}: `dngo retry` evaluates it again")
        if key in waits:
            found[i] = f"waits already, as {waits[key].name}"
        if key in first:
            found[i] = f"is there twice, also as number {first[key] + 1}"
        first.setdefault(key, i)
    return found


def _refuse(source: Source, problems: dict[int, str], way: str = "") -> None:
    """Raise UserError with a line for each of the first mistakes, if there are any.

    way: how to enter the other rows.
    """
    if not problems:
        return
    lines = [
        f"{source.name}: {source.rows[i].place}: {problems[i]}" for i in sorted(problems)[:SHOWN]
    ]
    many = f"{len(problems)} such rows in all, " if len(problems) > 1 else ""
    lines[-1] += f"; {many}nothing was written{way}"
    raise UserError("\n".join(lines))


# ---- tell ---------------------------------------------------------------------------------------


def tell(
    study: Study, source: Source, *, objective: str = "objective", skip_invalid: bool = False
) -> Told:
    """Enter outcomes from elsewhere.

    An outcome of a point in flight becomes its outcome at once. Other outcomes wait for the next
    batch; its model knows them. A row with an `id` belongs to that proposal.
    objective: its column.
    skip_invalid: leave out rows with mistakes.
    Raises UserError, with a line for each of the first mistakes: a point outside the space, a point
    that has an outcome, or one that is being evaluated.
    """
    study.header()
    problems = _misnamed(study, source, told=True, objective=objective)
    named = _named(study, source, problems)
    source = replace(
        source, rows=[_filled(study, r, named.get(i)) for i, r in enumerate(source.rows)]
    )
    points, outside = points_of(study.space, source.rows)
    problems = {**outside, **problems}
    outcomes = _outcomes(study, source, points, objective, problems)
    new: dict[int, Entry] = {}
    with study.waiting.changing() as waiting:
        entries.drop_pictures(study, waiting)
        flying = _flying(study, points, outcomes, named, problems, waiting)
        with contextlib.ExitStack() as stack:
            for i in [i for i in flying if i not in problems]:
                try:
                    stack.enter_context(study.at_rest(flying[i]))
                except UserError as error:
                    problems[i] = str(error)
            if not skip_invalid:
                way = "; --skip-invalid leaves them out" if source.of_a_file else ""
                _refuse(source, problems, way)
            for i in [i for i in flying if i not in problems]:
                place = study.paths.files(flying[i]).picture
                outcomes[i] = _pictured(source, outcomes[i], place)
                _conclude(study, flying[i], outcomes[i])
        for i, row in enumerate(source.rows):
            if i not in problems and i not in flying:
                entry = Entry(points[i], source.kind, source.origin_of(row))
                place = study.paths.entered_picture(entry.name)
                outcomes[i] = _pictured(source, outcomes[i], place)
                new[i] = replace(entry, outcome=outcomes[i])
        if new:
            study.waiting.write([*waiting, *new.values()])
    pictures = {i: outcomes[i].metadata.get(LEFT_OUT) for i in outcomes if i not in problems}
    return Told(
        [flying[i].id for i in flying if i not in problems],
        list(new.values()),
        {source.rows[i].place: problems[i] for i in sorted(problems)},
        {source.rows[i].place: str(why) for i, why in pictures.items() if why},
    )


def _pictured(source: Source, outcome: Outcome, place: Path | None) -> Outcome:
    """An outcome whose picture is kept at a place, if its metadata name one."""
    if place is None:
        return outcome
    of_a_file = source.of_a_file
    said = entered(outcome.metadata, source.folder, place, of_a_file=of_a_file)
    return replace(outcome, metadata=said)


def _named(study: Study, source: Source, problems: dict[int, str]) -> dict[int, Proposal]:
    """The proposals that rows name by id. If one is not in flight, note a problem."""
    found: dict[int, Proposal] = {}
    for i, row in enumerate(source.rows):
        name = known(row.values.get("id"))
        if name is None or i in problems:
            continue
        try:
            found[i] = _find(study, str(name))
            if found[i].told:
                problems[i] = f"{name}: was already entered with its outcome"
        except UserError as error:
            hint = "; `--ignore id` leaves the column out" if source.of_a_file else ""
            problems[i] = f"{error}{hint}"
    return found


def _filled(study: Study, row: Row, proposal: Proposal | None) -> Row:
    """A row, with missing parameters filled in from its proposal."""
    if proposal is None:
        return row
    names = ColumnNames.of(study.config)
    meant = {key: names.meaning(key, row.values) for key in row.values}
    # An empty cell of a parameter says nothing. Beside the filled one it would be a second value.
    values = {
        key: v
        for key, v in row.values.items()
        if meant[key][0] != PARAMETER or known(v) is not None
    }
    given = {meant[key] for key in values}
    filled = {
        PARAMETER + name: value
        for name, value in proposal.parameters.items()
        if (PARAMETER, name) not in given
    }
    return replace(row, values={**values, **filled})


def _outcomes(
    study: Study,
    source: Source,
    points: list[dict[str, Any]],
    objective: str,
    problems: dict[int, str],
) -> dict[int, Outcome]:
    """The outcomes of the rows that have no problem."""
    found: dict[int, Outcome] = {}
    reader = Reader(study.config, objective)
    for i, row in enumerate(source.rows):
        if i not in problems:
            try:
                outcome = reader.outcome(0, points[i], row)
            except ValueError as error:
                problems[i] = str(error)
                continue
            told = with_origin(outcome.metadata, "told", source.origin_of(row))
            found[i] = replace(outcome, metadata=told)
    return found


def _flying(
    study: Study,
    points: list[dict[str, Any]],
    outcomes: dict[int, Outcome],
    named: dict[int, Proposal],
    problems: dict[int, str],
    waiting: Sequence[Entry],
) -> dict[int, Proposal]:
    """The rows that belong to points in flight. A row that cannot be entered becomes a problem."""
    proposed = study.known()
    keys = study.space.keys(study.space.from_parameters(points))
    flying = {i: p for i in outcomes if (p := _in_flight(study, proposed.get(keys[i])))}
    for i, proposal in named.items():
        if i in outcomes:
            flying[i] = proposal
            differ = [
                f"{name} is {value} there, not {points[i].get(name)}"
                for name, value in proposal.parameters.items()
                if points[i].get(name) != value
            ]
            if differ:
                problems[i] = f"id {proposal.id}: {', '.join(differ[:SHOWN])}"
    first: dict[str, int] = {}
    for i, proposal in sorted(flying.items()):
        if first.setdefault(proposal.id, i) != i:
            problems[i] = f"is there twice, also as number {first[proposal.id] + 1}"
    pending = {keys[i] for i in flying}
    others = {key: proposed[key] for key in proposed.keys() - pending}
    unnamed = {i: points[i] for i in outcomes if i not in named}
    problems.update(_twice(study, others, waiting, unnamed))
    return flying


def _in_flight(study: Study, known: tuple[str, str] | None) -> Proposal | None:
    """The proposal of a point that is pending."""
    if known is None or known[1] != "pending":
        return None
    t, slot = numbers_of(known[0])
    return study.batch(t).proposals[slot]


def _conclude(study: Study, proposal: Proposal, outcome: Outcome) -> None:
    """Write the outcome of a point in flight. The caller holds its claim."""
    own = replace(
        outcome,
        iteration=proposal.iteration,
        slot=proposal.slot,
        parameters_digest=digest_parameters(proposal.parameters),
    )
    write_outcomes(study.paths.outcome_file(proposal), [own])


# ---- skip ---------------------------------------------------------------------------------------


def skip(study: Study, name: str, reason: str) -> None:
    """Withdraw a point: one in flight (7-12), or a waiting entry by its name.

    Raises UserError if it has an outcome or is being evaluated: its outcome counts.
    """
    name, reason = str(name), str(reason or "")
    if not reason.strip():
        raise UserError("--reason: say why the point is withdrawn")
    study.header()
    if waits := [entry for entry in study.entries() if entry.name == name]:
        if waits[0].outcome is not None:
            study.unlearn(name)
        study.waiting.drop({name})
        picture.drop(study.paths.entered_picture(name))
        return
    proposal = _find(study, name)
    who = provenance.who()
    outcome = Outcome(
        iteration=proposal.iteration,
        slot=proposal.slot,
        parameters_digest="",
        status="withdrawn",
        attempts=0,
        started=math.nan,
        finished=time.time(),
        message=one_line(f"withdrawn by {who['by']}: {reason}", 500),
        metadata={"withdrawn": {**who, "reason": reason}},
    )
    with study.at_rest(proposal):
        _conclude(study, proposal, outcome)


# ---- note ---------------------------------------------------------------------------------------


def note(study: Study, text: str, *, point: str = "", tags: Collection[str] = ()) -> Note:
    """Write a note on a point, archived or in flight, or on the study.

    Raises UserError if there is no such point, if the note is empty or too long, or if the same
    person's last note there says the same: the command was killed late, and typed again.
    """
    text, words = str(text or "").strip(), [str(tag).strip() for tag in tags]
    if not (text or any(words)):
        raise UserError("note: has neither a text nor a tag")
    if not all(words) or "," in "".join(words):
        raise UserError("--tag: a tag is a word, without a comma")
    longest = max(map(len, [text, ", ".join(words)]))
    if longest > MAX_MESSAGE:
        raise UserError(f"note: has {longest} characters; the most are {MAX_MESSAGE}")
    study.header()
    if point:
        check_there(study, point)
    said = [redacted(one_line(word, MAX_MESSAGE)) for word in (text, *dict.fromkeys(words))]
    found = Note(point, said[0], said[1:], provenance.who())

    def check(notes: list[Note]) -> None:
        there = [(n.text, n.tags, n.origin.get("by")) for n in notes if n.point == point]
        if there[-1:] == [(found.text, found.tags, found.origin["by"])]:
            raise UserError("note: is your last one there already; nothing was written")

    study.paths.notes.add([found], check)
    return found


def check_there(study: Study, name: str) -> None:
    """Raise UserError if no proposal, archived or in flight, has this id."""
    try:
        t, slot = numbers_of(name)
    except ValueError as error:
        raise UserError(f"--point: {error}") from None
    merged = study.merged()
    batches = [study.batch(t)] if t < merged else study.in_flight(merged)
    if not any(b.iteration == t and slot < len(b.proposals) for b in batches):
        last = max([merged - 1, *(b.iteration for b in batches)])
        which = f"the iterations are 0 to {last}" if last >= 0 else "there is none yet"
        raise UserError(f"--point {name}: there is no such proposal; {which}")


def _find(study: Study, name: str) -> Proposal:
    """A proposal in flight by its id; raises UserError if there is none."""
    try:
        t, slot = numbers_of(name)
    except ValueError:
        raise UserError(
            f"{name!r} is neither a proposal, such as 7-12, nor a point that waits"
        ) from None
    batches = study.in_flight(study.merged())
    for batch in batches:
        if batch.iteration == t and 0 <= slot < len(batch.proposals):
            return batch.proposals[slot]
    if t < study.merged():
        raise UserError(
            f"{name}: is in the archive with its outcome, and the archive never changes"
        )
    there = ", ".join(str(b.iteration) for b in batches) or "none"
    raise UserError(f"{name}: there is no such proposal in flight (iterations in flight: {there})")

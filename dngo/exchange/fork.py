"""A fork: a study of a changed space that begins with the evaluations of an old study.

The old archive stays as it is. Its evaluations become iteration 0 of the new study, with their
outcomes, times and hosts. `dngo.exchange.growth` finds what the new study asks for besides. The
record names the digest of the old archive, and of each archive before it in the chain of forks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dngo import archive
from dngo.archive import transfer
from dngo.archive.identity import check_identity
from dngo.archive.transfer import Earlier
from dngo.batch import INVALID, UNINFORMATIVE, Outcome
from dngo.errors import UserError
from dngo.evaluation import pictures
from dngo.exchange.growth import Growth, grown
from dngo.exchange.incoming import Evaluation, Imported, Incoming, check_new
from dngo.exchange.points import points_of
from dngo.exchange.rows import Row
from dngo.outcomes import MAX_MESSAGE, clashes, is_time, with_origin
from dngo.space import Space
from dngo.space.parameters import Listed, alike, choices
from dngo.storage.digest import digest_file
from dngo.storage.text import one_line
from dngo.study import Study, entries
from dngo.study.beginning import keep_transfer, read_transfer
from dngo.study.paths import Paths
from dngo.thresholds import Constraints, objectives_of
from dngo.waiting import Note

ROWS = 4096  # rows in memory at once, at least those of one iteration


def fork(
    study: Study, path: Path, given: Mapping[str, Any] | None = None, objective: str = ""
) -> Imported:
    """Begin a study with the evaluations of an archive that lie in its space.

    given: the value of each new parameter at all earlier points. A parameter that is not given
    takes the value in the metadata of an evaluation, or else its default.
    objective: the name here of the old study's only objective, if that had no name.
    Raises UserError if the study has begun, or if a new name has no value. It also raises UserError
    if the archive was altered or has another direction.
    """
    header = _header(path)
    old = archive.read_space(path)
    # The old study's ambiguous names may stay. New ones are refused.
    known = clashes(old.parameters, header.identity["constraints"])
    wrong = [w for w in clashes(*study.config.names) if w not in known]
    if wrong:
        raise UserError("\n".join(wrong))
    _check_numbers(path, header.identity, study.config.thresholds)
    chain = [*_chain(path), header.digest]
    earlier = _earlier(study, path, header.identity)
    _check_transfer(earlier, chain)
    growth = grown(
        path,
        study.config,
        header.identity,
        old,
        _evaluations(path, header.iterations),
        given or {},
        objective,
    )
    _check_gone(path, study.space, old, header.iterations)
    record = {
        "file": str(path),
        "format": "dngo",
        "study": header.identity["study"],
        "sha256": digest_file(path),
        "archive_digest": header.digest,
        "chain": chain,
        "with": growth.values,
        "rows": header.rows,
    }
    if growth.said:
        record["read"] = "; ".join(growth.said)
    check_new(study)
    keep_transfer(study, earlier)
    return _Forked(study, record, path, header, old, growth).begin("\n".join(growth.said))


class _Forked(Incoming):
    """The evaluations of an archive as those of a new study."""

    def __init__(
        self,
        study: Study,
        record: dict[str, Any],
        path: Path,
        header: archive.Header,
        old: Space,
        growth: Growth,
    ):
        super().__init__(study, record)
        self.path, self.header, self.old, self.growth = path, header, old, growth

    def notes(self) -> list[Note]:
        """The notes on what came along, and on the study; complete after the last part."""
        name = self.header.identity["study"]
        found = []
        for note in entries.notes(self.path):
            if not note.point or note.point in self.ids:
                place = f"study {name}" + (f", proposal {note.point}" if note.point else "")
                origin = with_origin(note.origin, "imported_from", place)
                point = self.ids.get(note.point, "")
                found.append(replace(note, point=point, origin=origin))
        return found

    def parts(self) -> Iterator[list[Evaluation]]:
        """Proposals and outcomes; raises UserError at the end if there are none."""
        for found in _evaluations(self.path, self.header.iterations):
            yield self._of(found)
        if not self.number:
            why = next(iter(self.skipped.values()), "it has none")
            raise UserError(
                f"{self.path}: none of its evaluations lies in the space of the new study ({why})"
            )

    def _of(self, found: list[Evaluation]) -> list[Evaluation]:
        rows = [Row(f"proposal {p.id}", self.growth.point_of(p, o)) for p, o in found]
        points, problems = points_of(self.study.space, rows)
        _check_alike(found, points, problems, self.old)
        kept, theirs = [], self.header.identity
        for i, (earlier, outcome) in enumerate(found):
            if outcome.status in UNINFORMATIVE:
                problems[i] = f"{outcome.status}: its outcome is unknown"
            if i in problems:
                continue
            metadata = pictures.carried(
                outcome.metadata,
                Paths(self.path.parent).picture(earlier.iteration, earlier.slot),
                self.study.paths.picture(0, self.number),
            )
            own = self.growth.outcome_of(_mended(outcome))
            own = _judged(own, self.study.config.reported, theirs["constraints"])
            own = replace(own, metadata=metadata)
            place = f"study {theirs['study']}, proposal {earlier.id}"
            repeats = earlier.origin.get("repeats")
            kept.append(self.taken(earlier.id, repeats, points[i], own, place))
        self.skipped |= {rows[i].place: problems[i] for i in sorted(problems)}
        return kept


def _header(path: Path) -> archive.Header:
    """The header of an archive that a study may begin with; raises UserError for any other."""
    header = archive.read_header(path)
    if header is None:
        raise UserError(f"{path}: there is no such archive")
    for problem in archive.verify(path)[:1]:
        raise UserError(f"{path}: {problem}; fork a copy that nobody changed")
    return header


def _earlier(study: Study, path: Path, identity: Mapping[str, Any]) -> list[Earlier]:
    """What the new study takes from studies under `transfer`. If it differs from the old one in its
    name alone, the old archive has that already, and their files may be gone.
    """
    if not study.config.transfer:
        return []
    try:
        check_identity(
            path, dict(identity), {**study.config.identity(), "study": identity["study"]}
        )
    except UserError:
        return read_transfer(study)
    return transfer.recorded(path)


def _check_transfer(earlier: list[Earlier], chain: list[str]) -> None:
    """Raise UserError if an archive under `transfer` comes along already: it would count twice."""
    for one in earlier:
        if one.digest in chain:
            raise UserError(
                f"transfer: {one.file}: its evaluations come along by the fork; remove it there"
            )


def _check_numbers(path: Path, identity: Mapping[str, Any], thresholds: Mapping[str, Any]) -> None:
    """Raise UserError if a number of the new study was a flag in the old one.

    A flag does not say the number.
    """
    for name in sorted(set(identity["constraints"]) - set(identity.get("thresholds", ()))):
        if name in thresholds:
            raise UserError(
                f"constraints.{name}: was true or false in {path}, and is a number here "
                f"({thresholds[name]}); give the number another name"
            )


def _evaluations(path: Path, iterations: int) -> Iterator[list[Evaluation]]:
    """Every proposal of an archive with its outcome, some iterations at a time."""
    space = archive.read_space(path)
    found: list[Evaluation] = []
    with archive.reading(path):
        for t in range(iterations):
            batch = archive.read_batch(path, t, space)
            found += zip(batch.proposals, archive.read_outcomes(path, batch), strict=True)
            if len(found) >= ROWS or t == iterations - 1:
                yield found
                found = []


def _check_alike(
    found: list[Evaluation], points: list[dict[str, Any]], problems: dict[int, str], old: Space
) -> None:
    """Leave out points whose choice only looks like one of the new space, such as '1' for 1."""
    for name, parameter in old.parameters.items():
        if not alike(choices(parameter) if isinstance(parameter, Listed) else ()):
            continue
        for i, (proposal, _) in enumerate(found):
            was, now = proposal.parameters.get(name), points[i].get(name)
            if now is not None and repr(was) != repr(now):
                problems.setdefault(i, f"{name}: {was!r} only looks like {now!r}")


def _check_gone(path: Path, space: Space, old: Space, iterations: int) -> None:
    """Raise UserError if the new space lacks a parameter that had several values in the old study."""
    gone = [name for name in old.parameters if name not in space.parameters]
    values: dict[str, set[str]] = {name: set() for name in gone}
    for found in _evaluations(path, iterations) if gone else ():
        for name in gone:
            values[name] |= {json.dumps(p.parameters.get(name)) for p, _ in found}
            if len(values[name]) > 1:
                raise UserError(
                    f"space.{name}: is gone, and its values differ among the evaluations in {path}; "
                    "keep it as {type: fixed, value: ...}, and those with that value come along"
                )


def _mended(outcome: Outcome) -> Outcome:
    """An outcome as today's release writes it.

    Values from earlier releases that mean nothing today become unknown.
    """
    known: dict[str, Any] = {
        name: value if 0 <= (value := getattr(outcome, name)) < math.inf else math.nan
        for name in ("noise", "duration")
    }
    known |= {
        name: value if is_time(value := getattr(outcome, name)) else math.nan
        for name in ("started", "finished")
    }
    return replace(outcome, **known, message=one_line(outcome.message, MAX_MESSAGE))


def _judged(outcome: Outcome, wanted: Constraints, theirs: Collection[str]) -> Outcome:
    """An outcome, judged by the constraints of another configuration.

    What was not reported is unknown. theirs: the constraints that the earlier study asked for; an
    outcome that lacked one of them is not known to be feasible.
    """
    flags = {n: f for n, f in outcome.constraints.items() if n in wanted}
    numbers = {n: x for n, x in outcome.numbers.items() if wanted.get(n) is not None}
    for name, number in numbers.items():
        threshold = wanted[name]
        if threshold is not None and not math.isnan(number):
            flags[name] = int(threshold.keeps(number))
    status = outcome.status
    several = objectives_of(wanted)
    known = outcome.objectives if len(several) > 1 else {"": outcome.objective}
    finite = [math.isfinite(value) for value in known.values()]
    if outcome.ran or (status == INVALID and any(finite)):
        lacks = status != "ok" and any(n in theirs and n not in flags for n in wanted)
        whole = all(finite) and len(finite) == max(len(several), 1)
        held = "ok" if whole and not lacks else INVALID
        status = "infeasible" if 0 in flags.values() else held
    return replace(outcome, constraints=flags, numbers=numbers, status=status)


def _chain(path: Path) -> list[str]:
    """Digests of the chain of archives behind a fork, the oldest first."""
    attributes = archive.iteration_attributes(path, 0)
    record = json.loads(attributes["environment"]).get("import", {})
    return list(record.get("chain", []))

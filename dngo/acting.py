"""What people do to a study while it runs, by a command or on the page of `dngo serve --act`.

Points, withdrawals and notes go through `dngo.entering`. Here are the other two acts, a stop and
another bound, and one call for all five.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo import provenance
from dngo.config import Config, load
from dngo.entering import Source, add, note, skip
from dngo.errors import UserError
from dngo.locate import find_study
from dngo.redaction import redacted
from dngo.space.parameters import choices, is_listed, text
from dngo.storage.claim import Claim
from dngo.storage.patience import hurried
from dngo.storage.processes import start_ticks
from dngo.storage.text import one_line
from dngo.study import Study
from dngo.thresholds import Threshold

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

SHOWN = 300  # points in flight that the page offers to withdraw
PATIENCE = 5.0  # seconds that an act on the page waits for a disk
LONGEST = 500  # characters of a reason


# ---- stop ---------------------------------------------------------------------------------------


def stop(study: Study, reason: str) -> str:
    """Ask the run of a study to start nothing more. What runs goes on to its outcome.

    Returns what happens now. Raises UserError if no run is at work, or if it was asked before.
    """
    study.header()  # checks whose study it is
    claim = study.run_claim
    owner = claim.owner()
    if not owner or _is_dead(claim, owner):
        raise UserError(f"{study.folder}: no run is at work; there is nothing to stop")
    if asked := study.journal.asked:
        raise UserError(f"{study.folder}: {asked}; it ends once what runs has ended")
    said = redacted(one_line(reason, LONGEST))
    study.journal.ask_to_stop(str(owner.get("token")), said, provenance.who())
    return (
        "The run starts nothing more, and ends once its evaluations have ended; the same command "
        "goes on"
    )


def _is_dead(claim: Claim, owner: Mapping[str, Any]) -> bool:
    """Whether the run was killed, as far as this host can tell."""
    if claim.elsewhere or not owner.get("pid"):
        return False
    found = start_ticks(int(owner["pid"]))
    return found is None or owner.get("ticks") not in (found, None)


# ---- a bound ------------------------------------------------------------------------------------


def change_bound(path: Path, study: Study, name: str, bound: str) -> str:
    """Write another bound of a constraint into the study's configuration. All else there stays.

    Returns what happens now. Raises UserError for what has no bound that may change.
    """
    try:
        wanted = Threshold.parse(bound)
    except ValueError as error:
        raise UserError(f"constraints.{name}: {error}") from None
    study.paths.folder.mkdir(parents=True, exist_ok=True)
    claim = Claim(study.paths.folder / ".bound.claim")
    try:
        with claim.held(wait=10.0, what=f"{path}"):
            _check_bound(load([path]), path, study, name, wanted)
            _write_bound(path, name, wanted)
    except TimeoutError as error:
        raise UserError(f"{error}; try again") from None
    return (
        f"{path}: constraints.{name} is now {wanted}. The next `dngo run` judges all rows by it, and "
        "evaluates none again"
    )


def _check_bound(config: Config, path: Path, study: Study, name: str, wanted: Threshold) -> None:
    known = config.reported
    if name in config.space:
        raise UserError(
            f"{name}: the space of a study is fixed; write the other range into a configuration with "
            f"another name, and `dngo fork {path} --config NEW.yaml` takes all evaluations along"
        )
    if name not in known:
        bounded = [n for n, threshold in known.items() if threshold is not None]
        others = ", ".join(bounded) or "this study has none"
        raise UserError(
            f"{name}: is no constraint with a bound ({others}); other keys: edit {path}"
        )
    if (old := known[name]) is None:
        raise UserError(f"{name}: is a flag, which has no bound; that may not change in a study")
    if old == wanted:
        raise UserError(f"{path}: constraints.{name} is {wanted} already; nothing was written")
    if old.relation != wanted.relation:
        raise UserError(f"constraints.{name}: is a bound {old.relation}; that may not change")


def _write_bound(path: Path, name: str, wanted: Threshold) -> None:
    """Replace the text of a bound, if that changes nothing else."""
    from ruamel.yaml import YAML

    target = path.resolve()
    with open(target, encoding="utf-8", newline="") as stream:
        written = stream.read()
    node = _node_of(YAML(typ="safe", pure=True).compose(written), name)
    by_hand = f"{path}: this bound cannot be changed alone; write constraints.{name} by hand"
    if node is None:
        raise UserError(by_hand)
    old, new = slice(node.start_mark.index, node.end_mark.index), f'"{wanted}"'
    before, after = load([target]), None
    with tempfile.NamedTemporaryFile(
        "w",
        encoding="utf-8",
        newline="",
        dir=target.parent,
        prefix=f".{target.name}.",
        delete=False,
    ) as stream:
        temporary = Path(stream.name)
        try:
            stream.write(written[: old.start] + new + written[old.stop :])
            stream.flush()
            os.fsync(stream.fileno())
            with contextlib.suppress(UserError):  # as an alias of it elsewhere is lost
                after = load([temporary])
            if after is None or not _differs_in(name, wanted, before, after):
                raise UserError(by_hand)
            shutil.copymode(target, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def _node_of(document: Node | None, name: str) -> Node | None:
    """The place of a constraint's bound: in a mapping, or in a list of mappings of one pair."""
    from ruamel.yaml.nodes import SequenceNode

    section = next((v for k, v in _pairs(document) if k == "constraints"), None)
    several = section.value if isinstance(section, SequenceNode) else [section]
    found = [v for each in several for k, v in _pairs(each) if k == name]
    return found[0] if len(found) == 1 else None


def _pairs(node: Node | None) -> list[tuple[Any, Any]]:
    from ruamel.yaml.nodes import MappingNode

    if not isinstance(node, MappingNode):
        return []
    return [(key.value, value) for key, value in node.value]


def _differs_in(name: str, wanted: Threshold, before: Config, after: Config) -> bool:
    """Whether two configurations differ in this bound alone."""
    if {**before.reported, name: wanted} != after.reported:
        return False
    first, second = (c.model_dump(exclude={"constraints"}) for c in (before, after))
    return first == second


# ---- what follows from an entry -----------------------------------------------------------------


def when(study: Study, number: int, what: str, config: str) -> list[str]:
    """When the next batch will be proposed and take entered points, in lines.

    what: happens to them, such as "known to".  config: the study's configuration.
    """
    points = f"{number} point{'s' * (number != 1)}"
    lines = [f"{study.waiting.path}: {points} will be {what} the next batch"]
    plan = study.plan()
    if not plan.iterations:
        lines.append(
            f"No batch is planned: {plan.reason}. Raise `iterations`, or the limit that ended "
            "the study"
        )
    elif study.run_claim.owner() is None:
        lines.append(f"Go on with: dngo run {config}")
    return lines


# ---- the page -----------------------------------------------------------------------------------


class Acts:
    """The acts of one study, for the page.

    config: the study's configuration; None if only its archive is known.
    """

    def __init__(self, study: Study, config: Path | None = None):
        self.study, self.config = study, config

    def offered(self) -> dict[str, Any]:
        """What the forms of the page ask for, and the points that may be withdrawn."""
        config = self.study.config
        parameters = [
            {
                "name": name,
                "choices": list(map(text, choices(p))) if is_listed(p) else [],
                "hint": "" if is_listed(p) else _range(p),
            }
            for name, p in config.space.items()
        ]
        bounds = {name: str(bound) for name, bound in config.thresholds.items()}
        return {"parameters": parameters, "bounds": bounds if self.config else {}}

    def withdrawable(self) -> list[str]:
        """Points that wait, and points in flight without an outcome."""
        study = self.study
        found = [entry.name for entry in study.entries()]
        found += [p.id for p, o in study.evaluations(study.merged()) if o is None]
        return found[:SHOWN]

    def act(self, what: str, given: Mapping[str, str]) -> list[str]:
        """Do one act; returns lines that say what was done.

        given: the fields of its form; those of parameters begin with `parameter_`.
        Raises UserError, OSError: then nothing was done.
        """
        acts: dict[str, Callable[[Mapping[str, str]], list[str]]] = {
            "add": self._add,
            "skip": self._skip,
            "note": self._note,
            "bound": self._bound,
            "stop": lambda given: [stop(self.study, given.get("reason", ""))],
        }
        if what not in acts:
            raise UserError(f"{what}: is no act; there are {', '.join(acts)}")
        with hurried(PATIENCE):
            return acts[what](given)

    def _add(self, given: Mapping[str, str]) -> list[str]:
        values = {k: v for k, v in given.items() if k.startswith("parameter_") and v.strip()}
        entries = add(self.study, Source.of_values([values], "user", "add"))
        said = [
            f"{e.name}: {', '.join(f'{k} = {v}' for k, v in e.parameters.items())}" for e in entries
        ]
        config = str(self.config or "config.yaml")
        return said + when(self.study, len(entries), "evaluated at the head of", config)

    def _skip(self, given: Mapping[str, str]) -> list[str]:
        point = given.get("point", "").strip()
        skip(self.study, point, given.get("reason", ""))
        return [f"{point}: withdrawn"]

    def _note(self, given: Mapping[str, str]) -> list[str]:
        point, tags = given.get("point", "").strip(), given.get("tags", "").split()
        note(self.study, given.get("text", ""), point=point, tags=tags)
        return [f"{point or 'The study'}: noted"]

    def _bound(self, given: Mapping[str, str]) -> list[str]:
        if self.config is None:
            raise UserError(
                "bound: stands in the study's configuration; open it with: dngo serve my.yaml --act"
            )
        name = given.get("name", "").strip()
        said = change_bound(self.config, self.study, name, given.get("bound", ""))
        self.study = find_study([self.config], {"results": str(self.study.folder.parent)})
        return [said]


def _range(parameter: Any) -> str:
    """The range of a number, as a hint in its field."""
    if parameter.values is not None:
        return ", ".join(map(str, parameter.values))
    return f"{parameter.low:.6g} to {parameter.high:.6g}"

"""The data that stages pass on: proposals with their reasons, outcomes, and the batch record."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from dngo.config import identity_of
from dngo.config.messages import first_of
from dngo.elsewhere import POINT, Elsewhere
from dngo.errors import UserError
from dngo.redaction import redacted
from dngo.storage.digest import digest_parameters
from dngo.storage.files import read_json, write_text
from dngo.storage.text import one_line

STATUSES = (
    "ok",
    "infeasible",
    "failed",
    "invalid",
    "timeout",
    "out_of_memory",
    "lost",
    "withdrawn",
    "stopped",
)
STOPPED = "stopped"  # stopped early because of its progress: no failure, and no objective
UNINFORMATIVE = ("lost", "withdrawn")  # such outcomes say nothing about their point
TOLD = ("imported", "api")  # sources of points whose outcomes come from elsewhere
INVALID = "invalid"  # ended without all of its objectives and constraints
RAN = ("ok", "infeasible")  # such outcomes mean that the objective ran to its end
WORKED = (*RAN, STOPPED)  # such outcomes show that the objective works
BATCH_FORMAT = 1
# JSON has no NaN, so null stands for "does not apply".
Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
Natural = Annotated[int, Field(ge=0, lt=2**63)]
Status = Annotated[str, Field(pattern=f"^({'|'.join(STATUSES)})$")]


@dataclass(frozen=True)
class Proposal(Elsewhere):
    """A point to evaluate, and why.

    source: how the point was found ("design:sobol", "candidate:local", ...).
    value: acquisition value at the pick;
    runner_up: the value of the next best candidate.
    mean, std: the surrogate's prediction of the objective, natural units, before fantasies.
    feasibility: probability that every constraint holds.
    num_pending: points pending at the pick.
    stage: the stage of `dngo.acquisition` that picked it; empty in old archives.
    deviation_scale: in old archives a factor on the surrogate's deviations for the pick; now always
    1.
    origin: for a point that people entered: who, when, from which file; otherwise empty.
    means, stds: the same for each of several objectives, by name;
    aims: their weights in the pick. Numbers that do not apply are NaN.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    _elsewhere = POINT

    iteration: Natural
    slot: Natural
    parameters: dict[str, Any]
    source: str
    value: Number = math.nan
    mean: Number = math.nan
    std: Number = math.nan
    feasibility: Number = math.nan
    num_pending: Natural = 0
    runner_up: Number = math.nan
    stage: str = ""
    deviation_scale: float = 1.0
    origin: dict[str, Any] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    stds: dict[str, float] = field(default_factory=dict)
    aims: dict[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.iteration}-{self.slot}"

    @property
    def told(self) -> bool:
        """Whether its outcome comes from elsewhere. Then it is not evaluated here."""
        return self.source in TOLD

    @property
    def given(self) -> bool:
        """Whether people entered it, to be evaluated first in its batch."""
        return bool(self.origin) and not self.told


@dataclass(frozen=True)
class Outcome:
    """The outcome of an evaluation. Every proposal gets exactly one.

    status: one of `STATUSES`.
    objective: natural units, NaN if there is none.
    constraints: name to 1 (satisfied), 0 (violated); a name left out is unknown.
    numbers: the reported values of constraints with a threshold, by name.
    noise: standard deviation of the objective as reported, or NaN.
    duration: seconds.
    started, finished: seconds since 1970.
    attempts: starts, including this one.
    message: why it is not ok.
    metadata: other values that the objective reported.
    objectives: for a study with several, all of them by name, or none;
    noises: their noise, by name, for some of them.
    curve: the values that it reported while it ran (`dngo.stopping.curves.Curve.plain`).
    stop: why it was stopped early (`dngo.stopping.settings.Decision.plain`). Such an outcome has no
    objective; its curve ends with its last value.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    iteration: Natural
    slot: Natural
    parameters_digest: str
    status: Status
    objective: Number = math.nan
    constraints: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    noise: Number = math.nan
    duration: Number = math.nan
    attempts: Natural = 1
    host: str = ""
    job: str = ""
    started: Number = math.nan
    finished: Number = math.nan
    message: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    objectives: dict[str, float] = field(default_factory=dict)
    noises: dict[str, float] = field(default_factory=dict)
    curve: list[list[float | None]] = field(default_factory=list)
    stop: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.iteration}-{self.slot}"

    @property
    def ran(self) -> bool:
        """Whether the objective ran to its end and reported."""
        return self.status in RAN

    def answers(self, proposal: Proposal) -> bool:
        """Whether it is the outcome of exactly this point."""
        same = self.parameters_digest == digest_parameters(proposal.parameters)
        return same and self.id == proposal.id


@dataclass(frozen=True)
class Context:
    """What a stage knows in addition to the training iterations.

    pending: proposals under evaluation.
    given: proposals that already stand first in the batch.
    told: points whose outcomes come from elsewhere.
    """

    pending: Sequence[Proposal] = ()
    given: Sequence[Proposal] = ()
    told: Sequence[tuple[Proposal, Outcome]] = ()

    @classmethod
    def parse_told(cls, text: str) -> list[tuple[Proposal, Outcome]]:
        """Read the text of `dump_told`; raises pydantic's ValidationError."""
        pairs: list[tuple[Proposal, Outcome]] = _TOLD.validate_json(text)
        return pairs

    def dump_told(self) -> str:
        """The points with reported outcomes as JSON text; empty if there are none."""
        pairs = [[to_json(p), to_json(o)] for p, o in self.told]
        return json.dumps(pairs, sort_keys=True) if pairs else ""

    @property
    def known(self) -> int:
        """How many points are ok by outcomes from elsewhere."""
        return sum(outcome.status == "ok" for _, outcome in self.told)

    def without_told(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """The proposals whose outcome was not reported."""
        names = {p.origin["entry"] for p, _ in self.told}
        return [p for p in proposals if p.origin.get("entry") not in names]


@dataclass(frozen=True)
class Batch:
    """The proposals of one iteration, with everything that is needed to derive them again.

    config: the resolved configuration that made them.
    points_per_job: how jobs share them.
    seed, spawn_key: the random stream of this stage.
    training_iterations: the iterations from which the surrogate learnt.
    training_digest: the archive's digest after them.
    pending: iterations in flight at that time.
    environment: packages and machine (see `dngo.provenance`).
    versions: of the code that made the batch ("config", "fit", "proposal"; see
    `dngo.derive.versions`); 1 if not named.
    told: the outcomes of its last proposals, which come from elsewhere.
    durations: the predicted seconds of each proposal, if they are modelled; a hint for the
    evaluation, which the archive keeps as a prediction.
    outlook: the expected gain at that time (`dngo.acquisition.outlook`).
    ended: why the study ended; such a batch has no points and is never archived.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    iteration: Natural
    config: dict[str, Any]
    points_per_job: Annotated[int, Field(ge=1)]
    seed: Natural
    spawn_key: list[int]
    training_iterations: Natural
    training_digest: str
    pending: list[int]
    environment: dict[str, Any]
    proposals: list[Proposal]
    versions: dict[str, int] = field(default_factory=dict)
    told: list[Outcome] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    outlook: dict[str, Any] = field(default_factory=dict)
    ended: str = ""

    @property
    def identity(self) -> dict[str, Any]:
        """The study's identity when the batch was proposed (`Config.identity`)."""
        return identity_of(self.config)

    @property
    def evaluated(self) -> list[Proposal]:
        """The proposals that this study evaluates."""
        return [p for p in self.proposals if not p.told]

    @property
    def num_chunks(self) -> int:
        return math.ceil(len(self.evaluated) / self.points_per_job)

    def chunk(self, index: int) -> list[Proposal]:
        """The proposals that one job evaluates; empty after the last job."""
        start = index * self.points_per_job
        return self.evaluated[start : start + self.points_per_job]

    def longest_first(self, proposals: list[Proposal]) -> list[Proposal]:
        """Some of its proposals, ordered so that a job with several slots ends soonest."""
        expected = dict(zip((p.slot for p in self.proposals), self.durations, strict=False))
        return sorted(proposals, key=lambda p: -expected.get(p.slot, 0.0))

    def write(self, path: Path) -> None:
        """Write `proposals.json`."""
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "proposals"}
        head["told"] = [to_json(o) for o in self.told]
        text = _document(head, "proposals", self.proposals)
        write_text(path, text)

    @classmethod
    def read(cls, path: Path) -> Batch:
        """Read `proposals.json`; raises UserError if it is not one."""
        batch: Batch = _read(path, _BATCH, "a list of proposals")
        try:
            identity_of(batch.config)
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, f"its configuration is incomplete: {error}") from None
        if len({p.slot for p in batch.proposals if p.iteration == batch.iteration}) != len(
            batch.proposals
        ):
            raise _damaged(path, "two of its points have one number")
        return batch


def numbers_of(name: str) -> tuple[int, int]:
    """Iteration and slot of a proposal with a name such as 7-12; raises ValueError for another name."""
    if not re.fullmatch("(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})", name):
        raise ValueError(f"{name[:60]!r} is not a proposal; proposals have names such as 7-12")
    iteration, slot = name.split("-")
    return int(iteration), int(slot)


_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.I)


def way(status: str, message: str) -> tuple[str, str]:
    """The way in which an evaluation ended.

    Messages that differ only in their numbers count as the same.
    """
    return status, _NUMBER.sub("#", last_line(message))


def last_line(message: str) -> str:
    """The line of a message that says the cause.

    It is bounded, and has nothing that looks like a secret.
    """
    lines = message.strip().splitlines()
    # An archive of an earlier release may hold signs that move a terminal's cursor.
    return one_line(redacted(lines[-1]), 300) if lines else "(no message)"


def write_outcomes(
    path: Path,
    outcomes: list[Outcome],
    *,
    durable: bool = True,
    pictures: Mapping[str, str] | None = None,
) -> None:
    """Write outcomes as JSON, atomically.

    durable: whether to wait until they would survive a crash of the machine.
    pictures: what `read_pictures` reads.
    """
    text = _document({"pictures": pictures} if pictures else {}, "outcomes", outcomes)
    if durable:
        write_text(path, text)
    else:
        path.write_text(text, encoding="utf-8")


def read_outcomes(path: Path) -> list[Outcome]:
    """Read a file of `write_outcomes`; raises UserError if it is something else."""
    outcomes: list[Outcome] = _read(path, _OUTCOMES, "a list of outcomes").outcomes
    return outcomes


def read_pictures(path: Path) -> dict[str, str]:
    """The pictures, by id, that travel with outcomes (`dngo.evaluation.pictures.packed`)."""
    pictures: dict[str, str] = _read(path, _OUTCOMES, "a list of outcomes").pictures
    return pictures


def find_outcome(path: Path, proposal: Proposal) -> Outcome | None:
    """The outcome in `path` if there is one for exactly this point."""
    try:
        outcomes = read_outcomes(path)
    except FileNotFoundError:
        return None
    if len(outcomes) != 1:
        raise _damaged(path, f"it has {len(outcomes)} outcomes, but must have one")
    (outcome,) = outcomes
    return outcome if outcome.answers(proposal) else None


def _read(path: Path, kind: TypeAdapter[Any], what: str) -> Any:
    try:
        document = read_json(path)
        if not isinstance(document, dict) or type(document.get("format")) is not int:
            raise _damaged(path, f"it is not {what}")
        version = document.pop("format")
        if version > BATCH_FORMAT:
            raise UserError(f"{path}: format {version} is newer than this dngo; update dngo")
        return kind.validate_python(document)
    except ValidationError as error:
        raise _damaged(path, first_of(error)) from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(
        f"{path}: is damaged ({one_line(reason, 160)}); put a good copy in its place, or "
        "delete it: its content is then made again"
    )


def to_json(record: Proposal | Outcome) -> dict[str, Any]:
    """A record as JSON: null for a number that does not apply. Its parts are shared with the record."""
    values = ((f.name, getattr(record, f.name)) for f in fields(record))
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values}


def _document(head: dict[str, Any], name: str, records: Sequence[Proposal | Outcome]) -> str:
    """JSON with one record on each line, since a batch has thousands and people read it too."""
    begin = json.dumps({"format": BATCH_FORMAT, **head})[:-1]
    lines = ",\n".join(json.dumps(_brief(r), separators=(",", ":")) for r in records)
    return f'{begin}, "{name}": [\n{lines}\n]}}\n'


def _brief(record: Proposal | Outcome) -> dict[str, Any]:
    """A record as JSON, without values that equal their defaults."""
    found = to_json(record)
    for f in fields(record):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if isinstance(default, float) and math.isnan(default):
            default = None
        if type(found[f.name]) is type(default) and found[f.name] == default:
            del found[f.name]
    return found


@dataclass(frozen=True)
class _Outcomes:
    outcomes: list[Outcome]
    pictures: dict[str, str] = field(default_factory=dict)


_BATCH: TypeAdapter[Any] = TypeAdapter(Batch)
_TOLD: TypeAdapter[Any] = TypeAdapter(list[tuple[Proposal, Outcome]])
_OUTCOMES: TypeAdapter[Any] = TypeAdapter(_Outcomes)

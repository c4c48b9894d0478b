"""What travels between the stages: proposals with their reasons, outcomes, and the batch record."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.storage.digest import digest_parameters
from dngo.storage.files import read_json, write_json

STATUSES = ("ok", "infeasible", "failed", "invalid", "timeout", "out_of_memory", "lost")
BATCH_FORMAT = 1


@dataclass(frozen=True)
class Proposal:
    """A point to evaluate, and why.

    source: how the point was found ("design:sobol", "candidate:local", ...).
    value: acquisition value when it was picked; runner_up: that of the next best candidate.
    mean, std: the surrogate's prediction of the objective, natural units, before fantasies.
    feasibility: probability that every constraint holds.  num_pending: points pending at the pick.
    Numbers that do not apply are NaN.
    """

    iteration: int
    slot: int
    parameters: dict[str, Any]
    source: str
    value: float = math.nan
    mean: float = math.nan
    std: float = math.nan
    feasibility: float = math.nan
    num_pending: int = 0
    runner_up: float = math.nan

    @property
    def id(self) -> str:
        return f"{self.iteration}-{self.slot}"


@dataclass(frozen=True)
class Outcome:
    """How an evaluation ended: every proposal gets exactly one.

    status: one of `STATUSES`.  objective: natural units, NaN if there is none.
    constraints: name to 1 (satisfied), 0 (violated); a name left out is unknown.
    noise: standard deviation of the objective as reported, or NaN.
    duration: seconds.  started, finished: seconds since 1970.  attempts: starts, this one included.
    message: why it is not ok.  metadata: whatever the objective reported.
    """

    iteration: int
    slot: int
    parameters_digest: str
    status: str
    objective: float = math.nan
    constraints: dict[str, int] = field(default_factory=dict)
    noise: float = math.nan
    duration: float = math.nan
    attempts: int = 1
    host: str = ""
    job: str = ""
    started: float = math.nan
    finished: float = math.nan
    message: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.iteration}-{self.slot}"


@dataclass(frozen=True)
class Batch:
    """The proposals of one iteration with all that is needed to derive them again.

    config: the resolved configuration they were made with.  points_per_job: how jobs share them.
    seed, spawn_key: the random stream of this stage.  training_iterations: the surrogate's prefix.
    training_digest: digest of the archive at that prefix.  pending: iterations under way then.
    environment: packages and machine (see `dngo.provenance`).  versions: of what made the batch
    ("config", "fit", "proposal"; see `dngo.derive.versions`); 1 where it is not named.
    """

    iteration: int
    config: dict[str, Any]
    points_per_job: int
    seed: int
    spawn_key: list[int]
    training_iterations: int
    training_digest: str
    pending: list[int]
    environment: dict[str, Any]
    proposals: list[Proposal]
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def num_chunks(self) -> int:
        return math.ceil(len(self.proposals) / self.points_per_job)

    def chunk(self, index: int) -> list[Proposal]:
        """The proposals that one job evaluates; empty beyond the last."""
        start = index * self.points_per_job
        return self.proposals[start : start + self.points_per_job]

    def write(self, path: Path) -> None:
        """Write `proposals.json`."""
        document = {"format": BATCH_FORMAT, **asdict(self)}
        document["proposals"] = [_to_json(p) for p in self.proposals]
        write_json(path, document)

    @classmethod
    def read(cls, path: Path) -> Batch:
        """Read `proposals.json`; raises UserError if it is not one."""
        document = _read(path)
        try:
            document["proposals"] = [_from_json(Proposal, p) for p in document["proposals"]]
            return cls(**document)
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: is not a list of proposals ({error})") from None


def write_outcomes(path: Path, outcomes: list[Outcome]) -> None:
    """Write outcomes as JSON, atomically."""
    write_json(path, {"format": BATCH_FORMAT, "outcomes": [_to_json(o) for o in outcomes]})


def read_outcomes(path: Path) -> list[Outcome]:
    """Read what `write_outcomes` wrote; raises UserError if it is not that."""
    try:
        return [_from_json(Outcome, o) for o in _read(path)["outcomes"]]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: is not a list of outcomes ({error})") from None


def find_outcome(path: Path, proposal: Proposal) -> Outcome | None:
    """The outcome in `path` if there is one for exactly this point."""
    try:
        (outcome,) = read_outcomes(path)
    except FileNotFoundError:
        return None
    same = outcome.parameters_digest == digest_parameters(proposal.parameters)
    return outcome if same and outcome.id == proposal.id else None


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_json(path)
        version = document.pop("format")
    except (ValueError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: is damaged ({error})") from None
    if version > BATCH_FORMAT:
        raise UserError(f"{path}: format {version} is newer than this dngo; update dngo")
    return document


def _to_json(record: Proposal | Outcome) -> dict[str, Any]:
    # JSON has no NaN: null stands for "does not apply".
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v
        for k, v in asdict(record).items()
    }


def _from_json(kind: Any, document: dict[str, Any]) -> Any:
    numbers = {f.name for f in fields(kind) if f.type == "float"}
    return kind(**{k: math.nan if v is None and k in numbers else v for k, v in document.items()})

"""The keys of a study's configuration, the source of truth.

`config.schema.json` is generated from it (`dngo check --schema`), and a test fails when the two
drift apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.config.checkpoints import Checkpoints
from dngo.config.early_stopping import EarlyStopping
from dngo.config.fidelity import Fidelity
from dngo.config.held import Held, by_name
from dngo.config.messages import Located, short
from dngo.config.objective import Objective
from dngo.config.objectives import AnAim, direction_of, directions_of
from dngo.config.resources import Resources
from dngo.config.stop import Stop
from dngo.presets import PresetName
from dngo.redaction import redacted_config
from dngo.space import Space
from dngo.space.ladder import Ladder, ladder_of
from dngo.space.parameters import Section, archived
from dngo.space.types import AnyParameter
from dngo.storage.plain import MAX_DEPTH
from dngo.storage.text import fault, join_pairs, storable_tree
from dngo.surrogates.settings import ClassifierSettings, SurrogateKind, SurrogateSettings
from dngo.thresholds import Reported, Threshold

COMPLETED = "completed"  # the implicit constraint: the objective ran and reported

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
StudyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]


class Design(Section):
    """The initial design, iteration 0: a scrambled Sobol sequence."""

    size: int | None = Field(
        None, ge=1, le=1_000_000, description="Number of points. Default: batch_size."
    )
    include_default: bool = Field(
        True, description="Evaluate the parameters' defaults as the very first point."
    )


class Archive(Section):
    """What the archive holds in addition to proposals, outcomes and their origin, which it always
    holds."""

    surrogates: Literal["last", "all"] = Field(
        "last",
        description="The surrogates that it holds. last: only the newest one. `dngo replay` fits an "
        "earlier one again, and the digest says whether it is the same. The predictions of "
        "each surrogate for its batch are kept, so audits and reports need no fit. all: "
        "every surrogate, at about half a megabyte per batch. If fits of a kind start from "
        "earlier surrogates, the archive keeps them all.",
    )


if TYPE_CHECKING:
    SurrogateSection = SurrogateKind
    AcquisitionSection = Acquisition
else:
    SurrogateSection = SurrogateSettings.field
    AcquisitionSection = AcquisitionSettings.field


class Keys(Section):
    """The keys of a study, each by itself. `Config` checks that they fit each other."""

    study: StudyName = Field(description="Name of the study: its folder under `results`.")
    seed: int = Field(
        0, ge=0, lt=2**63, description="The seed from which every random stream is derived."
    )
    results: str = Field(
        "results",
        min_length=1,
        description="Folder of the studies, relative to the configuration's folder. In all paths `~` "
        "is the home folder. Variables are not replaced.",
    )
    objective: Objective
    objectives: dict[Name, AnAim] = Field(
        default_factory=dict,
        description="Several objectives by name, each with its direction, in place of "
        "`objective.direction`: {error: minimize, speed: {direction: maximize, reference: 10}}. What is "
        'reported is then {"objectives": {"error": 4.1, "speed": 8200}}, and what is looked for is the '
        "front: the points that nothing betters in all of them. At most six.",
    )
    needs: list[Annotated[str, StringConstraints(min_length=1)]] = Field(
        default_factory=list,
        max_length=1000,
        description="Files that the objective needs, relative to the configuration's folder. No "
        "evaluation starts before they exist. If the study is a module of a workflow, the "
        "workflow's rules make them.",
    )
    space: dict[Name, AnyParameter] = Field(min_length=1, description="The parameters by name.")
    space_constraints: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Constraints that every point keeps, as expressions over the parameters' names: "
        "'x1 + x2 <= 0.6', 'low < high', 'a + b + c == 1', 'count_nonzero(a, b, c) <= 2', "
        "'kind == \"gp\" or n <= 100'. An expression that names an inactive parameter holds.",
    )
    constraints: Annotated[
        dict[Name, Held],
        BeforeValidator(
            by_name, json_schema_input_type=list[Name | dict[Name, Held]] | dict[Name, Held]
        ),
    ] = Field(
        default_factory=dict,
        description="What the objective reports beside its value, by name, and what is to hold: "
        "{temperature: '<= 350'} of a number, which is modelled as an objective is; "
        "{converged: true}, or the bare name in a list, of a flag.",
    )
    fidelity: Fidelity | None = Field(
        None,
        description="One parameter that says how much an evaluation is worth and costs, as epochs or a "
        "share of the data: {parameter: epochs, low: 3, high: 81}. New points have little of it, and the "
        "ones that deserve more are promoted. The best is the best at the highest.",
    )
    checkpoints: Checkpoints = Checkpoints()
    design: Design = Design()
    iterations: int = Field(10, ge=0, le=1_000_000, description="Batches after the initial design.")
    batch_size: int = Field(10, ge=1, le=1_000_000, description="Points in a batch.")
    points_per_job: int = Field(
        1,
        ge=1,
        description="Points that one job evaluates. It evaluates `points_at_once` of them at a time.",
    )
    points_at_once: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        1,
        description="Points that a job evaluates side by side. The job asks for this many times the "
        "threads, mem_mb and gpu of resources.evaluate. Each point gets one share. auto: "
        "as many points as the job's CPUs allow. This suits clusters that hand out whole "
        "nodes, and your own machine.",
    )
    batches_in_flight: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = Field(
        "auto", description="Batches evaluated at the same time. auto: as few as keep slots busy."
    )
    iterations_per_run: int = Field(
        0, ge=0, description="Iterations in one run of Snakemake; 0: all that remain."
    )
    stop: Stop = Stop()
    retries: int = Field(
        2,
        ge=0,
        le=100,
        description="Further attempts at a job that was killed: with its node, or because of its time "
        "or memory. If all jobs of a point died, its outcome is lost.",
    )
    escalation: float = Field(
        1.0,
        ge=1,
        le=100,
        description="Each further attempt multiplies the runtime and mem_mb of evaluate by this factor.",
    )
    preset: PresetName | None = Field(
        None,
        description="The name of a published system. It sets the sections `surrogate`, `classifier`, "
        "`acquisition` and `design`, as listed in docs/presets.md. Your keys replace its "
        "keys one by one. If you give another kind, it replaces the whole section. The "
        "archive holds the resulting keys.",
    )
    surrogate: SurrogateSection = SurrogateSettings()
    classifier: ClassifierSettings = ClassifierSettings()
    acquisition: AcquisitionSection = AcquisitionSettings()
    optimum: float | None = Field(
        None,
        allow_inf_nan=False,
        description="The best possible value of the objective, if known. Reports then say how far the "
        "study is from it.",
    )
    transfer: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Archives of earlier studies to learn from. Their parameters must have the same "
        "names. Their successful evaluations are copied into this study's archive when it "
        "is created. After that, this key cannot change, and the files are no longer "
        "needed.",
    )
    early_stopping: EarlyStopping = None
    labels: dict[Name, Annotated[str, StringConstraints(min_length=1, max_length=100)]] = Field(
        default_factory=dict,
        description="What stands at the axes of figures, with its unit: {objective: 'Ignition delay "
        "(ms)', rate: 'Heating rate (K/s)'}, of parameters, constraints, and the objective or each of "
        "several.",
    )
    archive: Archive = Archive()
    resources: Resources = Resources()

    # A line for each place that looks like a secret. A new study with one is refused.
    _exposed: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="before")
    @classmethod
    def _keep_text(cls, data: Any, info: ValidationInfo) -> Any:
        # `results` may be a folder of any name, but the archive must stay readable.
        return storable_tree(data, MAX_DEPTH) if archived(info) else _storable(data, ())

    @model_validator(mode="before")
    @classmethod
    def _each_direction(cls, data: Any) -> Any:
        # The default for one objective does not fit several.
        if not isinstance(data, dict) or not data.get("objectives"):
            return data
        objective = data.get("objective")
        if not isinstance(objective, dict) or "direction" in objective:
            return data
        return {**data, "objective": {**objective, "direction": None}}

    @model_serializer(mode="wrap")
    def _as_ever(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Archives of earlier releases do not name keys that a study does not use.
        found: dict[str, Any] = handler(self)
        if not self.objectives:
            found.pop("objectives", None)
            found.get("stop", {}).pop("hypervolume_gain", None)
        if self.checkpoints == Checkpoints():
            found.pop("checkpoints", None)
        for name in ("labels", "fidelity", "early_stopping"):
            if not getattr(self, name):
                found.pop(name, None)
        return found

    @property
    def design_size(self) -> int:
        """The number of points in iteration 0."""
        return self.batch_size if self.design.size is None else self.design.size

    def batch_size_of(self, iteration: int) -> int:
        """The number of points that an iteration proposes if it starts now."""
        return self.design_size if iteration == 0 else self.batch_size

    @property
    def exposed(self) -> tuple[str, ...]:
        """A line for each place in its file that looks like a secret."""
        return self._exposed

    @property
    def search_space(self) -> Space:
        return Space(dict(self.space), self.space_constraints)

    @property
    def ladder(self) -> Ladder | None:
        """The levels of the fidelity; None in a study without one."""
        if self.fidelity is None:
            return None
        return ladder_of(self.search_space, self.fidelity.model_dump())

    @property
    def positive(self) -> list[str]:
        """The objectives that must be above 0, since their scale is logarithmic."""
        found = [name for name, aim in sorted(self.objectives.items()) if aim.scale == "log"]
        return [*found, *(["objective"] if self.objective.scale == "log" else [])]

    @property
    def reported(self) -> Reported:
        """What the objective reports in addition to its value, by name: the threshold of a number,
        None for a flag. It also holds the names of several objectives.
        """
        held = dict.fromkeys(self.constraints) | self.thresholds
        return Reported(held, sorted(self.objectives), self.positive)

    @property
    def names(self) -> tuple[list[str], list[str], list[str]]:
        """The names of parameters, constraints and several objectives, which must all differ."""
        return list(self.space), list(self.constraints), sorted(self.objectives)

    @property
    def directions(self) -> dict[str, str]:
        """The direction of each named objective, by name in order."""
        return {name: self.objectives[name].direction for name in sorted(self.objectives)}

    @property
    def has_several(self) -> bool:
        """Whether there are several objectives: then the study has a front and no single best point."""
        return len(self.objectives) > 1

    @property
    def direction(self) -> str:
        """The direction of the only objective; raises ValueError if there are several."""
        return direction_of(self.model_dump(include={"objective", "objectives"}))

    @property
    def thresholds(self) -> dict[str, Threshold]:
        """The bounds of constraints that are numbers, by name."""
        return thresholds_of({"constraints": self.constraints})

    def identity(self) -> dict[str, Any]:
        """The parts of a study that never change: its name, space, direction and constraint names."""
        return identity_of(self.model_dump(mode="json"))

    def resolved(self) -> str:
        """The whole configuration with all defaults, as JSON in its own order."""
        return json.dumps(self.model_dump(mode="json"))

    def stored(self) -> dict[str, Any]:
        """The same without what looks like a secret, to store and to publish."""
        return redacted_config(self.model_dump(mode="json"))


def thresholds_of(resolved: Mapping[str, Any]) -> dict[str, Threshold]:
    """`Config.thresholds` of a resolved configuration, as a batch stores it."""
    held = resolved["constraints"]  # a list of names in archives that are older than thresholds
    bounds = held if isinstance(held, dict) else {}
    return {n: Threshold.parse(bound) for n, bound in bounds.items() if bound is not True}


def identity_of(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """`Config.identity` of a resolved configuration, as a batch stores it."""
    # Archives of earlier releases do not name keys that a study does not use.
    transfer, known = resolved.get("transfer"), resolved.get("space_constraints")
    thresholds, objectives = thresholds_of(resolved), directions_of(resolved)
    return {
        "study": resolved["study"],
        # With several objectives nothing reads it, so it has its default.
        "direction": direction_of(resolved) if len(objectives) < 2 else "minimize",
        **({"objectives": objectives} if objectives else {}),
        "constraints": sorted(resolved["constraints"]),
        # The prior of a parameter may change.
        "space": {n: {k: p[k] for k in p if k != "prior"} for n, p in resolved["space"].items()},
        # It says which constraints are numbers. Their bounds may change.
        **({"thresholds": sorted(thresholds)} if thresholds else {}),
        **({"transfer": transfer} if transfer else {}),
        **({"space_constraints": sorted(known)} if known else {}),
    }


def _storable(value: Any, loc: tuple[str, ...]) -> Any:
    """A configuration with its texts as an archive stores them.

    Raises an error for a text that it cannot store.
    """
    if isinstance(value, str):
        text = join_pairs(value)
        if fault(text):
            raise Located(loc, f"{short(ascii(text))} {fault(text)}")
        return text
    if isinstance(value, Mapping):
        return {
            _storable(key, (*loc, short(ascii(key)))): _storable(item, (*loc, str(key)))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_storable(item, (*loc, str(i))) for i, item in enumerate(value)]
    return value

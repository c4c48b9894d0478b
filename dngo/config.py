"""The configuration of a study: one typed model, read strictly, with errors a person can act on.

`Config` is the source of truth: `config.schema.json` is generated from it (`dngo check --schema`),
and a test fails when the two drift apart.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from dngo.acquisition.settings import AcquisitionSettings
from dngo.errors import UserError
from dngo.space import Space
from dngo.space.parameters import (
    AnyParameter,
    Categorical,
    Fixed,
    Float,
    Int,
    Ordinal,
    Section,
    admits,
)
from dngo.surrogates.settings import SurrogateSettings

MAX_NODES = 100_000
COMPLETED = "completed"  # the implicit constraint: the objective ran and reported

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
StudyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
RESERVED = {"parameters", "outcome", "workdir", "seed", "id", "python"}


class Objective(Section):
    """What is evaluated, and within which limits."""

    command: str | list[str] | None = Field(
        None,
        description="A command line. Placeholders: {NAME of a parameter}, {parameters} and {outcome} "
        "(paths of JSON documents), {workdir}, {id}, {seed}, {python}. It is split into words "
        "and started without a shell; give a list of words where quoting matters.",
    )
    callable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="A Python function, module:function, in place of a command: it is called "
        "with the parameters as keywords and returns a number or an outcome document.",
    )
    direction: Literal["minimize", "maximize"] = Field(
        "minimize", description="Whether small or large values of the objective are good."
    )
    time_limit: float | None = Field(
        None, gt=0, description="Seconds for one evaluation; then it is stopped: status timeout."
    )
    memory_mb: int | None = Field(
        None,
        gt=0,
        description="Resident memory in MB for one evaluation with its children; above it is "
        "stopped: status out_of_memory. Left out: what the machine or the job has.",
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="Environment variables for the objective."
    )
    working_directory: str | None = Field(
        None, description="Where the command starts; the configuration file's folder if left out."
    )
    keep_workdir: bool = Field(
        False, description="Keep each evaluation's private folder {workdir} after it has ended."
    )
    output_limit: int = Field(
        65536,
        ge=1024,
        le=2**26,
        description="Bytes of standard output, and of standard error, that are kept for a point.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Objective:
        if (self.command is None) == (self.callable is None):
            raise ValueError("give either command or callable")
        if self.command is not None and not self.command:
            raise ValueError("command is empty")
        return self


class Design(Section):
    """The initial design, iteration 0: a scrambled Sobol sequence."""

    size: int | None = Field(
        None, ge=1, le=1_000_000, description="Number of points; batch_size if left out."
    )
    include_default: bool = Field(
        True, description="Evaluate the parameters' defaults as the very first point."
    )


class Stop(Section):
    """When a study ends before its iterations are used up; looked at when a run is planned."""

    target: float | None = Field(None, description="An objective at least this good is enough.")
    evaluations: int | None = Field(None, ge=1, description="No iteration starts beyond this many.")


Resource = dict[str, int | float | str]


class Resources(Section):
    """Resources of each rule, by Snakemake's names: mem_mb, runtime (minutes), slurm_partition ..."""

    fit: Resource = Field(default_factory=dict)
    propose: Resource = Field(default_factory=dict)
    evaluate: Resource = Field(default_factory=dict)
    merge: Resource = Field(default_factory=dict)


def _shorthand(settings: Any) -> Any:
    """Annotation of a section that may be given as its kind alone."""

    def expand(given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    kinds = settings.model_fields["kind"].annotation
    return Annotated[settings, BeforeValidator(expand, json_schema_input_type=kinds | settings)]


if TYPE_CHECKING:
    Surrogate = SurrogateSettings
    Acquisition = AcquisitionSettings
else:
    Surrogate = _shorthand(SurrogateSettings)
    Acquisition = _shorthand(AcquisitionSettings)


class Config(Section):
    """A study."""

    study: StudyName = Field(description="Name of the study: its folder under `results`.")
    seed: int = Field(0, ge=0, lt=2**63, description="Root of every random stream.")
    results: str = Field("results", min_length=1, description="Folder that holds the studies.")
    objective: Objective
    space: dict[Name, AnyParameter] = Field(min_length=1, description="The parameters by name.")
    constraints: list[Name] = Field(
        default_factory=list,
        description="Names of the constraints that the objective reports, true = satisfied.",
    )
    design: Design = Design()
    iterations: int = Field(10, ge=0, le=1_000_000, description="Batches after the initial design.")
    batch_size: int = Field(10, ge=1, le=1_000_000, description="Points in a batch.")
    points_per_job: int = Field(
        1, ge=1, description="Points that one job evaluates, one after another."
    )
    batches_in_flight: int = Field(
        1, ge=1, le=100, description="Batches that may be under evaluation at the same time."
    )
    iterations_per_run: int = Field(
        0, ge=0, description="Iterations planned in one run of Snakemake; 0: all that remain."
    )
    stop: Stop = Stop()
    retries: int = Field(
        2,
        ge=0,
        le=100,
        description="Further attempts at a job that was killed, with its node, for its time or its "
        "memory. A point whose jobs all died has the outcome lost.",
    )
    escalation: float = Field(
        1.0,
        ge=1,
        le=100,
        description="Factor on evaluate's runtime and mem_mb at each further attempt.",
    )
    surrogate: Surrogate = SurrogateSettings()
    acquisition: Acquisition = AcquisitionSettings()
    optimum: float | None = Field(
        None,
        allow_inf_nan=False,
        description="The best value that the objective can have, where it is known: reports then "
        "say how far from it the study was, and is.",
    )
    transfer: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Archives of earlier studies to learn from: related tasks over parameters of "
        "the same names, whose successful evaluations are copied into this study's archive when it "
        "is created. Cannot change afterwards; the files are then not needed any more.",
    )
    resources: Resources = Resources()

    @model_validator(mode="after")
    def _check(self) -> Config:
        for name, parameter in self.space.items():
            if name in RESERVED:
                raise _at(("space", name), f"{name!r} is a placeholder of the command; rename it")
            for parent, wanted in parameter.active_if.items():
                self._check_condition(name, parent, wanted)
            if isinstance(parameter, Fixed) and parameter.active_if:
                raise _at(("space", name, "active_if"), "a fixed parameter cannot be conditional")
        _check_cycles(self.space)
        if all(isinstance(p, Fixed) for p in self.space.values()):
            raise _at(("space",), "every parameter is fixed: there is nothing to search")
        if len(set(self.constraints)) != len(self.constraints):
            raise _at(("constraints",), "a name is listed twice; list each constraint once")
        if COMPLETED in self.constraints:
            raise _at(("constraints",), f"{COMPLETED!r} is always there; choose another name")
        return self

    def _check_condition(self, name: str, parent: str, wanted: list[Any]) -> None:
        where = ("space", name, "active_if", parent)
        if parent == name:
            raise _at(where, "a parameter cannot depend on itself")
        if parent not in self.space:
            raise _at(where, f"there is no parameter {parent!r}{_nearest(parent, self.space)}")
        for value in wanted:
            other = self.space[parent]
            if not admits(other, value):
                raise _at(where, f"{parent} never has the value {_short(value)}; {_range(other)}")
        parameter = self.space[parent]
        if isinstance(parameter, Fixed) and parameter.value not in wanted:
            raise _at(where, f"{parent} is fixed at {parameter.value!r}: never active; remove it")

    @property
    def design_size(self) -> int:
        """Points in iteration 0."""
        return self.batch_size if self.design.size is None else self.design.size

    def batch_size_of(self, iteration: int) -> int:
        """Points that an iteration proposes when it starts now."""
        return self.design_size if iteration == 0 else self.batch_size

    @property
    def search_space(self) -> Space:
        return Space(dict(self.space))

    def identity(self) -> dict[str, Any]:
        """What may never change in a study: its name, space, direction and constraint names."""
        dump = self.model_dump(mode="json")
        return {
            "study": self.study,
            "direction": self.objective.direction,
            "constraints": sorted(self.constraints),
            "space": dump["space"],
            **({"transfer": self.transfer} if self.transfer else {}),
        }

    def resolved(self) -> str:
        """The whole configuration, defaults filled in, as JSON in its own order."""
        return json.dumps(self.model_dump(mode="json"))


def schema() -> str:
    """The JSON schema of `Config`, as `config.schema.json` holds it."""
    return json.dumps(Config.model_json_schema(), indent=2, sort_keys=True) + "\n"


# ---- reading ------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """YAML 1.2's idea of scalars: 1e-3 is a number, and `no` and `on` are words."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith((":float", ":bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"""^(?:[-+]?(?:\d[\d_]*\.[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)?
             |[-+]?\d[\d_]*[eE][-+]?\d+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
        re.X,
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)

Lines = dict[tuple[str, ...], str]


def load(paths: Sequence[str | Path], overrides: Mapping[str, Any] | None = None) -> Config:
    """Read, merge and validate configuration files; later ones override earlier ones.

    overrides: values from the command line, on top.
    Raises UserError with one line for each mistake: file, line, key, what would be right.
    """
    merged: dict[str, Any] = {}
    lines: Lines = {}
    for path in paths:
        data, places = _read(Path(path))
        _update(merged, data)
        lines.update(places)
    if overrides:
        _update(merged, overrides)
        for key in overrides:
            lines[(key,)] = "--config"
    source = str(paths[0]) if paths else "--config"
    config = validate(merged, lines=lines, source=source)
    _check_placeholders(config, lines, source)
    if config.acquisition.missing_package:
        place = lines.get(("acquisition",), source)
        raise UserError(f"{place}: acquisition.sampler: {config.acquisition.missing_package}")
    # The objective starts in its configuration's folder, wherever Snakemake was started.
    folder = Path(paths[0]).parent if paths else Path()
    directory = folder / (config.objective.working_directory or "")
    objective = config.objective.model_copy(update={"working_directory": str(directory)})
    return config.model_copy(update={"objective": objective})


def _check_placeholders(config: Config, lines: Lines, source: str) -> None:
    command = config.objective.command
    words = [command] if isinstance(command, str) else command or []
    for name in PLACEHOLDER.findall(" ".join(words)):
        if name not in config.space and name not in RESERVED:
            place = lines.get(("objective", "command"), source)
            known = [*config.space, *sorted(RESERVED)]
            raise UserError(
                f"{place}: objective.command: {{{name}}} is no parameter"
                f"{_nearest(name, known) or '; known: ' + ', '.join(known)}"
            )


def validate(data: Any, *, lines: Lines | None = None, source: str = "configuration") -> Config:
    """A `Config` of plain data; `lines` says where each key stands, for errors."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        messages = sorted(set(_explain(error, lines or {}, source)))
        raise UserError("\n".join(messages)) from None


def _read(path: Path) -> tuple[dict[str, Any], Lines]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; name one with --configfile") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text ({error})") from None
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            lines: Lines = {}
            if node is not None:
                _index_lines(node, (), path, lines)
            data = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise UserError(f"{place}: {_short(problem, 120)}; not valid YAML") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path}: {_short(str(error), 120)}; not a usable configuration") from None
    if not isinstance(data, dict):
        kind = "empty" if data is None else f"a {type(data).__name__}"
        raise UserError(f"{path}: must be a mapping of keys to values, and is {kind}")
    return data, lines


def _index_lines(
    node: yaml.Node, key: tuple[str, ...], path: Path, lines: Lines, budget: list[int] | None = None
) -> None:
    """Note the line of every key; a key given twice, or a flood of aliases, is an error."""
    budget = [MAX_NODES] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0:
        raise UserError(f"{path}: has more than {MAX_NODES} nodes; not a usable configuration")
    lines.setdefault(key, f"{path}:{node.start_mark.line + 1}")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for name_node, value in node.value:
            name = str(name_node.value)
            place = f"{path}:{name_node.start_mark.line + 1}"
            if name in seen and name != "<<":
                inside = ".".join((*key, _short(name)))
                raise UserError(f"{place}: {inside}: this key is given twice; remove one of them")
            seen.add(name)
            lines[(*key, name)] = place
            _index_lines(value, (*key, name), path, lines, budget)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _index_lines(value, (*key, str(i)), path, lines, budget)


def _update(into: dict[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _update(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


# ---- explaining ---------------------------------------------------------------------------------


class _Located(ValueError):
    """A mistake between keys, with the key that should change."""

    def __init__(self, loc: tuple[str, ...], message: str):
        super().__init__(message)
        self.loc = loc


def _at(loc: tuple[str, ...], message: str) -> _Located:
    return _Located(loc, message)


def _short(value: Any, limit: int = 60) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else text[:limit] + "..."


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word[:100], [str(k) for k in known], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _range(parameter: Any) -> str:
    if isinstance(parameter, Float | Int) and parameter.values is None:
        return f"it ranges from {parameter.low} to {parameter.high}"
    if isinstance(parameter, Categorical | Ordinal):
        return f"its choices are {_short(list(parameter.listed))}"
    return "see its definition"


def _check_cycles(space: Mapping[str, Any]) -> None:
    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            chain = " -> ".join((*path[path.index(name) :], name))
            raise _at(("space", name, "active_if"), f"the conditions form a circle: {chain}")
        for parent in space[name].active_if:
            visit(parent, (*path, name))

    for name in space:
        visit(name, ())


def _known_keys(loc: tuple[Any, ...], root: type[Section] = Config) -> list[str]:
    """The keys that may stand in the section an error points at."""
    model: Any = root.model_json_schema()
    schema_root = model

    def resolve(model: Any) -> Any:
        # A section that may be given by its kind alone is that or the section.
        model = next((m for m in model.get("anyOf", ()) if "$ref" in m), model)
        while "$ref" in model:
            model = schema_root["$defs"][model["$ref"].split("/")[-1]]
        return model

    for part in loc:
        model = resolve(model)
        if "discriminator" in model and part in model["discriminator"]["mapping"]:
            ref = model["discriminator"]["mapping"][part]
            model = schema_root["$defs"][ref.split("/")[-1]]
        elif part in model.get("properties", {}):
            model = model["properties"][part]
        elif "additionalProperties" in model or "patternProperties" in model:
            extra = model.get("additionalProperties")
            if not isinstance(extra, dict):
                extra = next(iter(model.get("patternProperties", {}).values()), {})
            model = extra
        else:
            return []
    return sorted(resolve(model).get("properties", {}))


def _explain(error: ValidationError, lines: Lines, source: str) -> Iterator[str]:
    tags = {"float", "int", "categorical", "ordinal", "boolean", "fixed", "[key]", "str"}
    for item in error.errors(include_url=False):
        raw = item["loc"]
        cause = (item.get("ctx") or {}).get("error")
        if isinstance(cause, _Located):
            raw = cause.loc
        # pydantic names the branch of a union in the location; a user knows only the keys.
        loc = tuple(
            str(p)
            for i, p in enumerate(raw)
            if not (p in tags and i != 1) and not str(p).startswith(("list[", "function-"))
        )
        place = source
        for length in range(len(loc), -1, -1):
            if loc[:length] in lines:
                place = lines[loc[:length]]
                break
        key = ".".join(_short(p) for p in loc) or "configuration"
        yield f"{place}: {key}: {_message(item, raw)}"


def _message(item: Any, loc: tuple[Any, ...]) -> str:
    kind, context, given = item["type"], item.get("ctx") or {}, item.get("input")
    if kind == "extra_forbidden":
        known = _known_keys(loc[:-1])
        hint = _nearest(str(loc[-1]), known)
        return f"unknown key{hint or '; known here: ' + ', '.join(known)}"
    if kind == "missing":
        return "is missing and must be given"
    if kind == "union_tag_not_found":
        return "needs a type: float, int, categorical, ordinal, boolean or fixed"
    if kind == "union_tag_invalid":
        kinds = ["float", "int", "categorical", "ordinal", "boolean", "fixed"]
        hint = _nearest(str(context.get("tag")), kinds)
        return f"type must be one of {', '.join(kinds)}, not {_short(context.get('tag'))}{hint}"
    if kind == "model_type":
        return f"must be a mapping of keys to values, not {_short(given)}"
    if kind == "literal_error":
        kinds = re.findall(r"'([^']*)'", context.get("expected", ""))
        hint = _nearest(str(given), kinds)
        return f"must be one of {', '.join(kinds)}, not {_short(given)}{hint}"
    if kind == "value_error":
        return str(context.get("error", item["msg"]))
    if kind == "string_pattern_mismatch":
        if "[key]" in loc or loc[0] == "constraints":
            return "a name has letters, digits and _, starts with no digit, at most 64 characters"
        if loc[0] == "study":
            return "a name has letters, digits, '_', '.' and '-', at most 100 characters"
        if loc[-1] == "callable":
            return f"must be module:function, not {_short(given)}"
    text = item["msg"]
    text = text[:1].lower() + text[1:]
    if isinstance(given, str | int | float | bool | list | None):
        text += f", and is {_short(given)}" if isinstance(given, str) else f", not {_short(given)}"
    return text

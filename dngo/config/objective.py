"""The section `objective` of a study's configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from dngo.config.messages import Located
from dngo.space.parameters import Section

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Scaled(Section):
    """A section with a key `scale`, which is written only where it is not linear."""

    @model_serializer(mode="wrap")
    def _as_ever(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Archives of earlier releases do not name keys that a study does not use.
        found: dict[str, Any] = handler(self)
        if found.get("scale") == "linear":
            found.pop("scale", None)
        return found


class Objective(Scaled):
    """What to evaluate, and within which limits."""

    command: str | list[str] | None = Field(
        None,
        description="A command line. Placeholders: {NAME of a parameter}, {parameters} and {outcome} "
        "(paths of JSON documents), {progress} (a file to append lines to), {checkpoint} "
        "(a folder that stays after the evaluation), {workdir}, {id}, {seed}, {python}; "
        "{{ and }} are braces. An option in brackets, [--rate {rate}], is left out where rate is "
        "inactive. It is split into words and started without a shell. Give a "
        "list of words if quoting matters.",
    )
    callable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="A Python function, module:function, instead of a command. It gets the parameters "
        "as keywords, and returns a number or an outcome document.",
    )
    direction: Literal["minimize", "maximize"] | None = Field(
        "minimize",
        description="Whether small or large values of the objective are good. If you name "
        "`objectives`, each has its own direction.",
    )
    scale: Literal["linear", "log"] = Field(
        "linear",
        description="log: the objective is above 0 and spans decades. dngo models its logarithm, so "
        "gains and intervals are factors. A value of 0 or less is an invalid outcome. This "
        "key may change at any time.",
    )
    time_limit: float | None = Field(
        None,
        gt=0,
        description="Seconds for one evaluation. After them, dngo stops it, with the status timeout.",
    )
    memory_mb: int | None = Field(
        None,
        gt=0,
        description="Resident memory in MB of one evaluation with its children. Above it, dngo stops "
        "the evaluation, with the status out_of_memory. Default: the memory of the machine "
        "or the job.",
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables for the objective. The archive stores them, and is "
        "published with them. Put secrets into environment_from.",
    )
    environment_from: list[Variable] = Field(
        default_factory=list,
        description="Names of variables that must be set where the study runs, such as [API_TOKEN]. "
        "dngo passes them to the objective, and never stores their values.",
    )
    working_directory: str | None = Field(
        None,
        description="Folder in which the command starts. Default: the configuration file's folder.",
    )
    keep_workdir: bool = Field(
        False, description="Keep each evaluation's private folder {workdir} after it has ended."
    )
    strict: bool = Field(
        False,
        description="Refuse to go on if the command, the callable or a file that it names has changed. "
        "Otherwise dngo records the change, and reports it once.",
    )
    output_limit: int = Field(
        65536,
        ge=1024,
        le=2**26,
        description="Bytes of standard output to keep for a point, and as many of standard error.",
    )

    # Of a Python function of this process: the digest of its text, and those of its parts.
    _source: dict[str, str] = PrivateAttr(default_factory=dict)
    _function: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def source(self) -> dict[str, str]:
        """SHA-256 by name, for an objective outside files: the text of a function of this process."""
        return self._source

    @property
    def function(self) -> dict[str, str]:
        """SHA-256 by name, of the parts of a function of this process; empty for other objectives."""
        return self._function

    @model_validator(mode="after")
    def _one_of_two(self) -> Objective:
        if (self.command is None) == (self.callable is None):
            raise ValueError("give either command or callable")
        if self.command is not None and not self.command:
            raise ValueError("command is empty")
        module, _, function = (self.callable or "").partition(":")
        if module.endswith(".py"):
            right = f"{module.removesuffix('.py')}:{function}"
            raise ValueError(
                f"callable must be module:function, without .py; did you mean {right!r}?"
            )
        return self

    @model_validator(mode="after")
    def _once(self) -> Objective:
        for i, name in enumerate(self.environment_from):
            where = ("objective", "environment_from", str(i))
            if name in self.environment_from[:i]:
                raise Located(where, f"{name} is listed twice; list each variable once")
            if name in self.environment:
                raise Located(
                    where, f"{name} has a value in objective.environment too; remove one of them"
                )
        return self

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


class Objective(Section):
    """What is evaluated, and within which limits."""

    command: str | list[str] | None = Field(
        None,
        description="A command line. Placeholders: {NAME of a parameter}, {parameters} and {outcome} "
        "(paths of JSON documents), {progress} (a file to append lines to), {checkpoint} (a "
        "folder that outlives the evaluation), {workdir}, {id}, {seed}, "
        "{python}; {{ and }} are braces. It is split into words and started "
        "without a shell; give a list of words where quoting matters.",
    )
    callable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="A Python function, module:function, instead of a command. It is called "
        "with the parameters as keywords, and returns a number or an outcome document.",
    )
    direction: Literal["minimize", "maximize"] | None = Field(
        "minimize",
        description="Whether small or large values of the objective are good. Where `objectives` are "
        "named, each has its own.",
    )
    scale: Literal["linear", "log"] = Field(
        "linear",
        description="log: the objective is above 0 and spans decades. What is modelled is its logarithm, "
        "so that gains and intervals are factors; a value of 0 or less is an invalid outcome. May be "
        "changed at any time.",
    )
    time_limit: float | None = Field(
        None,
        gt=0,
        description="Seconds for one evaluation; after them it is stopped: status timeout.",
    )
    memory_mb: int | None = Field(
        None,
        gt=0,
        description="Resident memory in MB of one evaluation with its children; above that "
        "it is stopped, with the status out_of_memory. Left out: what the machine or the job has.",
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables for the objective. They are stored in the archive and published "
        "with it: a secret belongs to environment_from.",
    )
    environment_from: list[Variable] = Field(
        default_factory=list,
        description="Names of variables that must be set where the study is run, as [API_TOKEN]: they are "
        "passed on to the objective, and their values are never stored.",
    )
    working_directory: str | None = Field(
        None, description="Where the command starts; the configuration file's folder if left out."
    )
    keep_workdir: bool = Field(
        False, description="Keep each evaluation's private folder {workdir} after it has ended."
    )
    strict: bool = Field(
        False,
        description="Refuse to go on if the command, the callable or a file that it names has changed. "
        "Otherwise a change is recorded, and reported once.",
    )
    output_limit: int = Field(
        65536,
        ge=1024,
        le=2**26,
        description="Bytes of standard output that are kept for a point, and as many of standard error.",
    )

    # The digest of a function's text, by its name, where it is a Python function of this process.
    _source: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def source(self) -> dict[str, str]:
        """SHA-256 of what is evaluated besides files, by name: the text of a function of this process."""
        return self._source

    @model_serializer(mode="wrap")
    def _as_ever(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What a study does not use, archives of earlier releases do not name.
        found: dict[str, Any] = handler(self)
        if self.scale == "linear":
            found.pop("scale", None)
        return found

    @model_validator(mode="after")
    def _one_of_two(self) -> Objective:
        if (self.command is None) == (self.callable is None):
            raise ValueError("give either command or callable")
        if self.command is not None and not self.command:
            raise ValueError("command is empty")
        module, _, function = (self.callable or "").partition(":")
        if module.endswith(".py"):
            right = f"{module.removesuffix('.py')}:{function}"
            raise ValueError(f"callable is module:function, without .py; did you mean {right!r}?")
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

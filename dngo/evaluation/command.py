"""The command of a point: a list of words (never a string for a shell) and an environment."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dngo.batch import Proposal
from dngo.config import Objective
from dngo.config.placeholders import filled, names, options, words_of
from dngo.errors import UserError
from dngo.evaluation.obstacles import missing_script, script_of, shell_word
from dngo.storage.files import at_home


class CannotStart(UserError):
    """The objective cannot be started at all.

    A key of the configuration is wrong; the point is not the cause.
    """


@dataclass(frozen=True)
class Call:
    """One call of the objective.

    words: the program and its arguments; for a function, only `module:function`.
    document: the parameters as JSON, for its standard input.
    """

    words: list[str]
    environment: dict[str, str]
    document: str


@dataclass(frozen=True)
class Places:
    """The names of the files in the private folder of one evaluation."""

    workdir: Path
    checkpoint: Path | None = None  # a folder that stays after the evaluation

    @property
    def parameters(self) -> Path:
        return self.workdir / "parameters.json"

    @property
    def outcome(self) -> Path:
        return self.workdir / "outcome.json"

    @property
    def progress(self) -> Path:
        """The lines that it reports while it runs."""
        return self.workdir / "progress.jsonl"

    @property
    def stop(self) -> Path:
        """The decision to stop it, and the reason."""
        return self.workdir / "stop.json"

    @property
    def started(self) -> Path:
        """The process that runs it."""
        return self.workdir / ".started.json"

    @property
    def ended(self) -> Path:
        """Its outcome, until the outcome is on disk for good."""
        return self.workdir / ".ended.json"


def call_of(
    objective: Objective, proposal: Proposal, places: Places, parameters: list[str], seed: int
) -> Call:
    """The call that evaluates a point.

    parameters: the names in the space. An inactive one is an empty text on the command line, and an
    option in brackets that has it is left out.
    Raises CannotStart if the command line is wrong, or if its script does not exist.
    """
    known = {
        "parameters": str(places.parameters),
        "outcome": str(places.outcome),
        "workdir": str(places.workdir),
        "id": proposal.id,
        "seed": str(seed),
    }
    check_environment(objective)
    # Unless a parameter has this name, which is allowed.
    also = {"progress": str(places.progress)}
    if places.checkpoint is not None:
        also["checkpoint"] = str(places.checkpoint)
    values = {**also, **dict.fromkeys(parameters), **proposal.parameters, **known}
    values["python"] = sys.executable
    environment = {
        **os.environ,
        **objective.environment,
        **{f"DNGO_{k.upper()}": v for k, v in {**known, **also, "stop": str(places.stop)}.items()},
    }
    if objective.callable:
        return Call([objective.callable], environment, json.dumps(proposal.parameters))
    words = command_line(objective, values)
    folder = Path(objective.working_directory or ".")
    if folder.is_dir() and (missing := missing_script(words, folder, environment.get("PATH"))):
        raise CannotStart(f"objective.command: {missing}")
    return Call(words, environment, json.dumps(proposal.parameters))


def check_environment(objective: Objective) -> None:
    """Raise CannotStart if variables of `environment_from` are not set here. It names them."""
    missing = [name for name in objective.environment_from if not os.environ.get(name)]
    if missing:
        job = os.environ.get("SLURM_JOB_ID")
        where = f"in job {job} on {socket.gethostname()}" if job else "where this runs"
        names = f"{', '.join(missing)} {'are' if missing[1:] else 'is'}"
        raise CannotStart(
            f"objective.environment_from: {names} not set {where}, or empty; type `export "
            f"{missing[0]}=...` in the shell that runs the study"
            f"{'; its jobs get the variables of that shell' if job else ''}"
        )


def command_line(objective: Objective, values: dict[str, Any]) -> list[str]:
    """The words of `objective.command`, with the placeholders filled in.

    values: by name; None for a parameter that is inactive.
    Raises CannotStart for an unknown placeholder, for quotes that do not close, and for words that
    only a shell understands.
    """
    assert objective.command is not None
    try:
        words = [
            word
            for part, is_option in options(words_of(objective.command))
            if not (is_option and any(values.get(n, "") is None for w in part for n in names(w)))
            for word in part
        ]
        script = script_of(words) if words else ""
        folder = Path(objective.working_directory or ".")
        words = [at_home(w, folder) if i == 0 or w == script else w for i, w in enumerate(words)]
    except ValueError as error:
        raise CannotStart(f"objective.command: {error}; give a list of words") from None
    if not words:
        raise CannotStart("objective.command: is empty")
    if isinstance(objective.command, str) and (unknown := shell_word(words)):
        raise CannotStart(f"objective.command: {unknown}")

    def value_of(name: str) -> str:
        if name not in values:
            raise CannotStart(
                f"objective.command: {{{name}}} is neither a parameter nor a known placeholder"
            )
        value = "" if values[name] is None else values[name]
        return value if isinstance(value, str) else json.dumps(value)

    return [filled(word, value_of) for word in words]

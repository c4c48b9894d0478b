"""`dngo init`: a commented configuration and an objective that runs, as a start for your own study."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dngo.config import validate
from dngo.config.reading import check_placeholders
from dngo.errors import UserError
from dngo.outcomes import clashes
from dngo.storage.files import handing_out
from dngo.storage.text import number_in

Prompt = Callable[..., str]  # (question, default=...) to an answer, as `rich.prompt.Prompt.ask`
EXAMPLE = ("x 0 1", "y 0 1")
GRAMMAR = "NAME LOW HIGH, NAME LOW HIGH log, or NAME CHOICE,CHOICE,..."


@dataclass
class Answers:
    """What a new study begins with: its name, direction, parameters (`GRAMMAR`) and objective.

    objective: a command; empty: an objective in Python is written as well. objectives: the names of
    several, as "error,speed:maximize". at_once: evaluations side by side.
    """

    study: str
    direction: str = "minimize"
    parameters: Sequence[str] = EXAMPLE
    objective: str = ""
    objectives: str = ""
    at_once: int = field(default_factory=lambda: os.cpu_count() or 1)


def begin(path: Path, given: Mapping[str, Any], prompt: Prompt | None = None) -> list[Path]:
    """Write a configuration, and an objective if none is given. Returns what was written.

    given: fields of `Answers`; for None, `prompt` asks, or the default is taken.
    Raises UserError, and writes nothing, where a file is in the way or an answer cannot be used.
    """
    known = {name: value for name, value in given.items() if value is not None}
    answers = Answers(**{"study": study_name(path.absolute().parent), **known})
    if prompt is not None:
        _ask(answers, known, prompt)
    return _write(path, answers)


def _ask(answers: Answers, given: Mapping[str, Any], prompt: Prompt) -> None:
    """Ask for every answer that is not given. An empty answer means the default."""
    if "study" not in given:
        answers.study = prompt("Name of the study", default=answers.study)
    if "direction" not in given and "objectives" not in given:
        question = "Are small values of the objective good, or large ones?"
        choices = ["minimize", "maximize"]
        answers.direction = prompt(question, choices=choices, default=answers.direction)
    if "parameters" not in given:
        lines: list[str] = []
        while line := prompt(
            f"Parameter {len(lines) + 1} ({GRAMMAR}; nothing: no more)", default=""
        ):
            try:
                parameter(line)
            except UserError as error:
                prompt(f"{error} (Enter)", default="")
                continue
            lines.append(line)
        answers.parameters = lines or EXAMPLE
    if "objective" not in given:
        question = "Command that evaluates a point (nothing: write objective.py, to be filled in)"
        answers.objective = prompt(question, default=answers.objective)


def _write(path: Path, answers: Answers) -> list[Path]:
    files = {path: _render("config.yaml.j2", answers)}
    _check(files[path])
    if not answers.objective:
        files[path.with_name("objective.py")] = _render("objective.py.j2", answers)
    for file in files:
        if os.path.lexists(file):
            other = (
                "dngo init --objective '{python} objective.py' uses it"
                if file.name == "objective.py"
                else "dngo init OTHER.yaml writes another"
            )
            raise UserError(f"{file}: is there already, and nothing was written; {other}")
    for file, text in files.items():
        with handing_out(file) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return list(files)


def parameter(line: str) -> tuple[str, dict[str, Any]]:
    """A parameter's name and section, from a line of `GRAMMAR`; raises UserError."""
    name, _, rest = line.strip().partition(" ")
    words = rest.split()
    if len(words) == 1 and "," in words[0]:
        return name, {"type": "categorical", "choices": words[0].strip(",").split(",")}
    numbers = words[:2]
    if len(numbers) == 2 and words[2:] in ([], ["log"]):
        low, high = (number_in(n) for n in numbers)
        if low is not None and high is not None:
            whole = isinstance(low, int) and isinstance(high, int)
            # People who write 0 1 mean a real number between them.
            found = "int" if whole and (low, high) != (0, 1) else "float"
            log = {"log": True} if words[2:] else {}
            return name, {"type": found, "low": low, "high": high, **log}
    raise UserError(f"parameter {line.strip()!r}: is not {GRAMMAR}")


def named(text: str) -> dict[str, str]:
    """Several objectives as they are typed, "error,speed:maximize": directions by name.

    Raises UserError.
    """
    found: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        name, _, direction = (part.strip() for part in word.partition(":"))
        if direction not in ("", "minimize", "maximize"):
            raise UserError(
                f"--objectives: {name} is to minimize or to maximize, not {direction!r}"
            )
        if name in found:
            raise UserError(f"--objectives: {name} is there twice")
        found[name] = direction or "minimize"
    return found


def study_name(folder: Path) -> str:
    """A name for the study in a folder: the folder's name, without signs that a study's name cannot
    have."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.name).strip("-._")[:100] or "study"


def _render(template: str, answers: Answers) -> str:
    from jinja2 import Environment, FileSystemLoader

    space = [parameter(line) for line in answers.parameters]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(flow=_flow, best=_best, span=_span)
    objectives = named(answers.objectives)
    return environment.get_template(template).render(
        answers=answers, space=space, batch=max(4, answers.at_once), objectives=objectives
    )


def _best(section: dict[str, Any], number: int = 0) -> Any:
    """Where the example objective is best along one parameter. number: which of several
    objectives."""
    if "choices" in section:
        return section["choices"][-1 - number % len(section["choices"])]
    low, high = section["low"], section["high"]
    share = 0.3 + 0.5 * number / (number + 1)
    value = low * (high / low) ** share if "log" in section else low + share * (high - low)
    return round(value) if section["type"] == "int" else float(f"{value:.2g}")


def _span(section: dict[str, Any]) -> float:
    """The scale of one parameter, for the example objective."""
    low, high = section["low"], section["high"]
    return float(f"{math.log(high / low) if 'log' in section else high - low:.3g}")


def _flow(value: Any) -> str:
    """Plain data on one line of YAML, as a configuration has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w-]*", value):
        return "'" + value + "'" if value.lower() in ("null", "true", "false") else value
    return json.dumps(value)


def _check(text: str) -> None:
    from ruamel.yaml import YAML

    config = validate(YAML(typ="safe", pure=True).load(text), source="answers")
    check_placeholders(config, {}, "answers")
    wrong = clashes(*config.names)
    if wrong:
        raise UserError("\n".join(f"answers: {line}" for line in wrong))

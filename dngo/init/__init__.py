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
CONDITION = "if OTHER=VALUE"  # may follow a parameter
CONSTRAINT = "NAME <= BOUND, NAME >= BOUND, or NAME for true or false"


@dataclass
class Answers:
    """What a new study begins with: its name, direction, parameters (`GRAMMAR`, and `CONDITION`),
    constraints (`CONSTRAINT`) and objective.

    objective: a command; empty: an objective in Python is written as well. objectives: the names of
    several, as "error,speed:maximize". at_once: evaluations side by side.
    """

    study: str
    direction: str = "minimize"
    parameters: Sequence[str] = EXAMPLE
    objective: str = ""
    objectives: str = ""
    constraints: Sequence[str] = ()
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
        answers.parameters = _lines("Parameter", f"{GRAMMAR}; {CONDITION}", _usable, prompt)
        answers.parameters = answers.parameters or EXAMPLE
    if "constraints" not in given and "parameters" not in given:
        answers.constraints = _lines("Constraint that it reports", CONSTRAINT, constraint, prompt)
    if "objective" not in given:
        question = "Command that evaluates a point (nothing: write objective.py, to be filled in)"
        answers.objective = prompt(question, default=answers.objective)


def _lines(
    what: str, grammar: str, read: Callable[[str], tuple[str, Any]], prompt: Prompt
) -> list[str]:
    """The lines that somebody types until an empty one. A line that cannot be used is asked for again."""
    lines: list[str] = []
    said = ""
    while line := prompt(
        f"{said}{what} {len(lines) + 1} ({grammar}; nothing: no more)", default=""
    ):
        try:
            found = read(line)
            _check_names([*(read(earlier) for earlier in lines), found])
        except UserError as error:
            said = f"{error}\n"
            continue
        lines.append(line)
        said = f"{whole}\n" if (whole := taken_as_whole(*found)) else ""
    return lines


def _usable(line: str) -> tuple[str, dict[str, Any]]:
    """What `parameter` reads, if a study may have it; raises UserError."""
    name, section = parameter(line)
    alone = {k: v for k, v in section.items() if k != "active_if"}
    validate(
        {"study": "s", "objective": {"command": "c"}, "space": {name: alone}}, source="answers"
    )
    return name, section


def _check_names(found: Sequence[tuple[str, Any]]) -> None:
    """Raise UserError if two parameters, or two constraints, have one name."""
    names = [name for name, _ in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{twice[0]}: this name is given twice")


def taken_as_whole(name: str, section: Any) -> str:
    """A line for a parameter that was taken as a whole number; "" for any other."""
    if not isinstance(section, dict) or section.get("type") != "int":
        return ""
    low, high = section["low"], section["high"]
    return f"{name}: a whole number from {low} to {high}; {name} {low}.0 {high}.0 is a real one"


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
    line, when, condition = line.strip().partition(" if ")
    name, _, rest = line.strip().partition(" ")
    words = rest.split()
    if when:
        other, equals, values = condition.replace(" ", "").partition("=")
        if not (other and equals and values):
            raise UserError(f"parameter {name!r}: {condition.strip()!r} is not OTHER=VALUE")
        name, section = parameter(line)
        known = [v if (n := number_in(v)) is None else n for v in values.split(",")]
        return name, {**section, "active_if": {other: known if known[1:] else known[0]}}
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


def constraint(line: str) -> tuple[str, str | bool]:
    """A constraint's name, and its bound or true, from a line of `CONSTRAINT`; raises UserError."""
    found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*([<>]=?\s*\S+)?\s*", line)
    bound = found[2] if found else None
    number = number_in(bound.lstrip("<>= ")) if bound else None
    if found is None or (bound and number is None):
        raise UserError(f"constraint {line.strip()!r}: is not {CONSTRAINT}")
    return found[1], f"{bound[0]}= {number}" if bound else True


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

    space = _conditional([parameter(line) for line in answers.parameters])
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(flow=_flow, best=_best, span=_span)
    constraints = [constraint(line) for line in answers.constraints]
    _check_names(space)
    _check_names(constraints)
    objectives = named(answers.objectives)
    return environment.get_template(template).render(
        answers=answers,
        space=space,
        batch=max(4, answers.at_once),
        objectives=objectives,
        constraints=constraints,
    )


def _conditional(space: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The space, with the values in conditions as the other parameter has them: choices are texts."""
    texts = {name for name, section in space if "choices" in section}
    for _, section in space:
        for other, values in section.get("active_if", {}).items():
            if other in texts:
                found = [str(v) for v in (values if isinstance(values, list) else [values])]
                section["active_if"] = {other: found if found[1:] else found[0]}
    # Arguments with a default, as these have in objective.py, come last there.
    return sorted(space, key=lambda pair: "active_if" in pair[1])


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

"""Writes a study that began in Python as a configuration for Snakemake."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

from dngo.config import Config, validate
from dngo.config.pages import as_yaml
from dngo.config.presets import spread
from dngo.errors import UserError
from dngo.evaluation.function import MAIN
from dngo.storage.files import handing_out, in_the_way
from dngo.study import Study

# The defaults of other keys rest on these.
NEEDED = ("study", "objective", "objectives", "space", "preset")
HEAD = """\
# The study {study}, which was begun in Python. To go on with it, raise `iterations`: dngo run {file}
# All keys: docs/configuration.md. What stands under `space` can no longer change.
"""


def write_config(study: Study, path: str | Path | None, objective: str | None) -> Path:
    """Write the configuration of a study to a new file, or to one that already says the same.

    objective: "module:function" or a command; by default the function that was evaluated.
    Raises UserError if no other process can import that function, or if another file is in the way.
    """
    config = study.config
    file = Path(path if path is not None else f"{config.study}.yaml")
    document = as_yaml(_document(config, file, objective), flow=None, width=100)
    text = HEAD.format(study=config.study, file=file.name) + document
    if file.exists() and file.read_text(encoding="utf-8", errors="replace") != text:
        raise in_the_way(file)
    if not file.exists():
        with handing_out(file) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return file


def _document(config: Config, file: Path, objective: str | None) -> dict[str, Any]:
    """The content of the file: all keys that differ from their defaults.

    Paths are relative to its folder.
    """
    folder = file.absolute().parent
    whole = config.model_dump(mode="json")
    given = config.model_dump(mode="json", exclude_unset=True)
    needed = {n: given[n] for n in NEEDED if n in given}
    defaults = validate(spread(needed), source=str(file), is_archived=True).model_dump(mode="json")
    here = ("study", "results", "objective", "points_per_job", "points_at_once")
    given = {
        n: v
        for n, v in given.items()
        if n not in here and (n in needed or whole[n] != defaults.get(n))  # it lacks unused keys
    }
    section = {
        **config.objective.model_dump(mode="json", exclude_defaults=True),
        **_evaluated(config, objective, folder),
    }
    section = {k: v for k, v in section.items() if v is not None}
    found = {
        "study": config.study,
        "results": os.path.relpath(config.results, folder),
        "objective": section,
        **given,
        "iterations": config.iterations,
        "batch_size": config.batch_size,
    }
    if config.needs:
        found["needs"] = [os.path.relpath(name, folder) for name in config.needs]
    validate(found, source=str(file))
    return found


def _evaluated(config: Config, objective: str | None, folder: Path) -> dict[str, Any]:
    """The objective that Snakemake evaluates; raises UserError if Snakemake cannot find it."""
    if objective is not None:
        kind = "command" if " " in objective or ":" not in objective else "callable"
        none = {"command": None, "callable": None, "working_directory": None}
        return {**none, kind: objective}
    name = config.objective.callable
    place = config.objective.working_directory
    if name is None:
        return {}
    module, _, function = name.partition(":")
    if module == MAIN:
        raise UserError(
            f"write_config: {function} exists in this process only (a notebook, a lambda, "
            "or inside another function), but Snakemake starts other processes; put it "
            "into a file, for example objective.py, and call "
            f"write_config(objective='objective:{function}')"
        )
    if place is None:
        return {}
    source = Path(place) / f"{module.replace('.', '/')}.py"
    if source.is_file() and _begins_something(source):
        raise UserError(
            f"write_config: importing {source} for {function} would begin the study again; "
            "put the call below `if __name__ == '__main__':`"
        )
    relative = os.path.relpath(place, folder)
    return {"working_directory": None if relative == "." else relative}


def _begins_something(source: Path) -> bool:
    """Whether an import of a file would call `minimize`, `maximize` or `optimize`."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    for statement in tree.body:
        if isinstance(statement, ast.If | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue  # code below a condition is its writer's decision
        for node in ast.walk(statement):
            name = getattr(
                getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", "")
            )
            if isinstance(node, ast.Call) and name in ("minimize", "maximize", "optimize"):
                return True
    return False

"""A study that begins in Python, or goes on there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dngo.api.parameters import sections
from dngo.api.session import Session
from dngo.config import Config, validate
from dngo.config.messages import nearest
from dngo.errors import UserError
from dngo.evaluation.function import MAIN
from dngo.replay import configuration
from dngo.storage.plain import plain
from dngo.study import Study

FOLDER = "dngo-studies"
_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []  # each is removed as the process ends
UNKNOWN = f"{MAIN}:objective"  # of a study whose outcomes are reported by hand


def create(
    name: str | None,
    space: Mapping[str, Any],
    *,
    direction: str = "minimize",
    constraints: Any = None,
    folder: str | Path = FOLDER,
    **settings: Any,
) -> Session:
    """A study by its name: a new one, or the existing one, which goes on.

    name: its folder in `folder`; None: a temporary one, which is gone with this process.
    space: a mapping of names to parameters: (0, 1) or (1e-5, 1, "log") for a real number, `Int(1, 9)`,
    `Float(...)`, a list for a choice, `Choice(...)`, a value for a constant.
    constraints: what is reported beside the objective, and what is to hold:
    {"temperature": "<= 350", "converged": True}.
    settings: other keys of a configuration (docs/configuration.md), as seed=1, batch_size=8,
    surrogate="gp", stop={"target": 0.1}; objectives={"error": "minimize", "speed": "maximize"} of several,
    in place of the direction.
    Nothing is written yet. Raises UserError for a mistake, and where the study of that name is another
    one: its space, direction and constraints cannot change.
    """
    place = Path(folder if name is not None else _temporary()).absolute()
    given = {
        **_known(settings),
        "study": "temporary" if name is None else name,
        "results": str(place),
        "objective": {
            # Each of several objectives has a direction of its own.
            **(
                {}
                if "objectives" in settings and direction == "minimize"
                else {"direction": direction}
            ),
            **_limits(settings.get("objective")),
        },
        "space": sections(space),
        "constraints": plain(constraints) if constraints is not None else {},
    }
    config = validate(given, source="create")
    study = Study(config)
    header = study.header()  # checks that it is the same study, and that no names clash
    flying = study.in_flight(header.iterations if header else 0)
    if header or flying:
        last = (
            validate(flying[-1].config, is_archived=True)
            if flying
            else configuration(study.archive, study.merged() - 1)
        )
        study = Study(_going_on(config, last))
    return Session(study.archive, study)


def _temporary() -> str:
    """A folder that lasts as long as this process."""
    _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="dngo-"))
    return _TEMPORARY[-1].name


def _known(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a configuration has them; raises UserError for a name that is no key."""
    keys = [n for n in Config.model_fields if n not in ("study", "results", "space", "constraints")]
    for name in settings:
        if name not in keys:
            raise UserError(
                f"create: {name} is no setting{nearest(name, keys) or '; known: ' + ', '.join(keys)}"
            )
    found: dict[str, Any] = plain({n: v for n, v in settings.items() if n != "objective"})
    return found


def _limits(objective: Any) -> dict[str, Any]:
    """The limits of the objective: what a call gives besides the function."""
    given = dict(objective) if isinstance(objective, Mapping) else {}
    if objective is not None and not isinstance(objective, Mapping):
        raise UserError("create: objective: is a mapping of limits, as {'time_limit': 60}")
    if not given.keys() & {"command", "callable"}:
        given["callable"] = UNKNOWN
    return given


def _going_on(config: Config, last: Config) -> Config:
    """The configuration of a study that goes on: its objective is known already."""
    if config.objective.callable != UNKNOWN:
        return config
    keys = ("command", "callable", "working_directory")
    known = {key: getattr(last.objective, key) for key in keys}
    changes: dict[str, Any] = {"objective": config.objective.model_copy(update=known)}
    if "iterations" not in config.model_fields_set:
        changes["iterations"] = last.iterations
    return config.model_copy(update=changes)


def minimize(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int,
    *,
    name: str | None = "",
    workers: int = 1,
    progress: bool | None = None,
    **settings: Any,
) -> Session:
    """Minimise a Python function, and hand back the study: `best()` has `.objective` and `.parameters`.

    function: is given the parameters by name, or all of them as one mapping. It returns a number, or
    {"objective": 0.1, "constraints": {...}}, or several objectives by their names; an exception is a
    failed outcome.
    evaluations: of the study in all: the same call goes on with what is missing, after Ctrl-C too.
    name: of the study, `dngo-studies/NAME`; the function's by default, None for a temporary one.
    workers, progress: as in `Session.optimize`. settings: as in `create`, and its other arguments.
    Raises UserError, Halted (a UserError) where the function looks mistaken, KeyboardInterrupt.
    """
    return _best(function, space, evaluations, "minimize", name, workers, progress, settings)


def maximize(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int,
    *,
    name: str | None = "",
    workers: int = 1,
    progress: bool | None = None,
    **settings: Any,
) -> Session:
    """The same as `minimize` where large values are good."""
    return _best(function, space, evaluations, "maximize", name, workers, progress, settings)


def _best(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int,
    direction: str,
    name: str | None,
    workers: int,
    progress: bool | None,
    settings: Mapping[str, Any],
) -> Session:
    if name == "":
        named = re.sub(r"\W+", "_", getattr(function, "__name__", type(function).__name__))
        name = named.strip("_") or "study"
    session = create(name, space, direction=direction, **settings)
    return session.optimize(function, evaluations, workers=workers, progress=progress)

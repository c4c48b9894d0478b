"""Begin a study in Python, or go on with it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dngo import archive
from dngo.api.parameters import sections
from dngo.api.session import Session
from dngo.config import Config, resolved, validate
from dngo.config.messages import nearest
from dngo.config.paths import usable
from dngo.elsewhere import in_our_words
from dngo.errors import UserError
from dngo.evaluation.function import MAIN, default_name
from dngo.objects import ROLES, given
from dngo.replay import configuration
from dngo.storage.files import at_home
from dngo.storage.plain import plain
from dngo.study import Study

FOLDER = "dngo-studies"
# Temporary folders, removed when the process ends.
_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []
HOW = ("name", "workers", "executor", "progress")  # a function is evaluated, beside the settings
# Keys of a configuration whose values `minimize` would replace.
DECIDED = {
    "iterations": "the number of evaluations decides when the study ends",
    "points_per_job": "evaluations are not grouped in jobs here; batch_size=... is the size of a batch",
    "points_at_once": "write workers=... for evaluations side by side",
}
UNKNOWN = f"{MAIN}:objective"  # of a study without an objective: people report its outcomes


@in_our_words
def create(
    name: str | None,
    space: Mapping[str, Any],
    *,
    direction: str = "minimize",
    constraints: Any = None,
    folder: str | Path = FOLDER,
    **settings: Any,
) -> Session:
    """Begin the study of this name, or go on with the existing one.

    name: the study's, and its folder's within `folder`; None: a temporary folder that lasts as long
    as this process.
    space: a mapping of names to parameters: (0, 1) or (1e-5, 1, "log") for a real number, `Int(1,
    9)`, `Float(...)`, a list for a choice, `Choice(...)`, a value for a constant.
    constraints: values that are reported with the objective, and what must hold: {"temperature":
    "<= 350", "converged": True}.
    settings: other keys of a configuration (docs/configuration.md), such as seed=1, batch_size=8,
    surrogate="gp", stop={"target": 0.1}. A surrogate may also be an object with `fit` and
    `predict`, and an acquisition a function of drawn values (docs/own-models.md). For several
    objectives: objectives={"error": "minimize", "speed": "maximize"} instead of the direction.
    Raises UserError for a mistake, or if the existing study has another space, direction or
    constraints: they cannot change.

    Nothing is written yet.
    """
    place = Path(at_home(str(folder)) if name is not None else _temporary()).absolute()
    given = {
        **_known(settings),
        "study": "temporary" if name is None else name,
        "results": str(place),
        "objective": {
            # With several objectives, each has its own direction.
            **(
                {}
                if "objectives" in settings and direction == "minimize"
                else {"direction": direction}
            ),
            **_limits(settings.get("objective")),
        },
        "space": sections(space),
        "constraints": constraints if callable(constraints) else plain(constraints or {}),
    }
    config = resolved(given, source="create")
    if config.needs:
        needs = [usable(path, Path(), "create: needs") for path in config.needs]
        config = config.model_copy(update={"needs": needs})
    study = Study(config)
    archive.check(study.archive)
    header = study.header()  # checks that the study is the same, and that no names clash
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
    """Settings as in a configuration; raises UserError for an unknown key."""
    keys = [n for n in Config.model_fields if n not in ("study", "results", "space", "constraints")]
    for name in settings:
        if name not in keys:
            raise UserError(
                f"create: {name} is no setting"
                f"{nearest(name, [*keys, *HOW]) or '; known: ' + ', '.join(keys)}"
            )
    told = {name: _named(name, value) for name, value in settings.items() if name != "objective"}
    found: dict[str, Any] = plain(told)
    return found


def _named(key: str, value: Any) -> Any:
    """A setting, or the reference to an object that is given in its place."""
    if key not in ROLES or value is None or isinstance(value, str | Mapping | BaseModel):
        return value
    return {"kind": "own", **given(value, key).model_dump()}


def _limits(objective: Any) -> dict[str, Any]:
    """The limits of the objective, which a call may give in addition to the function."""
    given = dict(objective) if isinstance(objective, Mapping) else {}
    if objective is not None and not isinstance(objective, Mapping):
        raise UserError(
            "create: objective: must be a mapping of limits, for example {'time_limit': 60}"
        )
    if not given.keys() & {"command", "callable"}:
        if "working_directory" in given:
            raise UserError(
                "create: objective.working_directory: a function runs in the folder of its process; "
                "leave it out, and call os.chdir"
            )
        given["callable"] = UNKNOWN
    return given


def _going_on(config: Config, last: Config) -> Config:
    """The configuration of a study that goes on, with the objective that it already has."""
    if config.objective.callable != UNKNOWN:
        return config
    keys = ("command", "callable", "working_directory")
    known = {key: getattr(last.objective, key) for key in keys}
    changes: dict[str, Any] = {"objective": config.objective.model_copy(update=known)}
    if "iterations" not in config.model_fields_set:
        changes["iterations"] = last.iterations
    return config.model_copy(update=changes)


@in_our_words
def minimize(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int,
    *,
    name: str | None = "",
    workers: int | None = None,
    executor: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> Session:
    """Minimise a Python function and return the study; its `best()` has `.objective` and `.parameters`.

    function: takes the parameters by name, or all of them as one mapping. It returns a number, or
    {"objective": 0.1, "constraints": {...}}, or several objectives by their names; an exception
    becomes a failed outcome.
    evaluations: the total of the study. After Ctrl-C, the same call makes the missing ones.
    name: the study's; its folder is `dngo-studies/NAME`. By default the function's name; None: a
    temporary study.
    workers, executor, progress: as in `Session.optimize`.
    settings: as in `create`, and its other arguments.
    Raises UserError, KeyboardInterrupt, or Halted (a UserError) if failures look like a mistake in
    the function.
    """
    how = {"workers": workers, "executor": executor, "progress": progress}
    return _best(function, space, evaluations, "minimize", name, settings, how)


@in_our_words
def maximize(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int,
    *,
    name: str | None = "",
    workers: int | None = None,
    executor: Any = None,
    progress: bool | None = None,
    **settings: Any,
) -> Session:
    """Like `minimize`, but large values are good."""
    how = {"workers": workers, "executor": executor, "progress": progress}
    return _best(function, space, evaluations, "maximize", name, settings, how)


def _best(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int,
    direction: str,
    name: str | None,
    settings: Mapping[str, Any],
    how: Mapping[str, Any],
) -> Session:
    if "direction" in settings:
        raise UserError("direction: call dngo.minimize or dngo.maximize instead")
    for key in (key for key in settings if key in DECIDED):
        raise UserError(f"{key}: {DECIDED[key]}; leave it out")
    if name == "":
        name = default_name(function)
    session = create(name, space, direction=direction, **settings)
    return session.optimize(function, evaluations, **how)

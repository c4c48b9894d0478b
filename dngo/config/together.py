"""Keys of a configuration that must fit each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dngo.config.fidelity import Fidelity
from dngo.config.keys import COMPLETED, Keys
from dngo.config.messages import ALL_FIXED, Located, as_yaml, nearest, short
from dngo.config.placeholders import RESERVED
from dngo.fronts import MOST
from dngo.space import ExpressionError, Space, parameters
from dngo.space.columns import contradicted, never
from dngo.space.names import marked_number


def check(config: Keys, *, is_new: bool) -> None:
    """Raise Located for a key that does not fit the others.

    is_new: not of an archive, which an earlier release may have written.
    """
    for name, parameter in config.space.items():
        if name in RESERVED:
            raise Located(("space", name), f"{name!r} is a placeholder of the command; rename it")
        for parent, wanted in parameter.active_if.items():
            _check_condition(config, name, parent, wanted)
        if is_new:
            _check_prior(name, parameter)
        if isinstance(parameter, parameters.Fixed) and parameter.active_if:
            raise Located(("space", name, "active_if"), "a fixed parameter cannot be conditional")
    _check_cycles(config.space)
    if all(isinstance(p, parameters.Fixed) for p in config.space.values()):
        raise Located(("space",), ALL_FIXED)
    _check_known(config, is_new=is_new)
    for each in (_check_objectives, _check_labels, _check_fidelity, _check_wavering):
        each(config)
    if is_new:
        _check_reached(config)
    if COMPLETED in config.constraints:
        raise Located(("constraints",), f"{COMPLETED!r} is always there; choose another name")


def _check_known(config: Keys, *, is_new: bool) -> None:
    """Check that known constraints can be read, and that the design's first point keeps them."""
    columns = Space(dict(config.space))
    for i, text in enumerate(config.space_constraints):
        where = ("space_constraints", str(i))
        try:
            space = Space(dict(config.space), [text])
        except ExpressionError as error:
            raise Located(where, str(error)) from None
        if is_new and (number := marked_number(text)):
            right = number.replace("_", "")
            raise Located(where, f"{short(text)!r}: {number} is not a number; write {right}")
        of_fixed = [c for c in space.conditions if not c.columns]
        if is_new and not all(c.holds(columns.defaults())[0] for c in of_fixed):
            raise Located(where, f"{short(text)!r} never holds with the fixed values")
        if config.design.include_default and not space.holds(columns.defaults())[0]:
            named = {columns.columns[j].name for c in space.conditions for j in c.columns}
            point = columns.to_parameters(columns.defaults())[0]
            values = ", ".join(f"{n} = {point[n]}" for n in point if n in named)
            raise Located(
                where,
                f"{short(text)!r} does not hold at the defaults ({values}), which are evaluated "
                "first; give these parameters a default that keeps it, or set "
                "design.include_default: false",
            )


def _check_prior(name: str, parameter: parameters.Parameter) -> None:
    if (prior := parameter.prior) is None:
        return
    where = ("space", name, "prior")
    if isinstance(parameter, parameters.Fixed):
        raise Located(where, "a fixed parameter can have no other value; remove it")
    if not parameters.admits(parameter, prior.value) or parameters.off_grid(parameter, prior.value):
        raise Located(
            (*where, "value"),
            f"{name} never has the value {as_yaml(prior.value)}; {_range(parameter)}",
        )
    if not parameter.is_ordered and prior.width >= 1:
        raise Located((*where, "width"), "is a probability, so it must be less than 1")


def _check_condition(config: Keys, name: str, parent: str, wanted: list[Any]) -> None:
    where = ("space", name, "active_if", parent)
    if parent == name:
        raise Located(where, "a parameter cannot depend on itself")
    if parent not in config.space:
        raise Located(where, f"there is no parameter {parent!r}{nearest(parent, config.space)}")
    parameter = config.space[parent]
    for value in wanted:
        if not parameters.admits(parameter, value):
            raise Located(
                where, f"{parent} never has the value {as_yaml(value)}; {_range(parameter)}"
            )
    if isinstance(parameter, parameters.Fixed) and parameter.value not in wanted:
        raise Located(
            where,
            f"{parent} is fixed at {as_yaml(parameter.value)}, so it is never active; remove it",
        )


def _check_reached(config: Keys) -> None:
    """Check that each value in a condition is possible for its parameter."""
    for name, parameter in config.space.items():
        for parent, wanted in parameter.active_if.items():
            if why := never(parent, config.space[parent], wanted):
                raise Located(("space", name, "active_if", parent), why)
        if parent := contradicted(name, config.space):
            why = (
                "its conditions, with its parents' conditions, leave {} no value, so it is "
                "never active"
            )
            raise Located(("space", name, "active_if"), why.format(parent))


def _range(parameter: Any) -> str:
    if isinstance(parameter, parameters.Real | parameters.Whole) and parameter.values is None:
        return f"it ranges from {parameter.low} to {parameter.high}"
    if isinstance(parameter, parameters.Real | parameters.Whole):
        return f"its values are {short(parameter.values)}"
    if isinstance(parameter, parameters.Listed):
        return f"its choices are {short(list(parameter.listed))}"
    return "it is true or false" if isinstance(parameter, parameters.Boolean) else "it is fixed"


def _check_cycles(space: Mapping[str, Any]) -> None:
    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            chain = " -> ".join((*path[path.index(name) :], name))
            raise Located(("space", name, "active_if"), f"the conditions form a circle: {chain}")
        for parent in space[name].active_if:
            visit(parent, (*path, name))

    for name in space:
        visit(name, ())


def _check_objectives(config: Keys) -> None:
    """Raise Located if keys of a study with several objectives do not fit each other."""
    aims, objective = config.objectives, config.objective
    _check_target(config)
    _check_log(config)
    if not aims:
        if objective.direction is None:
            raise Located(("objective", "direction"), "must be 'minimize' or 'maximize'")
        if config.stop.hypervolume_gain is not None:
            raise Located(("stop", "hypervolume_gain"), "is for several `objectives`")
        return
    if objective.direction is not None:
        raise Located(
            ("objective", "direction"),
            "each of `objectives` has its own direction; remove this one",
        )
    if len(aims) > MOST:
        raise Located(
            ("objectives",),
            f"are {len(aims)}, but at most {MOST} are possible: with more, nearly every "
            "point is on the front; turn some of them into constraints with a bound",
        )
    if len(aims) > 1:
        _check_several(config)


def _check_log(config: Keys) -> None:
    if config.objectives and config.objective.scale == "log":
        name = min(config.objectives)
        raise Located(
            ("objective", "scale"),
            f"each of `objectives` has its own scale: {name}: {{scale: log}}; remove this one",
        )
    logs = [(n, aim) for n, aim in config.objectives.items() if aim.scale == "log"]
    values: dict[tuple[str, ...], float | None]
    values = {("objectives", name, "reference"): aim.reference for name, aim in logs}
    if config.positive and not config.has_several:
        values["acquisition", "at"] = getattr(config.acquisition, "at", None)
    for where, value in values.items():
        if value is not None and value <= 0:
            raise Located(where, f"must be above 0 on a logarithmic scale, but is {value:g}")
    for name in ("expected_improvement", "distance"):
        if config.positive and not config.has_several and getattr(config.stop, name) is not None:
            raise Located(
                ("stop", name),
                "is in the objective's units, but on a logarithmic scale (objective.scale) "
                "a gain is a factor; leave it out",
            )


def _check_several(config: Keys) -> None:
    several = "works only with one objective; with several, use"
    for name in ("expected_improvement", "distance"):
        if getattr(config.stop, name) is not None:
            raise Located(("stop", name), f"{several} `stop.hypervolume_gain`")
    if config.optimum is not None:
        raise Located(("optimum",), f"{several} the `reference` of each, or `stop.target`")
    if config.early_stopping is not None and not config.early_stopping.takes_several:
        raise Located(
            ("early_stopping", "kind"),
            f"{config.early_stopping.kind} {several} median, quantile or asha",
        )
    if not config.acquisition.takes_several:
        name = getattr(config.acquisition, "sampler", config.acquisition.kind)
        raise Located(
            ("acquisition", "kind"),
            f"{name} {several} mcei, thompson, random, sobol, or a sampler of optuna: tpe, nsgaii, gp",
        )


def _check_target(config: Keys) -> None:
    target, where = config.stop.target, ("stop", "target")
    if not config.has_several:
        if isinstance(target, dict):
            raise Located(where, "must be a number, since there is one objective")
        return
    if target is None:
        return
    if not isinstance(target, dict) or not target:
        names = ", ".join(f"{name}: a number" for name in config.directions)
        raise Located(where, f"must have a value for objectives by name: {{{names}}}")
    for name in target:
        if name not in config.objectives:
            known = ", ".join(config.directions)
            hint = nearest(name, config.objectives) or f"; the objectives are {known}"
            raise Located((*where, name), f"is not an objective{hint}")


def _check_fidelity(config: Keys) -> None:
    """Raise Located if the section does not fit the others."""
    section, kind = config.fidelity, config.acquisition.kind
    if section is None:
        if config.acquisition.needs_fidelity:
            raise Located(
                ("acquisition", "kind"),
                f"{kind} needs the section `fidelity`, which names a parameter: "
                "{parameter: epochs, low: 3, high: 81}",
            )
        return
    _check_parameter(config, section.parameter)
    _check_range(config, section)
    _check_supported(config, section.parameter)


def _check_parameter(config: Keys, name: str) -> None:
    where = ("fidelity", "parameter")
    if name not in config.space:
        raise Located(where, f"there is no parameter {name!r}{nearest(name, config.space)}")
    parameter = config.space[name]
    if not isinstance(parameter, parameters.Float | parameters.Int):
        raise Located(where, f"{name} is neither a float nor an int")
    if parameter.active_if:
        raise Located(where, f"{name} is conditional, but every point must have this parameter")
    for other, its in config.space.items():
        if name in its.active_if:
            raise Located(
                where, f"{other} depends on {name}, but a promoted point keeps its parameters"
            )
    if parameter.prior is not None:
        raise Located(("space", name, "prior"), "a fidelity has no best value to expect; remove it")
    for i, text in enumerate(config.space_constraints):
        if re.search(rf"\b{name}\b", text):
            raise Located(
                ("space_constraints", str(i)),
                f"names the fidelity {name}; every point has it, so leave it out",
            )
    if len(config.search_space.columns) < 2:
        raise Located(
            where, f"{name} is the only parameter that varies: there is nothing to search"
        )


def _check_range(config: Keys, section: Fidelity) -> None:
    (column,) = (c for c in config.search_space.columns if c.name == section.parameter)
    low = column.low if section.low is None else section.low
    high = column.high if section.high is None else section.high
    for key, value in (("low", low), ("high", high)):
        if value <= 0:
            raise Located(
                ("fidelity", key), f"must be above 0, but {section.parameter} begins at {value:g}"
            )
        if not column.low <= value <= column.high:
            raise Located(
                ("fidelity", key),
                f"{value:g} is outside the range of {section.parameter}, {column.low:g} to {column.high:g}",
            )
    if low >= high:
        raise Located(("fidelity", "low"), f"{low:g} must be below high, {high:g}")
    found = config.ladder
    if found is None or len(found.levels) < 2:
        raise Located(("fidelity",), f"{section.parameter} has one value from {low:g} to {high:g}")


def _check_supported(config: Keys, name: str) -> None:
    kind = config.acquisition.kind
    if config.transfer:
        raise Located(("transfer",), "so far works only without `fidelity`")
    if config.acquisition.is_baseline and not config.acquisition.needs_fidelity:
        raise Located(
            ("acquisition", "kind"),
            f"{kind} promotes no points; with `fidelity`, use successive_halving or a kind "
            "with a surrogate",
        )
    if getattr(config.acquisition, "replicates", "never") == "always":
        raise Located(
            ("acquisition", "replicates"),
            "with `fidelity` no point is evaluated twice at the same level; leave it out",
        )


def _check_labels(config: Keys) -> None:
    """Raise Located for a label that names neither a parameter nor a reported value."""
    known = [*config.space, *config.constraints, *(config.objectives or ["objective"])]
    for name in config.labels:
        if name not in known:
            raise Located(
                ("labels", name),
                f"there is no {name!r}{nearest(name, known) or '; known: ' + ', '.join(known)}",
            )


def _check_wavering(config: Keys) -> None:
    """Raise Located for a wavering input that is no number of the space."""
    for name in getattr(config.acquisition, "within", {}):
        where, found = ("acquisition", "within", name), config.space.get(name)
        if found is None:
            raise Located(where, f"there is no parameter {name!r}{nearest(name, config.space)}")
        if not isinstance(found, parameters.Number):
            raise Located(where, f"{name} is no number, so it cannot waver; remove it")

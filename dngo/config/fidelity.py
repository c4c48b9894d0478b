"""The section `fidelity` of a study's configuration: the parameter that starts low for new points."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import Field

from dngo.config.messages import Located, nearest
from dngo.space.parameters import Finite, Float, Int, Section

if TYPE_CHECKING:
    from dngo.config.model import Config


class Fidelity(Section):
    """A parameter that starts low for new points: epochs, the points of a mesh, a share of the data."""

    parameter: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
        description="Its name: a float or an int of the space. The best point is the best at its highest "
        "value.",
    )
    low: Finite | None = Field(
        None,
        gt=0,
        description="The value at new points; the parameter's lowest value if left out.",
    )
    high: Finite | None = Field(
        None,
        gt=0,
        description="The value that counts in the end; the parameter's highest value if left out.",
    )
    factor: float = Field(
        3.0,
        ge=1.5,
        le=100,
        description="The ratio of each level to the level before it. It is adjusted slightly, so that "
        "the levels end at `high`. Of this many points at a level, one is promoted to the next "
        "level.",
    )


def check(config: Config) -> None:
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


def _check_parameter(config: Config, name: str) -> None:
    where = ("fidelity", "parameter")
    if name not in config.space:
        raise Located(where, f"there is no parameter {name!r}{nearest(name, config.space)}")
    parameter = config.space[name]
    if not isinstance(parameter, Float | Int):
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


def _check_range(config: Config, section: Fidelity) -> None:
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


def _check_supported(config: Config, name: str) -> None:
    kind = config.acquisition.kind
    if config.has_several:
        raise Located(
            ("fidelity",),
            f"so far works only with one objective; with several, make {name} a fixed parameter",
        )
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

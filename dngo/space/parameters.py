"""The description of one parameter, as `space:` in config.yaml has it.

These models are the source of truth for the configuration's schema. They check each parameter by
itself; `dngo.config` checks the conditions between them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from dngo.space.grids import EXACT, ROUNDING, Grid
from dngo.space.ranges import fault_of_range, fault_of_values
from dngo.space.scales import LINEAR, LOGARITHMIC, Scale
from dngo.storage.text import composed, number_in

MAX_CHOICES = 1000
MAX_TEXT = 200


def _scalar(value: Any) -> Any:
    """A choice as it was typed: `true` stays a boolean and 1 an integer."""
    if value is None:
        raise ValueError("is empty; null and ~ are words in quotes")
    if isinstance(value, str) and not 1 <= len(value) <= MAX_TEXT:
        raise ValueError(f"text must have 1 to {MAX_TEXT} characters, not {len(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be finite")
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be text, a number or a boolean")
    return value


Value = Annotated[
    Any,
    PlainValidator(_scalar),
    WithJsonSchema({"type": ["boolean", "number", "string"], "maxLength": MAX_TEXT}),
]
ARCHIVED = {"archived": True}
"""Context for the validation of an archive's space: earlier releases accepted spaces that are
refused now."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


def archived(info: ValidationInfo) -> bool:
    """Whether the validated space comes from an archive. Then it is accepted if it can be read."""
    return bool(info.context and info.context.get("archived"))


class Section(BaseModel):
    """A section of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Prior(Section):
    """Where a person believes the optimum to be."""

    value: Value = Field(description="The value that is believed to be best.")
    width: Finite = Field(
        0.1,
        gt=0,
        le=10,
        description="How uncertain that is: one standard deviation, as a share of the parameter's "
        "range, on its logarithmic scale if it has one. Of categories: the probability that another "
        "one is best.",
    )


class Parameter(Section):
    """The fields of every type of parameter. is_ordered: whether the order of its values has a
    meaning."""

    is_ordered: ClassVar[bool] = True

    prior: Prior | None = Field(
        None,
        description="Where the optimum is believed to be: {value: 0.01, width: 0.1}. The search "
        "begins there, and what is believed counts for less with every evaluation.",
    )

    active_if: dict[str, list[Value]] = Field(
        default_factory=dict,
        description="Conditions on other parameters: name to a value or a list of values. The "
        "parameter exists only where all of them hold.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_value_is_a_list(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("active_if"), dict):
            conditions = {
                k: v if isinstance(v, list) else [v] for k, v in data["active_if"].items()
            }
            return {**data, "active_if": conditions}
        return data


class Number(Parameter):
    """A number: a base of `float` and `int`, and of types of other packages through `Real` and `Whole`."""

    whole: ClassVar[bool]
    log: bool = Field(False, description="Search on a logarithmic scale; needs positive values.")

    @property
    def scale(self) -> Scale:
        """The scale on which it is searched; another package's type may have a scale of its own."""
        return LOGARITHMIC if self.log else LINEAR

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Number:
        low, high, values, step = (getattr(self, n) for n in ("low", "high", "values", "step"))
        whole = self.whole
        if values is not None:
            if low is not None or high is not None or step is not None:
                raise ValueError("give either values, or low and high (and step), not both")
            if len(set(values)) != len(values):
                raise ValueError("values has a number twice; list each one once")
            low, high = min(values), max(values)
        elif low is None or high is None:
            raise ValueError("needs low and high, or a list of values")
        elif not low < high:
            raise ValueError(
                f"low ({low}) must be below high ({high}); for one value use {{type: fixed}}"
            )
        if whole and max(abs(low), abs(high)) > EXACT:
            raise ValueError(
                f"integers beyond 2^53 ({EXACT}) cannot be told apart in floating point"
            )
        if self.log and low <= 0:
            raise ValueError(f"log: true needs values above zero, and the lowest is {low}")
        if step is not None and step <= 0:
            raise ValueError(f"step must be above zero, not {step}")
        if step is not None and step > high - low:
            raise ValueError(f"step ({step}) is wider than the range {low} to {high}")
        if values is not None:
            fault = fault_of_values(values, scale=self.scale, whole=whole)
        else:
            fault = fault_of_range(low, high, step, scale=self.scale, whole=whole)
        if fault and not archived(info):
            raise ValueError(fault)
        self._check_default(low, high, archived(info))
        return self

    def _check_default(self, low: float, high: float, is_archived: bool) -> None:
        default, values, step = (getattr(self, n) for n in ("default", "values", "step"))
        if default is None:
            return
        if values is not None and default not in values:
            raise ValueError(f"default {default} is not one of the listed values")
        if not low <= default <= high:
            raise ValueError(f"default {default} is outside the range {low} to {high}")
        if values is None and step is not None:
            near = Grid.of(low, high, step).nearest(default)
            # Release 0.1.0 accepted values that were a millionth of a step off the grid.
            if abs(near - default) > (1e-6 if is_archived else ROUNDING) * step:
                raise ValueError(f"default {default} is not on the grid; next to it is {near:.15g}")


class Real(Number):
    """A real number in [low, high], or one of the listed values."""

    whole: ClassVar[bool] = False
    type: str
    low: Finite | None = Field(None, description="Lowest value.")
    high: Finite | None = Field(None, description="Highest value.")
    step: Finite | None = Field(None, description="Grid: low, low + step, ...")
    values: list[Finite] | None = Field(
        None, min_length=1, max_length=MAX_CHOICES, description="Listed values instead of a range."
    )
    default: Finite | None = Field(None, description="Start value; the middle if left out.")


class Float(Real):
    """A real number in [low, high], or one of the listed values."""

    type: Literal["float"]


class Whole(Number):
    """A whole number in [low, high], or one of the listed values."""

    whole: ClassVar[bool] = True
    type: str
    low: int | None = Field(None, description="Lowest value.")
    high: int | None = Field(None, description="Highest value.")
    step: int | None = Field(None, description="Grid: low, low + step, ...")
    values: list[int] | None = Field(
        None, min_length=1, max_length=MAX_CHOICES, description="Listed values instead of a range."
    )
    default: int | None = Field(None, description="Start value; the middle if left out.")


class Int(Whole):
    """A whole number in [low, high], or one of the listed values."""

    type: Literal["int"]


class Listed(Parameter):
    """One of several values: a base of `categorical` and `ordinal`, and of types of other
    packages."""

    default: Value | None = Field(None, description="Start value.")

    @property
    def listed(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Listed:
        shown = [repr(c) for c in self.listed]
        if len(set(shown)) != len(shown):
            raise ValueError("a choice is listed twice; list each one once")
        if (pair := alike(self.listed)) and not archived(info):
            raise ValueError(
                f"{_in_yaml(pair[0])} and {_in_yaml(pair[1])} look alike in tables, files and "
                "commands; list one of them, or give them other names"
            )
        if self.default is not None and repr(self.default) not in shown:
            raise ValueError(f"default {self.default!r} is not one of {list(self.listed)}")
        return self


def _in_yaml(choice: Any) -> str:
    return repr(choice) if isinstance(choice, str) else json.dumps(choice)


def alike(listed: Sequence[Any]) -> tuple[Any, Any] | None:
    """Two choices that look the same in a table or to a reader, if there are any."""
    texts: dict[str, str] = {}
    for choice in (c for c in listed if isinstance(c, str)):
        if texts.setdefault(composed(choice), choice) != choice:
            return texts[composed(choice)], choice
    words = {str(c).lower(): c for c in listed if isinstance(c, bool)}
    numbers: dict[float, Any] = {}
    for choice in listed:
        if isinstance(choice, int | float) and not isinstance(choice, bool):
            if choice in numbers:
                return numbers[choice], choice
            numbers[choice] = choice
    for choice in (c for c in listed if isinstance(c, str)):
        number = number_in(choice)
        if number is not None and number in numbers:
            return numbers[number], choice
        if choice.lower() in words:
            return words[choice.lower()], choice
    return None


class Categorical(Listed):
    """One of several choices without an order."""

    is_ordered: ClassVar[bool] = False
    type: Literal["categorical"]
    choices: list[Value] = Field(min_length=2, max_length=MAX_CHOICES, description="The choices.")

    @property
    def listed(self) -> tuple[Any, ...]:
        return tuple(self.choices)


class Ordinal(Listed):
    """One of several values whose order has a meaning; the model sees them equally spaced."""

    type: Literal["ordinal"]
    values: list[Value] = Field(
        min_length=2, max_length=MAX_CHOICES, description="The values, in order."
    )

    @property
    def listed(self) -> tuple[Any, ...]:
        return tuple(self.values)


class Boolean(Parameter):
    """True or false."""

    is_ordered: ClassVar[bool] = False
    type: Literal["boolean"]
    default: StrictBool | None = Field(None, description="Start value.")


class Fixed(Parameter):
    """A constant. Every job gets it, and no model sees it."""

    type: Literal["fixed"]
    value: Value = Field(description="The constant.")


def admits(parameter: Parameter, value: Any) -> bool:
    """Whether a parameter can ever have this value."""
    if isinstance(parameter, Fixed):
        return repr(parameter.value) == repr(value)
    if isinstance(parameter, Boolean):
        return isinstance(value, bool)
    if isinstance(parameter, Listed):
        return repr(value) in [repr(c) for c in parameter.listed]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    assert isinstance(parameter, Real | Whole)
    if parameter.values is not None:
        return value in parameter.values
    assert parameter.low is not None and parameter.high is not None
    return parameter.low <= value <= parameter.high


def off_grid(parameter: Parameter, value: Any) -> bool:
    """Whether a value within the range lies between the values that a parameter can have."""
    if not isinstance(parameter, Real | Whole) or parameter.low is None or parameter.high is None:
        return False
    step = parameter.step or (1 if parameter.whole else None)
    if step is None:
        return False
    near = Grid.of(parameter.low, parameter.high, step).nearest(value)
    return abs(near - value) > ROUNDING * step


def text(value: Any) -> str:
    """A value as a text that `json.loads` reads back; what is text already stays as it is."""
    return value if isinstance(value, str) else json.dumps(value)


def is_listed(parameter: Parameter) -> bool:
    """Whether a parameter has listed values without a range: `choices` has them."""
    return isinstance(parameter, Boolean | Fixed | Listed)


def choices(parameter: Parameter) -> tuple[Any, ...]:
    """The values of a parameter without a range."""
    if isinstance(parameter, Boolean):
        return False, True
    if isinstance(parameter, Fixed):
        return (parameter.value,)
    assert isinstance(parameter, Listed)
    return parameter.listed

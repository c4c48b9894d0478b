"""The typed description of one parameter, as `space:` in config.yaml has it.

These models are the source of truth for the configuration's schema. They check what one parameter
can be checked for alone; `dngo.config` checks the conditions between them.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    model_validator,
)

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
Finite = Annotated[float, Field(allow_inf_nan=False)]


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
        description="How far off that may be, one standard deviation: a share of the parameter's "
        "range, on its logarithmic scale if it has one. Of categories: the probability that another "
        "one is best.",
    )


class Parameter(Section):
    """What every kind of parameter has."""

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


class _Numeric(Parameter):
    log: bool = Field(False, description="Search on a logarithmic scale; needs positive values.")

    @model_validator(mode="after")
    def _check(self) -> _Numeric:
        low, high, values, default = (
            getattr(self, name) for name in ("low", "high", "values", "default")
        )
        if values is not None:
            if low is not None or high is not None or getattr(self, "step", None) is not None:
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
        if self.log and low <= 0:
            raise ValueError(f"log: true needs values above zero, and the lowest is {low}")
        if values is not None and len(values) > 1:
            _check_apart(sorted(math.log(x) if self.log else x for x in values))
        step = getattr(self, "step", None)
        if step is not None:
            if step <= 0:
                raise ValueError(f"step must be above zero, not {step}")
            if step > high - low:
                raise ValueError(f"step ({step}) is wider than the range {low} to {high}")
        if default is not None:
            if values is not None and default not in values:
                raise ValueError(f"default {default} is not one of the listed values")
            if not low <= default <= high:
                raise ValueError(f"default {default} is outside the range {low} to {high}")
            if step is not None and values is None:
                steps = (default - low) / step
                if abs(steps - round(steps)) > 1e-6:
                    raise ValueError(
                        f"default {default} is not on the grid {low}, {low + step}, ... of step"
                    )
        return self


def _check_apart(places: list[float]) -> None:
    if min(b - a for a, b in pairwise(places)) < 1e-9 * (places[-1] - places[0]):
        raise ValueError("two values are too close to be told apart; list one of them")


class Float(_Numeric):
    """A real number in [low, high], or one of the listed values."""

    type: Literal["float"]
    low: Finite | None = Field(None, description="Lowest value.")
    high: Finite | None = Field(None, description="Highest value.")
    step: Finite | None = Field(None, description="Grid: low, low + step, ...")
    values: list[Finite] | None = Field(
        None,
        min_length=1,
        max_length=MAX_CHOICES,
        description="Listed values, in place of a range.",
    )
    default: Finite | None = Field(None, description="Start value; the middle if left out.")


class Int(_Numeric):
    """A whole number in [low, high], or one of the listed values."""

    type: Literal["int"]
    low: int | None = Field(None, description="Lowest value.")
    high: int | None = Field(None, description="Highest value.")
    step: int | None = Field(None, description="Grid: low, low + step, ...")
    values: list[int] | None = Field(
        None,
        min_length=1,
        max_length=MAX_CHOICES,
        description="Listed values, in place of a range.",
    )
    default: int | None = Field(None, description="Start value; the middle if left out.")

    @model_validator(mode="after")
    def _exact(self) -> Int:
        numbers = [self.low, self.high, *(self.values or [])]
        if any(n is not None and abs(n) > 2**53 for n in numbers):
            raise ValueError("integers beyond 2^53 (about 9e15) cannot be told apart by the model")
        return self


class _Listed(Parameter):
    default: Value | None = Field(None, description="Start value.")

    @property
    def listed(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @model_validator(mode="after")
    def _check(self) -> _Listed:
        shown = [repr(c) for c in self.listed]
        if len(set(shown)) != len(shown):
            raise ValueError("a choice is listed twice; list each one once")
        if self.default is not None and repr(self.default) not in shown:
            raise ValueError(f"default {self.default!r} is not one of {list(self.listed)}")
        return self


class Categorical(_Listed):
    """One of several choices without an order."""

    type: Literal["categorical"]
    choices: list[Value] = Field(min_length=2, max_length=MAX_CHOICES, description="The choices.")

    @property
    def listed(self) -> tuple[Any, ...]:
        return tuple(self.choices)


class Ordinal(_Listed):
    """One of several values whose order means something, equally spaced for the model."""

    type: Literal["ordinal"]
    values: list[Value] = Field(
        min_length=2, max_length=MAX_CHOICES, description="The values, in order."
    )

    @property
    def listed(self) -> tuple[Any, ...]:
        return tuple(self.values)


class Boolean(Parameter):
    """True or false."""

    type: Literal["boolean"]
    default: StrictBool | None = Field(None, description="Start value.")


class Fixed(Parameter):
    """A constant that every job is given and no model sees."""

    type: Literal["fixed"]
    value: Value = Field(description="The constant.")


AnyParameter = Annotated[
    Float | Int | Categorical | Ordinal | Boolean | Fixed, Field(discriminator="type")
]


def admits(parameter: Parameter, value: Any) -> bool:
    """Whether a parameter can ever have this value."""
    if isinstance(parameter, Fixed):
        return repr(parameter.value) == repr(value)
    if isinstance(parameter, Boolean):
        return isinstance(value, bool)
    if isinstance(parameter, _Listed):
        return repr(value) in [repr(c) for c in parameter.listed]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    assert isinstance(parameter, Float | Int)
    if parameter.values is not None:
        return value in parameter.values
    assert parameter.low is not None and parameter.high is not None
    return parameter.low <= value <= parameter.high


def text(value: Any) -> str:
    """A value as text that `json.loads` reads back; what is text already stays as it is."""
    return value if isinstance(value, str) else json.dumps(value)


def choices(parameter: Parameter) -> tuple[Any, ...]:
    """What a parameter without a range may be."""
    if isinstance(parameter, Boolean):
        return False, True
    if isinstance(parameter, Fixed):
        return (parameter.value,)
    assert isinstance(parameter, Ordinal | Categorical)
    return parameter.listed

"""A section of the configuration that is one of several kinds, each with exactly the keys that act.

``acquisition: {kind: lcb, kappa: 1}`` is an object of the class whose `kind` is lcb, and so is
``acquisition: lcb``, with its defaults. Other packages add kinds by entry points.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from importlib.metadata import entry_points
from operator import or_
from typing import Annotated, Any

from pydantic import BaseModel, Field, SerializeAsAny, WrapValidator
from pydantic_core import PydanticKnownError


class Kinds:
    """The classes that a section may be of.

    classes: models whose field `kind` has its only value as default; the first is the default.
    group: the entry points by which other packages add such classes, each named as its kind.
    """

    def __init__(self, *classes: type[BaseModel], group: str) -> None:
        self.classes = {str(c.model_fields["kind"].default): c for c in classes}
        self.default, self.group = next(iter(self.classes)), group

    def __call__(self, given: Any = None, /, **keywords: Any) -> Any:
        """Settings of a kind, of a mapping or of keywords; raises pydantic's ValidationError."""
        document = self._document(keywords if given is None else given)
        return self.find(document["kind"]).model_validate(document)

    def find(self, kind: str) -> type[BaseModel]:
        """The class of a kind, of this package or of another; raises ValueError."""
        if kind in self.classes:
            return self.classes[kind]
        for point in entry_points(group=self.group, name=kind):
            return point.load()
        raise ValueError(f"kind must be one of {', '.join(self.names())}, not {kind}")

    def names(self) -> list[str]:
        """Every kind there is, those of other packages last."""
        return [*self.classes, *sorted(entry_points(group=self.group).names)]

    @property
    def field(self) -> Any:
        """The type of a pydantic field that holds such a section."""
        union: Any = reduce(or_, self.classes.values())
        return Annotated[
            union,
            SerializeAsAny(),
            Field(discriminator="kind"),
            WrapValidator(self._validate, json_schema_input_type=str | union),
        ]

    def _validate(self, given: Any, known: Any) -> Any:
        if isinstance(given, BaseModel):
            return given
        document = self._document(given)
        kind = document["kind"]
        if kind in self.classes or kind not in self.names():
            return known(document)
        return self.find(kind).model_validate(document)

    def _document(self, given: Any) -> dict[str, Any]:
        if isinstance(given, str):
            return {"kind": given}
        if not isinstance(given, Mapping):
            raise PydanticKnownError("model_type", {"class_name": self.default})
        return {"kind": self.default, **given}

"""A section of the configuration that has several kinds. Each kind has exactly the keys that it uses.

``acquisition: {kind: lcb, kappa: 1}`` gives an object of the class whose `kind` is lcb. ``acquisition:
lcb`` gives the same with defaults. All kinds come in through entry points (`dngo.plugins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, reduce
from operator import or_
from typing import Annotated, Any

from pydantic import BaseModel, Field, SerializeAsAny, ValidationInfo, WrapValidator
from pydantic_core import PydanticKnownError

from dngo.plugins import Registry


class Kinds:
    """The possible classes of a section.

    group: of the entry points. Each is named after its kind, and leads to a model whose field `key`
    has that name. default: the kind if none is named; empty if one must be named.
    """

    def __init__(self, *, group: str, default: str = "", key: str = "kind") -> None:
        self.registry, self.default, self.key = Registry(group), default, key

    @cached_property
    def classes(self) -> dict[str, type[BaseModel]]:
        """This package's classes, by kind. They are imported at their first use."""
        return {kind: self.registry.find(kind) for kind in self.registry.own}

    def __call__(self, given: Any = None, /, **keywords: Any) -> Any:
        """Settings of a kind, from a mapping or from keywords; raises pydantic's ValidationError."""
        document = self._document(keywords if given is None else given)
        return self.find(document[self.key]).model_validate(document)

    def find(self, kind: str) -> type[BaseModel]:
        """The class of a kind, from this package or another; raises ValueError."""
        try:
            found: type[BaseModel] = self.registry.find(kind)
        except LookupError as error:
            raise ValueError(f"{self.key} {error}") from None
        return found

    @property
    def field(self) -> Any:
        """The type of a pydantic field that holds such a section."""
        union: Any = reduce(or_, self.classes.values())
        tagged = Annotated[union, Field(discriminator=self.key)]
        return Annotated[
            union,
            SerializeAsAny(),
            Field(discriminator=self.key),
            WrapValidator(
                self._validate, json_schema_input_type=str | union if self.default else tagged
            ),
        ]

    def _validate(self, given: Any, known: Any, info: ValidationInfo) -> Any:
        if isinstance(given, BaseModel):
            return given
        if not self.default and not isinstance(given, Mapping):
            return known(given)
        document = self._document(given)
        kind = document.get(self.key)
        if not isinstance(kind, str) or kind in self.classes or kind not in self.registry.names():
            return known(document)
        return self.find(kind).model_validate(document, context=info.context)

    def _document(self, given: Any) -> dict[str, Any]:
        if not self.default:
            return dict(given)
        if isinstance(given, str):
            return {self.key: given}
        if not isinstance(given, Mapping):
            raise PydanticKnownError("model_type", {"class_name": self.default})
        return {self.key: self.default, **given}

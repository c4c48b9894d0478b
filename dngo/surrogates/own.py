"""A surrogate that people wrote: any object with `fit(x, y)` and `predict(x)`."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np

from dngo.errors import UserError
from dngo.objects import Reference, find, is_known
from dngo.surrogates.component import Component
from dngo.surrogates.storage import stored_as
from dngo.types import Array, Group


@stored_as("own")
class OwnComponent(Component):
    """The object, fitted to points x (n, d) and targets (n,).

    A file has the points and the targets. The object is fitted again where it is needed, so no file
    holds code, and an object need not know how to write itself.
    """

    def __init__(
        self, reference: Reference, x: Array, targets: Array, noise: Array, weight: float = 1.0
    ):
        self.reference, self.x, self.targets = reference, x, targets
        self.noise, self.weight = noise, weight

    @property
    def is_known(self) -> bool:
        return is_known(self.reference)

    @cached_property
    def _fitted(self) -> Any:
        model = find(self.reference)
        model.fit(self.x.copy(), self.targets.copy())
        return model

    def latent(self, z: Array) -> tuple[Array, Array]:
        found = self._fitted.predict(z.copy())
        try:
            mean, deviation = (np.asarray(part, dtype=float).reshape(len(z)) for part in found)
        except (TypeError, ValueError):
            mean = deviation = np.empty(0)
        if len(mean) != len(z) or not (np.isfinite(mean) & (deviation >= 0)).all():
            raise UserError(
                f"{self.reference.name}: predict must return two arrays for {len(z)} points, finite means "
                "and deviations of 0 or more"
            )
        return mean[None], np.maximum(deviation, 1e-9)[None] ** 2

    def save(self, group: Group) -> None:
        for name in ("x", "targets", "noise"):
            group.create_dataset(name, data=getattr(self, name))
        group.attrs["object"] = self.reference.model_dump_json()
        group.attrs["weight"] = self.weight

    @classmethod
    def load(cls, group: Group) -> OwnComponent:
        reference = Reference.model_validate(json.loads(str(group.attrs["object"])))
        x, targets, noise = (group[name][()] for name in ("x", "targets", "noise"))
        return cls(reference, x, targets, noise, float(group.attrs["weight"]))

"""Surrogates: models of the objective and of the constraints.

`fit_model` fits a `Model` to `TrainingData`. Importing this package is cheap; the numerical
modules are loaded when a name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dngo.surrogates.data import EarlierTask, TargetScale, TrainingData
    from dngo.surrogates.fit import fit_model
    from dngo.surrogates.model import Model
    from dngo.surrogates.problem import Past

# A release raises it if the same data, settings and random stream give another surrogate, or if it
# is stored in another way.
FIT_VERSION = 3

_HOMES = {
    "EarlierTask": "dngo.surrogates.data",
    "TargetScale": "dngo.surrogates.data",
    "TrainingData": "dngo.surrogates.data",
    "Past": "dngo.surrogates.problem",
    "Model": "dngo.surrogates.model",
    "fit_model": "dngo.surrogates.fit",
}

__all__ = [
    "FIT_VERSION",
    "EarlierTask",
    "Model",
    "Past",
    "TargetScale",
    "TrainingData",
    "fit_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

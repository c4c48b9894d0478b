"""Surrogates: models of the objective and of the constraints.

`fit_model` fits a `Model` to `TrainingData`. Importing this package is cheap; the numerical
modules are loaded when a name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dngo.lazy import attributes

if TYPE_CHECKING:
    from dngo.surrogates.data import EarlierTask, TargetScale, TrainingData
    from dngo.surrogates.fit import fit_model
    from dngo.surrogates.model import Model
    from dngo.surrogates.problem import Past

# A release raises it if the same data, settings and random stream give another surrogate, or if it
# is stored in another way.
FIT_VERSION = 3

_HOMES = {
    "data": ["EarlierTask", "TargetScale", "TrainingData"],
    "fit": ["fit_model"],
    "model": ["Model"],
    "problem": ["Past"],
}
__getattr__ = attributes(__name__, _HOMES)

__all__ = [
    "FIT_VERSION",
    "EarlierTask",
    "Model",
    "Past",
    "TargetScale",
    "TrainingData",
    "fit_model",
]

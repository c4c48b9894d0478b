"""The kinds of acquisition of this room. Imports nothing heavy."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from pydantic import Field

from dngo.acquisition.settings import NAMED, RANDOM, Acquisition


class Optuna(Acquisition, json_schema_extra=NAMED):
    """A baseline: a sampler of the package Optuna proposes."""

    is_baseline = True
    kind: Literal["optuna"] = "optuna"
    sampler: Literal["tpe", "gp", "cmaes", "nsgaii", "qmc", "random"] = Field(
        default="tpe", description="tpe, gp, cmaes, nsgaii, qmc or random."
    )

    @property
    def stage_names(self) -> tuple[str, ...]:
        return ("dngo.rivals.optuna:Optuna", RANDOM)

    @property
    def missing_package(self) -> str:
        for name in ("optuna", *(["cmaes"] if self.sampler == "cmaes" else [])):
            if find_spec(name) is None:
                return (
                    f"{self.sampler} needs the Python package {name}: pip install 'dngo[exchange]'"
                )
        return ""

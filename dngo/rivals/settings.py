"""The kinds of acquisition for comparison. This module imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from dngo.acquisition.settings import NAMED, Acquisition
from dngo.errors import UserError
from dngo.plugins import to_install

if TYPE_CHECKING:
    from dngo.acquisition.state import Stage


def uniform_points() -> Stage:
    """The stage of a random baseline, and of a baseline that has nothing better left."""
    from dngo.rivals.baselines import Random

    return Random()


class Random(Acquisition, json_schema_extra=NAMED):
    """A baseline: uniform points, without a surrogate."""

    is_baseline, takes_several = True, True
    kind: Literal["random"] = "random"

    def stages(self) -> Sequence[Stage]:
        return [uniform_points()]


class Sobol(Acquisition, json_schema_extra=NAMED):
    """A baseline: the design's scrambled sequence, continued."""

    is_baseline, takes_several = True, True
    kind: Literal["sobol"] = "sobol"

    def stages(self) -> Sequence[Stage]:
        from dngo.rivals.baselines import Sobol

        return [Sobol()]


class SuccessiveHalving(Acquisition, json_schema_extra=NAMED):
    """A baseline for studies with `fidelity`: uniform points, the best of each level promoted (asynchronous
    successive halving, Li et al. 2020; of several objectives, Schmucker et al. 2021)."""

    is_baseline, needs_fidelity, takes_several = True, True, True
    kind: Literal["successive_halving"] = "successive_halving"

    def stages(self) -> Sequence[Stage]:
        return [uniform_points()]


class Optuna(Acquisition, json_schema_extra=NAMED):
    """A baseline: a sampler of Optuna proposes."""

    is_baseline = True
    kind: Literal["optuna"] = "optuna"
    sampler: Literal["tpe", "gp", "cmaes", "nsgaii", "qmc", "random"] = Field(
        default="tpe", description="tpe, gp, cmaes, nsgaii, qmc or random."
    )

    def stages(self) -> Sequence[Stage]:
        if self.missing_package:
            raise UserError(f"acquisition.sampler: {self.missing_package}")
        from dngo.rivals.optuna import Optuna as Sampled

        return [Sampled(self.sampler), uniform_points()]

    @property
    def takes_several(self) -> bool:  # type: ignore[override]
        """Whether the sampler knows several objectives."""
        return self.sampler != "cmaes"

    @property
    def missing_package(self) -> str:
        for name in ("optuna", *(["cmaes"] if self.sampler == "cmaes" else [])):
            if find_spec(name) is None:
                return f"{self.sampler} needs the Python package {name}: {to_install(name)}"
        return ""

"""Finds objects by name. They may come from other packages: types of parameters, kinds of
surrogates and acquisitions, presets, ways to train bases, parts of a surrogate in a file, formats
of an export, trackers, figures.

Other packages add objects to a group by entry points. Optional parts of this package are found in
the same way: `OWN` has the form of entry points, and works without an installation.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, requires
from typing import Any

_SURROGATES, _PAPERS = "dngo.surrogates.settings:", "dngo.papers."
_EXCHANGE, _PARAMETERS = "dngo.exchange.", "dngo.space.parameters:"
_STOPPING = "dngo.stopping.settings:"
_ACQUISITION, _RIVALS = "dngo.acquisition.settings:", "dngo.rivals.settings:"

# group -> name -> module:object. The order in a group is the order for readers.
OWN: Mapping[str, Mapping[str, str]] = {
    "dngo.parameters": {
        "float": _PARAMETERS + "Float",
        "int": _PARAMETERS + "Int",
        "categorical": _PARAMETERS + "Categorical",
        "ordinal": _PARAMETERS + "Ordinal",
        "boolean": _PARAMETERS + "Boolean",
        "fixed": _PARAMETERS + "Fixed",
    },
    "dngo.surrogates": {
        "auto": _SURROGATES + "Auto",
        "adaptive_basis": _PAPERS + "settings:AdaptiveBasis",
        "gp": _SURROGATES + "ExactProcess",
        "bohamiann": _PAPERS + "settings:Bohamiann",
        "least_squares": _PAPERS + "settings:LeastSquares",
        "own": _SURROGATES + "Own",
    },
    "dngo.acquisition": {
        "mcei": _ACQUISITION + "Mcei",
        "learn": _ACQUISITION + "Learn",
        "level_set": _ACQUISITION + "LevelSet",
        "robust": _ACQUISITION + "Robust",
        "own": _ACQUISITION + "OwnGain",
        "pi": _PAPERS + "acquisitions:Pi",
        "lcb": _PAPERS + "acquisitions:Lcb",
        "thompson": _ACQUISITION + "Thompson",
        "random": _RIVALS + "Random",
        "sobol": _RIVALS + "Sobol",
        "successive_halving": _RIVALS + "SuccessiveHalving",
        "optuna": _RIVALS + "Optuna",
    },
    "dngo.stoppings": {
        "median": _STOPPING + "Median",
        "quantile": _STOPPING + "Quantile",
        "asha": _STOPPING + "Asha",
        "model": "dngo.stopping.model:Predicted",
    },
    "dngo.presets": {
        "dngo": _PAPERS + "presets:DNGO",
        "dngo-2015": _PAPERS + "presets:DNGO_2015",
        "dngo-preprint": _PAPERS + "presets:DNGO_PREPRINT",
        "gp-ei-mcmc-2012": _PAPERS + "presets:GP_EI_MCMC_2012",
        "gp-ei-per-second-2012": _PAPERS + "presets:GP_EI_PER_SECOND_2012",
        "bohamiann-2016": _PAPERS + "presets:BOHAMIANN_2016",
        "bohamiann-2016-transfer": _PAPERS + "presets:BOHAMIANN_2016_TRANSFER",
        "brofos-2015": _PAPERS + "presets:BROFOS_2015",
    },
    "dngo.trainings": {
        "map": "dngo.surrogates.training:train_networks",
        "evidence": _PAPERS + "evidence:train_on_evidence",
    },
    "dngo.exports": {
        "csv": _EXCHANGE + "csv_table:write",
        "parquet": _EXCHANGE + "parquet:write",
        "optuna": _EXCHANGE + "optuna:write",
        "ro-crate": _EXCHANGE + "ro_crate:write",
        "archive": _EXCHANGE + "copy:write",
        "wandb": _EXCHANGE + "wandb:write",
    },
    "dngo.trackers": {"mlflow": _EXCHANGE + "mlflow:Tracker"},
    "dngo.components": {
        "finite_basis": "dngo.surrogates.linear:FiniteBasis",
        "own": "dngo.surrogates.own:OwnComponent",
        "gaussian_process": "dngo.surrogates.gaussian_process:GaussianProcess",
        "network": "dngo.surrogates.network:Network",
        "network_and_cosines": "dngo.surrogates.network:WithCosines",
        "network_and_waves": "dngo.surrogates.network:WithWaves",
        "logistic": "dngo.surrogates.classifier:Laplace",
        "step": _PAPERS + "step:Step",
        "sampled_basis": _PAPERS + "sampled:SampledBasis",
        "sampled_networks": _PAPERS + "sampled:SampledNetworks",
    },
}


@dataclass(frozen=True)
class Registry:
    """The objects of one group, by name.

    If a name is in this package, it means this package's object.
    """

    group: str

    @cached_property
    def own(self) -> dict[str, EntryPoint]:
        """The objects of this package."""
        found = OWN.get(self.group, {})
        return {name: EntryPoint(name, value, self.group) for name, value in found.items()}

    def names(self) -> list[str]:
        """All names, with those of other packages last."""
        return [*self.own, *sorted(_of_others(self.group).names - self.own.keys())]

    def find(self, name: str) -> Any:
        """Import and return the object of a name; raises LookupError that lists all names."""
        if name in self.own:
            return self.own[name].load()
        for point in _of_others(self.group).select(name=name):
            return point.load()
        raise LookupError(f"must be one of {', '.join(self.names())}, not {name}")


def _of_others(group: str) -> EntryPoints:
    """The entry points of all packages. They are read again only if the packages' folders change."""
    return _read(group, tuple((place, _changed(place)) for place in sys.path))


def _changed(place: str) -> int:
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _read(group: str, places: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def to_install(name: str) -> str:
    """The command that installs an optional package, by the name under which it is imported."""
    wanted = {"sklearn": "scikit-learn"}.get(name, name)
    with contextlib.suppress(PackageNotFoundError):
        for line in requires("dngo") or ():
            needed = line.partition(";")[0].strip()
            if re.match(rf"{re.escape(wanted)}(?![\w.-])", needed):
                return f"pip install {shlex.quote(needed)}"
    return f"pip install {wanted}"

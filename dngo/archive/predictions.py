"""A surrogate's predictions of the batch that it proposed. The archive keeps them with the model.

Audits, reports and scores need only these predictions of older surrogates. So an archive may drop
older surrogates (`archive.surrogates: last`). The predictions are a matrix with a row for each
point of the batch. Each column is a pair: the kind of prediction, and its subject.

``probability`` NAME
    that a constraint holds; ``base rate`` NAME if only its base rate is known
``mean``, ``std`` NAME
    of the number of a constraint with a threshold
``cost``
    expected, if costs are modelled
``density``, ``level`` PART
    of the outcome: its log predictive density, in the objective's units, and the predicted
    probability of a lower value; NaN if the objective did not run. PART is ``all``, or one kind of
    a mixture: ``gp`` or ``adaptive_basis``. With several objectives it is NAME, or NAME with
    ``/gp`` and so on
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np

from dngo.archive.layout import foreseen_columns
from dngo.archive.reading import read_surrogate, reading
from dngo.types import Array
from dngo.units import Units, units_of

if TYPE_CHECKING:
    from dngo.surrogates import Model

NAME = "foreseen"  # the dataset's, next to the model
Foreseen = dict[tuple[str, str], Array]


def foresee(
    model: Model,
    x: Array,
    y: Array,
    constraints: Iterable[str],
    objectives: Mapping[str, Array] | None = None,
) -> Foreseen:
    """A model's predictions at points, by kind and by name: (n,) each.

    x: (n, d) encoded.
    y: (n,) the measured objectives, with the sign that is minimised; NaN if unknown.
    constraints: the names to predict, if the model knows them.
    objectives: like y, by name, if there are several.
    """
    found: Foreseen = {}
    for name in sorted({*constraints} & {*model.classifiers}):
        belief = model.classifiers[name]
        what = "base rate" if belief.is_constant else "probability"
        found[what, name] = belief.probability(x)
        if hasattr(belief, "predict"):
            found["mean", name], found["std", name] = belief.predict(x)
    if model.cost is not None:
        found["cost", ""] = model.cost.expected(x)[0]
    _judge(found, model, x, y, "")
    for name in sorted({*(objectives or {})} & {*model.objectives}):
        assert objectives is not None
        _judge(found, model.objectives[name], x, objectives[name], name)
    return found


def _judge(found: Foreseen, model: Model, x: Array, y: Array, name: str) -> None:
    """Add the densities of the objective's outcomes. name: which one of several objectives."""
    known = np.isfinite(y)
    for part, judged in _parts(model).items():
        density, level = np.full((2, len(x)), np.nan)
        if known.any():
            density[known], level[known] = judged.log_density(x[known], y[known])
        own = (f"{name}/{part}" if part != "all" else name) if name else part
        found["density", own], found["level", own] = density, level


def _parts(model: Model) -> dict[str, Model]:
    """The model of the objective, and each kind of a mixture by itself."""
    from dngo.surrogates.gaussian_process import GaussianProcess

    processes = tuple(c for c in model.objective if isinstance(c, GaussianProcess))
    parts = {"all": model.objective} if model.objective else {}
    if 0 < len(processes) < len(model.objective):
        others = (c for c in model.objective if not isinstance(c, GaussianProcess))
        parts |= {"gp": processes, "adaptive_basis": tuple(others)}
    return {name: replace(model, objective=components) for name, components in parts.items()}


def of_iteration(file: h5py.File, model: Model, t: int, slots: slice = slice(None)) -> Foreseen:
    """A model's predictions of an iteration's rows, or of some of its slots."""
    identity = json.loads(file.attrs["identity"])
    attributes = file[f"iterations/{t}"].attrs
    first, rows = int(attributes["first_row"]), int(attributes["rows"])
    part = slice(first, first + rows)
    y = file["outcomes/objective"][part][slots]

    config = json.loads(attributes["config"])
    seen = Units.of(config, identity["direction"])
    units = units_of(config)
    named = {
        n: file[f"outcomes/objectives/{n}"][part][slots] for n in identity.get("objectives", {})
    }
    several = {name: units[name].inward(values) for name, values in named.items()}
    x, known = file["proposals/x"][part][slots], identity["constraints"]
    found = foresee(model, x, seen.inward(y), known, several)
    for (what, name), values in found.items():
        own = name.partition("/")[0]
        one, at = (units[own], named[own]) if own in named else (seen, y)
        if what == "density" and one.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                found[what, name] = values + one.log_slope(at)
    return found


def foreseen(path: Path, t: int, slots: slice = slice(None)) -> Foreseen | None:
    """The surrogate's predictions of iteration t, or of some of its slots.

    If the archive recorded no predictions, the model itself predicts. None if the iteration has no
    surrogate.
    """
    with reading(path) as file:
        group = file.get(f"iterations/{t}/surrogate")
        if group is None:
            return None
        if NAME in group:
            values = group[NAME][()][slots]
            return {(w, n): values[:, j] for j, (w, n) in enumerate(foreseen_columns(group[NAME]))}
        model, _ = read_surrogate(path, t)
        return None if model is None else of_iteration(file, model, t, slots)


def write(group: h5py.Group, found: Foreseen, **packing: object) -> None:
    """Write predictions into the group of a surrogate."""
    values = np.column_stack(list(found.values()))
    dataset = group.create_dataset(NAME, data=values, **packing)
    dataset.attrs["columns"] = json.dumps([list(key) for key in found])

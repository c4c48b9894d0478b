"""The stage that trains the surrogate of an iteration on a fixed prefix of the archive."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dngo import archive, derive, inward, provenance
from dngo.batch import Context
from dngo.config import Config
from dngo.storage import hdf5
from dngo.storage.digest import digest
from dngo.study.batches import alone, copy
from dngo.study.ending import ends, only_told
from dngo.study.entries import told
from dngo.study.records import Records, silent
from dngo.types import Progress
from dngo.units import LINEAR, LOG


def fit(records: Records, t: int, output: Path, progress: Progress = silent) -> None:
    """Train the surrogate of iteration t and write it to `output` (`surrogate.h5`)."""
    if t < records.merged():
        return archive.copy_surrogate(records.archive, t, output)
    with alone(records, t, "fit"):
        kept = records.paths.kept_surrogate(t)
        if ends(records, t) or only_told(records, t):
            return _empty(output)
        # Once, since another batch may be merged meanwhile.
        iterations = records.training_iterations(t)
        context = Context(told=told(records, t, iterations))
        if not _stands(records, t, iterations, kept, context):
            records.paths.journal.heed_request()
            _fit(records, t, iterations, kept, context, progress)
        copy(kept, output)
    return None


def _fit(
    records: Records, t: int, iterations: int, output: Path, context: Context, progress: Progress
) -> None:
    environment = provenance.environment()
    model = derive.Basis(records.archive, records.config, t, iterations, context).fit(progress)
    seconds = time.time() - environment["time"]

    def fill(file: h5py.File) -> None:
        file.attrs["iteration"] = t
        file.attrs["training_iterations"] = iterations
        file.attrs["spawn_key"] = np.array(derive.spawn_key(t, derive.FIT))
        # The versions are known only after the fit has loaded its libraries.
        file.attrs["environment"] = json.dumps({**environment, "kernels": provenance.kernels()})
        file.attrs["seconds"] = seconds
        file.attrs["summary"] = json.dumps(model.summary(), sort_keys=True)
        # Fits of some kinds start from earlier models, and so do their replays.
        recalls = records.config.surrogate.recalls
        file.attrs["kept"] = "all" if recalls else records.config.archive.surrogates
        for name, value in _made_from(records, iterations, context).items():
            file.attrs[name] = value
        if context.told:  # it identifies the rows of the archive that this model knew
            file["told"] = context.dump_told()
        model.save(file.create_group("model"))

    hdf5.write(output, fill)


def _made_from(records: Records, iterations: int, context: Context) -> dict[str, Any]:
    """Everything that a fit depends on, as attributes of its file. Equal attributes mean equal fits."""
    config = records.config
    return {
        "training_digest": archive.prefix_digest(records.archive, iterations),
        "seed": config.seed,
        "versions": json.dumps(derive.versions(), sort_keys=True),
        "settings": config.surrogate.model_dump_json(),
        "classifier": config.classifier.model_dump_json(),
        "scale": _scales(config),
        "acquisition": config.acquisition.model_dump_json(),
        "constraints": json.dumps(config.constraints, sort_keys=True),
        "told": digest(context.dump_told()),
    }


def _scales(config: Config) -> str:
    """Which objectives models see as logarithms."""
    several = [name for name, one in inward.each(config).items() if one.log]
    return ", ".join(several) or (LOG if inward.units(config).log else LINEAR)


def _stands(records: Records, t: int, iterations: int, surrogate: Path, context: Context) -> bool:
    """Whether a fit of iteration t exists: the one of its batch, or one with the current settings
    and rows.
    """
    if not surrogate.exists() or records.batch_in_flight(t) is not None:
        return surrogate.exists()
    now = _made_from(records, iterations, context)
    with hdf5.our_own(surrogate) as file:
        return all(file.attrs.get(key) == value for key, value in now.items())


def _empty(output: Path) -> None:
    """Write the surrogate of an iteration that needs none, after the end of the study: an empty file."""
    hdf5.write(output, lambda file: file.attrs.update(ended=True))

"""Studies in the formats of other programs: one module for each, imported when it is asked for.

Out, from an archive alone: a table (CSV, Parquet), an Optuna study, a Workflow Run RO-Crate.
In, as the warm start of a new study: a table or an Optuna study (`dngo.exchange.warm_start`).
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.storage.files import in_the_way

_MODULES = {"csv": "csv_table", "parquet": "parquet", "optuna": "optuna", "ro-crate": "ro_crate"}
FORMATS = tuple(_MODULES)


def export(archive: Path, output: Path, form: str, **options: Any) -> None:
    """Write an archive in one of `FORMATS`; options are those of the format's `write`.

    Raises UserError if there is no archive, `output` is there already or a package is missing.
    """
    if os.path.lexists(output):
        raise in_the_way(output, "name another --output")
    module = importlib.import_module(f".{_MODULES[form]}", __name__)
    module.write(archive, output, **options)


def package(name: str, extra: str = "exchange") -> Any:
    """An optional dependency; raises UserError that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        top = name.split(".")[0]
        raise UserError(
            f"this needs the Python package {top}: pip install 'dngo[{extra}]'"
        ) from None

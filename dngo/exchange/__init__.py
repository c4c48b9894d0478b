"""Studies in the formats of other programs. Each format has a module, imported when it is needed.

Export needs the archive alone. It writes a table (CSV, Parquet), an Optuna study, a Workflow Run
RO-Crate or an archive. All of them leave out what looks like a secret.

Import begins a new study (`dngo.exchange.warm_start`). It reads a table or an Optuna study.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any

from dngo.archive.publishing import changes, publish
from dngo.errors import UserError
from dngo.plugins import Registry, to_install
from dngo.storage.files import in_the_way

# Each function reads the archive at one path and writes a file to another path. It may
# return a list of lines for the user. A package adds a format with an entry point of this group.
EXPORTS = Registry("dngo.exports")


def export(
    archive: Path, output: Path, form: str, *, anonymous: bool = False, **options: Any
) -> list[str]:
    """Write an archive in one of the forms of `EXPORTS`, with the options of that form.

    anonymous: without the names of hosts, people and home folders. A crate then has nothing of what
    lies beside the archive.
    Returns lines: they say what was left out, and which people the file still names. Raises
    UserError if there is no archive, if `output` exists, or if a package is missing. It also raises
    UserError if something must be left out and the archive was altered.
    """
    if os.path.lexists(output):
        raise in_the_way(output, "name another --output")
    write = EXPORTS.find(form)
    if form == "ro-crate":
        options |= {"folder": archive.parent, "anonymous": anonymous}
    changed, names = changes(archive, anonymous=anonymous)
    with tempfile.TemporaryDirectory() as folder:
        if changed:
            publish(archive, copy := Path(folder) / archive.name, anonymous=anonymous)
        told = write(copy if changed else archive, output, **options)
    told = told if isinstance(told, list) else []
    if changed:
        places = ", ".join(f"{name} ({n})" for name, n in sorted(changed.items()))
        what = (
            "names, and what looks like a secret, are"
            if anonymous
            else "what looks like a secret is"
        )
        told.append(f"{what} left out of: {places}; the digests belong to this copy")
    if str(names) and not anonymous:
        told.append(f"it names {names}; --anonymous leaves them out")
    return told


def package(name: str) -> Any:
    """An optional dependency; raises UserError that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        top = name.split(".")[0]
        raise UserError(f"this needs the Python package {top}: {to_install(top)}") from None

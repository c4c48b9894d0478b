"""Finds the study of a configuration, an archive, or a folder with one of them.

Relative `results` lie beside the configuration, wherever a command is typed. Until version 0.2.0
they lay in the folder in which Snakemake ran. Each batch of such a study has recorded the folder of
its configuration. So dngo recognises the study, and it goes on where it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dngo import archive
from dngo.config import load
from dngo.errors import UserError
from dngo.storage.files import at_home, is_hdf5
from dngo.storage.text import visible
from dngo.study import Study
from dngo.study.settling import settle_at


def find_study(paths: Sequence[str | Path], overrides: Mapping[str, Any] | None = None) -> Study:
    """The study of these configuration files, in whichever folder this process runs.

    overrides: values from the command line; there, `results` is relative to the current folder.
    Raises UserError with one line for each mistake, if two studies may be meant, or if the archive
    was altered.
    """
    study = _found(paths, overrides)
    archive.check(study.archive)
    return study


def _found(paths: Sequence[str | Path], overrides: Mapping[str, Any] | None) -> Study:
    files = [Path(os.path.relpath(path)) for path in paths]
    config = load(files, overrides)
    study = Study(config, files[0].parent if files else Path())
    if not files or "results" in (overrides or {}) or Path(config.results).is_absolute():
        return study
    written = os.path.relpath(config.results, files[0].parent)
    begun = _begun(study)
    here, above = Path.cwd(), files[0].parent.resolve()
    for base in [here] if begun else [here, above, *above.parents]:
        other = _at(study, base, base / written)
        if other.folder.resolve() == study.folder.resolve() or not _begun(other):
            continue
        if _began(other, base, study):
            if begun:
                raise UserError(
                    f"{other.folder} and {study.folder} both hold study {config.study} of {files[0]}; "
                    f"say which one goes on: `results` in {files[0]}, or --results"
                )
            return other
        if base == here and not begun:
            raise UserError(
                f"{other.folder} holds a study of this name that another configuration began, and "
                f"{study.folder} none yet; to go on with it, write `results: "
                f"{os.path.relpath(base / written, files[0].parent)}` into {files[0]}; for a new "
                "study, give it another name"
            )
    return _at(study, study.beside, Path(config.results))


def archive_at(place: str | Path, results: str | Path | None = None) -> Path:
    """The archive of a study, from a configuration, an archive or the folder of either.

    results: the folder of the studies, if not the one in the configuration.
    Raises UserError if there is no archive.
    """
    path = file_at(place, results)
    if is_archive(path):
        return path
    study = find_study([path], {"results": str(results)} if results else {})
    study.settle()
    if study.header() is None:  # reading the header also checks whose archive it is
        raise UserError(f"{study.archive}: there is no archive yet; `dngo run` begins the study")
    return study.archive


def file_at(place: str | Path, results: str | Path | None = None) -> Path:
    """The named archive or configuration. In a folder, the archive comes first.

    Outcomes that were reported for the study of an archive are merged into it first.

    results: the folder of the studies.
    Raises UserError if it is given with an archive, which does not need it, and if a folder holds
    neither.
    """
    if "\0" in str(place):
        raise UserError(f"{visible(str(place))}: no file can have NUL in its name")
    path = Path(at_home(str(place)))
    if path.is_dir():
        settle_at(path)
        found = (path / name for name in ("archive.h5", "config.yaml"))
        file = next((file for file in found if file.is_file()), None)
        if file is None:
            begun = ": no batch of this study has ended; to go on, repeat the call that began it"
            raise UserError(
                f"{path}: holds neither an archive.h5 nor a config.yaml"
                f"{begun if (path / 'pending').is_dir() else ''}"
            )
        path = file
    elif is_archive(path):
        settle_at(path.parent)
    if results and is_archive(path):
        raise UserError(f"{path} is an archive: leave out --results, or name the configuration")
    return path


def is_archive(path: Path) -> bool:
    """Whether a file is an archive and not a configuration."""
    return path.suffix in (".h5", ".hdf5") or is_hdf5(path)


def _at(study: Study, beside: Path, results: Path) -> Study:
    """The same study with another results folder. A path out of this folder is absolute."""
    relative = os.path.relpath(results)
    shown = os.path.abspath(results) if relative.startswith(os.pardir) else relative
    return Study(study.config.model_copy(update={"results": shown}), beside)


def _begun(study: Study) -> bool:
    found = (
        f for d in ("pending", "iterations") for f in study.folder.glob(f"{d}/*/proposals.json")
    )
    return study.archive.exists() or any(found)


def _began(other: Study, base: Path, study: Study) -> bool:
    """Whether the configuration of `study` began the other one, when Snakemake ran in `base`."""
    try:
        merged = other.merged()
        batches = other.in_flight(merged)
    except UserError:  # another study, or a damaged one
        if base == Path.cwd():
            raise
        return False
    if batches:
        recorded = batches[-1].config
    else:
        attributes = archive.iteration_attributes(other.archive, merged - 1)
        recorded = json.loads(attributes["config"])
    folder, wanted = recorded["objective"]["working_directory"], study.config.objective
    return (base / (folder or "")).resolve() == Path(wanted.working_directory or "").resolve()

"""The picture that an outcome names: `"metadata": {"image": "plot.png"}`.

It is copied into the study's folder: before the evaluation's folder is removed, or when people
enter the outcome. If jobs share no files with the study, it travels with the outcome. A file that
lies elsewhere, is too large or is no picture is left out. The metadata then say why.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dngo.batch import Outcome
from dngo.storage import picture
from dngo.storage.picture import ENDINGS
from dngo.storage.text import one_line

MOST_BYTES = 32 << 20  # of pictures that travel with the outcomes of a job
NAME, LEFT_OUT = "image", "image_left_out"
_OWN = "the evaluation's folder (DNGO_WORKDIR)"
_HINT = "; write it below $DNGO_WORKDIR (in Python: dngo.workdir())"


def named(metadata: Mapping[str, Any]) -> bool:
    """Whether the metadata name a picture. Other images may be the names of container images."""
    found = metadata.get(NAME)
    return isinstance(found, str) and Path(found).suffix.lower() in ENDINGS


def held(metadata: Mapping[str, Any]) -> bool:
    """Whether the picture that the metadata name was kept. Its place may hold that of a start before."""
    return named(metadata) and LEFT_OUT not in metadata


def kept(metadata: Mapping[str, Any], workdir: Path, place: Path | None) -> dict[str, Any]:
    """Keep the picture that an evaluation's metadata name. Returns the metadata.

    workdir: the evaluation's folder; relative names start there.
    place: path for the picture in the study's folder, without the ending; None: do not keep it. If
    something is wrong, `image_left_out` says so; the outcome is never lost.
    """
    if place is None or not named(metadata):
        return dict(metadata)
    return _kept(metadata, workdir, place, (workdir, place.parents[2]), _OWN, _HINT)


def entered(
    metadata: Mapping[str, Any], folder: Path, place: Path, *, of_a_file: bool
) -> dict[str, Any]:
    """The same for metadata that people enter.

    folder: where relative names start: the folder of their file, or the current one.
    of_a_file: whether a file names the picture. Then it must lie below that folder or the study's.
    """
    if not named(metadata):
        return dict(metadata)
    folders = (folder, place.parents[2]) if of_a_file else None
    return _kept(metadata, folder, place, folders, "the folder of the table" if of_a_file else "")


def carried(metadata: Mapping[str, Any], source: Path, place: Path) -> dict[str, Any]:
    """Metadata of another study's outcome, whose picture comes along.

    source: the picture's place in that study. What was left out there stays left out.
    """
    path = picture.kept_at(source) if held(metadata) else None
    if path is None:
        return dict(metadata)
    return _kept({**metadata, NAME: path.name}, path.parent, place, None, "") | {
        NAME: metadata[NAME]
    }


def packed(
    outcomes: Iterable[Outcome], place_of: Callable[[Outcome], Path]
) -> tuple[list[Outcome], dict[str, str]]:
    """Outcomes, and their pictures as text by id, up to `MOST_BYTES`. What is left out says why."""
    found, texts, left = [], {}, MOST_BYTES
    for outcome in outcomes:
        path = picture.kept_at(place_of(outcome)) if held(outcome.metadata) else None
        if path is not None:
            try:
                data = picture.read(path)
                if len(data) > left:
                    raise ValueError(f"its job has more than {MOST_BYTES >> 20} MiB of pictures")
                texts[outcome.id] = base64.b64encode(data).decode()
                left -= len(data)
            except (OSError, ValueError) as error:
                outcome = _left_out(outcome, error)
        found.append(outcome)
    return found, texts


def unpacked(outcome: Outcome, text: str, place: Path) -> Outcome:
    """An outcome whose picture has travelled, and is now kept at a place."""
    try:
        picture.put(base64.b64decode(text), place)
    except (OSError, ValueError) as error:
        return _left_out(outcome, error)
    return outcome


def _left_out(outcome: Outcome, error: Exception) -> Outcome:
    said = outcome.metadata
    return replace(outcome, metadata={**said, LEFT_OUT: _why(said[NAME], error)})


def _why(name: str, error: Exception) -> str:
    return f"{one_line(name, 160)}: {getattr(error, 'strerror', None) or error}"


def _kept(
    metadata: Mapping[str, Any],
    folder: Path,
    place: Path,
    folders: tuple[Path, ...] | None,
    where: str,
    hint: str = "",
) -> dict[str, Any]:
    """Copy the picture, or say why not. folders: where it may lie, `where` in words; None: anywhere."""
    name = metadata[NAME]
    found = {n: value for n, value in metadata.items() if n != LEFT_OUT}
    try:
        real = Path(os.path.realpath(folder / name))
        if folders and not any(real.is_relative_to(os.path.realpath(f)) for f in folders):
            raise ValueError(f"lies neither in {where} nor in the study's folder")
        if not real.exists():
            raise ValueError(f"no such file in {where or folder}{hint}")
        picture.keep(real, place)
    except (OSError, ValueError) as error:
        return {**found, LEFT_OUT: _why(name, error)}
    return found

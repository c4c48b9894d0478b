"""The picture that an evaluation writes: `"metadata": {"image": "plot.png"}`.

It is copied into the study's folder before the evaluation's folder is removed. A file that lies
elsewhere, is too large or is no picture is left out. The metadata then say why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dngo.storage.files import reading_regular
from dngo.storage.picture import ENDINGS, LARGEST, kind_of

NAME, LEFT_OUT = "image", "image_left_out"


def kept(metadata: Mapping[str, Any], workdir: Path, place: Path | None) -> dict[str, Any]:
    """Keep the picture that the metadata name. Returns the metadata.

    workdir: the evaluation's folder; relative names start there.
    place: path for the picture in the study's folder, without the ending; None: do not keep it. If
    something is wrong, `image_left_out` says so; the outcome is never lost.
    """
    name = metadata.get(NAME)
    if place is None or not isinstance(name, str) or Path(name).suffix.lower() not in ENDINGS:
        return dict(metadata)  # it may be the name of a container image
    try:
        _keep(workdir / name, (workdir, place.parents[2]), place)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return {**metadata, LEFT_OUT: f"{name}: {why}"}
    return dict(metadata)


def _keep(path: Path, folders: tuple[Path, ...], place: Path) -> None:
    """Copy a picture of one of these folders; raises OSError, ValueError."""
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise ValueError(
            "lies neither in the evaluation's folder (DNGO_WORKDIR) nor in the study's folder"
        )
    if not real.exists():
        raise ValueError(
            "no such file in the evaluation's folder; write it below $DNGO_WORKDIR (in "
            "Python: dngo.workdir())"
        )
    with reading_regular(real) as stream:
        data = stream.read(LARGEST + 1)
    kind = kind_of(data)
    place.parent.mkdir(parents=True, exist_ok=True)
    for ending in set(ENDINGS.values()):  # from an earlier start
        place.with_name(f"{place.name}.{ending}").unlink(missing_ok=True)
    temporary = place.with_name(f".{place.name}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, place.with_name(f"{place.name}.{kind}"))

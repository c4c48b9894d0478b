"""The picture that an evaluation leaves: `"metadata": {"image": "plot.png"}`.

It is copied into the study's folder before the evaluation's own folder is removed. Nothing else is: a file
that lies elsewhere, a large one, or one that is no picture is left out, and the metadata say why.
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
    """The metadata, once the picture that they name is kept.

    workdir: the evaluation's own folder, where a relative name begins. place: where the picture is kept,
    without the ending of its name, in a folder of the study's; None: nowhere.
    Whatever is wrong is said under `image_left_out`, and never costs the outcome.
    """
    name = metadata.get(NAME)
    if place is None or not isinstance(name, str) or Path(name).suffix.lower() not in ENDINGS:
        return dict(metadata)  # it may be the name of a container's image
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
            "lies neither in the evaluation's own folder (DNGO_WORKDIR) nor in the study's"
        )
    if not real.exists():
        raise ValueError(
            "no such file in the evaluation's own folder; write it below $DNGO_WORKDIR, "
            "in Python dngo.workdir()"
        )
    with reading_regular(real) as stream:
        data = stream.read(LARGEST + 1)
    kind = kind_of(data)
    place.parent.mkdir(parents=True, exist_ok=True)
    for ending in set(ENDINGS.values()):  # of an earlier start
        place.with_name(f"{place.name}.{ending}").unlink(missing_ok=True)
    temporary = place.with_name(f".{place.name}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, place.with_name(f"{place.name}.{kind}"))

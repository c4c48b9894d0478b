"""Pictures that a page may show. A file's content decides whether it is one, and not its name."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dngo.storage.files import reading_regular

LARGEST = 1 << 20  # bytes
# Endings of pictures, and their media types.
ENDINGS = {".png": "png", ".jpg": "jpg", ".jpeg": "jpg", ".svg": "svg"}
TYPES = {"png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml"}
_SVG = re.compile(
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*|<!DOCTYPE[^>\[]*>\s*)*<svg[\s>]", re.DOTALL
)


def kind_of(data: bytes) -> str:
    """png, jpg or svg; raises ValueError for anything else, and for a picture that is too large."""
    if len(data) > LARGEST:
        raise ValueError(f"is larger than {LARGEST >> 20} MiB")
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if _SVG.match(data.removeprefix(b"\xef\xbb\xbf")):
        return "svg"
    raise ValueError("is no PNG, JPEG or SVG picture")


def read(path: Path) -> bytes:
    """A picture's bytes; raises OSError, and ValueError if the file is no picture."""
    with reading_regular(path) as stream:
        data = stream.read(LARGEST + 1)
    kind_of(data)
    return data


def kept_at(place: Path) -> Path | None:
    """The picture that is kept at a place, a path without the ending; None if there is none."""
    paths = (place.with_name(f"{place.name}.{ending}") for ending in TYPES)
    return next((path for path in paths if path.is_file() and not path.is_symlink()), None)


def keep(path: Path, place: Path) -> None:
    """Copy a picture to a place; an earlier one there goes. Raises OSError, ValueError."""
    put(read(path), place)


def put(data: bytes, place: Path) -> None:
    """The same for a picture's bytes."""
    kind = kind_of(data)
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.tmp")
    temporary.write_bytes(data)  # while the disk is full, the earlier picture stays
    drop(place)
    os.replace(temporary, place.with_name(f"{place.name}.{kind}"))


def move(source: Path, place: Path) -> None:
    """Move what is kept at a place to another place, if there is anything."""
    if path := kept_at(source):
        place.parent.mkdir(parents=True, exist_ok=True)
        drop(place)
        os.replace(path, place.with_name(f"{place.name}{path.suffix}"))


def drop(place: Path) -> None:
    """Remove what is kept at a place."""
    for ending in TYPES:
        place.with_name(f"{place.name}.{ending}").unlink(missing_ok=True)

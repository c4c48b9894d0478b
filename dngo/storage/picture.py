"""Pictures that a page may show. A file's content decides whether it is one, and not its name."""

from __future__ import annotations

import re

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

"""Shortens a large report. The small values of its metadata are kept, and so is its outcome.

A report is scanned as bytes, so that it needs little memory however long it is.
"""

from __future__ import annotations

import json
import mmap
import re

from dngo.storage.plain import MOST_BYTES, left_out

LARGE = 2**18  # bytes of a text or a list that is left out
LONGEST = 2**26  # bytes that remain; what judges metadata leaves out more
WITHIN = 2  # the document and its metadata; what is deeper is an entry
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{}]', re.S)


def shortened(report: bytes | mmap.mmap) -> bytes:
    """A JSON document in UTF-8, without the large values of its metadata.

    Raises ValueError if it is still too large.
    """
    if json.detect_encoding(report[:4]).startswith("utf-8"):
        report = _cut(report)
    if len(report) > LONGEST:
        raise ValueError(f"the outcome document is larger than {MOST_BYTES} bytes")
    return bytes(report)


def _cut(report: bytes | mmap.mmap) -> bytes:
    # What is kept: parts of the report, by their places, and remarks instead of others.
    kept: list[tuple[int, int] | bytes] = []
    opened: list[tuple[bytes, int, int]] = []  # the brackets, their parts and places
    at = size = 0  # the end of what is kept so far, and how much that is

    def keep(until: int) -> None:
        nonlocal at, size
        if until > at:
            kept.append((at, until))
        size, at = size + max(until - at, 0), until

    for token in _TOKENS.finditer(report):
        start, end = token.span()
        sign = report[start : start + 1]
        if sign in b"[{":
            keep(start)
            opened.append((sign, len(kept), size))
        elif sign == b'"':
            if end - start > LARGE and len(opened) >= WITHIN:
                keep(start)
                kept.append(json.dumps(left_out(end - start)).encode())
                at = end
        elif opened:
            keep(end)
            bracket, first, before = opened.pop()
            if size - before > LARGE and len(opened) >= WITHIN and bracket == b"[":
                del kept[first:]
                kept.append(json.dumps(left_out(size - before)).encode())
                size = before
    keep(len(report))
    return b"".join(p if isinstance(p, bytes) else bytes(report[p[0] : p[1]]) for p in kept)

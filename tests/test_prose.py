"""Pages, docstrings, comments and messages keep to docs/style.md, as far as a list of words can tell."""

from __future__ import annotations

import re

import prose
import pytest


def test_nothing_that_a_reader_stumbles_over() -> None:
    assert list(prose.findings(prose.prose())) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The study was told an outcome.", "told"),
        ("They cannot be told apart.", ""),
        ("What a model foresees of a point.", "foresees"),
        ("An objective that is none.", "is none"),
        ("None if there is none.", ""),
        ("It goes by the median.", "goes by"),
        ("Of two lines that is in the\nplace of one.", r"in the\nplace of"),
        ("The seed is that of the study.", "is that of"),
        ("Whoever looks, sees it.", "Whoever"),
        ("It is listed, too.", ", too"),
        ("A share of .25, or .5.", ".25 .5"),
        ("It ended at +.25 and (.5).", ".25 .5"),
        ("See `x.5`, v1.5, 0.5, 3.11.2 and a/.5", ""),
        ("Of a file that says that it is one that nobody knows.", "that says that it is one that"),
        ("`told` and [told](told.md) and ``is none``", "told"),
    ],
)
def test_what_is_found(text: str, found: str) -> None:
    piece = prose.Prose("page.md", 1, prose.without_code(text))
    places = list(prose.findings(iter([piece])))
    assert [re.findall(r": '(.*?)' in '", place)[0] for place in places] == (
        re.findall(r"\.\d+", found) if found.startswith(".") else [found] * bool(found)
    )

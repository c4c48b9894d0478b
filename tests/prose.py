"""Words and forms that a reader stumbles over, in pages, docstrings, comments and messages.

    python tests/prose.py                     # each finding with its place; exit status 1 if there is one
    python tests/prose.py --sample 100 [SEED] # random sentences, to be read by someone in a hurry

Each finding says what to write instead. Code, names in backticks and links are not prose.
"""

from __future__ import annotations

import ast
import random
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/*.md", "examples/*/*.md", "slurm/*.md", "benchmarks/*.md")
CODE = ("dngo/**/*.py", "scripts/*.py", "examples/**/*.py")
COMMENTED = (
    "Makefile",
    "Snakefile",
    "rules/*.smk",
    "*.yaml",
    "examples/*/*.yaml",
    "profiles/*/*.yaml",
)
# What releases said of themselves, and the list of these words.
EXEMPT = ("CHANGELOG.md", "style.md")

# What is found, and what to write instead.
WORDS = {
    r"told(?!:|\s+(?:apart|to\b|from\b))": "reported",
    r"(?:foresee|foretell)(?:s|n|ing)?(?!:)|foresaw|foretold|foresight(?!:)": "predict, expect",
    r"outlooks?(?!:)": "expected gain",
    r"(?<!there\s)(?:is|are|was|were) none": "there is no",
    r"(?:go|goes|went|going|gone) by(?! an?\b)": "depends on, follows",
    r"(?:is|are|was|were) (?:that|those) of": "belongs to, is the one of",
    r"of (?:then|before|now)(?=[.,;:)]|$)": "later, earlier, current",
    r"who(?:m)?ever": "anyone who, if you",
    r"in mid-\w+": "in the middle of",
    r"(?<!are\s)(?<!is\s)all the same(?=[.,;:)]|$)": "even so, although",
    r"in order that": "so that",
    r"all of (?:it|them) are": "each is",
    r"(?:is|are|was|were) not to be": "must not, cannot",
    r"in the place of": "instead of",
    r",\s+too(?=\s*(?:[.,;:)]|$))": "also, or no comma before too",
    r"that that": "one that",
    r"none (?:any ?more|of whose)": "no longer, no",
}
NO_ZERO = re.compile(r"(?<![\w./\\\]\[{:`\"'*])\.\d+(?!\.?\w)")
THREE_THATS = re.compile(r"\bthat\b(?:[^.,;:()]+\bthat\b){2}")
# Words may stand on two lines.
FORMS = [
    (re.compile(r"(?i:\b(?:{}))\b".format(found.replace(" ", r"\s+"))), instead)
    for found, instead in WORDS.items()
]
FORMS += [(NO_ZERO, "the zero: 0.5"), (THREE_THATS, "a sentence for each that")]


class Prose(NamedTuple):
    """A paragraph, a cell of a table, a docstring's paragraph, a comment or a message."""

    file: str
    line: int
    text: str


def paths(patterns: tuple[str, ...]) -> list[Path]:
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path.name not in EXEMPT)


def without_code(text: str) -> str:
    """Markup, names in backticks and addresses as one letter; lines stay where they are."""
    text = re.sub(r"``.+?``|`[^`]*`", lambda m: "X" + "\n" * m[0].count("\n"), text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"https?://\S+", "X", text)
    return re.sub(r"[*_]{1,2}(?=\w)|(?<=[\w.,])[*_]{1,2}|[\[\]]", "", text)


def blocks(file: str, first: int, lines: list[str]) -> Iterator[Prose]:
    """Paragraphs: what an empty line, a heading, a list's item or a row of a table parts."""
    start = first
    kept: list[str] = []
    for number, line in enumerate([*lines, ""], first):
        begins = re.match(r"\s*(?:[-*+] |\d+\. |#+ |\||>|:::|: )", line)
        if kept and (begins or not line.strip()):
            yield Prose(file, start, "\n".join(kept))
            kept = []
        if line.strip().startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from (Prose(file, number, cell) for cell in cells if re.search(r"[a-z.]", cell))
        elif line.strip():
            if not kept:
                start = number
            kept.append(re.sub(r"^\s*(?:[-*+] |\d+\. |#+ |>|: )", "", line))


def page(path: Path) -> Iterator[Prose]:
    """What a page says; fenced and indented code are no prose."""
    text = without_code("\n".join(without_fences(path.read_text())))
    yield from blocks(str(path.relative_to(ROOT)), 1, text.split("\n"))


def without_fences(text: str) -> list[str]:
    lines, fence = [], ""
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+|<!--|\+\+\+)", line)
        if fence:
            if fence in line:
                fence = ""
            lines.append("")
        elif mark:
            fence = {"<!--": "-->"}.get(mark[1], mark[1])
            if line.count(fence) > 1 or (fence == "-->" and fence in line):
                fence = ""
            lines.append("")
        else:
            lines.append(line)
    return lines


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Comments: lines below each other are one piece, if they begin in the same column."""
    if path.suffix == ".py":
        with path.open("rb") as file:
            found = [
                (t.start[0], t.start[1], t.string)
                for t in tokenize.tokenize(file.readline)
                if t.type == tokenize.COMMENT
            ]
    else:
        rows = enumerate(path.read_text().split("\n"), 1)
        found = [
            (n, m.start(1), m[1]) for n, row in rows if (m := re.search(r"(?:^|\s)(#.*)", row))
        ]
    piece: list[tuple[int, int, str]] = []
    for one in [*found, (-1, 0, "")]:
        if piece and (one[0] != piece[-1][0] + 1 or one[1] != piece[-1][1]):
            yield piece[0][0], "\n".join(text.lstrip("#: ") for *_, text in piece)
            piece = []
        piece.append(one)


# Three words in a row, and neither HTML nor JavaScript nor CSS.
MESSAGE = re.compile(r"(?:(?<![\w-])[A-Za-z]{2,}[.,:;]? ){2}[A-Za-z]{2,}")
MARKUP = re.compile(r"[<{]\w+ ?[=:{]|function\(")


def words(node: ast.expr) -> str:
    """The text of a message: what it puts in is one letter."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "X"
    if isinstance(node, ast.JoinedStr):
        return "".join(words(value) for value in node.values)
    return "X"


def code(path: Path) -> Iterator[Prose]:
    """Docstrings, comments, and strings that are sentences."""
    name = str(path.relative_to(ROOT))
    tree = ast.parse(path.read_text())
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    seen: set[int] = set()
    for node in ast.walk(tree):  # a parent before what it holds
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            constant = node.body[0].value  # type: ignore[attr-defined]
            seen.add(id(constant))
            text = without_code("\n".join(without_fences(constant.value)))
            yield from blocks(name, constant.lineno, text.split("\n"))
        if isinstance(node, ast.JoinedStr):
            seen |= {id(value) for value in node.values}
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in seen:
            text = without_code(words(node))
            if MESSAGE.search(text) and not MARKUP.search(text):
                yield Prose(name, node.lineno, text)
    for line, text in comments(path):
        yield Prose(name, line, without_code(text))


def prose() -> Iterator[Prose]:
    """All that a reader meets, in the order of the files."""
    for path in paths(PAGES):
        yield from page(path)
    for path in paths(CODE):
        yield from code(path)
    for path in paths(COMMENTED):
        name = str(path.relative_to(ROOT))
        yield from (Prose(name, line, without_code(text)) for line, text in comments(path))


def findings(pieces: Iterator[Prose]) -> Iterator[str]:
    """A line for each: the place, the words, and what to write instead."""
    for piece in pieces:
        for form, instead in FORMS:
            for found in form.finditer(piece.text):
                line = piece.line + piece.text.count("\n", 0, found.start())
                if found[0].endswith("None"):
                    continue
                said = " ".join(piece.text[max(0, found.start() - 30) : found.end() + 20].split())
                yield f"{piece.file}:{line}: {found[0]!r} in '{said}': write {instead}"


def sentences() -> list[str]:
    """Sentences of five words and more, each with its place."""
    found = []
    for piece in prose():
        for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z`\"'(])", " ".join(piece.text.split())):
            if len(sentence.split()) >= 5:
                found.append(f"{piece.file}:{piece.line}: {sentence}")
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sample"]:
        number, seed, *_ = [*map(int, sys.argv[2:]), 0, 0]
        print("\n".join(random.Random(seed).sample(sentences(), number)))
        raise SystemExit
    lines = list(findings(prose()))
    print("\n".join(lines) or "prose: nothing found")
    raise SystemExit(bool(lines))

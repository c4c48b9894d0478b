"""The text of an expression as a tree, with the meaning of its names and constants."""

from __future__ import annotations

import ast
import difflib
import io
import keyword
import math
import re
import tokenize
from collections.abc import Mapping, Sequence
from typing import Any

from dngo.space.columns import Column

ONE_EQUAL = re.compile(r"(?<![<>=!])=(?!=)")
MAX_LENGTH, MAX_NODES, MAX_DEPTH = 1000, 300, 40
_GRAMMAR = ("and", "or", "not", "in", "is", "if", "else", "True", "False", "None")


class ExpressionError(ValueError):
    """What is wrong with an expression, and at which column of its text."""


class Names:
    """One expression over the columns of a space and its fixed parameters."""

    def __init__(self, text: str, columns: Sequence[Column], fixed: Mapping[str, Any]) -> None:
        self.text = re.sub(r"\s", " ", text).strip()
        self.columns, self.fixed = columns, fixed
        self.index = {c.name: j for j, c in enumerate(columns)}
        self.alias: dict[str, str] = {}

    def tree(self) -> ast.expr:
        """The text as a tree of Python's grammar; raises ExpressionError."""
        if not 0 < len(self.text) <= MAX_LENGTH:
            raise self.error(None, f"must have 1 to {MAX_LENGTH} characters")
        try:
            tree = ast.parse(self._aliased(), mode="eval").body
        except SyntaxError as error:
            equal = "; write == for what must be equal" if ONE_EQUAL.search(self.text) else ""
            raise self.error(error.offset or 1, f"is not an expression here{equal}") from None
        except (ValueError, RecursionError, MemoryError):
            raise self.error(None, "is not an expression") from None
        self._check_size(tree)
        return tree

    def error(self, at: ast.AST | int | None, message: str) -> ExpressionError:
        """at: the node, or the column counted from 1."""
        if isinstance(at, ast.AST):
            line = self._aliased().encode()
            at = len(line[: getattr(at, "col_offset", 0)].decode()) + 1
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "..."
        return ExpressionError(f"{shown!r}{f', column {at}' if at else ''}: {message}")

    def shown(self, node: ast.AST) -> str:
        """A part of the text, to quote it in a message."""
        part = ast.get_source_segment(self._aliased(), node) or self.text
        for alias, word in self.alias.items():
            part = part.replace(alias, word)
        return part if len(part) <= 60 else part[:60] + "..."

    def _aliased(self) -> str:
        """The text in which parameters that have the name of a Python keyword (`lambda`) made
        names."""
        text = self.text
        for i, word in enumerate(keyword.kwlist):
            if word not in _GRAMMAR and (word in self.index or word in self.fixed):
                name = f"\u03ba{i:_>{len(word) - 1}}"  # no parameter's name has a Greek letter
                self.alias[name] = word
                text = re.sub(rf"\b{word}\b", name, text)
        return text

    def _check_size(self, tree: ast.AST) -> None:
        level, count = [tree], 0
        for _ in range(MAX_DEPTH):
            count += len(level)
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level or count > MAX_NODES:
            raise self.error(None, "is too long or too deeply nested; write it as several")

    def find(self, node: ast.Name) -> int | None:
        """The column of a name, None if it is fixed."""
        name = self.alias.get(node.id, node.id)
        if name in self.index:
            return self.index[name]
        if name in self.fixed:
            return None
        known = [*self.index, *self.fixed]
        raise self.error(node, f"there is no parameter {name!r}{nearest_word(name, known)}")

    def listed(self, node: ast.expr) -> tuple[tuple[Any, ...], int | None] | None:
        """The choices of a parameter that has no numbers, and its column; None for anything else."""
        if not isinstance(node, ast.Name) or node.id in ("true", "false"):
            return None
        j = self.find(node)
        if j is None:
            value = self.fixed[self.alias.get(node.id, node.id)]
            return None if _is_number(value) else ((value,), None)
        column = self.columns[j]
        if column.choices is None:
            return None
        numbers = column.kind == "grid" and all(_is_number(c) for c in column.choices)
        return None if numbers else (column.choices, j)

    def constant(self, node: ast.expr) -> Any:
        """The value that a node stands for, whatever its type."""
        if isinstance(node, ast.Name) and node.id in ("true", "false"):
            return node.id == "true"
        if isinstance(node, ast.Name) and self.find(node) is None:
            return self.fixed[self.alias.get(node.id, node.id)]
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.finite(node.operand)
        raise self.error(node, "must be a value, as 'a', 3 or True")

    def finite(self, node: ast.expr) -> float:
        """The value of a node that is a number."""
        value: Any = getattr(node, "value", None)
        if not _is_number(value):
            raise self.error(node, f"{value!r} is not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(node, "numbers must be finite")
        return number

    def named(self, *nodes: ast.expr) -> list[int]:
        """The columns that some nodes name, in order."""
        every = [n for node in nodes for n in ast.walk(node)]
        called = {id(n.func) for n in every if isinstance(n, ast.Call)}
        names = [n for n in every if isinstance(n, ast.Name) and id(n) not in called]
        return sorted({j for n in names if (j := self.find(n)) is not None})

    def continuous(self, j: int) -> bool:
        """Whether a column can have every value of its range."""
        return self.columns[j].levels is None


def marked_number(text: str) -> str:
    """A number in an expression that only Python can read, such as 1_000; "" if there is none."""
    tokens = tokenize.generate_tokens(io.StringIO(re.sub(r"\s", " ", text).strip()).readline)
    return next((t.string for t in tokens if t.type == tokenize.NUMBER and "_" in t.string), "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def nearest_word(word: str, known: Sequence[str]) -> str:
    """The end of a message: a suggestion for an unknown word."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"[:300]

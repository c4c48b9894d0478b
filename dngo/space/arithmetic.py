"""Arithmetic over the columns of a space, as functions of arrays. If an expression is linear, also
as a linear form."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dngo.space.names import Names, nearest_word
from dngo.space.ranges import LARGEST
from dngo.types import Array

MAX_POWER = 16
Number = Callable[[Array], tuple[Array, Array]]
"""Natural values (n, k) -> values (n,), and the size of the terms that were summed. A constant is a
single number."""

_FUNCTIONS: dict[str, Any] = {"abs": np.abs, "log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}


class Arithmetic:
    """The numbers in an expression."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def number(self, node: ast.expr) -> Number:
        """A function of natural values for an arithmetic expression."""
        found = self._number(node)
        if isinstance(node, ast.BinOp | ast.Call) and not self.names.named(node):
            with np.errstate(all="ignore"):
                value = float(found(np.zeros((1, len(self.names.columns))))[0])
            if not math.isfinite(value):
                raise self.names.error(node, f"{self.names.shown(node)} is no finite number")
        return found

    def _number(self, node: ast.expr) -> Number:
        if isinstance(node, ast.Name):
            return self._value(node)
        if isinstance(node, ast.Constant):
            constant = self.names.finite(node)
            number, size = np.array(constant), np.array(abs(constant))
            return lambda v: (number, size)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner = self.number(node.operand)
            return _mapped(inner, np.negative) if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self.names.error(node, "is not a number or a parameter")

    def _value(self, node: ast.Name) -> Number:
        j = self.names.find(node)
        if j is None:
            return self.number(ast.copy_location(ast.Constant(self.names.constant(node)), node))
        if self.names.listed(node) is not None:
            raise self.names.error(node, f"{node.id} is a choice, and no number")
        choices = self.names.columns[j].choices
        if choices is None:
            return lambda v: (v[:, j], np.abs(v[:, j]))
        numbers = np.array([float(c) for c in choices])

        def value(v: Array) -> tuple[Array, Array]:
            index = np.nan_to_num(v[:, j]).astype(int)
            found = np.where(np.isnan(v[:, j]), np.nan, numbers[index])
            return found, np.abs(found)

        return value

    def _operation(self, node: ast.BinOp) -> Number:
        left, right, op = self.number(node.left), self.number(node.right), type(node.op)
        if op is ast.Pow:
            power = self.linear(node.right)
            if power is None or power[0].any() or abs(power[1]) > MAX_POWER:
                raise self.names.error(
                    node.right, f"a power must be a constant of at most {MAX_POWER}"
                )
        elif op not in _OPERATORS and op not in (ast.Add, ast.Sub, ast.Mult):
            raise self.names.error(node, "calculate with + - * / // % **")
        elif (
            op in _OPERATORS and (by := self.linear(node.right)) and not by[0].any() and by[1] == 0
        ):
            raise self.names.error(node.right, "nothing can be divided by zero")

        def value(v: Array) -> tuple[Array, Array]:
            (a, a_size), (b, b_size) = left(v), right(v)
            if op is ast.Add:
                return a + b, a_size + b_size
            if op is ast.Sub:
                return a - b, a_size + b_size
            if op is ast.Mult:
                # How the rounding of one factor's terms appears in the product.
                return a * b, np.maximum(a_size * np.abs(b), np.abs(a) * b_size)
            if op is ast.Pow:
                return a**b, a_size * np.abs(a) ** (b - 1)
            found = _OPERATORS[op](a, b)
            return found, a_size / np.abs(b) if op is ast.Div else np.abs(found)

        return value

    def _call(self, node: ast.Call) -> Number:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        known = [*_FUNCTIONS, "min", "max", "sum", "count_nonzero"]
        if name not in known:
            raise self.names.error(node, f"there is no such function{nearest_word(name, known)}")
        if node.keywords or not node.args or (name in _FUNCTIONS and len(node.args) > 1):
            raise self.names.error(
                node, f"{name} takes {'one number' if name in _FUNCTIONS else 'numbers'}"
            )
        parts = [self.number(argument) for argument in node.args]
        if name in _FUNCTIONS:
            return _mapped(parts[0], _FUNCTIONS[name])
        if name == "count_nonzero" and not all(isinstance(a, ast.Name) for a in node.args):
            raise self.names.error(node, "count_nonzero takes names of parameters")

        def value(v: Array) -> tuple[Array, Array]:
            found = [part(v) for part in parts]
            values, sizes = (np.array(np.broadcast_arrays(*f)) for f in zip(*found, strict=True))
            if name == "sum":
                return values.sum(axis=0), sizes.sum(axis=0)
            if name == "count_nonzero":
                count = np.where(np.isnan(values), np.nan, values != 0.0).sum(axis=0)
                return count, count
            return (values.min if name == "min" else values.max)(axis=0), sizes.max(axis=0)

        return value

    def linear(self, node: ast.expr) -> tuple[Array, float] | None:
        """Coefficients (k,) and constant of a linear expression; None for any other.

        Raises ExpressionError if they overflow within the ranges of the parameters.
        """
        with np.errstate(all="ignore"):
            found = self._linear(node)
            if found is None:
                return None
            sizes = [max(abs(c.low), abs(c.high)) for c in self.names.columns]
            size = float(np.abs(found[0]) @ sizes) + abs(found[1])
        if not size <= LARGEST:
            raise self.names.error(node, f"the numbers in {self.names.shown(node)} overflow")
        return found

    def _linear(self, node: ast.expr) -> tuple[Array, float] | None:
        if isinstance(node, ast.Name):
            j = self.names.find(node)
            if j is None:
                return np.zeros(len(self.names.columns)), float(self.names.constant(node))
            unit = np.eye(len(self.names.columns))[j]
            return (unit, 0.0) if self.names.columns[j].choices is None else None
        if isinstance(node, ast.Constant):
            return np.zeros(len(self.names.columns)), self.names.finite(node)
        if isinstance(node, ast.UnaryOp):
            inner = self._linear(node.operand)
            sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
            return None if inner is None else (sign * inner[0], sign * inner[1])
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sum":
            terms = [self._linear(argument) for argument in node.args]
            known = [t for t in terms if t is not None]
            if len(known) < len(terms):
                return None
            return np.sum([t[0] for t in known], axis=0), _sum([t[1] for t in known])
        if isinstance(node, ast.BinOp):
            return self._linear_operation(node)
        return None

    def _linear_operation(self, node: ast.BinOp) -> tuple[Array, float] | None:
        left, right = self._linear(node.left), self._linear(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add | ast.Sub):
            do = operator.add if isinstance(node.op, ast.Add) else operator.sub
            return do(left[0], right[0]), do(left[1], right[1])
        if isinstance(node.op, ast.Mult) and not left[0].any():
            left, right = right, left
        if right[0].any():
            return None
        if isinstance(node.op, ast.Mult):
            return left[0] * right[1], left[1] * right[1]
        if isinstance(node.op, ast.Div) and right[1] != 0:
            return left[0] / right[1], left[1] / right[1]
        if isinstance(node.op, ast.Pow) and not left[0].any():
            with np.errstate(all="ignore"):
                value = float(np.power(left[1], right[1]))
            return (left[0], value) if math.isfinite(value) else None
        return None


def _sum(numbers: list[float]) -> float:
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # numbers that are infinite, or become so on the way
        return math.nan


def _mapped(inner: Number, function: Callable[[Array], Array]) -> Number:
    def value(v: Array) -> tuple[Array, Array]:
        number, size = inner(v)
        found = function(number)
        return found, size if function in (np.negative, np.abs) else np.abs(found)

    return value

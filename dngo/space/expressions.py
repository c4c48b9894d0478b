"""Known constraints as people write them: `x1 + x2 <= 0.6`, `a < b`, `hidden % heads == 0`.

Python's grammar turns an expression into a tree. Every node must be on a short list, and becomes a
function of arrays. Nothing is ever run as code.

An expression may have:

numbers       parameters of type float and int, ordinals whose values are numbers, constants;
              + - * / // % ** (to a constant power), abs, min, max, sum, log, exp, sqrt,
              and count_nonzero(a, b, ...), the number of parameters that are not zero
choices       categorical, ordinal and boolean parameters, by ==, !=, in and not in
conditions    < <= > >= == != in, chains of them (low < middle < high), and, or, not; a boolean
              parameter is a condition by itself

A condition holds if a parameter in it is inactive. Conditions joined by `and`
stand for themselves.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dngo.space.arithmetic import Arithmetic
from dngo.space.columns import Column, index_of
from dngo.space.conditions import RELATIVE, Condition, Linear, either, every
from dngo.space.names import Names
from dngo.types import Array

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_OPPOSITE |= {"in": "not in", "not in": "in"}


def read(text: str, columns: Sequence[Column], fixed: Mapping[str, Any]) -> list[Condition]:
    """The conditions of one expression over the columns of a space and its fixed parameters.

    Raises ExpressionError, which names the expression and the place in it.
    """
    return _Reader(Names(text, columns, fixed)).conditions()


class _Reader:
    """Reads one expression."""

    def __init__(self, names: Names) -> None:
        self.names, self.arithmetic = names, Arithmetic(names)

    def conditions(self) -> list[Condition]:
        found = self._conjuncts(self.names.tree(), False)
        return [replace(c, text=self.names.text) for c in found]

    def _conjuncts(self, node: ast.expr, negated: bool) -> list[Condition]:
        """The conditions that must all hold: `not` is carried down to the comparisons."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._conjuncts(node.operand, not negated)
        if isinstance(node, ast.BoolOp):
            parts = [self._conjuncts(value, negated) for value in node.values]
            if isinstance(node.op, ast.And) != negated:
                return [c for part in parts for c in part]
            return [either([every(part) for part in parts])]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            found = []
            for left, op, right in zip(sides[:-1], node.ops, sides[1:], strict=True):
                if type(op) not in _COMPARISONS:
                    raise self.names.error(node, "compare with < <= > >= == != or in")
                found.append(self._compare(left, _COMPARISONS[type(op)], right, negated))
            return [either(found)] if negated and len(found) > 1 else found
        return [self._flag(node, negated)]

    def _flag(self, node: ast.expr, negated: bool) -> Condition:
        """A boolean parameter that is a condition by itself."""
        listed = self.names.listed(node)
        if listed is None or listed[0] not in ((False, True), (True,), (False,)):
            raise self.names.error(
                node, "is not a condition; compare it with something, as in x <= 1"
            )
        return self._among(node, [ast.copy_location(ast.Constant(True), node)], negated)

    def _compare(self, left: ast.expr, op: str, right: ast.expr, negated: bool) -> Condition:
        op = _OPPOSITE[op] if negated else op
        if op in ("in", "not in"):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                raise self.names.error(right, "must be a list of values, such as ('a', 'b')")
            if self.names.listed(left) is not None:
                return self._among(left, right.elts, op == "not in")
            each = [
                self._relation(left, "==" if op == "in" else "!=", value) for value in right.elts
            ]
            return either(each) if op == "in" else every(each)
        for one, other in ((left, right), (right, left)):
            if self.names.listed(one) is not None:
                if op not in ("==", "!="):
                    raise self.names.error(one, "is a choice; compare it with ==, != or in")
                return self._among(one, [other], op == "!=")
        return self._relation(left, op, right)

    def _among(self, node: ast.expr, values: Sequence[ast.expr], negated: bool) -> Condition:
        """The condition that a parameter with choices has one of some values."""
        listed = self.names.listed(node)
        assert listed is not None
        choices, column = listed
        wanted = []
        for value in values:
            constant = self.names.constant(value)
            try:
                wanted.append(float(index_of(choices, constant)))
            except ValueError:
                if column is None:  # a fixed parameter that has another value
                    continue
                message = f"never is {constant!r}; its choices are {list(choices)}"
                raise self.names.error(node, message) from None
        columns = () if column is None else (column,)

        def excess(v: Array) -> Array:
            index = np.zeros(len(v)) if column is None else v[:, column]
            return np.where(np.isin(index, wanted) != negated, -1.0, 1.0)

        return Condition("", columns, excess)

    def _relation(self, left: ast.expr, op: str, right: ast.expr) -> Condition:
        """A comparison of two numbers."""
        if op in (">", ">="):
            left, right, op = right, left, {">": "<", ">=": "<="}[op]
        low, high = self.arithmetic.number(left), self.arithmetic.number(right)

        def excess(v: Array) -> Array:
            with np.errstate(all="ignore"):
                (a, a_size), (b, b_size) = low(v), high(v)
                gap, rounding = a - b, RELATIVE * np.maximum(a_size, b_size)
                if op == "<=":
                    broken = gap - rounding
                elif op == "==":
                    broken = np.abs(gap) - rounding
                elif op == "<":
                    broken = gap + np.maximum(rounding, 1e-300)
                else:
                    broken = np.maximum(rounding, 1e-300) - np.abs(gap)
            return np.broadcast_to(np.where(np.isnan(broken), np.inf, broken), len(v))

        columns = tuple(self.names.named(left, right))

        def gap(v: Array) -> Array:
            with np.errstate(all="ignore"):
                return np.broadcast_to(low(v)[0] - high(v)[0], len(v))

        condition = Condition("", columns, excess, gap=gap if op == "==" else None)
        most = self._most(left, op, right)
        if most is not None:
            zeros = tuple((j, 0.0) for j in most[0] if self.names.continuous(j))
            return replace(condition, most=most, atoms=zeros)
        a, b = self.arithmetic.linear(left), self.arithmetic.linear(right)
        if a is None or b is None or op == "!=" or not columns:
            counted = tuple((j, 0.0) for j in columns if self.names.continuous(j))
            return replace(condition, atoms=counted) if _counts(left, right) else condition
        return self._as_linear(condition, a[0] - b[0], b[1] - a[1], op)

    def _as_linear(self, condition: Condition, a: Array, bound: float, op: str) -> Condition:
        named = [int(j) for j in np.flatnonzero(a)]
        if len(named) == 0:
            return condition
        if op == "<":
            whole = all(self.names.columns[j].integer for j in named) and np.all(a == np.round(a))
            size = float(np.abs(a) @ [max(abs(c.low), abs(c.high)) for c in self.names.columns])
            bound = math.ceil(bound) - 1.0 if whole else bound - 4 * RELATIVE * size
        linear = Linear(a, bound, op == "==")
        atoms: tuple[tuple[int, float], ...] = ()
        if op == "==" and len(named) == 1 and self.names.continuous(int(named[0])):
            atoms = ((int(named[0]), bound / float(a[named[0]])),)
        return replace(condition, linear=linear, atoms=atoms)

    def _most(self, left: ast.expr, op: str, right: ast.expr) -> tuple[tuple[int, ...], int] | None:
        """The columns and the number of `count_nonzero(...) <= number`."""
        if not (isinstance(left, ast.Call) and _counts(left) and op in ("<", "<=")):
            return None
        limit = self.arithmetic.linear(right)
        if limit is None or limit[0].any():
            return None
        most = math.floor(limit[1] + RELATIVE)
        return tuple(self.names.named(left)), most - 1 if op == "<" and most == limit[1] else most


def _counts(*nodes: ast.expr) -> bool:
    calls = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(getattr(call.func, "id", "") == "count_nonzero" for call in calls)

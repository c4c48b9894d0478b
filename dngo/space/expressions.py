"""Known constraints as people write them: `x1 + x2 <= 0.6`, `a < b`, `hidden % heads == 0`.

An expression is read with Python's grammar into a tree, of which every node must be on a short list;
each becomes a function of arrays. Nothing is ever evaluated as code.

What an expression may hold:

numbers       parameters of type float and int, ordinals whose values are numbers, constants;
              + - * / // % ** (to a constant power), abs, min, max, sum, log, exp, sqrt,
              and count_nonzero(a, b, ...), the number of parameters that are not zero
choices       categorical, ordinal and boolean parameters, by ==, !=, in and not in
conditions    < <= > >= == != in, chains of them (low < middle < high), and, or, not; a boolean
              parameter is a condition by itself

Where a parameter that a condition names is inactive, the condition holds. Conditions joined by `and`
stand for themselves.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dngo.space.columns import Column, index_of
from dngo.types import Array

MAX_LENGTH, MAX_NODES, MAX_DEPTH, MAX_POWER = 1000, 300, 40, 16
RELATIVE = 1e-9
"""The sides of a comparison are equal if they differ by no more, relative to their largest terms."""

Excess = Callable[[Array], Array]
"""Natural values (n, k) -> (n,), at most zero where a condition holds."""
Number = Callable[[Array], tuple[Array, Array]]
"""Natural values (n, k) -> values (n,), and the magnitudes of the terms that they are sums of; a
constant is one number."""


class ExpressionError(ValueError):
    """What is wrong with an expression, and in which column of its text."""


@dataclass(frozen=True)
class Linear:
    """`coefficients @ v <= bound`, or `==`. coefficients: (k,), natural units."""

    coefficients: Array
    bound: float
    equality: bool

    @property
    def named(self) -> list[int]:
        """The columns whose coefficient is not zero."""
        return [int(j) for j in np.flatnonzero(self.coefficients)]


@dataclass(frozen=True)
class Condition:
    """One condition on a point.

    text: the expression that it is a part of. columns: those of `v` that it names. excess: where it
    holds. linear: the same as a linear form, if it is one. gap: of an equality, left side less right.
    most: columns of which only so many may be other than zero. atoms: values of continuous columns
    that it singles out, and that no uniform draw would ever hit.
    """

    text: str
    columns: tuple[int, ...]
    excess: Excess
    linear: Linear | None = None
    gap: Excess | None = None
    most: tuple[tuple[int, ...], int] | None = None
    atoms: tuple[tuple[int, float], ...] = ()

    def holds(self, v: Array) -> np.ndarray:
        """Where it holds, or a parameter that it names is inactive: v (n, k) -> (n,) bool."""
        inactive = np.isnan(v[:, list(self.columns)]).any(axis=1)
        return inactive | (self.excess(v) <= 0)


def read(text: str, columns: Sequence[Column], fixed: Mapping[str, Any]) -> list[Condition]:
    """The conditions of one expression over the columns of a space and its fixed parameters.

    Raises ExpressionError, which names the expression and the place in it.
    """
    return _Reader(text, columns, fixed).conditions()


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
_FUNCTIONS: dict[str, Any] = {"abs": np.abs, "log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}


_GRAMMAR = ("and", "or", "not", "in", "is", "if", "else", "True", "False", "None")


class _Reader:
    """Reads one expression."""

    def __init__(self, text: str, columns: Sequence[Column], fixed: Mapping[str, Any]) -> None:
        self.text = re.sub(r"\s", " ", text).strip()
        self.columns, self.fixed = columns, fixed
        self.index = {c.name: j for j, c in enumerate(columns)}
        self.alias: dict[str, str] = {}

    def conditions(self) -> list[Condition]:
        if not 0 < len(self.text) <= MAX_LENGTH:
            raise self.error(None, f"must have 1 to {MAX_LENGTH} characters")
        try:
            tree = ast.parse(self._aliased(), mode="eval").body
        except SyntaxError as error:
            raise self.error(error.offset or 1, "is not an expression here") from None
        except (ValueError, RecursionError, MemoryError):
            raise self.error(None, "is not an expression") from None
        self._check_size(tree)
        found = self._conjuncts(tree, False)
        return [replace(c, text=self.text) for c in found]

    def error(self, at: ast.AST | int | None, message: str) -> ExpressionError:
        """at: the node, or the column counted from 1."""
        if isinstance(at, ast.AST):
            line = self._aliased().encode()
            at = len(line[: getattr(at, "col_offset", 0)].decode()) + 1
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "..."
        return ExpressionError(f"{shown!r}{f', column {at}' if at else ''}: {message}")

    def _aliased(self) -> str:
        """The text with parameters that are called as a word of Python (`lambda`) made names."""
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

    # ---- conditions -----------------------------------------------------------------------------

    def _conjuncts(self, node: ast.expr, negated: bool) -> list[Condition]:
        """The conditions that must all hold; `not` is carried down to the comparisons."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._conjuncts(node.operand, not negated)
        if isinstance(node, ast.BoolOp):
            parts = [self._conjuncts(value, negated) for value in node.values]
            if isinstance(node.op, ast.And) != negated:
                return [c for part in parts for c in part]
            return [_any([_all(part) for part in parts])]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            found = []
            for left, op, right in zip(sides[:-1], node.ops, sides[1:], strict=True):
                if type(op) not in _COMPARISONS:
                    raise self.error(node, "compare with < <= > >= == != or in")
                found.append(self._compare(left, _COMPARISONS[type(op)], right, negated))
            return [_any(found)] if negated and len(found) > 1 else found
        return [self._flag(node, negated)]

    def _flag(self, node: ast.expr, negated: bool) -> Condition:
        """A boolean parameter that stands as a condition."""
        listed = self._listed(node)
        if listed is None or listed[0] not in ((False, True), (True,), (False,)):
            raise self.error(node, "is not a condition; compare it with something, as in x <= 1")
        return self._among(node, [ast.copy_location(ast.Constant(True), node)], negated)

    def _compare(self, left: ast.expr, op: str, right: ast.expr, negated: bool) -> Condition:
        op = _OPPOSITE[op] if negated else op
        if op in ("in", "not in"):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                raise self.error(right, "must be a list of values, as in ('a', 'b')")
            if self._listed(left) is not None:
                return self._among(left, right.elts, op == "not in")
            each = [
                self._relation(left, "==" if op == "in" else "!=", value) for value in right.elts
            ]
            return _any(each) if op == "in" else _all(each)
        for one, other in ((left, right), (right, left)):
            if self._listed(one) is not None:
                if op not in ("==", "!="):
                    raise self.error(one, "is a choice; compare it with ==, != or in")
                return self._among(one, [other], op == "!=")
        return self._relation(left, op, right)

    def _among(self, node: ast.expr, values: Sequence[ast.expr], negated: bool) -> Condition:
        """Whether a parameter with choices has one of some values."""
        listed = self._listed(node)
        assert listed is not None
        choices, column = listed
        wanted = []
        for value in values:
            constant = self._constant(value)
            try:
                wanted.append(float(index_of(choices, constant)))
            except ValueError:
                if column is None:  # a fixed parameter that has another value
                    continue
                message = f"never is {constant!r}; its choices are {list(choices)}"
                raise self.error(node, message) from None
        columns = () if column is None else (column,)

        def excess(v: Array) -> Array:
            index = np.zeros(len(v)) if column is None else v[:, column]
            return np.where(np.isin(index, wanted) != negated, -1.0, 1.0)

        return Condition("", columns, excess)

    def _relation(self, left: ast.expr, op: str, right: ast.expr) -> Condition:
        """A comparison of two numbers."""
        if op in (">", ">="):
            left, right, op = right, left, {">": "<", ">=": "<="}[op]
        low, high = self._number(left), self._number(right)

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

        columns = tuple(sorted({*self._names(left), *self._names(right)}))

        def gap(v: Array) -> Array:
            with np.errstate(all="ignore"):
                return np.broadcast_to(low(v)[0] - high(v)[0], len(v))

        condition = Condition("", columns, excess, gap=gap if op == "==" else None)
        most = self._most(left, op, right)
        if most is not None:
            zeros = tuple((j, 0.0) for j in most[0] if self._continuous(j))
            return replace(condition, most=most, atoms=zeros)
        a, b = self._linear(left), self._linear(right)
        if a is None or b is None or op == "!=" or not columns:
            counted = tuple((j, 0.0) for j in columns if self._continuous(j))
            return replace(condition, atoms=counted) if self._counts(left, right) else condition
        return self._as_linear(condition, a[0] - b[0], b[1] - a[1], op)

    def _as_linear(self, condition: Condition, a: Array, bound: float, op: str) -> Condition:
        named = [int(j) for j in np.flatnonzero(a)]
        if len(named) == 0:
            return condition
        if op == "<":
            whole = all(self.columns[j].integer for j in named) and np.all(a == np.round(a))
            size = float(np.abs(a) @ [max(abs(c.low), abs(c.high)) for c in self.columns])
            bound = math.ceil(bound) - 1.0 if whole else bound - 4 * RELATIVE * size
        linear = Linear(a, bound, op == "==")
        atoms: tuple[tuple[int, float], ...] = ()
        if op == "==" and len(named) == 1 and self._continuous(int(named[0])):
            atoms = ((int(named[0]), bound / float(a[named[0]])),)
        return replace(condition, linear=linear, atoms=atoms)

    # ---- numbers --------------------------------------------------------------------------------

    def _number(self, node: ast.expr) -> Number:
        """A function of natural values for an arithmetic expression."""
        if isinstance(node, ast.Name):
            return self._value(node)
        if isinstance(node, ast.Constant):
            constant = self._finite(node)
            number, size = np.array(constant), np.array(abs(constant))
            return lambda v: (number, size)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner = self._number(node.operand)
            return _mapped(inner, np.negative) if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self.error(node, "is not a number or a parameter")

    def _value(self, node: ast.Name) -> Number:
        j = self._find(node)
        if j is None:
            return self._number(ast.copy_location(ast.Constant(self._constant(node)), node))
        if self._listed(node) is not None:
            raise self.error(node, f"{node.id} is a choice, and no number")
        choices = self.columns[j].choices
        if choices is None:
            return lambda v: (v[:, j], np.abs(v[:, j]))
        numbers = np.array([float(c) for c in choices])

        def value(v: Array) -> tuple[Array, Array]:
            index = np.nan_to_num(v[:, j]).astype(int)
            found = np.where(np.isnan(v[:, j]), np.nan, numbers[index])
            return found, np.abs(found)

        return value

    def _operation(self, node: ast.BinOp) -> Number:
        left, right, op = self._number(node.left), self._number(node.right), type(node.op)
        if op is ast.Pow:
            power = self._linear(node.right)
            if power is None or power[0].any() or abs(power[1]) > MAX_POWER:
                raise self.error(node.right, f"a power must be a constant of at most {MAX_POWER}")
        elif op not in _OPERATORS and op not in (ast.Add, ast.Sub, ast.Mult):
            raise self.error(node, "calculate with + - * / // % **")

        def value(v: Array) -> tuple[Array, Array]:
            (a, a_size), (b, b_size) = left(v), right(v)
            if op is ast.Add:
                return a + b, a_size + b_size
            if op is ast.Sub:
                return a - b, a_size + b_size
            if op is ast.Mult:
                # What the rounding of a factor's terms comes to in the product.
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
            raise self.error(node, f"there is no such function{_nearest(name, known)}")
        if node.keywords or not node.args or (name in _FUNCTIONS and len(node.args) > 1):
            raise self.error(
                node, f"{name} takes {'one number' if name in _FUNCTIONS else 'numbers'}"
            )
        parts = [self._number(argument) for argument in node.args]
        if name in _FUNCTIONS:
            return _mapped(parts[0], _FUNCTIONS[name])
        if name == "count_nonzero" and not all(isinstance(a, ast.Name) for a in node.args):
            raise self.error(node, "count_nonzero takes names of parameters")

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

    def _linear(self, node: ast.expr) -> tuple[Array, float] | None:
        """Coefficients (k,) and constant of a linear expression; None for any other."""
        if isinstance(node, ast.Name):
            j = self._find(node)
            if j is None:
                return np.zeros(len(self.columns)), float(self._constant(node))
            unit = np.eye(len(self.columns))[j]
            return (unit, 0.0) if self.columns[j].choices is None else None
        if isinstance(node, ast.Constant):
            return np.zeros(len(self.columns)), self._finite(node)
        if isinstance(node, ast.UnaryOp):
            inner = self._linear(node.operand)
            sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
            return None if inner is None else (sign * inner[0], sign * inner[1])
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sum":
            terms = [self._linear(argument) for argument in node.args]
            known = [t for t in terms if t is not None]
            if len(known) < len(terms):
                return None
            return np.sum([t[0] for t in known], axis=0), math.fsum(t[1] for t in known)
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

    def _counts(self, *nodes: ast.expr) -> bool:
        calls = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call)]
        return any(getattr(call.func, "id", "") == "count_nonzero" for call in calls)

    def _most(self, left: ast.expr, op: str, right: ast.expr) -> tuple[tuple[int, ...], int] | None:
        """The columns and the number of `count_nonzero(...) <= number`."""
        if not (isinstance(left, ast.Call) and self._counts(left) and op in ("<", "<=")):
            return None
        limit = self._linear(right)
        if limit is None or limit[0].any():
            return None
        most = math.floor(limit[1] + RELATIVE)
        return tuple(self._names(left)), most - 1 if op == "<" and most == limit[1] else most

    # ---- names and constants --------------------------------------------------------------------

    def _find(self, node: ast.Name) -> int | None:
        """The column of a name, None if it is fixed."""
        name = self.alias.get(node.id, node.id)
        if name in self.index:
            return self.index[name]
        if name in self.fixed:
            return None
        known = [*self.index, *self.fixed]
        raise self.error(node, f"there is no parameter {name!r}{_nearest(name, known)}")

    def _listed(self, node: ast.expr) -> tuple[tuple[Any, ...], int | None] | None:
        """The choices of a parameter that has no numbers, and its column; None for anything else."""
        if not isinstance(node, ast.Name) or node.id in ("true", "false"):
            return None
        j = self._find(node)
        if j is None:
            value = self.fixed[self.alias.get(node.id, node.id)]
            return None if _is_number(value) else ((value,), None)
        column = self.columns[j]
        if column.choices is None:
            return None
        numbers = column.kind == "grid" and all(_is_number(c) for c in column.choices)
        return None if numbers else (column.choices, j)

    def _constant(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in ("true", "false"):
            return node.id == "true"
        if isinstance(node, ast.Name) and self._find(node) is None:
            return self.fixed[self.alias.get(node.id, node.id)]
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._finite(node.operand)
        raise self.error(node, "must be a value, as 'a', 3 or True")

    def _finite(self, node: ast.expr) -> float:
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

    def _names(self, node: ast.expr) -> list[int]:
        called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in called]
        return sorted({j for n in names if (j := self._find(n)) is not None})

    def _continuous(self, j: int) -> bool:
        return self.columns[j].levels is None


def _all(conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else _joined(conditions, np.maximum)


def _any(conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else _joined(conditions, np.minimum)


def _joined(conditions: Sequence[Condition], take: np.ufunc) -> Condition:
    def excess(v: Array) -> Array:
        found: Array = take.reduce([c.excess(v) for c in conditions])
        return found

    columns = tuple(sorted({j for c in conditions for j in c.columns}))
    atoms = tuple(sorted({a for c in conditions for a in c.atoms}))
    return Condition("", columns, excess, atoms=atoms)


def _mapped(inner: Number, function: Callable[[Array], Array]) -> Number:
    def value(v: Array) -> tuple[Array, Array]:
        number, size = inner(v)
        found = function(number)
        return found, size if function in (np.negative, np.abs) else np.abs(found)

    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"[:300]

"""Reading terms from text: Python expressions through an ast whitelist; nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import ELEMENTS, as_dtype
from eqsat.ir.errors import ParseError
from eqsat.ir.given import told
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

MAX_TEXT = 1_000_000
_TABLE_NAME = "table[0-9a-f]{6}"

_BINARY_OPS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Div: "div",
    ast.Pow: "pow", ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor", ast.LShift: "shl",
    ast.RShift: "shr",
}  # fmt: skip
_COMPARE_OPS: dict[type[ast.cmpop], tuple[str, bool]] = {
    ast.Lt: ("lt", False), ast.LtE: ("le", False), ast.Gt: ("lt", True), ast.GtE: ("le", True),
    ast.Eq: ("eq", False), ast.NotEq: ("ne", False),
}  # fmt: skip
_CALLS1 = (*t.FLOAT_UNARY, *t.FLOAT_TEST, "abs", "bitnot")
_CALLS2 = {
    "minimum": "min", "min": "min", "maximum": "max", "max": "max", "truncdiv": "truncdiv", "truncmod": "truncmod",
}  # fmt: skip


class _Reader:
    """Builds terms from a parsed expression; anything outside the whitelist is a ParseError with its position."""

    def __init__(
        self,
        text: str,
        names: Mapping[str, Term],
        sources: Mapping[str, Any],
        condition: Callable[[Term], Term] | None = None,
    ) -> None:
        self.text, self.names, self.sources = text, dict(names), sources
        self.condition = condition  # what an operation asks of its operands
        self.asked: list[Term] = []  # what the text that was read so far asks, folded or not
        self.asked_of: dict[str, Term] = {}  # the same for each name assigned

    def noted(self, value: Term) -> Term:
        """The term, what it asks written down."""
        if self.condition is not None:
            self.asked.append(self.condition(value))
        return value

    def apart(self, node: ast.expr) -> tuple[Term, Term]:
        """The term of a part that is not always evaluated, and what it asks where it is."""
        outer, self.asked = self.asked, []
        value = self.read(node)
        found, self.asked = t.logical_and(*self.asked), outer
        return value, found

    def where(self, condition: ast.expr, yes: ast.expr, no: ast.expr) -> Term:
        c = self.read(condition)
        (a, a_asks), (b, b_asks) = self.apart(yes), self.apart(no)
        self.asked += [_where(c, a_asks), _where(c, b_asks, False)]
        return t.where(c, a, b)

    def lazily(self, op: str, parts: list[tuple[Term, Term]]) -> Term:
        """Parts in their order, each evaluated where the earlier ones do not settle it."""
        asks = t.TRUE
        for value, own in reversed(parts):
            asks = t.logical_and(own, _where(value, asks, op == "and"))
        self.asked.append(asks)
        return t.junction(op, [value for value, _ in parts])

    def fail(self, node: ast.AST, why: str) -> ParseError:
        column = getattr(node, "col_offset", 0) + 1
        return ParseError(f"expression {self.text[:200]!r}", f"column {column}: {why}")

    def module(self, tree: ast.Module) -> Term:
        """Assignments of names, then one expression."""
        if not tree.body:
            raise ParseError(f"expression {self.text[:200]!r}", "is empty")
        for statement in tree.body[:-1]:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                raise self.fail(statement, "only assignments may stand before the expression")
            target = statement.targets[0]
            if not isinstance(target, ast.Name):
                raise self.fail(target, "only a name can be assigned")
            self.names[target.id], self.asked_of[target.id] = self.apart(statement.value)
        last = tree.body[-1]
        if not isinstance(last, ast.Expr):
            raise self.fail(last, "the text does not end with an expression")
        return self.read(last.value)

    def read(self, node: ast.expr) -> Term:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return t.bool_const(node.value)
            if isinstance(node.value, int):
                return t.index_const(node.value)
            raise self.fail(node, f"{node.value!r} is not an integer or a bool; write float32(0.5)")
        if isinstance(node, ast.Name):
            self.asked.append(self.asked_of.get(node.id, t.TRUE))
            return self.names[node.id] if node.id in self.names else t.var(node.id)
        if isinstance(node, ast.UnaryOp):
            value = self.read(node.operand)
            if isinstance(node.op, ast.Not):
                return t.logical_not(value)
            if isinstance(node.op, ast.Invert):
                return ~value
            return t.neg(value) if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.BoolOp):
            parts = [self.apart(v) for v in node.values]
            return self.lazily("and" if isinstance(node.op, ast.And) else "or", [(t.as_bool(p), d) for p, d in parts])
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if isinstance(node, ast.IfExp):
            return self.where(node.test, node.body, node.orelse)
        if isinstance(node, ast.Subscript):
            return self.load(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise self.fail(node, f"{type(node).__name__} is not allowed")

    def binary(self, node: ast.BinOp) -> Term:
        """A chain of operators that leans to the left is read in a loop: sums are long."""
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append(left)
            left = left.left
        value = self.read(left)
        for link in reversed(chain):
            op = _BINARY_OPS.get(type(link.op))
            if op is None:
                raise self.fail(link, f"operator {type(link.op).__name__} is not allowed")
            other, asks = self.apart(link.right)
            if op in ("bitand", "bitor") and value.dtype == other.dtype == t.BOOL:
                value = self.lazily("and" if op == "bitand" else "or", [(value, t.TRUE), (other, asks)])
                continue
            self.asked.append(asks)
            if op in ("add", "sub", "mul"):
                value = {"add": t.add, "sub": t.sub, "mul": t.mul}[op](value, other)
            else:
                value = self.noted(t.binary(op, value, other))
        return value

    def comparison(self, node: ast.Compare) -> Term:
        value = self.read(node.left)
        parts: list[tuple[Term, Term]] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            a, (b, asks) = value, self.apart(right)
            if type(op) not in _COMPARE_OPS:
                raise self.fail(node, f"comparison {type(op).__name__} is not allowed")
            name, swap = _COMPARE_OPS[type(op)]
            parts.append((t.compare(name, b, a) if swap else t.compare(name, a, b), asks))
            value = b
        return self.lazily("and", parts)

    def load(self, node: ast.Subscript) -> Term:
        if isinstance(node.value, ast.List):
            return self.table(node.value, node.slice)
        if not isinstance(node.value, ast.Name):
            raise self.fail(node, "only a named source or a list of integers can be indexed")
        name = re.sub(r"^_(?=\d+$)", "$", node.value.id)
        if name not in self.sources:
            long = "; a long table is printed by name only, JSON holds it" if re.fullmatch(_TABLE_NAME, name) else ""
            raise self.fail(node, f"{name} is not among the given sources{long}")
        source = self.sources[name]
        array, dtype = cast("tuple[Any, Any]", source) if isinstance(source, tuple) else (source, source.dtype)
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return self.noted(t.load(array, [self.read(i) for i in index], as_dtype(dtype)))

    def table(self, numbers: ast.List, index: ast.expr) -> Term:
        """A literal table, `[2, 0, 1][i]`."""
        from eqsat.ir.terms.tables import table_load

        values = [self.integer(n) for n in numbers.elts]
        if any(not -(1 << 63) <= v < 1 << 63 for v in values):
            raise self.fail(numbers, "a table holds integers of 64 bits")
        return self.noted(table_load(np.array(values, np.int64), self.read(index)))

    def call(self, node: ast.Call) -> Term:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self.fail(node, "only plain function calls are allowed")
        name, args = node.func.id, node.args
        if name in _CALLS1 and len(args) == 1:
            return t.unary(name, self.read(args[0]))
        if name in _CALLS2 and len(args) == 2:
            return self.noted(t.binary(_CALLS2[name], self.read(args[0]), self.read(args[1])))
        if name == "where" and len(args) == 3:
            return self.where(args[0], args[1], args[2])
        if name == "given" and len(args) == 2:
            c, (a, asks) = self.read(args[0]), self.apart(args[1])
            self.asked.append(_where(c, asks))
            return t.given(c, a)
        if name == "cast" and len(args) == 2:
            return self.noted(t.cast_to(self.read(args[0]), self.string(args[1])))
        if name == "ramp" and len(args) == 3:
            return t.ramp(self.read(args[0]), self.read(args[1]), self.integer(args[2]))
        if name == "broadcast" and len(args) == 2:
            return t.broadcast(self.read(args[0]), self.integer(args[1]))
        if name == "hole" and len(args) >= 2:
            return t.hole(self.integer(args[0]), as_dtype(self.string(args[1])), [self.read(a) for a in args[2:]])
        if name in ELEMENTS and name != "bool" and len(args) == 1:
            return t.const(self.number(args[0]), name)
        raise self.fail(node, f"{name} with {len(args)} arguments is not a known function")

    def string(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise self.fail(node, "expected a quoted type name")

    def integer(self, node: ast.expr) -> int:
        value = self.number(node)
        if isinstance(value, int):
            return value
        raise self.fail(node, "expected an integer")

    def number(self, node: ast.expr) -> int | float:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.number(node.operand)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return node.value
        if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            return float(node.id)
        raise self.fail(node, "expected a number")


def _where(condition: Term, asked: Term, holds: bool = True) -> Term:
    """What is asked, where the condition holds, or where it does not."""
    return t.TRUE if asked is t.TRUE else t.logical_or(t.logical_not(condition) if holds else condition, asked)


def parse_expr(text: str, names: Mapping[str, Term] | None = None, sources: Mapping[str, Any] | None = None) -> Term:
    """Read a Python expression; unknown names become index variables, conditional expressions become `where`.

    Assignments may stand before the expression. `sources` says what loads read: a tensor or buffer, or (source, dtype).

    >>> str(parse_expr("4*io + ii < 14"))
    '4*io + ii < 14'
    >>> str(parse_expr("q = i // 4; q*q if q > 0 else -1"))
    'where(0 < i // 4, (i // 4)*(i // 4), -1)'
    >>> str(parse_expr("[2, 0, 1][i] + 1"))
    '[2, 0, 1][i] + 1'
    >>> str(parse_expr("$0[i] * $0[i]", sources={"$0": (0, "float32")}))
    '$0[i]*$0[i]'

    Raises ParseError for anything outside of the expression language; nothing is executed.
    """
    return _read(text, names, sources, None)[0]


def parse_written(text: str, names: Mapping[str, Term], condition: Callable[[Term], Term]) -> tuple[Term, Term]:
    """The term, and the predicate that the text is defined as it is written, with what folds when the term is built.

    condition: what an operation asks of its operands, themselves defined. A name assigned stands for its expression.

    >>> term, defined = parse_written("(4//y)*0 if x else 1", {"x": t.var("b") < 3}, lambda node: (
    ...     t.compare("ne", node.args[1], 0) if node.op == "floordiv" else t.TRUE))
    >>> print(term, "|", defined)
    where(b < 3, 0, 1) | 3 <= b or y != 0
    """
    return _read(text, names, {}, condition)


def _read(
    text: str,
    names: Mapping[str, Term] | None,
    sources: Mapping[str, Any] | None,
    condition: Callable[[Term], Term] | None,
) -> tuple[Term, Term]:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParseError("expression", f"{told(text)} is neither a text nor a term", "such as 'i//4 < 3'")
    if len(text) > MAX_TEXT:
        raise ParseError("expression", f"{len(text)} characters are too many", "use JSON for huge terms")
    try:
        tree = ast.parse(re.sub(r"\$(?=\d)", "_", text).strip(), mode="exec")
        reader = _Reader(text, names or {}, sources or {}, condition)
        return reader.module(tree), t.logical_and(*reader.asked)
    except SyntaxError as error:
        place = "" if error.offset is None else f" at character {min(error.offset, len(text.strip()) + 1)}"
        raise ParseError(f"expression {text[:200]!r}", f"{error.msg}{place}") from error
    except ValueError as error:
        raise ParseError(f"expression {text[:200]!r}", str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise ParseError("expression", "nested too deeply", "use JSON for deep terms") from error

"""Random terms of every operation, and their meaning computed the plain way: one point, Python numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat.ir.dtypes import BOOL, INDEX, is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import names_in

TABLE = Table(np.array([3, -1, 4, 1, -5, 9]))
LEAVES = (
    t.ax(0, 8), t.ax(1, t.sym("N")), t.red(0, 3), t.var("i"), t.var("j", 5), t.sym("N"),
    t.sym("M", lower=2, upper=64, multiple_of=2),
)  # fmt: skip
DATA = ("int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64")
_INTS = st.one_of(st.integers(-9, 9), st.sampled_from([2**31 - 1, -(2**31), 2**40, -(2**62), 10**20]))


def constants(dtype: str) -> st.SearchStrategy[Term]:
    """Constants of a data type, the awkward ones included."""
    if is_float(dtype):
        width = {"float16": 16, "float32": 32, "float64": 64}[dtype]
        values = st.floats(width=width)  # type: ignore[arg-type]
        return values.map(lambda v: t.const(v, dtype))
    info = np.iinfo(dtype)
    return st.integers(int(info.min), int(info.max)).map(lambda v: t.const(v, dtype))


class Pool:
    """The terms that further ones are made of, by type."""

    def __init__(self, loads: bool) -> None:
        self.terms: dict[str, list[Term]] = {INDEX: list(LEAVES), BOOL: [t.bool_const(True)]}
        for dtype in DATA:
            index = [LEAVES[0], LEAVES[2]]
            self.terms[dtype] = [t.load(DATA.index(dtype), index, dtype), t.hole(7, dtype, index)] if loads else []

    def one(self, draw: st.DrawFn, dtype: str) -> Term:
        known = self.terms[dtype]
        if not known or draw(st.integers(0, 4)) == 0:
            return draw(_INTS.map(t.index_const) if dtype == INDEX else constants(dtype) if dtype != BOOL else _BOOLS)
        return known[draw(st.integers(0, len(known) - 1))]


_BOOLS = st.booleans().map(t.bool_const)


def _index_step(draw: st.DrawFn, pool: Pool) -> Term:
    a, b = pool.one(draw, INDEX), pool.one(draw, INDEX)
    kind = draw(st.sampled_from(("sum", "prod", "abs", "neg", "table", "cast", "where", *t.INDEX_BINARY)))
    if kind == "sum":
        return t.linear(draw(st.integers(-9, 9)), [(draw(st.integers(-4, 4)), a), (draw(st.integers(-4, 4)), b)])
    if kind == "prod":
        return a * b
    if kind in ("abs", "neg"):
        return t.unary(kind, a)
    if kind == "table":
        return t.load(TABLE, [a], INDEX)
    if kind == "cast":
        return t.cast_to(pool.one(draw, draw(st.sampled_from(("bool", "int8", "uint64", "int64")))), INDEX)
    if kind == "where":
        return t.where(pool.one(draw, BOOL), a, b)
    return t.binary(kind, a, b)


def _bool_step(draw: st.DrawFn, pool: Pool) -> Term:
    dtype = draw(st.sampled_from((INDEX, BOOL, *DATA)))
    a, b = pool.one(draw, dtype), pool.one(draw, dtype)
    kind = draw(st.sampled_from(("and", "or", "not", "where", "isnan", "given", *t.COMPARE)))
    p, q = pool.one(draw, BOOL), pool.one(draw, BOOL)
    if kind in ("and", "or"):
        return t.junction(kind, [p, q])
    if kind == "not":
        return t.logical_not(p)
    if kind == "where":
        return t.where(p, q, pool.one(draw, BOOL))
    if kind == "isnan":
        return t.unary("isnan", pool.one(draw, "float32"))
    if kind == "given":
        return t.given(p, q)
    return t.compare(kind, a, b)


def _data_step(draw: st.DrawFn, pool: Pool, dtype: str) -> Term:
    a, b = pool.one(draw, dtype), pool.one(draw, dtype)
    kind = draw(st.sampled_from(("cast", "where", "neg", "abs", "unary", "binary", "bits", "add", "mul", "sub")))
    if kind == "cast":
        source = draw(st.sampled_from((INDEX, BOOL, *DATA)))
        return t.cast_to(pool.one(draw, source), dtype)
    if kind == "where":
        return t.where(pool.one(draw, BOOL), a, b)
    if kind in ("neg", "abs"):
        return t.unary(kind, a)
    if kind in ("add", "mul", "sub"):
        return {"add": t.add, "mul": t.mul, "sub": t.sub}[kind](a, b)
    if kind == "unary":
        return t.unary(draw(st.sampled_from(t.FLOAT_UNARY)) if is_float(dtype) else "bitnot", a)
    if kind == "bits" and not is_float(dtype):
        return t.binary(draw(st.sampled_from(t.BITWISE)), a, b)
    if is_float(dtype):
        return t.binary(draw(st.sampled_from(("div", "floordiv", "mod", "min", "max", "pow"))), a, b)
    return t.binary(draw(st.sampled_from(("floordiv", "mod", "truncdiv", "truncmod", "min", "max", "pow"))), a, b)


@st.composite
def terms(draw: st.DrawFn, dtype: str | None = None, steps: int = 12, loads: bool = True) -> Term:
    """A random DAG; without `loads`, of indices and predicates over tables only."""
    pool = Pool(loads)
    term = LEAVES[0]
    for _ in range(draw(st.integers(1, steps))):
        kinds = (INDEX, BOOL, draw(st.sampled_from(DATA))) if loads else (INDEX, INDEX, BOOL)
        kind = draw(st.sampled_from(kinds))
        if kind == INDEX:
            term = _index_step(draw, pool) if loads else _plain_index_step(draw, pool)
        elif kind == BOOL:
            term = _bool_step(draw, pool) if loads else _plain_bool_step(draw, pool)
        else:
            term = _data_step(draw, pool, kind)
        if term.op != "const":
            pool.terms[kind].append(term)
    wanted = term.dtype if dtype is None else dtype
    return pool.terms[wanted][-1]


def _plain_index_step(draw: st.DrawFn, pool: Pool) -> Term:
    a, b = pool.one(draw, INDEX), pool.one(draw, INDEX)
    kind = draw(st.sampled_from(("sum", "prod", "abs", "table", "where", *t.INDEX_BINARY)))
    if kind == "sum":
        return t.linear(draw(_INTS), [(draw(st.integers(-4, 4)), a), (draw(_INTS), b)])
    if kind == "prod":
        return a * b
    if kind == "abs":
        return t.absolute(a)
    if kind == "table":
        return t.load(TABLE, [a], INDEX)
    if kind == "where":
        return t.where(pool.one(draw, BOOL), a, b)
    if kind == "shl":
        b = t.index_const(draw(st.integers(0, 70)))
    return t.binary(kind, a, b)


def _plain_bool_step(draw: st.DrawFn, pool: Pool) -> Term:
    kind = draw(st.sampled_from(("and", "or", "not", *t.COMPARE)))
    p, q = pool.one(draw, BOOL), pool.one(draw, BOOL)
    if kind in ("and", "or"):
        return t.junction(kind, [p, q])
    if kind == "not":
        return t.logical_not(p)
    return t.compare(kind, pool.one(draw, INDEX), pool.one(draw, INDEX))


def names_of(term: Term) -> dict[str, Term]:
    """The leaves of a term by the names they are printed with."""
    return {name: leaf for leaf, name in names_in(term).items()}


class Undefined(Exception):
    """A point where a term has no value."""


def plain_value(term: Term, point: Mapping[Term, int]) -> int | bool:
    """The value of an index term or predicate at a point, by Python's own arithmetic; lazy as the language is."""
    op = term.op
    if term in point:
        return point[term]
    if op == "const":
        return term.payload
    if op == "where":
        return plain_value(term.args[1 if plain_value(term.args[0], point) else 2], point)
    if op in ("and", "or"):
        for part in term.args:
            if bool(plain_value(part, point)) is (op == "or"):
                return op == "or"
        return op == "and"
    args: list[Any] = [plain_value(a, point) for a in term.args]
    if op == "not":
        return not args[0]
    if op == "sum":
        constant, coefficients = term.payload
        return constant + sum(c * a for c, a in zip(coefficients, args, strict=True))
    if op == "prod":
        product = 1
        for a in args:
            product *= a
        return product
    if op == "abs":
        return abs(args[0])
    if op == "load":
        if not 0 <= args[0] < TABLE.array.size:
            raise Undefined
        return int(TABLE.array[args[0]])
    return _plain_binary(op, args[0], args[1])


def _plain_binary(op: str, a: int, b: int) -> int | bool:
    if op in ("floordiv", "mod", "truncdiv", "truncmod") and b == 0:
        raise Undefined
    if op in ("shl", "shr") and not 0 <= b <= t.MAX_SHIFT:
        raise Undefined
    quotient = 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a >= 0) == (b > 0) else -1)
    table: dict[str, Any] = {
        "floordiv": lambda: a // b, "mod": lambda: a % b, "truncdiv": lambda: quotient,
        "truncmod": lambda: a - b * quotient, "min": lambda: min(a, b), "max": lambda: max(a, b),
        "bitand": lambda: a & b, "bitor": lambda: a | b, "bitxor": lambda: a ^ b, "shl": lambda: a << b,
        "shr": lambda: a >> b, "lt": lambda: a < b, "le": lambda: a <= b, "eq": lambda: a == b, "ne": lambda: a != b,
    }  # fmt: skip
    return table[op]()

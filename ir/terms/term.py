"""Scalar terms: index arithmetic, data arithmetic, predicates and accesses, built in their normal form.

Terms are interned, so structural equality is identity (`a.same(b)`, `a is b`); `==` builds a term. An index sum is one
n-ary node: a constant plus coefficients times sorted summands, so no rule needs associativity or commutativity.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, COMPLEX, INDEX, INTS, UINTS, as_dtype, is_float
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.terms.leaves import (
    as_index,
    as_term,
    ax,
    broadcast,
    const,
    const_value,
    holds_facts,
    hole,
    index_const,
    int_value,
    is_const,
    load,
    pair,
    ramp,
    red,
    sym,
    symbol_facts,
    var,
)
from eqsat.ir.terms.node import (
    BITWISE,
    COMPARE,
    DATA_BINARY,
    FLOAT_TEST,
    FLOAT_UNARY,
    INDEX_BINARY,
    MAX_SHIFT,
    IndexFunction,
    Term,
    TermLike,
    make,
)
from eqsat.ir.terms.sums import distributed, linear, linear_parts, product

__all__ = [
    "BITWISE",
    "BOOL",
    "COMPARE",
    "DATA_BINARY",
    "FALSE",
    "FLOAT_TEST",
    "FLOAT_UNARY",
    "INDEX",
    "INDEX_BINARY",
    "MAX_SHIFT",
    "TRUE",
    "IndexFunction",
    "Term",
    "TermLike",
    "absolute",
    "add",
    "as_bool",
    "as_index",
    "as_term",
    "ax",
    "binary",
    "bool_const",
    "broadcast",
    "cast_to",
    "check_real",
    "compare",
    "const",
    "const_value",
    "distributed",
    "fold_index",
    "given",
    "holds_facts",
    "hole",
    "index_const",
    "int_value",
    "is_const",
    "junction",
    "linear",
    "linear_parts",
    "load",
    "logical_and",
    "logical_not",
    "logical_or",
    "make",
    "mul",
    "neg",
    "pair",
    "product",
    "ramp",
    "rebuild",
    "red",
    "sub",
    "sym",
    "symbol_facts",
    "unary",
    "var",
    "where",
]


def rebuild(term: Term, args: Sequence[Term]) -> Term:
    """The same node over other arguments, in normal form (sums flattened, numbers folded)."""
    op = term.op
    if op == "sum":
        constant, coefficients = term.payload
        return linear(constant, zip(coefficients, args, strict=True))
    if op == "prod":
        return product(args)
    if op in ("and", "or"):
        return junction(op, args)
    if term.dtype == INDEX and op in INDEX_BINARY:
        return binary(op, args[0], args[1])
    if op == "neg" or op == "abs":
        return unary(op, args[0])
    if op in COMPARE:
        return compare(op, args[0], args[1])
    if op == "not":
        return logical_not(args[0])
    if op == "where":
        return where(args[0], args[1], args[2])
    if op == "given":
        return given(args[0], args[1])
    if op == "load" and any(a.lanes != b.lanes for a, b in zip(args, term.args, strict=True)):
        if isinstance(term.payload, str):
            before, after = (max(a.lanes for a in side) for side in (term.args, args))
            return make(op, args, term.payload, term.dtype, term.lanes // before * after)
        return term.payload[tuple(args)]  # a buffer knows the type of a wider or narrower access
    if op == "broadcast":
        return broadcast(args[0], term.payload)
    return make(op, args, term.payload, term.dtype, term.lanes if op in ("ramp", "load") else 0)


def check_real(op: str, *operands: Term | str) -> None:
    """Refuse operations on complex numbers, which are moved only. Operands are terms, or types; they are printed only
    in the error."""
    if any((d if isinstance(d, str) else d.dtype) in COMPLEX for d in operands):
        what = f"{op} of {' and '.join(map(str, operands))}"
        raise TypeMismatch(what, "complex numbers are moved, not computed with", "read them as pairs of floats")


def _check_numeric(op: str, a: Term) -> None:
    check_real(op, a)
    if a.dtype == BOOL:
        raise TypeMismatch(f"{op} of {a}", "operand is bool", "use eq.cast or the logical functions")


def add(a: TermLike, b: TermLike) -> Term:
    x, y = pair("add", a, b)
    if x.dtype == INDEX:
        return linear(0, ((1, x), (1, y)))
    _check_numeric("add", x)
    return make("add", (x, y), None, x.dtype)


def sub(a: TermLike, b: TermLike) -> Term:
    x, y = pair("sub", a, b)
    if x.dtype == INDEX:
        return linear(0, ((1, x), (-1, y)))
    _check_numeric("sub", x)
    return make("sub", (x, y), None, x.dtype)


def mul(a: TermLike, b: TermLike) -> Term:
    x, y = pair("mul", a, b)
    if x.dtype == INDEX:
        return product((x, y))
    _check_numeric("mul", x)
    return make("mul", (x, y), None, x.dtype)


_FOLD: dict[str, Callable[[int, int], int]] = {
    "min": min,
    "max": max,
    "bitand": int.__and__,
    "bitor": int.__or__,
    "bitxor": int.__xor__,
}


def fold_index(op: str, a: int, b: int) -> int | None:
    """The value of an index operation on numbers; None where it is undefined (division by zero, negative shift)."""
    if op in ("floordiv", "mod", "truncdiv", "truncmod"):
        if b == 0:
            return None
        if op in ("floordiv", "mod"):
            return a // b if op == "floordiv" else a % b
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "truncdiv" else a - b * quotient
    if op in ("shl", "shr"):
        return None if not 0 <= b <= MAX_SHIFT else (a << b if op == "shl" else a >> b)
    return _FOLD[op](a, b)


def binary(op: str, a: TermLike, b: TermLike) -> Term:
    """A binary operation by name; both operands of one type."""
    x, y = pair(op, a, b)
    if x.dtype == INDEX:
        if op not in INDEX_BINARY:
            fix = "use // and % on indices" if op == "div" else "cast to a data type first"
            raise TypeMismatch(f"{op} of {x} and {y}", "not an index operation", fix)
        if x.op == "const" and y.op == "const":
            value = fold_index(op, x.payload, y.payload)
            if value is not None:
                return index_const(value)
        return make(op, (x, y))
    check_real(op, x, y)
    if x.dtype == BOOL and op in ("bitand", "bitor", "bitxor"):
        return compare("ne", x, y) if op == "bitxor" else junction("and" if op == "bitand" else "or", (x, y))
    if op in BITWISE:
        if is_float(x.dtype) or (x.dtype == BOOL and op in ("shl", "shr")):
            raise TypeMismatch(f"{op} of {x} and {y}", f"needs integers, not {x.dtype}")
    elif op not in DATA_BINARY or (x.dtype == BOOL and op not in ("min", "max")):
        raise TypeMismatch(f"{op} of {x} and {y}", f"not defined for {x.dtype}")
    elif op == "div" and not is_float(x.dtype):
        raise TypeMismatch(f"{x} / {y}", f"true division of {x.dtype}", "use // or eq.truncdiv, or a float type")
    elif op in ("truncdiv", "truncmod") and is_float(x.dtype):
        raise TypeMismatch(f"{op} of {x} and {y}", "needs integers")
    return make(op, (x, y), None, x.dtype)


def unary(op: str, a: Term) -> Term:
    """A unary operation by name: neg, abs, bitnot, the float functions and tests."""
    if op == "neg":
        return neg(a)
    if op == "abs":
        return absolute(a)
    if op in FLOAT_TEST:
        if not is_float(a.dtype):
            raise TypeMismatch(f"{op} of {a}", f"needs a float type, not {a.dtype}")
        return make(op, (a,), None, BOOL)
    if op == "bitnot" and a.dtype == INDEX:
        return linear(-1, ((-1, a),))
    if op == "bitnot":
        if a.dtype not in INTS and a.dtype not in UINTS:
            raise TypeMismatch(f"bitnot of {a}", f"not defined for {a.dtype}", "eq.logical_not is that of truths")
        return make(op, (a,), None, a.dtype)
    if op not in FLOAT_UNARY or not is_float(a.dtype):
        raise TypeMismatch(f"{op} of {a}", f"not defined for {a.dtype}", "cast to a float type first")
    return make(op, (a,), None, a.dtype)


def neg(a: Term) -> Term:
    if a.dtype == INDEX:
        return linear(0, ((-1, a),))
    _check_numeric("neg", a)
    return make("neg", (a,), None, a.dtype)


def absolute(a: Term) -> Term:
    if a.dtype == INDEX and a.op == "const":
        return index_const(abs(a.payload))
    _check_numeric("abs", a)
    return make("abs", (a,), None, a.dtype)


def compare(op: str, a: Any, b: Any) -> Term:
    """lt, le, eq or ne of two terms of one type; a bool term."""
    if not (isinstance(a, (Term, int, float, np.generic)) and isinstance(b, (Term, int, float, np.generic))):
        raise TypeMismatch(f"{op} of {a!r} and {b!r}", "not a term or a number", "a.same(b) compares structure")
    x, y = pair(op, a, b)
    check_real(op, x, y)
    if x.op == "const" and y.op == "const" and x.dtype == INDEX:
        p, q = x.payload, y.payload
        return bool_const({"lt": p < q, "le": p <= q, "eq": p == q, "ne": p != q}[op])
    return make(op, (x, y), None, BOOL)


def bool_const(value: bool) -> Term:
    return make("const", (), int(value), BOOL)


TRUE = bool_const(True)
FALSE = bool_const(False)


def as_bool(value: Any) -> Term:
    """A predicate from a bool or a bool term."""
    if isinstance(value, (bool, np.bool_)):
        return TRUE if value else FALSE
    if not isinstance(value, Term) or value.dtype != BOOL:
        kind = value.dtype if isinstance(value, Term) else type(value).__name__
        raise TypeMismatch(f"condition {value}", f"has type {kind}, not bool", "compare with != 0")
    return value


def junction(op: str, parts: Iterable[Term]) -> Term:
    """The lazy, ordered `and`/`or`, flattened: neutral elements and repetitions drop out, an absorbing one ends it."""
    neutral, absorbing = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    kept: dict[Term, None] = {}
    for part in itertools.chain.from_iterable(part.args if part.op == op else (part,) for part in parts):
        if part is neutral:
            continue
        kept.setdefault(part)
        if part is absorbing:
            break
    terms = tuple(kept)
    if not terms:
        return neutral
    return terms[0] if len(terms) == 1 else make(op, terms, None, BOOL)


def logical_and(*parts: Any) -> Term:
    """The conjunction, evaluated from the left and lazily: later parts may assume earlier ones."""
    return junction("and", [as_bool(p) for p in parts])


def logical_or(*parts: Any) -> Term:
    """The disjunction, evaluated from the left and lazily."""
    return junction("or", [as_bool(p) for p in parts])


def logical_not(a: Any) -> Term:
    """The negation of a predicate; comparisons of indices are turned around."""
    x = as_bool(a)
    if x.op == "const":
        return FALSE if x.payload else TRUE
    if x.op == "not":
        return x.args[0]
    if x.op in COMPARE and x.args[0].dtype == INDEX:
        p, q = x.args
        if x.op == "lt":
            return compare("le", q, p)
        return compare("lt", q, p) if x.op == "le" else compare("ne" if x.op == "eq" else "eq", p, q)
    return make("not", (x,), None, BOOL)


def where(condition: Any, a: TermLike, b: TermLike) -> Term:
    """a where the condition holds, else b; lazy: the branch not taken need not be defined."""
    c = as_bool(condition)
    x, y = pair("where", a, b)
    if c.op == "const":
        return x if c.payload else y
    return x if x is y else make("where", (c, x, y), None, x.dtype)


def given(condition: Any, a: Term) -> Term:
    """a where the condition holds; unconstrained elsewhere. For the engine: erased before extraction.

    >>> i = var("i")
    >>> given(i < 4, i % 4)
    given(i < 4, i % 4)
    """
    c = as_bool(condition)
    return a if c is TRUE else make("given", (c, a), None, a.dtype)


def cast_to(a: TermLike, dtype: Any) -> Term:
    """A value converted to another type; float to integer truncates and saturates (NaN gives 0)."""
    dtype = as_dtype(dtype)
    if not isinstance(a, Term):
        return const(a, dtype)
    if a.dtype == dtype:
        return a
    check_real(f"cast to {dtype}", a)
    check_real("cast", dtype)
    if dtype == INDEX and (is_float(a.dtype)):
        raise TypeMismatch(f"cast of {a}", f"{a.dtype} to index", "cast to int64 first")
    return make("cast", (a,), None, dtype)

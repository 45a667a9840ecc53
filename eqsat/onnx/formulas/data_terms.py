"""Index terms as data terms: mathematical integers as int64, in which ONNX computes positions and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import FrontendError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

LEFT = 63
"""Shifted to the right by more, an int64 is what it is by this many; only 0 may be shifted left that far."""


def zero_of(dtype: str) -> Term:
    """The zero of a data type.

    >>> zero_of("bool") is t.FALSE
    True
    """
    return t.FALSE if dtype == BOOL else t.const(0, dtype)


def reads_data(*terms: Term) -> bool:
    """Whether terms load an operand or a hole; constant tables are no data."""
    return any(x.op == "hole" or (x.op == "load" and isinstance(x.payload, int)) for x in postorder(*terms))


def const_data(x: Term) -> Term:
    """A number as data."""
    if x.dtype != INDEX:
        return x
    value = t.int_value(x) or 0
    if not -(1 << 63) <= value < 1 << 63:
        raise FrontendError(f"index {value}", "does not fit int64, in which ONNX computes")
    return t.const(value, "int64")


def as_data(x: Term, args: Sequence[Term]) -> Term:
    """An operation on arguments that are data.

    >>> i = t.var("i")
    >>> j = t.make("value", (), "i", "int64")
    >>> as_data(i * 4 + 1, [j]).op
    'add'
    """
    if x.op == "sum":
        constant, coefficients = x.payload
        total: Term | None = None
        for c, a in zip(coefficients, args, strict=True):
            part = a if abs(c) == 1 else a * t.const(abs(c), "int64")
            total = (part if c > 0 else -part) if total is None else total + part if c > 0 else total - part
        assert total is not None
        return total + constant if constant else total
    if x.op == "prod":
        product = args[0]
        for a in args[1:]:
            product = product * a
        return product
    if x.op == "cast":
        return t.cast_to(args[0], "int64" if x.dtype == INDEX else x.dtype)
    if x.op in ("shl", "shr") and x.dtype == INDEX:
        return t.make(x.op, (args[0], t.binary("min", args[1], LEFT)), None, "int64")
    if x.dtype == INDEX or (x.op in t.COMPARE and x.args[0].dtype == INDEX):
        return t.where(*args) if x.op == "where" else t.make(x.op, args, None, BOOL if x.dtype == BOOL else "int64")
    return t.rebuild(x, args)

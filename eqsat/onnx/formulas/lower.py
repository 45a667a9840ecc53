"""Scalar operations that ONNX has not, or that its runtime computes otherwise, by operations that it has.

What comes out is terms again, over the operations of `PRIMITIVES`. Division guards its divisor, since a `where` of ONNX
computes both branches, and onnxruntime dies of the least integer divided by -1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.ir.dtypes import BOOL, UINTS, is_float, itemsize
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import transform
from eqsat.onnx.formulas.lower_float import DOUBLE, narrow, quotient, remainder

PRIMITIVES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "truncdiv": "Div", "mod": "Mod", "fmod": "Mod",
    "min": "Min", "max": "Max", "pow": "Pow", "neg": "Neg", "abs": "Abs", "lt": "Less", "le": "LessOrEqual",
    "eq": "Equal", "and": "And", "or": "Or", "not": "Not", "where": "Where", "isnan": "IsNaN", "isinf": "IsInf",
    "bitand": "BitwiseAnd", "bitor": "BitwiseOr", "bitxor": "BitwiseXor", "bitnot": "BitwiseNot", "shl": "BitShift",
    "shr": "BitShift", "rawcast": "Cast", "cast": "Cast", "ne": "Equal", "round": "Round", "quadrature": "",
    **{name: name.capitalize() for name in (
        "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
        "acosh", "atanh", "floor", "ceil",
    )},
}  # fmt: skip
"""ONNX's name of each operation. `rawcast` may be given only what the type holds; `fmod` has the sign of its first
operand; `shl` and `shr` are of unsigned integers; `quadrature` is the erf of float64."""


def lowered(x: Term, saturate: bool = True) -> Term:
    """A data term over primitive operations only; `saturate=False` leaves casts of floats to the runtime.

    >>> x = t.make("value", (), "x", "int32")
    >>> print(lowered(x << t.const(1, "int32")).op, lowered(t.make("mod", (x, t.const(3, "int32")), None, "int32")).op)
    cast mod
    """

    def change(node: Term) -> Term | None:
        if node.op == "cast":
            return _cast(node.args[0], node.dtype) if saturate else None
        rule = _RULES.get(node.op)
        return None if rule is None else rule(node)

    return transform(transform(x, change), _folded)


def _folded(x: Term) -> Term | None:
    """An operation on numbers as a number: guards of divisors that are known."""
    if not x.args or x.op in _UNKNOWN or any(a.op != "const" for a in x.args):
        return None
    value, bad = evaluate_masked([x], {})[0]
    return None if bad is not None else t.const(value.astype(x.dtype)[()], x.dtype)


_UNKNOWN = ("rawcast", "fmod", "quadrature")
"""What terms have no value for."""


def _const(value: object, dtype: str) -> Term:
    return t.const(value, dtype)


def _number(x: Term) -> int | None:
    return int(t.const_value(x)) if x.op == "const" else None


def _nonzero(b: Term) -> Term:
    """The divisor, 1 where it is 0: there, the quotient is not used."""
    number = _number(b)
    one = _const(1, b.dtype)
    return (b if number else one) if number is not None else t.where(t.compare("eq", b, 0), one, b)


def _truncdiv(a: Term, b: Term) -> Term:
    def divided(divisor: Term) -> Term:
        return t.make("truncdiv", (a, divisor), None, a.dtype)

    number = _number(b)
    if a.dtype in UINTS or (number is not None and number != -1):
        return divided(_nonzero(b))
    if number == -1:
        return _neg(a)
    minus = t.compare("eq", b, -1)
    return t.where(minus, _neg(a), divided(t.where(minus, _const(1, b.dtype), _nonzero(b))))


def _mod(a: Term, b: Term) -> Term:
    return t.make("mod", (a, _nonzero(b)), None, a.dtype)


def _floordiv(a: Term, b: Term) -> Term:
    """Towards zero, and one less where that was upwards; `a - a % b` would overflow."""
    whole = _truncdiv(a, b)
    if a.dtype in UINTS:
        return whole
    rest = a - whole * b
    number = _number(b)
    below = t.compare("lt", rest, 0)
    if number is not None and number > 0:
        return t.where(below, whole - 1, whole)
    differ = t.compare("ne", below, t.compare("lt", b, 0))
    return t.where(t.logical_and(t.compare("ne", rest, 0), differ), whole - 1, whole)


def _integer_power(a: Term, b: Term) -> Term:
    """By squaring, modulo the width of the type."""
    number, base, result = _number(b), a, _const(1, a.dtype)
    if number is not None:
        while number > 0:
            result = result * base if number & 1 else result
            number, base = number >> 1, base * base
        return result
    rest = b
    for _ in range(8 * itemsize(a.dtype) - (0 if a.dtype in UINTS else 1)):
        odd = t.compare("eq", t.make("mod", (rest, _const(2, b.dtype)), None, b.dtype), 1)
        result = t.where(odd, result * base, result)
        base, rest = base * base, t.make("truncdiv", (rest, _const(2, b.dtype)), None, b.dtype)
    return result


def _shifted(op: str, a: Term, b: Term) -> Term:
    """A shift of unsigned integers; to the right, a negative number is turned over and back."""
    if a.dtype in UINTS:
        return t.make(op, (a, b), None, a.dtype)
    plain = f"u{a.dtype}"
    amount = t.cast_to(b, plain)
    if op == "shl":
        return t.cast_to(t.make(op, (t.cast_to(a, plain), amount), None, plain), a.dtype)
    turned = t.where(t.compare("lt", a, 0), -1 - a, a)
    moved = t.cast_to(t.make(op, (t.cast_to(turned, plain), amount), None, plain), a.dtype)
    return t.where(t.compare("lt", a, 0), -1 - moved, moved)


def _neg(a: Term) -> Term:
    return _const(0, a.dtype) - a if a.dtype in UINTS else t.neg(a)


def _cast(a: Term, dtype: str) -> Term:
    """A float to an integer: truncated, limited to the type, and 0 for NaN."""
    if not is_float(a.dtype) or is_float(dtype) or dtype == BOOL:
        return t.cast_to(a, dtype)
    info = np.iinfo(dtype)
    low, high = float(info.min), float(info.max)
    size = itemsize(dtype)
    if size < 8:
        wide = "float64" if size == 4 or a.dtype == "float64" else "float32"
        value = t.cast_to(a, wide)
        value = t.where(t.unary("isnan", value), _const(0.0, wide), value)
        value = t.binary("min", t.binary("max", value, low), high)
        return t.make("rawcast", (value,), None, dtype)
    value = t.cast_to(a, "float32") if a.dtype == "float16" else a
    inside = t.logical_and(t.compare("lt", low, value), t.compare("lt", value, high))
    raw = t.make("rawcast", (t.where(inside, value, _const(0.0, value.dtype)),), None, dtype)
    above, below = t.compare("le", high, value), t.compare("le", value, low)
    return t.where(above, _const(int(info.max), dtype), t.where(below, _const(int(info.min), dtype), raw))


def _trunc(x: Term) -> Term:
    return t.where(t.compare("lt", x, 0), t.unary("ceil", x), t.unary("floor", x))


def _divided(node: Term) -> Term | None:
    a, b = node.args
    if is_float(node.dtype):
        return narrow(remainder if node.op == "mod" else quotient, a, b)
    if node.op == "truncmod":
        return a - _truncdiv(a, b) * b
    return {"floordiv": _floordiv, "mod": _mod, "truncdiv": _truncdiv}[node.op](a, b)


def _limited(node: Term) -> Term | None:
    """The less and the greater of two truth values."""
    return t.junction("and" if node.op == "min" else "or", node.args) if node.dtype == BOOL else None


_RULES: dict[str, Callable[[Term], Term | None]] = {
    **dict.fromkeys(("floordiv", "mod", "truncdiv", "truncmod"), _divided),
    **dict.fromkeys(("min", "max"), _limited),
    **dict.fromkeys(("shl", "shr"), lambda x: _shifted(x.op, x.args[0], x.args[1])),
    "pow": lambda x: None if is_float(x.dtype) else _integer_power(*x.args),
    "neg": lambda x: _neg(x.args[0]),
    "trunc": lambda x: _trunc(x.args[0]),
    **{name: lambda x: DOUBLE[x.op](x.args[0]) if x.dtype == "float64" else None for name in DOUBLE},
}

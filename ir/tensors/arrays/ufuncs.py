"""numpy's element-wise functions as scalar terms, and their application to tensors in the types of numpy's loops."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, float_info, highest, is_float, is_int, itemsize, lowest
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.arrays.types import as_tensor, elementwise, is_weak, loop_types
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

Scalar = Callable[..., Term]
One = Callable[[Term], Term]
Two = Callable[[Any, Any], Term]


def _is(a: Term, b: Term | float) -> Term:
    return t.compare("eq", a, b)


def _or_bool(plain: Two, junction: Two) -> Two:
    """A function of numbers that is another one of bools."""
    return lambda a, b: junction(a, b) if BOOL in (_type(a), _type(b)) else plain(a, b)


def _type(a: Any) -> str | None:
    return a.dtype if isinstance(a, Term) else None


def _named(op: str) -> Two:
    return lambda a, b: t.binary(op, a, b)


def _float(op: str) -> One:
    """A float function; whole numbers stay as they are where numpy keeps them."""
    return lambda a: t.unary(op, a) if is_float(a.dtype) else a


def _absolute(a: Term) -> Term:
    return a if a.dtype == BOOL else t.absolute(a)


def _sign(a: Term) -> Term:
    one, zero = t.const(1, a.dtype), t.const(0, a.dtype)
    if a.dtype.startswith("u"):
        return t.where(_is(a, 0), zero, one)
    below = t.where(a < 0, t.const(-1, a.dtype), a + zero if is_float(a.dtype) else zero)  # NaN stays, -0.0 is 0.0
    return t.where(zero < a, one, below)


def _square(a: Term) -> Term:
    return a * a


def _reciprocal(a: Term) -> Term:
    return t.const(1, a.dtype) / a if is_float(a.dtype) else t.binary("truncdiv", 1, a)


def _power(a: Any, b: Any) -> Term:
    return t.binary("pow", a, b)


def _exact(a: Term, base: float, scale: float) -> Term:
    """A logarithm to a base: whole where a is a power of the base, or the normal number next to one."""
    found = t.unary("log", a) / t.const(scale, a.dtype)
    near = t.unary("round", found)
    power = _is(t.binary("pow", t.const(base, a.dtype), near), a)
    if base != 2:  # The subnormal number next to a power is too far from it, that of 2 is the power.
        power = t.logical_and(power, t.const(float(float_info(a.dtype).smallest_normal), a.dtype) <= a)
    return t.where(power, near, found)


def _log1p(a: Term) -> Term:
    """log(1 + a) without the loss of 1 + a: what was rounded off divides out."""
    u = a + t.const(1, a.dtype)
    whole = t.logical_or(_is(u, 1), _is(u, math.inf))
    return t.where(whole, a, t.unary("log", u) * (a / (u - t.const(1, a.dtype))))


def _expm1(a: Term) -> Term:
    """exp(a) - 1 without the loss of the difference."""
    u = t.unary("exp", a)
    less = u - t.const(1, a.dtype)
    inner = t.where(t.logical_or(_is(less, -1), _is(u, math.inf)), less, less * (a / t.unary("log", u)))
    return t.where(_is(u, 1), a, inner)


def _logaddexp(a: Term, b: Term) -> Term:
    top = t.binary("max", a, b)
    sum_ = top + _log1p(t.unary("exp", -t.absolute(a - b)))
    return t.where(_is(a, b), a + t.const(math.log(2), a.dtype), sum_)


def _hypot(a: Term, b: Term) -> Term:
    p, q = t.absolute(a), t.absolute(b)
    top, low = t.binary("max", p, q), t.binary("min", p, q)
    ratio = low / top
    length = top * t.unary("sqrt", t.const(1, a.dtype) + ratio * ratio)
    infinite = t.logical_or(t.unary("isinf", a), t.unary("isinf", b))
    return t.where(infinite, t.const(math.inf, a.dtype), t.where(_is(top, 0), top, length))


def _unless_nan(op: str) -> Two:
    def scalar(a: Any, b: Any) -> Term:
        x, y = t.pair(op, a, b)
        if not is_float(x.dtype):
            return t.binary(op, x, y)
        return t.where(t.unary("isnan", x), y, t.where(t.unary("isnan", y), x, t.binary(op, x, y)))

    return scalar


def _compare(op: str, exchanged: bool = False) -> Two:
    def scalar(a: Any, b: Any) -> Term:
        if {_type(a), _type(b)} == {"int64", "uint64"}:
            a, b = _mixed(a, b)
        return t.compare(op, b, a) if exchanged else t.compare(op, a, b)

    return scalar


def _mixed(a: Term, b: Term) -> tuple[Term, Term]:
    """int64 and uint64 as two uint64 that compare alike: 0 and 1 stand for a negative number and what is above it."""
    signed = a if a.dtype == "int64" else b
    negative = signed < 0

    def part(x: Term) -> Term:
        stand_in = t.const(0 if x is signed else 1, "uint64")
        return t.where(negative, stand_in, t.cast_to(x, "uint64"))

    return part(a), part(b)


def _truth(a: Any) -> Term:
    if isinstance(a, (bool, Term)) and (not isinstance(a, Term) or a.dtype == BOOL):
        return t.as_bool(a)
    return t.compare("ne", a, 0)


def _shift(op: str) -> Two:
    """A shift; by the width or more, all bits are gone, as in numpy."""

    def scalar(a: Any, b: Any) -> Term:
        x, y = t.pair(op, a, b)
        if x.dtype == INDEX:
            return t.binary(op, x, y)
        bits = itemsize(x.dtype) * 8
        inside = y < bits if x.dtype.startswith("u") else t.logical_and(t.compare("le", 0, y), y < bits)
        zero = t.const(0, x.dtype)
        negative = op == "shr" and not x.dtype.startswith("u")
        gone = t.where(x < 0, t.const(-1, x.dtype), zero) if negative else zero
        return t.where(inside, t.binary(op, x, y), gone)

    return scalar


def _isfinite(a: Term) -> Term:
    if not is_float(a.dtype):
        return _is(a, a)
    return t.logical_not(t.logical_or(t.unary("isnan", a), t.unary("isinf", a)))


def _test(op: str) -> One:
    return lambda a: t.unary(op, a) if is_float(a.dtype) else t.compare("ne", a, a)


def _scaled(factor: float) -> One:
    return lambda a: a * t.const(factor, a.dtype)


_FUNCTIONS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round",
}  # fmt: skip

_UNARY: dict[str, tuple[str, One]] = {
    **{name: (op, _float(op)) for name, op in _FUNCTIONS.items()},
    "negative": ("neg", t.neg),
    "positive": ("positive", lambda a: a),
    "absolute": ("abs", _absolute),
    "fabs": ("abs", t.absolute),
    "sign": ("sign", _sign),
    "square": ("square", _square),
    "reciprocal": ("reciprocal", _reciprocal),
    "exp2": ("exp2", lambda a: t.binary("pow", t.const(2, a.dtype), a)),
    "log2": ("log2", lambda a: _exact(a, 2, math.log(2))),
    "log10": ("log10", lambda a: _exact(a, 10, math.log(10))),
    "log1p": ("log1p", _log1p),
    "expm1": ("expm1", _expm1),
    "deg2rad": ("deg2rad", _scaled(math.pi / 180)),
    "radians": ("deg2rad", _scaled(math.pi / 180)),
    "rad2deg": ("rad2deg", _scaled(180 / math.pi)),
    "degrees": ("rad2deg", _scaled(180 / math.pi)),
    "logical_not": ("not", lambda a: t.logical_not(_truth(a))),
    "invert": ("not", lambda a: ~a),
    "isnan": ("isnan", _test("isnan")),
    "isinf": ("isinf", _test("isinf")),
    "isfinite": ("isfinite", _isfinite),
}
_BINARY: dict[str, tuple[str, Two]] = {
    "add": ("add", _or_bool(t.add, t.logical_or)),
    "subtract": ("sub", t.sub),
    "multiply": ("mul", _or_bool(t.mul, t.logical_and)),
    "divide": ("div", _named("div")),
    "floor_divide": ("floordiv", _named("floordiv")),
    "remainder": ("mod", _named("mod")),
    "power": ("pow", _power),
    "float_power": ("pow", _power),
    "logaddexp": ("logaddexp", _logaddexp),
    "hypot": ("hypot", _hypot),
    "maximum": ("max", _named("max")),
    "minimum": ("min", _named("min")),
    "fmax": ("fmax", _unless_nan("max")),
    "fmin": ("fmin", _unless_nan("min")),
    "equal": ("equal", _compare("eq")),
    "not_equal": ("not_equal", _compare("ne")),
    "less": ("lt", _compare("lt")),
    "less_equal": ("le", _compare("le")),
    "greater": ("gt", _compare("lt", exchanged=True)),
    "greater_equal": ("ge", _compare("le", exchanged=True)),
    "logical_and": ("and", lambda a, b: t.logical_and(_truth(a), _truth(b))),
    "logical_or": ("or", lambda a, b: t.logical_or(_truth(a), _truth(b))),
    "logical_xor": ("logical_xor", lambda a, b: t.compare("ne", _truth(a), _truth(b))),
    "bitwise_and": ("and", _named("bitand")),
    "bitwise_or": ("or", _named("bitor")),
    "bitwise_xor": ("bitxor", _named("bitxor")),
    "left_shift": ("shl", _shift("shl")),
    "right_shift": ("shr", _shift("shr")),
}
UFUNCS: dict[str, tuple[str, Scalar]] = {**_UNARY, **_BINARY}
"""By numpy's name: what nodes are called, and the function of terms of one type."""


def _is_number(value: Any, number: float) -> bool:
    """Whether an operand is this one number, for which numpy has a loop of its own."""
    return (is_weak(value) or isinstance(value, np.generic)) and bool(value == number)


_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip


def _decided(name: str, operands: Sequence[Any], kind: str) -> Tensor | None:
    """A comparison of whole numbers with a Python integer that their type does not have: one answer for all."""
    if name not in _COMPARED or not is_int(kind):
        return None
    low, high = lowest(kind), highest(kind)
    beyond = [type(v) is int and not low <= v <= high for v in operands]
    if not any(beyond):
        return None
    answer = t.const(_COMPARED[name](*(v if far else 0 for v, far in zip(operands, beyond, strict=True))), BOOL)
    rest = [as_tensor(v, name) for v, far in zip(operands, beyond, strict=True) if not far]

    def everywhere(_: Term) -> Term:
        return answer

    return pointwise.pointwise(UFUNCS[name][0], everywhere, *rest)


def apply(name: str, *operands: Any, dtype: Any = None) -> Tensor:
    """A numpy ufunc of tensors, arrays and numbers, in the types that numpy computes it in.

    >>> import eqsat as eq
    >>> apply("add", eq.input("x", (3, 1), "int8"), eq.input("y", (4,), "float32")).dtype
    'float32'
    """
    tag, scalar = UFUNCS[name]
    types, result = loop_types(name, operands, dtype)
    decided = _decided(name, operands, types[0])
    if decided is not None:
        return decided
    if name in ("power", "float_power") and is_weak(operands[1]) and operands[1] == 2:
        return elementwise("square", _square, types[:1], operands[0])
    if name == "power" and is_float(types[0]) and _is_number(operands[1], 0.5):
        return elementwise("sqrt", _UNARY["sqrt"][1], types[:1], operands[0])
    if name == "positive":
        return as_tensor(operands[0], name).astype(result)
    made = elementwise(tag, scalar, types, *operands)
    assert made.dtype == result, f"{name} gave {made.dtype}, not {result}"
    return made

"""Float operations that ONNX, or its runtime for float64, does not have: remainders, and functions by others."""

from __future__ import annotations

import math
from collections.abc import Callable

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

LN2 = math.log(2.0)
LARGE = 1e8
"""Above this, 1 + x * x is x * x in float64."""


def narrow(function: Callable[[Term, Term], Term], a: Term, b: Term) -> Term:
    """A function of two floats, those of float16 in float32, as numpy computes it."""
    if a.dtype != "float16":
        return function(a, b)
    return t.cast_to(function(t.cast_to(a, "float32"), t.cast_to(b, "float32")), "float16")


def _zero(like: Term) -> Term:
    return t.const(0.0, like.dtype)


def _divmod(a: Term, b: Term) -> tuple[Term, Term]:
    """fmod, and whether its sign has to be turned."""
    rest = t.make("fmod", (a, b), None, a.dtype)
    differ = t.compare("ne", t.compare("lt", b, 0), t.compare("lt", rest, 0))
    return rest, t.logical_and(t.compare("ne", rest, 0), differ)


def remainder(a: Term, b: Term) -> Term:
    """numpy.mod: the sign is that of the divisor."""
    rest, turn = _divmod(a, b)
    signed = t.where(t.compare("lt", b, 0), t.const(-0.0, a.dtype), _zero(a))
    exact = t.logical_and(t.compare("eq", rest, 0), t.compare("ne", b, 0))
    return t.where(exact, signed, t.where(turn, rest + b, rest))


def quotient(a: Term, b: Term) -> Term:
    """numpy.floor_divide."""
    rest, turn = _divmod(a, b)
    ratio = (a - rest) / b
    ratio = t.where(turn, ratio - 1, ratio)
    whole = t.unary("floor", ratio)
    whole = t.where(t.compare("lt", 0.5, ratio - whole), whole + 1, whole)
    found = t.where(t.compare("eq", ratio, 0), a / b * _zero(a), whole)
    return t.where(t.compare("eq", b, 0), a / b, found)


def _exp(x: Term) -> Term:
    return t.unary("exp", x)


def _log(x: Term) -> Term:
    return t.unary("log", x)


def _sqrt(x: Term) -> Term:
    return t.unary("sqrt", x)


def _signed(x: Term, size: Term) -> Term:
    """The size with the sign of x; of zeros, x itself."""
    return t.where(t.compare("eq", x, 0), x, t.where(t.compare("lt", x, 0), -size, size))


def _log1p(x: Term) -> Term:
    """log(1 + x), exact for small x: the rounding of 1 + x cancels (Kahan)."""
    y = 1 + x
    return t.where(t.compare("eq", y, 1), x, _log(y) * x / (y - 1))


def _expm1(x: Term) -> Term:
    y = _exp(x)
    return t.where(t.compare("eq", y, 1), x, (y - 1) * x / _log(y))


def _half_exp(a: Term) -> Term:
    """exp(a) / 2 where exp(a) may overflow."""
    root = _exp(a * 0.5)
    return root * 0.5 * root


def _sinh(x: Term) -> Term:
    a = t.absolute(x)
    m = _expm1(a)
    small = (m + m / (m + 1)) * 0.5
    return _signed(x, t.where(t.compare("lt", 20.0, a), _half_exp(a), small))


def _cosh(x: Term) -> Term:
    a = t.absolute(x)
    return t.where(t.compare("lt", 20.0, a), _half_exp(a), (_exp(a) + _exp(-a)) * 0.5)


def _asinh(x: Term) -> Term:
    a = t.absolute(x)
    small = _log1p(a + a * a / (1 + _sqrt(1 + a * a)))
    return _signed(x, t.where(t.compare("lt", LARGE, a), _log(a) + LN2, small))


def _acosh(x: Term) -> Term:
    a = x - 1
    small = _log1p(a + _sqrt(a * 2 + a * a))
    found = t.where(t.compare("lt", LARGE, x), _log(x) + LN2, small)
    return t.where(t.compare("lt", x, 1), t.const(math.nan, x.dtype), found)


def _atanh(x: Term) -> Term:
    a = t.absolute(x)
    inner = t.where(t.compare("eq", a, 1), t.const(math.inf, x.dtype), _log1p(a * 2 / (1 - a)) * 0.5)
    return _signed(x, inner)


def _atan(x: Term) -> Term:
    """That of float32, and the rest by tan(x - y) = (tan x - tan y) / (1 + tan x tan y)."""
    y = t.cast_to(t.unary("atan", t.cast_to(x, "float32")), x.dtype)
    s, c = t.unary("sin", y), t.unary("cos", y)
    found = y + (x * c - s) / (c + x * s)
    return t.where(t.unary("isinf", x), _signed(x, t.const(math.pi / 2, x.dtype)), found)


DOUBLE: dict[str, Callable[[Term], Term]] = {
    "tan": lambda x: t.unary("sin", x) / t.unary("cos", x),
    "asin": lambda x: _atan(x / _sqrt((1 - x) * (1 + x))),
    "acos": lambda x: _atan(_sqrt((1 - x) / (1 + x))) * 2,
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "erf": lambda x: t.make("quadrature", (x,), None, x.dtype),
}
"""Functions of float64 that onnxruntime has for float32 only."""

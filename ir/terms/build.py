"""The scalar functions users call, under their numpy names. `eqsat.ir.tensors.pointwise` lifts them to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat.ir.errors import TypeMismatch
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, TermLike, cast_to, given, logical_and, logical_not, logical_or, where

__all__ = [
    "abs", "axis", "cast", "ceil", "cos", "erf", "exp", "floor", "given", "log", "logical_and", "logical_not",
    "logical_or", "maximum", "minimum", "power", "ramp", "round", "sigmoid", "sin", "sqrt", "symbol", "tanh", "trunc",
    "truncdiv", "truncmod", "unary_functions", "where",
]  # fmt: skip


def axis(name: str, extent: TermLike | None = None) -> Term:
    """A named index variable with 0 <= name < extent.

    >>> i = axis("i", 16)
    >>> str(i // 4)
    'i // 4'
    """
    return t.var(name, extent)


def symbol(name: str, lower: int | None = 1, upper: int | None = None, multiple_of: int = 1) -> Term:
    """A symbolic size, for example a batch dimension: lower <= name <= upper and name % multiple_of == 0.

    >>> str((symbol("N") + 3) // 4)
    '(N + 3) // 4'

    Every call makes another symbol, whatever its name: use one object for one size. A symbol stays the one it is in
    copies, pickles and JSON. Where two of one name meet, texts show the younger one as `N_1`.

    >>> n, other = symbol("N"), symbol("N")
    >>> n.same(other), str(n - other)
    (False, 'N - N_1')
    """
    return t.sym(name, lower, upper, multiple_of)


def minimum(a: TermLike, b: TermLike) -> Term:
    """The smaller value; NaN where either is NaN (as numpy.minimum)."""
    return t.binary("min", a, b)


def maximum(a: TermLike, b: TermLike) -> Term:
    """The greater value; NaN where either is NaN (as numpy.maximum)."""
    return t.binary("max", a, b)


def truncdiv(a: TermLike, b: TermLike) -> Term:
    """Integer division rounding towards zero, as C and ONNX: truncdiv(-7, 2) is -3."""
    return t.binary("truncdiv", a, b)


def truncmod(a: TermLike, b: TermLike) -> Term:
    """The remainder of truncdiv: truncmod(-7, 2) is -1."""
    return t.binary("truncmod", a, b)


def power(a: TermLike, b: TermLike) -> Term:
    """a ** b of two values of one data type."""
    return t.binary("pow", a, b)


def cast(a: TermLike, dtype: Any) -> Term:
    """A value converted to `dtype` ("index" or a data type); float to integer truncates, saturates, and NaN gives 0."""
    return cast_to(a, dtype)


def ramp(base: TermLike, stride: TermLike, lanes: int) -> Term:
    """The index vector base, base + stride, ... of `lanes` elements.

    >>> ramp(axis("i"), 2, 4).evaluate({"i": 10})
    array([10, 12, 14, 16])
    """
    return t.ramp(base, stride, lanes)


def abs(a: Term) -> Term:
    """The absolute value."""
    return t.absolute(a)


def sigmoid(a: Term) -> Term:
    """1 / (1 + exp(-a)), the logistic function."""
    one = t.const(1, a.dtype)
    return one / (one + exp(-a))


def _function(name: str) -> Callable[[Term], Term]:
    def apply(a: Term) -> Term:
        if not isinstance(a, Term):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(f"{name} of {a!r}", "not a term", "eq.const(value, dtype) makes one")
        return t.unary(name, a)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name} of a float value, in its own precision (numpy.{name})."
    return apply


exp = _function("exp")
log = _function("log")
sqrt = _function("sqrt")
tanh = _function("tanh")
erf = _function("erf")
sin = _function("sin")
cos = _function("cos")
floor = _function("floor")
ceil = _function("ceil")
round = _function("round")
trunc = _function("trunc")
isnan = _function("isnan")


def unary_functions() -> tuple[str, ...]:
    """The names of all float functions a term may use."""
    return t.FLOAT_UNARY

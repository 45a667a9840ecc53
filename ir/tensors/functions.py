"""The functions users call, under their numpy names, on terms and on tensors alike.

On terms they are those of `eqsat.ir.terms.build`; with a tensor among the operands they work element by element.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Protocol, overload

from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms import build
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, TermLike

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cast", "ceil", "cos", "cosh", "equal", "erf", "exp",
    "floor", "greater", "greater_equal", "isinf", "isnan", "less", "less_equal", "log", "logical_and", "logical_not",
    "logical_or", "maximum", "minimum", "not_equal", "power", "round", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc", "truncdiv", "truncmod", "where",
]  # fmt: skip


class Unary(Protocol):
    """A function of one term or tensor."""

    @overload
    def __call__(self, a: Term, /) -> Term: ...
    @overload
    def __call__(self, a: Tensor, /) -> Tensor: ...


class Binary(Protocol):
    """A function of two operands: terms and numbers, or tensors and numbers."""

    @overload
    def __call__(self, a: Tensor, b: Any, /) -> Tensor: ...
    @overload
    def __call__(self, a: TermLike, b: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, a: TermLike, b: TermLike, /) -> Term: ...


def _named(function: Callable[..., Any], name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _unary(name: str, scalar: Callable[[Term], Term], text: str) -> Unary:
    def apply(a: Any, /) -> Any:
        if isinstance(a, Tensor):
            return pointwise.pointwise(name, scalar, a)
        if not isinstance(a, Term):
            raise TypeMismatch(f"{name} of {a!r}", "not a term or a tensor", "eq.const(value, dtype) makes a term")
        return scalar(a)

    return typing.cast(Unary, _named(apply, name, text))


def _float(name: str) -> Unary:
    text = f"{name} of a float value, in its own precision (numpy's)."
    return _unary(name, lambda a: t.unary(name, a), text)


def _binary(name: str, op: str, scalar: Callable[[Any, Any], Term], text: str) -> Binary:
    def apply(a: Any, b: Any, /) -> Any:
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return pointwise.operator(op, a, b)
        return scalar(a, b)

    return typing.cast(Binary, _named(apply, name, text))


exp, log, sqrt, erf = _float("exp"), _float("log"), _float("sqrt"), _float("erf")
sin, cos, tan = _float("sin"), _float("cos"), _float("tan")
asin, acos, atan = _float("asin"), _float("acos"), _float("atan")
sinh, cosh, tanh = _float("sinh"), _float("cosh"), _float("tanh")
asinh, acosh, atanh = _float("asinh"), _float("acosh"), _float("atanh")
floor, ceil, round, trunc = _float("floor"), _float("ceil"), _float("round"), _float("trunc")
isnan, isinf = _float("isnan"), _float("isinf")
abs = _unary("abs", t.absolute, "The absolute value.")
sigmoid = _unary("sigmoid", build.sigmoid, "1 / (1 + exp(-a)), the logistic function.")

minimum = _binary("minimum", "min", build.minimum, "The smaller value; NaN where either is NaN.")
maximum = _binary("maximum", "max", build.maximum, "The greater value; NaN where either is NaN.")
power = _binary("power", "pow", build.power, "a ** b of two values of one data type.")
truncdiv = _binary("truncdiv", "truncdiv", build.truncdiv, "Integer division towards zero: truncdiv(-7, 2) is -3.")
truncmod = _binary("truncmod", "truncmod", build.truncmod, "The remainder of truncdiv: truncmod(-7, 2) is -1.")
equal = _binary("equal", "equal", lambda a, b: t.compare("eq", a, b), "a == b, for tensors by element.")
not_equal = _binary("not_equal", "not_equal", lambda a, b: t.compare("ne", a, b), "a != b, for tensors by element.")
less = _binary("less", "lt", lambda a, b: t.compare("lt", a, b), "a < b.")
less_equal = _binary("less_equal", "le", lambda a, b: t.compare("le", a, b), "a <= b.")
greater = _binary("greater", "gt", lambda a, b: t.compare("lt", b, a), "a > b.")
greater_equal = _binary("greater_equal", "ge", lambda a, b: t.compare("le", b, a), "a >= b.")


@overload
def cast(a: Tensor, dtype: Any) -> Tensor: ...
@overload
def cast(a: TermLike, dtype: Any) -> Term: ...
def cast(a: Any, dtype: Any) -> Any:
    """A value converted to `dtype` ("index" or a data type); float to integer truncates, saturates, and NaN gives 0.

    >>> cast(t.var("i"), "float32")
    cast(i, 'float32')
    """
    return pointwise.cast(a, dtype) if isinstance(a, Tensor) else build.cast(a, dtype)


@overload
def where(condition: Tensor, a: Any, b: Any) -> Tensor: ...
@overload
def where(condition: Term | bool, a: Tensor, b: Any) -> Tensor: ...
@overload
def where(condition: Term | bool, a: TermLike, b: TermLike) -> Term: ...
def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b; on terms the branch not taken need not be defined.

    >>> i = t.var("i")
    >>> where(i < 4, i, i - 4)
    where(i < 4, i, i - 4)
    """
    if any(isinstance(v, Tensor) for v in (condition, a, b)):
        return pointwise.where(condition, a, b)
    return t.where(condition, a, b)


def _junction(name: str, scalar: Callable[..., Term], parts: tuple[Any, ...]) -> Any:
    if not any(isinstance(p, Tensor) for p in parts):
        return scalar(*parts)
    tensors = pointwise.as_operands(name, *parts)
    for x in tensors:
        if x.dtype != BOOL:
            raise TypeMismatch(f"{name} of {x!r}", f"has type {x.dtype}, not bool", "compare with != 0")
    return pointwise.pointwise(name, scalar, *tensors)


@overload
def logical_and(a: Tensor, /, *parts: Any) -> Tensor: ...
@overload
def logical_and(*parts: Term | bool) -> Term: ...
def logical_and(*parts: Any) -> Any:
    """The conjunction; on terms evaluated from the left and lazily: later parts may assume earlier ones.

    >>> i = t.var("i")
    >>> logical_and(0 < i, 8 // i < 4)
    0 < i and 8 // i < 4
    """
    return _junction("and", t.logical_and, parts)


@overload
def logical_or(a: Tensor, /, *parts: Any) -> Tensor: ...
@overload
def logical_or(*parts: Term | bool) -> Term: ...
def logical_or(*parts: Any) -> Any:
    """The disjunction; on terms evaluated from the left and lazily."""
    return _junction("or", t.logical_or, parts)


@overload
def logical_not(a: Tensor) -> Tensor: ...
@overload
def logical_not(a: Term | bool) -> Term: ...
def logical_not(a: Any) -> Any:
    """The negation."""
    return _junction("not", t.logical_not, (a,))

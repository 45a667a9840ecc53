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


def _named(function: Callable[..., Any], name: str, text: str, example: str) -> Any:
    """The function under its public name; the docstring has an example, an expression and what it prints."""
    call, _, shown = example.partition(" is ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\n    >>> import eqsat as eq\n    >>> {call}\n    {shown}\n    "
    return function


def _unary(name: str, scalar: Callable[[Term], Term], text: str, example: str) -> Unary:
    def apply(a: Any, /) -> Any:
        if isinstance(a, Tensor):
            return pointwise.pointwise(name, scalar, a)
        if not isinstance(a, Term):
            raise TypeMismatch(f"{name} of {a!r}", "not a term or a tensor", "eq.const(value, dtype) makes a term")
        return scalar(a)

    return typing.cast(Unary, _named(apply, name, text, example))


def _float(name: str, what: str, at: str, value: str) -> Unary:
    """A function of floats, as numpy computes it, and its value at a point."""
    text = f"{what}, of a float term or each element of a float tensor, in its own precision as numpy computes it."
    example = f'print(eq.{name}(eq.const({at}, "float64")).evaluate({{}})) is {value}'
    return _unary(name, lambda a: t.unary(name, a), text, example)


def _binary(name: str, op: str, scalar: Callable[[Any, Any], Term], text: str, example: str) -> Binary:
    def apply(a: Any, b: Any, /) -> Any:
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return pointwise.operator(op, a, b)
        return scalar(a, b)

    text = f"{text} Of terms and numbers, or of tensors by element, broadcast."
    return typing.cast(Binary, _named(apply, name, text, example))


exp = _float("exp", "e to the power of the value", "0.0", "1.0")
log = _float("log", "The natural logarithm, NaN below 0", "1.0", "0.0")
sqrt = _float("sqrt", "The square root, NaN below 0", "9.0", "3.0")
erf = _float("erf", "The error function, 2 / sqrt(pi) times the integral of exp(-x**2) from 0", "0.0", "0.0")
sin = _float("sin", "The sine of an angle in radians", "0.0", "0.0")
cos = _float("cos", "The cosine of an angle in radians", "0.0", "1.0")
tan = _float("tan", "The tangent of an angle in radians", "0.0", "0.0")
asin = _float("asin", "The angle in [-pi/2, pi/2] with this sine", "0.0", "0.0")
acos = _float("acos", "The angle in [0, pi] with this cosine", "1.0", "0.0")
atan = _float("atan", "The angle in [-pi/2, pi/2] with this tangent", "0.0", "0.0")
sinh = _float("sinh", "The hyperbolic sine", "0.0", "0.0")
cosh = _float("cosh", "The hyperbolic cosine", "0.0", "1.0")
tanh = _float("tanh", "The hyperbolic tangent", "0.0", "0.0")
asinh = _float("asinh", "The inverse of the hyperbolic sine", "0.0", "0.0")
acosh = _float("acosh", "The inverse of the hyperbolic cosine, NaN below 1", "1.0", "0.0")
atanh = _float("atanh", "The inverse of the hyperbolic tangent", "0.0", "0.0")
floor = _float("floor", "The greatest whole number that is not greater", "-1.5", "-2.0")
ceil = _float("ceil", "The smallest whole number that is not smaller", "1.5", "2.0")
round = _float("round", "The nearest whole number, the even one of two", "2.5", "2.0")
trunc = _float("trunc", "The whole part, without what is behind the point", "-1.5", "-1.0")
isnan = _float("isnan", "Whether the value is NaN", 'float("nan")', "True")
isinf = _float("isinf", "Whether the value is infinite", 'float("-inf")', "True")
abs = _unary(
    "abs", t.absolute, "The absolute value, of a term or each element of a tensor.", 'eq.abs(eq.axis("i")) is abs(i)'
)
sigmoid = _unary(
    "sigmoid", build.sigmoid, "1 / (1 + exp(-a)), the logistic function, of a float term or tensor.",
    'print(eq.sigmoid(eq.const(0.0, "float64")).evaluate({})) is 0.5',
)  # fmt: skip

minimum = _binary(
    "minimum", "min", build.minimum, "The smaller value; NaN where either is NaN.",
    'eq.minimum(eq.axis("i"), 4) is minimum(i, 4)',
)  # fmt: skip
maximum = _binary(
    "maximum", "max", build.maximum, "The greater value; NaN where either is NaN.",
    'eq.maximum(eq.axis("i"), 0) is maximum(i, 0)',
)  # fmt: skip
power = _binary(
    "power", "pow", build.power, "a ** b of two values of one data type.",
    'print(eq.power(eq.const(2.0, "float64"), eq.const(3.0, "float64")).evaluate({})) is 8.0',
)  # fmt: skip
truncdiv = _binary(
    "truncdiv", "truncdiv", build.truncdiv, "Integer division rounded towards zero, as C's `/`.",
    "print(eq.truncdiv(-7, 2).evaluate({})) is -3",
)  # fmt: skip
truncmod = _binary(
    "truncmod", "truncmod", build.truncmod, "The remainder of truncdiv, with the sign of a, as C's `%`.",
    "print(eq.truncmod(-7, 2).evaluate({})) is -1",
)  # fmt: skip


def _comparison(name: str, op: str, sign: str, scalar: Callable[[Any, Any], Term]) -> Binary:
    # Terms have no > and >=: they are spelled with the operands exchanged.
    shown = f"4 {sign.replace('>', '<')} i" if ">" in sign else f"i {sign} 4"
    example = f'eq.{name}(eq.axis("i"), 4) is {shown}'
    return _binary(name, op, scalar, f"Whether a {sign} b.", example)


equal = _comparison("equal", "equal", "==", lambda a, b: t.compare("eq", a, b))
not_equal = _comparison("not_equal", "not_equal", "!=", lambda a, b: t.compare("ne", a, b))
less = _comparison("less", "lt", "<", lambda a, b: t.compare("lt", a, b))
less_equal = _comparison("less_equal", "le", "<=", lambda a, b: t.compare("le", a, b))
greater = _comparison("greater", "gt", ">", lambda a, b: t.compare("lt", b, a))
greater_equal = _comparison("greater_equal", "ge", ">=", lambda a, b: t.compare("le", b, a))


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
    """The disjunction; on terms evaluated from the left and lazily: later parts may assume that earlier ones are false.

    >>> i = t.var("i")
    >>> logical_or(i < 1, 8 // i < 4)
    i < 1 or 8 // i < 4
    """
    return _junction("or", t.logical_or, parts)


@overload
def logical_not(a: Tensor) -> Tensor: ...
@overload
def logical_not(a: Term | bool) -> Term: ...
def logical_not(a: Any) -> Any:
    """The negation.

    >>> logical_not(t.var("i") < 4)
    4 <= i
    """
    return _junction("not", t.logical_not, (a,))

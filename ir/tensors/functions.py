"""The element-wise functions users call, under their numpy names, on terms and on tensors alike.

On terms they are those of `eqsat.ir.terms.build`; with a tensor among the operands they work element by element, in the
types in which numpy computes them. `arrays/elementwise.py` has those that came with numpy's surface.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from eqsat.ir.dtypes import BOOL, is_float
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.arrays import ufuncs
from eqsat.ir.tensors.arrays.lifted import (
    OUT,
    Binary,
    Unary,
    binary_function,
    float_function,
    refuse_targets,
    unary_function,
)
from eqsat.ir.tensors.arrays.types import as_tensor, common, refuse, truth
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


def _float(name: str, what: str, at: str, value: str) -> Unary:
    return float_function(name, _NUMPY.get(name, name), what, at, value)


_NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "round": "rint",
}  # fmt: skip


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
trunc = _float("trunc", "The whole part, without what is behind the point", "-1.5", "-1.0")
isnan = _float("isnan", "Whether the value is NaN", 'float("nan")', "True")
isinf = _float("isinf", "Whether the value is infinite", 'float("-inf")', "True")
abs = unary_function(
    "abs",
    "absolute",
    t.absolute,
    "The absolute value, of a term or each element of a tensor.",
    'eq.abs(eq.axis("i")) is abs(i)',
)  # fmt: skip
sigmoid = unary_function(
    "sigmoid", "sigmoid", build.sigmoid, "1 / (1 + exp(-a)), the logistic function, of a float term or tensor.",
    'print(eq.sigmoid(eq.const(0.0, "float64")).evaluate({})) is 0.5',
)  # fmt: skip

minimum = binary_function(
    "minimum", "minimum", build.minimum, "The smaller value; NaN where either is NaN.",
    'eq.minimum(eq.axis("i"), 4) is minimum(i, 4)',
)  # fmt: skip
maximum = binary_function(
    "maximum", "maximum", build.maximum, "The greater value; NaN where either is NaN.",
    'eq.maximum(eq.axis("i"), 0) is maximum(i, 0)',
)  # fmt: skip
power = binary_function(
    "power", "power", build.power, "a ** b of two values of one data type.",
    'print(eq.power(eq.const(2.0, "float64"), eq.const(3.0, "float64")).evaluate({})) is 8.0',
)  # fmt: skip
truncdiv = binary_function(
    "truncdiv", "truncdiv", build.truncdiv, "Integer division rounded towards zero, as C's `/`.",
    "print(eq.truncdiv(-7, 2).evaluate({})) is -3",
)  # fmt: skip
truncmod = binary_function(
    "truncmod", "truncmod", build.truncmod, "The remainder of truncdiv, with the sign of a, as C's `%`.",
    "print(eq.truncmod(-7, 2).evaluate({})) is -1",
)  # fmt: skip


def _comparison(name: str, sign: str, scalar: Callable[[Any, Any], Term]) -> Binary:
    # Terms have no > and >=: they are spelled with the operands exchanged.
    shown = f"4 {sign.replace('>', '<')} i" if ">" in sign else f"i {sign} 4"
    example = f'eq.{name}(eq.axis("i"), 4) is {shown}'
    return binary_function(name, name, scalar, f"Whether a {sign} b.", example)


equal = _comparison("equal", "==", lambda a, b: t.compare("eq", a, b))
not_equal = _comparison("not_equal", "!=", lambda a, b: t.compare("ne", a, b))
less = _comparison("less", "<", lambda a, b: t.compare("lt", a, b))
less_equal = _comparison("less_equal", "<=", lambda a, b: t.compare("le", a, b))
greater = _comparison("greater", ">", lambda a, b: t.compare("lt", b, a))
greater_equal = _comparison("greater_equal", ">=", lambda a, b: t.compare("le", b, a))


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
def round(a: Term, decimals: int = 0) -> Term: ...
@overload
def round(a: Tensor, decimals: int = 0, out: None = None) -> Tensor: ...
def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """The nearest number with so many decimals, the even one of two, as numpy.round.

    >>> import eqsat as eq
    >>> print(eq.round(eq.const(2.5, "float64")).evaluate({}))
    2.0
    """
    refuse("round", "out", out, OUT)
    if isinstance(a, Tensor):
        if not is_float(a.dtype) and decimals < 0 and a.dtype != BOOL:
            raise TypeMismatch(f"round of {a!r}", f"decimals={decimals} of whole numbers", "eq.floor_divide and times")
        kind = "float16" if a.dtype == BOOL else a.dtype
        return pointwise.cast(a, kind) if not is_float(kind) or a.dtype == BOOL else _rounded(a, decimals)
    if not isinstance(a, Term):
        raise TypeMismatch(f"round of {a!r}", "not a term or a tensor", "eq.const(value, dtype) makes a term")
    return _near(a, decimals)


def _near(a: Term, decimals: int) -> Term:
    if not decimals:
        return t.unary("round", a)
    scale = t.const(10.0 ** builtins.abs(decimals), a.dtype)
    return t.unary("round", a * scale) / scale if decimals > 0 else t.unary("round", a / scale) * scale


def _rounded(x: Tensor, decimals: int) -> Tensor:
    return pointwise.pointwise("round", lambda a: _near(a, decimals), x)


@overload
def where(condition: Tensor, a: Any, b: Any) -> Tensor: ...
@overload
def where(condition: Any, a: Tensor, b: Any) -> Tensor: ...
@overload
def where(condition: Any, a: Any, b: Tensor) -> Tensor: ...
@overload
def where(condition: Term | bool, a: TermLike, b: TermLike) -> Term: ...
def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b; on terms the branch not taken need not be defined.

    >>> i = t.var("i")
    >>> where(i < 4, i, i - 4)
    where(i < 4, i, i - 4)
    """
    if not builtins.any(isinstance(v, Tensor) for v in (condition, a, b)):
        return t.where(condition, a, b)
    mask = as_tensor(condition, "where")
    if mask.dtype != BOOL:
        raise TypeMismatch("where", f"the condition is {mask.dtype}, not bool", "compare with != 0")
    return pointwise.where(mask, *common("where", a, b))


def _junction(name: str, ufunc: str, scalar: Callable[..., Term], parts: tuple[Any, ...], dtype: Any) -> Any:
    if not builtins.any(isinstance(p, Tensor) for p in parts):
        return scalar(*parts)
    tensors = [truth(p, name) for p in parts]
    refuse(name, "dtype", None if dtype is None or np.dtype(dtype) == BOOL else dtype, "x.astype(dtype) converts")
    return pointwise.pointwise(ufuncs.UFUNCS[ufunc][0], scalar, *tensors)


@overload
def logical_and(a: Tensor, /, *parts: Any, out: None = None, where: bool = True, dtype: Any = None) -> Tensor: ...
@overload
def logical_and(*parts: Term | bool) -> Term: ...
def logical_and(*parts: Any, out: None = None, where: Any = True, dtype: Any = None) -> Any:
    """The conjunction; on terms evaluated from the left and lazily: later parts may assume earlier ones.

    >>> i = t.var("i")
    >>> logical_and(0 < i, 8 // i < 4)
    0 < i and 8 // i < 4
    """
    refuse_targets("logical_and", out, where)
    return _junction("logical_and", "logical_and", t.logical_and, parts, dtype)


@overload
def logical_or(a: Tensor, /, *parts: Any, out: None = None, where: bool = True, dtype: Any = None) -> Tensor: ...
@overload
def logical_or(*parts: Term | bool) -> Term: ...
def logical_or(*parts: Any, out: None = None, where: Any = True, dtype: Any = None) -> Any:
    """The disjunction; on terms evaluated from the left and lazily: later parts may assume that earlier ones are false.

    >>> i = t.var("i")
    >>> logical_or(i < 1, 8 // i < 4)
    i < 1 or 8 // i < 4
    """
    refuse_targets("logical_or", out, where)
    return _junction("logical_or", "logical_or", t.logical_or, parts, dtype)


@overload
def logical_not(a: Tensor, *, out: None = None, where: bool = True, dtype: Any = None) -> Tensor: ...
@overload
def logical_not(a: Term | bool) -> Term: ...
def logical_not(a: Any, *, out: None = None, where: Any = True, dtype: Any = None) -> Any:
    """The negation.

    >>> logical_not(t.var("i") < 4)
    4 <= i
    """
    refuse_targets("logical_not", out, where)
    return _junction("logical_not", "logical_not", t.logical_not, (a,), dtype)

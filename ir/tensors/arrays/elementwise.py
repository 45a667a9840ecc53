"""More element-wise functions under their numpy names, on terms and on tensors alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from eqsat.ir.dtypes import BOOL, highest, is_int, lowest
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.arrays import types
from eqsat.ir.tensors.arrays.lifted import OUT, Binary, Unary, binary_function, float_function, unary_function
from eqsat.ir.tensors.arrays.types import as_tensor, common, refuse
from eqsat.ir.tensors.arrays.ufuncs import UFUNCS
from eqsat.ir.tensors.tensor import Tensor, constant, data_dtype
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, TermLike


def _binary(name: str, ufunc: str, text: str, example: str, scalar: Callable[[Any, Any], Term] | None = None) -> Binary:
    return binary_function(name, ufunc, scalar or UFUNCS[ufunc][1], text, example)


def _shown(name: str, a: str, b: str, value: str) -> str:
    return f"print(eq.{name}({a}, {b}).evaluate({{}})) is {value}"


def _of_ints(name: str, value: str) -> str:
    return _shown(name, 'eq.const(12, "int8")', 'eq.const(10, "int8")', value)


def _of_floats(name: str, value: str) -> str:
    return _shown(name, 'eq.const(3.0, "float64")', 'eq.const(4.0, "float64")', value)


add = _binary("add", "add", "a + b.", 'eq.add(eq.axis("i"), 4) is i + 4', t.add)
subtract = _binary("subtract", "subtract", "a - b.", 'eq.subtract(eq.axis("i"), 4) is i - 4', t.sub)
multiply = _binary("multiply", "multiply", "a * b.", 'eq.multiply(eq.axis("i"), 4) is 4*i', t.mul)
divide = _binary("divide", "divide", "a / b; of whole numbers in float64.", _of_floats("divide", "0.75"))
true_divide = _binary("true_divide", "divide", "a / b; of whole numbers in float64.", _of_floats("true_divide", "0.75"))
floor_divide = _binary(
    "floor_divide", "floor_divide", "a // b, rounded down; a divisor 0 of whole numbers is an error.",
    'eq.floor_divide(eq.axis("i"), 4) is i // 4',
)  # fmt: skip
remainder = _binary(
    "remainder", "remainder", "a % b, with the sign of b; a divisor 0 of whole numbers is an error.",
    'eq.remainder(eq.axis("i"), 4) is i % 4',
)  # fmt: skip
mod = _binary(
    "mod", "remainder", "a % b, with the sign of b; a divisor 0 of whole numbers is an error.",
    'eq.mod(eq.axis("i"), 4) is i % 4',
)  # fmt: skip
pow = _binary("pow", "power", "a ** b.", _of_floats("pow", "81.0"))
float_power = _binary("float_power", "float_power", "a ** b in float64.", _of_floats("float_power", "81.0"))
hypot = _binary("hypot", "hypot", "The length of (a, b).", _of_floats("hypot", "5.0"))
logaddexp = _binary(
    "logaddexp", "logaddexp", "log(exp(a) + exp(b)), also where exp(a) is too large.",
    'print(eq.logaddexp(eq.const(1000.0, "float64"), eq.const(0.0, "float64")).evaluate({})) is 1000.0',
)  # fmt: skip
fmax = _binary("fmax", "fmax", "The greater value, the other one where one is NaN.", _of_floats("fmax", "4.0"))
fmin = _binary("fmin", "fmin", "The smaller value, the other one where one is NaN.", _of_floats("fmin", "3.0"))
bitwise_and = _binary("bitwise_and", "bitwise_and", "The bits of both.", _of_ints("bitwise_and", "8"))
bitwise_or = _binary("bitwise_or", "bitwise_or", "The bits of either.", _of_ints("bitwise_or", "14"))
bitwise_xor = _binary("bitwise_xor", "bitwise_xor", "The bits of one of both.", _of_ints("bitwise_xor", "6"))
left_shift = _binary(
    "left_shift", "left_shift", "a * 2**b, the upper bits dropped.", 'eq.left_shift(eq.axis("i"), 2) is i << 2'
)
right_shift = _binary("right_shift", "right_shift", "a // 2**b.", 'eq.right_shift(eq.axis("i"), 2) is i >> 2')
bitwise_left_shift = _binary(
    "bitwise_left_shift", "left_shift", "a * 2**b, the upper bits dropped.",
    'eq.bitwise_left_shift(eq.axis("i"), 2) is i << 2',
)  # fmt: skip
bitwise_right_shift = _binary(
    "bitwise_right_shift", "right_shift", "a // 2**b.", 'eq.bitwise_right_shift(eq.axis("i"), 2) is i >> 2'
)
logical_xor = _binary(
    "logical_xor", "logical_xor", "Whether one of both is not 0.",
    'print(eq.logical_xor(eq.axis("i") < 4, True).evaluate({"i": 5})) is True',
)  # fmt: skip


def _unary(name: str, ufunc: str, text: str, example: str) -> Unary:
    return unary_function(name, ufunc, UFUNCS[ufunc][1], f"{text}, of a term or each element of a tensor.", example)


def _minus(name: str, value: str) -> str:
    return f'print(eq.{name}(eq.const(-4, "int8")).evaluate({{}})) is {value}'


negative = _unary("negative", "negative", "-a; unsigned numbers wrap", _minus("negative", "4"))
positive = _unary("positive", "positive", "a itself", _minus("positive", "-4"))
absolute = _unary("absolute", "absolute", "The absolute value", _minus("absolute", "4"))
sign = _unary("sign", "sign", "-1, 0 or 1 by the sign; NaN stays NaN", _minus("sign", "-1"))
square = _unary("square", "square", "a * a", _minus("square", "16"))
invert = _unary("invert", "invert", "The other bits, or the negation of a bool", _minus("invert", "3"))
bitwise_not = _unary("bitwise_not", "invert", "The other bits, or the negation of a bool", _minus("bitwise_not", "3"))
bitwise_invert = _unary(
    "bitwise_invert", "invert", "The other bits, or the negation of a bool", _minus("bitwise_invert", "3")
)
reciprocal = float_function("reciprocal", "reciprocal", "1 / a", "4.0", "0.25")
fabs = float_function("fabs", "fabs", "The absolute value", "-1.5", "1.5")
rint = float_function("rint", "rint", "The nearest whole number, the even one of two", "2.5", "2.0")
exp2 = float_function("exp2", "exp2", "2 to the power of the value", "3.0", "8.0")
log2 = float_function("log2", "log2", "The logarithm to base 2, NaN below 0", "8.0", "3.0")
log10 = float_function("log10", "log10", "The logarithm to base 10, NaN below 0", "1000.0", "3.0")
log1p = float_function("log1p", "log1p", "log(1 + a), exact for small a", "0.0", "0.0")
expm1 = float_function("expm1", "expm1", "exp(a) - 1, exact for small a", "0.0", "0.0")
deg2rad = float_function("deg2rad", "deg2rad", "An angle of degrees in radians", "0.0", "0.0")
rad2deg = float_function("rad2deg", "rad2deg", "An angle of radians in degrees", "0.0", "0.0")
radians = float_function("radians", "radians", "An angle of degrees in radians", "0.0", "0.0")
degrees = float_function("degrees", "degrees", "An angle of radians in degrees", "0.0", "0.0")
isfinite = float_function("isfinite", "isfinite", "Whether the value is neither infinite nor NaN", "1.0", "True")
arcsin = float_function("arcsin", "arcsin", "The angle in [-pi/2, pi/2] with this sine", "0.0", "0.0")
arccos = float_function("arccos", "arccos", "The angle in [0, pi] with this cosine", "1.0", "0.0")
arctan = float_function("arctan", "arctan", "The angle in [-pi/2, pi/2] with this tangent", "0.0", "0.0")
arcsinh = float_function("arcsinh", "arcsinh", "The inverse of the hyperbolic sine", "0.0", "0.0")
arccosh = float_function("arccosh", "arccosh", "The inverse of the hyperbolic cosine, NaN below 1", "1.0", "0.0")
arctanh = float_function("arctanh", "arctanh", "The inverse of the hyperbolic tangent", "0.0", "0.0")


@overload
def clip(
    a: Tensor, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None
) -> Tensor: ...
@overload
def clip(a: Term, a_min: TermLike | None = None, a_max: TermLike | None = None) -> Term: ...
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None) -> Any:
    """The nearest value in a_min..a_max, either of which may be None, as numpy.clip; broadcast.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.clip(eq.constant([-5, 2, 9]), 0, max=4))
    array([0, 2, 4])
    """
    refuse("clip", "out", out, OUT)
    low, high = a_min if min is None else min, a_max if max is None else max
    if isinstance(a, Term):
        a = a if low is None else t.binary("max", a, low)
        return a if high is None else t.binary("min", a, high)
    given = as_tensor(a, "clip")
    kind = types.result_type("clip", given, *(v for v in (low, high) if v is not None))
    low, high = _limit(low, kind, True), _limit(high, kind, False)
    limits = [v for v in (low, high) if v is not None]
    x, *rest = common("clip", given, *limits)
    if all(types.is_weak(v) for v in limits):
        return pointwise.clip(x, low, high)
    names = [op for op, v in (("max", low), ("min", high)) if v is not None]
    for op, limit in zip(names, rest, strict=True):
        x = pointwise.operator(op, x, limit)
    return x


def _limit(value: Any, kind: str, least: bool) -> Any:
    """A limit of `clip` as a number of its type: a Python integer below or above all others limits nothing."""
    number = int(value) if isinstance(value, bool) and kind != BOOL else value
    if type(number) is not int or not is_int(kind):
        return number
    reached = lowest(kind) if least else highest(kind)
    return reached if (number < reached if least else number > reached) else number


def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Tensor:
    """The elements converted; float to integer truncates and saturates. `copy` says nothing here.

    >>> import eqsat as eq
    >>> eq.astype(eq.input("x", (2, 3), "float32"), "int8").dtype
    'int8'
    """
    return pointwise.cast(as_tensor(x, "astype"), data_dtype(dtype))


def result_type(*arrays_and_dtypes: Any) -> str:
    """The type in which numpy combines operands and data types.

    >>> import eqsat as eq
    >>> eq.result_type(eq.input("x", (2,), "int8"), "float16", 1)
    'float16'
    """
    if not arrays_and_dtypes:
        raise TypeMismatch("result_type", "needs an operand")
    kinds = [constant(0, v) if isinstance(v, (str, type, np.dtype)) else v for v in arrays_and_dtypes]
    return types.result_type("result_type", *kinds)

"""ONNX's element-wise operators as scalar formulas."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from eqsat.ir.dtypes import is_float, is_int
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Tensor, constant
from eqsat.ir.tensors.views import broadcast_to
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import same_shape
from eqsat.ir.terms.term import Term
from eqsat.models.package import dtype_name
from eqsat.onnx.call import Call, Declined, single
from eqsat.onnx.ops.signatures import named
from eqsat.onnx.ops.table import BySignature, by_signature, define


def _max(*xs: Any) -> Term:
    return reduce(lambda a, b: t.binary("max", a, b), xs)


def _min(*xs: Any) -> Term:
    return reduce(lambda a, b: t.binary("min", a, b), xs)


def _one(x: Term, value: float = 1.0) -> Term:
    return t.const(value, x.dtype)


def _exp(x: Term) -> Term:
    return t.unary("exp", x)


def _tanh(x: Term) -> Term:
    return t.unary("tanh", x)


def _softplus(x: Term) -> Term:
    return _max(x, 0) + t.unary("log", 1 + _exp(-t.absolute(x)))


def _gelu(x: Term, *, approximate: str) -> Term:
    if approximate == "tanh":
        scale, share = math.sqrt(single(2 / math.pi)), single(0.044715)
        return 0.5 * x * (1 + _tanh(scale * (x + share * (x * x * x))))
    return 0.5 * x * (1 + t.unary("erf", x / math.sqrt(2)))


def _sigmoid(x: Term) -> Term:
    return _one(x) / (1 + _exp(-x))


def _integer(x: Term) -> bool:
    return is_int(x.dtype)


def _mod(a: Term, b: Term, *, fmod: int) -> Term:
    if not _integer(a):
        raise Declined("Mod", "the remainder of floats has no formula here")
    return t.binary("truncmod" if fmod else "mod", a, b)


def _pow(a: Term, b: Term) -> Term:
    if not is_float(a.dtype):
        raise Declined("Pow", "integer powers may be negative")
    return t.binary("pow", a, t.cast_to(b, a.dtype))


def _round(x: Term) -> Term:
    return t.unary("round", x)


def _bits(name: str) -> Callable[[Term, Term], Term]:
    return lambda a, b: t.binary(name, a, b)


def _function(name: str) -> Callable[[Term], Term]:
    return lambda x: t.unary(name, x)


FUNCTIONS = (
    "Exp", "Log", "Sqrt", "Tanh", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh",
    "Atanh", "Floor", "Ceil",
)  # fmt: skip


def _leaky_relu(x: Term, *, alpha: float) -> Term:
    return t.where(x < 0, x * alpha, x)


def _thresholded_relu(x: Term, *, alpha: float) -> Term:
    return t.where(x > alpha, x, 0)


def _elu(x: Term, *, alpha: float) -> Term:
    return t.where(x < 0, alpha * (_exp(x) - 1), x)


def _selu(x: Term, *, alpha: float, gamma: float) -> Term:
    return t.where(x > 0, gamma * x, gamma * (alpha * _exp(x) - alpha))


def _celu(x: Term, *, alpha: float) -> Term:
    return _max(x, 0) + _min(alpha * (_exp(x / alpha) - 1), 0)


def _hard_sigmoid(x: Term, *, alpha: float, beta: float) -> Term:
    return _max(_min(alpha * x + beta, 1), 0)


def _hard_swish(x: Term) -> Term:
    return x * _max(_min(x * single(1 / 6) + 0.5, 1), 0)


def _swish(x: Term, *, alpha: float) -> Term:
    return x * _sigmoid(alpha * x)


def _swiglu(a: Term, b: Term, *, alpha: float) -> Term:
    return a * _sigmoid(alpha * a) * b


def _shrink(x: Term, *, lambd: float, bias: float) -> Term:
    return t.where(x < -lambd, x + bias, t.where(x > lambd, x - bias, 0))


def _sum(*xs: Term) -> Term:
    return reduce(t.add, xs)


def _mean(*xs: Term) -> Term:
    return _sum(*xs) / len(xs)


UNARY: dict[str, Callable[[Term], Term]] = {
    **{name: _function(name.lower()) for name in FUNCTIONS},
    "Neg": lambda x: -x,
    "Abs": lambda x: t.absolute(x),
    "Round": _round,
    "Reciprocal": lambda x: 1 / x,
    "IsNaN": lambda x: t.unary("isnan", x),
    "Relu": lambda x: _max(x, 0),
    "Sigmoid": _sigmoid,
    "HardSwish": _hard_swish,
    "Mish": lambda x: x * _tanh(_softplus(x)),
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + t.absolute(x)),
    "Sign": lambda x: t.where(x > 0, 1, t.where(x < 0, -1, x + 0)),
    "Not": lambda x: t.logical_not(x),
    "BitwiseNot": lambda x: t.unary("bitnot", x),
}
BINARY: dict[str, Callable[[Term, Term], Term]] = {
    "PRelu": lambda x, slope: t.where(x < 0, x * slope, x),
    "Add": t.add,
    "Sub": t.sub,
    "Mul": t.mul,
    "Div": lambda a, b: t.binary("truncdiv", a, b) if _integer(a) else a / b,
    "Pow": _pow,
    "Equal": lambda a, b: t.compare("eq", a, b),
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "And": lambda a, b: t.logical_and(a, b),
    "Or": lambda a, b: t.logical_or(a, b),
    "Xor": lambda a, b: t.compare("ne", a, b),
    "BitwiseAnd": _bits("bitand"),
    "BitwiseOr": _bits("bitor"),
    "BitwiseXor": _bits("bitxor"),
}
FORMULAS: dict[str, Callable[..., Term]] = {
    **UNARY,
    **BINARY,
    "LeakyRelu": _leaky_relu,
    "ThresholdedRelu": _thresholded_relu,
    "Elu": _elu,
    "Selu": _selu,
    "Celu": _celu,
    "HardSigmoid": _hard_sigmoid,
    "Gelu": _gelu,
    "Swish": _swish,
    "SwiGLU": _swiglu,
    "Shrink": _shrink,
    "Mod": _mod,
    "Max": _max,
    "Min": _min,
    "Sum": _sum,
    "Mean": _mean,
    "Where": t.where,
}


@lru_cache(maxsize=1)
def _parameters() -> dict[str, tuple[tuple[inspect.Parameter, ...], tuple[str, ...]]]:
    """The inputs and the attributes of formulas, which are their keyword-only arguments."""
    table: dict[str, tuple[tuple[inspect.Parameter, ...], tuple[str, ...]]] = {}
    for name, function in FORMULAS.items():
        parameters = inspect.signature(function).parameters.values()
        named = tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        table[name] = tuple(p for p in parameters if p.name not in named), named
    return table


def elementwise(c: Call) -> Signature:
    """Of an operator that treats every broadcast element alike."""
    shape = pointwise.broadcast_shapes(*(x.shape for x in c.tensors))
    names = [f"a{n}" for n in range(len(shape))]
    ins = [names[len(names) - x.rank :] for x in c.tensors]
    return named(ins, [names], [x.shape for x in c.tensors], [shape], dict.fromkeys(names, "map"))


def formula(c: Call) -> Tensor:
    function = FORMULAS[c.op]
    attrs = {name: c.parameter(name) for name in _parameters()[c.op][1]}
    if c.opset < 7 and not all(same_shape(x.shape, c.tensors[0].shape) for x in c.tensors):
        raise Declined(c.op, "broadcasts by the rules before opset 7")
    try:
        made = pointwise.pointwise(c.op, lambda *xs: function(*xs, **attrs), *c.tensors)
    except Declined:
        return BySignature(elementwise)(c)[0]
    if c.op == "PRelu" and not same_shape(made.shape, c.tensors[0].shape):
        raise Declined(c.op, "the slope is larger than the tensor")
    return made


CHOICES = {"approximate": "=none|tanh", "fmod": "=0|1"}
"""The values of parameters that have few."""


def _declare_formulas() -> None:
    """A formula's signature is its declaration: arguments are inputs, those by keyword attributes."""
    for name, (free, given) in _parameters().items():
        inputs = " ".join(f"{p.name}*" if p.kind is inspect.Parameter.VAR_POSITIONAL else p.name for p in free)
        define(name, inputs, " ".join(f"{n}{CHOICES.get(n, '')}" for n in given))(formula)


_declare_formulas()


@define("Clip", "input min? max?", "min max", "min max")
def clip(c: Call) -> Tensor:
    def body(x: Term, *bounds: Term) -> Term:
        rest = dict(zip(c.slots[1:], bounds, strict=True))
        low, high = rest.get(1, c.get("min")), rest.get(2, c.get("max"))
        x = x if low is None else t.binary("max", x, low)
        return x if high is None else t.binary("min", x, high)

    return pointwise.pointwise(c.op, body, *c.tensors)


@define("Cast", "input", "to saturate=0|1 round_mode=up|down|nearest")
def cast(c: Call) -> Tensor:
    name = dtype_name(int(c.get("to", 0)))
    if name is None:
        raise Declined(c.op, "the type is not modelled")
    return pointwise.cast(c.one(), name)


@define("CastLike", "input target_type", "saturate=0|1 round_mode=up|down|nearest")
def cast_like(c: Call) -> Tensor:
    x, like = c.tensors
    return pointwise.cast(x, like.dtype)


@define("IsInf", "x", "detect_negative=0|1 detect_positive=0|1")
def is_inf(c: Call) -> Tensor:
    low, high = c.get("detect_negative", 1), c.get("detect_positive", 1)

    def body(x: Term) -> Term:
        infinity = t.const(math.inf, x.dtype)
        sides = [t.compare("eq", x, -infinity if s < 0 else infinity) for s, on in ((-1, low), (1, high)) if on]
        return t.logical_or(*sides) if sides else t.FALSE

    return pointwise.pointwise(c.op, body, c.one())


by_signature("BitShift", "x y", "direction=LEFT|RIGHT")(elementwise)
by_signature("BitCast", "input", "to")(elementwise)


@define("Dropout", "data ratio? training_mode?", "ratio seed is_test=0|1", "ratio training_mode")
def dropout(c: Call) -> list[Tensor]:
    """The operand, and a mask that keeps everything."""
    training = c.get("training_mode", False) or (c.opset < 7 and not c.get("is_test", 0))
    if training or (c.count > 1 and c.opset < 12):
        raise Declined(c.op, "training, or a mask of before opset 12")
    x = c.one()
    return [x] if c.count == 1 else [x, broadcast_to(constant(np.ones((), bool)), x.shape)]


@define("Identity", "input")
def identity(c: Call) -> Tensor:
    return c.one()

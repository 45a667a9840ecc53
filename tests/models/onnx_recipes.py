"""How a random model uses each operator that has an entry: one recipe per family, in every opset that has the operator.

A recipe adds nodes to a builder. It may be careless: what onnxruntime refuses is not added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx_random import FLOATS, Builder, Rejected, Value

from eqsat.models.package import element_type

Recipe = Callable[[Builder, str], object]
RECIPES: dict[str, Recipe] = {}
SIGNED = ("float32", "float32", "float32", "float16", "float64", "int32", "int64", "int8", "int16")
PLAIN = ("float32", "float32", "float32", "float32", "float16", "float64", "int32", "int64")
ANY = (*SIGNED, "uint8", "bool", "bool", "uint16", "uint32", "uint64")
WHOLE = ("int32", "int64", "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")


def recipe(names: str) -> Callable[[Recipe], Recipe]:
    def register(function: Recipe) -> Recipe:
        for name in names.split():
            assert name not in RECIPES, name
            RECIPES[name] = function
        return function

    return register


def parameter(b: Builder, name: str, values: Sequence[int], since: int) -> tuple[list[Value | None], dict[str, Any]]:
    """A list of numbers as a constant input from an opset on, as an attribute before."""
    if b.opset >= since:
        return [b.ints(*values)], {}
    return [], {name: list(values)}


def axis_of(b: Builder, v: Value, negative: bool = True) -> int:
    if not v.rank:
        raise Rejected("no axis")
    return b.whole(-v.rank if negative and b.opset >= 11 else 0, v.rank - 1)


def some_axes(b: Builder, v: Value, least: int = 1) -> list[int]:
    if v.rank < least:
        raise Rejected("no axes")
    found = sorted(int(n) for n in b.random.choice(v.rank, b.whole(least, v.rank), replace=False)) if v.rank else []
    return [n - v.rank if b.opset >= 11 and b.chance(0.3) else n for n in found]


# -- element-wise ----------------------------------------------------------------------------------------------------

ROUNDED = (
    "Exp Tanh Erf Sin Cos Atan Sinh Asinh Sigmoid HardSwish Softplus Softsign Elu Selu Celu HardSigmoid Gelu Mish Swish"
)
STEPS = "Floor Ceil Round Sign"
PARAMETERS: dict[str, tuple[str, ...]] = {
    "Elu": ("alpha",), "Selu": ("alpha", "gamma"), "Celu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
    "Swish": ("alpha",),
}  # fmt: skip


@recipe(ROUNDED)
def rounded(b: Builder, op: str) -> None:
    attrs: dict[str, Any] = {p: b.pick((0.25, 0.5, 1.5)) for p in PARAMETERS.get(op, ()) if b.chance(0.6)}
    if op == "Gelu" and b.chance(0.5):
        attrs["approximate"] = "tanh"
    b.add(op, [b.value(FLOATS)], attrs, positive=op in ("Exp", "Sigmoid", "Softplus"))


@recipe("Log Sqrt Reciprocal")
def of_positive(b: Builder, op: str) -> None:
    b.add(op, [b.value(FLOATS, positive=True)])


@recipe("Asin Acos Atanh Acosh Cosh Tan")
def of_a_range(b: Builder, op: str) -> None:
    x = b.value(FLOATS, exact=True)
    top = max((float(np.max(np.abs(a), initial=0)) for a in x.arrays), default=0)
    if top > 2:
        raise Rejected("out of range")
    scaled = b.add("Mul", [x, b.constant(np.array(0.25, x.dtype))], digits=(x.digits or 0) + 2)[0]
    if op == "Acosh":
        scaled = b.add("Abs", [scaled], digits=scaled.digits)[0]
        scaled = b.add("Add", [scaled, b.constant(np.array(1, x.dtype))], digits=scaled.digits)[0]
    b.add(op, [scaled])


@recipe(STEPS)
def steps(b: Builder, op: str) -> None:
    b.add(op, [b.value((*FLOATS, "int32") if op == "Sign" else FLOATS, exact=True)], digits=0)


@recipe("Neg Abs Relu")
def exact_unary(b: Builder, op: str) -> None:
    v = b.value(SIGNED)
    b.add(op, [v], digits=v.digits, positive=v.positive and op != "Neg")


@recipe("LeakyRelu ThresholdedRelu Shrink")
def thresholds(b: Builder, op: str) -> None:
    v = b.value(FLOATS, exact=True)
    names = {"LeakyRelu": ("alpha",), "ThresholdedRelu": ("alpha",), "Shrink": ("lambd", "bias")}[op]
    attrs = {p: b.pick((0.25, 0.5)) for p in names if b.chance(0.8) or op == "LeakyRelu"}
    b.add(op, [v], attrs, digits=None if v.digits is None else v.digits + 2)


@recipe("IsNaN IsInf")
def float_tests(b: Builder, op: str) -> None:
    attrs = {p: b.whole(0, 1) for p in ("detect_negative", "detect_positive") if op == "IsInf" and b.chance(0.5)}
    b.add(op, [b.value(FLOATS)], attrs)


@recipe("Not")
def logical_not(b: Builder, op: str) -> None:
    b.add(op, [b.value(("bool",))])


@recipe("BitwiseNot")
def bitwise_not(b: Builder, op: str) -> None:
    b.add(op, [b.value(WHOLE)])


def pair(b: Builder, v: Value, positive: bool = False) -> tuple[Value, Value]:
    w = b.like(v, positive)
    return (w, v) if b.chance(0.3) and not positive else (v, w)


def digits_of(values: Sequence[Value], combine: Callable[..., int] = max) -> int | None:
    digits = [v.digits for v in values]
    return None if None in digits else combine(d for d in digits if d is not None)


@recipe("Add Sub Mul")
def arithmetic(b: Builder, op: str) -> None:
    v, w = pair(b, b.value(PLAIN if b.opset < 14 else ANY[:-2]))
    both = v.positive and w.positive and op != "Sub"
    b.add(op, [v, w], digits=digits_of((v, w), sum if op == "Mul" else max), positive=both)


@recipe("Div")
def division(b: Builder, op: str) -> None:
    v = b.value(PLAIN)
    b.add(op, [v, b.like(v, positive=True)])


@recipe("Mod")
def modulo(b: Builder, op: str) -> None:
    v = b.value((*WHOLE, "float32"), exact=True)
    fmod = 1 if v.dtype in FLOATS else b.whole(0, 1)
    w = b.like(v, positive=True)
    if not w.exact:
        raise Rejected("a remainder jumps")
    b.add(op, [v, w], {"fmod": fmod}, digits=digits_of((v, w)))


@recipe("Pow")
def power(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64"), positive=True)
    b.add(
        op,
        [v, b.constant(np.array(b.pick((2, 3, 0.5, 1)), b.pick((v.dtype, "int32") if b.opset >= 12 else (v.dtype,))))],
    )


@recipe("Equal Less LessOrEqual Greater GreaterOrEqual")
def comparison(b: Builder, op: str) -> None:
    b.add(op, list(pair(b, b.value(("bool", "int32", "int64", "float32") if op == "Equal" else PLAIN, exact=True))))


@recipe("And Or Xor")
def logical(b: Builder, op: str) -> None:
    b.add(op, list(pair(b, b.value(("bool",)))))


@recipe("BitwiseAnd BitwiseOr BitwiseXor")
def bitwise(b: Builder, op: str) -> None:
    b.add(op, list(pair(b, b.value(WHOLE))))


@recipe("BitShift")
def shift(b: Builder, op: str) -> None:
    v = b.value(("uint8", "uint32", "uint64"))
    amount = b.constant(np.array(b.whole(0, 3), v.dtype))
    b.add(op, [v, amount if b.chance(0.5) else b.like(v)], {"direction": b.pick(("LEFT", "RIGHT"))})


@recipe("PRelu")
def prelu(b: Builder, op: str) -> None:
    v = b.value(("float32", "float16", "float64"), exact=True)
    slope = b.like(v)
    b.add(op, [v, slope], digits=digits_of((v, slope), sum))


@recipe("Max Min Sum Mean")
def variadic(b: Builder, op: str) -> None:
    v = b.value(FLOATS if op in ("Sum", "Mean") or b.opset < 12 else PLAIN)
    values = [v, *(b.like(v) for _ in range(b.whole(0, 2)))]
    b.random.shuffle(values)  # pyright: ignore[reportArgumentType]
    b.add(op, values, digits=None if op == "Mean" else digits_of(values))


@recipe("Where")
def where(b: Builder, op: str) -> None:
    v = b.value(ANY)
    conditions = [c for c in b.values if c.dtype == "bool" and c.shape == v.shape and c.dynamic == v.dynamic]
    if conditions and b.chance(0.6):
        condition = b.pick(conditions)
    else:
        shape = [1 if n in v.dynamic or b.chance(0.4) else d for n, d in enumerate(v.shape)]
        condition = b.constant(b.numbers("bool", shape)) if b.chance(0.5) else b.input("bool", shape)
    values = pair(b, v)
    b.add(op, [condition, *values], digits=digits_of(values), positive=all(x.positive for x in values))


@recipe("Clip")
def clip(b: Builder, op: str) -> None:
    v = b.value(PLAIN if b.opset >= 12 else FLOATS)
    low, high = sorted((b.whole(-4, 4), b.whole(-4, 8)))
    ends = [low if b.chance(0.7) else None, high if b.chance(0.7) else None]
    if b.opset < 11:
        attrs = {k: float(e) for k, e in zip(("min", "max"), ends, strict=True) if e is not None}
        b.add(op, [v], attrs, digits=v.digits)
        return
    bounds = [
        None if e is None else b.constant(np.array(e, v.dtype)) if b.chance(0.8) else b.input(v.dtype, ()) for e in ends
    ]
    b.add(op, [v, *bounds], digits=digits_of([v, *(x for x in bounds if x is not None)]))


@recipe("Cast CastLike")
def cast(b: Builder, op: str) -> None:
    v = b.value(ANY, exact=True)
    target = b.pick(ANY)
    low = min((float(a.min()) for a in v.arrays if a.size), default=0)
    if (target[0] == "u" and (low < 0 or not v.positive) and v.dtype != "bool") or (
        target in ("int8", "uint8") and _top(v) > 60
    ):
        raise Rejected("not defined")
    digits = 0 if v.dtype not in FLOATS or target not in FLOATS else v.digits
    if op == "CastLike":
        b.add(op, [v, b.constant(b.numbers(target, (1,)))], digits=digits)
    else:
        b.add(op, [v], {"to": element_type(target)}, digits=digits, positive=v.positive and v.dtype == target)


def _top(v: Value) -> float:
    return max((float(np.max(np.abs(a.astype(np.float64)), initial=0)) for a in v.arrays), default=0)


@recipe("Dropout")
def dropout(b: Builder, op: str) -> None:
    v = b.value(FLOATS)
    more: list[Value | None] = []
    if b.opset >= 12 and b.chance(0.6):
        more += [b.constant(np.array(0.25, np.float32)), b.constant(np.array(False))][: b.whole(1, 2)]
    attrs: dict[str, Any] = {"ratio": 0.25} if b.opset < 12 and b.chance(0.5) else {}
    if b.opset < 7:
        attrs["is_test"] = 1
    both = b.chance(0.2) and b.opset >= 10
    b.add(op, [v, *more], attrs, digits=v.digits, outputs=2 if both else 1)


@recipe("Identity")
def identity(b: Builder, op: str) -> None:
    v = b.value(ANY)
    b.add(op, [v], digits=v.digits, positive=v.positive)


# -- layout ----------------------------------------------------------------------------------------------------------


@recipe("Transpose")
def transpose(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    perm = [int(n) for n in b.random.permutation(v.rank)]
    b.add(op, [v], {} if b.chance(0.1) else {"perm": perm}, digits=v.digits, positive=v.positive)


def factors(b: Builder, total: int) -> list[int]:
    """Extents whose product is a number."""
    result: list[int] = []
    while total > 1 and len(result) < 4:
        divisors = [d for d in range(2, total + 1) if total % d == 0]
        result.append(b.pick(divisors))
        total //= result[-1]
    result += [total] if total != 1 else []
    for _ in range(b.whole(0, 1)):
        result.insert(b.whole(0, len(result)), 1)
    return result


@recipe("Reshape")
def reshape(b: Builder, op: str) -> None:
    v = b.value(ANY)
    total = int(np.prod(v.shape, dtype=int))
    if v.dynamic:
        # Static runs of axes are split and merged; a symbolic axis is copied or inferred.
        target: list[int] = []
        run: list[int] = []
        for n, d in enumerate(v.shape):
            if n in v.dynamic:
                target += [*factors(b, int(np.prod(run, dtype=int))), -1]
                run = []
            else:
                run.append(d)
        target += factors(b, int(np.prod(run, dtype=int)))
        places = [n for n, d in enumerate(target) if d == -1]
        if len(places) > 1:
            target = [
                0 if n in v.dynamic and k == n and k != places[-1] else d for k, d in enumerate(target) for n in [k]
            ]
        if len([d for d in target if d == -1]) > 1:
            merged = [d for n, d in enumerate(v.shape) if n not in v.dynamic]
            target = [-1, *merged] if b.chance(0.5) else [*merged, -1]
    else:
        target = factors(b, total) if total else b.pick(([0, 3], [2, 0], list(v.shape)))
        if target and total and b.chance(0.4):
            target[b.whole(0, len(target) - 1)] = -1
        target = [0 if n < v.rank and d == v.shape[n] and d and b.chance(0.3) else d for n, d in enumerate(target)]
    zero = {"allowzero": 1} if total == 0 and b.opset >= 14 else {}
    b.add(op, [v, b.ints(*target)], zero, digits=v.digits, positive=v.positive)


@recipe("Flatten")
def flatten(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    b.add(op, [v], {"axis": b.whole(-v.rank if b.opset >= 11 else 0, v.rank)}, digits=v.digits, positive=v.positive)


@recipe("Squeeze")
def squeeze(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    units = [n for n, d in enumerate(v.shape) if d == 1 and n not in v.dynamic]
    if b.chance(0.4):
        s = b.add(op, [v], {}, digits=v.digits, positive=v.positive)[0]
        if b.chance(0.7):  # of an output, the model says which rank it has
            if s.rank and b.chance(0.5):
                b.add("Concat", [s, s], {"axis": 0}, digits=v.digits)
            else:
                b.add("Identity", [s], digits=v.digits)
        return
    if not units:
        raise Rejected("no unit axis")
    chosen = sorted(b.random.choice(units, b.whole(1, len(units)), replace=False).tolist())
    if b.opset >= 11 and b.chance(0.3):
        chosen = [n - v.rank for n in chosen]
    more, attrs = parameter(b, "axes", chosen, 13)
    b.add(op, [v, *more], attrs, digits=v.digits, positive=v.positive)


@recipe("Unsqueeze")
def unsqueeze(b: Builder, op: str) -> None:
    v = b.value(ANY)
    rank = v.rank + b.whole(1, 2)
    chosen = [int(n) for n in b.random.choice(rank, rank - v.rank, replace=False)]
    if b.opset >= 11 and b.chance(0.3):
        chosen = [n - rank for n in chosen]
    more, attrs = parameter(b, "axes", chosen if b.opset >= 11 else sorted(chosen), 13)
    b.add(op, [v, *more], attrs, digits=v.digits, positive=v.positive)


@recipe("Expand")
def expand(b: Builder, op: str) -> None:
    v = b.value(ANY, most=4)
    shape = [1 if n in v.dynamic or b.chance(0.3) else b.whole(2, 3) if d == 1 else d for n, d in enumerate(v.shape)]
    for _ in range(b.whole(0, 1)):
        shape.insert(0, b.whole(0 if b.chance(0.05) else 1, 3))
    cut = b.whole(0, len(shape)) if b.chance(0.2) else 0
    b.add(op, [v, b.ints(*shape[cut:])], digits=v.digits, positive=v.positive)


@recipe("Tile")
def tile(b: Builder, op: str) -> None:
    v = b.value((*PLAIN, "bool"), most=4)
    b.add(op, [v, b.ints(*(b.pick((1, 1, 2, 3)) for _ in v.shape))], digits=v.digits, positive=v.positive)


@recipe("Pad")
def pad(b: Builder, op: str) -> None:
    v = b.value(PLAIN if b.opset >= 11 else FLOATS, least=1, most=5)
    modes = ("constant", "constant", "constant", "reflect", "edge", *(("wrap",) if b.opset >= 19 else ()))
    attrs: dict[str, Any] = {} if b.chance(0.4) else {"mode": b.pick(modes)}
    low = -1 if b.chance(0.15) else 0
    widths = [b.whole(low, 2) if b.chance(0.5) else 0 for _ in range(2 * v.rank)]
    if b.opset < 11:
        value = {} if b.chance(0.5) else {"value": b.pick((0.5, -1.0))}
        b.add(op, [v], {**attrs, "pads": widths, **value}, digits=None if v.digits is None else max(v.digits, 2))
        return
    more: list[Value | None] = [b.ints(*widths)]
    if b.chance(0.5):
        more.append(b.constant(b.numbers(v.dtype, ())) if b.chance(0.9) else b.input(v.dtype, ()))
    if b.opset >= 18 and b.chance(0.3):
        axes = some_axes(b, v)
        more = [b.ints(*widths[: 2 * len(axes)]), more[1] if len(more) > 1 else None, b.ints(*axes)]
    b.add(op, [v, *more], attrs, digits=None if v.digits is None else max(v.digits, 2))


@recipe("Slice")
def slice_(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    axes = some_axes(b, v)
    starts, ends, by = list[int](), list[int](), list[int]()
    for a in axes:
        step = b.pick((1, 1, 1, 2, 3, -1, -2)) if b.opset >= 10 else 1
        d = v.shape[a]
        start, end = b.whole(-d - 1, d + 1), b.whole(-d - 1, d + 1)
        if b.chance(0.5):
            start, end = (
                (b.pick((0, 1, -d)), b.pick((d, 2**63 - 1, 2**31 - 1, -1, 1000)))
                if step > 0
                else (b.pick((-1, d - 1, 1000)), b.pick((-(2**63), -(2**31), 2**63 - 1, 2**31 - 1, 0, -1000)))
            )
        starts.append(start)
        ends.append(end)
        by.append(step)
    if b.opset < 10:
        b.add(op, [v], {"starts": starts, "ends": ends, "axes": axes}, digits=v.digits, positive=v.positive)
        return
    more: list[Value | None] = [b.ints(*starts), b.ints(*ends)]
    whole = axes == list(range(v.rank))
    more += [None if whole and b.chance(0.5) else b.ints(*axes)]
    if set(by) != {1} or b.chance(0.3):
        more.append(b.ints(*by))
    while more[-1] is None:
        more.pop()
    b.add(op, [v, *more], digits=v.digits, positive=v.positive)


@recipe("Split")
def split(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    axis = axis_of(b, v)
    extent, count = v.shape[axis], b.whole(1, 3)
    if b.chance(0.5) and axis % v.rank not in v.dynamic and extent:
        cuts = sorted(b.whole(0, extent) for _ in range(count - 1))
        sizes = [q - p for p, q in zip([0, *cuts], [*cuts, extent], strict=True)]
        more, attrs = parameter(b, "split", sizes, 13)
        b.add(op, [v, *more], {"axis": axis, **attrs}, count, v.digits, v.positive)
        return
    attrs = {"axis": axis, **({"num_outputs": count} if b.opset >= 18 else {})}
    b.add(op, [v], attrs, count, v.digits, v.positive)


@recipe("Concat")
def concat(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    axis = axis_of(b, v)
    others = [v]

    def around(w: Value) -> list[list[int]]:
        return [[d for n, d in enumerate(a.shape) if n != axis % v.rank] for a in w.arrays]

    for _ in range(b.whole(0, 2)):
        same = [w for w in b.values if w.dtype == v.dtype and w.rank == v.rank and around(w) == around(v)]
        if same and b.chance(0.6):
            others.append(b.pick(same))
        elif not (v.dynamic - {axis % v.rank}):
            shape = [b.whole(0, 3) if n == axis % v.rank else d for n, d in enumerate(v.shape)]
            others.append(b.constant(b.numbers(v.dtype, shape)) if b.chance(0.5) else b.input(v.dtype, shape))
    b.random.shuffle(others)  # pyright: ignore[reportArgumentType]
    b.add(op, others, {"axis": axis}, digits=digits_of(others))


@recipe("Gather")
def gather(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    axis = axis_of(b, v)
    extent = min(a.shape[axis] for a in v.arrays)
    if not extent:
        raise Rejected("nothing to gather")
    shape = [b.whole(0 if b.chance(0.1) else 1, 3) for _ in range(b.whole(0, 2))]
    low = -extent if b.opset >= 11 and axis % v.rank not in v.dynamic else 0
    kind: Any = b.pick((np.int64, np.int32))
    indices: Any = np.array(b.random.integers(low, extent, tuple(shape)), kind)
    if b.chance(0.3) and len(shape) == 1:
        indices = np.array(range(0, extent, b.pick((1, 2))), np.int64)
    if b.chance(0.25) and b.opset >= 10:  # computed
        looked = b.add("Mod", [b.input("int64", shape), b.constant(np.array(extent, np.int64))])[0]
        b.add(op, [v, looked], {"axis": axis}, digits=v.digits, positive=v.positive)
        return
    b.add(op, [v, b.constant(indices)], {"axis": axis}, digits=v.digits, positive=v.positive)


@recipe("DepthToSpace SpaceToDepth")
def blocks(b: Builder, op: str) -> None:
    fits = [v for v in b.values if v.rank == 4 and v.dtype in FLOATS]
    if fits and b.chance(0.6):
        v = b.pick(fits)
    else:
        n: Any = "N" if b.symbolic and b.chance(0.5) else b.whole(1, 2)
        shape = (
            [n, 4, 2, b.pick((2, 4))]
            if op == "SpaceToDepth"
            else [n, b.pick((4, 8)), 2, b.pick((3, "M") if b.symbolic else (3,))]
        )
        v = b.input("float32", shape)
    attrs: dict[str, Any] = {"blocksize": b.pick((1, 2, 2, 2))}
    if b.chance(0.5) and b.opset >= (11 if op == "DepthToSpace" else 28):
        attrs["mode"] = b.pick(("DCR", "CRD"))
    b.add(op, [v], attrs, digits=v.digits, positive=v.positive)


@recipe("Trilu")
def trilu(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64", "int64", "bool", "int32"), least=2)
    more: list[Value | None] = []
    if b.chance(0.7):
        k = np.array(b.whole(-2, 2), np.int64)
        more = [b.constant(k.reshape(1) if b.chance(0.4) else k) if b.chance(0.9) else b.input("int64", ())]
    b.add(op, [v, *more], {"upper": b.whole(0, 1)} if b.chance(0.8) else {}, digits=v.digits)


# -- constants and shapes --------------------------------------------------------------------------------------------


@recipe("ConstantOfShape")
def constant_of_shape(b: Builder, op: str) -> None:
    attrs: dict[str, Any] = {}
    if b.chance(0.7):
        attrs["value"] = numpy_helper.from_array(b.numbers(b.pick(("float32", "int64", "bool", "int32")), (1,)))
    if b.chance(0.5):
        v = b.value(ANY)
        b.add(op, b.add("Shape", [v]), attrs, digits=2)
    else:
        b.add(op, [b.ints(*(b.extent() for _ in range(b.whole(0, 3))))], attrs, digits=2)


@recipe("Constant")
def constant(b: Builder, op: str) -> None:
    shape = [b.extent() for _ in range(b.whole(0, 3))]
    attrs: dict[str, Any] = {"value": numpy_helper.from_array(b.numbers("float32", shape))}
    if b.opset >= 12:
        attrs = b.pick(
            (attrs, {"value_float": 0.5}, {"value_floats": [0.5, 1.0]}, {"value_int": 3}, {"value_ints": [1, 2]})
        )
    c = b.add(op, [], attrs, digits=2)[0]
    if c.dtype == "float32":
        v = b.value(("float32",))
        b.add("Add", [v, c], digits=digits_of((v, c)))


@recipe("Shape Size")
def shapes(b: Builder, op: str) -> None:
    v = b.value(ANY)
    attrs: dict[str, Any] = {}
    if op == "Shape" and b.opset >= 15 and b.chance(0.5):
        attrs = {"start": b.whole(-2, 1), **({"end": b.whole(-1, 3)} if b.chance(0.5) else {})}
    s = b.add(op, [v], attrs)[0]
    if op == "Shape" and s.rank and s.shape[0]:
        kind = b.whole(0, 4)
        if kind == 0:
            shape_arithmetic(b, v, s)
        elif kind == 1 and b.opset >= 10:
            b.add("Slice", [s, b.ints(-1), b.ints(b.pick((-(2**63), 2**63 - 1))), b.ints(0), b.ints(-1)])


def shape_arithmetic(b: Builder, v: Value, s: Value) -> None:
    """A Reshape to a shape that is computed from the shape of another value."""
    if s.shape[0] != v.rank or v.rank < 2:
        return
    first = b.add("Gather", [s, b.ints(0)], {"axis": 0})[0]
    kind = b.whole(0, 2)
    if kind == 0:
        target = b.add("Concat", [first, b.ints(-1)], {"axis": 0})[0]
        b.add("Reshape", [v, target], digits=v.digits, positive=v.positive)
    elif kind == 1 and b.opset >= 8:
        unit = [1 if n in v.dynamic else d for n, d in enumerate(v.shape)]
        x = b.input(v.dtype, unit)
        b.add("Expand", [x, s], digits=x.digits)
    else:
        cells = b.add("ReduceProd", [s], {"keepdims": 1})[0]
        b.add("Reshape", [v, cells], digits=v.digits, positive=v.positive)


@recipe("Range")
def range_(b: Builder, op: str) -> None:
    ends = [b.whole(0, 3), b.whole(0, 9), b.pick((1, 2, -1))]
    dtype = b.pick((np.int64, np.int64, np.int32, np.float32))
    b.add(op, [b.constant(np.array(e, dtype)) for e in ends], digits=0)


# -- reductions and products -----------------------------------------------------------------------------------------

SUMS = (
    "ReduceSum ReduceProd ReduceMax ReduceMin ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp"
)


@recipe(SUMS)
def reduction(b: Builder, op: str) -> None:
    kinds = (
        ("float32", "float32", "float64", "int32", "int64")
        if op in ("ReduceSum", "ReduceMax", "ReduceMin")
        else FLOATS[::2]
    )
    v = b.value(kinds, least=1, positive=op == "ReduceLogSum")
    attrs: dict[str, Any] = {"keepdims": b.whole(0, 1)} if b.chance(0.8) else {}
    since = 13 if op == "ReduceSum" else 18
    if b.opset >= since and b.chance(0.15):
        attrs["noop_with_empty_axes"] = b.whole(0, 1)
    more: list[Value | None] = []
    if b.chance(0.85):
        more, given = parameter(b, "axes", some_axes(b, v, 0 if b.opset >= since else 1), since)
        attrs |= given
    digits = v.digits if op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1") else None
    if op == "ReduceSumSquare" and v.digits is not None:
        digits = 2 * v.digits
    b.add(op, [v, *more], attrs, digits=digits, positive=v.positive and op != "ReduceLogSum")


@recipe("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pool(b: Builder, op: str) -> None:
    v = image(b, 1, 3)
    attrs = {"p": b.whole(1, 3)} if op == "GlobalLpPool" and b.chance(0.6) else {}
    b.add(op, [v], attrs, digits=v.digits if op == "GlobalMaxPool" else None)


@recipe("MatMul")
def matmul(b: Builder, op: str) -> None:
    v = b.value(("float32", "float32", "float64", "int32") if b.opset >= 9 else ("float32", "float64"), least=1, most=4)
    k = v.shape[-1]
    if v.rank - 1 in v.dynamic:
        raise Rejected("the summed axis is symbolic")
    shape = [k] if b.chance(0.15) else [k, b.extent()]
    if len(shape) == 2 and b.chance(0.4):
        batch = [1 if n in v.dynamic or b.chance(0.4) else d for n, d in enumerate(v.shape[:-2])]
        shape = [*batch[b.whole(0, len(batch)) :], *shape]
    w = b.constant(b.numbers(v.dtype, shape)) if b.chance(0.7) else b.input(v.dtype, shape)
    b.add(op, [v, w], digits=digits_of((v, w), sum))


@recipe("Gemm")
def gemm(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64"), least=2, most=2)
    ta, tb = b.whole(0, 1), b.whole(0, 1)
    if (0 if ta else 1) in v.dynamic:
        raise Rejected("the summed axis is symbolic")
    k, m, n = v.shape[0 if ta else 1], v.shape[1 if ta else 0], b.whole(1, 4)
    w = b.constant(b.numbers(v.dtype, (n, k) if tb else (k, n)))
    rows = 1 if (1 if ta else 0) in v.dynamic else m
    added = [b.constant(b.numbers(v.dtype, b.pick(((rows, n), (n,), (1, n), (rows, 1), ()))))]
    added = added if b.opset < 11 or b.chance(0.7) else []
    attrs: dict[str, Any] = {"transA": ta, "transB": tb}
    if b.chance(0.3):
        attrs |= {"alpha": 0.5, "beta": b.pick((1.0, 2.0))}
    digits = digits_of((v, w), sum)
    b.add(op, [v, w, *added], attrs, digits=None if digits is None else digits + 2)


@recipe("Einsum")
def einsum(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64", "int64"), least=1, most=3)
    if v.dynamic or 0 in v.shape:
        raise Rejected("onnxruntime ends the process where there is no cell")
    left = "abc"[: v.rank]
    if b.chance(0.2):
        labels = "ab"[: v.rank - 1] if v.rank > 1 and v.shape[-1] == v.shape[-2] else ""
        dotted = f"...{left[-1]},...{left[-1]}->...{b.pick(('', left[-1]))}"
        same = f"{labels}{labels[-1:]}->{labels if b.chance(0.5) else labels[:-1]}"
        equation, count = (same, 1) if labels and b.chance(0.6) else (dotted, 2)
        b.add(op, [v] * count, {"equation": equation}, digits=digits_of([v] * count, sum))
        return
    if b.chance(0.3):
        out = "".join(b.random.permutation(list(left))[: b.whole(0, v.rank)].tolist())
        b.add(op, [v], {"equation": f"{left}->{out}"}, digits=v.digits)
        return
    names = [n for n in range(v.rank) if n not in v.dynamic and b.chance(0.6)]
    right = "".join(b.random.permutation([left[n] for n in names] + list("xy"[: b.whole(0, 2)])).tolist())
    extents = {**{left[n]: v.shape[n] for n in names}, "x": 2, "y": 3}
    if not right:
        raise Rejected("no axis")
    w = b.constant(b.numbers(v.dtype, [extents[c] for c in right]))
    letters = [c for c in dict.fromkeys(left + right) if b.chance(0.7)]
    b.random.shuffle(letters)  # pyright: ignore[reportArgumentType]
    arrow = f"->{''.join(letters)}" if b.chance(0.85) else ""
    b.add(op, [v, w], {"equation": f"{left},{right}{arrow}"}, digits=digits_of((v, w), sum))


# -- along axes ------------------------------------------------------------------------------------------------------


@recipe("Softmax LogSoftmax Hardmax LpNormalization")
def along(b: Builder, op: str) -> None:
    # Along one cell, the last is the sign of a number, which is anything where 0 was rounded.
    exact = op in ("Hardmax", "LpNormalization")
    v = b.value(FLOATS[:1] if op == "Hardmax" else ("float32", "float64"), least=1, exact=exact)
    attrs: dict[str, Any] = {"axis": axis_of(b, v)} if b.chance(0.8) else {}
    if op == "LpNormalization":
        attrs["p"] = b.whole(1, 2)
    b.add(op, [v], attrs, digits=0 if op == "Hardmax" else None)


@recipe("CumSum")
def cum_sum(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64", "int32", "int64"), least=1)
    axis = np.array(axis_of(b, v), np.int64)
    attrs = {p: b.whole(0, 1) for p in ("exclusive", "reverse") if b.chance(0.6)}
    b.add(op, [v, b.constant(axis.reshape(1) if b.chance(0.2) else axis)], attrs, digits=v.digits)


@recipe("ArgMax ArgMin")
def arg_extreme(b: Builder, op: str) -> None:
    v = b.value(("float32", "int32", "float64"), least=1, exact=True)
    attrs: dict[str, Any] = {"axis": axis_of(b, v), "keepdims": b.whole(0, 1)}
    if b.opset >= 12 and b.chance(0.5):
        attrs["select_last_index"] = b.whole(0, 1)
    b.add(op, [v], attrs)


@recipe("TopK")
def top_k(b: Builder, op: str) -> None:
    v = b.value(("float32", "int64") if b.opset >= 11 else ("float32",), least=1, exact=True)
    axis = axis_of(b, v)
    k = b.whole(0, min(a.shape[axis] for a in v.arrays))
    attrs: dict[str, Any] = {"axis": axis}
    if b.opset >= 11:
        attrs |= {"largest": b.whole(0, 1), "sorted": 1}
    values, attrs = ([v], {**attrs, "k": k}) if b.opset < 10 else ([v, b.ints(k)], attrs)
    b.add(op, values, attrs, 2, digits=v.digits)


@recipe("MeanVarianceNormalization")
def mean_variance(b: Builder, op: str) -> None:
    v = b.value(("float32",), least=4, most=4)
    b.add(op, [v], {} if b.chance(0.4) else {"axes": sorted(n % 4 for n in some_axes(b, v))})


@recipe("LayerNormalization")
def layer_normalization(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64"), least=1, most=4)
    axis = b.whole(0, v.rank - 1)
    if any(n in v.dynamic for n in range(axis, v.rank)):
        raise Rejected("the scale would be symbolic")
    own = v.shape[axis:]
    bias = [b.constant(b.numbers(v.dtype, own))] if b.chance(0.5) else []
    given = axis - v.rank if b.chance(0.5) else axis
    b.add(op, [v, b.constant(b.numbers(v.dtype, own)), *bias], {"axis": given}, b.pick((1, 1, 1, 2, 3)))


@recipe("InstanceNormalization BatchNormalization GroupNormalization")
def normalisation(b: Builder, op: str) -> None:
    v = image(b, 1, 3) if op != "BatchNormalization" else b.value(("float32", "float64"), least=2, static=(1,))
    if 1 in v.dynamic:
        raise Rejected("symbolic channels")
    if op == "InstanceNormalization" and (v.dynamic - {0} or 0 in v.shape):
        raise Rejected("onnxruntime ends the process where there is no cell")
    channels = v.shape[1]
    parameters = [b.constant(b.numbers(v.dtype, (channels,))) for _ in range(2)]
    attrs: dict[str, Any] = {"epsilon": 0.1} if b.chance(0.5) else {}
    if op == "BatchNormalization":
        parameters += [b.constant(b.numbers(v.dtype, (channels,))), b.constant(b.numbers(v.dtype, (channels,), True))]
        if b.opset < 7:
            attrs["is_test"] = 1
    if op == "GroupNormalization":
        groups = b.pick([g for g in range(1, channels + 1) if channels % g == 0] or [1])
        attrs["num_groups"] = groups
    b.add(op, [v, *parameters], attrs)


@recipe("LRN")
def lrn(b: Builder, op: str) -> None:
    attrs: dict[str, Any] = {p: b.pick((0.25, 0.5, 1.5)) for p in ("alpha", "beta", "bias") if b.chance(0.5)}
    b.add(op, [b.value(("float32",), least=4, most=4)], {"size": b.pick((1, 3, 5)), **attrs})


# -- windows ---------------------------------------------------------------------------------------------------------


def image(b: Builder, low: int, high: int) -> Value:
    """A value of (batch, channels, some window axes), the channels known."""
    fits = [v for v in b.values if v.dtype == "float32" and low + 2 <= v.rank <= high + 2 and 1 not in v.dynamic]
    if fits and b.chance(0.75):
        return b.pick(fits[-3:])
    batch: Any = "N" if b.symbolic and b.chance(0.6) else b.whole(1, 2)
    axes: list[Any] = [b.whole(2, 6) for _ in range(b.whole(low, high))]
    if b.symbolic and b.chance(0.3):
        axes[0] = "M"
    return b.input("float32", [batch, b.pick((1, 2, 4)), *axes])


def windows(b: Builder, v: Value, dilations: bool = True) -> dict[str, Any]:
    """Kernel, strides, dilations and pads for the window axes of a value."""
    count = v.rank - 2
    kernel = [b.whole(1, 3) for _ in range(count)]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if b.chance(0.6):
        attrs["strides"] = [b.whole(1, 2) for _ in range(count)]
    if dilations and b.chance(0.3):
        attrs["dilations"] = [b.whole(1, 2) for _ in range(count)]
    mode = b.pick(("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if mode != "NOTSET":
        attrs["auto_pad"] = mode
    elif b.chance(0.6):
        attrs["pads"] = [b.whole(0, k - 1) for k in (*kernel, *kernel)]
    return attrs


@recipe("Conv ConvTranspose")
def convolution(b: Builder, op: str) -> None:
    v = image(b, 1, 2)
    channels, out = v.shape[1], b.whole(1, 3)
    groups = b.pick([g for g in (1, 1, 2, channels) if g and channels % g == 0] or [1])
    attrs = windows(b, v)
    if groups > 1:
        attrs["group"] = groups
    kernel = attrs["kernel_shape"] if b.chance(0.7) else attrs.pop("kernel_shape")
    shape = (out * groups, channels // groups, *kernel) if op == "Conv" else (channels, out, *kernel)
    bias = [b.constant(b.numbers(v.dtype, (out * groups,)))] if b.chance(0.5) else []
    w = b.constant(b.numbers(v.dtype, shape))
    digits = digits_of((v, w), sum)
    b.add(op, [v, w, *bias], attrs, digits=digits)


@recipe("MaxPool AveragePool LpPool")
def pooling(b: Builder, op: str) -> None:
    v = image(b, 1, 3)
    attrs = windows(b, v, dilations=b.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op])
    if b.opset >= (18 if op == "LpPool" else 10) and b.chance(0.4):
        attrs["ceil_mode"] = b.whole(0, 1)
    if op == "AveragePool" and b.opset >= 7 and b.chance(0.5):
        attrs["count_include_pad"] = b.whole(0, 1)
    if op == "LpPool" and b.chance(0.5):
        attrs["p"] = b.whole(1, 3)
    if op == "MaxPool" and b.opset >= 8 and b.chance(0.2):
        attrs["storage_order"] = b.whole(0, 1)
    both = op == "MaxPool" and b.opset >= 8 and b.chance(0.1)
    b.add(op, [v], attrs, 2 if both else 1, digits=v.digits if op == "MaxPool" else None)


@recipe("Resize Upsample")
def resize(b: Builder, op: str) -> None:
    v = b.value(("float32",), least=2, most=4)
    mode = b.pick(
        ("nearest", "nearest", "linear", "cubic") if op == "Resize" and b.opset >= 11 else ("nearest", "linear")
    )
    scales = np.array([b.pick((1, 1, 2, 0.5, 1.5)) if n >= v.rank - 2 else 1 for n in range(v.rank)], np.float32)
    attrs: dict[str, Any] = {"mode": mode}
    if op == "Upsample" and b.opset < 9:
        b.add(
            op, [v], {**attrs, "scales": np.maximum(scales, 1).tolist()}, digits=v.digits if mode == "nearest" else None
        )
        return
    if op == "Upsample" or b.opset < 11:
        scales = np.maximum(scales, 1) if op == "Upsample" else scales
        b.add(op, [v, b.constant(scales)], attrs, digits=v.digits if mode == "nearest" else None)
        return
    modes = (
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        *(("half_pixel_symmetric",) if b.opset >= 19 else ()),
    )
    attrs["coordinate_transformation_mode"] = b.pick(modes)
    if mode == "nearest":
        attrs["nearest_mode"] = b.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    roi = b.constant(np.zeros(0, np.float32)) if b.opset < 13 else None
    digits = v.digits if mode == "nearest" else None
    if b.chance(0.6) or v.dynamic:
        if b.opset >= 18 and b.chance(0.3):
            attrs["axes"] = [v.rank - 2, v.rank - 1]
            scales = scales[-2:]
        b.add(op, [v, roi, b.constant(scales)], attrs, digits=digits)
        return
    sizes = [d if n < v.rank - 2 else b.whole(1, 6) for n, d in enumerate(v.shape)]
    empty = b.constant(np.zeros(0, np.float32)) if b.opset < 13 else None
    b.add(op, [v, roi, empty, b.ints(*sizes)], attrs, digits=digits)


@recipe("QuantizeLinear DequantizeLinear")
def quantisation(b: Builder, op: str) -> None:
    v = b.value(("float32",) if op == "QuantizeLinear" else ("int8", "uint8"), least=1, exact=True)
    dtype = b.pick(("uint8", "int8")) if op == "QuantizeLinear" else v.dtype
    attrs: dict[str, Any] = {}
    own: tuple[int, ...] = ()
    if b.opset >= 13 and b.chance(0.5):
        axis = axis_of(b, v)
        if axis % v.rank in v.dynamic:
            raise Rejected("a symbolic axis")
        attrs["axis"], own = axis, (v.shape[axis],)
    scale = b.constant(np.array(b.random.choice([0.5, 0.25, 1.0, 2.0], own), np.float32))
    zero = [b.constant(b.random.integers(0, 20, own).astype(dtype))] if b.chance(0.7) else []
    b.add(op, [v, scale, *zero], attrs, digits=4)


# -- operators that the table does not have --------------------------------------------------------------------------


def barrier(b: Builder, op: str) -> None:
    """A node that is carried as it stands."""
    kind = b.whole(0, 3)
    v = b.value(("float32", "int64"), least=1, exact=True)
    if kind == 0:
        b.add("NonZero", [v])
    elif kind == 1 and b.opset >= 11:
        b.add("GatherElements", [v, b.constant(np.zeros([1] * v.rank, np.int64))], digits=v.digits)
    elif kind == 2 and b.opset >= 9:
        b.add("EyeLike", [b.value(("float32",), least=2, most=2)], {"dtype": TensorProto.FLOAT}, digits=0)
    elif b.opset >= 11:
        b.add("Compress", [v, b.constant(np.array([True]))], {"axis": 0}, digits=v.digits)

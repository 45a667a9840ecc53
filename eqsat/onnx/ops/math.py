"""ONNX's reductions and contractions as formulas."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors import pointwise, reductions
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Tag, Tensor, from_body
from eqsat.ir.tensors.views import permute_dims
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, reduce_axes, same_dim, size_term
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, reduced_axes
from eqsat.onnx.declare import PRODUCT, REDUCTION
from eqsat.onnx.ops.table import PREFIX, define, opaque

Scalar = Callable[[Term, Term], Term]
"""What is combined, from an element and the number of elements."""


def _share(x: Term, count: Term) -> Term:
    if not is_float(x.dtype):
        raise Declined("mean", "integers round")
    number = t.int_value(count)
    return x / (t.cast_to(count, x.dtype) if number is None else t.const(float(number), x.dtype))


def _plain(x: Term, count: Term) -> Term:
    return x


REDUCTIONS: dict[str, tuple[str, Scalar]] = {
    "ReduceSum": ("sum", _plain),
    "ReduceProd": ("prod", _plain),
    "ReduceMax": ("max", _plain),
    "ReduceMin": ("min", _plain),
    "ReduceMean": ("sum", _share),
    "ReduceSumSquare": ("sum", lambda x, n: x * x),
    "ReduceL1": ("sum", lambda x, n: t.absolute(x)),
    "GlobalAveragePool": ("sum", _share),
    "GlobalMaxPool": ("max", _plain),
}


def reduced(x: Tensor, combiner: str, axes: tuple[int, ...], keepdims: bool, element: Scalar) -> Tensor:
    """Combine element(x[...], number of elements) along axes."""
    if not axes or (combiner in ("max", "min") and any(same_dim(x.shape[a], 0) for a in axes)):
        raise Declined(combiner, "nothing is reduced")
    inner: Shape = tuple(x.shape[a] for a in axes)
    shape: Shape = tuple(1 if n in axes else d for n, d in enumerate(x.shape) if keepdims or n not in axes)
    out, summed = output_axes(shape), iter(reduce_axes(inner))
    kept = iter([i for n, i in enumerate(out) if n not in axes] if keepdims else out)
    load = x[tuple(next(summed) if n in axes else next(kept) for n in range(x.rank))]
    return Tensor(from_body(element(load, size_term(inner)), shape, inner, combiner))


@define(
    "ReduceSum ReduceProd ReduceMax ReduceMin ReduceMean ReduceSumSquare ReduceL1", "data axes?", REDUCTION, "axes[]"
)
def reduce(c: Call) -> Tensor:
    x = c.one()
    combiner, element = REDUCTIONS[c.op]
    return reduced(x, combiner, reduced_axes(c, x), bool(c.get("keepdims", 1)), element)


@define("GlobalAveragePool GlobalMaxPool", "x")
def global_pool(c: Call) -> Tensor:
    x = c.one()
    combiner, element = REDUCTIONS[c.op]
    return reduced(x, combiner, tuple(range(2, x.rank)), True, element)


@define("MatMul", "a b")
def matmul(c: Call) -> Tensor:
    a, b = c.tensors
    return reductions.matmul(a, b)


@define("Gemm", "a b c?", PRODUCT)
def gemm(c: Call) -> Tensor:
    a, b, *rest = c.tensors
    if c.get("alpha", 1.0) != 1.0 or (rest and c.get("beta", 1.0) != 1.0):
        return _scaled_gemm(c, rest)[0]
    rows, columns = "km" if c.get("transA", 0) else "mk", "nk" if c.get("transB", 0) else "kn"
    product = reductions.contract(f"{rows},{columns}->mn", a, b, Tag(PREFIX + c.op, tuple(sorted(c.attrs.items()))))
    if not rest:
        return product
    return pointwise.pointwise("Add", lambda p, q: p + q, product, rest[0])


def _scaled_gemm(c: Call, rest: list[Tensor]) -> tuple[Tensor, ...]:
    left: Dims = (("k",), ("m",)) if c.get("transA", 0) else (("m",), ("k",))
    right: Dims = (("n",), ("k",)) if c.get("transB", 0) else (("k",), ("n",))
    out: Dims = (("m",), ("n",))
    a, b = c.tensors[:2]
    shape = (a.shape[1 if c.get("transA", 0) else 0], b.shape[0 if c.get("transB", 0) else 1])
    added: list[Dims] = []
    for x in rest:
        pairs = zip(out[2 - x.rank :], x.shape, shape[2 - x.rank :], strict=True)
        added.append(tuple(d if same_dim(own, whole) else () for d, own, whole in pairs))
    signature = Signature((left, right, *added), (out,), {"m": "map", "n": "map", "k": "reduce"})
    return opaque(c, signature, [(shape, a.dtype)])


@define("Einsum", "inputs*", "equation=*")
def einsum(c: Call) -> Tensor:
    text = str(c.attrs["equation"]).replace(" ", "")
    if "." in text or len(c.tensors) > 2 or not c.tensors:
        raise Declined(c.op, "an ellipsis, or more than two operands")
    left, arrow, result = text.partition("->")
    labels = left.split(",")
    if not arrow:
        letters = left.replace(",", "")
        result = "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    extents = {x: d for names, v in zip(labels, c.tensors, strict=True) for x, d in zip(names, v.shape, strict=True)}
    repeated = any(len(set(names)) != len(names) for names in (*labels, result))
    if repeated or any(
        not same_dim(extents[x], d)
        for names, v in zip(labels, c.tensors, strict=True)
        for x, d in zip(names, v.shape, strict=True)
    ):
        raise Declined(c.op, "a repeated or broadcast label")
    summed = [x for x in dict.fromkeys("".join(labels)) if x not in result]
    shape, inner = tuple(extents[x] for x in result), tuple(extents[x] for x in summed)
    place = dict(zip([*result, *summed], [*output_axes(shape), *reduce_axes(inner)], strict=True))
    loads = [v[tuple(place[x] for x in names)] for names, v in zip(labels, c.tensors, strict=True)]
    if len(loads) == 1 and not inner:
        return permute_dims(c.tensors[0], [labels[0].index(x) for x in result])
    body = loads[0] if len(loads) == 1 else loads[0] * loads[1]
    return Tensor(from_body(body, shape, inner, "sum" if inner else None))

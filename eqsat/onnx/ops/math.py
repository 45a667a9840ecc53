"""ONNX's reductions and contractions as formulas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors import pointwise, reductions
from eqsat.ir.tensors.pointwise import broadcast_shapes
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Tag, Tensor, from_body
from eqsat.ir.tensors.views import permute_dims
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, output_axes, reduce_axes, same_dim, size_term
from eqsat.ir.terms.term import Term
from eqsat.onnx.added import MICROSOFT
from eqsat.onnx.call import Call, Declined, reduced_axes
from eqsat.onnx.ops.declare import PRODUCT, REDUCTION
from eqsat.onnx.ops.nodes import Formula
from eqsat.onnx.ops.signatures import spelled
from eqsat.onnx.ops.table import PREFIX, define
from eqsat.onnx.ops.turns import Matrices

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


@define("Gemm", "a b c?", PRODUCT, turning=Matrices())
def gemm(c: Call) -> Tensor:
    a, b, *rest = c.tensors
    if c.get("alpha", 1.0) != 1.0 or (rest and c.get("beta", 1.0) != 1.0):
        return Formula(_scaled, otherwise=_scaled_signature)(c)[0]
    product = _product(c, a, b, Tag(PREFIX + c.op, tuple(sorted(c.attrs.items()))))
    if not rest:
        return product
    return pointwise.pointwise("Add", lambda p, q: p + q, product, rest[0])


@define("FusedMatMul", "A B", "alpha transA=0|1 transB=0|1 transBatchA=0|1 transBatchB=0|1", domain=MICROSOFT,
        turning=Matrices(first=("transBatchA", "transBatchB")))  # fmt: skip
def fused_matmul(c: Call) -> Tensor:
    if c.get("alpha", 1.0) != 1.0:
        return Formula(_scaled)(c)[0]
    return _batched(c)


def _batched(c: Call) -> Tensor:
    """A product of batches of matrices, each possibly with its last two axes exchanged, its rows before its batch."""
    a, b = c.tensors
    lifted = [bool(c.get(name, 0)) for name in ("transBatchA", "transBatchB")]
    if a.rank < 2 or b.rank < 2 or (any(lifted) and (a.rank != b.rank or a.rank < 3)):
        raise Declined(c.op, "ranks of which nothing is said")

    def parts(x: Tensor, first: bool) -> tuple[Shape, tuple[Dim, Dim]]:
        d = x.shape
        return (d[1:-1], (d[0], d[-1])) if first else (d[:-2], (d[-2], d[-1]))

    (left, (p, q)), (right, (r, s)) = parts(a, lifted[0]), parts(b, lifted[1])
    rows, inner = (q, p) if c.get("transA", 0) else (p, q)
    other, columns = (s, r) if c.get("transB", 0) else (r, s)
    if not same_dim(inner, other):
        raise Declined(c.op, f"{inner} does not match {other}")
    batch = broadcast_shapes(left, right)
    shape = (*batch, rows, columns)
    *axes, m, n = output_axes(shape)
    k = t.red(0, inner)

    def load(x: Tensor, own: Shape, ends: tuple[Term, Term], first: bool) -> Term:
        places = zip(own, axes[len(axes) - len(own) :], strict=True)
        middle = [t.index_const(0) if same_dim(d, 1) else i for d, i in places]
        return x[(ends[0], *middle, ends[1]) if first else (*middle, *ends)]

    x = load(a, left, (k, m) if c.get("transA", 0) else (m, k), lifted[0])
    y = load(b, right, (n, k) if c.get("transB", 0) else (k, n), lifted[1])
    return Tensor(from_body(x * y, shape, (inner,), "sum"))


def _scaled(c: Call) -> Tensor:
    a, b, *rest = c.tensors
    if not is_float(a.dtype):
        raise Declined(c.op, "integers are scaled")
    product = _product(c, a, b, Tag("Gemm")) if c.op == "Gemm" else _batched(c)
    alpha = float(c.parameter("alpha"))
    if not rest:
        return pointwise.pointwise("Mul", lambda p: p * alpha, product)
    beta = float(c.parameter("beta"))
    return pointwise.pointwise("Add", lambda p, q: p * alpha + q * beta, product, rest[0])


def _scaled_signature(c: Call) -> Signature:
    """Integers are rounded somehow as they are scaled."""
    rows, columns = ("k m" if c.get("transA", 0) else "m k"), ("n k" if c.get("transB", 0) else "k n")
    rank = c.tensors[2].rank if len(c.tensors) > 2 else 0
    if rank > 2:
        raise Declined(c.op, f"adds a tensor of rank {rank}")
    return spelled(c, f"{rows}, {columns}, {('()', 'n', 'm n')[rank]} -> m n", map="m n", reduce="k")


def _product(c: Call, a: Tensor, b: Tensor, tag: Tag) -> Tensor:
    rows, columns = "km" if c.get("transA", 0) else "mk", "nk" if c.get("transB", 0) else "kn"
    return reductions.contract(f"{rows},{columns}->mn", a, b, tag)


@define("Einsum", "inputs*", "equation=*")
def einsum(c: Call) -> Tensor:
    """A sum of products; a label twice on an operand is its diagonal, and an ellipsis its axes that have no label."""
    labels, result = _equation(str(c.get("equation", "")), c.tensors, c.op)
    extents: dict[str, Dim] = {}
    for names, v in zip(labels, c.tensors, strict=True):
        for x, d in zip(names, v.shape, strict=True):
            known = extents.setdefault(x, d)
            if not same_dim(known, d):
                if not (same_dim(known, 1) or same_dim(d, 1)):
                    raise Declined(c.op, f"{x} is both {known} and {d}")
                extents[x] = d if same_dim(known, 1) else known
    if any(x not in extents for x in result) or len(set(result)) != len(result):
        raise Declined(c.op, "a label of the result is repeated, or of no operand")
    summed = [x for x in dict.fromkeys(x for names in labels for x in names) if x not in result]
    shape, inner = tuple(extents[x] for x in result), tuple(extents[x] for x in summed)
    if len(c.tensors) == 1 and not inner and len(set(labels[0])) == len(labels[0]):
        return permute_dims(c.tensors[0], [labels[0].index(x) for x in result])
    place = dict(zip([*result, *summed], [*output_axes(shape), *reduce_axes(inner)], strict=True))

    def loaded(names: Sequence[str], v: Tensor) -> Term:
        units = [same_dim(d, 1) and not same_dim(extents[x], 1) for x, d in zip(names, v.shape, strict=True)]
        return v[tuple(t.index_const(0) if unit else place[x] for x, unit in zip(names, units, strict=True))]

    body = functools.reduce(t.mul, (loaded(names, v) for names, v in zip(labels, c.tensors, strict=True)))
    return Tensor(from_body(body, shape, inner, "sum" if inner else None))


def _equation(text: str, operands: Sequence[Tensor], op: str) -> tuple[list[list[str]], list[str]]:
    """The labels of operands and result; those of an ellipsis are numbers, counted from the back."""
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(operands) or not operands:
        raise Declined(op, f"{len(parts)} terms for {len(operands)} operands")
    labels: list[list[str]] = []
    hidden = 0
    for part, v in zip(parts, operands, strict=True):
        before, dots, after = part.partition("...")
        count = v.rank - len(before) - len(after)
        if count < 0 or (count and not dots) or "." in before + after:
            raise Declined(op, f"{part} for rank {v.rank}")
        hidden = max(hidden, count)
        labels.append([*before, *(str(k) for k in reversed(range(count))), *after])
    whole = [str(k) for k in reversed(range(hidden))]
    if not arrow:
        letters = [x for names in labels for x in names if not x.isdigit()]
        return labels, [*whole, *sorted(x for x in set(letters) if letters.count(x) == 1)]
    before, dots, after = right.partition("...")
    if whole and not dots:
        raise Declined(op, "the axes of an ellipsis are summed")
    return labels, [*before, *(whole if dots else ()), *after]

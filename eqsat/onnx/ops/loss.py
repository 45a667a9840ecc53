"""Losses of ONNX: of every sample the score of its class, weighted, then their mean or sum."""

from __future__ import annotations

from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import reduce
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, reduce_axes
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.along import log_softmax_formula
from eqsat.onnx.ops.nodes import node

LOSS = "ignore_index reduction=none|sum|mean"


def _picked(x: Tensor, target: Tensor, weight: Tensor | None, ignored: int | None) -> tuple[Tensor, Tensor]:
    """The loss and the weight of every sample: a sum over classes of which one counts, which rounds nothing."""
    if x.rank < 2 or target.rank != x.rank - 1:
        raise Declined("loss", f"classes of rank {x.rank} for samples of rank {target.rank}")
    shape: Shape = (x.shape[0], *x.shape[2:])
    n, *rest = output_axes(shape)
    k = reduce_axes((x.shape[1],))[0]
    label = t.cast_to(target[(n, *rest)], "int64")
    hit = t.compare("eq", label, t.cast_to(k, "int64"))
    if ignored is not None:
        hit = t.logical_and(hit, t.compare("ne", label, ignored))
    own = t.const(1, x.dtype) if weight is None else weight[(k,)]
    score: Term = -x[(n, k, *rest)]
    zero = t.const(0, x.dtype)
    bodies = (t.where(hit, score if weight is None else score * own, zero), t.where(hit, own, zero))
    first, second = (Tensor(from_body(body, shape, (x.shape[1],), "sum")) for body in bodies)
    return first, second


def _reduced(c: Call, x: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    ignored = c.get("ignore_index")
    losses, weights = _picked(x, target, weight, None if ignored is None else int(ignored))
    kind = str(c.get("reduction", "mean"))
    if kind == "none":
        return losses
    axes = tuple(range(losses.rank))
    total = reduce(losses, "sum", axes, False)
    return total if kind == "sum" else pointwise("Div", lambda a, b: a / b, total, reduce(weights, "sum", axes, False))


@node("NegativeLogLikelihoodLoss", "input target weight?", LOSS)
def negative_log_likelihood(c: Call) -> Tensor:
    x, target, *weight = c.tensors
    return _reduced(c, x, target, weight[0] if weight else None)


@node("SoftmaxCrossEntropyLoss", "scores labels weights?", LOSS)
def softmax_cross_entropy(c: Call) -> list[Tensor]:
    x, target, *weight = c.tensors
    scores = log_softmax_formula(x, (1,))
    return [_reduced(c, scores, target, weight[0] if weight else None), scores]

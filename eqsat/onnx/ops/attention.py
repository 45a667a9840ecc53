"""Attention of ONNX: scores of queries and keys, a softmax along the keys, a weighted sum of values; rotations."""

from __future__ import annotations

import math

from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import concat, softmax_formula
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.tensors.views import permute_dims, reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_dim, output_axes, reduce_axes, same_dim
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.signatures import spelled

SLOTS = 7
"""Query, key, value, mask, past key, past value, lengths."""


def _slots(c: Call) -> list[Tensor | None]:
    return [*c.operands, *((None,) * SLOTS)][:SLOTS]


def attention_signature(c: Call) -> Signature:
    """Batches and heads are independent, and so are the columns of the values."""
    q, k, _, mask, *_ = _slots(c)
    assert q is not None and k is not None
    if {q.rank, k.rank} not in ({3}, {4}):
        raise Declined(c.op, f"queries of rank {q.rank}, keys of rank {k.rank}")
    if q.rank == 3:
        scores, ins, outs = "b h s u", "b s q, b t k, b t v", "b s o, b n u d, b n u e"
        free, summed, state = "b", "", "n"
    else:
        head = "h" if same_dim(q.shape[1], k.shape[1]) else "n"
        scores, ins, outs = "b h s u", f"b h s d, b {head} t d, b {head} t v", f"b h s v, b {head} u d, b {head} u v"
        free, summed, state = ("b h v" if head == "h" else "b v"), "d", head
    masked = " ".join(scores.split()[4 - mask.rank :]) if mask is not None and mask.rank else "()"
    past = f"b {state} p d, b {state} p {'e' if q.rank == 3 else 'v'}"
    return spelled(c, f"{ins}, {masked}, {past}, b -> {outs}, {scores}", map=free, reduce=summed)


def _heads(x: Tensor, count: int, op: str) -> Tensor:
    """(batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    if x.rank == 4:
        return x
    width = x.shape[-1] if x.shape else None
    if x.rank != 3 or count < 1 or not isinstance(width, int) or width % count:
        raise Declined(op, f"{count} heads of {width} numbers at rank {x.rank}")
    return permute_dims(reshape(x, (*x.shape[:2], count, width // count)), (0, 2, 1, 3))


def _rows(x: Tensor, k: Tensor, op: str) -> int:
    """How many heads of the query share one of the keys."""
    many, few = x.shape[1], k.shape[1]
    if same_dim(many, few):
        return 1
    if not isinstance(many, int) or not isinstance(few, int) or not few or many % few:
        raise Declined(op, f"{many} heads of queries, {few} of keys")
    return many // few


def _scores(c: Call, q: Tensor, k: Tensor, share: int) -> Tensor:
    size = q.shape[3]
    if "scale" not in c.attrs and not isinstance(size, int):
        raise Declined(c.op, "the size of a head is symbolic")
    scale = float(c.attrs["scale"]) if "scale" in c.attrs else 1 / math.sqrt(int(str(size)))
    if not scale > 0:
        raise Declined(c.op, f"a scale of {scale}")
    shape: Shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    b, h, i, j = output_axes(shape)
    d = reduce_axes((size,))[0]
    root = t.const(math.sqrt(scale), q.dtype)
    left, right = q[(b, h, i, d)] * root, k[(b, h if share == 1 else h // share, j, d)] * root
    return Tensor(from_body(left * right, shape, (size,), "sum"))


def _masked(c: Call, scores: Tensor, mask: Tensor | None, past: bool) -> Tensor:
    """The scores after the soft cap, the mask, and without what lies in the future."""
    cap = float(c.parameter("softcap"))
    if cap and c.opset < 24 and (mask is not None or c.get("is_causal", 0)):
        raise Declined(c.op, "the order of soft cap and mask")
    if cap:
        scores = pointwise("Cap", lambda a: t.unary("tanh", a / cap) * cap, scores)
    if mask is not None:
        if not same_dim(mask.shape[-1], scores.shape[-1]) and not same_dim(mask.shape[-1], 1):
            raise Declined(c.op, "a mask of fewer keys")
        if mask.dtype == "bool":
            scores = pointwise("Where", lambda a, m: t.where(m, a, t.const(-math.inf, a.dtype)), scores, mask)
        else:
            scores = pointwise("Add", lambda a, m: a + t.cast_to(m, a.dtype), scores, mask)
    if not c.get("is_causal", 0):
        return scores
    if past or not same_dim(scores.shape[2], scores.shape[3]):
        raise Declined(c.op, "where the past ends")
    axes = output_axes(scores.shape)
    later = t.const(-math.inf, scores.dtype)
    return Tensor(from_body(t.where(t.compare("le", axes[3], axes[2]), scores[axes], later), scores.shape))


@node("Attention", "q k v attn_mask? past_key? past_value? nonpad_kv_seqlen?",
      "is_causal=0|1 kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision "
      "left_window_size right_window_size", otherwise=attention_signature)  # fmt: skip
def attention(c: Call) -> list[Tensor]:
    q, k, v, mask, old_k, old_v, lengths = _slots(c)
    if q is None or k is None or v is None or lengths is not None or (old_k is None) != (old_v is None):
        raise Declined(c.op, "lengths, or half of a past")
    windows = (c.get("left_window_size", -1), c.get("right_window_size", -1))
    if windows != (-1, -1) or c.get("softmax_precision", 1) != 1:
        raise Declined(c.op, "a window, or another precision")
    flat = q.rank == 3
    q = _heads(q, int(c.get("q_num_heads", 0)), c.op)
    k, v = (_heads(x, int(c.get("kv_num_heads", 0)), c.op) for x in (k, v))
    if old_k is not None and old_v is not None:
        k, v = concat([old_k, k], 2), concat([old_v, v], 2)
    share = _rows(q, k, c.op)
    scores = _masked(c, _scores(c, q, k, share), mask, old_k is not None)
    weights = softmax_formula(scores, (3,))
    shape: Shape = (*q.shape[:3], v.shape[3])
    b, h, i, e = output_axes(shape)
    j = reduce_axes((k.shape[2],))[0]
    body = weights[(b, h, i, j)] * v[(b, h if share == 1 else h // share, j, e)]
    y = Tensor(from_body(body, shape, (k.shape[2],), "sum"))
    if flat:
        width = t.as_index(shape[1]) * t.as_index(shape[3])
        y = reshape(permute_dims(y, (0, 2, 1, 3)), (shape[0], shape[2], as_dim(width)))
    return [y, k, v]


def rotary_signature(c: Call) -> Signature:
    """Positions of a sequence and heads are independent."""
    x = c.tensors[0]
    cached = "b s c, b s c" if len(c.tensors) == 3 else "m c, m c"
    own = "b h s d" if x.rank == 4 else "b s d"
    return spelled(c, f"{own}, {cached}, b s -> {own}", map="b h s" if x.rank == 4 else "b s")


@node("RotaryEmbedding", "x cos_cache sin_cache position_ids?", "interleaved=0|1 num_heads rotary_embedding_dim",
      otherwise=rotary_signature)  # fmt: skip
def rotary(c: Call) -> Tensor:
    """Pairs of numbers turned by an angle: halves of what is rotated, or neighbours."""
    x, cos, sin, *ids = c.tensors
    if ids:
        raise Declined(c.op, "angles are looked up")
    y = _heads(x, int(c.get("num_heads", 0)), c.op)
    size = y.shape[3]
    part = int(c.get("rotary_embedding_dim", 0)) or size
    if not isinstance(part, int) or not isinstance(size, int) or part % 2 or part > size or cos.rank != 3:
        raise Declined(c.op, f"{part} of {size} numbers are rotated")
    b, h, s, d = output_axes(y.shape)
    half, near = part // 2, bool(c.get("interleaved", 0))
    first = t.compare("eq", d % 2, 0) if near else t.compare("lt", d, half)
    place = d // 2 if near else t.where(first, d, d - half)
    other = t.where(first, d + 1, d - 1) if near else t.where(first, d + half, d - half)

    def turned(at: Term, angle: Term) -> Term:
        a, z = cos[(b, s, angle)], sin[(b, s, angle)]
        return t.where(first, a * y[(b, h, s, d)] - z * y[(b, h, s, at)], a * y[(b, h, s, d)] + z * y[(b, h, s, at)])

    body = turned(other, place)
    if part < size:
        body = t.where(t.compare("lt", d, part), body, y[(b, h, s, d)])
    made = Tensor(from_body(body, y.shape))
    return made if x.rank == 4 else reshape(permute_dims(made, (0, 2, 1, 3)), x.shape)

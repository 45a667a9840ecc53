"""ONNX operators that pick or replace cells by positions: with constant positions Views, else signatures.

An axis along which positions are looked up is fixed; all axes that positions only carry along are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors import views
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Constant, Tensor, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, normalize_axis, output_axes, same_dim, static_shape
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.signatures import named, output_shape, spelled
from eqsat.onnx.ops.table import by_signature, define, merged, opaque

LARGEST_TABLE = 4096
"""Positions of more cells than these stay an operand."""


def position(targets: NDArray, axes: Sequence[Term]) -> Term:
    """The index term that is targets[i, j, ...] over some axes: affine where it can be, else a table of few cells.

    >>> from eqsat.ir.terms.term import ax
    >>> str(position(np.array([[1, 1], [3, 3]]), [ax(0, 2), ax(1, 2)]))
    '2*i0 + 1'
    """
    inner = list(axes)
    for n in reversed(range(targets.ndim)):  # axes that the positions do not depend on
        if targets.shape[n] and bool(np.all(targets == targets.take([0], n))):
            targets, inner = targets.take(0, n), [*inner[:n], *inner[n + 1 :]]
    if targets.size == 0:
        return t.index_const(0)
    steps = [int(targets.take(1, n).flat[0] - targets.flat[0]) for n in range(targets.ndim)]
    level = [np.all(np.diff(targets, axis=n) == step) for n, step in enumerate(steps)]
    if all(bool(x) for x in level):
        return sum((s * i for s, i in zip(steps, inner, strict=True)), t.index_const(int(targets.flat[0])))
    return table_load(targets.reshape(-1), views.flatten(inner, targets.shape))


def known_positions(c: Call, slot: int, extent: Dim | None) -> NDArray | None:
    """Constant positions along an axis, counted from its start; None where they are computed or leave the axis."""
    x = c.operands[slot] if slot < len(c.operands) else None
    if x is None or not isinstance(x.node, Constant) or x.node.array.size > LARGEST_TABLE:
        return None
    found: NDArray = x.node.array.astype(np.int64)
    if extent is None:
        return found
    if not isinstance(extent, int):
        return None
    found = np.where(found < 0, found + extent, found)
    return found if bool(np.all((found >= 0) & (found < extent))) else None


@define("Gather", "data indices", "axis")
def gather(c: Call) -> Tensor | tuple[Tensor, ...]:
    x, index = c.tensors
    axis = normalize_axis(int(c.get("axis", 0)), x.rank, c.op)
    shape: Shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    places = known_positions(c, 1, x.shape[axis])
    if places is None:
        kept, chosen = [f"a{n}" for n in range(x.rank)], [f"i{n}" for n in range(index.rank)]
        written = [*kept[:axis], *chosen, *kept[axis + 1 :]]
        roles = dict.fromkeys(written, "map")
        signature = named([kept, chosen], [written], [x.shape, index.shape], [shape], roles)
        return opaque(merged(c, axis=axis), signature, [(shape, x.dtype)])
    axes = output_axes(shape)
    inner = axes[axis : axis + places.ndim]
    return views.view(x, shape, [*axes[:axis], position(places, inner), *axes[axis + places.ndim :]])


@define("GatherElements", "data indices", "axis")
def gather_elements(c: Call) -> Tensor | tuple[Tensor, ...]:
    x, index = c.tensors
    axis = normalize_axis(int(c.get("axis", 0)), x.rank, c.op)
    places = known_positions(c, 1, x.shape[axis])
    if places is None or places.ndim != x.rank:
        signature = _elements(axis, (x.shape, index.shape), index.shape)
        return opaque(merged(c, axis=axis), signature, [(index.shape, x.dtype)])
    axes = list(output_axes(index.shape))
    return views.view(x, index.shape, [position(places, axes) if n == axis else i for n, i in enumerate(axes)])


def _elements(axis: int, operands: Sequence[Shape], out: Shape) -> Signature:
    """Operands of one rank whose axes go together, each with its own one along `axis`, but for the last of them."""
    if any(len(s) != len(out) for s in operands):
        raise Declined("positions of elements", "operands of several ranks")
    names = [[f"o{k}" if n == axis else f"a{n}" for n in range(len(s))] for k, s in enumerate(operands)]
    whole = [f"a{n}" for n in range(len(out))]
    kept = [i for i in range(len(out)) if i != axis and all(same_dim(s[i], out[i]) for s in operands)]
    for k, own in enumerate(names):  # axes of different extents stay as they are
        own[:] = [x if n == axis or n in kept else f"s{k}_{n}" for n, x in enumerate(own)]
    names[-1][axis] = whole[axis]
    return named(names, [whole], operands, [out], {f"a{n}": "map" for n in (*kept, axis)})


@by_signature("ScatterElements", "data indices updates", "axis reduction=none|add|mul|max|min", axis=0)
def scatter_elements(c: Call) -> Signature:
    """Only rows along the axis are written to each other."""
    x, index, updates = c.tensors
    axis = int(c.attrs["axis"])
    signature_of_rows = _elements(axis, (index.shape, updates.shape, x.shape), x.shape)
    rows, more, data = signature_of_rows.operands
    roles = {k: r for k, r in signature_of_rows.roles.items() if k != f"a{axis}"}
    return Signature((data, rows, more), signature_of_rows.outputs, roles)


def _batched(c: Call, x: Tensor, index: Tensor) -> tuple[int, int]:
    """How many axes are batches, and how many are looked up."""
    depth, batch = index.shape[-1] if index.rank else None, int(c.get("batch_dims", 0))
    if not isinstance(depth, int) or batch < 0 or batch + depth > x.rank or batch >= index.rank:
        raise Declined(c.op, f"positions of {depth} axes behind {batch}")
    return batch, depth


@define("GatherND", "data indices", "batch_dims")
def gather_nd(c: Call) -> Tensor | tuple[Tensor, ...]:
    x, index = c.tensors
    batch, depth = _batched(c, x, index)
    rest = [f"a{n}" for n in range(batch + depth, x.rank)]
    chosen = [f"b{n}" if n < batch else f"i{n}" for n in range(index.rank - 1)]
    shape: Shape = (*index.shape[:-1], *x.shape[batch + depth :])
    raw = known_positions(c, 1, None)
    places = None if raw is None else _columns(raw, x.shape[batch : batch + depth])
    if places is None or static_shape(shape) is None:
        read = [*chosen[:batch], *(f"x{n}" for n in range(depth)), *rest]
        written = [*chosen, *rest]
        roles = dict.fromkeys(written, "map")
        signature = named([read, [*chosen, "d"]], [written], [x.shape, index.shape], [shape], roles)
        return opaque(c, signature, [(shape, x.dtype)])
    axes = list(output_axes(shape))
    looked = [position(p, axes[: p.ndim]) for p in places]
    return views.view(x, shape, [*axes[:batch], *looked, *axes[index.rank - 1 :]])


def _columns(index: NDArray, extents: Shape) -> list[NDArray] | None:
    """Positions along each axis that is looked up, counted from its start; None where one leaves it."""
    result: list[NDArray] = []
    for n, d in enumerate(extents):
        if not isinstance(d, int):
            return None
        column = index[..., n]
        column = np.where(column < 0, column + d, column)
        if not bool(np.all((column >= 0) & (column < d))):
            return None
        result.append(column)
    return result


def _larger(a: Term, b: Term) -> Term:
    return t.binary("max", a, b)


def _smaller(a: Term, b: Term) -> Term:
    return t.binary("min", a, b)


def _last(a: Term, b: Term) -> Term:
    return b


COMBINED: dict[str, Callable[[Term, Term], Term]] = {
    "none": _last,
    "add": t.add,
    "mul": t.mul,
    "max": _larger,
    "min": _smaller,
}
"""What becomes of a cell and its update."""


def scatter_nd_signature(c: Call) -> Signature:
    """The axes that positions do not name are independent."""
    x, index, updates = c.tensors
    _, depth = _batched(c, x, index)
    rest = [f"a{n}" for n in range(depth, x.rank)]
    chosen = [f"i{n}" for n in range(index.rank - 1)]
    whole = [*(f"x{n}" for n in range(depth)), *rest]
    return named([whole, [*chosen, "d"], [*chosen, *rest]], [whole], [x.shape, index.shape, updates.shape], [x.shape],
                 dict.fromkeys(rest, "map"))  # fmt: skip


@node("ScatterND", "data indices updates", "reduction=none|add|mul|max|min", wide=False, parameters=(1,),
      otherwise=scatter_nd_signature)  # fmt: skip
def scatter_nd(c: Call) -> Tensor:
    """A cell that constant positions name once takes, or is combined with, its update."""
    x, index, updates = c.tensors
    _, depth = _batched(c, x, index)
    raw, extents = known_positions(c, 1, None), static_shape(x.shape[:depth])
    places = None if raw is None or extents is None else _columns(raw, extents)
    if places is None or extents is None or not depth or int(np.prod(extents)) > LARGEST_TABLE:
        raise Declined(c.op, "the positions are not few constants")
    flat = np.ravel_multi_index([p.reshape(-1) for p in places], extents)
    if len(np.unique(flat)) != flat.size or not flat.size:
        raise Declined(c.op, "no update, or two of one cell")
    source = np.full(int(np.prod(extents)), -1, np.int64)
    source[flat] = np.arange(flat.size)
    axes = output_axes(x.shape)
    found, held = (position(a.reshape(extents), axes[:depth]) for a in (source, np.maximum(source, 0)))
    update = updates[(*views.unflatten(held, updates.shape[: index.rank - 1]), *axes[depth:])]
    changed = COMBINED[str(c.get("reduction", "none"))](x[axes], update)
    return Tensor(from_body(t.where(t.compare("le", 0, found), changed, x[axes]), x.shape))


def one_hot_signature(c: Call) -> Signature:
    index, out = c.tensors[0], output_shape(c)
    axis = normalize_axis(int(c.get("axis", -1)), len(out), c.op)
    chosen = [f"i{n}" for n in range(index.rank)]
    text = f"{' '.join(chosen)}, (), v -> {' '.join([*chosen[:axis], 'k', *chosen[axis:]])}"
    return spelled(c, text, map=" ".join(chosen))


@node("OneHot", "indices depth values", "axis", "depth", wide=False, otherwise=one_hot_signature)
def one_hot(c: Call) -> Tensor:
    """The second value where the position along the new axis is the index, which may count from the end."""
    index, *_, values = c.tensors
    depth = c.get("depth")
    if len(c.tensors) != 2 or not isinstance(depth, (int, float)) or int(depth) < 1:
        raise Declined(c.op, "the depth is not a number")
    extent = int(depth)
    axis = normalize_axis(int(c.get("axis", -1)), index.rank + 1, c.op)
    shape: Shape = (*index.shape[:axis], extent, *index.shape[axis:])
    axes = output_axes(shape)
    at = t.cast_to(index[(*axes[:axis], *axes[axis + 1 :])], "int64")
    place = t.where(at < 0, at + extent, at)
    hit = t.compare("eq", place, t.cast_to(axes[axis], "int64"))
    return Tensor(from_body(t.where(hit, values[(1,)], values[(0,)]), shape))


@define("Compress", "input condition", "axis")
def compress(c: Call) -> Tensor:
    """The positions at which a constant holds."""
    x, condition = c.tensors
    if not isinstance(condition.node, Constant) or condition.rank != 1:
        raise Declined(c.op, "the condition is not constant")
    chosen = np.flatnonzero(condition.node.array)
    axis = c.get("axis")
    if axis is None:
        x = views.reshape(x, (-1,)) if x.rank != 1 else x
    n = 0 if axis is None else normalize_axis(int(axis), x.rank, c.op)
    extent = x.shape[n]
    if not isinstance(extent, int) or (chosen.size and int(chosen[-1]) >= extent) or chosen.size > LARGEST_TABLE:
        raise Declined(c.op, "the positions are not few cells of the axis")
    axes = output_axes((*x.shape[:n], len(chosen), *x.shape[n + 1 :]))
    shape: Shape = (*x.shape[:n], len(chosen), *x.shape[n + 1 :])
    return views.view(x, shape, [position(chosen, [i]) if k == n else i for k, i in enumerate(axes)])


@define("ReverseSequence", "input sequence_lens", "batch_axis=0|1 time_axis=0|1")
def reverse_sequence(c: Call) -> Tensor | tuple[Tensor, ...]:
    x, lengths = c.tensors
    batch, time = int(c.get("batch_axis", 1)), int(c.get("time_axis", 0))
    if x.rank < 2 or batch == time:
        raise Declined(c.op, f"batch axis {batch}, time axis {time}, rank {x.rank}")
    extents = static_shape((x.shape[batch], x.shape[time]))
    known = known_positions(c, 1, None)
    if known is None or extents is None or int(np.prod(extents)) > LARGEST_TABLE:
        names = [f"a{n}" for n in range(x.rank)]
        free = dict.fromkeys((a for n, a in enumerate(names) if n != time), "map")
        signature = named([names, [names[batch]]], [names], [x.shape, lengths.shape], [x.shape], free)
        return opaque(c, signature, [(x.shape, x.dtype)])
    if bool(np.any((known < 0) | (known > extents[1]))):
        raise Declined(c.op, "a length is longer than the axis")
    at = np.arange(extents[1])[None, :]
    targets = np.where(at < known[:, None], known[:, None] - 1 - at, at)
    axes = list(output_axes(x.shape))
    axes[time] = position(targets, [axes[batch], axes[time]])
    return views.view(x, x.shape, axes)


@node("EyeLike", "input", "dtype k", wide=False)
def eye_like(c: Call) -> Tensor:
    """1 on a diagonal."""
    from eqsat.models.package import dtype_name

    x = c.one()
    dtype = x.dtype if "dtype" not in c.attrs else dtype_name(int(c.attrs["dtype"]))
    if dtype is None or x.rank != 2:
        raise Declined(c.op, "the type is not modelled")
    row, column = output_axes(x.shape)
    one, zero = (True, False) if dtype == "bool" else (1, 0)
    body = t.where(t.compare("eq", row + int(c.get("k", 0)), column), t.const(one, dtype), t.const(zero, dtype))
    return Tensor(from_body(body, x.shape))

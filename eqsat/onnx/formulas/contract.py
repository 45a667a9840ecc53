"""Sums of products as Conv and MatMul: found by where axes occur, not by names.

An axis of the result that both operands have is a group (or a batch), one that only the data has is a row, one that
only the weights have is a column; reduce axes are channels, or taps of windows. Layouts of operands and result are
Views around the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.tensors.pointwise import cast
from eqsat.ir.tensors.reductions import matmul
from eqsat.ir.tensors.tensor import Compute, Tensor, constant
from eqsat.ir.tensors.views import unflatten
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Dim, Shape, as_dim, output_axes, reduce_axes, same_shape, size_term, static_shape
from eqsat.ir.terms.tables import load_table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, occurs, postorder, substitute
from eqsat.onnx.call import Call
from eqsat.onnx.formulas.data_terms import zero_of
from eqsat.onnx.formulas.formula import outside_checks, view_of
from eqsat.onnx.formulas.windows import Read, never_empty, read_windows
from eqsat.onnx.kernels import via
from eqsat.onnx.ops.table import apply

MAX_WINDOWS = 3
"""onnxruntime's Conv and pools have up to three axes of windows."""


@dataclass(frozen=True)
class Factors:
    """A body that multiplies one or two loads where a guard holds, and is 0 (or what is ignored) elsewhere."""

    loads: tuple[Term, ...]
    guard: tuple[Term, ...]


def factors(body: Term, ignored: Any) -> Factors | None:
    """The loads and the guard of a body."""
    guard: list[Term] = []

    def unguarded(x: Term) -> Term:
        if x.op == "where" and t.is_const(x.args[2], ignored):
            guard.extend(x.args[0].args if x.args[0].op == "and" else (x.args[0],))
            return x.args[1]
        return x

    x = unguarded(body)
    loads = tuple(unguarded(a) for a in x.args) if x.op == "mul" else (x,)
    data = [y for part in (*loads, *guard) for y in postorder(part) if y.op == "load" and isinstance(y.payload, int)]
    plain = all(x.op == "load" and isinstance(x.payload, int) for x in loads)
    return Factors(loads, tuple(guard)) if plain and len(set(data)) == len(set(loads)) else None


def operand(node: Compute, load: Term) -> Tensor:
    """The tensor that a load reads."""
    return node.operands[int(load.payload)]


def dims_of(axes: Sequence[Term]) -> Shape:
    """The extents of axes."""
    return tuple(as_dim(a.args[0]) for a in axes)


def total(axes: Sequence[Term]) -> Dim:
    """The number of positions of axes together."""
    return as_dim(size_term(dims_of(axes)))


def relaid(source: Tensor, index: Sequence[Term], groups: Sequence[Sequence[Term]]) -> Tensor:
    """A View with one axis for each group of axes that the index is over."""
    shape: Shape = tuple(total(g) for g in groups)
    table: dict[Term, Term] = {}
    for flat, group in zip(output_axes(shape), groups, strict=True):
        table.update(zip(group, unflatten(flat, dims_of(group)), strict=True))
    gather = [substitute(i, table) for i in index]
    valid = t.logical_and(*outside_checks(source.shape, gather, t.TRUE))
    return view_of(source, shape, gather, valid, zero_of(source.dtype))


def placed(made: Tensor, groups: Sequence[Sequence[Term]], wanted: Sequence[Term]) -> Tensor:
    """A tensor with one axis for each group, in the order of the wanted axes."""
    order = [a for g in groups for a in g]
    if [total(g) for g in groups] != [as_dim(a.args[0]) for a in order]:
        made = made.reshape(dims_of(order))
    place = {a: n for n, a in enumerate(order)}
    perm = [place[a] for a in wanted]
    return made if perm == sorted(perm) else made.permute_dims(perm)


# -- convolution -----------------------------------------------------------------------------------------------------


def as_convolution(node: Compute, opset: int) -> Tensor | None:
    """A sum over windows as a Conv; padded cells count as 0, also where a weight is not finite."""
    dtype = node.outputs[0][1]
    found = factors(node.body, 0.0) if node.combiner == "sum" and dtype in ("float32", "float16") else None
    if found is None or node.ordered or not never_empty((*node.shape, *node.reduce)):
        return None
    pairs = [found.loads] if len(found.loads) == 1 else [found.loads, found.loads[::-1]]
    for data, *weights in pairs:
        read = read_windows(data.args, operand(node, data).shape, found.guard)
        if read is not None and len(read.windows) <= MAX_WINDOWS:
            made = _convolution(node, data, weights, read, opset)
            if made is not None:
                return made
    return None


def _convolution(node: Compute, data: Term, weights: Sequence[Term], read: Read, opset: int) -> Tensor | None:
    spatial, summed = output_axes(node.shape), reduce_axes(node.reduce)
    outers, taps = [w.outer for w in read.windows], [w.tap for w in read.windows]
    index = weights[0].args if weights else ()
    if occurs(outers, *index):
        return None
    rest = [a for a in spatial if a not in set(outers)]
    both = [a for a in rest if occurs([a], *read.index) and occurs([a], *index)]
    columns = [a for a in rest if occurs([a], *index) and a not in set(both)]
    rows = [a for a in rest if a not in {*both, *columns}]
    channels = [a for a in summed if a not in set(taps)]
    split = _groups(read.index, both)
    if split is None:
        return None
    group, inner = split
    x = relaid(operand(node, data), inner, [rows, [*group.axes, *channels], *([y] for y in read.places)])
    if weights:
        w = relaid(operand(node, weights[0]), index, [[*both, *columns], channels, *([k] for k in taps)])
    else:
        ones = static_shape((1, total(channels), *dims_of(taps)))
        if ones is None:
            return None
        w = constant(np.ones(ones, node.outputs[0][1]))
    pads = [p for v in read.windows if (p := v.pads) is not None]
    attrs = {
        "strides": tuple(v.stride for v in read.windows),
        "dilations": tuple(v.dilation for v in read.windows),
        "pads": (*(p for p, _ in pads), *(p for _, p in pads)),
        "group": group.count,
    }
    outputs = [rows, [*both, *columns], *([a] for a in outers)]
    shape: Shape = tuple(total(g) for g in outputs)
    made = apply(Call("Conv", (x, w), attrs, opset, types=((shape, node.outputs[0][1]),)))[0]
    return placed(made, outputs, spatial)


@dataclass(frozen=True)
class Group:
    """The axis of groups, if there is more than one, and their number."""

    axes: tuple[Term, ...]
    count: int


def _groups(index: Sequence[Term], both: Sequence[Term]) -> tuple[Group, tuple[Term, ...]] | None:
    """The data's index over an axis of groups, in place of those axes of the result that the weights have, too.

    Consecutive positions of these axes that read the same data are one group.
    """
    if not both:
        return Group((), 1), tuple(index)
    shape = static_shape(dims_of(both))
    if shape is None or 0 in shape:
        return None
    parts = list(dict.fromkeys(p for i in index for p in _own_parts(i, both)))
    grid = dict(zip(both, np.indices(shape, dtype=np.int64), strict=True))
    tables: list[NDArray] = []
    for value, bad in evaluate_masked(parts, grid, load_table):
        if bad is not None:
            return None
        tables.append(np.broadcast_to(value, shape).reshape(-1))
    size = int(np.prod(shape))
    width = next(m for m in range(size, 0, -1) if size % m == 0 and all(_constant_in(v, m) for v in tables))
    count = size // width
    g = t.var("group", count)
    table = {p: _function(v[::width], g) for p, v in zip(parts, tables, strict=True)}
    inner = tuple(_replaced(i, both, table) for i in index)
    if count == 1:
        return Group((), 1), tuple(substitute(i, {g: t.index_const(0)}) for i in inner)
    return Group((g,), count), inner


def _constant_in(values: NDArray, width: int) -> bool:
    blocks = values.reshape(-1, width)
    return bool((blocks == blocks[:, :1]).all())


def _function(values: NDArray, g: Term) -> Term:
    """The index term with these values at g = 0, 1, ..."""
    first = int(values[0])
    step = int(values[1]) - first if values.size > 1 else 0
    if (values == first + step * np.arange(values.size)).all():
        return g * step + first
    return table_load(values, g)


def _own_parts(i: Term, both: Sequence[Term]) -> list[Term]:
    """The largest parts of an index term over these axes alone; of a sum, the summands together."""
    found: list[Term] = []
    stack = [i]
    while stack:
        x = stack.pop()
        if not occurs(both, x):
            continue
        if _pure(x, both):
            found.append(x)
        elif x.op == "sum":
            own, others = _split_sum(x, both)
            found += [own] if own.op != "const" else []
            stack.extend(others)
        else:
            stack.extend(x.args)
    return found


def _split_sum(x: Term, both: Sequence[Term]) -> tuple[Term, list[Term]]:
    parts = t.linear_parts(x)[1]
    pure = [(c, a) for c, a in parts if _pure(a, both)]
    rest = [a for _, a in parts if not _pure(a, both)]
    return t.linear(0, pure), rest


def _replaced(i: Term, both: Sequence[Term], table: dict[Term, Term]) -> Term:
    """An index term with its own parts replaced."""
    if i in table:
        return table[i]
    if not occurs(both, i):
        return i
    if i.op == "sum":
        own, _ = _split_sum(i, both)
        offset, parts = t.linear_parts(i)
        others = [(c, _replaced(a, both, table)) for c, a in parts if not _pure(a, both)]
        return t.linear(offset, others) + table.get(own, own)
    return t.rebuild(i, [_replaced(a, both, table) for a in i.args])


def _pure(a: Term, both: Sequence[Term]) -> bool:
    """Whether a term has no other axes than these."""
    return all(y in set(both) for y in nodes_of("axis", a) + nodes_of("var", a))


# -- matrix products -------------------------------------------------------------------------------------------------


def as_matmul(node: Compute) -> Tensor | None:
    """A sum of products of two loads as a MatMul of Views: batch, rows and columns grouped."""
    dtype = node.outputs[0][1]
    zero = 0.0 if is_float(dtype) else 0
    found = factors(node.body, zero) if node.combiner == "sum" and not node.ordered else None
    if found is None or len(found.loads) != 2:
        return None
    left, right = found.loads
    spatial, summed = output_axes(node.shape), reduce_axes(node.reduce)
    guards = _sides(node, found, dtype)
    if guards is None or not all(occurs([a], *left.args) or occurs([a], *right.args) for a in summed):
        return None
    parts = [[*x.args, *g] for x, g in zip((left, right), guards, strict=True)]
    kinds = [(occurs([a], *parts[0]), occurs([a], *parts[1])) for a in spatial]
    batch = [a for a, (p, q) in zip(spatial, kinds, strict=True) if p == q]
    rows = [a for a, (p, q) in zip(spatial, kinds, strict=True) if p and not q]
    columns = [a for a, (p, q) in zip(spatial, kinds, strict=True) if q and not p]
    shown = [a for a in spatial if a not in set(batch)]
    if all(
        a is b for a, b in zip(shown, [*columns, *rows], strict=True)
    ):  # the result is laid out as the other product
        left, right, guards, rows, columns = right, left, guards[::-1], columns, rows
    a = _factor(node, left, guards[0], [*([x] for x in batch), rows, list(summed)])
    b = _factor(node, right, guards[1], [*([x] for x in batch), list(summed), columns])
    inner = via("MatMul", dtype)
    made = cast(matmul(cast(a, inner), cast(b, inner)), dtype)
    return placed(made, [*([x] for x in batch), rows, columns], spatial)


def _sides(node: Compute, found: Factors, dtype: str) -> tuple[list[Term], list[Term]] | None:
    """The guard as conditions on each operand; where a number is not finite, 0 times it is only so in windows."""
    left, right = found.loads
    sides: tuple[list[Term], list[Term]] = ([], [])
    for claim in found.guard:
        axes = nodes_of("axis", claim)
        own = [all(occurs([a], *x.args) for a in axes) for x in (left, right)]
        if not any(own):
            return None
        at = own.index(True)
        if is_float(dtype):
            x = found.loads[at]
            if read_windows(x.args, operand(node, x).shape, [claim]) is None:
                return None
        sides[at].append(claim)
    return sides


def _factor(node: Compute, load: Term, guard: Sequence[Term], groups: Sequence[Sequence[Term]]) -> Tensor:
    """One operand of a MatMul, 0 where the guard forbids it, with one axis for each group."""
    source = operand(node, load)
    order = [a for g in groups for a in g]
    flat, shape = dims_of(order), tuple(total(g) for g in groups)
    table = dict(zip(order, output_axes(flat), strict=True))
    gather = [substitute(i, table) for i in load.args]
    valid = substitute(t.logical_and(*guard), table)
    valid = t.logical_and(valid, *outside_checks(source.shape, gather, valid))
    made = view_of(source, flat, gather, valid, zero_of(source.dtype))
    return made if same_shape(flat, shape) else made.reshape(shape)

"""Nodes that are not one ONNX operator, in several: views by their steps, formulas operator by operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eqsat.backends.targets import ONNX
from eqsat.extraction.cost import spelled_maps
from eqsat.ir.dtypes import NDArray, itemsize
from eqsat.ir.errors import FrontendError
from eqsat.ir.flat import steps as steps
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Monomial, Size, mul, number, product, size_of, total
from eqsat.ir.tensors.run import neutral
from eqsat.ir.tensors.tensor import Compute, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import (
    Shape,
    as_dim,
    output_axes,
    reduce_axes,
    same_dim,
    same_shape,
    static_shape,
)
from eqsat.ir.terms.sums import unclipped
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, transform
from eqsat.onnx.bytes import cells_moved
from eqsat.onnx.call import Call, schema
from eqsat.onnx.formulas.contract import as_convolution, as_matmul, operand
from eqsat.onnx.formulas.data_terms import zero_of
from eqsat.onnx.formulas.formula import Formula, Value, guarded_load, outside_checks, view_of
from eqsat.onnx.formulas.pool import as_average_pool, as_max_pool
from eqsat.onnx.formulas.reduce import Reduction, reduced
from eqsat.onnx.formulas.run_op import run_op
from eqsat.onnx.formulas.shaped import expanded, filled, open_sizes, reshaped, sizes_of, sizes_read
from eqsat.onnx.kernels import via
from eqsat.onnx.recognise import chain
from eqsat.onnx.size_names import size_vector
from eqsat.onnx.slice import BEFORE, BEHIND
from eqsat.onnx.writer import Cut, Writer, is_whole
from eqsat.pricing.steps import chained, fewest_bytes
from eqsat.pricing.views import gather_price, in_steps, steps_of, timed_steps

STRIDED = 10
"""The opset from which on a Slice has steps."""

# -- views -----------------------------------------------------------------------------------------------------------


def spell_view(w: Writer, node: View) -> None:
    """Write a View as reshapes, slices, transposes, pads and gathers; one with a computed fill as a choice."""
    shape, dtype = node.outputs[0]
    if is_whole(node):
        w.alias(Tensor(node), w.name(node.source))
        return
    fill = node.fill
    if fill is not None and fill.op == "hole":
        fill = zero_of(dtype)  # a hole may be filled with anything
    if fill is not None and fill.op != "const":
        inside = Tensor(View(node.source, shape, node.gather, node.valid, zero_of(dtype)))
        axes = output_axes(shape)
        choice = Compute((inside, node.source), shape, t.where(node.valid, t.load(0, axes, dtype), _shift_loads(fill)))
        w.stand_in(Tensor(node), Tensor(choice))
        return
    source_shape = tuple(as_size(d) for d in node.source.shape)
    spelled = timed_steps(node, w.table) if w.table is not None else _fewest_bytes(node)
    if spelled is None and w.split(node, alone=True):
        return
    if spelled is None and any(same_dim(d, 0) for d in shape):
        spelled = [steps.Fill(tuple(as_size(d) for d in shape))]
    if spelled is None:
        spell_gather(w, node, fill)
        return
    value = np.zeros((), dtype) if fill is None else np.asarray(t.const_value(fill), dtype)
    name, reached = w.name(node.source), source_shape
    for n, step in enumerate(spelled):
        out = w.claim(Tensor(node), "view") if n + 1 == len(spelled) else ""
        name = _step(w, step, name, reached, value, out)
        reached = steps.shape_after(step, reached)
    if not spelled:
        w.alias(Tensor(node), name)


def costs_less_in_steps(w: Writer, node: View, call: Call) -> bool:
    """Whether the steps of a View are there and cost less than one call that it is: in time by a table of prices, else
    in bytes moved and nodes."""
    dtype = node.outputs[0][1]
    if w.table is not None and call.op != "Gather":  # what the view came from, which is compared, or another shape
        return False
    spelled = _fewest_bytes(node) if w.table is None else timed_steps(node, w.table)
    if spelled is None or _sizes_read(spelled, node, w.opset) is None:
        return False
    if w.table is not None:
        price = steps_of(node, w.table)
        return price is not None and price < gather_price(node, int(call.get("axis", 0)), w.table)
    if any(_is_gathered(step, dtype) for step in spelled):
        return False
    source, shape = (tuple(as_size(d) for d in dims) for dims in (node.source.shape, node.outputs[0][0]))
    cells = [sampled(x) for x in steps.moved_cells(steps.Spelling(source, tuple(spelled)))]
    moved = cells_moved(call.op, sampled(product(source)), sampled(product(shape)))
    return sum(cells) * itemsize(dtype) + len(spelled) * ONNX.node_bytes < moved * itemsize(dtype) + ONNX.node_bytes


def takes_steps(w: Writer, node: View) -> bool:
    """Whether a View is written in its quickest steps, which are there and cost less than the operator that it came
    from: with the arithmetic of sizes, a Shape and a Gather for each that is read, and what joins them."""
    read = None if w.table is None else _sizes_read(timed_steps(node, w.table) or (), node, w.opset)
    if w.table is None or read is None:
        return False
    return in_steps(node, w.table, sum(2 * n + 1 for n in read if n) * round(w.table.operators["node"]))


def _sizes_read(spelled: Sequence[steps.Step], node: View, opset: int) -> list[int] | None:
    """How many sizes each of the steps of a View reads while the model runs; None where a version of ONNX has not got
    the operators, as the steps need them."""
    reached: steps.Shape = tuple(as_size(d) for d in node.source.shape)
    found: list[int] = []
    for step in spelled:
        read = _read(step, reached, opset)
        if read is None:
            return None
        found.append(read)
        reached = steps.shape_after(step, reached)
    return found


def _read(step: steps.Step, source: steps.Shape, opset: int) -> int | None:
    match step:
        case steps.Reshape():
            return sizes_read(source, step.shape, opset)
        case steps.Expand() | steps.Fill():
            return open_sizes(step.shape)
        case steps.Slice() if opset < STRIDED and any(n != 1 for n in step.steps):
            return None
        case _:
            op = "Where" if isinstance(step, steps.Mask) else type(step).__name__
            return 0 if schema(op, opset) is not None else None


def _is_gathered(step: steps.Step, dtype: str) -> bool:
    """Whether a step is a border of a type that runtimes do not pad."""
    return isinstance(step, steps.Pad) and step.mode != "constant" and via("Pad", dtype) != dtype


def _fewest_bytes(node: View) -> list[steps.Step] | None:
    """The steps that move the fewest bytes; None where no steps describe a View."""
    maps = spelled_maps(node)
    source, shape = (tuple(as_size(d) for d in dims) for dims in (node.source.shape, node.outputs[0][0]))
    return None if maps is None else chained(maps, source, shape, fewest_bytes)


def spell_sizes(w: Writer, node: View | Compute, call: Call) -> None:
    """Write a Reshape or Expand whose target has symbolic sizes."""
    (x,) = call.tensors
    target, source = (tuple(as_size(d) for d in shape) for shape in (node.outputs[0][0], x.shape))
    name, out = w.name(x), w.claim(Tensor(node), call.op.lower())
    if call.op == "Reshape":
        reshaped(w, name, source, target, x.dtype, out)
    else:
        expanded(w, name, source, target, x.dtype, out)


def _shift_loads(fill: Term) -> Term:
    """A fill, which loads the source as operand 0, for a formula in which the source is operand 1."""
    return transform(fill, lambda x: t.load(1, x.args, x.dtype) if x.op == "load" and x.payload == 0 else None)


def _step(w: Writer, step: steps.Step, name: str, shape: steps.Shape, fill: NDArray, out: str) -> str:
    """Write one step of a spelling."""
    dtype = fill.dtype.name
    match step:
        case steps.Reshape():
            return reshaped(w, name, shape, step.shape, dtype, out)
        case steps.Expand():
            return expanded(w, name, shape, step.shape, dtype, out)
        case steps.Tile():
            return w.step("Tile", [name], {"repeats": step.repeats}, dtype, out)
        case steps.Transpose():
            return w.step("Transpose", [name], {"perm": step.perm}, dtype, out)
        case steps.Slice():
            cut = [n for n, (a, b) in enumerate(zip(step.shape, shape, strict=True)) if a != b or step.steps[n] != 1]
            starts, ends = zip(*(_cut(step, n, shape[n]) for n in cut), strict=True)
            places: list[Sequence[Size]] = [starts, ends, cut]
            if any(step.steps[n] != 1 for n in cut):
                places.append([step.steps[n] for n in cut])
            if all(isinstance(v, int) for row in places for v in row):
                names = ("starts", "ends", "axes", "steps")
                out = w.step("Slice", [name], {k: tuple(v) for k, v in zip(names, places, strict=False)}, dtype, out)
                rows = [v for row in places for v in row if isinstance(v, int)]
                extent = shape[cut[0]] if len(rows) == 3 else None
                if isinstance(extent, int):
                    w.cuts.append(Cut(w.nodes[-1], name, dtype, cut[0], rows[0], rows[1], extent))
                return out
            return w.step("Slice", [name, *(sizes_of(w, row) for row in places)], {}, dtype, out)
        case steps.Pad():
            if _is_gathered(step, dtype):
                return _border(w, step, name, shape, dtype, out)
            pads = (*step.before, *step.after)
            given: dict[str, object] = {} if step.mode == "constant" else {"mode": step.mode}
            if step.mode == "constant" and fill.tobytes() != bytes(fill.nbytes):
                given = {_pad_value(w, fill): fill.item()}
            if all(isinstance(v, int) for v in pads):
                return run_op(w, "Pad", [name], dtype, {"pads": pads, **given}, out=out)
            return run_op(w, "Pad", [name], dtype, given, out=out, more=[sizes_of(w, pads)])
        case steps.Gather():
            return w.step("Gather", [name, w.constant(step.indices.array)], {"axis": step.axis}, dtype, out)
        case steps.Mask():
            valid = (step.valid.array != 0).reshape((-1,) + (1,) * (len(shape) - step.axis - 1))
            return run_op(w, "Where", [w.constant(valid), name, w.constant(fill)], dtype, out=out)
        case steps.Fill():
            return filled(w, fill, step.shape, out)


def _border(w: Writer, step: steps.Pad, name: str, shape: steps.Shape, dtype: str, out: str) -> str:
    """A border of a type that runtimes do not pad: the cells of each axis, gathered."""
    grown = [n for n, ends in enumerate(zip(step.before, step.after, strict=True)) if ends != (0, 0)]
    for axis in grown:
        extent, *ends = (number(x) for x in (shape[axis], step.before[axis], step.after[axis]))
        rows = np.pad(np.arange(extent), (ends[0], ends[1]), step.mode)
        last = out if axis == grown[-1] else ""
        name = w.step("Gather", [name, w.constant(rows)], {"axis": axis}, dtype, last)
    return name


def _cut(step: steps.Slice, n: int, extent: Size) -> tuple[Size, Size]:
    """Start and end of a Slice along one axis: numbers where they can be counted from the end of an unknown extent.

    Counted so, a place that is clipped at 0 is clipped by the Slice, and so is the end of a part that has no cells
    where its number of cells is clipped.
    """
    start, end, by = step.starts[n], step.ends[n], step.steps[n]
    if isinstance(extent, int):
        return start, end
    if by < 0:
        return _from_end(start, extent), BEFORE if end == total(mul(-1, extent), -1) else end
    if by == 1 and isinstance(start, int):
        end = total(start, _unclipped(step.shape[n]))
    whole = by > 0 and total(_by_clips(end), mul(-1, extent)) == 0
    return _from_end(_unclipped(start), extent, start), BEHIND[-1] if whole else _from_end(end, extent, step.ends[n])


def _by_clips(size: Size) -> Size:
    """A size with minima of a number, min(3, x), as x - max(x - 3, 0)."""

    def change(x: Term) -> Term | None:
        least, *others = sorted(x.args, key=lambda a: t.int_value(a) is None) if x.op == "min" else [x]
        if len(others) != 1 or t.int_value(least) is None:
            return None
        return others[0] - t.binary("max", others[0] - least, t.index_const(0))

    return size if isinstance(size, int) else size_of(transform(size.term, change))


def _unclipped(size: Size) -> Size:
    found = unclipped(size.term) if isinstance(size, Monomial) else None
    return size if found is None else size_of(found)


def _from_end(place: Size, extent: Size, otherwise: Size | None = None) -> Size:
    """A place as a number counted from the end of an axis, if it is one; otherwise itself, or as it was."""
    before = total(place, mul(-1, extent))
    counted = isinstance(before, int) and before < 0 and not isinstance(place, int)
    return before if counted else place if otherwise is None else otherwise


def _pad_value(w: Writer, fill: NDArray) -> str:
    """The name of the parameter; before opset 11 it is an attribute, which holds a float32."""
    if w.opset >= 11:
        return "constant_value"
    if fill.dtype.name == "float64" and float(np.float32(fill)) != float(fill):
        raise FrontendError("Pad", f"{fill} needs opset 11: it is no float32")
    return "value"


# -- formulas --------------------------------------------------------------------------------------------------------


def spell_gather(w: Writer, node: View, fill: Term | None) -> None:
    """Write a View that no steps describe: cells gathered at computed positions."""
    formula = Formula(w, node.operands, output_axes(node.outputs[0][0]))
    cell = formula.term_of(formula.gathered(node.source, node.gather), node.source.dtype)
    spell_terms(w, node, formula, cell if fill is None else t.where(node.valid, cell, fill))


def spell_compute(w: Writer, node: Compute) -> None:
    """Write a formula that is no single operator: as views around one, or operator by operator."""
    if node.serial not in w.final:
        for made in _ways(w, node):
            if made is not None:
                w.final.update(x.serial for x in node_order([made]))
                w.stand_in(Tensor(node), made)
                return
    if node.combiner is not None:
        spell_reduction(w, node)
    else:
        spell_terms(w, node, Formula(w, node.operands, output_axes(node.shape)), node.body)


def _ways(w: Writer, node: Compute) -> Iterator[Tensor | None]:
    """Other programs for a formula, which an operator of ONNX computes, the closest ones first."""
    if node.combiner is None:
        yield _as_view(node)
        yield as_average_pool(node, w.opset) if node.serial in w.averages else None
        yield _as_concat(node)
        return
    if any(same_dim(d, 0) for d in node.reduce):
        return
    yield as_average_pool(node, w.opset)
    yield as_convolution(node, w.opset)
    yield as_max_pool(node, w.opset)
    yield as_matmul(node)


def _as_view(node: Compute) -> Tensor | None:
    """A load, or a number where the position forbids it, as a View."""
    found = guarded_load(node.body)
    if found is None:
        return None
    load, valid, fill = found
    source = operand(node, load)
    checks = outside_checks(source.shape, load.args, valid)
    return view_of(source, node.shape, load.args, t.logical_and(valid, *checks), fill)


def _as_concat(node: Compute) -> Tensor | None:
    """A choice by position along one axis, as a Concat of views."""
    pieces = chain(node.body)
    if len(pieces) < 2 or node.combiner is not None or any(v.op != "load" for _, v in pieces):
        return None
    axes = output_axes(node.shape)
    tests = [c for c, _ in pieces if c is not None]
    places = {
        n
        for c in tests
        for n, a in enumerate(axes)
        if c.op == "lt" and c.args[0] is a and t.int_value(c.args[1]) is not None
    }
    if len(places) != 1 or not all(
        c.op == "lt" and c.args[0] in set(axes) and t.int_value(c.args[1]) is not None for c in tests
    ):
        return None
    (n,) = places
    total = node.shape[n]
    ends = [*(t.int_value(c.args[1]) or 0 for c in tests), total]
    starts = [0, *ends[:-1]]
    numbers = [(a, b) for a, b in zip(starts, ends, strict=True) if isinstance(a, int) and isinstance(b, int)]
    if len(numbers) != len(pieces) or any(a > b for a, b in numbers):
        return None
    rows = [(low, high, value) for (low, high), (_, value) in zip(numbers, pieces, strict=True) if low < high]
    parts = [_piece(node, value, n, low, high) for low, high, value in rows]
    from eqsat.ir.tensors.reductions import concat

    return concat(parts, n) if len(parts) > 1 else next(iter(parts), None)


def _piece(node: Compute, load: Term, n: int, low: int, high: int) -> Tensor:
    shape: Shape = tuple(high - low if k == n else d for k, d in enumerate(node.shape))
    new = output_axes(shape)
    table = {old: new[k] + low if k == n else new[k] for k, old in enumerate(output_axes(node.shape))}
    index = [substitute(i, table) for i in load.args]
    return Tensor(View(operand(node, load), shape, index, t.TRUE, None))


def spell_terms(w: Writer, node: View | Compute, formula: Formula, body: Term) -> None:
    """Write an element-wise formula, one operator per term."""
    value = formula.write(body)
    finish(w, Tensor(node), value, not formula.is_leaf(body))


def finish(w: Writer, x: Tensor, value: Value, fresh: bool) -> None:
    """Let a written value, repeated where an axis is not in full, be that of a node."""
    whole = len(value.dims) == x.rank and all(u or same_dim(d, 1) for u, d in zip(value.dims, x.shape, strict=True))
    name = value.name
    if not whole:
        missing = x.rank - len(value.dims)
        units = all(same_dim(d, 1) or u for d, u in zip(x.shape, (*(False,) * missing, *value.dims), strict=True))
        sizes = static_shape(x.shape)
        # Axes of extent 1 in front, which no operand has, cost nothing.
        op = "Reshape" if units and sizes is not None and 0 not in sizes else "Expand"
        name = w.step(op, [name, size_vector(w, x.shape)])
    w.adopt(x, name, fresh or not whole)


def spell_reduction(w: Writer, node: Compute) -> None:
    """Write a reduction of the values of the formula over the whole box."""
    axes = (*output_axes(node.shape), *reduce_axes(node.reduce))
    formula = Formula(w, node.operands, axes)
    dtype, rank = node.outputs[0][1], len(node.shape)
    assert node.combiner is not None
    if any(same_dim(d, 0) for d in node.reduce):
        value = Value(w.constant(np.asarray(neutral(node.combiner, dtype), dtype)))
        finish(w, Tensor(node), value, False)
        return
    found = _in_place(formula, node)
    if found is None:
        value = formula.write(node.body)
        name = _over(w, value, (*(1,) * rank, *node.reduce), (*node.shape, *node.reduce))
        dims = (False,) * (rank + len(node.reduce) - len(value.dims)) + value.dims
        found = (Value(name, dims[:rank]), tuple(range(rank, rank + len(node.reduce))))
    value, places = found
    kept = node.shape[rank - len(value.dims) :]
    kept = tuple(d if u else 1 for u, d in zip(value.dims, kept, strict=True))
    name = reduced(w, Reduction(value.name, dtype, kept, node.reduce, places, node.combiner, node.ordered))
    finish(w, Tensor(node), Value(name, value.dims), True)


def _over(w: Writer, value: Value, shape: Shape, full: Shape) -> str:
    """A value with all its axes, those to be reduced in full."""
    dims = (False,) * (len(full) - len(value.dims)) + value.dims
    pairs = zip(dims, full, shape, strict=True)
    wanted = tuple(d if u else least for u, d, least in pairs)
    have = tuple(d if u else 1 for u, d in zip(value.dims, full[len(full) - len(value.dims) :], strict=True))
    return value.name if same_shape(have, wanted) else w.step("Expand", [value.name, size_vector(w, wanted)])


def _in_place(formula: Formula, node: Compute) -> tuple[Value, tuple[int, ...]] | None:
    """An operand whose own axes are reduced as they stand, the others in the order of the result."""
    body = node.body
    if body.op != "load" or not isinstance(body.payload, int):
        return None
    x = operand(node, body)
    if any(i.op != "axis" or not same_dim(as_dim(i.args[0]), d) for i, d in zip(body.args, x.shape, strict=True)):
        return None
    summed, found = {a.serial for a in reduce_axes(node.reduce)}, [i.serial for i in body.args]
    kept = [i for i in found if i not in summed]
    last = [a.serial for a in output_axes(node.shape)][len(node.shape) - len(kept) :]
    if len(set(found)) != len(found) or len(found) != len(kept) + len(summed) or kept != last:
        return None
    places = tuple(n for n, i in enumerate(found) if i in summed)
    return Value(formula.w.name(x), (True,) * len(kept)), places

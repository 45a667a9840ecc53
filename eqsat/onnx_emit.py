"""Nodes that are not one ONNX operator, in several: views by their steps, formulas operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eqsat.cost import spelled_maps
from eqsat.ir import flat_steps as steps
from eqsat.ir import term as t
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import FrontendError
from eqsat.ir.evaluate import evaluate_masked
from eqsat.ir.flat_map import FlatMap
from eqsat.ir.flat_refine import refine
from eqsat.ir.flat_spell import spell
from eqsat.ir.flat_table import Map
from eqsat.ir.shape import Dim, Shape, as_dim, format_shape, same_dim, same_shape, static_shape
from eqsat.ir.size_terms import as_extent, as_size
from eqsat.ir.sizes import Size
from eqsat.ir.tensor import Compute, Tag, Tensor, View, output_axes, reduce_axes
from eqsat.ir.term import Term
from eqsat.ir.walk import leaves, occurs, postorder, substitute, transform
from eqsat.onnx_call import Call
from eqsat.onnx_forms import chain, plain_index, positions
from eqsat.onnx_package import element_type

if TYPE_CHECKING:
    from eqsat.onnx_write import Writer

TABLE_CELLS = 1 << 20
"""Conditions and numbers that depend on the position are written as constants of up to this many cells."""

TERMS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "min": "Min", "max": "Max", "pow": "Pow", "mod": "Mod",
    "truncdiv": "Div", "neg": "Neg", "abs": "Abs", "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "and": "And",
    "or": "Or", "not": "Not", "where": "Where",
    "round": "Round", "isnan": "IsNaN", "isinf": "IsInf", "bitand": "BitwiseAnd",
    "bitor": "BitwiseOr", "bitxor": "BitwiseXor", "bitnot": "BitwiseNot",
    **{name: name.capitalize() for name in (
        "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
        "acosh", "atanh", "floor", "ceil",
    )},
}  # fmt: skip


# -- views -----------------------------------------------------------------------------------------------------------


def spell_view(w: Writer, node: View) -> None:
    """Write a View as reshapes, slices, transposes, pads and gathers; one with a computed fill as a choice."""
    shape, dtype = node.outputs[0]
    fill = node.fill
    if fill is not None and fill.op == "hole":
        fill = t.const(0, dtype)  # a hole may be filled with anything
    if fill is not None and fill.op != "const":
        inside = Tensor(View(node.source, shape, node.gather, node.valid, t.const(0, dtype)))
        axes = output_axes(shape)
        choice = Compute((inside, node.source), shape, t.where(node.valid, t.load(0, axes, dtype), _shift_loads(fill)))
        w.stand_in(Tensor(node), Tensor(choice))
        return
    source_shape = tuple(as_size(d) for d in node.source.shape)
    found = spelled_maps(node)
    spelled = None if found is None else _steps(found, source_shape, tuple(as_size(d) for d in shape))
    if spelled is None:
        raise FrontendError(f"view of shape {format_shape(shape)}", "has no spelling in ONNX operators")
    value = np.zeros((), dtype) if fill is None else np.asarray(t.const_value(fill), dtype)
    name, reached = w.name(node.source), source_shape
    for n, step in enumerate(spelled):
        out = w.claim(Tensor(node), "view") if n + 1 == len(spelled) else ""
        name = _step(w, step, name, reached, value, out)
        reached = steps.shape_after(step, reached)
    if not spelled:
        w.alias(Tensor(node), name)


def _steps(maps: Sequence[Map], source: steps.Shape, shape: steps.Shape) -> list[steps.Step] | None:
    """The steps of maps applied one after another; between them, a shape in which the next map's digits are axes."""
    found: list[steps.Step] = []
    for n, m in enumerate(maps):
        target = shape
        if n + 1 < len(maps):
            parts = refine(m.digits, m.offset, source) if isinstance(m, FlatMap) else None
            target = (m.n_out,) if parts is None else tuple(p.extent for p in parts[0])
        spelling = spell(m, source, target)
        if spelling is None:
            return None
        found += spelling.steps
        source = target
    return found


def spell_sizes(w: Writer, node: View | Compute, call: Call) -> None:
    """Write a Reshape or Expand whose target has symbolic sizes."""
    (x,) = call.tensors
    target, source = (tuple(as_size(d) for d in shape) for shape in (node.outputs[0][0], x.shape))
    _shaped(w, call.op, w.name(x), target, x.dtype, w.claim(Tensor(node), call.op.lower()), source)


def _shift_loads(fill: Term) -> Term:
    """A fill, which loads the source as operand 0, for a formula in which the source is operand 1."""
    return transform(fill, lambda x: t.load(1, x.args, x.dtype) if x.op == "load" and x.payload == 0 else None)


def _step(w: Writer, step: steps.Step, name: str, shape: steps.Shape, fill: NDArray, out: str) -> str:
    """Write one step of a spelling."""
    dtype = fill.dtype.name
    match step:
        case steps.Reshape():
            return _shaped(w, "Reshape", name, step.shape, dtype, out, shape)
        case steps.Expand():
            return _shaped(w, "Expand", name, step.shape, dtype, out, shape)
        case steps.Transpose():
            return w.step("Transpose", [name], {"perm": step.perm}, dtype, out)
        case steps.Slice():
            cut = [n for n, (a, b) in enumerate(zip(step.shape, shape, strict=True)) if a != b or step.steps[n] != 1]
            attrs: dict[str, object] = {
                "starts": tuple(_int(step.starts[n]) for n in cut),
                "ends": tuple(_int(step.ends[n]) for n in cut),
            }
            attrs["axes"] = tuple(cut)
            if any(step.steps[n] != 1 for n in cut):
                attrs["steps"] = tuple(step.steps[n] for n in cut)
            return w.step("Slice", [name], attrs, dtype, out)
        case steps.Pad():
            pads = tuple(_int(v) for v in (*step.before, *step.after))
            value = {} if fill.tobytes() == bytes(fill.nbytes) else {_pad_value(w): fill.item()}
            return w.step("Pad", [name], {"pads": pads, **value}, dtype, out)
        case steps.Gather():
            return w.step("Gather", [name, w.constant(step.indices.array)], {"axis": step.axis}, dtype, out)
        case steps.Mask():
            valid = (step.valid.array != 0).reshape((-1,) + (1,) * (len(shape) - step.axis - 1))
            return w.step("Where", [w.constant(valid), name, w.constant(fill)], {}, "bool", out)
        case steps.Fill():
            return _shaped(w, "Expand", w.constant(fill), step.shape, dtype, out, ())


def _pad_value(w: Writer) -> str:
    return "constant_value" if w.opset >= 11 else "value"


def _int(size: Size) -> int:
    if not isinstance(size, int):
        raise FrontendError(f"size {size}", "ONNX needs a number here", "give the symbol a value")
    return size


def _shaped(w: Writer, op: str, name: str, target: steps.Shape, dtype: str, out: str, source: steps.Shape) -> str:
    """A Reshape or Expand to sizes that may be symbolic: copied, inferred, or read from a tensor that has them."""
    open_ = [n for n, d in enumerate(target) if not isinstance(d, int)]
    if op == "Reshape" and 0 in target and w.opset < 14:
        raise FrontendError("Reshape", "an empty shape needs opset 14")
    if not open_:
        zero = {"allowzero": 1} if op == "Reshape" and 0 in target else {}
        return w.step(op, [name], {"shape": tuple(target), **zero}, dtype, out)
    if op == "Reshape" and 0 not in target:
        copied = {n for n in open_ if n < len(source) and source[n] == target[n]}
        rest = [n for n in open_ if n not in copied]
        if len(rest) < 2:
            dims = tuple(0 if n in copied else -1 if n in rest else d for n, d in enumerate(target))
            return w.step(op, [name], {"shape": dims}, dtype, out)
    parts = [_size_name(w, as_extent(d)) for d in target]
    vector = parts[0] if len(parts) == 1 else w.step("Concat", parts, {"axis": 0})
    return w.step(op, [name, vector], {"allowzero": 1} if op == "Reshape" and w.opset >= 14 else {}, "", out)


def _size_name(w: Writer, d: Dim) -> str:
    """The name of a vector of one int64: the value of a size while the model runs."""
    if isinstance(d, int):
        return w.constant(np.array([d], np.int64))
    if d in w.symbols:
        name, axis = w.symbols[d]
        return w.step("Gather", [w.step("Shape", [name]), w.constant(np.array([axis], np.int64))], {"axis": 0})
    if d.op in ("prod", "sum"):
        constant, coefficients = d.payload if d.op == "sum" else (0, None)
        parts = [_size_name(w, as_dim(a)) for a in d.args]
        if coefficients is not None:
            parts = [
                p if c == 1 else w.step("Mul", [p, _size_name(w, c)]) for p, c in zip(parts, coefficients, strict=True)
            ]
        total = parts[0]
        for p in parts[1:]:
            total = w.step("Mul" if d.op == "prod" else "Add", [total, p])
        return total if constant == 0 else w.step("Add", [total, w.constant(np.array([constant], np.int64))])
    raise FrontendError(f"size {d}", "no tensor of the model has it")


# -- formulas --------------------------------------------------------------------------------------------------------


def spell_compute(w: Writer, node: Compute) -> None:
    """Write a formula that is no single operator: as a Concat of pieces, a MatMul, or operator by operator."""
    for way in (_as_concat, _as_contraction, _as_reduction, _as_elementwise):
        made = way(node)
        if made is not None:
            w.stand_in(Tensor(node), made)
            return
    if node.combiner is not None:
        raise FrontendError(f"formula {node.body}", "has no spelling in ONNX operators")
    spell_terms(w, node)


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
    if len(numbers) != len(pieces) or any(a >= b for a, b in numbers):
        return None
    parts = [_piece(node, value, n, low, high) for (low, high), (_, value) in zip(numbers, pieces, strict=True)]
    from eqsat.ir.reductions import concat

    return concat(parts, n)


def _operand_of(node: Compute, load: Term) -> Tensor:
    """The operand that a load reads."""
    return node.operands[int(load.payload)]


def _piece(node: Compute, load: Term, n: int, low: int, high: int) -> Tensor:
    shape: Shape = tuple(high - low if k == n else d for k, d in enumerate(node.shape))
    new = output_axes(shape)
    table = {old: new[k] + low if k == n else new[k] for k, old in enumerate(output_axes(node.shape))}
    index = [substitute(i, table) for i in load.args]
    return Tensor(View(_operand_of(node, load), shape, index, t.TRUE, None))


def _as_elementwise(node: Compute) -> Tensor | None:
    """The formula over views of its operands that have the shape of the result; None where it already is that."""
    if node.combiner is not None:
        return None
    axes = output_axes(node.shape)
    operands = list(node.operands)
    changed = False

    def change(x: Term) -> Term | None:
        nonlocal changed
        if x.op != "load" or not isinstance(x.payload, int) or _is_plain(node.operands[x.payload], x, node.shape):
            return None
        changed = True
        used = [occurs([a], *x.args) for a in axes]
        first = used.index(True) if True in used else len(axes)
        shape: Shape = tuple(d if u else 1 for d, u in zip(node.shape, used, strict=True))[first:]
        inner = dict(zip(axes[first:], output_axes(shape), strict=True))
        view = Tensor(View(node.operands[x.payload], shape, [substitute(i, inner) for i in x.args], t.TRUE, None))
        operands.append(view)
        return t.load(len(operands) - 1, plain_index(view, node.shape), x.dtype)

    body = transform(node.body, change)
    if not changed:
        return None
    tag = None if node.tag is None else Tag(node.tag.name, node.tag.attrs)
    kept = sorted({x.payload for x in leaves("load", body) if isinstance(x.payload, int)})
    table = {old: new for new, old in enumerate(kept)}
    body = transform(
        body,
        lambda x: t.load(table[x.payload], x.args, x.dtype) if x.op == "load" and isinstance(x.payload, int) else None,
    )
    return Tensor(Compute([operands[k] for k in kept], node.shape, body, tag=tag))


def _is_plain(x: Tensor, load: Term, shape: Shape) -> bool:
    return x.rank <= len(shape) and all(a is b for a, b in zip(load.args, plain_index(x, shape), strict=True))


def _as_reduction(node: Compute) -> Tensor | None:
    """A plain reduction of the formula over the whole box."""
    if node.combiner is None or (node.body.op == "load" and _is_whole(node)):
        return None
    full: Shape = (*node.shape, *node.reduce)
    axes = output_axes(full)
    table = dict(zip((*output_axes(node.shape), *reduce_axes(node.reduce)), axes, strict=True))
    inner = Tensor(Compute(node.operands, full, substitute(node.body, table)))
    if node.body.op == "load":
        inner = Tensor(
            View(_operand_of(node, node.body), full, [substitute(i, table) for i in node.body.args], t.TRUE, None)
        )
    return Tensor(
        Compute(
            [inner],
            node.shape,
            t.load(0, (*output_axes(node.shape), *reduce_axes(node.reduce)), inner.dtype),
            node.reduce,
            node.combiner,
        )
    )


def _is_whole(node: Compute) -> bool:
    return all(i.op == "axis" or t.is_const(i, 0) for i in node.body.args) and len(set(node.body.args)) == len(
        node.body.args
    )


def _as_contraction(node: Compute) -> Tensor | None:
    """A sum of products of two loads as a MatMul of views: batch, rows and columns grouped."""
    body = node.body
    if node.combiner != "sum" or body.op != "mul" or any(x.op != "load" for x in body.args):
        return None
    spatial, summed = output_axes(node.shape), reduce_axes(node.reduce)
    left, right = body.args
    in_left, in_right = ([occurs([a], *x.args) for a in spatial] for x in (left, right))
    if not all(occurs([a], *left.args) and occurs([a], *right.args) for a in summed):
        return None
    groups: list[list[int]] = [[], [], []]
    for n, pair in enumerate(zip(in_left, in_right, strict=True)):
        groups[0 if all(pair) or not any(pair) else 1 if pair[0] else 2].append(n)
    batch, rows, columns = groups
    a = _operand(node, left, [batch, rows], True)
    b = _operand(node, right, [batch, columns], False)
    from eqsat.ir.reductions import matmul

    made = matmul(a, b).reshape([node.shape[n] for n in (*batch, *rows, *columns)])
    order = [*batch, *rows, *columns]
    return made.permute_dims([order.index(n) for n in range(len(order))])


def _operand(node: Compute, load: Term, groups: Sequence[Sequence[int]], inner_last: bool) -> Tensor:
    """One operand of a MatMul: its axes in the order batch, rows, summed (or batch, summed, columns), grouped."""
    batch, own = groups
    kept: list[Term] = [output_axes(node.shape)[n] for n in batch]
    mine: list[Term] = [output_axes(node.shape)[n] for n in own]
    summed = list(reduce_axes(node.reduce))
    order = [*kept, *mine, *summed] if inner_last else [*kept, *summed, *mine]
    shape: Shape = tuple(as_dim(a.args[0]) for a in order)
    table = dict(zip(order, output_axes(shape), strict=True))
    view = Tensor(View(_operand_of(node, load), shape, [substitute(i, table) for i in load.args], t.TRUE, None))

    def total(axes: Sequence[Term]) -> Dim:
        return as_dim(t.product([a.args[0] for a in axes])) if axes else 1

    tail = (total(mine), total(summed)) if inner_last else (total(summed), total(mine))
    return view.reshape((*(as_dim(a.args[0]) for a in kept), *tail))


def spell_terms(w: Writer, node: Compute) -> None:
    """Write an element-wise formula over operands that broadcast as they are, one operator per term."""
    done: dict[Term, str] = {}
    body = node.body
    if any(
        x.op == "load" and isinstance(x.payload, int) and not _is_plain(node.operands[x.payload], x, node.shape)
        for x in postorder(body)
    ):
        raise FrontendError(f"formula {body}", "reads operands in a way that ONNX cannot")
    shape = _reach(node)
    whole = same_shape(shape, node.shape)
    for x in _data_terms(body):
        out = w.claim(Tensor(node), "formula") if x is body and whole and not _is_leaf(x) else ""
        done[x] = _term(w, node, x, done, out)
    if not whole:
        target = tuple(as_size(d) for d in node.shape)
        out = w.claim(Tensor(node), "formula")
        _shaped(w, "Expand", done[body], target, node.outputs[0][1], out, tuple(as_size(d) for d in shape))
    elif _is_leaf(body):
        w.alias(Tensor(node), done[body])


def _reach(node: Compute) -> Shape:
    """The shape to which the operands of a formula broadcast by themselves."""
    axes = output_axes(node.shape)
    used = [occurs([a], node.body) for a in axes]
    whole = [any(same_dim(d, 1) for d in (e,)) or u for e, u in zip(node.shape, used, strict=True)]
    return (
        node.shape
        if all(whole) and axes and any(used) and _ranks(node) == len(axes)
        else tuple(d if u else 1 for d, u in zip(node.shape, used, strict=True))
    )


def _ranks(node: Compute) -> int:
    loads = [x for x in leaves("load", node.body) if isinstance(x.payload, int)]
    return max((_operand_of(node, x).rank for x in loads), default=0)


def _data_terms(body: Term) -> list[Term]:
    """The terms to write, arguments first: index arithmetic and what depends only on the position are constants."""
    order: list[Term] = []
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(body, False)]
    while stack:
        x, ready = stack.pop()
        if x in seen:
            continue
        if ready or _is_leaf(x):
            seen.add(x)
            order.append(x)
            continue
        stack.append((x, True))
        stack.extend((a, False) for a in reversed(x.args))
    return order


def _is_leaf(x: Term) -> bool:
    return (x.op == "load" and isinstance(x.payload, int)) or not any(
        y.op in ("load", "hole") and isinstance(y.payload, int) for y in postorder(x)
    )


def _term(w: Writer, node: Compute, x: Term, done: dict[Term, str], out: str) -> str:
    if x.op == "load" and isinstance(x.payload, int):
        return w.name(node.operands[x.payload])
    if x.op == "hole":
        return w.constant(np.zeros((), x.dtype))
    if _is_leaf(x):
        return w.constant(_table(node, x))
    args = [done[a] for a in x.args]
    dtype = x.args[0].dtype
    if x.op == "cast":
        return w.step("Cast", args, {"to": element_type(x.dtype)}, dtype, out)
    if x.op == "ne":
        return w.step("Not", [w.step("Equal", args)], {}, "bool", out)
    if x.op == "truncmod" or (x.op == "mod" and x.dtype.startswith("float")):
        if x.op == "mod":
            raise FrontendError(f"formula {x}", "ONNX has no floor remainder of floats")
        return w.step("Mod", args, {"fmod": 1}, dtype, out)
    if x.op not in TERMS or (x.op == "truncdiv") != (x.op != "div" and TERMS.get(x.op) == "Div"):
        raise FrontendError(f"formula {x}", f"ONNX has no operator for {x.op}")
    name = args[0]
    if x.op in ("and", "or"):
        for other in args[1:-1]:
            name = w.step(TERMS[x.op], [name, other])
        return w.step(TERMS[x.op], [name, args[-1]], {}, dtype, out)
    return w.step(TERMS[x.op], args, {}, dtype, out)


def _table(node: Compute, x: Term) -> NDArray:
    """The values of a term that depends on the position alone, with axes of extent 1 where it does not."""
    axes = output_axes(node.shape)
    used = [occurs([a], x) for a in axes]
    shape = static_shape(tuple(d if u else 1 for d, u in zip(node.shape, used, strict=True)))
    if shape is None or leaves("sym", x) or int(np.prod(shape, dtype=np.float64)) > TABLE_CELLS:
        raise FrontendError(f"formula {x}", "depends on too many or on unknown positions")
    while shape and shape[0] == 1:
        shape = shape[1:]
    env = positions(axes[len(axes) - len(shape) :], shape)
    env.update({a: np.zeros((), np.int64) for a in axes if a not in env})
    from eqsat.ir.decide import load_table

    value, bad = evaluate_masked([x], env, load_table)[0]
    if bad is not None and bool(np.any(bad)):
        raise FrontendError(f"formula {x}", "is undefined somewhere")
    dtype = "int64" if x.dtype == t.INDEX else x.dtype
    return np.ascontiguousarray(np.broadcast_to(value, shape)).astype(dtype)

"""Flat maps back to View nodes: index formulas over the axes of the shapes that are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.decide import decider
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.facts import is_bijective
from eqsat.ir.flat.formula import address_at, address_of, fits_words, valid_at, valid_of
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.refine import Part, refine
from eqsat.ir.flat.size_terms import as_extent, as_size, shape_size
from eqsat.ir.flat.sizes import Size, at_most, div, mul, product
from eqsat.ir.flat.table import Map, TableMap, narrowed, surroundings
from eqsat.ir.flat.term_map import TermMap
from eqsat.ir.tensors.tensor import Constant, Tag, Tensor, View
from eqsat.ir.tensors.views import broadcast_to, flatten, reshape, unflatten, view
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, same_dim, same_shape, static_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute


def reshaped(x: Tensor, shape: Shape) -> Tensor:
    """The tensor under another shape, without stacking reshapes."""
    node = x.node
    while isinstance(node, View) and node.tag is not None and node.tag.name == "reshape":
        x = node.source
        node = x.node
    if same_shape(x.shape, shape):
        return x
    numbers = static_shape(shape)
    if isinstance(node, Constant) and numbers is not None:
        return Tensor(node.moved(lambda array: array.reshape(numbers)))
    if isinstance(node, View) and not node.source.shape and node.fill is None:  # one value, of as many cells
        return broadcast_to(node.source, shape)
    return reshape(x, shape)


def reshapes_around(
    operands: Sequence[Tensor], takes: Sequence[Shape], makes: Sequence[Shape], wanted: Mapping[int, Shape]
) -> int:
    """How many reshapes stand around a node that takes operands in some shapes and makes others; `wanted`: the shapes
    that are asked of its outputs, by their numbers."""
    before = {
        (x.key, s) for x, s in zip(operands, takes, strict=True)
        if not isinstance(x.node, Constant) and not same_shape(x.shape, s)
    }  # fmt: skip
    return len(before) + sum(not same_shape(shape, makes[n]) for n, shape in wanted.items())


def viewed(x: Tensor, m: Map, fill: Term | None, wanted: Shape | None, fold: bool = True) -> Tensor:
    """View(x, m) of the flat buffer, in the wanted shape where its axes allow that, else in the shape of its digits;
    `fold`: of a constant as a constant."""
    if isinstance(x.node, Constant) and m.is_numeric and fold:
        return _folded(x.node, m, fill, wanted)
    if m.is_identity:
        return x if wanted is None else reshaped(x, wanted)
    if isinstance(m, TableMap):
        return _tabled(x, m, fill)
    if isinstance(m, TermMap):
        return _by_formula(x, m, fill, wanted)
    return _digits(x, m, fill, wanted)


def viewed_twice(
    x: Tensor,
    first: FlatMap,
    second: FlatMap,
    fills: tuple[Term | None, Term | None],
    wanted: Shape | None,
    fold: bool = True,
) -> Tensor:
    """The view by `second` of the view by `first`, as one View; at most one fill, or the same twice."""
    inner = viewed(x, first, fills[0], None, fold)
    if wanted is not None and refine(second.digits, second.offset, [as_size(d) for d in inner.shape]) is None:
        between = _around(second, wanted)
        inner = inner if between is None else viewed(x, first, fills[0], between, fold)
    return _fused(viewed(inner, second, fills[1], wanted, fold), inner)


def _made(
    source: Tensor, shape: Shape, gather: Sequence[Term], valid: Term, fill: Term | None, m: Map | None
) -> Tensor:
    """A View by a map, called as a user would have written it."""
    order = tuple(a.payload[1] if a.op == "axis" else -1 for a in gather)
    tag = None
    if valid is not t.TRUE:
        tag = Tag("pad")
    elif sorted(order) == list(range(len(shape))) == list(range(source.rank)) and all(
        same_dim(d, shape[n]) for d, n in zip(source.shape, order, strict=True)
    ):
        tag = Tag("permute_dims", (("axes", tuple(order.index(n) for n in range(len(shape)))),))
    elif m is not None and is_bijective(m):
        tag = Tag("layout_transform")
    elif m is not None and at_most(m.n_out, m.n_in):
        tag = Tag("slice")
    return view(source, shape, gather, valid, fill, tag)


def _around(m: FlatMap, wanted: Shape) -> Shape | None:
    """The source of m in the shape of its result, but for one axis, if m moves along the axes of that."""
    for n in range(len(wanted)):
        extent = div(m.n_in, product(as_size(d) for k, d in enumerate(wanted) if k != n))
        if extent is not None:
            shape = (*wanted[:n], as_extent(extent), *wanted[n + 1 :])
            if refine(m.digits, m.offset, [as_size(d) for d in shape]) is not None:
                return shape
    return None


def _fused(x: Tensor, inner: Tensor) -> Tensor:
    """x, a view of the view `inner`, reshaped or not, as one View of what `inner` views."""
    if not isinstance(x.node, View) or not isinstance(inner.node, View):
        return x  # constants are folded
    node, gather, valid, fill = x.node, x.node.gather, x.node.valid, x.node.fill
    while node is not inner.node:
        assert isinstance(node.source.node, View)
        node = node.source.node
        table = dict(zip(output_axes(node.outputs[0][0]), gather, strict=True))
        gather = tuple(substitute(g, table) for g in node.gather)
        valid = t.logical_and(substitute(node.valid, table), valid)
        fill = node.fill if fill is None else fill
    return _made(node.source, x.shape, gather, valid, fill, None)


def _folded(node: Constant, m: Map, fill: Term | None, wanted: Shape | None) -> Tensor:
    padding = 0 if fill is None else t.const_value(fill)
    made = Tensor(node.moved(lambda array: m.gather(array.reshape(-1), padding)))
    return made if wanted is None else reshaped(made, wanted)


def _tabled(x: Tensor, m: TableMap, fill: Term | None) -> Tensor:
    """Blocks of runs, each of whose digits is an axis."""
    outer, inner = surroundings(m)
    core = narrowed(m, outer, inner)
    assert core is not None
    source = reshaped(x, (as_extent(outer), as_extent(core.n_in), as_extent(inner)))
    shape = tuple(as_extent(e) for e in (outer, *(d.extent for d in core.digits if d.extent != 1), inner))
    i, *axes, k = output_axes(shape)
    rest = iter(axes)
    digits = [t.index_const(0) if d.extent == 1 else next(rest) for d in core.digits]
    valid = valid_of(core, digits)
    return _made(source, shape, [i, address_of(core, digits), k], valid, None if core.is_total else fill, m)


def _by_formula(x: Tensor, m: TermMap, fill: Term | None, wanted: Shape | None) -> Tensor:
    """The formula over the axes of the wanted shape, or of the source's where that has as many cells."""
    shape = (as_extent(m.n_out),) if wanted is None else wanted
    if wanted is None and shape_size(x.shape) == m.n_out:
        shape = x.shape
    i = flatten(output_axes(shape), shape)
    written = [*unflatten(address_at(m, i), x.shape), valid_at(m, i)]
    box = {axis: (0, d) for axis, d in zip(output_axes(shape), shape, strict=True) if isinstance(d, int)}
    shortest = decider().shortest(written, box)
    *gather, valid = shortest if fits_words(shortest) else written
    return _made(x, shape, gather, valid, None if valid is t.TRUE else fill, m)


def _digits(x: Tensor, m: FlatMap, fill: Term | None, wanted: Shape | None) -> Tensor:
    refined = refine(m.digits, m.offset, [as_size(d) for d in x.shape])
    if refined is None:
        x = reshaped(x, (as_extent(m.n_in),))
        refined = refine(m.digits, m.offset, [m.n_in])
    if refined is None:
        return _generic(x, m, fill)
    parts, start = refined
    shape: Shape | None = wanted
    cut = None if wanted is None else common_refinement([p.extent for p in parts], [as_size(d) for d in wanted])
    if shape is None or cut is None:
        shape = tuple(as_extent(p.extent) for p in parts)
        cut = [(n, n, p.extent) for n, p in enumerate(parts)]
    values = _part_values(parts, shape, cut)
    gather = [t.as_index(as_extent(s)) for s in start]
    checks: list[Term] = []
    for p, value in zip(parts, values, strict=True):
        lo, hi = t.as_index(as_extent(p.lo)), t.as_index(as_extent(p.hi))
        moved = hi - 1 - value if p.reverse else value - lo
        for axis, step in p.steps:
            gather[axis] = gather[axis] + moved * t.as_index(as_extent(step))
        if p.lo != 0:
            checks.append(t.compare("le", lo, value))
        if p.hi != p.extent:
            checks.append(t.compare("lt", value, hi))
    return _made(x, shape, gather, t.logical_and(*checks), fill if checks else None, m)


def _part_values(parts: Sequence[Part], shape: Shape, cut: Sequence[tuple[int, int, Size]]) -> list[Term]:
    """The digit of every part as a term over the axes of a shape, by the common pieces of both."""
    axes = output_axes(shape)
    values = [t.index_const(0) for _ in parts]
    part_weight: dict[int, Size] = {}
    dim_weight: dict[int, Size] = {}
    for part, dim, extent in reversed(cut):
        below, inner = part_weight.get(part, 1), dim_weight.get(dim, 1)
        piece = axes[dim]
        if inner != 1:
            piece = piece // t.as_index(as_extent(inner))
        if mul(inner, extent) != as_size(shape[dim]):
            piece = piece % t.as_index(as_extent(extent))
        values[part] = values[part] + piece * t.as_index(as_extent(below))
        part_weight[part], dim_weight[dim] = mul(below, extent), mul(inner, extent)
    return values


def _generic(x: Tensor, m: FlatMap, fill: Term | None) -> Tensor:
    """The address as a sum over the digits of a flat source."""
    shape = tuple(as_extent(d.extent) for d in m.digits)
    axes = output_axes(shape)
    address = t.as_index(as_extent(m.offset))
    checks: list[Term] = []
    for axis, d in zip(axes, m.digits, strict=True):
        address = address + axis * t.as_index(as_extent(d.stride))
        if not d.is_full:
            checks += [
                t.compare("le", t.as_index(as_extent(d.lo)), axis),
                t.compare("lt", axis, t.as_index(as_extent(d.hi))),
            ]
    gather = unflatten(address, x.shape)
    return _made(x, shape, gather, t.logical_and(*checks), fill if checks else None, m)

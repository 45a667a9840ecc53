"""How a layout of a result flows to operands, read off index formulas: through one operator, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eqsat.ir.errors import LayoutError
from eqsat.ir.given import listed, told
from eqsat.ir.keywords import keywords
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, OperatorImpl, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, same_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, nodes_of, substitute
from eqsat.operators.forms import operator_name

Maps = Mapping[Tensor, IndexMap | None]
Callback = Callable[[Tensor, IndexMap], Maps]
"""What a user says in place of the formula: a result of the operator and its layout, to the layouts of the operands."""


@keywords
def flow_layout(
    result: Tensor,
    output_map: IndexMap | str,
    operands: Iterable[Tensor] | None = None,
    callbacks: Mapping[str, Callback] | None = None,
) -> dict[Tensor, IndexMap | None]:
    """The layout of every operand with which an operator has the given layout of its result and keeps its accesses.

    An operand index that is a plain axis takes the axis's place in the map. One that computes with an axis (a window, a
    stride, an offset) takes it where the map moves that axis as a whole; an axis of extent 1 becomes 0; what no axis of
    the result indexes (a reduced axis) stays behind the axis that precedes it. None: the accesses leave no layout.

    >>> import eqsat as eq
    >>> x, b = eq.input("x", (2, 8, 6, 6), "float32"), eq.input("b", (8, 1, 1), "float32")
    >>> blocked = eq.IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4")
    >>> print(flow_layout(x + b, blocked)[b])
    i0, i1, i2 -> i0 // 4, 0, 0, i0 % 4
    >>> padded = x.pad([(0, 0), (0, 0), (1, 1), (1, 1)])
    >>> print(flow_layout((padded + b).relu(), blocked, [x])[x])
    i0, i1, i2, i3 -> i0, i1 // 4, i2, i3, i1 % 4

    output_map: an index map, or one as text. operands: tensors at which to stop, however many operators lie between
    (default: the operator's own operands). callbacks: for operators by name, what to use in place of their formula or
    signature. Its maps are checked: they must fit the operands and keep their cells apart.
    Raises LayoutError for a tensor that is an input or a constant, for ranks that differ, for a map that puts two cells
    in one place, for operands that the result does not read, and for a callback's map that is no layout.
    """
    if not isinstance(result, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError("flow_layout", f"{told(result)} is no tensor", "flow from a result, such as x + y")
    output_map = _map_of(output_map)
    if not result.node.operands:
        raise LayoutError(f"flow_layout of {result!r}", "has no operands", "flow from the result of an operator")
    if len(output_map.names) != result.rank:
        raise LayoutError(f"flow_layout of {output_map}", f"{len(output_map.names)} inputs for rank {result.rank}")
    apart = output_map.is_injective(result.shape)
    if apart.verdict == "refuted":
        raise LayoutError(f"flow_layout of {output_map}", f"is no layout, two cells share a place: {apart.witness}")
    wanted = result.node.operands if operands is None else _tensors(operands)
    if callbacks is not None and not isinstance(callbacks, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError("flow_layout", f"callbacks={told(callbacks)} are no dict", "a function for each operator")
    known = _flowed(result, output_map, wanted, callbacks or {})
    for x in wanted:
        if x not in known:
            raise LayoutError(f"flow_layout to {x!r}", f"{result!r} does not read it", "name tensors that lead to it")
    return {x: known[x] for x in wanted}


def _flowed(
    result: Tensor, output_map: IndexMap | None, wanted: Sequence[Tensor], callbacks: Mapping[str, Callback]
) -> Maps:
    """The layouts of all tensors that lead to a result, down to some of them."""
    known: dict[Tensor, IndexMap | None] = {result: output_map}
    for node in reversed(list(node_order([result]))):
        for y in [x for x in known if x.node is node and (x is result or x not in wanted)]:
            for operand, m in _operand_maps(y, known[y], callbacks).items():
                known[operand] = m if known.setdefault(operand, m) == m else None
    return known


def _map_of(given: object) -> IndexMap:
    """A map, or that of a text."""
    if isinstance(given, str):
        return IndexMap.parse(given)
    if not isinstance(given, IndexMap):
        problem = f"{told(given)} is no index map"
        raise LayoutError("flow_layout", problem, "eq.IndexMap.parse('i -> i//4, i%4'), or that text")
    return given


def _tensors(given: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The operands that a user names."""
    found = tuple(listed(given, f"flow_layout to operands={told(given)}", "a list of tensors", LayoutError))
    for x in found:
        if not isinstance(x, Tensor):
            raise LayoutError("flow_layout", f"{told(x)} is no tensor", "name tensors that lead to the result")
    return found


def _operand_maps(result: Tensor, m: IndexMap | None, callbacks: Mapping[str, Callback]) -> Maps:
    """The layouts of the operands of one operator."""
    node = result.node
    if m is None:
        return dict.fromkeys(node.operands)
    name = operator_name(node)
    if name in callbacks:
        return _checked(name, node, callbacks[name](result, m))
    if isinstance(node, Opaque) and isinstance(node.impl, OperatorImpl) and node.signature is None:
        made = node.impl.as_formula(node.operands)
        known: Maps = {} if made is None else _flowed(Tensor(made), m, node.operands, callbacks)
        return {operand: known.get(operand) for operand in node.operands}
    axes = output_axes(result.shape)
    target = _Target(axes, tuple(substitute(o, dict(zip(m.inputs, axes, strict=True))) for o in m.outputs))
    found: dict[Tensor, IndexMap | None] = {}
    for operand, index in _accesses(result):
        own = None if index is None else _operand_map(index, operand.shape, target)
        found[operand] = own if found.setdefault(operand, own) == own else None
    return {operand: found.get(operand) for operand in node.operands}


def _checked(name: str, node: Node, maps: Maps) -> Maps:
    for operand, m in maps.items():
        what = f"flow_layout: the callback of {name}"
        if operand not in node.operands:
            raise LayoutError(what, f"{operand!r} is no operand of it")
        if m is not None:
            if len(m.names) != operand.rank:
                raise LayoutError(what, f"{m} has {len(m.names)} inputs for rank {operand.rank}")
            apart = m.is_injective(operand.shape)
            if apart.verdict != "proved":
                why = f"two cells share a place: {apart.witness}" if apart.witness else "not proved to be injective"
                raise LayoutError(what, f"{m} is no layout of {operand!r}: {why}")
    return {operand: maps.get(operand) for operand in node.operands}


def _accesses(result: Tensor) -> list[tuple[Tensor, Sequence[Term] | None]]:
    """Each load of each operand: its index over the axes of the result (None: nothing is known)."""
    node = result.node
    if isinstance(node, Compute):
        return [(node.operands[load.payload], load.args) for load in nodes_of("load", node.body)]
    if isinstance(node, View):
        fills = [] if node.fill is None else nodes_of("load", node.fill)
        return [(node.source, node.gather), *((node.source, load.args) for load in fills)]
    if isinstance(node, Opaque) and node.signature is not None:
        return list(_by_signature(node, node.signature, result))
    return [(operand, None) for operand in node.operands]


def _by_signature(node: Opaque, signature: Signature, result: Tensor) -> Iterable[tuple[Tensor, Sequence[Term]]]:
    """The operands' dimensions as products of labels, those of the result as its axes; other labels are reduced."""
    shapes = [shape for shape, _ in node.outputs]
    extents = signature.check([x.shape for x in node.operands], shapes, node.op)
    place: dict[str, Term] = {}
    for labels, axis in zip(signature.outputs[result.index], output_axes(result.shape), strict=True):
        rest = axis
        for label in reversed(labels[1:]):
            place[label], rest = rest % extents[label], rest // extents[label]
        place.update({labels[0]: rest} if labels else {})
    for label, extent in extents.items():
        place.setdefault(label, t.red(len(place), extent))

    def index(dims: Dims) -> list[Term]:
        terms: list[Term] = []
        for labels in dims:
            terms.append(t.index_const(0))
            for label in labels:
                terms[-1] = terms[-1] * extents[label] + place[label]
        return terms

    return [(x, index(dims)) for x, dims in zip(node.operands, signature.operands, strict=True)]


@dataclass(frozen=True)
class _Target:
    """The layout of a result: each physical index over the axes of the result."""

    axes: tuple[Term, ...]
    outputs: tuple[Term, ...]

    def used(self, e: Term) -> list[Term]:
        """The axes that occur in a term."""
        own = set(self.axes)
        return [a for a in free_variables(e) if a in own]

    def whole(self, axis: Term) -> bool:
        """Whether the axis is one physical index by itself, and in no other."""
        users = [o for o in self.outputs if axis in {*free_variables(o)}]
        return len(users) == 1 and users[0] is axis


def _operand_map(index: Sequence[Term], shape: Shape, target: _Target) -> IndexMap | None:
    names = tuple(f"i{n}" for n in range(len(index)))
    variables = [t.var(n) for n in names]
    place: dict[Term, Term] = {}
    behind: dict[int, list[Term]] = {}  # what no axis indexes, behind the dimension with that number (-1: in front)
    last = -1
    units: list[Term] = []
    part = False
    for n, (i, extent) in enumerate(zip(index, shape, strict=True)):
        used = target.used(i)
        if t.is_const(i, 0) and same_dim(extent, 1):
            units.append(variables[n])
        elif not used:
            behind.setdefault(last, []).append(variables[n])
        elif len(used) > 1 or used[0] in place or not (i is used[0] or target.whole(used[0])):
            return None
        else:
            place[used[0]], last = variables[n], n
            part |= not target.whole(used[0]) and not same_dim(used[0].args[0], extent)
    result: list[Term] = list(behind.pop(-1, []))
    missing = [a for a in target.axes if a not in place]
    aligned = set(missing[-len(units) :]) if units else set[Term]()
    for output in target.outputs:
        used = target.used(output)
        if all(a in place for a in used):
            result.append(substitute(output, place))
            for n in [n for n in behind if any(place[a] is variables[n] for a in used)]:
                result.extend(behind.pop(n))
        elif any(a in place for a in used):
            return None
        elif any(a in aligned for a in used):
            result.append(t.index_const(0))
    found = IndexMap(names, tuple(result))
    # The digits of a part of an operand may not tell the cells of the whole apart.
    return found if not part or found.is_injective(shape).verdict == "proved" else None

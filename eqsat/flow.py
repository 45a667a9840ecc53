"""How a layout of an operator's result flows to its operands, read off the operator's index formula."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.tensor import Compute, Tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, same_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, nodes_of, substitute


def flow_layout(compute: Tensor, output_map: IndexMap) -> dict[Tensor, IndexMap | None]:
    """The layout of every operand with which an operator has the given layout of its result and keeps its accesses.

    An operand index that is a plain axis takes the axis's place in the map; an axis of extent 1 becomes 0; a reduced
    axis stays behind the axis that precedes it. None: the accesses leave no layout (arithmetic on an axis that the map
    moves, or two loads that disagree).

    >>> import eqsat as eq
    >>> from eqsat.ir.layouts.index_map import IndexMap
    >>> x, b = eq.input("x", (2, 8, 3, 3), "float32"), eq.input("b", (8, 1, 1), "float32")
    >>> maps = flow_layout(x + b, IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4"))
    >>> print(maps[b])
    i0, i1, i2 -> i0 // 4, 0, 0, i0 % 4

    Errors: LayoutError where the tensor is not a Compute or the ranks differ.
    """
    node = compute.node
    if not isinstance(node, Compute):
        raise LayoutError(
            f"flow_layout of {compute!r}", "is not a Compute", "flow through the operators, not the views"
        )
    if len(output_map.names) != compute.rank:
        raise LayoutError(f"flow_layout of {output_map}", f"{len(output_map.names)} inputs for rank {compute.rank}")
    axes = output_axes(compute.shape)
    outputs = [substitute(o, dict(zip(output_map.inputs, axes, strict=True))) for o in output_map.outputs]
    result: dict[Tensor, IndexMap | None] = {}
    for k, operand in enumerate(node.operands):
        loads = [x for x in nodes_of("load", node.body) if x.payload == k]
        maps = [_operand_map(x.args, operand.shape, axes, outputs) for x in loads]
        same = all(m is not None and maps[0] is not None and m == maps[0] for m in maps)
        result[operand] = maps[0] if maps and same else None
    return result


def _operand_map(index: Sequence[Term], shape: Shape, axes: Sequence[Term], outputs: Sequence[Term]) -> IndexMap | None:
    own = set(axes)
    names = tuple(f"i{n}" for n in range(len(index)))
    variables = [t.var(n) for n in names]
    place: dict[Term, Term] = {}
    pending: dict[int, list[Term]] = {}  # reduced axes, behind the operand axis with that number (-1: in front)
    last = -1
    units: list[Term] = []
    for n, (i, extent) in enumerate(zip(index, shape, strict=True)):
        if t.is_const(i, 0) and same_dim(extent, 1):
            units.append(variables[n])
        elif i.op != "axis" or t.as_index(extent) is not i.args[0] or i in place:
            return None
        elif i in own:
            place[i] = variables[n]
            last = n
        else:
            pending.setdefault(last, []).append(variables[n])
    result: list[Term] = list(pending.get(-1, []))
    done: set[int] = {-1}
    missing = [a for a in axes if a not in place]
    aligned = set(missing[-len(units) :]) if units else set[Term]()
    for output in outputs:
        used = [a for a in free_variables(output) if a in own]
        if all(a in place for a in used) and used:
            result.append(substitute(output, place))
            for n in [k for k in pending if k not in done and any(place[a] is variables[k] for a in used)]:
                result.extend(pending[n])
                done.add(n)
        elif used and not any(a in place for a in used):
            if any(a in aligned for a in used):
                result.append(t.index_const(0))
        else:
            return None
    return IndexMap(names, tuple(result))

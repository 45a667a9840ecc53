"""The padding of a tensor, read off the Views that made it."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.decide import decider
from eqsat.ir.layouts.padding import Padding, PadStep, negated, static_extent
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.tensors.tensor import Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes, static_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import renumber_loads, substitute, transform


def padding_of(x: Tensor) -> Padding | None:
    """The padding of a tensor, through all the Views that made it; None where no cell is padding.

    >>> import eqsat as eq
    >>> first = eq.input("x", (14,), "float32").layout_transform("i -> i//4, i%4", pad_value=eq.UNDEF)
    >>> found = padding_of(first.layout_transform("i, j -> i, j//8, j%8", pad_value=0))
    >>> [str(s.where) for s in found.steps]
    ['i2 < 4 and 14 <= 4*i0 + i2', '4 <= i2']
    """
    axes = output_axes(x.shape)
    index = [t.index_const(0) if static_extent(a) == 1 else a for a in axes]
    reached = t.TRUE
    steps: list[PadStep] = []
    y = x
    while isinstance(y.node, View):
        view = y.node
        table = dict(zip(output_axes(y.shape), index, strict=True))
        if view.fill is not None:
            valid = substitute(view.valid, table)
            value = renumber_loads(substitute(view.fill, table), {0: view.source})
            steps.append(PadStep(_first_axes(t.logical_and(reached, negated(valid)), axes), value))
            reached = t.logical_and(reached, valid)
        index = [_first_axes(substitute(g, table), axes) for g in view.gather]
        y = view.source
    box = static_shape(x.shape)
    kept = [s for s in reversed(steps) if not _never(s.where, axes, box)]
    return Padding(axes, tuple(kept)) if kept else None


def _never(where: Term, axes: Sequence[Term], box: Sequence[int] | None) -> bool:
    if where is t.FALSE:
        return True
    if box is None:
        return False
    return bool(decider().prove(t.logical_not(where), {a: (0, n) for a, n in zip(axes, box, strict=True)}))


def _first_axes(term: Term, axes: Sequence[Term]) -> Term:
    """Digits that the ranges of the axes make trivial are dropped: i // 8 * 8 + i % 8, i // 1, i % 8 for i < 8."""
    extents = {a: static_extent(a) for a in axes}
    ranges = {a: (0, e) for a, e in extents.items() if e}

    def change(node: Term) -> Term | None:
        size = t.int_value(node.args[1]) if node.op in ("floordiv", "mod") else None
        if size is None or size < 1:
            return None
        low, high = bounds(node.args[0], ranges)
        if low is None or high is None or low // size != high // size:
            return None
        return t.index_const(low // size) if node.op == "floordiv" else node.args[0] - low // size * size

    return transform(term, change)

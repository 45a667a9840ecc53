"""Operators over operands of different sizes that are one formula: what each cell is made of, and how, is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Tensor, View, input, node_order
from eqsat.ir.terms.shape import output_axes, reduce_axes, same_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute


def same_formula(a: Opaque, b: Opaque) -> bool:
    """Whether two operators are defined as one formula, in which only the extents of axes that nothing is combined over
    differ: a size that the formula computes with is part of it.

    >>> import eqsat as eq
    >>> from eqsat.ir.tensors.library import operator
    >>> def softmax(*shape):
    ...     return operator("softmax", [eq.input("x", shape, "float32")], {"axis": 1})[0].node
    >>> same_formula(softmax(8, 5), softmax(3, 5)), same_formula(softmax(8, 5), softmax(8, 4))
    (True, False)
    """
    left, right = _nodes(a), _nodes(b)
    if left is None or right is None or len(left) != len(right):
        return False
    known: dict[int, Node] = {}
    for x, y in zip(left, right, strict=True):
        if type(x) is not type(y) or not _same(x, y, known):
            return False
        known[x.serial] = y
    return True


def _nodes(node: Opaque) -> list[Node] | None:
    """The nodes of what an operator is defined as, over stand-ins of its operands."""
    if node.definition is None:
        return None
    stand_ins = [input(f"x{n}", x.shape, x.dtype) for n, x in enumerate(node.operands)]
    try:
        made = node.definition(*stand_ins)
    except EqsatError:
        return None
    return list(node_order([made] if isinstance(made, Tensor) else list(made)))


def _same(x: Node, y: Node, known: Mapping[int, Node]) -> bool:
    """Whether two nodes are one, if their operands are."""
    if [d for _, d in x.outputs] != [d for _, d in y.outputs] or len(x.operands) != len(y.operands):
        return False
    pairs = zip(x.operands, y.operands, strict=True)
    if any(known[a.node.serial] is not b.node or a.index != b.index for a, b in pairs):
        return False
    if isinstance(x, Input) and isinstance(y, Input):
        return x.name == y.name
    if isinstance(x, Constant) and isinstance(y, Constant):
        return x.array.dtype == y.array.dtype and np.array_equal(x.array, y.array, equal_nan=x.array.dtype.kind == "f")
    axes = dict(zip(output_axes(x.outputs[0][0]), output_axes(y.outputs[0][0]), strict=False))
    if len(x.outputs[0][0]) != len(y.outputs[0][0]):
        return False
    if isinstance(x, View) and isinstance(y, View):
        if (x.fill is None) != (y.fill is None) or len(x.gather) != len(y.gather):
            return False
        mine, theirs = (*x.gather, x.valid), (*y.gather, y.valid)
        if x.fill is not None and y.fill is not None:
            mine, theirs = (*mine, x.fill), (*theirs, y.fill)
        return _equal(mine, theirs, axes)
    if isinstance(x, Compute) and isinstance(y, Compute):
        if (x.combiner, x.ordered) != (y.combiner, y.ordered) or not same_shape(x.reduce, y.reduce):
            return False
        return _equal([x.body], [y.body], axes | dict(zip(reduce_axes(x.reduce), reduce_axes(y.reduce), strict=True)))
    return False


def _equal(mine: Sequence[Term], theirs: Sequence[Term], axes: Mapping[Term, Term]) -> bool:
    return all(substitute(a, axes) is b for a, b in zip(mine, theirs, strict=True))

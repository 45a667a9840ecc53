"""Permutations of positions (a reversal, a roll, an xor, a gather along an axis) and operators: which views of the
operands, and of the results, change places with an operator that treats all positions of an axis alike.

    relu(flip(x)) = flip(relu(x));    sum(flip(x)) = sum(x);    softmax(roll(x)) = roll(softmax(x)) along one axis
    flip(a, k) @ flip(b, k) = a @ b for the summed axis k

A permutation of the positions on some axes of one operand, or result, is one of the same axes wherever else they are.
Axes that are computed position by position may be permuted together; those that are combined in any order, or that an
operator is equivariant along (a softmax), each by itself; any other axis stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from eqsat.ir.flat.facts import is_bijective, is_permutation
from eqsat.ir.flat.map import FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.sizes import Size, mul
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.tabled import widened
from eqsat.ir.flat.term_map import TermMap
from eqsat.operators.labels import CanonicalOp, ComputeKind, Order, access_map

TABLE_LIMIT = 1 << 14


def moves_positions(m: Map) -> bool:
    """Whether a map is a bijection that no order of axes is.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> flip, permute = from_digits(6, [digit(6, -1)], 5), from_digits(6, [digit(3, 1), digit(2, 3)])
    >>> moves_positions(flip), moves_positions(permute)
    (True, False)
    """
    return is_bijective(m) and not is_permutation(m)


@lru_cache(maxsize=1 << 12)
def moved(operator: CanonicalOp, place: int, m: Map) -> tuple[Map, ...] | None:
    """The views of all operands, then results, that change places with an operator, where that numbered `place` is m:
    the operator over the views is the view of the operator. None where the operator does not allow that.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> from eqsat.operators.labels import ComputeKind, Label
    >>> from eqsat.ir.terms import term as t
    >>> kind = ComputeKind(t.load(0, (), "float32"), "max", False, ("float32",))
    >>> largest = CanonicalOp(kind, (Label("map", 2), Label("reduce", 3)), ((0, 1),), ((0,),))
    >>> [str(x) for x in moved(largest, 0, from_digits(6, [digit(6, -1)], 5))]
    ['(6:-1) + 5 of 6', '(2:-1) + 1 of 2']
    """
    tensors = (*operator.operands, *operator.outputs)
    if isinstance(m, TermMap) or not moves_positions(m) or not _is_pure(operator):
        return None
    order = tensors[place]
    rest = [i for i in range(len(operator.labels)) if i not in order]
    joint = [*order, *rest]
    if operator.size(joint) == 0:
        return None  # there are no positions
    whole = widened(1, m, operator.size(rest))
    if not _allowed(operator, order, joint, whole):
        return None
    found: list[Map] = []
    for other in tensors:
        own = _of(operator, other, joint, whole)
        if own is None:
            return None
        found.append(own)
    return tuple(found) if found[place] == m else None


def _is_pure(operator: CanonicalOp) -> bool:
    return isinstance(operator.kind, ComputeKind) or not operator.kind.identity


def _allowed(operator: CanonicalOp, order: Order, joint: Sequence[int], whole: Map) -> bool:
    """Whether each axis may take part in what the permutation does to it."""
    groups: dict[tuple[str, object], list[int]] = {}
    for i in order:
        x = operator.labels[i]
        key = ("map", "") if x.role == "map" else (x.role, x.name)
        groups.setdefault(key, []).append(i)
    for (role, _), own in groups.items():
        mine = _of(operator, tuple(own), joint, whole)
        if mine is None or (role == "fixed" and not mine.is_identity):
            return False
    return True


def _of(operator: CanonicalOp, order: Order, joint: Sequence[int], whole: Map) -> Map | None:
    """The permutation of the positions on some axes that one of all axes is; None where others decide over it."""
    at = access_map(operator.labels, order, joint)
    there = compose(whole, _section(operator, order, joint), TABLE_LIMIT)
    own = None if there is None else compose(at, there, TABLE_LIMIT)
    if own is None or compose(at, whole, TABLE_LIMIT) != compose(own, at, TABLE_LIMIT):
        return None
    return own


def _section(operator: CanonicalOp, order: Order, joint: Sequence[int]) -> FlatMap:
    """For each index over some axes one over all, at the first position of the others."""
    strides: dict[int, Size] = {}
    inner: Size = 1
    for i in reversed(joint):
        strides[i] = inner
        inner = mul(inner, operator.labels[i].extent)
    return from_digits(inner, [digit(operator.labels[i].extent, strides[i]) for i in order])

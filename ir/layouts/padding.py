"""Padding: which cells of a transformed tensor or buffer no element reaches, and what each step put there.

Every step keeps its own cells and its own value, so several transforms in a row do not overwrite one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from eqsat.ir.errors import ShapeError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute

if TYPE_CHECKING:
    from eqsat.ir.layouts.index_map import IndexMap


class LayoutStep(NamedTuple):
    """A map that a buffer was laid out by, the shape that it had before, and whether the map added padding."""

    index_map: IndexMap
    shape: Shape
    pads: bool


@dataclass(frozen=True, eq=False)
class PadStep:
    """The cells that one step added, and what they hold; no value: they must not be accessed."""

    where: Term
    value: Term | None


@dataclass(frozen=True, eq=False)
class Padding:
    """The padding of a tensor or buffer: terms over `indices`, one step per transform that pads, the first one first.

    >>> import eqsat as eq
    >>> x = eq.input("x", (14,), "float32")
    >>> p = x.layout_transform("i -> i//4, i%4", pad_value=0).padding
    >>> print(p.predicate, "|", p.by_digits(), "|", p.value)
    14 <= 4*i0 + i1 | i0 == 3 and 2 <= i1 | float32(0.0)
    >>> p.at((3, 1)), p.at((3, 2))
    (False, True)
    """

    indices: tuple[Term, ...]
    steps: tuple[PadStep, ...]

    @property
    def predicate(self) -> Term:
        """Where a cell is padding."""
        return t.logical_or(*(s.where for s in self.steps))

    @property
    def forbidden(self) -> Term:
        """Where a cell must not be accessed."""
        return t.logical_or(*(s.where for s in self.steps if s.value is None))

    @property
    def unknown(self) -> Term:
        """Where a cell holds nothing that is known: it must not be accessed, or it is a hole."""
        return t.logical_or(*(s.where for s in self.steps if s.value is None or nodes_of("hole", s.value)))

    @property
    def value(self) -> Term | None:
        """What a cell holds where it is padding; None where no padding has a value."""
        valued = [(s.where, s.value) for s in self.steps if s.value is not None]
        if not valued:
            return None
        result = valued[-1][1]
        for where, value in reversed(valued[:-1]):
            result = t.where(where, value, result)
        return result

    def at(self, index: Sequence[Any], forbidden: bool = False) -> Any:
        """Whether a cell is padding (of steps without a value, where `forbidden`): a bool, or a predicate for terms."""
        found = self._substituted(self.forbidden if forbidden else self.predicate, index)
        if any(isinstance(i, Term) for i in index):
            return found
        return bool(found.evaluate())

    def _substituted(self, term: Term, index: Sequence[Any]) -> Term:
        if len(index) != len(self.indices):
            raise ShapeError("padding", f"{len(index)} indices for rank {len(self.indices)}", "one per axis")
        return substitute(term, dict(zip(self.indices, map(t.as_index, index), strict=True)))

    def by_digits(self, names: Sequence[str] = ()) -> Term:
        """The predicate as conditions on single indices, where it compares a mixed-radix number; `names` for them.

        >>> import eqsat as eq
        >>> y = eq.input("x", (14,), "int8").layout_transform("i -> (i+2)//8, (i+2)%8", pad_value=0)
        >>> print(y.padding.by_digits(["io", "ii"]))
        io == 0 and ii < 2
        """
        ranges = {i: static_extent(i) for i in self.indices}
        found = by_digits(self.predicate, {i: e for i, e in ranges.items() if e is not None})
        return self._substituted(found, [t.var(n) for n in names]) if names else found


def static_extent(index: Term) -> int | None:
    """The extent of an axis or a variable that has one as a number."""
    return t.int_value(index.args[0]) if index.op in ("axis", "var") and index.args else None


def negated(predicate: Term) -> Term:
    """The negation, pushed through and/or; the parts are evaluated in the same order.

    >>> i = t.var("i")
    >>> print(negated(t.logical_and(2 <= i, i < 5)))
    i < 2 or 5 <= i
    """
    if predicate.op in ("and", "or"):
        return t.junction("or" if predicate.op == "and" else "and", [negated(a) for a in predicate.args])
    return t.logical_not(predicate)


# -- a comparison of a mixed-radix number, digit by digit -------------------------------------------------------------


def by_digits(predicate: Term, extents: Mapping[Term, int]) -> Term:
    """Comparisons of a number of several digits as conditions on its digits; everything else stays.

    >>> io, ii = t.var("io"), t.var("ii")
    >>> print(by_digits(4 * io + ii < 14, {io: 4, ii: 4}))
    io < 3 or io == 3 and ii < 2
    >>> print(by_digits(14 <= 4 * io + ii, {io: 4, ii: 4}))
    io == 3 and 2 <= ii
    """
    if predicate.op in ("and", "or"):
        return t.junction(predicate.op, [by_digits(a, extents) for a in predicate.args])
    if predicate.op == "not":
        return by_digits(negated(predicate.args[0]), extents) if predicate.args[0].op in ("and", "or") else predicate
    if predicate.op not in ("lt", "le") or predicate.args[0].dtype != t.INDEX:
        return predicate
    a, b = predicate.args
    constant, parts = t.linear_parts(b - a if predicate.op == "le" else b - a - 1)
    at_least = all(c > 0 for c, _ in parts)
    if not at_least:
        if any(c > 0 for c, _ in parts):
            return predicate
        parts = tuple((-c, x) for c, x in parts)
    digits = sorted((p for p in parts if extents.get(p[1]) != 1), key=lambda p: -p[0])
    reach = 0
    for c, x in reversed(digits):
        if x not in extents or c <= reach:
            return predicate
        reach += c * (extents[x] - 1)
    # number >= -constant, or number <= constant, which is not number >= constant + 1
    return _compared(digits, extents, -constant if at_least else constant + 1, at_least)


def _compared(digits: Sequence[tuple[int, Term]], extents: Mapping[Term, int], limit: int, up: bool) -> Term:
    """number >= limit, or number < limit where not `up`, digit by digit."""
    if limit <= 0:
        return t.bool_const(up)
    if not digits:
        return t.bool_const(not up)
    (c, x), rest = digits[0], digits[1:]
    q = limit // c
    if q >= extents[x]:
        return t.bool_const(not up)
    tail = _compared(rest, extents, limit - c * q, up)
    if tail is t.TRUE:
        return _part(x, extents[x], q if up else q + 1, up)
    beyond = _part(x, extents[x], q + 1 if up else q, up)
    return beyond if tail is t.FALSE else t.logical_or(beyond, t.logical_and(t.compare("eq", x, q), tail))


def _part(x: Term, extent: int, limit: int, up: bool) -> Term:
    """x >= limit, or x < limit, as an equation where only one value is left."""
    if limit >= extent:
        return t.bool_const(not up)
    if up:
        return t.compare("le", limit, x) if limit + 1 < extent else t.compare("eq", x, limit)
    return t.FALSE if limit == 0 else t.compare("lt", x, limit) if limit > 1 else t.compare("eq", x, 0)

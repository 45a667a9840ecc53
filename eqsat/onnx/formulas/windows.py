"""Sliding windows in a formula: an index `stride * i + dilation * k + offset` of an output axis and a reduce axis.

Seen in a load, in whatever layout the tensor has: the window is replaced by one axis, of the cells that windows reach.
The guard of a formula says which of those exist; the others are the padding of a convolution or a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, as_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import occurs, postorder, substitute


@dataclass(frozen=True, eq=False)
class Sliding:
    """Windows along one axis: tap k of window i reads stride * i + dilation * k + offset.

    `low` and `high` are the first and last position, before the offset, that exist: the rest is padding.
    """

    term: Term
    outer: Term
    tap: Term
    stride: int
    dilation: int
    offset: int
    low: Term
    high: Term

    @property
    def reach(self) -> Term:
        """The last position that a window reads, before the offset."""
        outputs, taps = self.outer.args[0], self.tap.args[0]
        return (outputs - 1) * self.stride + (taps - 1) * self.dilation

    @property
    def extent(self) -> Dim:
        """The number of positions that exist."""
        return as_dim(self.high - self.low + 1)

    @property
    def pads(self) -> tuple[int, int] | None:
        """The positions before and after those that exist; None where they are not numbers."""
        before, after = t.int_value(self.low), t.int_value(self.reach - self.high)
        if before is None or after is None or before < 0:
            return None
        return before, max(after, 0)


@dataclass(frozen=True)
class Read:
    """A load whose windows are axes of their own: `index` over the other axes and one `place` per window."""

    index: tuple[Term, ...]
    windows: tuple[Sliding, ...]
    places: tuple[Term, ...]


def read_windows(index: Sequence[Term], shape: Sequence[Dim], guard: Sequence[Term]) -> Read | None:
    """The windows of a load of a tensor of this shape; None where it has none, or the guard is about something else.

    >>> i, k = t.ax(0, 4), t.red(0, 3)
    >>> found = read_windows([i * 2 + k - 1], (8,), [0 <= i * 2 + k - 1])
    >>> [(w.stride, w.dilation, w.pads, w.extent) for w in found.windows]
    [(2, 1, (1, 0), 8)]
    """
    if not never_empty(shape):
        return None  # runtimes refuse windows over nothing
    found = [w for x in dict.fromkeys(postorder(*index)) if (w := _sliding(x)) is not None]
    axes = [a for w in found for a in (w.outer, w.tap)]
    if not found or len(set(axes)) != len(axes):
        return None
    for claim in guard:
        at = next((n for n, w in enumerate(found) if _narrowed(w, claim) is not None), None)
        if at is None:
            return None
        narrowed = _narrowed(found[at], claim)
        assert narrowed is not None
        found[at] = narrowed
    found = [_grown(w, index, shape) for w in found]
    if any(w.pads is None for w in found):
        return None
    places = tuple(t.var(f"window{n}", w.extent) for n, w in enumerate(found))
    table = {w.term: y + w.low + w.offset for w, y in zip(found, places, strict=True)}
    inner = tuple(substitute(i, table) for i in index)
    return None if occurs(axes, *inner) else Read(inner, tuple(found), places)


def never_empty(shape: Sequence[Dim]) -> bool:
    """Whether all extents are at least 1, for every value of the symbols."""
    return all((Bounds().of(t.as_index(d))[0] or 0) >= 1 for d in shape)


def _sliding(x: Term) -> Sliding | None:
    if x.op != "sum" or len(x.args) != 2 or any(a.op != "axis" for a in x.args):
        return None
    offset, parts = t.linear_parts(x)
    roles = {a.payload[0]: (c, a) for c, a in parts}
    if set(roles) != {"ax", "red"} or any(c < 1 for c, _ in parts):
        return None
    (stride, outer), (dilation, tap) = roles["ax"], roles["red"]
    zero = t.index_const(0)
    whole = Sliding(x, outer, tap, stride, dilation, offset, zero, zero)
    return Sliding(x, outer, tap, stride, dilation, offset, zero, whole.reach)


def _narrowed(w: Sliding, claim: Term) -> Sliding | None:
    """The windows where a comparison of their position with a number or a size holds."""
    if claim.op not in ("lt", "le") or claim.args[0].dtype != t.INDEX:
        return None
    a, b = claim.args
    room = b - a - (1 if claim.op == "lt" else 0)
    bare = w.term - w.offset
    below, above = room - bare, room + bare  # room = position - a number, or a number - position
    for limit, upper in ((below, False), (above, True)):
        if occurs([w.outer, w.tap], limit) or any(x.op in ("axis", "load") for x in postorder(limit)):
            continue
        if upper:
            return Sliding(w.term, w.outer, w.tap, w.stride, w.dilation, w.offset, w.low, _least(w.high, limit))
        low = t.int_value(-limit)
        return None if low is None else Sliding(
            w.term, w.outer, w.tap, w.stride, w.dilation, w.offset, t.index_const(max(low, t.int_value(w.low) or 0)),
            w.high,
        )  # fmt: skip
    return None


def _least(a: Term, b: Term) -> Term:
    """The smaller of two ends; of symbolic ones, the one that the guard gives."""
    p, q = t.int_value(a), t.int_value(b)
    if p is not None and q is not None:
        return t.index_const(min(p, q))
    room = t.int_value(a - b)
    return a if room is not None and room < 0 else b


def _grown(w: Sliding, index: Sequence[Term], shape: Sequence[Dim]) -> Sliding:
    """With the cells at the end that no window reaches, where they are fewer than a stride: no slice is needed then."""
    at = next((n for n, i in enumerate(index) if i is w.term), None)
    if at is None:
        return w
    last = t.as_index(shape[at]) - 1 - w.offset
    more = t.int_value(last - w.reach)
    if more is None or not 0 < more < w.stride:
        return w
    return Sliding(w.term, w.outer, w.tap, w.stride, w.dilation, w.offset, w.low, last)

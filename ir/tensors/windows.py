"""Sliding windows along one axis: what a window reads, which of those cells exist, and how many windows there are."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.ir.errors import ShapeError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, as_dim
from eqsat.ir.terms.term import Term


@dataclass(frozen=True, eq=False)
class Window:
    """`outputs` windows of `kernel` taps, `dilation` apart, along an axis padded by `before` and `after` cells.

    >>> w = window(extent=5, kernel=3, stride=2, before=1, after=1)
    >>> w.outputs, str(w.position(t.var("i"), t.var("k")))
    (3, '2*i + k - 1')
    """

    extent: Dim
    kernel: Dim
    stride: int
    dilation: int
    before: int
    after: int
    outputs: Dim

    def position(self, i: Term, k: Term) -> Term:
        """What tap k of window i reads; below 0 or beyond the extent it is padding."""
        return i * self.stride + k * self.dilation - self.before

    def inside(self, position: Term) -> list[Term]:
        """The conditions under which a position is a cell; those that always hold are left out."""
        checks: list[Term] = []
        if self.before:
            checks.append(t.compare("le", 0, position))
        if self.reaches_beyond():
            checks.append(t.compare("lt", position, t.as_index(self.extent)))
        return checks

    def reaches_beyond(self) -> bool:
        """Whether the last tap of the last window may lie behind the last cell."""
        last = (t.as_index(self.outputs) - 1) * self.stride + (t.as_index(self.kernel) - 1) * self.dilation
        free = t.int_value(t.as_index(self.extent) + self.before - 1 - last)
        return self.after > 0 if free is None else free < 0

    def taps(self, i: Term, padded: bool = False) -> Term:
        """How many taps of window i read a cell; with `padded`, cells of padding count too.

        >>> w = window(extent=5, kernel=3, stride=2, before=1, after=1)
        >>> [int(w.taps(t.index_const(i)).evaluate()) for i in range(3)]
        [2, 3, 2]
        """
        start = i * self.stride - self.before
        stop = t.as_index(self.extent) + (self.after if padded else 0)
        count = t.binary("min", t.as_index(self.kernel), -((start - stop) // self.dilation))
        if padded or not self.before:
            return count
        return count - t.binary("max", -(start // self.dilation), 0)


def window(
    extent: Dim,
    kernel: Dim,
    stride: int = 1,
    dilation: int = 1,
    before: int = 0,
    after: int = 0,
    ceil: bool = False,
    what: str = "window",
) -> Window:
    """The windows that fit an axis; with `ceil` also one that starts inside of it and ends behind the padding.

    Raises ShapeError where no window fits.
    """
    if min(stride, dilation) < 1 or min(before, after) < 0:
        raise ShapeError(what, f"stride {stride}, dilation {dilation} or padding ({before}, {after}) is too small")
    reach = (t.as_index(kernel) - 1) * dilation
    room = t.as_index(extent) + (before + after) - reach - 1
    count = room + 1 if stride == 1 else -(-room // stride) + 1 if ceil else room // stride + 1
    if ceil:
        count = t.where(t.compare("lt", (count - 1) * stride, t.as_index(extent) + before), count, count - 1)
    number = t.int_value(count)
    if number is not None and number < 1:
        raise ShapeError(what, f"a kernel of {kernel} does not fit {extent} + {before + after}")
    return Window(extent, kernel, stride, dilation, before, after, as_dim(count))

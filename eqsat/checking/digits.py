"""Axes as products of digits: which parts of which axes are one, so that all of them can be shrunk alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

import numpy as np

from eqsat.checking.part import Impossible
from eqsat.ir.dtypes import NDArray

MOST_HELD = 1 << 22
"""Positions of an axis of which none can be left out."""

Digits = tuple[int, ...]
"""The digits of an axis, the most significant first; none for extent 1."""


@dataclass
class DigitTable:
    """Digits with their extents; a digit is itself, the same as another, or split into several.

    >>> table = DigitTable()
    >>> a, b, c = table.axis(12), table.axis(3), table.axis(4)
    >>> table.equate(a, b + c)
    True
    >>> [table.extent(d) for d in table.roots(a)]
    [3, 4]
    """

    extents: list[int] = field(default_factory=list[int])
    parts: list[Digits | None] = field(default_factory=list["Digits | None"])
    held: set[int] = field(default_factory=set[int])
    kept: dict[int, NDArray] = field(default_factory=dict[int, NDArray])

    def axis(self, extent: int) -> Digits:
        """A new axis."""
        if extent == 1:
            return ()
        self.extents.append(extent)
        self.parts.append(None)
        return (len(self.extents) - 1,)

    def extent(self, digit: int) -> int:
        return self.extents[digit]

    def roots(self, digits: Iterable[int]) -> list[int]:
        """The digits as far as they are split."""
        found: list[int] = []
        stack = list(digits)[::-1]
        while stack:
            d = stack.pop()
            below = self.parts[d]
            if below is None:
                found.append(d)
                continue
            if len(below) == 1:  # the same as another one: later questions go there at once
                last = below[0]
                while (further := self.parts[last]) is not None and len(further) == 1:
                    last = further[0]
                below = self.parts[d] = (last,)
            stack.extend(reversed(below))
        return found

    def hold(self, digits: Iterable[int]) -> None:
        """These keep their extents."""
        self.held.update(self.roots(digits))

    def equate(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Two products of axes are one; where their digits do not align they are held. False: the extents differ."""
        left, right = self.roots(a)[::-1], self.roots(b)[::-1]
        if prod(map(self.extent, left)) != prod(map(self.extent, right)):
            self.hold([*left, *right])
            return False
        while left and right:
            x, y = left.pop(), right.pop()
            below = self.parts[x], self.parts[y]  # split meanwhile, as another part of the same axes
            if below[0] is not None or below[1] is not None:
                left.extend(reversed((x,) if below[0] is None else below[0]))
                right.extend(reversed((y,) if below[1] is None else below[1]))
                continue
            if x == y:
                continue
            p, q = self.extents[x], self.extents[y]
            if p == q:
                self._become(x, (y,))
            elif q and p % q == 0:
                rest = self.axis(p // q)
                self._become(x, (y, *rest))
                left.extend(rest)
            elif p and q % p == 0:
                rest = self.axis(q // p)
                self._become(y, (x, *rest))
                right.extend(rest)
            else:
                self.hold([x, y, *left, *right])
                return True
        self.hold([*left, *right])
        return True

    def _become(self, digit: int, parts: Digits) -> None:
        self.parts[digit] = parts
        if digit in self.held:
            self.held.discard(digit)
            self.hold(parts)

    def shrink(self, seed: int = 0) -> None:
        """Keep some positions of each digit: of equal extents the same ones, of different extents different numbers of
        them, of held ones all. The first and the last are among them."""
        roots = {d for k in range(len(self.extents)) for d in self.roots([k])}
        held = {self.extents[d] for d in roots & self.held}
        if max(held, default=0) > MOST_HELD:
            raise Impossible("region", f"an axis of {max(held)} positions must keep them all")
        random = Random(seed)
        table: dict[int, NDArray] = {extent: np.arange(extent) for extent in held}
        taken = set(held)
        for extent in sorted({self.extents[d] for d in roots} - held):
            count = min(2 if extent % 2 == 0 else 3, extent)
            while count in taken and count < extent:
                count += 1
            taken.add(count)
            inner = random.sample(range(1, max(1, extent - 1)), max(0, min(count, extent) - 2))
            table[extent] = np.array(sorted({0, extent - 1, *inner})[:count] if extent else [], np.int64)
        self.kept = {d: table[self.extents[d]] for d in roots}

    def size(self, digits: Iterable[int]) -> int:
        """The shrunk extent of an axis."""
        return prod(len(self.kept[d]) for d in self.roots(digits))

"""What draws say of the values that are compared: nothing, where the original overflows, or where it is as uncertain
as the difference.

A difference in a value that is not finite on both sides, or that the original itself changes as much when its inputs
change in their last digits, is held: draws of smaller numbers must show finite values that are equal in these cells.
Inputs that are chosen to be equal, or to be special, are at places where a right function may jump: there a difference
of finite values is held only if one was on plain inputs before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.checking.equal import differing
from eqsat.ir.dtypes import NDArray, has_floats


@dataclass
class Settled:
    """The compared values of which no draw has shown a finite cell (`silent`), and differences that are held.

    >>> big, nan = np.array([1.0, np.inf]), np.array([1.0, np.nan])
    >>> settled = Settled({0})
    >>> settled.holds(0, "plain", (big, nan), [big], np.array([False, True]), "1 of 2 cells"), settled.problems()
    (True, {0: '1 of 2 cells'})
    >>> settled.hear(0, np.array([2.0, 3.0]), np.array([False, False]))
    >>> settled.open, settled.problems()
    (False, {})
    """

    silent: set[int]
    held: dict[int, tuple[NDArray, str]] = field(default_factory=dict[int, tuple[NDArray, str]])
    uncertain: set[int] = field(default_factory=set[int])

    @property
    def open(self) -> bool:
        """Whether more draws are needed."""
        return bool(self.silent or self.held)

    def problems(self) -> dict[int, str]:
        """The differences that no draw has settled."""
        return {k: text for k, (_, text) in self.held.items()}

    def hear(self, number: int, expected: NDArray, wrong: NDArray) -> None:
        """A draw on which a value is as expected but in the cells that are `wrong`."""
        finite = np.isfinite(expected) if has_floats(expected) else np.ones(expected.shape, bool)
        if bool(finite.any()) or not finite.size:
            self.silent.discard(number)
        if number in self.held:
            cells, text = self.held[number]
            cells = cells & ~(finite & ~wrong)
            if bool(cells.any()):
                self.held[number] = cells, text
            else:
                del self.held[number]

    def holds(
        self, number: int, kind: str, sides: tuple[NDArray, NDArray], nudged: Sequence[NDArray], wrong: NDArray,
        text: str, tolerance: float | None = None,
    ) -> bool:  # fmt: skip
        """Whether all wrong cells are doubtful, which are held then: `sides` are the expected and the found array,
        `nudged` are expected ones for inputs that differ in their last digits, `kind` is that of the draw."""
        expected, found = sides
        if not has_floats(expected) or any(other.shape != expected.shape for other in nudged):
            return False
        if kind != "plain" and number not in self.uncertain:
            return False
        finite = np.isfinite(expected), np.isfinite(found)
        doubtful = ~finite[0] & ~finite[1] & np.asarray(kind == "plain")
        for other in nudged:
            moved = differing(expected, other, False, tolerance=tolerance)
            doubtful |= moved if kind == "plain" else moved & finite[0] & finite[1] & np.isfinite(other)
        if bool((wrong & ~doubtful).any()):
            return False
        self.uncertain.add(number)
        known = self.held.get(number)
        self.held[number] = (wrong, text) if known is None else (wrong | known[0], known[1])
        return True

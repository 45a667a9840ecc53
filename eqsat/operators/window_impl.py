"""Operators of a table that may have some of their dimensions, and operands, in another order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from eqsat.ir.tensors.tensor import Opaque, OperatorImpl

T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """Another order of what an operator reads and makes, in which it is one of its table again.

    operands: for each operand of that one, its number here. dims: for each operand of that one, then output, and each
    of its dimensions, the number of the dimension here; None for one of extent 1 that is not here.

        gemm(a, b).T = gemm(b.T, a.T):      Turn((1, 0), ((1, 0), (1, 0), (1, 0)))
    """

    operands: tuple[int, ...]
    dims: tuple[tuple[int | None, ...], ...]

    def moved(self, rows: Sequence[Sequence[T]], unit: T) -> list[tuple[T, ...]]:
        """What stands at the dimensions of each operand and output there, from what stands at those here.

        >>> Turn((1, 0), ((1, 0), (0, 1, None), (0,))).moved(["mk", "kn", "m"], "1")
        [('n', 'k'), ('m', 'k', '1'), ('m',)]
        """
        places = self.places(len(rows))
        return [
            tuple(unit if n is None else rows[place][n] for n in dims)
            for place, dims in zip(places, self.dims, strict=True)
        ]

    def places(self, count: int) -> tuple[int, ...]:
        """For each of `count` operands and outputs there, its number here."""
        return (*self.operands, *range(len(self.operands), count))

    def here(self, made: Sequence[T]) -> list[T]:
        """What is known of operands and outputs there, by their numbers here."""
        table = dict(zip(self.places(len(made)), made, strict=True))
        return [table[n] for n in range(len(made))]


class WindowImpl(OperatorImpl):
    """The `impl` of operators that may be had in another order: along several dimensions some compute each by itself,
    with parameters of its own, as those of windows in images; others have a parameter that says how an operand lies."""

    @abstractmethod
    def windows(self, node: Opaque) -> tuple[tuple[int, ...], ...]:
        """For each operand, then output, the dimensions along which there are windows; () where there are no two."""

    @abstractmethod
    def turns(self, node: Opaque) -> tuple[Turn, ...]:
        """The other orders that the table may have."""

    @abstractmethod
    def turned(self, node: Opaque, turn: Turn) -> Opaque:
        """The operator of a node in another order, over operands of its own. EqsatError where there is none."""

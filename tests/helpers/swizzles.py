"""Views by formulas that have no digits where sizes are symbolic or large: swizzles, skews, rolls, masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.tensors.views import view
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term

Cell = tuple[Term, Term]
Formula = Callable[[Term, Term, Term, Term], Cell]


def gathered(
    x: Tensor, cell: Callable[[Term, Term], Cell], valid: Callable[[Term, Term], Term] | None = None
) -> Tensor:
    """The view of a matrix, in its own shape, whose cell (i, j) reads the cell that a formula gives; zero elsewhere."""
    i, j = output_axes(x.shape)
    guard = t.TRUE if valid is None else valid(i, j)
    return view(x, x.shape, cell(i, j), guard, None if valid is None else t.const(0, x.dtype))


@dataclass(frozen=True)
class Swizzle:
    """A one-to-one view of matrices, and the one that undoes it: the cells that (i, j) of n x m read."""

    there: Formula
    back: Formula

    def __call__(self, x: Tensor) -> Tensor:
        return self._by(self.there, x)

    def undo(self, x: Tensor) -> Tensor:
        """The view that shows what `self` was called with."""
        return self._by(self.back, x)

    def _by(self, formula: Formula, x: Tensor) -> Tensor:
        n, m = map(t.as_index, x.shape)
        return gathered(x, lambda i, j: formula(n, m, i, j))


def _xor(n: Term, m: Term, i: Term, j: Term) -> Cell:
    return i, j // 8 * 8 + (j % 8 ^ i % 8)


def _turn(n: Term, m: Term, i: Term, j: Term) -> Cell:
    return i, (m - 1 - j + 2 * i) % m


SWIZZLES = {
    "xor": Swizzle(_xor, _xor),
    "skew": Swizzle(lambda n, m, i, j: (i, (i + j) % m), lambda n, m, i, j: (i, (j - i) % m)),
    "roll": Swizzle(lambda n, m, i, j: (i, (j + 3) % m), lambda n, m, i, j: (i, (j - 3) % m)),
    "roll rows": Swizzle(lambda n, m, i, j: ((i + 3) % n, j), lambda n, m, i, j: ((i - 3) % n, j)),
    "turn": Swizzle(_turn, _turn),
}


def lower_triangle(x: Tensor) -> Tensor:
    """x with zeros above its diagonal."""
    return gathered(x, lambda i, j: (i, j), lambda i, j: t.compare("le", j, i))

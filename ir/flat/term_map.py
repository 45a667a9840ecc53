"""Flat maps given by an index formula: what neither digits nor a table of their size describe (swizzles and skews of
large or symbolic boxes, numbers that carry)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.sizes import Size, number
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols


def cell(n_out: Size) -> Term:
    """The output index that the formulas of a map speak of.

    >>> str(cell(6))
    'i0'
    """
    return t.ax(0, as_extent(n_out))


@dataclass(frozen=True, eq=False)
class TermMap:
    """A map whose source index is `address`, where `valid`; both are formulas of the output index, `cell(n_out)`.

    Made by `eqsat.ir.flat.formula.from_formula`, which brings the formulas into their shortest form: two of one map
    that are found different are compared as different. What the address is where the map pads says nothing.
    """

    n_in: Size
    n_out: Size
    address: Term
    valid: Term

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TermMap):
            return NotImplemented
        same = self.address is other.address and self.valid is other.valid
        return same and self.n_in == other.n_in and self.n_out == other.n_out

    def __hash__(self) -> int:
        return hash((self.address.serial, self.valid.serial))

    @property
    def is_numeric(self) -> bool:
        """Whether no symbol occurs."""
        return isinstance(self.n_in, int) and isinstance(self.n_out, int) and not symbols(self.address, self.valid)

    @property
    def is_total(self) -> bool:
        """Whether no cell is padding, as far as the formula says it."""
        return self.valid is t.TRUE

    @property
    def is_identity(self) -> bool:
        """False: the identity has a digit form."""
        return False

    @property
    def is_all_padding(self) -> bool:
        """False: the map that reads nothing has a digit form."""
        return False

    def at(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The source indices (-1: padding) of many output indices."""
        terms = [self.address, self.valid]
        (address, bad), (valid, bad_valid) = evaluate_masked(terms, {cell(self.n_out): index}, load_table)
        if bad_valid is not None and bool(np.any(bad_valid)):
            raise LayoutError(f"map {self}", "is not defined at every cell")
        read = np.broadcast_to(valid, index.shape)
        outside = read & ((address < 0) | (address >= number(self.n_in)))
        if bool(np.any(outside)) or (bad is not None and bool(np.any(read & bad))):
            raise LayoutError(f"map {self}", "reads a cell outside of its source")
        return np.where(read, address, -1).astype(np.int64)

    def to_array(self) -> npt.NDArray[np.int64]:
        """The whole map as an array of n_out source indices, -1 for padding."""
        return self.at(np.arange(number(self.n_out), dtype=np.int64))

    def gather(self, source: NDArray, fill: object = 0) -> NDArray:
        """What the map reads of a flat array, `fill` in padded cells."""
        at = self.to_array()
        result: NDArray = np.full(at.shape, fill, source.dtype)
        result[at >= 0] = source[at[at >= 0]]
        return result

    def __str__(self) -> str:
        guard = "" if self.is_total else f" where {self.valid}"
        return f"({self.n_out} cells, {self.address}{guard}) of {self.n_in}"

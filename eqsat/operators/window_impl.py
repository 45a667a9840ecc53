"""Operators of a table that may have some of their dimensions in another order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from eqsat.ir.tensors.tensor import Opaque, OperatorImpl


class WindowImpl(OperatorImpl):
    """The `impl` of operators of which some compute along several dimensions, each by itself, with parameters of its
    own, as those of windows in images."""

    @abstractmethod
    def windows(self, node: Opaque) -> tuple[tuple[int, ...], ...]:
        """For each operand, then output, the dimensions that may change places if those of the others do, one by one,
        with what the attributes say of each; () where there are none."""

    @abstractmethod
    def turned(self, node: Opaque, order: Sequence[int]) -> Opaque:
        """The operator of a node, over operands of its own, with these dimensions in another order: for each place the
        number of the one that stands there. EqsatError where there is none."""

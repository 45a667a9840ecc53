"""What kernels of one move share: its loops as axes, and its border."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.backends.c.expr import Scope
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.moves import Move
from eqsat.backends.opencl.code import KernelPrinter
from eqsat.backends.opencl.move_nests import inside, value
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.wide import indented
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


class MovePrinter(KernelPrinter):
    """One move as a kernel of its own kind."""

    def __init__(self, func: PrimFunc, move: Move, simplifier: IndexSimplifier, profile: Profile) -> None:
        super().__init__(func, simplifier, profile, {})
        self.move = move
        self.element = self.type_of(move.out.dtype)
        self.axes = [t.ax(k, n) for k, n in enumerate(move.extents)]
        self.expressions.axes.update({axis: f"i{k}" for k, axis in enumerate(self.axes)})

    def moved(self, assigned: Callable[[Term], list[str]], inner: list[str] | None = None) -> list[str]:
        """What sets a cell to the move's value in its box, or does so by the inner lines, and to its border elsewhere;
        `assigned` gives the lines that set it to a term."""
        move = self.move
        lines = assigned(value(move, self.axes)) if inner is None else inner
        if move.fill is None or not move.boxed:
            return lines
        (condition,) = self.expressions.print_terms([inside(move, self.axes)], scope := Scope())
        border = assigned(move.fill)
        return [*scope.lines, f"if ({condition}) {{", *indented(lines), "} else {", *indented(border), "}"]

"""The steps of a schedule that look at a whole function: branches traded, statements removed, buffers declared anew."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.ir.errors import EqsatError, ScheduleError
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.statements.decl import with_lanes
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, statements
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name, symbol_names
from eqsat.passes.hoist import HoistKind
from eqsat.scheduling.trace import axis_names


@keyword_methods
class WholeFunction:
    """What `Schedule` takes from `eqsat.passes` and the passes of statements, as steps that its trace records."""

    @property
    def func(self) -> PrimFunc:
        """The function as it is now."""
        raise NotImplementedError

    def _apply(self, name: str, /, **args: Any) -> tuple[str, ...]:
        raise NotImplementedError

    def simplify_statements(self) -> None:
        """Simplify indices, values and conditions where they stand; merge branches, and decide those that are known.

        >>> from eqsat.scheduling.schedule import example
        >>> s = example()
        >>> _ = s.split("i", [2, 7])
        >>> s.simplify_statements()
        """
        self._apply("simplify_statements")

    def hoist_expression(self, kinds: Sequence[HoistKind] | None = None) -> None:
        """Decide conditions before the loops that do not change them; `kinds`: of "if", "where", "boolean".

        ScheduleError where there is none.
        """
        self._apply("hoist_expression", kinds=kinds)

    def reduce_loop_extents(self) -> None:
        """Let loops skip the first and last iterations that do nothing; ScheduleError where there are none.

        >>> import eqsat as eq
        >>> s = eq.Schedule(eq.PrimFunc.parse('''func f(A: int8[4])
        ...   for i in 4:
        ...     if i < 2:
        ...       A[i] = int8(0)'''))
        >>> s.reduce_loop_extents()
        >>> print(s.func)
        func f(A: int8[4])
          for i in 2:
            A[i] = int8(0)
        """
        self._apply("reduce_loop_extents")

    def merge_adjacent_loops(self, first: str | None = None) -> None:
        """Merge a loop with the one after it, or all that can be; refused where an iteration of the second meets a
        later one of the first.

        >>> from eqsat.scheduling.schedule import example
        >>> s = example(stores=2)
        >>> i, _ = s.fission("i", 1)
        >>> s.merge_adjacent_loops(i)
        >>> s.loops
        ['i']
        """
        self._apply("merge_adjacent_loops", first=first)

    def remove_no_op(self) -> None:
        """Remove statements that make no difference: stores of what a cell holds, stores that are written over.

        >>> from eqsat.scheduling.schedule import example
        >>> s = example(stores=2)
        >>> s.remove_no_op()
        >>> print(s.func)
        func example(x: int32[14], y: int32[14])
          for i in 14:
            y[i] = x[i]
        """
        self._apply("remove_no_op")

    def remove_branching_through_overcompute(self, condition: Term | str | None = None) -> None:
        """Run what stands under a branch always, where what this adds provably makes no difference.

        condition: that of the branch, as a term or as text over the loops and buffers; without one, every branch that
        can go. ScheduleError, with the cell that would be read or changed, where none can.

        >>> import eqsat as eq
        >>> s = eq.Schedule(eq.PrimFunc.parse('''func f(A: int32[4, 4], B: int32[1])
        ...   for io in 4:
        ...     for ii in 4:
        ...       assume 4*io + ii < 14 or A[io, ii] == int32(0)
        ...   B[0] = int32(0)
        ...   for jo in 4:
        ...     for ji in 4:
        ...       if 4*jo + ji < 14:
        ...         B[0] = B[0] + A[jo, ji]'''))
        >>> s.remove_branching_through_overcompute("4*jo + ji < 14")
        >>> print(s.trace)
        remove_branching_through_overcompute(condition='4*jo + ji < 14')
          without if 4*jo + ji < 14
        """
        self._apply("remove_branching_through_overcompute", condition=self._condition(condition))

    def remove_overcompute_through_branching(self, condition: Term | str | None = None) -> None:
        """Run statements only where they make a difference, which is the inverse: under a condition, or without one
        under those that follow from what is known of padding, and from masks such as `where(j < 14, A[j], 0)`."""
        self._apply("remove_overcompute_through_branching", condition=self._condition(condition))

    def choose_padding(self) -> None:
        """Fill the holes that the function makes itself, remove branches or shrink loops: whichever is cheapest.

        Each hole is filled once, and the trace says with what. Padding of parameters is never filled.

        >>> import eqsat as eq
        >>> s = eq.Schedule(eq.PrimFunc.parse('''func f(A: int32[14], B: int32[1])
        ...   B[0] = int32(0)
        ...   for i in 14:
        ...     B[0] = B[0] + A[i]'''))
        >>> _ = s.transform_layout(s.cache_read("A"), "i -> i//4, i%4", eq.UNDEF)
        >>> s.reorder_by_buffer("A_cache", "B@1")
        ('i_0', 'i_1')
        >>> s.choose_padding()
        >>> print(s.trace.steps[-1])
        choose_padding()
          A_cache holds int32(0) where 14 <= 4*A_cache_0 + A_cache_1
          without if 4*i_0 + i_1 < 14
          cost 309 -> 189
        """
        self._apply("choose_padding")

    def optimize_statements(self) -> None:
        """Take the cheapest function that the laws of statements make equal to this one (`rules/statement_laws.py`).

        Conditions are split, joined, decided and moved out of loops, branches removed by computing more, loops merged,
        split and made smaller, stores left out: in an e-graph, so that no order of steps is missed. What holes are
        filled with is for `choose_padding` to say, before.

        >>> import eqsat as eq
        >>> s = eq.Schedule(eq.PrimFunc.parse('''func f(A: int32[8], B: int32[8])
        ...   for i in 8:
        ...     A[i] = B[i]
        ...     for j in 4:
        ...       if i < 4 and j < 2:
        ...         B[i] = B[i] + A[j]
        ...   for k in 8:
        ...     A[k] = int32(3)'''))
        >>> s.optimize_statements()
        >>> print(s.trace)
        optimize_statements()
          cost 184 -> 72
        >>> print(s.func)
        func f(A: int32[8], B: int32[8])
          for i in 8:
            A[i] = B[i]
            if i < 4:
              for j in 2:
                B[i] = B[i] + A[j]
          for k in 8:
            A[k] = int32(3)
        """
        self._apply("optimize_statements")

    def flatten_buffers(self) -> tuple[str, ...]:
        """Access buffers by one index for each physical axis; returns the aliases that show parameters so.

        >>> import eqsat as eq
        >>> s = eq.Schedule(eq.PrimFunc.parse("func f(A: int32[4, 4])\\n  A[1, 2] = int32(0)"))
        >>> s.flatten_buffers()
        ('A_flat',)
        """
        return self._apply("flatten_buffers")

    def vectorize_buffers(self) -> tuple[str, ...]:
        """Declare buffers whose accesses are whole aligned vectors as vectors; returns the names of new buffers."""
        return self._apply("vectorize_buffers")

    def compact_buffer(self, buffer: str) -> None:
        """Shrink a local buffer, and its aliases, to the box of cells that are accessed."""
        self._apply("compact_buffer", buffer=buffer)

    def remove_assume(self) -> None:
        """Remove every assumption: nothing is proved with them any more."""
        self._apply("remove_assume")

    def remove_store_undef(self) -> None:
        """Remove stores of undef; refused where one hole is stored at several places, which hold the same value."""
        self._apply("remove_store_undef")

    def _condition(self, given: Term | str | None) -> Term | None:
        """A condition that a user gives: a term, or text over the function's loops, sizes and buffers."""
        if not isinstance(given, str):
            return given
        shown = axis_names(self.func)
        for word in re.findall(r"\w+", given):
            alike = {name: axis for axis, name in shown.items() if leaf_name(axis) == word != name}
            if alike:
                several = ", ".join(f"{name} over {axis.args[0]}" for name, axis in alike.items())
                problem = f"{word} is the name of {len(alike)} loops"
                raise ScheduleError(f"term {given!r}", problem, f"write {several}, or use rename_loop")
        return self._term(given, {name: axis for axis, name in shown.items()})

    def _term(self, text: str, names: Mapping[str, Term]) -> Term:
        """The term of a text over these names, the function's sizes and its buffers."""
        local = [s.buffer for s in statements(self.func.body) if isinstance(s, (Alloc, Alias))]
        decls = [*self.func.buffer_map.values(), *local]
        known = {**{name: s for s, name in symbol_names(self.func.symbols).items()}, **names}
        try:
            found = parse_expr(text, known, {d.name: (d.name, d.scalar) for d in decls})
            return with_lanes(found, {d.name: d for d in decls})
        except EqsatError as error:
            raise ScheduleError(f"term {text!r}", str(error)) from error

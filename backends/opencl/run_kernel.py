"""Prints moves for a GPU whose result is written from its first cell to its last: work-items write whole vectors.

before:  if (0 < i && i < 57 && 0 < j && j < 57) d[item] = s[56*i + j - 57]; else d[item] = 0;
after:   for k < 4: { lanes[k] = the same for (i, j); then (i, j) is the next cell }
         ((float4 *)d)[item] = lanes

That is for borders and for elements of less than a word: else the store of a work-item is a word or more already.
"""

from __future__ import annotations

from math import prod

from eqsat.backends.c.expr import Scope
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.moves import Move
from eqsat.backends.opencl.code import Launch, digits
from eqsat.backends.opencl.grid import BUSY, WIDE_GROUP
from eqsat.backends.opencl.move_nests import address
from eqsat.backends.opencl.move_printer import MovePrinter
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.wide import WORD, aligned, at, indented, vector
from eqsat.ir.dtypes import itemsize
from eqsat.ir.statements.primfunc import PrimFunc

LANES = {1: 8, 2: 4, 4: 4, 8: 2}
"""Elements that a work-item writes, by their bytes."""


def run_lanes(move: Move, profile: Profile) -> int:
    """How many elements each work-item writes; 0 where a move is not written in one go, or that would not pay."""
    size = itemsize(move.out.dtype)
    lanes = LANES.get(size, 0)
    if not (profile.whole_vectors and lanes and (move.boxed or size < WORD or _reads_vectors(move, lanes))):
        return 0
    dense = all(s == prod(move.extents[k + 1 :]) for k, s in enumerate(move.out.strides))
    much = profile.group >= WIDE_GROUP and move.points >= profile.units * BUSY
    return lanes if dense and much and move.out.offset % lanes == move.points % lanes == 0 else 0


def _in_rows(move: Move, lanes: int) -> bool:
    """Whether so many neighbours of the result are in one row, and all of them in the box or none."""
    last = len(move.extents) - 1
    return last >= 0 and move.extents[last] % lanes == 0 and last not in move.boxed


def _reads_vectors(move: Move, lanes: int) -> bool:
    """Whether a copy has its elements in vectors as its result has."""
    last = len(move.extents) - 1
    return move.is_copy and _in_rows(move, lanes) and aligned(move.operands[0], last, move.extents[last], lanes)


class RunPrinter(MovePrinter):
    """One move as a kernel whose work-items write several neighbouring elements each."""

    def __init__(self, func: PrimFunc, move: Move, lanes: int, simplifier: IndexSimplifier, profile: Profile) -> None:
        super().__init__(func, move, simplifier, profile)
        self.lanes = lanes

    @property
    def launch(self) -> Launch:
        """How the kernel is started."""
        items = self.move.points // self.lanes
        return Launch(self.func.name, self.func.params, -(-items // WIDE_GROUP) * WIDE_GROUP, WIDE_GROUP)

    def lines(self) -> list[str]:
        """The kernel."""
        index, move, lanes = self.index, self.move, self.lanes
        items = move.points // lanes
        offset = f"{move.out.offset} + " if move.out.offset else ""
        target = at("__global", self.element, lanes, f"{self.names[move.out.buffer]} + {offset}{lanes} * item")
        body = [f"{index} i{k} = {place};" for k, place in enumerate(digits(f"({lanes} * item)", move.extents))]
        copied = self.copied(target)
        if copied is None:
            each = [*self.moved(lambda term: self.assigned("lanes[k]", term)), *self.next_cell()]
            body += [f"{self.element} lanes[{lanes}];", "#pragma unroll", f"for (int k = 0; k < {lanes}; ++k) {{"]
            body += [*indented(each), "}"]
            values = ", ".join(f"lanes[{k}]" for k in range(lanes))
            body.append(f"{target} = ({vector(self.element, lanes)})({values});")
        else:
            body += copied
        if items % WIDE_GROUP:
            body = [f"if (item < {items}) {{", *indented(body), "}"]
        return self.kernel(indented([f"const {index} item = ({index})get_global_id(0);", *body]))

    def copied(self, target: str) -> list[str] | None:
        """What sets a vector to one that is read; None where elements are not read in whole vectors."""
        if not _reads_vectors(self.move, self.lanes):
            return None
        (source,) = self.move.operands
        scope = Scope()
        (cell,) = self.expressions.print_terms([address(source, self.axes)], scope)
        read = at("__global const", self.element, self.lanes, f"{self.names[source.buffer]} + {cell}")
        return self.moved(lambda term: self.assigned(target, term), [*scope.lines, f"{target} = {read};"])

    def next_cell(self) -> list[str]:
        """What goes from a position to the next one."""
        last, carry = len(self.move.extents) - 1, ""
        for k in range(1, 1 if _in_rows(self.move, self.lanes) else last + 1):
            carry = f"if (i{k} == {self.move.extents[k]}) {{ i{k} = 0; ++i{k - 1};{carry and ' ' + carry} }}"
        return [f"++i{last};", *([carry] if carry else [])]

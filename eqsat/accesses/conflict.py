"""Whether two accesses meet: is there an iteration of each, related as asked, in which they touch the same memory?

Every legality of schedules is such a question: a loop is parallel where no two different iterations of it conflict, two
loops may change places where no conflict runs forwards in one and backwards in the other. The prover answers it: by
trial where the iterations are few, else by isl and Z3. What it cannot exclude counts as a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.accesses.access import Access, depends_on_data
from eqsat.ir.decide import decider
from eqsat.ir.statements.stmt import BufferDecl
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import same_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import substitute, symbols

Places = Sequence[tuple[int, int]]
"""Pairs of loops: a position among the first access's loops, and one among the second's."""


@dataclass(frozen=True, eq=False)
class Conflict:
    """Two iterations that touch the same memory: the value of each loop by name, and the cell of the first access.

    `exact`: they do; otherwise they may (a condition or an index depends on data, or no prover could tell).
    """

    first: Access
    second: Access
    first_iteration: Mapping[str, int] | None
    second_iteration: Mapping[str, int] | None
    cell: tuple[int | None, ...] | None
    exact: bool

    @property
    def kind(self) -> str:
        """The kind of dependence from the first access to the second."""
        if self.first.write:
            return "output" if self.second.write else "flow"
        return "anti"

    @property
    def witness(self) -> dict[str, Any]:
        """As data, for an error."""
        return {
            "buffer": self.first.buffer, "dependence": self.kind, "first": self.first_iteration,
            "second": self.second_iteration, "cell": self.cell, "exact": self.exact,
        }  # fmt: skip

    def __str__(self) -> str:
        if self.first_iteration is None:
            return f"the {self.first} and the {self.second} may meet"
        meet = "meet" if self.exact else "may meet"
        at, then = _point(self.first_iteration), _point(self.second_iteration or {})
        cell = "" if self.cell is None else f" in {self.first.buffer}[{', '.join(_shown(c) for c in self.cell)}]"
        return f"the {self.first} at {at} and the {self.second} at {then} {meet}{cell}"


def _shown(cell: int | None) -> str:
    return "?" if cell is None else str(cell)


def _point(at: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in at.items()) or "the one iteration"


def common_loops(a: Access, b: Access) -> int:
    """How many loops are around both.

    >>> from eqsat.accesses.access import Context, Memory, accesses
    >>> from eqsat.ir.statements.stmt import BufferDecl, For, Store, seq
    >>> i, j = t.ax(0, 4), t.ax(1, 4)
    >>> one = t.const(1, "int8")
    >>> both = For(i, seq([Store("x", (i,), one), For(j, Store("x", (j,), one))]))
    >>> first, second = accesses(both, Context({"x": Memory(BufferDecl("x", (4,), "int8"), "x")}))
    >>> common_loops(first, second), common_loops(second, second)
    (1, 2)
    """
    number = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x.stmt is not y.stmt or x.path != y.path:
            break
        number += 1
    return number


def conflict(
    a: Access,
    b: Access,
    same: Places = (),
    less: Places = (),
    greater: Places = (),
    related: Sequence[tuple[str, Term, Term]] = (),
) -> Conflict | None:
    """Iterations of two accesses that touch the same memory, one of them writing; None where there are none.

    same: the loops that have the same value in both; less (greater): those whose value is less (greater) in the first.
    related: comparisons ("lt", "eq", "gt") of a term over the first access's axes with one over the second's. Loops
    around the allocation of a buffer always have the same value in both.

    >>> from eqsat.accesses.access import Context, Memory, accesses
    >>> from eqsat.ir.statements.stmt import BufferDecl, For, Store
    >>> i = t.ax(0, 4)
    >>> shift = For(i, Store("x", (i + 1,), t.load("x", [i], "int8")))
    >>> read, write = accesses(shift, Context({"x": Memory(BufferDecl("x", (5,), "int8"), "x")}))
    >>> print(conflict(write, read, less=[(0, 0)]))
    the write of x[i0 + 1] at i0 = 0 and the read of x[i0] at i0 = 1 meet in x[1]
    >>> conflict(read, write, less=[(0, 0)]) is None
    True
    """
    if a.memory.root != b.memory.root or not (a.write or b.write):
        return None
    same = sorted({*same, *((k, k) for k in range(min(a.memory.private, common_loops(a, b))))})
    if any(place in less or place in greater for place in same):
        return None
    return _Query(a, b, same, (less, greater), related).answer()


class _Query:
    """The two accesses over variables of their own, those of `same` loops shared."""

    def __init__(
        self,
        a: Access,
        b: Access,
        same: Places,
        differ: tuple[Places, Places],
        related: Sequence[tuple[str, Term, Term]],
    ) -> None:
        self.a, self.b = a, b
        known = (*a.guards, *b.guards, *a.axes, *b.axes, *(i for i in (*a.index, *b.index) if i is not None))
        self.names = {leaf_name(s) for s in symbols(*known)}  # a variable must not have the name of a symbol
        self.first: dict[Term, Term] = {}
        self.second: dict[Term, Term] = {}
        for axis in a.axes:
            self._name(axis, self.first, "")
        shared = {q: p for p, q in same}
        facts: list[Term] = []
        for position, axis in enumerate(b.axes):
            if position in shared:
                self.second[axis] = self.first[a.axes[shared[position]]]
                facts.extend(self._within(axis, a.axes[shared[position]]))
            else:
                self._name(axis, self.second, "_2")
        for p, q in differ[0]:
            facts.append(t.compare("lt", self.first[a.axes[p]], self.second[b.axes[q]]))
        for p, q in differ[1]:
            facts.append(t.compare("lt", self.second[b.axes[q]], self.first[a.axes[p]]))
        for op, x, y in related:
            left, right = substitute(x, self.first), substitute(y, self.second)
            facts.append(t.compare("lt", right, left) if op == "gt" else t.compare(op, left, right))
        facts.extend(substitute(g, self.first) for g in a.guards)
        facts.extend(substitute(g, self.second) for g in b.guards)
        self.claim = t.logical_and(*facts, self._meeting())

    def _name(self, axis: Term, table: dict[Term, Term], mark: str) -> None:
        name = leaf_name(axis) + mark
        while name in self.names:
            name += "_"
        self.names.add(name)
        table[axis] = t.var(name, substitute(axis.args[0], table))

    def _within(self, axis: Term, partner: Term) -> list[Term]:
        """A shared variable has the extent of the first loop; that of the second, where it is another, is a fact."""
        extent = substitute(axis.args[0], self.second)
        known = substitute(partner.args[0], self.first)
        return [] if extent is known else [t.compare("lt", self.second[axis], extent)]

    def _meeting(self) -> Term:
        """The two elements overlap."""
        a, b = self.a.memory, self.b.memory
        left = [None if i is None else substitute(i, self.first) for i in self.a.index]
        right = [None if i is None else substitute(i, self.second) for i in self.b.index]
        if a.start == b.start and _alike(a.decl, b.decl):
            pairs = zip(left, right, strict=True)
            return t.logical_and(*(t.compare("eq", x, y) for x, y in pairs if x is not None and y is not None))
        here, there = [i for i in left if i is not None], [i for i in right if i is not None]
        if len(here) < len(left) or len(there) < len(right):
            return t.TRUE
        x, y = a.address(here), b.address(there)
        return t.logical_and(t.compare("lt", x, y + b.decl.element_bytes), t.compare("lt", y, x + a.decl.element_bytes))

    def answer(self) -> Conflict | None:
        exact = self.a.exact and self.b.exact
        variables = list(dict.fromkeys([*self.first.values(), *self.second.values()]))
        if any(t.int_value(v.args[0]) == 0 for v in variables) or self.claim is t.FALSE:
            return None
        # The domain is stated, too: a variable that the claim does not mention may still have no value.
        domain = [t.compare("lt", v, v.args[0]) for v in variables if t.int_value(v.args[0]) is None]
        proof = decider().prove(t.logical_not(t.logical_and(*domain, self.claim)), {})
        if proof:
            return None
        if proof.verdict == "unknown" or proof.witness is None:
            return Conflict(self.a, self.b, None, None, None, False)
        values = {v: int(proof.witness.get(leaf_name(v), 0)) for v in variables}
        numbers = {v: t.index_const(n) for v, n in values.items()}
        numbers |= {s: t.index_const(int(n)) for s, n in _symbols(proof.witness, self.claim)}
        first = {leaf_name(axis): values[v] for axis, v in self.first.items()}
        second = {leaf_name(axis): values[v] for axis, v in self.second.items()}
        cell = tuple(None if i is None else _number(i, self.first, numbers) for i in self.a.index)
        return Conflict(self.a, self.b, first, second, cell, exact)


def _alike(a: BufferDecl, b: BufferDecl) -> bool:
    """Whether the same index means the same element in both, and another one another element."""
    if a.strides is not None or b.strides is not None or a.dtype != b.dtype:
        return False
    return a.axis_separators == b.axis_separators and same_shape(a.shape, b.shape) and a.is_dense and b.is_dense


def _symbols(witness: Mapping[str, Any], claim: Term) -> Iterable[tuple[Term, Any]]:
    return [(s, witness[leaf_name(s)]) for s in symbols(claim) if leaf_name(s) in witness]


def _number(index: Term, names: Mapping[Term, Term], values: Mapping[Term, Term]) -> int | None:
    found = t.int_value(substitute(substitute(index, names), values))
    return None if found is None and depends_on_data(index) else found

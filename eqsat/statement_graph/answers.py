"""Answers to what laws of statements ask: each by the passes, of statements that stand for their classes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from eqsat.ir.statements.stmt import Alloc, Assume, For, If, Seq, Stmt, Store, children, has, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, occurs, substitute
from eqsat.passes.cells import accesses, apart, fresh_axes, guarded_parts, has_loads, loads
from eqsat.passes.context import Context
from eqsat.passes.effects import check_reads_at, check_values, places, same_value
from eqsat.passes.extents import smaller
from eqsat.passes.hoist import untouched
from eqsat.passes.liveness import live_after
from eqsat.passes.mentioned import mentioned, names_in
from eqsat.passes.merge_loops import meeting
from eqsat.passes.paths import is_empty
from eqsat.passes.simplify import alignment
from eqsat.proving.question import definedness
from eqsat.statement_graph.atoms import Pairs
from eqsat.statement_graph.heads import Heads
from eqsat.statement_graph.places import Place
from eqsat.statement_graph.snapshot import Snapshot

MOST_BRANCHES = 2
"""What has more branches is not tried without the one around it: each is tried both ways there."""
MOST_HOISTED = 4
"""Of a body with more branches none is hoisted with the rest written twice: each that is doubles what is left."""
Answer = tuple[Any, ...]
"""Numbers, and statements where a class is answered."""
NO: tuple[Answer, ...] = ()
YES: tuple[Answer, ...] = ((),)


@dataclass
class Answers:
    """What is known of one function: `base` of its buffers, `vague` which of them may have cells without a value."""

    heads: Heads
    base: Context
    vague: frozenset[str]
    reordered: dict[str, None] = field(default_factory=dict[str, None])
    """Sums that some answers took to be the same in any order, as text."""

    def __post_init__(self) -> None:
        self._one_loop = Pairs(self._meet_in_order)
        self._merged: dict[tuple[int, ...], tuple[Stmt, Stmt]] = {}  # which live as long as their ids
        self._commute = Pairs(self._never_meet)
        self._deciders: dict[str, Callable[..., tuple[Answer, ...]]] = {
            "Part": self._part,
            "Negated": self._negated,
            "Total": self._total,
            "Choice": self._choice,
            "Fixed": self._fixed,
            "Alike": self._alike,
            "Opposite": self._opposite,
            "Together": self._together,
            "Merging": self._merging,
            "Bound": self._bound,
            "Woven": self._woven,
            "Other": self._other,
            "Apart": self._apart,
            "Covered": self._covered,
            "Idle": self._idle,
            "Between": self._between,
            "Inside": self._inside,
            "Under": self._under,
            "Around": self._around,
            "Simpler": self._simpler,
            "Needless": self._needless,
            "Decided": self._decided,
            "Shorter": self._shorter,
            "Safe": self._safe,
            "Reads": self._reads,
            "Smaller": self._smaller,
        }

    def answer(self, question: str, given: tuple[Any, ...], snapshot: Snapshot) -> tuple[Answer, ...]:
        """All answers to a question about numbers and classes; none where it does not hold, or is not decided."""
        decide = self._deciders[question]
        if question in ("Smaller", "Other"):
            return decide(*given, snapshot)
        return decide(*(g if isinstance(g, int) else snapshot.statement(g) for g in given))

    # -- conditions ----------------------------------------------------------------------------------------------------

    def _part(self, condition: int) -> tuple[Answer, ...]:
        """A part of a conjunction that may be asked first, and the rest."""
        test, number = self.heads.conditions[condition], self.heads.conditions.number
        if test.op != "and":
            return NO
        found: list[Answer] = []
        for k, part in enumerate(test.args):
            if k == 0 or _total(part):
                found.append((number(part), number(t.logical_and(*test.args[:k], *test.args[k + 1 :]))))
        return tuple(found)

    def _negated(self, condition: int) -> tuple[Answer, ...]:
        """The opposite condition."""
        return ((self.heads.conditions.number(t.logical_not(self.heads.conditions[condition])),),)

    def _total(self, condition: int) -> tuple[Answer, ...]:
        """It has a value everywhere."""
        return YES if _total(self.heads.conditions[condition]) else NO

    def _choice(self, leaf: int) -> tuple[Answer, ...]:
        """A store of `where`: the condition and the two stores."""
        store = self.heads.leaves[leaf]
        if isinstance(store, Assume) or store.value.op == "hole":
            return NO
        for node in nodes_of("where", store.value):
            test = node.args[0]
            if test.op != "const" and _total(test):
                arms = [replace(store, value=substitute(store.value, {test: x})) for x in (t.TRUE, t.FALSE)]
                return ((self.heads.conditions.number(test), *map(self.heads.leaves.number, arms)),)
        return NO

    def _alike(self, first: int, second: int, then: Stmt, orelse: Stmt) -> tuple[Answer, ...]:
        return self._aligned(first, second, then, orelse, True)

    def _opposite(self, first: int, second: int, then: Stmt, orelse: Stmt) -> tuple[Answer, ...]:
        return self._aligned(first, second, then, orelse, False)

    def _aligned(self, first: int, second: int, then: Stmt, orelse: Stmt, wanted: bool) -> tuple[Answer, ...]:
        conditions = self.heads.conditions
        found = alignment(If(conditions[first], then, orelse), conditions[second], self.base)
        return YES if found is wanted else NO

    # -- loops and sequences -------------------------------------------------------------------------------------------

    def _fixed(self, head: int, condition: int, body: Stmt) -> tuple[Answer, ...]:
        """A condition at the beginning of a loop's body, or behind what does not write its cells, may be asked before
        the loop."""
        loop, test = self.heads.loops[head], self.heads.conditions[condition]
        if occurs([loop.axis], test) or nodes_of("hole", test) or test.op == "const":
            return NO
        if not _total(test) and not (t.int_value(loop.axis.args[0]) or 0) > 0:
            return NO
        whole = replace(loop, body=body)
        writes = (a for a in accesses(whole) if a.changes)
        return YES if all(untouched(test, w, self.base, whole) for w in writes) else NO

    def _together(self, head: int, first: Stmt, second: Stmt) -> tuple[Answer, ...]:
        return YES if self._one_loop.hold(head, first, second) else NO

    def _merging(self, head: int, first: Stmt, second: Stmt) -> tuple[Answer, ...]:
        """Two loops are one, and the first has not been made of two: the last of these is merged first."""
        if (head, *map(id, _parts(first))) in self._merged or not self._one_loop.hold(head, first, second):
            return NO
        self._merged[(head, *map(id, (*_parts(first), *_parts(second))))] = (first, second)
        return YES

    def _bound(self, head: int, first: Stmt, second: Stmt) -> tuple[Answer, ...]:
        """Two statements of a loop's body that cannot be loops of their own, and may be written twice."""
        if _branches(first) + _branches(second) > MOST_HOISTED or self._one_loop.hold(head, first, second):
            return NO
        return YES

    def _woven(self, head: int, first: Stmt, second: Stmt, third: Stmt) -> tuple[Answer, ...]:
        """Three of them, of which neither the first nor the last can be a loop of its own."""
        if sum(map(_branches, (first, second, third))) > MOST_HOISTED:
            return NO
        ends = ((first, Seq((second, third))), (Seq((first, second)), third))
        return NO if any(self._one_loop.hold(head, *both) for both in ends) else YES

    def _other(self, head: int, stmt: Any, snapshot: Snapshot) -> tuple[Answer, ...]:
        """It is no loop of this head, in whatever way it is written."""
        return NO if snapshot.has_loop(stmt, head) else YES

    def _apart(self, first: Stmt, second: Stmt) -> tuple[Answer, ...]:
        """Two statements may change places."""
        return YES if self._commute.hold(None, first, second) else NO

    def _covered(self, first: Stmt, second: Stmt) -> tuple[Answer, ...]:
        """The second writes all cells that the first writes, and reads none of them before."""
        writes = [a for a in accesses(first) if a.changes]
        if not writes or has(first, Assume) or any(a.buffer not in mentioned(second).writes for a in writes):
            return NO
        both = Seq((first, second))
        dead = all(live_after(both, (0,), a, self.base.roots) is None for a in writes)
        return YES if dead else NO

    def _idle(self, local: int, body: Stmt) -> tuple[Answer, ...]:
        return NO if self.heads.locals[local].buffer.name in names_in(body) else YES

    def _meet_in_order(self, head: Hashable, first: Stmt, second: Stmt) -> bool:
        """Whether two loops of one head are the loop over both bodies."""
        assert isinstance(head, int)
        loop = self.heads.loops[head]
        return meeting(replace(loop, body=first), replace(loop, body=second), self.base.roots) is None

    def _never_meet(self, about: Hashable, first: Stmt, second: Stmt) -> bool:
        """Whether neither statement writes what the other accesses."""
        del about
        for one in accesses(first):
            for two in accesses(second):
                if not (one.changes or two.changes) or self.base.root(one.buffer) != self.base.root(two.buffer):
                    continue
                if one.buffer != two.buffer or not apart(fresh_axes(one), fresh_axes(two)):
                    return False
        return True

    # -- places --------------------------------------------------------------------------------------------------------

    def _between(self, place: int, first: Stmt, second: Stmt) -> tuple[Answer, ...]:
        if is_empty(first) or is_empty(second):
            return NO
        return (tuple(map(self._place, self.heads.places[place].between(first, second))),)

    def _inside(self, place: int, head: int, body: Stmt) -> tuple[Answer, ...]:
        return (
            NO
            if is_empty(body)
            else ((self._place(self.heads.places[place].inside(replace(self.heads.loops[head], body=body))),),)
        )

    def _under(self, place: int, condition: int) -> tuple[Answer, ...]:
        here, test = self.heads.places[place], self.heads.conditions[condition]
        return ((self._place(here.under(test)), self._place(here.under(t.logical_not(test)))),)

    def _around(self, place: int, local: int, body: Stmt) -> tuple[Answer, ...]:
        del body
        here, head = self.heads.places[place], self.heads.locals[local]
        return ((place if not isinstance(head, Alloc) else self._place(here.around(head.buffer)),),)

    def _place(self, place: Place) -> int:
        return self.heads.places.number(place)

    def _simpler(self, place: int, leaf: int) -> tuple[Answer, ...]:
        store, known = self.heads.leaves[leaf], self.heads.places[place].known
        if isinstance(store, Assume):
            return NO
        new = replace(store, index=tuple(map(known.simplify, store.index)), value=known.simplify(store.value))
        return NO if new == store else ((self.heads.leaves.number(new),),)

    def _needless(self, place: int, leaf: int) -> tuple[Answer, ...]:
        """A store of what the cell holds, or to a buffer that nobody reads afterwards."""
        store, here = self.heads.leaves[leaf], self.heads.places[place]
        if isinstance(store, Assume):
            return NO
        if store.buffer in here.dead:
            return YES
        own = t.load(store.buffer, store.index, store.value.dtype)
        if store.value.op != "hole" and here.known.simplify(store.value) is own:
            return YES
        found = same_value(store, own, here.known, any(loop.reduce for loop in here.loops))
        if found is None:
            return NO
        self.reordered.update(dict.fromkeys(found.reordered))
        return YES

    def _decided(self, place: int, condition: int) -> tuple[Answer, ...]:
        decision = self.heads.places[place].known.decide(self.heads.conditions[condition])
        return {"always": ((1,),), "never": ((0,),)}.get(decision, NO)

    def _shorter(self, place: int, condition: int) -> tuple[Answer, ...]:
        test = self.heads.conditions[condition]
        new = self.heads.places[place].known.simplify(test)
        return NO if new is test or new.op == "const" else ((self.heads.conditions.number(new),),)

    def _safe(self, place: int, stmt: Stmt) -> tuple[Answer, ...]:
        """A statement may run there: it stays inside of its buffers, reads what may be read, writes nothing that
        another iteration of a loop without an order may meet, and what it leaves has a value."""
        if _branches(stmt) > MOST_BRANCHES:
            return NO
        here = self.heads.places[place]
        ordered = all(loop.kind in ("serial", "unrolled") for loop in here.loops)
        if not ordered and any(a.changes for a in accesses(stmt)):
            return NO
        if check_reads_at(stmt, here.known, self.vague) is not None:
            return NO
        for inner in places(stmt, here.known):
            store = inner.stmt
            if isinstance(store, Store) and store.buffer not in here.dead:
                own = t.load(store.buffer, store.index, store.value.dtype)
                if check_values(store.value, inner.context, self.vague, {own}) is not None:
                    return NO
        return YES

    def _reads(self, place: int, stmt: Stmt, other: Stmt) -> tuple[Answer, ...]:
        """A statement may run there for another one that runs there: what it reads in addition may be read, and has a
        value."""
        if stmt == other:
            return YES
        if _branches(stmt) > MOST_BRANCHES:
            return NO
        known = self.heads.places[place].known
        kept = {load for s in _always(other) for term in stmt_terms(s) for load in _unguarded(term)}
        if {load for s in statements(stmt) for load in loads(*stmt_terms(s))} <= kept:
            return YES
        if check_reads_at(stmt, known, self.vague) is not None:
            return NO
        terms = [(term, inner.context) for inner in places(stmt, known) for term in stmt_terms(inner.stmt)]
        return YES if all(check_values(x, here, self.vague, kept) is None for x, here in terms) else NO

    def _smaller(self, place: int, head: int, body: Any, snapshot: Snapshot) -> tuple[Answer, ...]:
        """The loop over the iterations that do something."""
        loop = replace(self.heads.loops[head], body=snapshot.statement(body))
        if loop.kind not in ("serial", "parallel") or is_empty(loop.body):
            return NO
        inside = self.heads.places[place].inside(loop).known
        depth = len(self.heads.places[place].loops)
        new = smaller(loop, snapshot.needed(body), inside, lambda extent: t.ax(depth, extent))
        if new is None:
            return NO
        if isinstance(new, For) and new.axis is t.ax(depth, new.extent_term):
            self.heads.names.derive(new, loop.axis)
            return ((new,),)
        return ((self.heads.raised(new, depth),),)  # the body: this loop is gone, even where another one begins it


def _total(test: Term) -> bool:
    """Whether a condition has a value everywhere: it reads nothing and divides by nothing that may be zero."""
    return not has_loads(test) and not nodes_of("hole", test) and definedness([test], {})[0] is t.TRUE


def _always(stmt: Stmt) -> Iterator[Stmt]:
    """The statements inside of one that run wherever their loops do."""
    yield stmt
    if not isinstance(stmt, If):
        for part in children(stmt):
            yield from _always(part)


def _unguarded(term: Term) -> list[Term]:
    """The loads of a term that are read wherever it is computed."""
    return [load for load, guard in guarded_parts(term) if guard is t.TRUE]


def _parts(stmt: Stmt) -> tuple[Stmt, ...]:
    return stmt.parts if isinstance(stmt, Seq) else (stmt,)


def _branches(stmt: Stmt) -> int:
    return sum(isinstance(inner, If) for inner in statements(stmt))

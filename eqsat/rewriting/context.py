"""What may be assumed at one place of a term: ranges, and predicates known from the guards above."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.ranges.bounds import Bounds, Interval
from eqsat.ir.ranges.box_values import BoxValues
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder
from eqsat.rewriting.match_sums import slack

FREE = ("axis", "var", "sym", "load", "hole")

Ranges = Mapping[Term, tuple[int, int]]


class Context:
    """Facts, and what follows from them, remembered: intervals, and the normal forms that each session found.

    >>> i = t.var("i")
    >>> here = Context({i: (0, 12)}, {}, 0, BoxValues({i: (0, 12)}))
    >>> here.of(i % 8 + i // 8), here.under(i < 4).of(i + 1), str(here.single(i // 12))
    ((0, 7), (1, 4), '0')
    >>> j = t.var("j")
    >>> Context({}, {}).under(i <= j).under(3 <= i).of(j)
    (3, None)
    """

    def __init__(
        self, ranges: Ranges, known: Mapping[Term, Term], depth: int = 0, values: BoxValues | None = None
    ) -> None:
        self.bounds = Bounds(ranges)
        self.values = values
        self.ranges = ranges
        self.known = dict(known)
        self.forms: dict[Hashable, dict[Term, Term]] = {}
        self.operations: dict[Term, frozenset[str]] = {}
        self.leaves: dict[Term, frozenset[int]] = {}
        self.intervals: dict[Term, Interval] = {}
        self.memo: dict[Any, Any] = {}
        self.below: dict[Term, Context] = {}
        self.relations: tuple[Term, ...] = ()
        self.depth = depth

    def of(self, a: Term) -> Interval:
        """The interval of a term; one without its constant may be in the ranges."""
        found = self.intervals.get(a)
        if found is None:
            if a.op == "sum" and a.payload[0] and self.ranges:
                constant = a.payload[0]
                low, high = self.of(t.linear(0, t.linear_parts(a)[1]))
                found = (None if low is None else low + constant, None if high is None else high + constant)
            else:
                found = self.bounds.of(a)
                if self.values is not None and (found[0] is None or found[0] != found[1]):
                    found = self.values.interval(a) or found
            self.intervals[a] = found
        return found

    def single(self, node: Term) -> Term | None:
        """The constant that an index or a predicate is, if it can have but one value."""
        if node.dtype not in (INDEX, BOOL) or node.lanes > 1:
            return None
        low, high = self.of(node)
        if low is None or low != high:
            return None
        return t.index_const(low) if node.dtype == INDEX else t.bool_const(low == 1)

    def occurring(self, term: Term) -> frozenset[str]:
        """The operations that occur in a term."""
        known = self.operations
        if term in known:
            return known[term]
        for node in postorder(term, done=known):
            known[node] = frozenset((node.op,)).union(*(known[a] for a in node.args))
        return known[term]

    def related(self, guards: Sequence[Term], term: Term) -> list[Term]:
        """The predicates that have a variable in common with a term, or with one that has, and so on, also by relations
        that hold here.

        >>> i, j, k = t.var("i"), t.var("j"), t.var("k")
        >>> [str(p) for p in Context({}, {}).related([i < j, k < 3, j < 4], i // 2)]
        ['i < j', 'j < 4']
        """
        every = [*guards, *self.relations]
        holders: dict[int, list[int]] = {}
        for n, guard in enumerate(every):
            if guard.op != "const":
                for leaf in self._leaves(guard):
                    holders.setdefault(leaf, []).append(n)
        waiting, found = list(self._leaves(term)), set[int]()
        while waiting:  # each leaf once
            for n in holders.pop(waiting.pop(), ()):
                if n not in found:
                    found.add(n)
                    waiting += self._leaves(every[n])
        return [guard for n, guard in enumerate(guards) if n in found]

    def _leaves(self, term: Term) -> frozenset[int]:
        """The serial numbers of what a term depends on: its variables, and the sources that it loads from."""
        known = self.leaves
        if term not in known:
            for node in postorder(term, done=known):
                own = (node.serial,) if node.op in FREE or not node.args else ()
                known[node] = frozenset(own).union(*(known[a] for a in node.args if a.op != "const"))
        return known[term]

    def under(self, guard: Term) -> Context:
        """The context where a predicate holds as well."""
        found = self.below.get(guard)
        if found is None:
            relations = (*self.relations, *(p for p in conjuncts(guard) if _relates(p)))
            bounds = Bounds(self.ranges).under(guard)
            for relation in self.related(relations, guard):  # what the guard says of one side, they say of the other
                bounds = bounds.under(relation)
            ranges: dict[Term, Any] = dict(bounds.half_open())
            known = dict(self.known)
            for part in conjuncts(guard):
                known[part] = t.TRUE
                known[t.logical_not(part)] = t.FALSE
                _narrow_sum(part, ranges, self)
            values = None if self.values is None else self.values.under(guard)
            found = self.below[guard] = Context(ranges, known, self.depth + 1, values)
            found.operations, found.leaves, found.relations = self.operations, self.leaves, relations
        return found


def _relates(part: Term) -> bool:
    """Whether a comparison says something of two indices or more, that their ranges alone do not hold."""
    return part.op in ("lt", "le", "eq") and part.args[0].dtype == INDEX and len(t.linear_parts(slack(part))[1]) > 1


def _narrow_sum(part: Term, ranges: dict[Term, Any], context: Context) -> None:
    """The range of a sum of several summands (without its constant) from a comparison."""
    if part.op not in ("lt", "le", "eq") or part.args[0].dtype != INDEX:
        return
    room = slack(part)
    constant, items = t.linear_parts(room)
    if len(items) < 2:
        return
    for sign in (1, -1):
        form = t.linear(0, [(sign * c, x) for c, x in items])
        low, high = context.of(form)
        if part.op == "eq":
            low = high = -sign * constant
        elif sign > 0:
            low = -constant if low is None else max(low, -constant)
        else:
            high = constant if high is None else min(high, constant)
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        if least <= most and (low, high) != (None, None):
            ranges[form] = (least, most + 1)

"""The places of a term: what the guards above a subterm allow to assume there.

A place is a set of predicates. Its leaves are terms of their own (`Given`), so that what holds at a place says nothing
about any other: with `i < 4` in one `where`, an `x[i // 4]` elsewhere is not `x[0]`. The leaves of a place are those of
the same point where its predicates hold, and those of the first point where they do, in some order of all points, at
any other. So every equality in the graph is one of functions of the point, and a term at a place may stand, as it is,
wherever the predicates hold. A place where no point may be left has no facts: anything would follow from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.index_graph.samples import asked, holds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts
from eqsat.proving.question import definedness
from eqsat.rewriting.context import Context

Guards = frozenset[Term]
DEEPEST = 8
MOST = 24


@dataclass
class Place:
    """Predicates that hold here, and what follows from them; `alive`: they are known to hold somewhere."""

    number: int
    guards: Guards
    facts: Context
    alive: bool
    loose: list[Term] = field(default_factory=list[Term])  # predicates to state


def parts(predicate: Term) -> Guards:
    """The members of a conjunction."""
    return frozenset(conjuncts(predicate)) - {t.TRUE}


class Places:
    """All places of one graph; number 0 is where nothing is guarded.

    >>> i = t.var("i", 16)
    >>> places = Places(Context({i: (0, 16)}, {}))
    >>> inside = places.under(places.top, [i < 4], i // 4)
    >>> inside.number, inside.facts.of(i // 4), places.under(inside, [i < 4], i).number
    (1, (0, 0), 1)
    """

    def __init__(self, facts: Context) -> None:
        self.top = Place(0, frozenset(), facts, True)
        self.all = [self.top]
        self.known: dict[Guards, Place] = {frozenset(): self.top}
        self.given: list[Term] = []  # what is assumed everywhere

    def under(self, place: Place, guards: Sequence[Term], term: Term) -> Place:
        """The place of a term below some more predicates, those that say nothing about it left out."""
        new = [g for g in place.facts.related(guards, term) if not parts(g) <= place.guards]
        whole = place.guards.union(*map(parts, new))
        found = self.known.get(whole)
        if found is None:
            if len(whole) > DEEPEST or len(self.all) >= MOST:
                return place
            facts = place.facts
            for guard in new:
                facts = facts.under(guard)
            alive = place.alive and self._holds_somewhere(whole)
            found = Place(len(self.all), whole, facts if alive else place.facts, alive)
            self.known[whole] = found
            self.all.append(found)
            if alive:
                found.loose = [p for g in new for p in sorted(parts(g), key=str)]
        return found

    def _holds_somewhere(self, guards: Guards) -> bool:
        """Whether some predicates are known to hold at a point together, where the assumptions do."""
        values = self.top.facts.values
        if values is not None:
            span = values.interval(t.logical_and(*sorted(guards, key=str)))
            if span is not None:
                return span[1] == 1
        whole = t.logical_and(*sorted({*guards, *self.given}, key=str))
        tried = holds([whole], self.top.facts)
        if tried is not None and bool(np.any(tried[0])):
            return True
        undefined = [t.logical_not(c) for c in definedness([whole])]  # where a claim is refuted, too
        return asked(t.logical_or(*undefined, t.logical_not(whole)), t.TRUE, self.top.facts).verdict == "refuted"

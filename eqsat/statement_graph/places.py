"""Places: the loops around, what is known there, and the buffers that nobody reads after what stands there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eqsat.ir.statements.stmt import BufferDecl, For, Stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.passes.context import Context
from eqsat.passes.facts import Fact
from eqsat.passes.flow import after, enter_loop
from eqsat.passes.mentioned import Cells, mentioned, names_in

LEVELS = 2
"""How far what is known of a buffer by what it is compared with is followed."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a statement stands. `dead`: buffers of which nobody reads a cell that the statement leaves behind."""

    known: Context
    loops: tuple[For, ...] = ()
    dead: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from other places."""
        loops = tuple((loop.axis.serial, loop.kind, loop.reduce) for loop in self.loops)
        return loops, frozenset(g.serial for g in self.known.guard), frozenset(self.known.facts), self.dead

    @property
    def axes(self) -> tuple[Term, ...]:
        """The axes of the loops around."""
        return tuple(loop.axis for loop in self.loops)

    @property
    def guard(self) -> Term:
        """What is known without memory."""
        return t.logical_and(*self.known.guard)

    def between(self, first: Stmt, second: Stmt) -> tuple[Place, Place]:
        """The places of two statements that stand here one after the other."""
        dead = self.dead - mentioned(second).reads
        known = _without(after(first, self.known), dead)
        return self._for(first, self.known, dead), self._for(second, known, self.dead)

    def inside(self, loop: For) -> Place:
        """The place of the body of a loop that stands here."""
        dead = self.dead - mentioned(loop.body).reads
        known = _without(enter_loop(loop, self.known), dead)
        return replace(self._for(loop.body, known, dead), loops=(*self.loops, loop))

    def under(self, condition: Term) -> Place:
        """The place of a statement that runs here if a condition holds."""
        return self._with(self.known.under(condition), self.dead)

    def around(self, local: BufferDecl) -> Place:
        """The place of a statement for which a buffer is made here."""
        alone = all(self.known.root(name) != local.name for name in self.known.roots)
        return self._with(self.known, self.dead | {local.name} if alone else self.dead)

    def _for(self, stmt: Stmt, known: Context, dead: frozenset[str]) -> Place:
        """The place of a statement, with what is known of the cells that it names and of those that this is about."""
        cells, kept = Cells(), dict[Fact, None]()
        if known.facts:
            cells.update(mentioned(stmt).cells)
        for _ in range(LEVELS + 1):
            about = [f for f in known.facts if f not in kept and any(cells.may_mean(*cell) for cell in f.named)]
            kept |= dict.fromkeys(about)
            for cell in (cell for fact in about for cell in fact.named):
                cells.add(*cell)
        known = replace(known, facts=tuple(f for f in known.facts if f in kept))
        return self._with(known, dead & names_in(stmt))

    def _with(self, known: Context, dead: frozenset[str]) -> Place:
        return replace(self, known=replace(known, facts=tuple(dict.fromkeys(known.facts))), dead=dead)


def _without(known: Context, dead: frozenset[str]) -> Context:
    """Without what is said of buffers that may hold something else: stores to them may have gone."""
    facts = [f for f in known.facts if dead.isdisjoint(f.buffers)]
    return known if len(facts) == len(known.facts) else replace(known, facts=tuple(facts))

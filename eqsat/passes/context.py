"""What is known at a place of a function: guards over axes and symbols, and facts about memory until a write
ends them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqsat.ir.cached import cached_property
from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import is_float
from eqsat.ir.statements.stmt import BufferDecl
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder, substitute, transform
from eqsat.passes.asked import PLACES, PROVER
from eqsat.passes.cells import CellAccess, apart, differ, frozen, has_loads, loads, written
from eqsat.passes.facts import (
    Fact,
    copies_of,
    excludes_negative_zero,
    fact_of,
    never_negative_zero,
    no_negative_zero,
    values_of,
)
from eqsat.passes.tight import minus
from eqsat.proving.prover import Decision
from eqsat.simplifying.simplify import simplify_term

_ROUNDS = 3
_LEVELS = 2
_MOST_PERHAPS = 4
_MOST_CONJUNCTS = 4


@dataclass(frozen=True)
class Context:
    """What holds at a place. `roots` tells whose memory a buffer is, `decls` what may be accessed."""

    guard: tuple[Term, ...] = ()
    facts: tuple[Fact, ...] = ()
    roots: Mapping[str, str] = field(default_factory=dict[str, str])
    decls: Mapping[str, BufferDecl] = field(default_factory=dict[str, BufferDecl])

    @cached_property
    def key(self) -> tuple[tuple[int, ...], ...]:
        """What tells it from others of the same declarations."""
        return (tuple(g.serial for g in self.guard), *(fact.key for fact in self.facts))

    def split(self, names: Iterable[str]) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
        """The facts that speak of these buffers, of others that such facts speak of, or of memory that they share, and
        all others."""
        reached = {self.root(name) for name in names}
        near: dict[Fact, None] = {}
        far: list[Fact] = list(self.facts)
        while True:
            more = [f for f in far if not reached.isdisjoint(map(self.root, f.buffers))]
            if not more:
                return tuple(f for f in self.facts if f in near), tuple(far)
            near.update(dict.fromkeys(more))
            reached.update(self.root(name) for f in more for name in f.buffers)
            far = [f for f in far if f not in near]

    # -- growing and shrinking ----------------------------------------------------------------------------------------

    def under(self, condition: Term) -> Context:
        """What holds where the condition was just found to hold."""
        guard, facts = dict.fromkeys(self.guard), dict.fromkeys(self.facts)
        for part in conjuncts(condition):
            if has_loads(part):
                facts[fact_of(part)] = None
            elif part is not t.TRUE:
                guard[part] = None
        return replace(self, guard=tuple(guard), facts=tuple(facts))

    def also(self, facts: Iterable[Fact]) -> Context:
        """With more facts."""
        return replace(self, facts=tuple(dict.fromkeys((*self.facts, *facts))))

    def after_writes(self, writes: Sequence[CellAccess], order: Term = t.TRUE) -> Context:
        """What still holds after these writes."""
        kept: list[Fact] = []
        for fact in self.facts:
            left: Fact | None = fact
            for write in writes:
                left = None if left is None else self.survives(left, write, order)
            if left is not None:
                kept.append(left)
        return replace(self, facts=tuple(kept))

    def survives(self, fact: Fact, write: CellAccess, order: Term = t.TRUE) -> Fact | None:
        """The fact after a write: itself, or with less of a condition, or nothing."""
        if not self.roots and write.buffer not in fact.buffers:
            return fact
        root = self.root(write.buffer)
        touched = [load for load in fact.cells if self.root(load.payload) == root]
        if all(load.payload == write.buffer and differ(load.args, write.index) for load in touched):
            return fact
        if any(load.payload != write.buffer for load in touched):
            return None
        narrow = len(touched) == 1 and bool(fact.axes) and order is t.TRUE
        region = written(write, touched[0].args, exactly=True) if narrow else None
        left = fact.condition if region is None else minus(fact.condition, region)
        if region is not None and len(conjuncts(left)) <= len(conjuncts(fact.condition)):  # by bounds alone
            return self._where(fact, left)
        assuming = t.logical_and(*self.guard)
        cells = [CellAccess(write.buffer, tuple(map(frozen, load.args)), fact.condition, fact.axes) for load in touched]
        if all(apart(cell, write, assuming, order) for cell in cells):
            return fact
        if region is None:
            return None
        if len(conjuncts(left)) > _MOST_CONJUNCTS:  # what is short is proved as it stands
            left = simplify_term(left, {}, assuming if self.guard else None)
        return self._where(fact, left)

    def _where(self, fact: Fact, condition: Term) -> Fact | None:
        """The fact under another condition; None where that never holds."""
        if condition is fact.condition:
            return fact
        return None if condition is t.FALSE else replace(fact, condition=condition)

    def without(self, name: str) -> Context:
        """Without facts about a buffer, which ends to exist."""
        kept = [f for f in self.facts if all(load.payload != name for load in f.cells)]
        return replace(self, facts=tuple(kept))

    def root(self, name: Any) -> str:
        """The buffer whose memory this one is."""
        return self.roots.get(name, name)

    # -- asking -------------------------------------------------------------------------------------------------------

    def assumptions(self, *terms: Term) -> Term | None:
        """What is known about what occurs in the terms: guards, and claims about the cells that they read."""
        parts = dict.fromkeys(self.guard)
        seen: dict[Term, None] = {}
        waiting = loads(*terms)
        for _ in range(_LEVELS):  # claims speak of other cells, which facts speak of in turn
            said = [claim for load in waiting for claim in self._claims(load)]
            seen.update(dict.fromkeys(waiting))
            parts.update(dict.fromkeys(claim for claim in said if claim.op != "same"))  # which numpy cannot try
            waiting = [load for load in loads(*said) if load not in seen]
        kept = _related(list(parts), terms)
        return _opaque(t.logical_and(*kept)) if kept else None

    def _claims(self, load: Term) -> list[Term]:
        """What facts say of a cell here."""
        return [
            claim
            for fact in self.facts
            for condition, claim in fact.about(load)
            if condition is t.TRUE or self._holds(condition)
        ]

    def _holds(self, condition: Term) -> bool:
        kept = _related(self.guard, [condition])
        return bool(PLACES.prove(condition, t.logical_and(*kept) if kept else None))

    def prove(self, claim: Term) -> Proof:
        """Does the predicate hold here, and is it defined, loads aside?"""
        proof = PLACES.prove(_opaque(claim), self.assumptions(claim))
        perhaps = [] if proof else self._perhaps(claim)
        if not perhaps:
            return proof
        known = self.assumptions(claim)
        return PLACES.prove(_opaque(claim), t.logical_and(*([] if known is None else [known]), *perhaps))

    def _perhaps(self, claim: Term) -> list[Term]:
        """What facts say of the cells of a claim where their conditions hold, which is not known here."""
        found: list[Term] = []
        for load in loads(claim):
            for fact in self.facts:
                for condition, said in fact.about(load):
                    if said.op != "same" and condition is not t.TRUE and not self._holds(condition):
                        found.append(_opaque(t.logical_or(t.logical_not(condition), said)))
        return found[:_MOST_PERHAPS]

    def decide(self, predicate: Term) -> Decision:
        """Whether the predicate holds always, never or sometimes here."""
        decision = PROVER.decide(_opaque(predicate), {}, self.assumptions(predicate))
        return "always" if decision == "unknown" and has_loads(predicate) and self.prove(predicate) else decision

    def reachable(self) -> bool:
        """Whether the guards do not contradict each other."""
        if not self.guard:
            return True
        return PROVER.consistent(t.logical_and(*self.guard), {}).verdict != "refuted"

    def values(self, load: Term) -> list[Term]:
        """The values that a cell may have, without memory: one, two for a zero of unknown sign, or none known."""
        for claim in self._claims(load):
            if found := values_of(load, claim):
                return found
        return []

    def holds_value(self, load: Term, vague: Collection[str], depth: int = 4) -> bool:
        """Whether a cell is known to hold a value here; vague: the buffers with cells that may have none."""
        if str(load.payload) not in vague or self.values(load):
            return True
        copies = [x for claim in self._claims(load) for x in copies_of(load, claim)] if depth else []
        return any(all(self.holds_value(x, vague, depth - 1) for x in loads(copy)) for copy in copies)

    def not_negative_zero(self, value: Term) -> bool:
        """Whether a float is known here not to be -0.0."""
        return is_float(value.dtype) and never_negative_zero(value, self._cell_not_negative_zero)

    def _cell_not_negative_zero(self, load: Term) -> bool:
        wanted = no_negative_zero(load)
        return any(excludes_negative_zero(load, claim, wanted) for claim in self._claims(load))

    def simplify(self, term: Term) -> Term:
        """An equal term: reads of cells that are known replaced, the rest simplified under what is known."""
        if term.op in ("hole", "const"):
            return term
        for _ in range(_ROUNDS):
            new = self._without_zeros(self._known_cells(self._plain_indices(term)))
            names = {_opaque(load): load for load in loads(new)}
            new = substitute(simplify_term(_opaque(new), {}, self.assumptions(new)), names)
            if new is term:
                break
            term = new
        return term

    def _plain_indices(self, term: Term) -> Term:
        """The term with the indices of its loads simplified."""
        table: dict[Term, Term] = {}
        for load in loads(term):
            index = [self.simplify(i) for i in load.args]
            if any(a is not b for a, b in zip(index, load.args, strict=True)):
                table[load] = t.load(load.payload, index, load.dtype)
        return substitute(term, table)

    def _known_cells(self, term: Term) -> Term:
        exact: dict[Term, Term] = {}
        zeros: dict[Term, list[Term]] = {}
        for load in loads(term):
            values = self.values(load)
            if len(values) == 1:
                exact[load] = values[0]
            elif values:
                zeros[load] = values
        term = substitute(term, exact)
        for load, values in zeros.items():  # a zero of unknown sign: replaced where the sign makes no difference
            forms = {simplify_term(_opaque(substitute(term, {load: v}))) for v in values}
            if len(forms) == 1:
                term = substitute(forms.pop(), {_opaque(other): other for other in loads(term)})
        return term

    def equal(self, a: Term, b: Term) -> Proof:
        """Are the values the same here, bit by bit, where `a` is defined? Both zeros are tried where a sign is open."""
        open_signs = {load: found for load in loads(a) if len(found := self.values(load)) > 1}
        proof = Proof("proved", method="simplified")
        for values in itertools.product(*open_signs.values()):
            x = self.simplify(substitute(a, dict(zip(open_signs, values, strict=True))))
            if x is not b and not any(x is other for other in self._copies(b)):
                proof = PLACES.equal(_opaque(x), _opaque(b), self.assumptions(x, b))
            if not proof:
                break
        return proof

    def _copies(self, load: Term) -> list[Term]:
        """What is known to have the same bits as a cell."""
        return [self.simplify(x) for claim in self._claims(load) for x in copies_of(load, claim)]

    def _without_zeros(self, term: Term) -> Term:
        """Sums without 0.0, where it is added to what is not -0.0."""

        def change(node: Term) -> Term | None:
            if node.op != "add" or not is_float(node.dtype):
                return None
            for x, zero in (node.args, node.args[::-1]):
                if t.is_const(zero, 0.0) and self.not_negative_zero(x):
                    return x
            return None

        return transform(term, change)


def _opaque(term: Term) -> Term:
    """The term with a name for what each load reads: the prover is told nothing else of it, least of all that it may
    not be defined."""
    return substitute(
        term, {load: t.load(f"{load.payload}#{load.serial}", (), load.dtype) for load in loads(term) if load.args}
    )


def _related(parts: Sequence[Term], terms: Sequence[Term]) -> list[Term]:
    """The parts that speak, through others, about what occurs in the terms."""

    def leaves(term: Term) -> set[Term]:
        return {n for n in postorder(term) if n.op in ("axis", "var", "sym", "load")}

    wanted = {leaf for term in terms for leaf in leaves(term)}
    left = [(part, leaves(part)) for part in dict.fromkeys(parts)]
    kept: list[Term] = []
    grown = True
    while grown:
        grown = False
        apart_from = [item for item in left if wanted.isdisjoint(item[1])]
        for part, found in (item for item in left if not wanted.isdisjoint(item[1])):
            kept.append(part)
            wanted = wanted | found
            grown = True
        left = apart_from
    return kept

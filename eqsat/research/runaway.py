"""Which rules make a search run away, and the smallest expression with which they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from eqsat.index_graph.explain import smallest
from eqsat.index_graph.graph import Limits
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Rule
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, postorder, transform
from eqsat.research.saturate import LIMITS, saturate

Ranges = Mapping[Term, tuple[int, int]]
MOST_TRIES = 200
MOST_REASONS = 3
LEAVES = ("axis", "var", "sym", "const")


@dataclass(frozen=True, eq=False)
class Runaway(Record):
    """Rules none of which can be left out of an explosion, the smallest term found that explodes, and rows by
    iteration, with them and without."""

    culprits: tuple[str, ...]
    term: Term
    status: str
    rows: tuple[int, ...]
    rows_without: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{' and '.join(self.culprits)} let {self.term} grow to {self.rows[-1]} rows ({self.status}; "
            f"{self.rows_without[-1]} without): rows by iteration {', '.join(map(str, self.rows))}"
        )


def diagnose_all(
    term: Term, ranges: Ranges, base: Sequence[Rule], own: Sequence[Rule] = (), limits: Limits = LIMITS
) -> tuple[Runaway, ...]:
    """One reason after the other, each with the culprits of those before left out, until nothing explodes any more."""
    found: list[Runaway] = []
    while len(found) < MOST_REASONS:
        guilty = {name for one in found for name in one.culprits}
        kept = [[r for r in rules if r.name not in guilty] for rules in (base, own)]
        reason = diagnose(term, ranges, kept[0], kept[1], limits)
        if reason is None:
            break
        found.append(reason)
    return tuple(found)


def diagnose(
    term: Term, ranges: Ranges, base: Sequence[Rule], own: Sequence[Rule] = (), limits: Limits = LIMITS
) -> Runaway | None:
    """Why an expression explodes under rules, or None where it does not.

    The culprits are sought among `own`, and among all rules where `base` alone explodes.
    """

    def explodes(rules: Sequence[Rule], what: Term = term) -> bool:
        return saturate(what, ranges, rules, limits).is_runaway

    kept, suspects = list(base), list(own)
    grown = saturate(term, ranges, [*kept, *suspects], limits)
    if not grown.is_runaway:
        return None
    if not suspects or explodes(kept):
        matched = grown.total("matches")
        kept, suspects = [], [r for r in [*kept, *suspects] if r.name in matched]
        if not explodes(suspects):  # a rule that never matches may bound what others ask
            suspects = [*base, *own]
    culprits = smallest(suspects, lambda some: explodes([*kept, *some]))
    rules = [*kept, *culprits]
    least = _shrunk(term, lambda smaller: explodes(rules, smaller))
    grown = saturate(least, ranges, rules, limits)
    without = saturate(least, ranges, [r for r in [*base, *own] if r not in culprits], limits)
    return Runaway(tuple(r.name for r in culprits), least, grown.status, grown.rows, without.rows)


def _shrunk(term: Term, explodes: Callable[[Term], bool]) -> Term:
    """A term of which no part can be left out, or replaced by a part of its own, without losing the explosion."""
    tries, best = 0, term
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(best):
            tries += 1
            if tries > MOST_TRIES:
                return best
            if explodes(smaller):
                best, progress = smaller, True
                break
    return best


def _smaller(term: Term) -> Iterator[Term]:
    """Simpler terms of the same type, the smallest first."""
    found: dict[Term, int] = {}
    for node in postorder(term):
        if node is not term and node.dtype == term.dtype and node.op not in LEAVES:
            found[node] = dag_size(node)
        for part in node.args:
            if part.dtype == node.dtype:
                try:
                    made = transform(term, lambda n, old=node, new=part: new if n is old else None)
                except EqsatError:
                    continue
                if made.op not in LEAVES and dag_size(made) < dag_size(term):
                    found[made] = dag_size(made)
    return iter(sorted(found, key=lambda x: (found[x], str(x))))

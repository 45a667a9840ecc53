"""A chain of rewrites from one term to an equal one, found by a search that uses few rules, and each step checked."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.explaining.rewrites import CONVENTIONS, Rewrite, Rewrites, plain_name
from eqsat.index_graph.cost import cost
from eqsat.index_graph.explain import Explanation, explain_terms
from eqsat.index_graph.reversed import SUFFIX
from eqsat.ir.decide import Proof
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.ir.rule import Rule
from eqsat.ir.shown import card
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.proving.prover import Budget, Portfolio
from eqsat.proving.question import Box
from eqsat.proving.read import Ranges, read
from eqsat.proving.trial import Trial
from eqsat.rewriting.context import Context
from eqsat.rulebook import default_rules
from eqsat.rulebook.packages import asked_for

MOST_TERMS, MOST_NORMAL = 3_000, 300
SECONDS = 20.0
QUICK = Budget(points=1 << 14, isl_operations=100_000, z3_rlimits=(400_000,), z3_formulations=1, seconds=1.0)
LARGER = 12  # by how much a term on the way may cost more than the larger end


@dataclass(frozen=True, eq=False)
class Link(Record):
    """One step of a chain: `before` becomes `after` by a rule (`reversed`: from right to left) in the part at `path`.

    conditions: what the rule asks there, each with the verdict on it; proof: of the step by itself, made anew,
    without any rule where that is possible; tried: whether both wholes were the same at points (None: none was tried).
    """

    rule: str
    reversed: bool
    path: tuple[int, ...]
    before: Term
    after: Term
    whole: Term
    conditions: tuple[tuple[Term, Proof], ...]
    proof: Proof
    tried: bool | None

    @property
    def holds(self) -> bool:
        """Whether the step and what it needs were confirmed."""
        return bool(self.proof) and self.tried is not False and all(p for _, p in self.conditions)

    def __str__(self) -> str:
        way = ", from right to left" if self.reversed else ""
        at = f" at {'.'.join(map(str, self.path))}" if self.path else ""
        needs = "; ".join(f"{c}: {p.verdict} ({p.method})" for c, p in self.conditions)
        shown = f" when {needs}" if needs else ""
        return f"= {self.whole}\n    {self.rule}{way}{at}: {self.before} = {self.after}{shown}  [{self.proof.method}]"


@dataclass(frozen=True, eq=False)
class Chain(Record):
    """The steps from a term to an equal one; `rules`: those that are needed, none of which can be left out."""

    start: Term
    end: Term
    rules: tuple[str, ...]
    links: tuple[Link, ...]
    complete: bool = True
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the chain reaches its end, and each of its steps was confirmed."""
        return self.complete and all(link.holds for link in self.links)

    def _repr_html_(self) -> str:
        return card(f"{self.start} = {self.end}", str(self))

    def __str__(self) -> str:
        lines = [f"by {', '.join(self.rules)}" if self.rules else "without a rule", f"  {self.start}"]
        lines += [f"  {link}" for link in self.links]
        return "\n".join([*lines, *([f"  note: {self.note}"] if self.note else [])])


@keywords
def explain(
    a: Any, b: Any, ranges: Ranges | None = None, *, rules: Sequence[Rule] = (), seconds: float = SECONDS
) -> Chain:
    """Why two terms (or texts) are equal in the ranges: the rules that are needed, and a chain of single steps.

    rules: of one's own, beside those of eqsat. An EqsatError says that the terms differ, with values, or that no rules
    make them equal; where rules do but no chain was found in time, the chain is not `complete`.

    >>> print(explain("x // 4 * 4 + x % 4 + y", "y + x"))
    by split-merge
      x // 4 * 4 + y + x % 4
      = x + y
        split-merge: x // 4 * 4 + y + x % 4 = x + y  [structure]
    """
    (first, second), box = read([a, b], ranges)
    proof = Portfolio().equal(first, second, box)
    if proof.verdict == "refuted":
        shown = ", ".join(f"{k}={v}" for k, v in (proof.witness or {}).items())
        raise EqsatError(f"{first} and {second}", f"differ at {shown}", "there is nothing to explain")
    rules = asked_for(rules, (Rule,))
    why = explain_terms(first, second, ranges, [*default_rules(), *rules] if rules else None)
    if not why.equal:
        raise EqsatError(f"{first} and {second}", "no rules make them equal", "declare one that does: eq.rule")
    return chain_of(first, second, box, why, [*default_rules(), *rules], seconds)


def chain_of(
    first: Term, second: Term, box: Box, why: Explanation, rules: Sequence[Rule], seconds: float = SECONDS
) -> Chain:
    """The chain of an explanation."""
    needed = Rewrites([r for r in rules if r.name in why.rules])
    top = Context(_half_open(box), {})
    until = time.monotonic() + seconds
    steps = _normally(first, second, needed, top) or joined(first, second, needed, top, until)
    if steps is None:
        note = f"no chain of these rules was found among {MOST_TERMS} terms"
        return Chain(first, second, why.rules, (), first is second, "" if first is second else note)
    return Chain(first, second, why.rules, tuple(_checked(steps, first, box)))


def _half_open(box: Box) -> dict[Term, Any]:
    ends = {leaf: (-math.inf if a is None else a, math.inf if b is None else b) for leaf, (a, b) in box.items()}
    return {leaf: r for leaf, r in ends.items() if r != (-math.inf, math.inf)}


_Way = tuple[Rewrite, bool]  # a rewrite, and whether it leads from after to before


def _normally(first: Term, second: Term, rules: Rewrites, top: Context) -> list[_Way] | None:
    """By the rewriter's own steps, from both ends to where they meet."""
    ways: list[list[Rewrite]] = []
    seen: list[dict[Term, int]] = []
    for root in (first, second):
        at, steps, known = root, list[Rewrite](), {root: 0}
        for _ in range(MOST_NORMAL):
            step = rules.normal(at, top)
            if step is None or step.whole in known:
                break
            steps.append(step)
            at = step.whole
            known[at] = len(steps)
        ways.append(steps)
        seen.append(known)
    common = [x for x in seen[0] if x in seen[1]]
    if not common:
        return None
    meeting = min(common, key=lambda x: seen[0][x] + seen[1][x])
    there = [(step, False) for step in ways[0][: seen[0][meeting]]]
    return [*there, *((step, True) for step in reversed(ways[1][: seen[1][meeting]]))]


def joined(
    first: Term,
    second: Term,
    rules: Rewrites,
    top: Context,
    until: float,
    most: int = MOST_TERMS,
    given: Sequence[Term] = (),
) -> list[_Way] | None:
    """The rewrites that join two terms (with whether each is used backwards), by a search from both ends that looks at
    cheap terms first; None where none is found in time."""
    limit = max(cost(first), cost(second)) + LARGER
    came: list[dict[Term, tuple[Term, Rewrite] | None]] = [{first: None}, {second: None}]
    count = itertools.count()
    queues = [[(cost(root), next(count), root)] for root in (first, second)]
    portfolio = Portfolio(QUICK)
    while any(queues) and len(came[0]) + len(came[1]) < most and time.monotonic() < until:
        side = 0 if queues[0] and (not queues[1] or len(came[0]) <= len(came[1])) else 1
        _, _, root = heapq.heappop(queues[side])
        for step in rules.of(root, top):
            if step.whole in came[side] or cost(step.whole) > limit:
                continue
            if step.open and not all(_shown(c, step, top.ranges, portfolio, given) for c in step.conditions):
                continue
            came[side][step.whole] = (root, step)
            if step.whole in came[1 - side]:
                return _ways(step.whole, came)
            heapq.heappush(queues[side], (cost(step.whole), next(count), step.whole))
    return None


def _ways(meeting: Term, came: Sequence[Mapping[Term, tuple[Term, Rewrite] | None]]) -> list[_Way]:
    ways: list[list[Rewrite]] = []
    for known in came:
        at, steps = meeting, list[Rewrite]()
        while (entry := known[at]) is not None:
            at, step = entry
            steps.append(step)
        ways.append(steps)
    return [*((step, False) for step in reversed(ways[0])), *((step, True) for step in ways[1])]


def _shown(
    condition: Term, step: Rewrite, ranges: Mapping[Term, Any], portfolio: Portfolio, given: Sequence[Term] = ()
) -> Proof:
    guards = (*given, *step.place.guards)
    guard = t.logical_and(*guards) if guards else None
    return portfolio.prove(condition, _box(ranges), guard)


def _box(ranges: Mapping[Term, Any]) -> dict[Term, tuple[int | None, int | None]]:
    return {
        leaf: (None if a in (None, -math.inf) else int(a), None if b in (None, math.inf) else int(b))
        for leaf, (a, b) in ranges.items()
        if leaf.op in ("axis", "var", "sym")
    }


def _checked(ways: Sequence[_Way], start: Term, box: Box) -> list[Link]:
    """The steps with what confirms them."""
    portfolio, alone = Portfolio(), Portfolio(Budget(rules=False))
    trial = Trial(start, box, None)
    links: list[Link] = []
    whole = start
    for step, back in ways:
        before, after = (step.after, step.place.node) if back else (step.place.node, step.after)
        reached = step.source if back else step.whole
        guard = t.logical_and(*step.place.guards) if step.place.guards else None
        conditions = [(c, _shown(c, step, _half_open(box), portfolio)) for c in step.conditions if c is not t.TRUE]
        proof = alone.equal(step.place.node, step.after, box, guard)
        if not proof:  # by the rules, which are proved for all values
            proof = portfolio.equal(step.place.node, step.after, box, guard)
        tried = trial.agree(*((reached, whole) if back else (whole, reached))) if trial.possible else None
        is_turned = back != step.rule.endswith(SUFFIX) and step.rule not in CONVENTIONS
        named = plain_name(step.rule)
        links.append(Link(named, is_turned, step.place.path, before, after, reached, tuple(conditions), proof, tried))
        whole = reached
    return links

"""Which rules follow from others: a rule is derived where rewriting by the others joins its two sides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from eqsat.explaining.chain import Chain, explain, joined
from eqsat.explaining.rewrites import Rewrites, plain_name
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.order import decreases
from eqsat.ir.rule import Instance, Kind, Rule, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.proving.prover import prove_equal
from eqsat.proving.question import LEAVES
from eqsat.proving.read import Ranges, read
from eqsat.rewriting.context import Context
from eqsat.rewriting.rewrite import Rewriter, RuleStep, Session
from eqsat.rulebook.acting import why_idle
from eqsat.rules import scalar_rules

MOST_TERMS = 250
SECONDS = 1.0
CASES = 2
"""How deep the cases of predicates are looked at in which the two sides of a rule are the same."""


@dataclass(frozen=True)
class Derivation:
    """How a rule follows from others: by these; None: no derivation was found within the limits."""

    rule: str
    by: tuple[str, ...] | None

    def __bool__(self) -> bool:
        return self.by is not None

    def __str__(self) -> str:
        if self.by is None:
            return f"{self.rule}: not derived"
        return f"{self.rule}: by {', '.join(self.by) or 'the normal form of terms'}"


class Deriver:
    """Rules ready to derive others; each question is asked about sides with sizes in place of constants. Rules that can
    be matched nowhere derive nothing. cases: how deep the predicates of both sides are split into two cases each.

    >>> from eqsat.rules.index_arith import div_div
    >>> from eqsat.rules.split_merge import RULES
    >>> print(Deriver([r for r in RULES if r.name == "split-merge"]).derive(div_div))
    div-div: not derived
    """

    def __init__(self, rules: Sequence[Rule], cases: int = CASES) -> None:
        self.cases = cases
        usable = [r for r in rules if not why_idle(r)]
        self.rewrites = Rewrites(usable)
        ours = {id(r) for r in scalar_rules()}
        self.ending = Rewriter([r for r in usable if id(r) in ours or "normal" in r.tags or _ends(r)])

    def derive(self, rule: Rule) -> Derivation:
        """Whether all theorems of a rule follow, and from which rules."""
        used: dict[str, None] = {}
        for instance in rule.instances:
            found = self.by(rule, instance)
            if found is None:
                return Derivation(rule.name, None)
            used.update(dict.fromkeys(found))
        return Derivation(rule.name, tuple(used))

    def by(
        self, rule: Rule, instance: Instance, most: int = MOST_TERMS, seconds: float = SECONDS
    ) -> tuple[str, ...] | None:
        """The rules that join the two sides of a theorem, perhaps with a summand on the other side; or None."""
        table = _sizes(rule, instance)
        left, right = substitute(instance.left, table), substitute(instance.right, table)
        given = [substitute(c, table) for c in instance.conditions]
        for one, other in ((left, right), *_moved(left, right)):
            found = self._joined(one, other, given, most, seconds)
            if found is not None:
                return found
        return None

    def _joined(
        self, left: Term, right: Term, given: Sequence[Term], most: int, seconds: float
    ) -> tuple[str, ...] | None:
        """The rules that join two terms where the conditions hold, or None."""
        guard = t.logical_and(*given) if given else None
        for cases in dict.fromkeys((0, self.cases)):
            used = self._alike(left, right, guard, cases)
            if used is not None:
                return tuple(dict.fromkeys(used))
            if not most:
                return None
        top = Context({}, {})
        if guard is not None and guard.op != "const":
            top = top.under(guard)
        steps = joined(left, right, self.rewrites, top, time.monotonic() + seconds, most, given)
        if steps is None:
            return None
        names = [plain_name(step.rule) for step, _ in steps]
        return tuple(dict.fromkeys(n for n in names if n in self.rewrites.rules))

    def _alike(self, left: Term, right: Term, guard: Term | None, cases: int) -> list[str] | None:
        """The rules by which two terms have one normal form where the guard holds, or in each of two cases by a
        predicate that occurs in them, and so on, so often; None where that is not so."""
        log: list[RuleStep] = []
        session = Session(self.ending, {}, guard)
        one, two = session.normal(left, log), session.normal(right, log)
        used = [s.rule for s in log if s.rule in self.rewrites.rules]
        if one is two:
            return used
        for case in _predicates(one, two) if cases else ():
            for holds in (case, t.logical_not(case)):
                inner = self._alike(one, two, holds if guard is None else t.logical_and(guard, holds), cases - 1)
                if inner is None:
                    break
                used = [*used, *inner]
            else:
                return used
        return None


@lru_cache(maxsize=4096)
def _ends(rule: Rule) -> bool:
    """Whether rewriting by a rule comes to an end: every instance makes a term smaller."""
    fixed = {variable(p, i.dtype) for i in rule.instances for p in rule.parameters if p.kind is Kind.POS}
    return all(decreases(i.left, i.right, fixed) for i in rule.instances)


def _moved(left: Term, right: Term) -> Iterator[tuple[Term, Term]]:
    """An equation of sums with one summand of a side on the other side."""
    for one, other in ((left, right), (right, left)):
        if one.op == "sum" and one.dtype == other.dtype == INDEX:
            constant, coefficients = one.payload
            parts = [c * a for c, a in zip(coefficients, one.args, strict=True)]
            if constant:
                parts.append(t.index_const(constant))
            yield from ((one - part, other - part) for part in parts if len(parts) > 1)


def _predicates(*terms: Term) -> list[Term]:
    """The predicates in terms that no junction makes of others."""
    return [x for x in postorder(*terms) if x.dtype == BOOL and x.op not in ("const", "and", "or", "not")]


def _sizes(rule: Rule, instance: Instance) -> dict[Term, Term]:
    """Positive constants as symbolic sizes, which the rules take for constants."""
    positive = [variable(p, instance.dtype) for p in rule.parameters if p.kind is Kind.POS]
    return {v: t.sym(str(v.payload), 1) for v in positive}


@dataclass(frozen=True)
class Minimal:
    """A smaller set of rules from which the others follow: those kept, how each that was left out follows, and why
    rules that can be matched nowhere were of no use for that."""

    kept: tuple[Rule, ...]
    dropped: tuple[Derivation, ...]
    idle: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        lines = [f"{len(self.kept)} kept: {', '.join(r.name for r in self.kept)}"]
        lines += [f"follows: {d}" for d in self.dropped]
        return "\n".join([*lines, *(f"acts nowhere: {name}: {reason}" for name, reason in self.idle.items())])


def minimize(rules: Sequence[Rule], beside: Sequence[Rule] = ()) -> Minimal:
    """Leave out each rule that follows from the rest, and from those `beside`, the longest rules first."""
    kept = list(rules)
    dropped: list[Derivation] = []
    for rule in sorted(rules, key=lambda r: (-len(str(r.left)), r.name)):
        rest = [r for r in kept if r is not rule]
        found = Deriver([*rest, *beside]).derive(rule)
        if found:
            kept = rest
            dropped.append(found)
    return Minimal(tuple(kept), tuple(dropped), idle_among(rules))


def idle_among(rules: Iterable[Rule]) -> dict[str, str]:
    """The rules that can be matched nowhere, with the reason."""
    return {r.name: reason for r in rules if (reason := why_idle(r))}


@dataclass(frozen=True)
class Break:
    """One step of a derivation by hand: "derived" (with the chain), "true" (proved, but by no rules that are known),
    "wrong" (with values), or "unknown"."""

    before: str
    after: str
    verdict: str
    chain: Chain | None = None
    reason: str = ""

    def __str__(self) -> str:
        by = f" by {', '.join(self.chain.rules)}" if self.chain is not None and self.chain.rules else ""
        return f"{self.verdict:8}{self.before} = {self.after}{by}{self.reason and f': {self.reason}'}"


def derivation(lines: Sequence[str], ranges: Ranges | None = None, rules: Sequence[Rule] = ()) -> list[Break]:
    """Does a derivation by hand, a term on each line, hold, and by which rules; else, where does it break?

    >>> for step in derivation(["(8*x + y) // 8", "x + y // 8", "x"], {"y": 8}):
    ...     print(step.verdict)
    derived
    derived
    """
    if len(lines) < 2:
        raise EqsatError("derivation", "has no step", "write two terms or more, one on each line")
    terms, _ = read(lines, ranges)  # names of ranges that occur in no line are an error
    known = [{leaf_name(leaf) for leaf in postorder(term) if leaf.op in LEAVES} for term in terms]
    found: list[Break] = []
    for (before, after), names in zip(pairwise(lines), (a | b for a, b in pairwise(known)), strict=True):
        own = {name: wanted for name, wanted in (ranges or {}).items() if name in names}
        proof = prove_equal(before, after, own)
        if proof.verdict == "refuted":
            shown = ", ".join(f"{k}={v}" for k, v in (proof.witness or {}).items())
            found.append(Break(before, after, "wrong", None, f"differs at {shown}"))
            continue
        try:
            found.append(Break(before, after, "derived", explain(before, after, own, rules=rules)))
        except EqsatError as error:
            verdict = "true" if proof else "unknown"
            found.append(Break(before, after, verdict, None, f"{error.problem} ({proof.method})"))
    return found

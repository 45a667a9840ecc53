"""Finding rules: pairs of terms with equal values, proved, and kept where they do not follow from what is known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import BOOL
from eqsat.ir.order import decreases
from eqsat.ir.rule import Instance, Kind, Parameter, Rule, variable
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute
from eqsat.research.candidates import Candidate, Names, candidates
from eqsat.research.derive import Deriver
from eqsat.research.grammar import ARITHMETIC, Classes, Grammar
from eqsat.research.paste import HEAD, rule_text
from eqsat.rulebook import check_rule
from eqsat.rulebook.acting import why_idle
from eqsat.rules import scalar_rules

SECONDS = 60.0
PROOF_SECONDS = 2.0
TRIED, TRIED_SECONDS = 60, 0.2  # terms and seconds in which a candidate may be derived
CHOOSING = frozenset(
    ("where", "and", "or", "not", "var")
)  # operations on values of all types; predicates may be constants
ENUMERATION, FINDING = 0.35, 0.85  # the shares of the time after which no more terms, and no more rules, are made


@dataclass(frozen=True)
class Found:
    """A rule that was found; `subsumes`: those of eqsat that follow from it alone; `subsumed_by`: one of eqsat from
    which it follows."""

    rule: Rule
    method: str
    subsumes: tuple[str, ...] = ()
    subsumed_by: str = ""

    def __str__(self) -> str:
        note = f"subsumed by {self.subsumed_by}" if self.subsumed_by else "new"
        more = f"; subsumes {', '.join(self.subsumes)}" if self.subsumes else ""
        return f"# {note}{more} [{self.method}]\n{rule_text(self.rule)}"


@dataclass(frozen=True)
class Discovery:
    """What was found, in the order in which it was: rules, and how many candidates came to what."""

    found: tuple[Found, ...]
    terms: int
    candidates: int
    derived: int
    refuted: int
    unknown: int
    seconds: float
    complete: bool

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules."""
        return tuple(f.rule for f in self.found)

    def data(self) -> dict[str, Any]:
        """The discovery as plain data."""
        rules = [
            {
                "name": f.rule.name,
                "law": str(f.rule).removeprefix(f"{f.rule.name}: "),
                "text": rule_text(f.rule),
                "tags": sorted(f.rule.tags),
                "method": f.method,
                "subsumes": list(f.subsumes),
                "subsumed_by": f.subsumed_by,
            }
            for f in self.found
        ]
        counts = {k: getattr(self, k) for k in ("terms", "candidates", "derived", "refuted", "unknown", "complete")}
        return {"rules": rules, **counts, "seconds": round(self.seconds, 2)}

    def to_json(self) -> str:
        """The discovery as JSON."""
        return json.dumps(self.data(), indent=1)

    def __str__(self) -> str:
        end = "" if self.complete else " (the time was over before all were looked at)"
        counts = f"{self.candidates} candidates of {self.terms} terms: {len(self.found)} rules, {self.derived} follow"
        tail = f"# {counts}, {self.refuted} refuted, {self.unknown} unknown, {self.seconds:.1f} s{end}"
        return "\n\n\n".join([HEAD, *map(str, self.found), tail])


def discover(
    grammar: Grammar = ARITHMETIC,
    known: Sequence[Rule] | None = None,
    *,
    seconds: float = SECONDS,
    most: int = 1_000,
    seed: int = 0,
    keep: Callable[[Candidate], bool] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Discovery:
    """Rules over a grammar that are true and do not follow from those that are known, nor from each other.

    known: omitted: all of eqsat, so that what is found is missing there; [] begins from nothing. seconds: in all.
    most: rules to find. keep: which candidates to look at. seed: of the points.

    >>> from eqsat.ir.rule import Kind
    >>> small = Grammar({"x": Kind.IDX, "a": Kind.POS}, operations=("floordiv", "mod", "mul"), size=2)
    >>> for rule in discover(small, []).rules:
    ...     print(str(rule).partition(": ")[2])
    a*x % a = 0
    a*x // a = x
    x % a // a = 0
    x % a % a = x % a
    x // a // a = x // (a*a)
    x // a = 0 when 0 <= x, x < a
    x % a = x when 0 <= x, x < a
    """
    begun = time.monotonic()
    tell = progress or _silent
    tell("making terms")
    classes = Classes(grammar, seed, begun + ENUMERATION * seconds)
    kept = {c for c in candidates(grammar, classes, seed) if keep is None or keep(c)}
    pairs = sorted(kept, key=lambda c: c.rank)
    names, seen = Names(grammar), set[Candidate]()
    base = list(scalar_rules() if known is None else known)
    search = _Search(grammar, base)
    done = 0
    for candidate in pairs:
        if time.monotonic() - begun > FINDING * seconds or len(search.kept) >= most:
            break
        done += 1
        candidate = names.canonical(candidate)
        if candidate in seen:
            continue
        seen.add(candidate)
        tell(f"{done} of {len(pairs)} candidates, {len(search.kept)} rules; {candidate.left} = {candidate.right}")
        search.look(candidate)
    tell("leaving out what follows")
    found = tuple(_compared(rule, method) for rule, method in search.least())
    spent = time.monotonic() - begun
    complete = classes.complete and done == len(pairs)
    counts = (len(classes.seen), len(seen), search.derived, search.refuted, search.unknown)
    return Discovery(found, *counts, spent, complete)


def _silent(text: str) -> None:
    """Who is told nothing of the progress."""


class _Search:
    """The rules kept so far, and what became of the candidates."""

    def __init__(self, grammar: Grammar, base: Sequence[Rule]) -> None:
        self.kinds = grammar.variables()
        self.base = list(base)
        self.kept: list[tuple[Rule, str]] = []
        self.deriver = Deriver(self.base, cases=0)  # a rule is missing where no simplifier splits the cases
        self.derived = self.refuted = self.unknown = 0

    def look(self, candidate: Candidate) -> None:
        """Keep a candidate that does not follow, once it is proved, under as few conditions as it needs."""
        rule = self.rule(candidate)
        if rule is None:
            return
        if self.follows(rule):
            self.derived += 1
            return
        report = check_rule(rule, seconds=PROOF_SECONDS)
        if report.status != "proved":
            if report.status == "refuted":
                self.refuted += 1
            else:
                self.unknown += 1
            return
        rule, method = self.weakened(rule, report.method)
        rule, method = _generalised(rule, method)
        self.kept.append((rule, method))
        self.deriver = Deriver([*(r for r, _ in self.kept), *self.base], cases=0)

    def rule(self, candidate: Candidate) -> Rule | None:
        """The candidate as a rule, from the larger side to the smaller one where one is, unless only the smaller one
        can be matched; None: neither can."""
        for left, right in candidate.directions:
            named = set(nodes_of("var", left))
            parameters = tuple(Parameter(str(v.payload), k) for v, k in self.kinds.items() if v in named)
            fixed = {v for v, k in self.kinds.items() if k is Kind.POS}
            tags = frozenset(("normal",) if decreases(left, right, fixed, ()) else ())
            instance = Instance(left, right, candidate.conditions)
            made = Rule(f"found-{len(self.kept) + 1}", f"{left} = {right}", parameters, (instance,), "", tags, "found")
            if not why_idle(made):
                return made
        return None

    def follows(self, rule: Rule) -> bool:
        """Whether a rule follows from those that are known or kept; one under conditions perhaps without them."""
        return self.deriver.by(rule, rule.instances[0], TRIED, TRIED_SECONDS) is not None

    def least(self) -> list[tuple[Rule, str]]:
        """The rules kept, without those that follow from others that were found later."""
        kept = list(self.kept)
        for pair in sorted(self.kept, key=lambda p: -cost(p[0].left)) + self.kept:
            rest = [p for p in kept if p is not pair]
            rule = pair[0]
            if (
                pair in kept
                and Deriver([*(r for r, _ in rest), *self.base], cases=0).by(rule, rule.instances[0], 0) is not None
            ):
                kept = rest
                self.derived += 1
        return kept

    def weakened(self, rule: Rule, method: str) -> tuple[Rule, str]:
        """The rule without the conditions that it does not need."""
        (instance,) = rule.instances
        for condition in instance.conditions:
            rest = tuple(c for c in rule.instances[0].conditions if c is not condition)
            weaker = Rule(
                rule.name, rule.doc, rule.parameters, (Instance(instance.left, instance.right, rest),), "", rule.tags,
                rule.family,
            )  # fmt: skip
            report = check_rule(weaker, seconds=PROOF_SECONDS)
            if report.status == "proved":
                rule, method = weaker, report.method
        return rule, method


def _generalised(rule: Rule, method: str) -> tuple[Rule, str]:
    """The rule about values of any type, where it only chooses between its indices."""
    (instance,) = rule.instances
    parameters = {p.name: replace(p, kind=Kind.ANY) if p.kind is Kind.IDX else p for p in rule.parameters}
    if instance.conditions or any(
        n.op not in CHOOSING and not (n.op == "const" and n.dtype == BOOL)
        for n in postorder(instance.left, instance.right)
    ):
        return rule, method
    table: dict[Term, Term] = {variable(p, ""): variable(parameters[p.name], "") for p in rule.parameters}
    sides = [substitute(side, table) for side in (instance.left, instance.right)]
    wider = replace(rule, parameters=tuple(parameters.values()), instances=(Instance(sides[0], sides[1], ()),))
    report = check_rule(wider, seconds=PROOF_SECONDS)
    return (wider, report.method) if report.status == "proved" and not why_idle(wider) else (rule, method)


def _compared(rule: Rule, method: str) -> Found:
    """The rule with what it has to do with the rules of eqsat."""
    (instance,) = rule.instances
    alone = Deriver([rule], cases=0)
    subsumes: list[str] = []
    subsumed = ""
    op = instance.left.op
    for ours in scalar_rules():
        if ours.left.op != op or ours.instances[0].dtype:
            continue
        if alone.by(ours, ours.instances[0], 0) is not None:
            subsumes.append(ours.name)
        if not subsumed and Deriver([ours], cases=0).by(rule, instance, 0) is not None:
            subsumed = ours.name
    return Found(rule, method, tuple(subsumes), subsumed)

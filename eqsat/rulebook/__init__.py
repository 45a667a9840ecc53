"""Checking rules: a declared law is proved, or refuted with its smallest counterexample, or not used by default.

A theorem has two parts: the sides are equal, and the right one is defined wherever the left one is. In laws with lazy
operations the values themselves may be undefined; the second part says that the right side does not look at more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Instance, Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.proving.prover import THOROUGH, Portfolio
from eqsat.proving.question import definedness
from eqsat.rulebook.acting import why_idle
from eqsat.rulebook.fuzz import Variables, box_of, confirmed, counterexample, is_lazy, variables_of
from eqsat.rulebook.laws import prove_law
from eqsat.rules import all_rules, scalar_rules

Status = Literal["proved", "axiom", "proved-bounded", "tested", "refuted", "unknown"]
BELIEVED: tuple[Status, ...] = ("proved", "axiom")
WORST_FIRST: tuple[Status, ...] = ("refuted", "unknown", "tested", "proved-bounded", "axiom", "proved")
LARGEST_CONSTANT = 6
SECONDS = 30.0  # for the trial of one theorem, and for its proof, as a last resort


@dataclass(frozen=True)
class RuleReport:
    """What is known about one rule. `witness`: values that refute it; `seconds`: time of the check; `note`: also why it
    can act nowhere, if so."""

    name: str
    family: str
    status: Status
    method: str
    seconds: float
    witness: Mapping[str, Any] | None = None
    note: str = ""
    text: str = ""

    def __str__(self) -> str:
        shown = f" at {dict(self.witness)}" if self.witness else ""
        return f"{self.status:14} {self.seconds:6.2f}s  {self.name}{shown}  [{self.method}]"


@dataclass(frozen=True)
class Rulebook:
    """The reports of a check, in the order of the rules."""

    reports: tuple[RuleReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every rule is proved or an axiom."""
        return all(r.status in BELIEVED for r in self.reports)

    def __getitem__(self, name: str) -> RuleReport:
        return next(r for r in self.reports if r.name == name)

    def counts(self) -> dict[str, int]:
        """The number of rules of each status."""
        found = {status: sum(r.status == status for r in self.reports) for status in reversed(WORST_FIRST)}
        return {status: n for status, n in found.items() if n}

    def to_json(self) -> str:
        """The reports as JSON."""
        return json.dumps({"counts": self.counts(), "rules": [asdict(r) for r in self.reports]}, indent=1, default=str)

    def to_junit(self) -> str:
        """The reports as JUnit XML: a rule that is not believed is a failure."""
        failures = sum(r.status not in BELIEVED for r in self.reports)
        head = f'<testsuite name="rules" tests="{len(self.reports)}" failures="{failures}">'
        return "\n".join(['<?xml version="1.0"?>', head, *map(_case, self.reports), "</testsuite>"])

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {status}" for status, n in self.counts().items())
        return "\n".join([*map(str, self.reports), counts])


def _case(report: RuleReport) -> str:
    head = f"<testcase classname={quoteattr('rules.' + report.family)} name={quoteattr(report.name)}"
    head += f' time="{report.seconds:.3f}"'
    if report.status in BELIEVED:
        return head + "/>"
    return f"{head}><failure message={quoteattr(str(report))}>{escape(report.text)}</failure></testcase>"


def check_rules(rules: Iterable[Rule | Law] | None = None, executor: Executor | None = None) -> Rulebook:
    """Check rules and laws (all of `eqsat.rules` when none are given); an executor runs them in parallel.

    >>> from eqsat.ir.rule import Idx, Pos
    >>> from eqsat.ir.rule import rule as declare
    >>> @declare("wrong")
    ... def wrong(x: Idx, c: Pos):
    ...     return x // c * c, x
    >>> report = check_rules([wrong])["wrong"]
    >>> report.status, report.witness
    ('refuted', {'x': 1, 'c': 2})
    """
    chosen = list(all_rules() if rules is None else rules)
    return Rulebook(tuple((executor.map if executor is not None else map)(check_rule, chosen)))


def check_rule(rule: Rule | Law) -> RuleReport:
    """Check all theorems of one rule: the report is that of the weakest."""
    begun = time.perf_counter()
    if isinstance(rule, Law):
        return _check_law(rule)
    reports = [_check(rule, instance) for instance in rule.instances]
    worst = min(reports, key=lambda r: WORST_FIRST.index(r.status))
    methods = dict.fromkeys(r.method for r in reports)
    idle = why_idle(rule)
    note = "; ".join(x for x in (worst.note, idle and f"can act nowhere: {idle}") if x)
    return replace(worst, method="; ".join(methods), seconds=time.perf_counter() - begun, note=note)


def _check_law(law: Law) -> RuleReport:
    proof = prove_law(law)
    status: Status = "axiom" if law.axiom and proof.verdict != "refuted" else proof.verdict
    note = "; ".join(proof.assumptions) or (proof.note if status == "unknown" else "")
    return RuleReport(law.name, law.family, status, proof.method, proof.seconds, proof.witness, note, str(law))


def _check(rule: Rule, instance: Instance) -> RuleReport:
    def report(status: Status, method: str, witness: Mapping[str, Any] | None = None, note: str = "") -> RuleReport:
        named = f"{instance.dtype}: {note}" if instance.dtype and note else note
        return RuleReport(rule.name, rule.family, status, method, 0.0, witness, named, str(rule))

    witness, tried = _tried(rule, instance)
    if witness is not None:
        return report("refuted", "numbers", witness, f"{instance.left} is not {instance.right}")
    try:
        with clock.at_most(SECONDS):
            found = _proved(rule, instance)
    except clock.OutOfTime:
        found = Finding("unknown", "clock", note=f"clock: more than {SECONDS:g} s")
    if found.witness is not None:
        witness = confirmed(rule, instance, found.witness)
        if witness is not None:
            return report("refuted", found.method, witness, f"{instance.left} is not {instance.right}")
        found = Finding("unknown", found.method, note=f"a witness is not confirmed: {dict(found.witness)}")
    loads = any(p.kind is Kind.BUFFER for p in rule.parameters)
    if found.status == "unknown" and not found.looks and tried and not loads:
        return report("tested", f"{tried} points", None, found.note)
    note = found.note or ("no proof was found" if found.status == "unknown" else "")
    return report(found.status, found.method, None, note)


def _tried(rule: Rule, instance: Instance) -> tuple[dict[str, Any] | None, int]:
    """A counterexample among numbers, and how many were tried."""
    try:
        with clock.at_most(SECONDS):
            return counterexample(rule, instance)
    except clock.OutOfTime:
        return None, 0


@dataclass(frozen=True)
class Finding:
    """What the provers say of a theorem; `looks`: it is equal, but the right side may be undefined."""

    status: Status
    method: str
    witness: Mapping[str, Any] | None = None
    note: str = ""
    looks: bool = False


def _proved(rule: Rule, instance: Instance) -> Finding:
    """The portfolio's verdict on a theorem: whichever member refutes a part of it refutes it."""
    # A rule from elsewhere may be proved by those of eqsat, but none of these by itself.
    own = any(r.name == rule.name and r.family == rule.family for r in scalar_rules())
    portfolio = Portfolio(replace(THOROUGH, rules=not own))
    variables = variables_of(rule, instance)
    box = box_of(variables)
    assumed = t.logical_and(*instance.conditions) if instance.conditions else None
    proof = portfolio.equal(instance.left, instance.right, box, assumed, hints=instance.hints)
    if proof.verdict == "refuted":
        return Finding("refuted", proof.method, proof.witness or {})
    if proof and is_lazy(instance):
        sides = [variables.partial(instance.left), variables.partial(instance.right)]
        before, after = definedness(sides)
        given = before if assumed is None else t.logical_and(assumed, before)
        looks = portfolio.prove(t.logical_or(t.logical_not(before), after), box, given)
        if not looks:
            witness = looks.witness or {} if looks.verdict == "refuted" else None
            note = f"the right side may be undefined: {looks.note}"
            return Finding(looks.verdict, looks.method, witness, note, looks=True)
    if proof:
        return Finding("proved", proof.method)
    bounded = _bounded(portfolio, variables, instance, box, assumed)
    return bounded or Finding("unknown", proof.method, note=proof.note)


def _bounded(
    portfolio: Portfolio, variables: Variables, instance: Instance, box: Any, assumed: Term | None
) -> Finding | None:
    """What is known where all constants are small."""
    constants = [v for v, k in variables.kinds.items() if k is Kind.POS]
    if not constants or len(constants) > 3:
        return None
    methods: dict[str, None] = {}
    for values in _tuples(len(constants)):
        table = {v: t.index_const(n) for v, n in zip(constants, values, strict=True)}
        condition = None if assumed is None else substitute(assumed, table)
        sides = substitute(instance.left, table), substitute(instance.right, table)
        proof = portfolio.equal(*sides, {v: r for v, r in box.items() if v not in table}, condition)
        if proof.verdict == "refuted":
            known = {str(v): n for v, n in zip(constants, values, strict=True)}
            return Finding("refuted", proof.method, {**(proof.witness or {}), **known})
        if not proof:
            return None
        methods[proof.method] = None
    return Finding("proved-bounded", "; ".join(methods), note=f"constants up to {LARGEST_CONSTANT}")


def _tuples(n: int) -> list[tuple[int, ...]]:
    result: list[tuple[int, ...]] = [()]
    for _ in range(n):
        result = [(*head, k) for head in result for k in range(1, LARGEST_CONSTANT + 1)]
    return result


def default_rules() -> list[Rule]:
    """The rules that the engine uses by default: all of `eqsat.rules`.

    Each of them is proved or an axiom: the tests and `eqsat rules check` fail where one is not.
    """
    return scalar_rules()


def admit(rules: Iterable[Rule], executor: Executor | None = None) -> list[Rule]:
    """Rules from elsewhere, after checking: an EqsatError names the first that acts nowhere, or is not proved."""
    chosen = list(rules)
    for rule in chosen:
        reason = why_idle(rule)
        if reason:
            raise EqsatError(f"rule {rule}", f"can act nowhere: {reason}", "write its left side so that it is matched")
    for report in check_rules(chosen, executor).reports:
        if report.status not in BELIEVED:
            witness = f" at {dict(report.witness)}" if report.witness else ""
            problem = f"{report.status}{witness}: {report.note}"
            raise EqsatError(f"rule {report.text}", problem, "only proved rules may be used")
    return chosen

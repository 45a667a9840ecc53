"""Checking rules: a declared law is proved, or refuted with its smallest counterexample, or not used by default.

A theorem has two parts: the sides are equal, and the right one is defined wherever the left one is. In laws with lazy
operations the values themselves may be undefined; the second part says that the right side does not look at more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.ir.law import Law, tensor
from eqsat.ir.rule import Instance, Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.proving.cache import cache_get, cache_key, cache_put
from eqsat.proving.points import Answer
from eqsat.proving.prover import THOROUGH, Portfolio
from eqsat.proving.question import definedness
from eqsat.rulebook.acting import why_idle
from eqsat.rulebook.fuzz import Variables, box_of, confirmed, counterexample, is_lazy, variables_of
from eqsat.rulebook.laws import prove_law
from eqsat.rulebook.packages import asked_for
from eqsat.rulebook.picture import picture
from eqsat.rulebook.report import BELIEVED, WORST_FIRST, Rulebook, RuleReport, Status
from eqsat.rulebook.tensor_search import prove_tensor_rule
from eqsat.rules import all_rules, scalar_rules

__all__ = ["BELIEVED", "RuleReport", "Rulebook", "admit", "check_rule", "check_rules", "default_rules"]

LARGEST_CONSTANT = 6
NEVER = 400_000  # of Z3, to ask whether hypotheses contradict each other
Given = TypeVar("Given", Rule, Law)
SECONDS = 30.0  # for the trial of one theorem, and for its proof, as a last resort


@keywords
def check_rules(
    rules: Iterable[Rule | Law] | None = None,
    executor: Executor | None = None,
    *,
    seconds: float | None = None,
    progress: Callable[[RuleReport], None] | None = None,
) -> Rulebook:
    """Check rules and laws (all of `eqsat.rules` when none are given).

    executor: any `concurrent.futures.Executor` runs them in parallel: threads, processes, a Dask cluster
    (`Client(address).get_executor()`). seconds: of wall clock for one rule, after which what is not known is unknown.
    progress: is called with each report as soon as there is one.

    >>> from eqsat.ir.rule import Idx, Pos
    >>> from eqsat.ir.rule import rule as declare
    >>> @declare("wrong")
    ... def wrong(x: Idx, c: Pos):
    ...     return x // c * c, x
    >>> report = check_rules([wrong])["wrong"]
    >>> report.status, report.witness
    ('refuted', {'x': 1, 'c': 2})
    """
    chosen: list[Rule | Law] = list(all_rules()) if rules is None else asked_for(rules, (Rule, Law))
    tell = progress or _silent
    check = partial(check_rule, seconds=seconds)
    if executor is None:
        reports: list[RuleReport] = []
        for rule in chosen:
            reports.append(check(rule))
            tell(reports[-1])
        return Rulebook(tuple(reports))
    futures = [executor.submit(check, rule) for rule in chosen]
    try:
        for future in as_completed(futures):
            tell(future.result())
        return Rulebook(tuple(future.result() for future in futures))
    finally:
        for future in futures:  # after an error or an interrupt nobody waits for the others
            future.cancel()


def _silent(report: RuleReport) -> None:
    """Who is told nothing of the progress."""


def check_rule(rule: Rule | Law, *, seconds: float | None = None) -> RuleReport:
    """Check all theorems of one rule: the report is that of the weakest. seconds: for all of them."""
    begun = time.perf_counter()
    try:
        with clock.at_most(seconds or _allowance(rule)):
            report = _check_law(rule) if isinstance(rule, Law) else _check_rule(rule)
    except clock.OutOfTime:
        clock.check()
        note = f"clock: more than {seconds or _allowance(rule):g} s"
        report = RuleReport(rule.name, rule.family, "unknown", "clock", 0.0, None, note, str(rule))
    return replace(report, seconds=time.perf_counter() - begun)


def _allowance(rule: Rule | Law) -> float:
    """The seconds that the check of a rule may take by default: of each of its theorems, trial and proof."""
    return 2 * SECONDS * (len(rule.instances) if isinstance(rule, Rule) else 1)


def _check_rule(rule: Rule) -> RuleReport:
    reports = [_check(rule, instance) for instance in rule.instances]
    worst = min(reports, key=lambda r: WORST_FIRST.index(r.status))
    methods = dict.fromkeys(r.method for r in reports)
    return replace(worst, method="; ".join(methods), note=_noted(worst.note, why_idle(rule) or _why_never(rule)))


def _why_never(rule: Rule | Law) -> str:
    """Why what a rule or law asks for holds nowhere, so that it is true of nothing; empty where it is not known to."""
    if isinstance(rule, Law):  # then the left side is any other tensor, too
        never = bool(rule.hypotheses and prove_tensor_rule(rule.left, tensor("any#"), rule.hypotheses, NEVER))
    else:
        never = all(i.conditions and _contradict(i.conditions, variables_of(rule, i)) for i in rule.instances)
    return "its conditions never hold together" if never else ""


def _contradict(conditions: Sequence[Term], variables: Variables) -> bool:
    return bool(Portfolio().prove(t.logical_not(t.logical_and(*conditions)), box_of(variables)))


def _noted(note: str, idle: str) -> str:
    """A note with why a rule can act nowhere."""
    return "; ".join(x for x in (note, idle and f"can act nowhere: {idle}") if x)


def _check_law(law: Law) -> RuleReport:
    key = cache_key(["law", repr((law.left, law.right, law.hypotheses, law.axiom))])
    known = cache_get(key)
    believed: Status = "axiom" if law.axiom else "proved"
    if known is not None and known.verdict == "proved":
        return RuleReport(law.name, law.family, believed, known.method, 0.0, None, known.note, str(law))
    proof = prove_law(law)
    status: Status = "axiom" if law.axiom and proof.verdict != "refuted" else proof.verdict
    never = _why_never(law) if status == "proved" else ""
    note = _noted("; ".join(proof.assumptions) or (proof.note if status == "unknown" else ""), never)
    if status == "refuted" and proof.witness:
        note = picture(proof.witness)
    if proof.verdict == "proved":
        cache_put(key, Answer("proved", proof.method, note=note))
    return RuleReport(law.name, law.family, status, proof.method, 0.0, proof.witness, note, str(law))


def _check(rule: Rule, instance: Instance) -> RuleReport:
    """The report on one theorem; what was proved once is proved, as long as the prover is the same."""
    own = _is_own(rule)
    roots = [instance.left, instance.right, *instance.conditions, *instance.hints]
    kinds = [f"{p.name} {p.kind.name}" for p in rule.parameters]
    shape = f"rule {own} {instance.dtype} {len(instance.conditions)}"
    key = cache_key([shape, *kinds, *(root.digest.hex() for root in roots)])
    known = cache_get(key)
    if known is not None and known.verdict == "proved":
        return RuleReport(rule.name, rule.family, "proved", known.method, 0.0, text=str(rule))
    report = _checked(rule, instance, own)
    if report.status == "proved":
        cache_put(key, Answer("proved", report.method))
    return report


def _is_own(rule: Rule) -> bool:
    """Whether a rule is one of eqsat. A rule from elsewhere may be proved by those, but none of these by itself."""
    return any(r.name == rule.name and r.family == rule.family for r in scalar_rules())


def _checked(rule: Rule, instance: Instance, own: bool) -> RuleReport:
    def report(status: Status, method: str, witness: Mapping[str, Any] | None = None, note: str = "") -> RuleReport:
        named = f"{instance.dtype}: {note}" if instance.dtype and note else note
        return RuleReport(rule.name, rule.family, status, method, 0.0, witness, named, str(rule))

    witness, tried = _tried(rule, instance)
    if witness is not None:
        return report("refuted", "numbers", witness, f"{instance.left} is not {instance.right}")
    try:
        with clock.at_most(SECONDS):
            found = _proved(rule, instance, own)
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


def _proved(rule: Rule, instance: Instance, own: bool) -> Finding:
    """The portfolio's verdict on a theorem: whichever member refutes a part of it refutes it."""
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


def admit(rules: Iterable[Given], executor: Executor | None = None) -> list[Given]:
    """Rules and laws from elsewhere, after checking: an EqsatError names the first that is not proved, or acts nowhere.

    >>> from eqsat.ir.rule import Idx
    >>> from eqsat.ir.rule import rule as declare
    >>> from eqsat.ir.rule import when
    >>> @declare("n")
    ... def never(x: Idx):
    ...     return x // 2, x, when(x < 0, x > 3)
    >>> admit([never])
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.EqsatError: rule n: x // 2 = x when x < 0, 3 < x: its conditions never hold together (weaken them)
    """
    chosen = list(rules)
    for rule in chosen:
        reason = why_idle(rule) if isinstance(rule, Rule) else ""
        if reason:
            raise EqsatError(f"rule {rule}", f"can act nowhere: {reason}", "write its left side so that it is matched")
    for rule, report in zip(chosen, check_rules(chosen, executor).reports, strict=True):
        kind = "rule" if isinstance(rule, Rule) else "law"
        if report.status not in BELIEVED:
            problem = f"{report.status}{report.where}: {report.note}".removesuffix(": ")
            raise EqsatError(f"{kind} {report.text}", problem, f"only proved {kind}s may be used")
        reason = _why_never(rule)
        if reason:
            raise EqsatError(f"{kind} {rule}", reason, "weaken them")
    return chosen

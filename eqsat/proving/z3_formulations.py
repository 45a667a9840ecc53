"""Asking Z3 one question in several formulations, each under a deterministic budget.

Nonlinear integer questions are brittle: the same theorem is instant in one spelling and out of reach in another. So
division is tried natively and by quotient and remainder (Euclid), with lemmas about differences of quotients, and under
two solvers; a conjunction is tried part by part, each part assuming the ones before, and then whole.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eqsat.ir import clock
from eqsat.ir.dtypes import INDEX, is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, rebuild
from eqsat.ir.terms.walk import conjuncts, expanded, postorder
from eqsat.proving.apart import MOST_SECONDS, Packed, apart, is_tame, pack, timed, unpack
from eqsat.proving.points import UNKNOWN, Answer, confirms
from eqsat.proving.question import Question
from eqsat.proving.z3 import Formulation, Translator, Untranslatable
from eqsat.proving.z3_check import verdict_of

LARGEST_IEEE = 60
_DIVISIONS = ("floordiv", "mod", "truncdiv", "truncmod")

NATIVE = Formulation()
EUCLID = Formulation(division="euclid")
NONLINEAR = (
    NATIVE,
    Formulation(division="euclid", lemmas="witness"),
    EUCLID,
    Formulation(division="euclid", lemmas="pairs"),
    Formulation(division="euclid", logic="QF_NIA"),
    Formulation(logic="QF_NIA"),
)
BITS = Formulation(index="bits")


def divides_by_unknown(roots: Sequence[Term]) -> bool:
    """Whether an index is multiplied or divided by something that is not a number."""
    nodes = [n for n in postorder(*roots) if n.dtype == INDEX]
    return any(n.op == "prod" or (n.op in _DIVISIONS and n.args[1].op != "const") for n in nodes)


def formulations(question: Question, most: int = len(NONLINEAR)) -> list[Formulation]:
    """The formulations worth trying, cheapest first; `most` of a nonlinear question."""
    roots = question.roots
    nodes = list(postorder(*roots))
    floats = any(is_float(n.dtype) for n in nodes)
    data = any(n.dtype not in (INDEX, "bool") for n in nodes)
    bitwise = any(n.dtype == INDEX and n.op in t.BITWISE for n in nodes)
    forms: list[Formulation] = list(NONLINEAR[:most]) if divides_by_unknown(roots) else [NATIVE]
    if question.finite and floats:
        return [replace(forms[0], floats="real"), forms[0]]
    if floats and len(nodes) <= LARGEST_IEEE:
        return [forms[0], replace(BITS, floats="ieee"), replace(NATIVE, floats="ieee")]
    return [BITS, *forms] if data or bitwise else [*forms[:1], BITS, *forms[1:]]


def _solver(translator: Translator, rlimit: int) -> Any:
    z3, logic = translator.z3, translator.form.logic
    solver = z3.SolverFor(logic, ctx=translator.context) if logic else z3.Solver(ctx=translator.context)
    solver.set("rlimit", rlimit)
    solver.set("timeout", max(1, int(1000 * min(MOST_SECONDS, clock.left()))))
    return solver


def _unknown_divisors(question: Question) -> set[Term]:
    nodes = postorder(*question.roots)
    return {n.args[1] for n in nodes if n.dtype == INDEX and n.op in _DIVISIONS and n.args[1].op != "const"}


def _positive_divisors(question: Question, rlimit: int) -> frozenset[Term]:
    """The divisors that the facts make positive."""
    divisors = _unknown_divisors(question)
    if not divisors:
        return frozenset()
    translator = Translator(question, NATIVE)
    solver = _solver(translator, rlimit)
    solver.add(*(translator.translate(f) for f in question.facts))
    found: set[Term] = set()
    for divisor in sorted(divisors, key=lambda d: d.digest):
        if translator.is_positive(divisor):
            found.add(divisor)
            continue
        here = translator.translate(divisor)
        solver.push()
        solver.add(*translator.constraints, here <= 0)
        if verdict_of(solver) == "unsat":
            found.add(divisor)
        solver.pop()
    return frozenset(found)


def _witness(numerator: Term, divisor: Term) -> Term | None:
    """The quotient that the spelling of a numerator suggests: u for u * divisor + rest."""
    _, parts = t.linear_parts(numerator)
    found: list[tuple[int, Term]] = []
    for c, summand in parts:
        factors = list(summand.args) if summand.op == "prod" else [summand]
        need = list(divisor.args) if divisor.op == "prod" else [divisor]
        for factor in need:
            at = next((k for k, f in enumerate(factors) if f is factor), None)
            if at is None:
                break
            del factors[at]
        else:
            found.append((c, t.product(factors)))
    return t.linear(0, found) if found else None


def _witnesses(roots: Sequence[Term]) -> dict[tuple[Term, ...], Term]:
    """For divisions by unknowns (numerator, divisor): the quotient their spelling suggests, inner ones replaced."""
    found: dict[tuple[Term, ...], Term] = {}
    guess: dict[Term, Term] = {}
    for node in postorder(*roots):
        if node.dtype != INDEX or not node.args:
            continue
        args = [guess.get(a, a) for a in node.args]
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        if node.op in ("floordiv", "mod") and node.args[1].op != "const":
            quotient = _witness(expanded(args[0]), args[1])
            if quotient is not None:
                found[node.args] = quotient
                guess[node] = quotient if node.op == "floordiv" else expanded(args[0] - quotient * args[1])
                continue
        if not same:
            guess[node] = rebuild(node, args)
    return found


def _apart(translator: Translator, u: Any, v: Any, divisor: Term) -> Any:
    """For integers u, v and b > 0: u = v, or b*u and b*v are at least b apart."""
    z3, b = translator.z3, translator.translate(divisor)
    lemma = z3.Or(u == v, b * u - b * v >= b, b * v - b * u >= b)
    return lemma if translator.is_positive(divisor) else z3.Implies(b > 0, lemma)


def _lemmas(translator: Translator, question: Question, part: Term) -> list[Any]:
    """Instances of the difference lemma: for suggested quotients, or for all pairs of quotients and goal sides."""
    known = translator.quotients
    if translator.form.lemmas == "witness":
        return [
            _apart(translator, known[operands][0], translator.translate(u), operands[1])
            for operands, u in _witnesses(question.roots).items()
            if operands in known
        ]
    pool = list(translator.pool)
    if part.op == "eq" and part.args[0].dtype == INDEX:
        pool.extend(translator.translate(a) for a in part.args)
    pool = [*(translator.translate(h) for h in question.hints if h.dtype == INDEX), *pool][:7]
    divisors = dict.fromkeys(operands[1] for operands in known if operands is not None and operands[1].op != "const")
    pairs = list(itertools.combinations(pool, 2))
    return [_apart(translator, u, v, d) for d in itertools.islice(divisors, 4) for u, v in pairs]


def ask_once(question: Question, part: Term, form: Formulation, positive: frozenset[Term], rlimit: int) -> Answer:
    """One formulation of one conjunct of the goal."""
    z3: Any = importlib.import_module("z3")
    try:
        translator = Translator(question, form, positive)
        facts = [translator.translate(f) for f in (*question.facts, *(h for h in question.hints if h.dtype == "bool"))]
        goal = translator.translate(part)
        extra = _lemmas(translator, question, part) if form.lemmas else []
        solver = _solver(translator, rlimit)
        solver.add(*translator.constraints, *facts, *extra, z3.Not(goal))
        verdict = verdict_of(solver)
        if verdict == "unsat":
            return Answer("proved", form.name)
        if verdict == "sat":
            point = translator.values(solver.model(), question.variables)
            if confirms(question, point):
                return Answer("refuted", form.name, point)
            return Answer("unknown", form.name, note="counter-model leans on something uninterpreted")
        if solver.reason_unknown() == "timeout":
            return Answer("unknown", form.name, note="z3: clock")
    except Untranslatable:
        return UNKNOWN
    except z3.Z3Exception as error:
        return Answer("unknown", form.name, note=f"z3: {error}")
    return Answer("unknown", form.name, note="z3: budget spent")


def asked(argument: tuple[float, tuple[Packed, Formulation, int]], _: object) -> Answer:
    """`ask_once` as a job of a worker."""

    def work(rest: tuple[Packed, Formulation, int]) -> Answer:
        packed, form, rlimit = rest
        question, (part, *positive) = unpack(packed)
        return ask_once(question, part, form, frozenset(positive), rlimit)

    return timed(argument, work)


def ask(question: Question, part: Term, form: Formulation, positive: frozenset[Term], rlimit: int) -> Answer:
    """`ask_once`, where Z3 may not keep to its budget in a process that can be ended."""
    clock.check()
    if is_tame((*question.facts, *question.hints, part), rlimit):
        return ask_once(question, part, form, positive, rlimit)
    more = [part, *sorted(positive, key=lambda d: d.digest)]
    return apart("eqsat.proving.z3_formulations:asked", (pack(question, more), form, rlimit), "z3")


def positive_apart(argument: tuple[float, tuple[Packed, int]], _: object) -> list[bytes]:
    """`_positive_divisors` as a job of a worker; terms are named by their digests."""

    def work(rest: tuple[Packed, int]) -> list[bytes]:
        packed, rlimit = rest
        return [d.digest for d in _positive_divisors(unpack(packed)[0], rlimit)]

    return timed(argument, work)


def _positive(question: Question, rlimit: int) -> frozenset[Term]:
    divisors = _unknown_divisors(question)
    if not divisors or is_tame((*question.facts, *divisors), rlimit):
        return _positive_divisors(question, rlimit)
    found = apart("eqsat.proving.z3_formulations:positive_apart", (pack(question), rlimit), "z3")
    return frozenset() if isinstance(found, Answer) else frozenset(d for d in divisors if d.digest in found)


def z3_claim(question: Question, budgets: Sequence[int], most: int = len(NONLINEAR)) -> Answer:
    """Decide a claim with `most` formulations of nonlinear arithmetic; bool hints must have been proved before."""
    forms = formulations(question, most)
    if all(v.leaf.dtype == INDEX and v.start is not None and v.stop is not None for v in question.variables):
        budgets = budgets[:1]  # what a bounded question does not give at once, it rarely gives later
    positive = _positive(question, budgets[0])
    parts = list(conjuncts(question.goal))
    methods: dict[str, None] = {}
    note = ""
    for n, part in enumerate(parts):
        answer = _by_budget(question, part, forms, positive, budgets)
        if answer.verdict == "refuted":
            return answer
        if answer.verdict == "unknown":
            note = answer.note
            break
        methods[answer.method] = None
        if n + 1 < len(parts):
            question = replace(question, facts=(*question.facts, part))
    else:
        return Answer("proved", " + ".join(methods))
    if len(parts) == 1:
        return Answer("unknown", "z3", note=note)
    return _by_budget(question, question.goal, forms, positive, budgets[:1])


def _by_budget(
    question: Question,
    part: Term,
    forms: Sequence[Formulation],
    positive: frozenset[Term],
    budgets: Sequence[int],
) -> Answer:
    """Every formulation with the least budget first, then with the greater ones."""
    notes: dict[str, None] = {}
    undecided = list(forms)
    for rlimit in budgets:
        for form in list(undecided):
            answer = ask(question, part, form, positive, rlimit)
            if answer.verdict != "unknown":
                return answer
            notes[answer.note] = None
            if "budget" not in answer.note:
                undecided.remove(form)
            if not clock.left():
                return Answer("unknown", "z3", note="z3: clock")
    return Answer("unknown", "z3", note="; ".join(n for n in notes if n))

"""The prover portfolio: is a predicate always true, are two terms equal, is a map injective.

Answers are three-valued. Members run from the cheapest to the most powerful, each under a budget that does not depend
on the machine, so a verdict is the same everywhere; numpy confirms every refutation before it is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec

from eqsat.ir import clock
from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import BOOL, INDEX, is_float
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.ir.terms import term as t
from eqsat.ir.terms.exact import TooLarge
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import point_names
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.proving.bits import bits_equal, bits_injective, bitwise_equal
from eqsat.proving.cache import cache_clear, cache_get, cache_info, cache_key, cache_put
from eqsat.proving.congruence import congruence_claim
from eqsat.proving.digits import digits_injective, peeled_injective
from eqsat.proving.isl import isl_claim, isl_injective
from eqsat.proving.period import period_claim
from eqsat.proving.points import (
    UNKNOWN,
    Answer,
    confirms,
    confirms_collision,
    contradicted,
    enumerate_collisions,
    enumerate_points,
    point_count,
    probe,
    trivial,
)
from eqsat.proving.question import Asked, Box, Question, Shapes, Variable, claim, collision, definedness, refinement
from eqsat.proving.range import settled
from eqsat.proving.read import Ranges, read, read_written
from eqsat.proving.rules import rules_claim
from eqsat.proving.serial import serial_claim
from eqsat.proving.trial import Trial
from eqsat.proving.z3_formulations import NONLINEAR, z3_claim

__all__ = ["Budget", "Portfolio", "cache_clear", "cache_info", "decide", "prove", "prove_equal"]

P = ParamSpec("P")
Decision = Literal["always", "never", "sometimes", "unknown"]
FINITE = "finite: real arithmetic, without NaN, infinity, signed zero or rounding"


@dataclass(frozen=True)
class Budget:
    """What each member may spend on one question; the same on every machine.

    points: how many points numpy tries; few_points: below this it goes first; isl_operations; z3_rlimits: resource
    units of each Z3 formulation, one round after the other (400,000 are about 0.1 s); z3_formulations: how many of
    them a nonlinear question gets; rules: whether the declared rules may decide what isl and numpy do not; seconds:
    of wall clock for the whole question, after which the answer is unknown: far more than the others take, so that it
    ends only what does not heed them.
    """

    points: int = 1 << 21
    few_points: int = 1 << 14
    isl_operations: int = 1_000_000
    z3_rlimits: tuple[int, ...] = (400_000, 1_500_000)
    z3_formulations: int = 4
    rules: bool = True
    seconds: float = 20.0


THOROUGH = Budget(
    isl_operations=10_000_000, z3_rlimits=(400_000, 4_000_000, 40_000_000), z3_formulations=len(NONLINEAR), rules=False,
    seconds=30.0,
)  # fmt: skip
"""For checking rules, where a question is asked once, and no rule may be used."""


def _in_time(method: Callable[Concatenate[Portfolio, P], Proof]) -> Callable[Concatenate[Portfolio, P], Proof]:
    """The method under the budget's clock: unknown where that ends it."""

    @wraps(method)
    def timed(self: Portfolio, *args: P.args, **kwargs: P.kwargs) -> Proof:
        begun = time.perf_counter()
        try:
            with clock.at_most(self.budget.seconds):
                return method(self, *args, **kwargs)
        except clock.OutOfTime:
            clock.check()  # where the time of a caller is over, too, the answer is the caller's
            note = f"clock: more than {self.budget.seconds:g} s"
            return Proof("unknown", method="clock", seconds=time.perf_counter() - begun, note=note)

    return timed


class Portfolio:
    """The prover behind `eqsat.ir.decide`: it asks all members in turn. Cheap to make; solvers load on first use.

    >>> from eqsat.ir.terms.term import ax
    >>> i = ax(0, 14)
    >>> Portfolio().injective([i // 4, i % 4], {i: (0, 14)}).verdict
    'proved'
    """

    def __init__(self, budget: Budget | None = None, cached: bool = True) -> None:
        self.budget = budget or Budget()
        self.cached = cached

    @_in_time
    def prove(
        self,
        claim_: Term,
        box: Box,
        assuming: Term | None = None,
        *,
        shapes: Shapes | None = None,
        finite: bool = False,
        hints: Sequence[Term] = (),
    ) -> Proof:
        """Is the predicate defined and true on the whole box (None: no bound), wherever the assumption holds?

        An assumption that never holds proves everything (`eq.prove` refuses it). `shapes` gives operands and buffers
        their extents, against which loads are checked; `finite` allows real arithmetic for floats, which the proof then
        records; `hints` are lemmas (bool terms, proved first) or witness quotients (index terms).
        """
        return self._claim(claim(claim_, box, assuming, shapes, finite, hints), assuming)

    @_in_time
    def equal(
        self,
        a: Term,
        b: Term,
        box: Box,
        assuming: Term | None = None,
        *,
        shapes: Shapes | None = None,
        finite: bool = False,
        hints: Sequence[Term] = (),
    ) -> Proof:
        """Wherever `a` is defined: is `b` defined and the same value (for floats bit by bit, all NaN being one)?"""
        return self._claim(refinement(a, b, box, assuming, shapes, finite, hints), assuming)

    @_in_time
    def injective(self, outputs: Sequence[Term], box: Box, assuming: Term | None = None) -> Proof:
        """Are the outputs defined, and do different points of the box give different outputs?

        The witness of a refutation is {"first": point, "second": point}.
        """
        begun = time.perf_counter()
        asked = collision(outputs, box, assuming)
        if asked.vacuous:
            return _proof(asked, Answer("proved", "structure", note="the box is empty"), begun, assuming)
        defined = self._answer(replace(asked.question, outputs=()))
        if defined.verdict != "proved":
            return _proof(asked, replace(defined, note="the map is not defined everywhere"), begun, assuming)
        question = replace(settled(asked.question), goal=t.TRUE)
        return _proof(asked, self._injective(question), begun, assuming)

    def decide(
        self, predicate: Term, box: Box, assuming: Term | None = None, *, shapes: Shapes | None = None
    ) -> Decision:
        """Whether a predicate holds always, never or sometimes on the box; where it is undefined it does not hold."""
        try:
            with clock.at_most(self.budget.seconds):
                return self._decided(predicate, box, assuming, shapes)
        except clock.OutOfTime:
            clock.check()
            return "unknown"

    def _decided(self, predicate: Term, box: Box, assuming: Term | None, shapes: Shapes | None) -> Decision:
        if shapes is None:
            trial = Trial(predicate, box, assuming)
            if trial.possible and trial.varies(predicate):
                return "sometimes"
        holds = self.prove(predicate, box, assuming, shapes=shapes)
        if holds:
            return "always"
        fails = self.prove(t.logical_not(t.logical_and(definedness([predicate], shapes)[0], predicate)), box, assuming)
        if fails:
            return "never"
        return "sometimes" if holds.verdict == fails.verdict == "refuted" else "unknown"

    @_in_time
    def consistent(self, assuming: Term, box: Box) -> Proof:
        """Does the assumption hold somewhere on the box? Refuted: nowhere."""
        asked = claim(t.FALSE, box, assuming)
        if asked.vacuous:
            return Proof("proved", method="structure", note="the box is empty")
        answer = self._answer(asked.question)
        verdict = {"proved": "refuted", "refuted": "proved"}.get(answer.verdict, "unknown")
        return _proof(asked, replace(answer, verdict=verdict), time.perf_counter(), None)

    # -- members -------------------------------------------------------------------------------------------------------

    def _claim(self, asked: Asked, assuming: Term | None) -> Proof:
        begun = time.perf_counter()
        if asked.vacuous:
            return _proof(asked, Answer("proved", "structure", note="the box is empty"), begun, assuming)
        question = asked.question
        if question.hints:
            question = replace(question, hints=self._proved_hints(question))
        answer = self._answer(replace(question, finite=False))
        if answer.verdict == "proved" or not question.finite:
            return _proof(asked, answer, begun, assuming)
        if not any(is_float(n.dtype) for n in postorder(*question.roots)):
            return _proof(asked, answer, begun, assuming)
        answer = self._answer(question)
        return _proof(asked, answer, begun, assuming, (FINITE,) if answer.verdict == "proved" else ())

    def _proved_hints(self, question: Question) -> tuple[Term, ...]:
        bare = replace(question, hints=())
        return tuple(
            h for h in question.hints if h.dtype == INDEX or self._answer(replace(bare, goal=h)).verdict == "proved"
        )

    def _answer(self, question: Question) -> Answer:
        budget = self.budget
        question = settled(question)
        if any(v.empty for v in question.variables):
            return Answer("proved", "structure", note="the assumptions never hold")
        if question.finite:
            return self._stored("claim", question, [self._over_reals])
        few = point_count(question) or 0
        small = _if(0 < few <= budget.few_points, budget.few_points)
        quick = self._first(question, [trivial, small, bits_equal, bitwise_equal, probe])
        if quick.verdict != "unknown":
            return quick
        return self._stored(
            "claim",
            question,
            [
                lambda q: isl_claim(q, budget.isl_operations),
                lambda q: enumerate_points(q, budget.points),
                lambda q: period_claim(q, min(budget.points, 8 * budget.few_points)),
                *([rules_claim] if budget.rules else []),
                serial_claim,
                congruence_claim,
                self._z3_claim,
            ],
        )

    def _z3_claim(self, question: Question) -> Answer:
        """A proof by Z3, where there may be one."""
        if contradicted(question):
            return Answer("unknown", "enumeration", note="what memory holds may contradict it")
        return z3_claim(question, self.budget.z3_rlimits, self.budget.z3_formulations)

    def _over_reals(self, question: Question) -> Answer:
        """Over the reals a counterexample says nothing about floats."""
        answer = z3_claim(question, self.budget.z3_rlimits, self.budget.z3_formulations)
        return answer if answer.verdict == "proved" else Answer("unknown", answer.method, note=answer.note)

    def _injective(self, question: Question) -> Answer:
        budget = self.budget

        def small(q: Question) -> Answer:
            return enumerate_collisions(q, 4 * budget.few_points)

        quick = self._first(question, [digits_injective, bits_injective, small])
        if quick.verdict != "unknown":
            return quick
        return self._stored(
            "injective",
            question,
            [
                lambda q: isl_injective(q, budget.isl_operations),
                lambda q: enumerate_collisions(q, budget.points),
                *([self._by_digits] if budget.rules else []),
                lambda q: _by_pairs(q, budget.z3_rlimits, budget.z3_formulations),
            ],
        )

    def _by_digits(self, question: Question) -> Answer:
        """Injectivity by digits of symbolic sizes; what bounds do not show of a digit is a question."""
        plain = replace(question, outputs=())
        quick = replace(self.budget, z3_rlimits=self.budget.z3_rlimits[:1])
        ask = Portfolio(quick, cached=False)
        return peeled_injective(question, lambda goal: ask._answer(replace(plain, goal=goal)).verdict == "proved")

    def _first(self, question: Question, members: Sequence[Callable[[Question], Answer]]) -> Answer:
        """The first definite answer; refutations count only where numpy confirms them."""
        notes: dict[str, None] = {}
        for member in members:
            clock.check()
            try:
                answer = member(question)
                if answer.verdict == "proved" or (answer.verdict == "refuted" and _confirmed(question, answer)):
                    return answer
            except TooLarge as error:
                answer = Answer("unknown", "", note=error.problem)
            notes[answer.note] = None
        return Answer("unknown", "portfolio", note="; ".join(n for n in notes if n))

    def _stored(self, kind: str, question: Question, members: Sequence[Callable[[Question], Answer]]) -> Answer:
        """The same through the cache on disk."""
        if not self.cached:
            return self._first(question, members)
        key = cache_key([kind, repr(self.budget), *question.parts()])
        found = cache_get(key)
        if found is not None and (found.verdict != "refuted" or _confirmed(question, found)):
            return found
        answer = self._first(question, members)
        if "clock" not in answer.note:  # what a clock ended may go on longer elsewhere
            cache_put(key, answer)
        return answer


def _if(condition: bool, limit: int) -> Callable[[Question], Answer]:
    return (lambda q: enumerate_points(q, limit)) if condition else (lambda _: UNKNOWN)


def _confirmed(question: Question, answer: Answer) -> bool:
    if answer.witness is None:
        return False
    if not question.outputs:
        return confirms(question, answer.witness)
    return answer.second is not None and confirms_collision(question, answer.witness, answer.second)


def _by_pairs(question: Question, budgets: Sequence[int], forms: int) -> Answer:
    """Injectivity as a claim about two points."""
    n = len(question.variables)
    table = {v.leaf: t.make("var", (), f"v{k + n}") for k, v in enumerate(question.variables)}
    twins = [Variable(table[v.leaf], v.start, v.stop, v.multiple_of) for v in question.variables]
    facts = [*question.facts, *(substitute(f, table) for f in question.facts)]
    apart = [t.compare("ne", o, substitute(o, table)) for o in question.outputs]
    same = t.logical_and(*(t.compare("eq", a, b) for a, b in table.items()))
    pairs = Question((*question.variables, *twins), tuple(facts), t.logical_or(*apart, same))
    answer = probe(pairs)
    if answer.verdict == "unknown":
        answer = z3_claim(settled(pairs), budgets, forms)
    if answer.verdict != "refuted" or answer.witness is None:
        return answer
    return Answer("refuted", answer.method, answer.witness[:n], answer.witness[n:])


def _names(leaves: Sequence[Term]) -> list[str]:
    """Distinct names for the leaves of a witness."""
    names: list[str] = []
    for name in point_names(leaves):
        while name in names:
            name += "'"
        names.append(name)
    return names


def _proof(asked: Asked, answer: Answer, begun: float, assuming: Term | None, extra: tuple[str, ...] = ()) -> Proof:
    verdict: Any = answer.verdict
    names = _names([*asked.leaves, *(axis for axis, _ in asked.idle)])
    idle = [start or 0 if stop is None or start is not None else stop - 1 for _, (start, stop) in asked.idle]

    order = {axis: k for k, axis in enumerate(asked.axes)}  # the asker's order
    leaves = [*asked.leaves, *(axis for axis, _ in asked.idle)]

    def point(values: tuple[Any, ...]) -> dict[str, Any]:
        rows = zip(leaves, names, [*values, *idle], strict=True)
        return {name: value for _, name, value in sorted(rows, key=lambda row: order.get(row[0], len(order)))}

    witness: Mapping[str, Any] | None = None
    if answer.witness is not None:
        witness = point(answer.witness)
        if answer.second is not None:
            witness = {"first": witness, "second": point(answer.second)}
    assumptions = (*((str(assuming),) if assuming is not None else ()), *extra)
    return Proof(verdict, witness, answer.method, time.perf_counter() - begun, answer.note, assumptions)


# -- the public functions ---------------------------------------------------------------------------------------------


def _ask(e: Any, ranges: Ranges | None, assuming: Any, portfolio: Portfolio) -> tuple[Term, Box, Term | None]:
    exprs = [e] if assuming is None else [e, assuming]
    terms, asked, box = read_written(exprs, ranges)
    if terms[0].dtype != BOOL:
        raise EqsatError(f"proof of {terms[0]}", f"has type {terms[0].dtype}, not bool", "compare it with something")
    given = t.logical_and(asked[1], terms[1]) if assuming is not None else None
    if given is not None and portfolio.consistent(given, box).verdict == "refuted":
        raise EqsatError(f"assumption {given}", "contradictory: it holds nowhere in the ranges", "drop or correct it")
    return t.logical_and(asked[0], terms[0]), box, given


@keywords
def prove(
    e: Any,
    ranges: Ranges | None = None,
    assuming: Any = None,
    *,
    finite: bool = False,
    hints: Sequence[Term] = (),
    budget: Budget | None = None,
) -> Proof:
    """Is a predicate (a term, or text for `parse_expr`) defined and true everywhere in the ranges?

    ranges: {name: extent} or {name: (start, stop)}, stop exclusive, None for no bound; omitted: the axes' extents.
    assuming: a predicate that may be used; one that holds nowhere is an EqsatError.
    Text is asked about as it is written: `4//y - 4//y == 0` is undefined at y = 0. A term is what is left after it was
    built, and building folds: nothing is known of what disappeared.

    >>> prove("4*io + ii < 14", {"io": 4, "ii": 4}).witness
    {'io': 3, 'ii': 2}
    >>> prove("x // 4 * 4 + x % 4 == x").verdict
    'proved'
    """
    portfolio = Portfolio(budget)
    goal, box, given = _ask(e, ranges, assuming, portfolio)
    return portfolio.prove(goal, box, given, finite=finite, hints=hints)


def prove_equal(a: Any, b: Any, ranges: Ranges | None = None) -> Proof:
    """Wherever `a` is defined: is `b` defined and the same value?

    >>> prove_equal("(8*x + y) // 8", "x", {"y": 8}).verdict
    'proved'
    """
    (first, second), box = read([a, b], ranges)
    return Portfolio().equal(first, second, box)


@keywords
def decide(e: Any, ranges: Ranges | None = None, assuming: Any = None) -> Decision:
    """Whether a predicate holds "always", "never" or "sometimes" in the ranges, or that this is "unknown".

    A predicate does not hold where it is undefined: "always" is defined and true everywhere, "never" nowhere. Text is
    read as it is written, a term without what folded when it was built, as `prove` does.

    >>> decide("4*io + ii < 14", {"io": 3, "ii": 4}), decide("i // 4 == i % 4", {"i": 16})
    ('always', 'sometimes')
    """
    portfolio = Portfolio()
    goal, box, given = _ask(e, ranges, assuming, portfolio)
    return portfolio.decide(goal, box, given)

"""The two exact members, bits in series and one period, agree with trying points, on random claims."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, var
from eqsat.ir.terms.text import parse_expr
from eqsat.proving.period import period_claim
from eqsat.proving.points import enumerate_points, evaluable
from eqsat.proving.question import Question, claim
from eqsat.proving.serial import serial_claim

LEAVES = tuple(var(name) for name in "xyz")
BITWISE = ("bitand", "bitor", "bitxor")
EXACT = 1 << 16


def apply(op: str, p: Term, q: Term) -> Term:
    return t.binary(op, p, q)


def divide(op: str, p: Term, n: int) -> Term:
    return t.binary(op, p, n)


def scale(p: Term, c: int, q: Term) -> Term:
    return p * c + q


def choose(p: Term, q: Term, r: Term) -> Term:
    return t.where(p < q, q, r)


def times(p: Term, q: Term) -> Term:
    return p * q


def over(a: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.one_of(
        st.builds(scale, a, st.integers(-3, 3), a),
        st.builds(apply, st.sampled_from(BITWISE), a, a),
        st.builds(divide, st.sampled_from(("floordiv", "mod")), a, st.integers(1, 9)),
        st.builds(choose, a, a, a),
    )


def terms() -> st.SearchStrategy[Term]:
    leaf = st.sampled_from(LEAVES) | st.integers(-5, 9).map(t.index_const)
    return st.recursive(leaf, over, max_leaves=5)


def claims() -> st.SearchStrategy[Term]:
    return st.builds(t.compare, st.sampled_from(("eq", "ne", "lt", "le")), terms(), terms())


def boxes() -> st.SearchStrategy[dict[Term, tuple[int, int]]]:
    side = st.tuples(st.integers(-9, 5), st.integers(1, 14)).map(lambda r: (r[0], r[0] + r[1]))
    return st.fixed_dictionaries({leaf: side for leaf in LEAVES})


def check(question: Question, answer: Any, truth: Any) -> None:
    assert truth.verdict in ("proved", "refuted")
    if answer.verdict == "unknown":
        return
    assert answer.verdict == truth.verdict, (question, answer, truth)
    if answer.verdict == "refuted":
        here = {v.leaf: (x, x + 1) for v, x in zip(question.variables, answer.witness, strict=True)}
        assert all(v.start <= x < v.stop for v, x in zip(question.variables, answer.witness, strict=True))
        assert enumerate_points(claim(question.goal, here).question, 1).verdict == "refuted"


@settings(max_examples=12)
@given(claims(), boxes())
def test_bits_in_series_agree_with_all_points(goal: Term, box: Any) -> None:  # feature: J2
    question = claim(goal, box).question
    check(question, serial_claim(question), enumerate_points(question, EXACT))


@given(claims())
def test_bits_in_series_without_bounds(goal: Term) -> None:
    """What is proved for all integers holds on a box; what is refuted is refuted by its witness."""
    question = claim(goal, {}).question
    answer = serial_claim(question)
    if answer.verdict == "proved":
        small = claim(goal, {leaf: (-12, 13) for leaf in LEAVES}).question
        assert enumerate_points(small, EXACT).verdict == "proved"
    elif answer.verdict == "refuted":
        here = {v.leaf: (x, x + 1) for v, x in zip(question.variables, answer.witness or (), strict=True)}
        assert enumerate_points(claim(question.goal, here).question, 1).verdict == "refuted"


def products(a: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return over(a) | st.builds(times, a, a)


def polynomials() -> st.SearchStrategy[Term]:
    return st.recursive(st.sampled_from(LEAVES), products, max_leaves=5)


@given(polynomials(), polynomials(), st.integers(1, 7), st.integers(1, 5))
def test_one_period_is_enough(a: Term, b: Term, m: int, d: int) -> None:
    goal = t.compare("eq", a % m, b // d % m)
    question = claim(goal, {}).question
    answer = period_claim(question, EXACT)
    for start in (-31, 0, 1000):
        box = {leaf: (start + k, start + k + 16) for k, leaf in enumerate(LEAVES)}
        near = claim(goal, box).question
        if answer.verdict == "proved" and evaluable(near.roots):
            assert enumerate_points(near, EXACT).verdict == "proved"
    if answer.verdict == "refuted":
        here = {v.leaf: (x, x + 1) for v, x in zip(question.variables, answer.witness or (), strict=True)}
        assert enumerate_points(claim(question.goal, here).question, 1).verdict == "refuted"


@pytest.mark.parametrize(
    ("text", "decide", "verdict"),
    [
        ("(x ^ y) + 2*(x & y) == x + y", serial_claim, "proved"),
        ("(x & -x) <= 1", serial_claim, "refuted"),
        ("(x ^ (x // 2)) == 0", serial_claim, "refuted"),
        ("x - (x & 7) == x // 8 * 8", serial_claim, "proved"),
        ("(x | 1023) >= x", serial_claim, "proved"),
        ("minimum(x, y) ^ maximum(x, y) ^ x == y", serial_claim, "proved"),
        ("x * (x+1) * (x+2) % 6 == 0", period_claim, "proved"),
        ("x*x % 8 != 5", period_claim, "proved"),
        ("(x*x + y*y) % 4 != 3", period_claim, "proved"),
        ("x*x // 3 % 2 == x // 3 % 2", period_claim, "refuted"),
        ("(x + 1) % 4 == x % 2 + 1", period_claim, "refuted"),
        ("(2*x + 1) % 8 // 2 == x % 4", period_claim, "proved"),
    ],
)
def test_they_decide(text: str, decide: Any, verdict: str) -> None:
    question = claim(parse_expr(text), {}).question
    answer = decide(question, EXACT) if decide is period_claim else decide(question)
    assert answer.verdict == verdict

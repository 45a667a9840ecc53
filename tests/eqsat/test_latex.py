"""Terms as sympy expressions mean what they mean, and print as LaTeX whatever they are."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st
from term_strategies import Undefined, plain_value, terms

import eqsat as eq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.latex import as_sympy, latex

X, Y = t.var("i"), t.var("j")
BINARY = ("floordiv", "mod", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr")


def larger(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    factor = st.integers(-3, 3)
    pair = st.tuples(parts, parts)
    claim = st.tuples(st.sampled_from(t.COMPARE), pair).map(lambda x: t.compare(x[0], *x[1]))
    both = st.tuples(st.sampled_from(("and", "or")), claim, claim).map(lambda x: t.junction(x[0], x[1:]))
    return st.one_of(
        st.tuples(st.sampled_from(BINARY), pair).map(lambda x: t.binary(x[0], *x[1])),
        st.tuples(factor, factor, pair).map(lambda x: x[0] * x[2][0] + x[1] * x[2][1] + x[0]),
        pair.map(lambda x: x[0] * x[1]),
        parts.map(t.absolute),
        st.tuples(st.one_of(claim, both, claim.map(t.logical_not)), pair).map(lambda x: t.where(x[0], *x[1])),
    )


SMALL = st.recursive(st.sampled_from((X, Y, *map(t.index_const, (-2, 1, 3, 4)))), larger, max_leaves=8)


@example(t.absolute(Y % (X * Y)))
@example(t.where(X < Y, t.binary("shl", X, X), X % X))
@given(SMALL)
def test_an_expression_has_the_values_of_its_term(term: Term) -> None:
    expression = as_sympy(term)
    for point in ((0, 0), (7, 2), (-5, 3), (13, -4), (1, 9)):
        env = dict(zip((X, Y), point, strict=True))
        try:
            wanted = [plain_value(x, env) for x in postorder(term)][-1]
        except Undefined:
            continue  # also in an arm that is not taken: sympy works out all of them
        # Both at once: sympy takes j mod -5*j for j.
        here = {sympy.Symbol(name): sympy.Integer(value) for name, value in zip("ij", point, strict=True)}
        assert expression.xreplace(here).doit() == wanted, (term, point)


@given(terms(steps=16))
def test_every_term_prints(term: Term) -> None:
    text = latex(term)
    assert text and text.count("{") == text.count("}") and text.count(r"\left") == text.count(r"\right")


@pytest.mark.parametrize("steps", [20, 60, 400])
def test_deep_and_shared_terms_print_as_their_texts_do(steps: int) -> None:
    """A tree of 2^60 nodes has no end, and from 100 levels on sympy's printer leaves Python's stack."""
    shared, deep = X, X
    for _ in range(steps):
        shared, deep = shared // 7 * 8 + shared % 7, (3 * deep + 1) // 2
    for term, least in ((shared, steps - 1), (deep, steps // 40)):
        text = latex(term)
        *named, last = text.split(r",\quad ")
        names = [part.partition(" = ")[0] for part in named]
        assert least <= len(names) == len(set(names)) and len(text) < 400 * steps
        for n, name in enumerate(names):  # each is used behind its definition, not before
            assert all(name not in part for part in named[:n]) and any(name in part for part in [*named[n + 1 :], last])


def test_names_of_parts_are_no_names_of_the_term() -> None:
    term: Term = t.var("t0")
    for _ in range(6):
        term = term // 7 * 8 + term % 7
    first, second, *_ = latex(term).split(r",\quad ")
    assert first.startswith("t_{0 1} = ") and r"\left(t_{0} \bmod 7\right)" in first
    assert second.startswith("t_{1} = ") and r"\left(t_{0 1} \bmod 7\right)" in second


def test_what_readers_see() -> None:
    i, j, n = X, Y, eq.symbol("N")
    assert latex((i + 1) % n) == r"\left(i + 1\right) \bmod N"
    assert latex(4 * (i ^ j)) == r"4 \left(i \oplus j\right)"
    assert latex(eq.maximum(i, j)) == r"\max\left(i, j\right)"
    assert latex(t.load(0, (i, j), "float32") * 2) == r"{\$0}_{i,j} 2.0"
    assert latex(t.logical_or(i < 4, t.logical_not(j < 2))) == r"2 \leq j \vee i < 4"

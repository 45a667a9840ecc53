"""Equations that are linear over bits: what is found gives each equation its value."""

from __future__ import annotations

import itertools

import pytest

from eqsat.index_graph.bits import solve_bits
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute

A, B, P, Q = (t.var(name) for name in "abpq")
WIDTHS = {A: 4, B: 4, P: 2, Q: 4}


def found(*equations: tuple[Term, Term]) -> dict[Term, Term]:
    return solve_bits(equations, lambda x: x is not P and x is not Q, WIDTHS.get)


@pytest.mark.parametrize(
    "equations",
    [
        [(A ^ Q, Q)],  # what is known on both sides cancels
        [(A, P)],  # a value of fewer bits says that the others are zero
        [(A ^ (A // 2), Q)],
        [(A ^ B, Q), (B, P)],
        [(A ^ P ^ (Q // 4), Q)],
        [(A ^ 5, Q)],
    ],
)
def test_what_is_found_solves_the_equations(equations: list[tuple[Term, Term]]) -> None:
    values = found(*equations)
    assert A in values
    for p, q in itertools.product(range(4), range(16)):
        numbers = {P: t.index_const(p), Q: t.index_const(q)}
        solved = {x: substitute(v, numbers) for x, v in values.items()}
        for left, right in equations:
            assert substitute(substitute(left, solved), numbers) is substitute(right, numbers), (p, q)


def test_what_the_values_leave_open_is_not_found() -> None:
    assert found((A // 2, P)) == {} and found((A ^ B, Q)) == {}

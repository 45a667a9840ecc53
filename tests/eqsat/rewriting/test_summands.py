"""Which summands of a long sum a pattern may mean: found by their coefficients, not by trying all pairs."""

from __future__ import annotations

import pytest
from counting import counted
from seeds import each_value

from eqsat.ir.terms import term as t
from eqsat.rewriting.match_constants import Constants
from eqsat.simplifying.simplify import simplify

i, n = t.var("i"), t.sym("N")


def digits(number: int) -> t.Term:
    """A sum of different digits, of which no two are one."""
    return t.linear(0, [(k + 1, (i // (3 * k + 2)) % (k % 13 + 3)) for k in range(number)])


def test_a_sum_of_many_digits_is_not_tried_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    for number in (40, 80):
        calls = counted(monkeypatch, Constants, "equation")
        simplify(digits(number))
        numbers.append(len(calls))
    assert 0 < numbers[1] <= 2.5 * numbers[0]


def test_a_match_that_needs_a_summand_that_is_not_there_builds_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """`x % c` wants an `x`, or another multiple of `x // c`: without one, the other summands are not looked at."""
    built = counted(monkeypatch, t, "linear")
    for number in (50, 90):  # sums of the test above are known
        e = digits(number)
        built.clear()
        simplify(e)
        assert sum(len(list(parts)) >= number - 2 for _, parts in built) <= 4


@each_value(factor=[1, 5, -3, n], size=[4, n])
def test_parts_of_one_index_are_found_among_many_others(factor: int | t.Term, size: int | t.Term) -> None:
    """Whatever the coefficient is made of, behind other digits that are none of it."""
    size = t.as_index(size)
    pair = factor * size * ((i + 1) // size) + factor * ((i + 1) % size)
    others = digits(12)
    assert simplify(others + pair, {"i": 1000}) is simplify(others + factor * (i + 1), {"i": 1000})


def test_an_index_without_its_rest_is_found_among_many_others() -> None:
    others = digits(12)
    assert simplify(others + i - i % 8, {"i": 1000}) is simplify(others + 8 * (i // 8), {"i": 1000})

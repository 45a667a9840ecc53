"""The verdict on a rule is that of the member of the portfolio that knows: what one refutes is refuted, and a wrong
rule is never called tested, however far its first counterexample lies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import rulebook
from eqsat.ir.errors import EvaluationError
from eqsat.ir.rule import Data, Idx, Pos, Pred, Rule, rule, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.rulebook import check_rule
from eqsat.rulebook.fuzz import confirmed, counterexample


def least(a: Any, b: Any) -> Term:
    return t.binary("min", t.as_index(a), t.as_index(b))


def is_equal(a: Any, b: Any) -> Term:
    return t.compare("eq", t.as_index(a), t.as_index(b))


# -- rules that look true up to a large number ------------------------------------------------------------------------


def cut_quotient(k: int, n: int) -> Rule:
    def declare(x: Idx) -> Any:
        return least(x // k, n), x // k, when(x >= 0, x < k * (n + 1) + 1)

    return rule("cut quotient")(declare)


def cut(k: int, n: int) -> Rule:
    def declare(x: Idx) -> Any:
        return least(x, k), x, when(x <= k + n)

    return rule("cut")(declare)


def remainder_at_the_end(k: int, n: int) -> Rule:
    def declare(x: Idx, c: Pos) -> Any:
        return x % (c * k), x, when(x >= 0, x <= c * k)

    return rule("remainder at the end")(declare)


def one_value(k: int, n: int) -> Rule:
    def declare(x: Idx) -> Any:
        return t.where(is_equal(x, k), x + n, x), x

    return rule("one value")(declare)


def one_product(k: int, n: int) -> Rule:
    def declare(x: Idx, c: Pos) -> Any:
        return t.where(is_equal(x * c, k), x + n, x), x

    return rule("one product")(declare)


def carry_of_sums(k: int, n: int) -> Rule:
    def declare(x: Idx, y: Idx) -> Any:
        return (x + y) // k, x // k + y // k, when(x >= 0, x < k, y >= 0, y <= n)

    return rule("carry of sums")(declare)


def one_sided(k: int, n: int) -> Rule:
    def declare(x: Idx, y: Idx) -> Any:
        return t.logical_and(x < k, y < n), t.logical_and(x < k + 1, y < n)

    return rule("one sided")(declare)


def unequal_digits(k: int, n: int) -> Rule:
    def declare(x: Idx) -> Any:
        return x // k * k + x % (k + 1), x, when(x >= 0)

    return rule("unequal digits")(declare)


def undefined_far_away(k: int, n: int) -> Rule:
    def declare(x: Idx, y: Idx) -> Any:
        return t.logical_or(x >= k, y >= 0), t.logical_or(y >= 0, x >= k)

    return rule("undefined far away")(declare)


def undefined_predicate(k: int, n: int) -> Rule:
    def declare(p: Pred, x: Idx) -> Any:
        return t.logical_and(x < -k, p), t.logical_and(p, x < -k)

    return rule("undefined predicate")(declare)


def masked(k: int, n: int) -> Rule:
    bits = k.bit_length()

    def declare(x: Idx) -> Any:
        return x & ((1 << bits) - 1), x, when(x >= 0, x <= 1 << bits)

    return rule("masked")(declare)


FAR = [
    cut_quotient, cut, remainder_at_the_end, one_value, one_product, carry_of_sums, one_sided, unequal_digits,
    undefined_far_away, undefined_predicate, masked,
]  # fmt: skip


@given(st.sampled_from(FAR), st.integers(10**3, 10**9) | st.integers(2, 40).map(lambda b: 2**b), st.integers(1, 50))
def test_a_wrong_rule_is_refuted_however_far_away(make: Any, k: int, n: int) -> None:  # feature: J2 J7
    report = check_rule(make(k, n))
    assert report.status == "refuted", report
    assert report.witness


# -- a later stage that refutes ---------------------------------------------------------------------------------------


def none_tried(*_: object) -> tuple[None, int]:
    return None, 10_000


@pytest.mark.parametrize("make", FAR, ids=lambda make: make.__name__)
def test_the_provers_refute_without_the_sampling(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage by itself: whatever numbers were tried before, a refutation of the portfolio stands."""
    monkeypatch.setattr(rulebook, "counterexample", none_tried)
    report = check_rule(make(123_457, 7))
    assert report.status in ("refuted", "unknown"), report
    assert (report.status == "refuted" and report.witness) or make in (one_product,), report


@pytest.mark.parametrize("make", [make for make in FAR if make not in (undefined_predicate, masked)])
def test_the_sampling_refutes_without_the_provers(make: Any) -> None:
    """Numbers beside the constants of a rule are tried, and their products and quotients."""
    wrong = make(123_456_789, 7)
    assert counterexample(wrong, wrong.instances[0])[0] is not None


def test_the_witness_is_the_smallest_that_is_cheap_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "counterexample", none_tried)
    report = check_rule(cut_quotient(1000, 7))
    assert report.status == "refuted" and report.witness == {"x": 8000}
    wrong = cut(10**9, 10**6)
    assert confirmed(wrong, wrong.instances[0], {"x": 10**9 + 10**5}) == {"x": 10**9 + 1}
    assert confirmed(wrong, wrong.instances[0], {"x": 5}) is None


# -- true rules that are proved by general means ----------------------------------------------------------------------


def low_digit(x: Idx, y: Idx):
    return t.binary("bitor", x, 4 * y), x + 4 * y, when(x >= 0, x < 4)


def carry_save(x: Idx, y: Idx):
    return (x ^ y) + 2 * (x & y), x + y


def or_and(x: Idx, y: Idx):
    return t.binary("bitor", x, y) + (x & y), x + y


def borrow(x: Idx, y: Idx):
    return x - y, (x ^ y) - 2 * ((-1 - x) & y)


def odd_and_even(x: Idx):
    return (x & 1) + 2 * (x // 2), x


def median_of_bits(x: Idx, y: Idx, z: Idx):
    return (x ^ y ^ z) + 2 * t.binary("bitor", x & y, z & (x ^ y)), x + y + z


def clamp_twice(x: Data):
    zero = t.const(0, x.dtype)
    once = t.binary("max", x, zero)
    return t.binary("max", once, zero), once


def power_of_a_prime(x: Idx):
    return x * x * x * x * x * x * x % 7, x % 7


def squares_mod_4(x: Idx):
    return x * x % 4, x % 2


PROVED: list[tuple[Any, tuple[str, ...]]] = [
    (low_digit, ()), (carry_save, ()), (or_and, ()), (borrow, ()), (odd_and_even, ()), (median_of_bits, ()),
    (clamp_twice, ("float16", "float32", "float64", "int8")), (power_of_a_prime, ()), (squares_mod_4, ()),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "dtypes"), PROVED, ids=lambda x: getattr(x, "__name__", ""))
def test_true_rules_are_proved(declare: Any, dtypes: tuple[str, ...]) -> None:  # feature: J2
    report = check_rule(rule("true", dtypes=dtypes)(declare))
    assert report.status == "proved", report


def test_a_rule_from_elsewhere_is_proved_by_those_of_eqsat_and_these_by_no_rule() -> None:
    @rule("digit of a multiple")
    def digit(x: Idx, a: Pos):
        return x % (4 * a) // 4, x // 4 % a

    assert check_rule(digit).status == "proved"
    assert "rules" not in check_rule(rulebook.scalar_rules()[0]).method


def test_numbers_without_end_are_not_computed() -> None:
    x = t.var("x")
    big = x
    for k in range(40):
        big = big * (big + k)
    with pytest.raises(EvaluationError, match="bits"):
        big.evaluate({"x": 10})

"""Rules that follow from the others, and are therefore none of ours."""

import pytest

from eqsat.ir.rule import Elem, Family, Idx, Pos, Pred, Rule, Total, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.research.derive import Deriver
from eqsat.rules import scalar_rules

FOLLOW = Family("follow")
rule = FOLLOW.rule
ZERO = t.index_const(0)


def nonneg(x: Term) -> Term:
    return t.compare("le", ZERO, x)


@rule("where-not")
def where_not(p: Pred, x: Elem, y: Elem):
    """Selecting by an opposite exchanges the branches."""
    return t.where(t.logical_not(p), x, y), t.where(p, y, x)


@rule("ne-where")
def ne_where(p: Pred, x: Idx, y: Idx, z: Idx):
    """A difference of a selection is one of the value that is selected."""
    then, other = t.compare("ne", ZERO, x + z), t.compare("ne", ZERO, y + z)
    either = t.logical_or(t.logical_and(p, then), t.logical_and(t.logical_not(p), other))
    return t.compare("ne", ZERO, t.where(p, x, y) + z), either


@rule("and-implied")
def and_implied(x: Idx, y: Idx):
    """The weaker of two comparisons adds nothing to the stronger."""
    return t.logical_and(nonneg(x), nonneg(y)), nonneg(x), when(x <= y)


@rule("or-implied")
def or_implied(x: Idx, y: Total):
    """The stronger of two comparisons adds nothing to the weaker."""
    return t.logical_or(nonneg(x), nonneg(y)), nonneg(y), when(x <= y)


@rule("and-exclusive")
def and_exclusive(x: Idx, y: Idx):
    """Two comparisons that exclude each other never hold together."""
    return t.logical_and(nonneg(x), nonneg(y)), False, when(x + y < 0)


@rule("or-exhaustive")
def or_exhaustive(x: Idx, y: Idx):
    """Two comparisons that leave nothing out always hold."""
    return t.logical_or(nonneg(x), nonneg(y)), True, when(x + y >= -1)


@rule("le-split")
def le_split(x: Idx, y: Idx, c: Pos):
    """A comparison of a sum of digits is decided by the high digit, and by the low one where the high one is zero."""
    high = t.logical_or(x > 0, t.logical_and(t.compare("eq", ZERO, x), nonneg(y)))
    return nonneg(c * x + y), high, when(-c <= y, y < c)


@rule("split-rest-moved")
def split_rest_moved(x: Idx, c: Pos):
    """What is left of a number is its remainder: the law of digits with a summand on the other side."""
    return x - c * (x // c), x % c


@pytest.fixture(scope="module")
def deriver() -> Deriver:
    return Deriver([r for r in scalar_rules() if r.name != "split-rest"])


@pytest.mark.parametrize("gone", list(FOLLOW), ids=lambda gone: gone.name)
def test_rules_that_went_follow_from_the_rest(gone: Rule, deriver: Deriver) -> None:
    assert deriver.derive(gone)


WRONG = Family("wrong")
rule_wrong = WRONG.rule


@rule_wrong("and-not-implied")
def and_not_implied(x: Idx, y: Idx):
    """Not true where only y is below zero."""
    return t.logical_and(nonneg(x), nonneg(y)), nonneg(x), when(x <= y + 1)


@rule_wrong("split-beyond")
def split_beyond(x: Idx, y: Idx, c: Pos):
    """Not true where y is c or more, or below -c."""
    high = t.logical_or(x > 0, t.logical_and(t.compare("eq", ZERO, x), nonneg(y)))
    return nonneg(c * x + y), high, when(-c - 1 <= y, y <= c)


@rule_wrong("where-same")
def where_same(p: Pred, x: Elem, y: Elem):
    """Not true where the predicate is false."""
    return t.where(p, x, y), x


@pytest.mark.parametrize("gone", list(WRONG), ids=lambda gone: gone.name)
def test_cases_derive_nothing_that_is_wrong(gone: Rule, deriver: Deriver) -> None:
    assert not deriver.derive(gone)

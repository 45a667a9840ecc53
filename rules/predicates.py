"""Laws of predicates: comparisons of indices against their bounds, digit by digit, and the logic of and, or and not.

Every comparison of indices is `0 <= d` or `0 == d` for a sum d (the `one-side` laws); so a law about `0 <= d` is a law
about `<`, `<=`, `>` and `>=`. `and` and `or` are lazy: no law here lets a predicate be evaluated where it was not.
"""

from __future__ import annotations

from eqsat.ir.rule import Family, Idx, Pos, Pred, Total, choose, when
from eqsat.ir.terms import term as t

RULES = Family("predicates")
rule = RULES.rule

ZERO = t.index_const(0)


def _nonneg(x: t.Term) -> t.Term:
    return t.compare("le", ZERO, x)


def _zero(x: t.Term) -> t.Term:
    return t.compare("eq", ZERO, x)


def _nonzero(x: t.Term) -> t.Term:
    return t.compare("ne", ZERO, x)


def _either_way(p: t.Term, then: t.Term, other: t.Term) -> t.Term:
    """What is true of the one value where the predicate holds, and of the other where it does not."""
    return t.logical_or(t.logical_and(p, then), t.logical_and(t.logical_not(p), other))


@rule("le-digit", tags=["normal"])
def le_digit(x: Idx, y: Idx, c: Pos):
    """A low digit does not decide a comparison at its high digit; a common factor is divided out."""
    return _nonneg(c * x + y), _nonneg(x), when(y >= 0, y < c)


@rule("eq-digit", tags=["normal"])
def eq_digit(x: Idx, y: Idx, c: Pos):
    """A sum of digits is zero where both digits are."""
    return _zero(c * x + y), t.logical_and(_zero(x), _zero(y)), when(-c < y, y < c)


@rule("ne-digit", tags=["normal"])
def ne_digit(x: Idx, y: Idx, c: Pos):
    """A sum of digits differs from zero where a digit does."""
    return _nonzero(c * x + y), t.logical_or(_nonzero(x), _nonzero(y)), when(-c < y, y < c)


@rule("le-div", tags=["normal"])
def le_div(x: Idx, y: Idx, c: Pos):
    """A lower bound of a quotient is one of the dividend."""
    return _nonneg(x // c + y), _nonneg(x + c * y)


@rule("le-minus-div", tags=["normal"])
def le_minus_div(x: Idx, y: Idx, c: Pos):
    """An upper bound of a quotient is one of the dividend."""
    return _nonneg(y - x // c), _nonneg(c * y + (c - 1) - x)


@rule("le-own-remainder", tags=["normal"])
def le_own_remainder(x: Idx, y: Idx, c: Pos):
    """A value that is not above its remainder is below the divisor."""
    return _nonneg(x % c + y), _nonneg(c - 1 - x), when(t.compare("eq", x + y, 0))


@rule("le-above-remainder", tags=["normal"])
def le_above_remainder(x: Idx, y: Idx, c: Pos):
    """A value above its remainder is not below the divisor."""
    return _nonneg(y - x % c), _nonneg(x - c), when(t.compare("eq", y - x, -1))


@rule("eq-two-sides", tags=["normal"])
def eq_two_sides(x: Idx):
    """Equality is two comparisons, of which the bounds may decide one."""
    return _zero(x), t.logical_and(_nonneg(x), _nonneg(-x))


@rule("ne-two-sides", tags=["normal"])
def ne_two_sides(x: Idx):
    """A difference is one of two comparisons, of which the bounds may decide one."""
    return _nonzero(x), t.logical_or(_nonneg(x - 1), _nonneg(-x - 1))


@rule("and-equal", tags=["finish"])
def and_equal(x: Idx, y: Idx):
    """Two comparisons that leave one value are an equality."""
    return t.logical_and(_nonneg(x), _nonneg(y)), _zero(x), when(t.compare("eq", x + y, 0))


@rule("or-different", tags=["finish"])
def or_different(x: Idx, y: Idx):
    """Two comparisons that leave out one value are a difference."""
    return t.logical_or(_nonneg(x), _nonneg(y)), _nonzero(x + 1), when(t.compare("eq", x + y, -2))


@rule("le-tight-last", tags=["tight"])
def le_tight_last(x: Idx, y: Idx, c: Pos, d: Pos):
    """Where a factor only has to rule out all but the last value, a smaller one does."""
    return _nonneg(c * x + y), _nonneg(d * x + y), when(x <= 0, y < d, d <= c), choose(d, above=y)


@rule("le-tight-first", tags=["tight"])
def le_tight_first(x: Idx, y: Idx, c: Pos, d: Pos):
    """Where a factor only has to admit all but the first value, a smaller one does."""
    return _nonneg(c * x + y), _nonneg(d * x + y), when(x >= 0, -d <= y, d <= c), choose(d, below=y)


@rule("le-radix-last", tags=["finish"])
def le_radix_last(x: Idx, y: Idx, c: Pos, d: Pos):
    """Where a factor only has to rule out all but the last value, it may be the radix of the rest."""
    return _nonneg(c * x + y), _nonneg(d * x + y), when(x <= 0, y < c, y < d), choose(d, width_of=y)


@rule("le-radix-first", tags=["finish"])
def le_radix_first(x: Idx, y: Idx, c: Pos, d: Pos):
    """Where a factor only has to admit all but the first value, it may be the radix of the rest."""
    return _nonneg(c * x + y), _nonneg(d * x + y), when(x >= 0, -c <= y, -d <= y), choose(d, width_of=y)


@rule("le-merge-or", source="RFC 77", tags=["compact"])
def le_merge_or(x: Idx, y: Total, c: Pos):
    """A high digit that is not the last, or a low digit within its limit, is one comparison of the merged index."""
    left = t.logical_or(_nonneg(x), _nonneg(y))
    return left, _nonneg(c * (x + 1) + y), when(x >= -1, -c <= y), choose(c, width_of=y)


@rule("le-merge-and", source="RFC 77", tags=["compact"])
def le_merge_and(x: Idx, y: Total, c: Pos):
    """A high digit that is the last, and a low digit within its limit, is one comparison of the merged index."""
    return t.logical_and(_nonneg(x), _nonneg(y)), _nonneg(c * x + y), when(x <= 0, y < c), choose(c, width_of=y)


@rule("le-plus-where", tags=["expansive"])
def le_plus_where(p: Pred, x: Idx, y: Idx, z: Idx):
    """A lower bound of a selection is one of the value that is selected."""
    return _nonneg(t.where(p, x, y) + z), _either_way(p, _nonneg(x + z), _nonneg(y + z))


@rule("le-minus-where", tags=["expansive"])
def le_minus_where(p: Pred, x: Idx, y: Idx, z: Idx):
    """An upper bound of a selection is one of the value that is selected."""
    return _nonneg(z - t.where(p, x, y)), _either_way(p, _nonneg(z - x), _nonneg(z - y))


@rule("eq-where", tags=["expansive"])
def eq_where(p: Pred, x: Idx, y: Idx, z: Idx):
    """An equality of a selection is one of the value that is selected."""
    return _zero(t.where(p, x, y) + z), _either_way(p, _zero(x + z), _zero(y + z))


@rule("le-plus-min", tags=["expansive"])
def le_plus_min(x: Idx, y: Idx, z: Idx):
    """A lower bound of the smaller value is one of both."""
    return _nonneg(t.binary("min", x, y) + z), t.logical_and(_nonneg(x + z), _nonneg(y + z))


@rule("le-minus-max", tags=["expansive"])
def le_minus_max(x: Idx, y: Idx, z: Idx):
    """An upper bound of the greater value is one of both."""
    return _nonneg(z - t.binary("max", x, y)), t.logical_and(_nonneg(z - x), _nonneg(z - y))


@rule("le-plus-max", tags=["expansive"])
def le_plus_max(x: Idx, y: Idx, z: Idx):
    """A lower bound of the greater value is one of either."""
    return _nonneg(t.binary("max", x, y) + z), t.logical_or(_nonneg(x + z), _nonneg(y + z))


@rule("le-minus-min", tags=["expansive"])
def le_minus_min(x: Idx, y: Idx, z: Idx):
    """An upper bound of the smaller value is one of either."""
    return _nonneg(z - t.binary("min", x, y)), t.logical_or(_nonneg(z - x), _nonneg(z - y))


@rule("not-and", tags=["normal"])
def not_and(p: Pred, q: Pred):
    """De Morgan's law; the order of evaluation stays."""
    return t.logical_not(t.logical_and(p, q)), t.logical_or(t.logical_not(p), t.logical_not(q))


@rule("not-or", tags=["normal"])
def not_or(p: Pred, q: Pred):
    """De Morgan's law; the order of evaluation stays."""
    return t.logical_not(t.logical_or(p, q)), t.logical_and(t.logical_not(p), t.logical_not(q))

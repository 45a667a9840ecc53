"""Laws of min, max and where: what the bounds decide, what repeats, and how selections nest.

The laws of `where` hold for values of any type, because they only move them.
"""

from __future__ import annotations

from eqsat.ir.rule import Elem, Family, Idx, Num, Pos, Pred, Total, when
from eqsat.ir.terms import term as t

RULES = Family("minmax_where")
rule = RULES.rule


def _min(x: t.TermLike, y: t.TermLike) -> t.Term:
    return t.binary("min", x, y)


def _max(x: t.TermLike, y: t.TermLike) -> t.Term:
    return t.binary("max", x, y)


@rule("min-of-ordered", tags=["normal"])
def min_of_ordered(x: Idx, y: Idx):
    """The smaller of two ordered values is the first."""
    return _min(x, y), x, when(x <= y)


@rule("max-of-ordered", tags=["normal"])
def max_of_ordered(x: Idx, y: Idx):
    """The greater of two ordered values is the second."""
    return _max(x, y), y, when(x <= y)


@rule("min-of-max", tags=["normal"])
def min_of_max(x: Idx, y: Idx, z: Idx):
    """min absorbs a max of the same value, or of a greater one."""
    return _min(x, _max(y, z)), x, when(x <= y)


@rule("max-of-min", tags=["normal"])
def max_of_min(x: Idx, y: Idx, z: Idx):
    """max absorbs a min of the same value, or of a smaller one."""
    return _max(x, _min(y, z)), x, when(y <= x)


@rule("min-of-min", tags=["normal"])
def min_of_min(x: Idx, y: Idx, z: Idx):
    """The smallest of three need not look at the greater of an ordered pair."""
    return _min(x, _min(y, z)), _min(x, z), when(x <= y)


@rule("max-of-max", tags=["normal"])
def max_of_max(x: Idx, y: Idx, z: Idx):
    """The greatest of three need not look at the smaller of an ordered pair."""
    return _max(x, _max(y, z)), _max(x, z), when(y <= x)


@rule("min-plus-max", tags=["normal"])
def min_plus_max(x: Idx, y: Idx, z: Idx, w: Idx):
    """The smaller and the greater of two values are both values; the second pair may be moved."""
    return _min(x, y) + _max(z, w), x + w, when(t.compare("eq", x - y - z + w, 0))


@rule("min-div", tags=["both"])
def min_div(x: Idx, y: Idx, c: Pos):
    """Floor division is monotone, so it passes through min."""
    return _min(x, y) // c, _min(x // c, y // c)


@rule("max-div", tags=["both"])
def max_div(x: Idx, y: Idx, c: Pos):
    """Floor division is monotone, so it passes through max."""
    return _max(x, y) // c, _max(x // c, y // c)


@rule("min-div-first", tags=["normal"])
def min_div_first(x: Idx, y: Idx, c: Pos):
    """A minimum below a division is the value with the smaller quotient, even if it is not the smaller value."""
    return _min(x, y) // c, x // c, when(x // c <= y // c)


@rule("max-div-first", tags=["normal"])
def max_div_first(x: Idx, y: Idx, c: Pos):
    """A maximum below a division is the value with the greater quotient, even if it is not the greater value."""
    return _max(x, y) // c, x // c, when(y // c <= x // c)


@rule("where-min", tags=["normal"])
def where_min(x: Idx, y: Idx):
    """Selecting the smaller value is min."""
    return t.where(x < y, x, y), _min(x, y)


@rule("where-min-le", tags=["normal"])
def where_min_le(x: Idx, y: Idx):
    """Selecting the smaller value is min."""
    return t.where(x <= y, x, y), _min(x, y)


@rule("where-max", tags=["normal"])
def where_max(x: Idx, y: Idx):
    """Selecting the greater value is max."""
    return t.where(x < y, y, x), _max(x, y)


@rule("where-max-le", tags=["normal"])
def where_max_le(x: Idx, y: Idx):
    """Selecting the greater value is max."""
    return t.where(x <= y, y, x), _max(x, y)


@rule("where-min-next", tags=["normal"])
def where_min_next(x: Idx, y: Idx, z: Total):
    """Selecting the smaller value is min where the limit is the other value, or one more."""
    return t.where(x < y, x, z), _min(x, z), when(y <= z + 1, z <= y)


@rule("where-min-le-next", tags=["normal"])
def where_min_le_next(x: Idx, y: Idx, z: Total):
    """Selecting the smaller value is min where the limit is the other value, or one less."""
    return t.where(x <= y, x, z), _min(x, z), when(y <= z, z <= y + 1)


@rule("where-max-next", tags=["normal"])
def where_max_next(x: Idx, y: Idx, z: Total):
    """Selecting the greater value is max where the limit is the other value, or one more."""
    return t.where(x < y, z, x), _max(x, z), when(y <= z + 1, z <= y)


@rule("where-max-le-next", tags=["normal"])
def where_max_le_next(x: Idx, y: Idx, z: Total):
    """Selecting the greater value is max where the limit is the other value, or one less."""
    return t.where(x <= y, z, x), _max(x, z), when(y <= z, z <= y + 1)


@rule("where-is-min")
def where_is_min(p: Pred, x: Total, y: Total):
    """Selecting the smaller value is min, whatever the predicate says of values that are equal."""
    return t.where(p, x, y), _min(x, y), when(t.logical_or(t.logical_not(p), x <= y), t.logical_or(p, y <= x))


@rule("where-is-max")
def where_is_max(p: Pred, x: Total, y: Total):
    """Selecting the greater value is max, whatever the predicate says of values that are equal."""
    return t.where(p, x, y), _max(x, y), when(t.logical_or(t.logical_not(p), y <= x), t.logical_or(p, x <= y))


@rule("where-same-else", tags=["normal"])
def where_same_else(p: Pred, x: Idx, y: Total):
    """A selection between values that are equal where the first is selected is the second."""
    return t.where(p, x, y), y, when(t.logical_or(t.logical_not(p), t.compare("eq", x, y)))


@rule("where-same-then", tags=["normal"])
def where_same_then(p: Pred, x: Total, y: Idx):
    """A selection between values that are equal where the second is selected is the first."""
    return t.where(p, x, y), x, when(t.logical_or(p, t.compare("eq", x, y)))


@rule("where-equal", tags=["normal"])
def where_equal(x: Idx, y: Idx):
    """A selection of one of two values where they are equal, and of the other elsewhere, is the other."""
    return t.where(t.logical_and(x <= y, y <= x), x, y), y


@rule("where-equal-number", tags=["normal"])
def where_equal_number(x: Idx, k: Num, m: Num):
    """The same for a value and a number."""
    return t.where(t.logical_and(k <= x, x < m), k, x), x, when(t.compare("eq", m, k + 1))


@rule("where-equal-summand")
def where_equal_summand(x: Idx, y: Idx, z: Idx, w: Idx):
    """Where two values are equal, one may be added for the other."""
    return t.where(t.compare("eq", x, y), y + z, w), t.where(t.compare("eq", x, y), x + z, w)


@rule("where-different-summand")
def where_different_summand(x: Idx, y: Idx, z: Idx, w: Idx):
    """The same in the other value of a selection by their difference."""
    return t.where(t.compare("ne", x, y), w, y + z), t.where(t.compare("ne", x, y), w, x + z)


@rule("where-and", tags=["normal"])
def where_and(p: Pred, q: Pred, x: Elem, y: Elem):
    """Nested selections with one alternative are one selection by both predicates."""
    return t.where(p, t.where(q, x, y), y), t.where(t.logical_and(p, q), x, y)


@rule("where-or", tags=["normal"])
def where_or(p: Pred, q: Pred, x: Elem, y: Elem):
    """Alternatives with one value are one selection by either predicate."""
    return t.where(p, x, t.where(q, x, y)), t.where(t.logical_or(p, q), x, y)


@rule("where-is-predicate", tags=["normal"])
def where_is_predicate(p: Pred):
    """Selecting the truth values is the predicate."""
    return t.where(p, t.TRUE, t.FALSE), p


@rule("where-is-opposite", tags=["normal"])
def where_is_opposite(p: Pred):
    """Selecting the truth values the other way round is the opposite."""
    return t.where(p, t.FALSE, t.TRUE), t.logical_not(p)


@rule("where-plus-where", tags=["expansive"])
def where_plus_where(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """Two selections by one condition add up as one selection."""
    return t.where(p, x, y) + t.where(p, z, w), t.where(p, x + z, y + w)


@rule("where-minus-where", tags=["expansive"])
def where_minus_where(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """Two selections by one condition are subtracted as one selection."""
    return t.where(p, x, y) - t.where(p, z, w), t.where(p, x - z, y - w)


@rule("where-plus-opposite", tags=["expansive"])
def where_plus_opposite(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """The same for opposite conditions."""
    return t.where(p, x, y) + t.where(t.logical_not(p), z, w), t.where(p, x + w, y + z)


@rule("where-minus-opposite", tags=["expansive"])
def where_minus_opposite(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """The same for opposite conditions."""
    return t.where(p, x, y) - t.where(t.logical_not(p), z, w), t.where(p, x - w, y - z)


@rule("min-of-wheres", tags=["expansive"])
def min_of_wheres(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """The smaller of two selections by one condition is selected."""
    return _min(t.where(p, x, y), t.where(p, z, w)), t.where(p, _min(x, z), _min(y, w))


@rule("max-of-wheres", tags=["expansive"])
def max_of_wheres(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """The greater of two selections by one condition is selected."""
    return _max(t.where(p, x, y), t.where(p, z, w)), t.where(p, _max(x, z), _max(y, w))


@rule("min-of-opposites", tags=["expansive"])
def min_of_opposites(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """The same for opposite conditions."""
    return _min(t.where(p, x, y), t.where(t.logical_not(p), z, w)), t.where(p, _min(x, w), _min(y, z))


@rule("max-of-opposites", tags=["expansive"])
def max_of_opposites(p: Pred, x: Idx, y: Idx, z: Idx, w: Idx):
    """The same for opposite conditions."""
    return _max(t.where(p, x, y), t.where(t.logical_not(p), z, w)), t.where(p, _max(x, w), _max(y, z))


@rule("where-addend", tags=["expansive"])
def where_addend(p: Pred, x: Idx, y: Idx, z: Idx):
    """What is added to both values is added to the selected one."""
    return t.where(p, x + z, y + z), z + t.where(p, x, y)


@rule("where-cancel-then", tags=["expansive"])
def where_cancel_then(p: Pred, x: Idx, y: Idx, z: Idx):
    """What is taken off a selection cancels in the value that has it."""
    return t.where(p, x + y, z) - y, t.where(p, x, z - y)


@rule("where-cancel-else", tags=["expansive"])
def where_cancel_else(p: Pred, x: Idx, y: Idx, z: Idx):
    """What is taken off a selection cancels in the value that has it."""
    return t.where(p, z, x + y) - y, t.where(p, z - y, x)


@rule("where-number-then", tags=["expansive"])
def where_number_then(p: Pred, x: Idx, k: Pos, m: Num, n: Num):
    """A number beside a selection joins those that both values have."""
    return t.where(p, x + k, m) + n, t.where(p, x + k + n, m + n)


@rule("where-number-else", tags=["expansive"])
def where_number_else(p: Pred, x: Idx, k: Pos, m: Num, n: Num):
    """A number beside a selection joins those that both values have."""
    return t.where(p, m, x + k) + n, t.where(p, m + n, x + k + n)


@rule("where-negative-then", tags=["expansive"])
def where_negative_then(p: Pred, x: Idx, k: Pos, m: Num, n: Num):
    """The same where the first value has something taken off."""
    return t.where(p, x - k, m) + n, t.where(p, x - k + n, m + n)


@rule("where-negative-else", tags=["expansive"])
def where_negative_else(p: Pred, x: Idx, k: Pos, m: Num, n: Num):
    """The same where the second value has something taken off."""
    return t.where(p, m, x - k) + n, t.where(p, m + n, x - k + n)


@rule("where-own-then", tags=["expansive"])
def where_own_then(p: Pred, x: Idx, k: Num):
    """A selection of a value or a number, without the value, is one of nothing or the difference."""
    return t.where(p, x, k) - x, t.where(p, 0, k - x)


@rule("where-own-else", tags=["expansive"])
def where_own_else(p: Pred, x: Idx, k: Num):
    """A selection of a number or a value, without the value, is one of the difference or nothing."""
    return t.where(p, k, x) - x, t.where(p, k - x, 0)


@rule("where-either", tags=["expansive"])
def where_either(p: Pred, q: Pred, x: Idx, y: Idx):
    """A selection by either of two predicates is one by the absence of both."""
    return t.where(t.logical_or(p, q), x, y), t.where(t.logical_and(t.logical_not(p), t.logical_not(q)), y, x)

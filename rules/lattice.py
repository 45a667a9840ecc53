"""Laws of min and max as a lattice over sums: what is absorbed, what is shared, and what is added or multiplied.

min and max are the two sides of one thing: each law of the one comes with that of the other.
"""

from __future__ import annotations

from eqsat.ir.rule import Family, Idx, Neg, Num, Pos, when
from eqsat.ir.terms import term as t

RULES = Family("lattice")
rule = RULES.rule


def _min(x: t.TermLike, y: t.TermLike) -> t.Term:
    return t.binary("min", x, y)


def _max(x: t.TermLike, y: t.TermLike) -> t.Term:
    return t.binary("max", x, y)


@rule("min-of-smaller", tags=["normal"])
def min_of_smaller(x: Idx, y: Idx, z: Idx):
    """A value that is not below one of two does not change the smaller of them."""
    return _min(x, _min(y, z)), _min(y, z), when(y <= x)


@rule("max-of-greater", tags=["normal"])
def max_of_greater(x: Idx, y: Idx, z: Idx):
    """A value that is not above one of two does not change the greater of them."""
    return _max(x, _max(y, z)), _max(y, z), when(x <= y)


@rule("min-of-three", tags=["normal"])
def min_of_three(x: Idx, y: Idx, z: Idx, w: Idx):
    """The same where the smaller value is further inside."""
    return _min(x, _min(_min(y, z), w)), _min(_min(y, z), w), when(y <= x)


@rule("max-of-three", tags=["normal"])
def max_of_three(x: Idx, y: Idx, z: Idx, w: Idx):
    """The same where the greater value is further inside."""
    return _max(x, _max(_max(y, z), w)), _max(_max(y, z), w), when(x <= y)


@rule("min-of-max-pair", tags=["normal"])
def min_of_max_pair(x: Idx, y: Idx, z: Idx, w: Idx):
    """The greater of two values is not below the smaller of a pair that shares one with them."""
    return _min(_min(x, y), _max(z, w)), _min(x, y), when(x <= z)


@rule("max-of-min-pair", tags=["normal"])
def max_of_min_pair(x: Idx, y: Idx, z: Idx, w: Idx):
    """The smaller of two values is not above the greater of a pair that shares one with them."""
    return _max(_max(x, y), _min(z, w)), _max(x, y), when(z <= x)


@rule("min-of-max-three", tags=["normal"])
def min_of_max_three(x: Idx, y: Idx, z: Idx, w: Idx, v: Idx):
    """The same for the greatest of three values."""
    return _min(_min(x, y), _max(_max(z, w), v)), _min(x, y), when(x <= z)


@rule("max-of-min-three", tags=["normal"])
def max_of_min_three(x: Idx, y: Idx, z: Idx, w: Idx, v: Idx):
    """The same for the smallest of three values."""
    return _max(_max(x, y), _min(_min(z, w), v)), _max(x, y), when(z <= x)


@rule("max-of-clamped", tags=["normal"])
def max_of_clamped(x: Idx, y: Idx, z: Idx, w: Idx):
    """A limit from below need not be applied before one from above, where one that is as high is applied after it."""
    return _max(_min(_max(x, w), z), y), _max(_min(x, z), y), when(w <= y)


@rule("min-of-clamped", tags=["normal"])
def min_of_clamped(x: Idx, y: Idx, z: Idx, w: Idx):
    """A limit from above need not be applied before one from below, where one that is as low is applied after it."""
    return _min(_max(_min(x, w), z), y), _min(_max(x, z), y), when(y <= w)


@rule("min-of-pairs", tags=["normal"])
def min_of_pairs(x: Idx, y: Idx, z: Idx, w: Idx):
    """The smallest of two pairs need not look at the greater of two ordered values."""
    return _min(_min(x, y), _min(z, w)), _min(_min(x, y), w), when(x <= z)


@rule("max-of-pairs", tags=["normal"])
def max_of_pairs(x: Idx, y: Idx, z: Idx, w: Idx):
    """The greatest of two pairs need not look at the smaller of two ordered values."""
    return _max(_max(x, y), _max(z, w)), _max(_max(x, y), w), when(z <= x)


@rule("max-of-mins", tags=["expansive"])
def max_of_mins(x: Idx, y: Idx, z: Idx):
    """max distributes over min: what two minima share is looked at once."""
    return _max(_min(x, y), _min(x, z)), _min(x, _max(y, z))


@rule("min-of-maxs", tags=["expansive"])
def min_of_maxs(x: Idx, y: Idx, z: Idx):
    """min distributes over max: what two maxima share is looked at once."""
    return _min(_max(x, y), _max(x, z)), _max(x, _min(y, z))


@rule("max-of-nested-mins", tags=["expansive"])
def max_of_nested_mins(x: Idx, y: Idx, z: Idx, w: Idx):
    """The same where one minimum has what is shared further inside."""
    return _max(_min(x, y), _min(_min(x, z), w)), _min(x, _max(y, _min(z, w)))


@rule("min-of-nested-maxs", tags=["expansive"])
def min_of_nested_maxs(x: Idx, y: Idx, z: Idx, w: Idx):
    """The same where one maximum has what is shared further inside."""
    return _min(_max(x, y), _max(_max(x, z), w)), _max(x, _min(y, _max(z, w)))


@rule("min-factor", tags=["expansive"])
def min_factor(x: Idx, y: Idx, c: Pos):
    """A positive factor of both values is one of the smaller."""
    return _min(c * x, c * y), c * _min(x, y)


@rule("max-factor", tags=["expansive"])
def max_factor(x: Idx, y: Idx, c: Pos):
    """A positive factor of both values is one of the greater."""
    return _max(c * x, c * y), c * _max(x, y)


@rule("max-opposites", tags=["expansive"])
def max_opposites(x: Neg, y: Neg):
    """The greater of two opposites is the opposite of the smaller."""
    return _max(x, y), -_min(-x, -y)


@rule("min-opposites", tags=["expansive"])
def min_opposites(x: Neg, y: Neg):
    """The smaller of two opposites is the opposite of the greater."""
    return _min(x, y), -_max(-x, -y)


@rule("max-minus-min", tags=["expansive"])
def max_minus_min(x: Idx, y: Idx):
    """The greater of two values without the smaller is their distance."""
    return _max(x, y) - _min(x, y), t.absolute(x - y)


@rule("min-steps", tags=["expansive"])
def min_steps(x: Idx, a: Num, b: Num, k: Num, m: Num):
    """Two limits from above of a moving value differ by where it is between them."""
    right = _min(_max(x, m - b), k - a) + a - m
    return _min(x + a, k) - _min(x + b, m), right, when(m - b <= k - a)


@rule("max-steps", tags=["expansive"])
def max_steps(x: Idx, a: Num, b: Num, k: Num, m: Num):
    """Two limits from below of a moving value differ by where it is between them."""
    right = k - b - _min(_max(x, m - b), k - a)
    return _max(x + a, k) - _max(x + b, m), right, when(m - b <= k - a)


@rule("min-plus-min", tags=["expansive"])
def min_plus_min(x: Idx, y: Idx, z: Idx, w: Idx):
    """Minima that turn at one point, or at neighbouring ones, add up to one."""
    return _min(x, y) + _min(z, w), _min(x + z, y + w), when(x - y - z + w <= 1, x - y - z + w >= -1)


@rule("max-plus-max", tags=["expansive"])
def max_plus_max(x: Idx, y: Idx, z: Idx, w: Idx):
    """Maxima that turn at one point, or at neighbouring ones, add up to one."""
    return _max(x, y) + _max(z, w), _max(x + z, y + w), when(x - y - z + w <= 1, x - y - z + w >= -1)


@rule("min-minus-shifted", tags=["expansive"])
def min_minus_shifted(x: Idx, y: Idx, z: Idx, w: Idx):
    """A minimum without the one of values that are as much less, each, is that much."""
    return _min(x, y) - _min(z, w), x - z, when(t.compare("eq", x - y - z + w, 0))


@rule("max-minus-shifted", tags=["expansive"])
def max_minus_shifted(x: Idx, y: Idx, z: Idx, w: Idx):
    """A maximum without the one of values that are as much less, each, is that much."""
    return _max(x, y) - _max(z, w), x - z, when(t.compare("eq", x - y - z + w, 0))


@rule("max-minus-turned", tags=["expansive"])
def max_minus_turned(x: Idx, y: Idx, z: Idx, w: Idx):
    """A maximum and a minimum that turn at one point, or at neighbouring ones, in opposite directions."""
    return _max(x, y) - _min(z, w), _max(x - z, y - w), when(x - y + z - w <= 1, x - y + z - w >= -1)


@rule("min-then-max", tags=["expansive"])
def min_then_max(x: Idx, k: Num, m: Num):
    """A value up to a limit, and what it is beyond it, but not less than some number."""
    return _min(x, k) + _max(x - k, m), _min(x + m, _max(x, m + k)), when(m >= 0)


@rule("max-then-min", tags=["expansive"])
def max_then_min(x: Idx, k: Num, m: Num):
    """A value down to a limit, and what it is below it, but at least some number less."""
    return _max(x, k) + _min(x - k, -m), _max(x - m, _min(x, k - m)), when(m >= 0)


@rule("max-without-limit", tags=["expansive"])
def max_without_limit(x: Idx, y: Idx, z: Idx):
    """What a limit from above takes off a value with a limit from below."""
    return _max(_min(x, y), z) - _max(x, z), _min(_max(y, z) - x, 0)


@rule("min-without-limit", tags=["expansive"])
def min_without_limit(x: Idx, y: Idx, z: Idx):
    """What a limit from below adds to a value with a limit from above."""
    return _min(_max(x, y), z) - _min(x, z), _max(_min(y, z) - x, 0)


@rule("max-plus-part", tags=["expansive"])
def max_plus_part(x: Idx, y: Idx, z: Idx):
    """A limit from below of a minimum, and what the first value is up to the limit."""
    return _max(_min(x, y), z) + _min(x, z), z + _min(x, _max(y, z))


@rule("min-plus-part", tags=["expansive"])
def min_plus_part(x: Idx, y: Idx, z: Idx):
    """A limit from above of a maximum, and what the first value is down to the limit."""
    return _min(_max(x, y), z) + _max(x, z), z + _max(x, _min(y, z))


@rule("min-minus-part", tags=["expansive"])
def min_minus_part(x: Idx, y: Idx, z: Idx):
    """What a third value changes in a minimum of two."""
    return _min(_min(x, y), z) - _min(x, z), _min(y - _min(x, z), 0)


@rule("max-minus-part", tags=["expansive"])
def max_minus_part(x: Idx, y: Idx, z: Idx):
    """What a third value changes in a maximum of two."""
    return _max(_max(x, y), z) - _max(x, z), _max(y - _max(x, z), 0)


@rule("max-opposite-number", tags=["expansive"])
def max_opposite_number(x: Neg, k: Num):
    """The greater of an opposite and a number is the opposite of a minimum."""
    return _max(x, k), -_min(-x, -k)


@rule("min-addend", tags=["expansive"])
def min_addend(x: Idx, y: Idx, z: Idx):
    """What is added to both values is added to the smaller."""
    return _min(x + z, y + z), z + _min(x, y)


@rule("max-addend", tags=["expansive"])
def max_addend(x: Idx, y: Idx, z: Idx):
    """What is added to both values is added to the greater."""
    return _max(x + z, y + z), z + _max(x, y)


@rule("min-own-addend", tags=["expansive"])
def min_own_addend(x: Idx, y: Idx):
    """The smaller of a value and a sum with it is the value and what the sum may take off."""
    return _min(x, x + y), x + _min(0, y)


@rule("max-own-addend", tags=["expansive"])
def max_own_addend(x: Idx, y: Idx):
    """The greater of a value and a sum with it is the value and what the sum may add."""
    return _max(x, x + y), x + _max(0, y)


@rule("min-cancel", tags=["expansive"])
def min_cancel(x: Idx, y: Idx, z: Idx):
    """What is taken off a minimum cancels in the value that has it."""
    return _min(x + y, z) - y, _min(x, z - y)


@rule("max-cancel", tags=["expansive"])
def max_cancel(x: Idx, y: Idx, z: Idx):
    """What is taken off a maximum cancels in the value that has it."""
    return _max(x + y, z) - y, _max(x, z - y)


@rule("max-own-cancel", tags=["expansive"])
def max_own_cancel(x: Idx, y: Idx):
    """A maximum without one of its values is what the other adds."""
    return _max(x, y) - x, _max(0, y - x)


@rule("min-cancel-number", tags=["expansive"])
def min_cancel_number(x: Idx, y: Idx, k: Num):
    """The same for a number."""
    return _min(x + k, y) - k, _min(x, y - k)


@rule("max-cancel-number", tags=["expansive"])
def max_cancel_number(x: Idx, y: Idx, k: Num):
    """The same for a number."""
    return _max(x + k, y) - k, _max(x, y - k)


@rule("min-div-multiple", tags=["expansive"])
def min_div_multiple(x: Idx, y: Idx, z: Idx, c: Pos):
    """A minimum below a division is divided where that leaves nothing of the division of one value."""
    return _min(c * x + y, z) // c, _min(x, z // c), when(y >= 0, y < c)


@rule("max-div-multiple", tags=["expansive"])
def max_div_multiple(x: Idx, y: Idx, z: Idx, c: Pos):
    """A maximum below a division is divided where that leaves nothing of the division of one value."""
    return _max(c * x + y, z) // c, _max(x, z // c), when(y >= 0, y < c)

"""Laws of truncating division, which rounds towards zero as C and ONNX do, and of magnitudes.

Both look only at magnitudes, so a sign may always be taken out; they cross zero where floor division does not.
"""

from __future__ import annotations

from eqsat.ir.rule import Family, Idx, Neg, Pos, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

RULES = Family("truncation")
rule = RULES.rule


def _truncdiv(x: Term, c: Term) -> Term:
    return t.binary("truncdiv", x, c)


def _truncmod(x: Term, c: Term) -> Term:
    return t.binary("truncmod", x, c)


@rule("truncdiv-of-positive", tags=["normal"])
def truncdiv_of_positive(x: Idx, c: Pos):
    """Truncating and flooring agree from zero upwards."""
    return t.binary("truncdiv", x, c), x // c, when(x >= 0)


@rule("truncmod-of-positive", tags=["normal"])
def truncmod_of_positive(x: Idx, c: Pos):
    """The truncated remainder of a value that is not negative is the remainder."""
    return t.binary("truncmod", x, c), x % c, when(x >= 0)


@rule("truncdiv-of-negative", tags=["normal"])
def truncdiv_of_negative(x: Idx, c: Pos):
    """Below zero truncating division is the opposite of the division of the opposite."""
    return t.binary("truncdiv", x, c), -((-x) // c), when(x <= 0)


@rule("truncmod-of-negative", tags=["normal"])
def truncmod_of_negative(x: Idx, c: Pos):
    """Below zero the truncated remainder is the opposite of the remainder of the opposite."""
    return t.binary("truncmod", x, c), -((-x) % c), when(x <= 0)


@rule("truncdiv-by-one", tags=["normal"])
def truncdiv_by_one(x: Idx):
    """Truncating division by one changes nothing."""
    return t.binary("truncdiv", x, 1), x


@rule("abs-of-positive", tags=["normal"])
def abs_of_positive(x: Idx):
    """The magnitude of a value that is not negative is the value."""
    return t.absolute(x), x, when(x >= 0)


@rule("abs-of-negative", tags=["normal"])
def abs_of_negative(x: Idx):
    """The magnitude of a value that is not positive is its opposite."""
    return t.absolute(x), -x, when(x <= 0)


@rule("truncdiv-by-negative", tags=["normal"])
def truncdiv_by_negative(x: Idx, c: Pos):
    """Truncating division by an opposite is the opposite quotient."""
    return t.binary("truncdiv", x, -c), -t.binary("truncdiv", x, c)


@rule("truncmod-by-negative", tags=["normal"])
def truncmod_by_negative(x: Idx, c: Pos):
    """The truncated remainder has the sign of the dividend, whatever the divisor's is."""
    return t.binary("truncmod", x, -c), t.binary("truncmod", x, c)


@rule("truncmod-small", tags=["normal"])
def truncmod_small(x: Idx, c: Pos):
    """A value of smaller magnitude than the divisor is its own truncated remainder."""
    return _truncmod(x, c), x, when(-c < x, x < c)


@rule("truncdiv-truncdiv", tags=["normal"])
def truncdiv_truncdiv(x: Idx, a: Pos, b: Pos):
    """Truncating twice is truncating by the product."""
    return _truncdiv(_truncdiv(x, a), b), _truncdiv(x, a * b)


@rule("truncmod-truncmod", tags=["normal"])
def truncmod_truncmod(x: Idx, a: Pos, b: Pos):
    """The truncated remainder of one by a multiple of the divisor is that of the value."""
    return _truncmod(_truncmod(x, a * b), a), _truncmod(x, a)


@rule("truncdiv-of-opposite", tags=["normal"])
def truncdiv_of_opposite(x: Neg, c: Pos):
    """Truncating division does not look at the sign."""
    return _truncdiv(x, c), -_truncdiv(-x, c)


@rule("truncmod-of-opposite", tags=["normal"])
def truncmod_of_opposite(x: Neg, c: Pos):
    """The truncated remainder does not look at the sign."""
    return _truncmod(x, c), -_truncmod(-x, c)


@rule("abs-of-opposite", tags=["normal"])
def abs_of_opposite(x: Neg):
    """The magnitude does not look at the sign."""
    return t.absolute(x), t.absolute(-x)


@rule("abs-factor", tags=["expansive"])
def abs_factor(x: Idx, c: Pos):
    """The magnitude of a multiple is the multiple of the magnitude."""
    return t.absolute(c * x), c * t.absolute(x)


@rule("abs-of-truncdiv", tags=["expansive"])
def abs_of_truncdiv(x: Idx, c: Pos):
    """The magnitude of a truncated quotient is the quotient of the magnitude."""
    return t.absolute(_truncdiv(x, c)), t.absolute(x) // c


@rule("truncdiv-factor", tags=["expansive"])
def truncdiv_factor(x: Idx, g: Pos, d: Pos):
    """A common factor of a truncating division cancels."""
    return _truncdiv(g * x, g * d), _truncdiv(x, d)


@rule("truncmod-factor", tags=["expansive"])
def truncmod_factor(x: Idx, g: Pos, d: Pos):
    """A common factor stays before a truncated remainder."""
    return _truncmod(g * x, g * d), g * _truncmod(x, d)


@rule("truncate-merge", tags=["normal"])
def truncate_merge(x: Idx, c: Pos):
    """Truncating and merging again is the identity."""
    return c * _truncdiv(x, c) + _truncmod(x, c), x


@rule("truncate-rest", tags=["normal"])
def truncate_rest(x: Idx, c: Pos):
    """What is left without the truncated multiple is the truncated remainder."""
    return x - c * _truncdiv(x, c), _truncmod(x, c)


@rule("truncate-digit", tags=["expansive"])
def truncate_digit(x: Idx, a: Pos, b: Pos):
    """The same of a truncated quotient."""
    return _truncdiv(x, a) - b * _truncdiv(x, a * b), _truncmod(_truncdiv(x, a), b)


@rule("truncate-whole", tags=["expansive"])
def truncate_whole(x: Idx, c: Pos):
    """What is left without the truncated remainder is a multiple."""
    return x - _truncmod(x, c), c * _truncdiv(x, c)


@rule("truncdiv-opposites", tags=["normal"])
def truncdiv_opposites(x: Idx, y: Idx, c: Pos):
    """Truncated quotients of opposites cancel."""
    return _truncdiv(x, c) + _truncdiv(y, c), 0, when(t.compare("eq", x + y, 0))


@rule("truncmod-opposites", tags=["normal"])
def truncmod_opposites(x: Idx, y: Idx, c: Pos):
    """Truncated remainders of opposites cancel."""
    return _truncmod(x, c) + _truncmod(y, c), 0, when(t.compare("eq", x + y, 0))


@rule("truncmod-minus-opposite", tags=["normal"])
def truncmod_minus_opposite(x: Idx, y: Idx, c: Pos):
    """A truncated remainder without that of the opposite is twice the remainder."""
    return _truncmod(x, c) - _truncmod(y, c), 2 * _truncmod(x, c), when(t.compare("eq", x + y, 0))

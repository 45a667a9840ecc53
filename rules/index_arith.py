"""Laws of integer index arithmetic: floor division and remainder by positive constants.

Sums are matched modulo their rest, so no rule here states associativity or commutativity; every rule holds for all
integers, negative ones included.
"""

from __future__ import annotations

from eqsat.ir.rule import Family, Hint, Idx, Neg, Num, Pos, choose, hint, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

RULES = Family("index_arith")
rule = RULES.rule


def low_digits(x: Term, a: Term, b: Term) -> Hint:
    """Lemmas for the prover about the two low digits of x, in radices a and b."""
    high = x // (a * b)
    return hint(t.compare("eq", x % (a * b), x - a * (b * high)), t.compare("eq", x % (a * b) // a, x // a - b * high))


@rule("div-by-one", tags=["normal"])
def div_by_one(x: Idx):
    """Dividing by one changes nothing."""
    return x // 1, x


@rule("div-small", tags=["normal"])
def div_small(x: Idx, c: Pos):
    """The quotient of a value below the divisor is zero."""
    return x // c, 0, when(x >= 0, x < c)


@rule("mod-small", tags=["normal"])
def mod_small(x: Idx, c: Pos):
    """A value below the divisor is its own remainder."""
    return x % c, x, when(x >= 0, x < c)


@rule("div-small-negative", tags=["normal"])
def div_small_negative(x: Idx, c: Pos):
    """The quotient of a value just below zero is minus one."""
    return x // c, -1, when(-c <= x, x < 0)


@rule("div-of-sum", source="RFC 39", tags=["normal"])
def div_of_sum(x: Idx, y: Idx, c: Pos):
    """Merging two digits and dividing gives the high digit."""
    return (c * x + y) // c, x, when(y >= 0, y < c)


@rule("mod-mod-sum", tags=["normal"])
def mod_mod_sum(x: Idx, y: Idx, a: Pos, b: Pos):
    """A remainder by a multiple of the divisor may be left out of a sum inside of a remainder."""
    lemma = hint(t.compare("eq", (x % (a * b) + y) // a, (x + y) // a - b * (x // (a * b))))
    return (x % (a * b) + y) % a, (x + y) % a, low_digits(x, a, b), lemma


@rule("mod-mod-minus", tags=["normal"])
def mod_mod_minus(x: Idx, y: Idx, a: Pos, b: Pos):
    """The same for a remainder that is subtracted."""
    lemma = hint(t.compare("eq", (y - x % (a * b)) // a, (y - x) // a + b * (x // (a * b))))
    return (y - x % (a * b)) % a, (y - x) % a, low_digits(x, a, b), lemma


@rule("mod-mod-multiple", tags=["normal"])
def mod_mod_multiple(x: Idx, y: Idx, c: Pos, k: Pos, m: Pos):
    """A remainder may be left out where its factor makes whole multiples of the outer divisor of what it takes away."""
    return (k * (x % m) + y) % c, (k * x + y) % c, when(t.compare("eq", k * m % c, 0))


@rule("mod-digits-merge", tags=["normal"])
def mod_digits_merge(x: Idx, z: Idx, y: Idx, m: Pos, c: Pos, a: Num, b: Num):
    """Two digits below a remainder are the number where their factors fit together modulo the divisor."""
    whole = t.compare("eq", (b * m - a) % c, 0)
    lemma = hint(
        t.compare("eq", z % m, x % m),
        t.compare("eq", a * (x // m) + b * (x % m) + y, b * x + y - (b * m - a) // c * c * (x // m)),
        t.compare("eq", (a * (x // m) + b * (x % m) + y) // c, (b * x + y) // c - (b * m - a) // c * (x // m)),
    )
    return (a * (x // m) + b * (z % m) + y) % c, (b * x + y) % c, when(whole, t.compare("eq", (x - z) % m, 0)), lemma


@rule("mod-div-mod", tags=["normal"])
def mod_div_mod(x: Idx, y: Idx, a: Pos, b: Pos):
    """A remainder may be left out of a quotient too, of which a remainder is taken that does not see it."""
    lemma = hint(t.compare("eq", (x % (a * b) + y) // a, (x + y) // a - b * (x // (a * b))))
    return (x % (a * b) + y) // a % b, (x + y) // a % b, lemma


@rule("mod-div-mod-scaled", tags=["normal"])
def mod_div_mod_scaled(x: Idx, y: Idx, z: Idx, a: Pos, b: Pos, k: Num):
    """The same for a multiple of the quotient in a sum."""
    inner = (x % (a * b) + y) // a
    lemma = hint(
        t.compare("eq", inner, (x + y) // a - b * (x // (a * b))),
        t.compare("eq", k * inner + z, k * ((x + y) // a) + z - b * (k * (x // (a * b)))),
    )
    return (k * inner + z) % b, (k * ((x + y) // a) + z) % b, lemma


@rule("mod-of-sum", source="RFC 39", tags=["normal"])
def mod_of_sum(x: Idx, y: Idx, c: Pos):
    """Merging two digits and taking the remainder gives the low digit."""
    return (c * x + y) % c, y, when(y >= 0, y < c)


@rule("div-low", tags=["normal"])
def div_low(x: Idx, y: Idx, g: Pos, d: Pos):
    """A part that is smaller than the step of the rest does not reach the quotient; a common factor cancels (y = 0)."""
    return (g * x + y) // (g * d), x // d, when(y >= 0, y < g), hint(x // d)


@rule("mod-low", tags=["normal"])
def mod_low(x: Idx, y: Idx, g: Pos, d: Pos):
    """A part that is smaller than the step of the rest stays as it is in the remainder."""
    lemma = hint(t.compare("eq", (g * x + y) // (g * d), x // d))
    return (g * x + y) % (g * d), g * (x % d) + y, when(y >= 0, y < g), lemma


@rule("without-digit", tags=["expansive"])
def without_digit(x: Idx, c: Pos):
    """A number less its last digit is whole multiples of the radix."""
    return x - x % c, c * (x // c)


@rule("div-add", tags=["normal"])
def div_add(x: Idx, y: Idx, c: Pos):
    """Whole multiples of the divisor leave a quotient."""
    return (c * x + y) // c, x + y // c


@rule("mod-add", tags=["normal"])
def mod_add(x: Idx, y: Idx, c: Pos):
    """Whole multiples of the divisor leave a remainder."""
    return (c * x + y) % c, y % c


@rule("div-div", tags=["normal"])
def div_div(x: Idx, a: Pos, b: Pos):
    """Dividing twice is dividing by the product."""
    return x // a // b, x // (a * b)


@rule("mod-mod", tags=["normal"])
def mod_mod(x: Idx, a: Pos, b: Pos):
    """The remainder of a remainder by a multiple of the divisor is the remainder."""
    return x % (a * b) % a, x % a, low_digits(x, a, b)


@rule("div-of-mod", tags=["normal", "both"])
def div_of_mod(x: Idx, a: Pos, b: Pos):
    """The high part of a remainder is a remainder of the quotient: it names a middle digit."""
    return x % (a * b) // a, x // a % b, low_digits(x, a, b), hint(t.compare("eq", x // (a * b), x // a // b))


@rule("div-of-div-plus", tags=["normal"])
def div_of_div_plus(x: Idx, y: Idx, a: Pos, b: Pos):
    """Sums pass into an inner division by its divisor."""
    return (x // a + y) // b, (x + a * y) // (a * b)


@rule("div-of-opposite", tags=["normal", "both"])
def div_of_opposite(x: Neg, c: Pos, k: Num):
    """What is subtracted is divided without its sign: rounding down turns into rounding up, and that is an offset."""
    return (x + k) // c, -((c - 1 - k - x) // c)


@rule("mod-of-opposite", tags=["normal", "both"])
def mod_of_opposite(x: Neg, c: Pos):
    """A digit counted down from the greatest one is the difference to it."""
    return (x + c - 1) % c, c - 1 - (-x) % c, hint(t.compare("eq", (x + c - 1) // c, -((-x) // c)))


@rule("div-by-negative", tags=["normal"])
def div_by_negative(x: Idx, c: Pos):
    """Dividing by an opposite is dividing the opposite."""
    return x // -c, -x // c


@rule("mod-by-negative", tags=["normal"])
def mod_by_negative(x: Idx, c: Pos):
    """The remainder has the sign of the divisor."""
    return x % -c, -(-x % c), hint(t.compare("eq", x // -c, -x // c))


@rule("div-of-digit", tags=["normal"])
def div_of_digit(x: Idx, a: Pos, b: Pos):
    """Nothing is left of a digit that is divided by its radix or a multiple."""
    return x % a // (a * b), 0


@rule("mod-of-digit", tags=["normal"])
def mod_of_digit(x: Idx, a: Pos, b: Pos):
    """A digit is its own remainder by its radix or a multiple."""
    return x % a % (a * b), x % a


@rule("div-low-digit", tags=["normal"])
def div_low_digit(x: Idx, z: Idx, g: Pos, d: Pos):
    """A digit that is smaller than the step of the rest does not reach the quotient, whatever its radix is."""
    return (g * x + z % g) // (g * d), x // d, hint(x // d)


@rule("mod-low-digit", tags=["normal"])
def mod_low_digit(x: Idx, z: Idx, g: Pos, d: Pos):
    """A digit that is smaller than the step of the rest stays as it is in the remainder."""
    lemma = hint(t.compare("eq", (g * x + z % g) // (g * d), x // d))
    return (g * x + z % g) % (g * d), g * (x % d) + z % g, lemma


@rule("mod-mod-scaled", tags=["normal"])
def mod_mod_scaled(x: Idx, y: Idx, c: Pos, k: Num):
    """A remainder by the divisor may be left out below a multiple."""
    lemma = hint(t.compare("eq", (k * (x % c) + y) // c, (k * x + y) // c - k * (x // c)))
    return (k * (x % c) + y) % c, (k * x + y) % c, lemma


@rule("factor", tags=["expansive"])
def factor(x: Idx, y: Idx, z: Idx, k: Num):
    """A common factor is taken out of two summands; a number may stand beside it."""
    return x * (y + k) + y * z, y * (x + z) + k * x


@rule("half-and-parity", tags=["expansive"])
def half_and_parity(x: Idx, y: Idx):
    """A half and what it leaves is a half rounded up."""
    return y // 2 + x % 2, (y + 1) // 2, when(t.compare("eq", (x - y) % 2, 0))


@rule("div-carry", tags=["expansive"])
def div_carry(y: Idx, c: Pos, k: Num):
    """A carry is a digit of its own where it needs half of the radix or more."""
    return (y + k) // c, y // (c - k), when(y >= 0, y < c, k > 0, 2 * k <= c)


@rule("div-rest", tags=["expansive"])
def div_rest(x: Idx, y: Idx, c: Pos):
    """A quotient of a sum without that of one summand is that of the rest."""
    return (x + y) // c - x // c, (x % c + y) // c


@rule("div-of-digit-sum", tags=["expansive"])
def div_of_digit_sum(x: Idx, y: Idx, c: Pos):
    """A carry and the quotient without it are the quotient of the sum."""
    return (x % c + y) // c + x // c, (x + y) // c


@rule("digits-to-quotient", tags=["expansive"])
def digits_to_quotient(x: Idx, c: Pos, a: Num, b: Num):
    """Of two digits beside each other one is enough, and the number."""
    return a * (x // c) + b * (x % c), b * x + (a - b * c) * (x // c)


@rule("mod-known", tags=["normal"])
def mod_known(x: Idx, c: Pos, k: Pos):
    """A digit that is known replaces the high digits."""
    return c * (x // c), x + 1 - k, when(t.compare("eq", x % c + 1, k)), choose(k, above=x % c)


@rule("halves", tags=["normal"])
def halves(x: Idx, y: Idx, c: Pos):
    """Quotients by twice a number that are half a step apart are the quotient by the number."""
    return x // (2 * c) + y // (2 * c), x // c, when(t.compare("eq", y - x, c))


@rule("div-digit", tags=["expansive"])
def div_digit(x: Idx, y: Idx, a: Pos, b: Pos):
    """What is left of a quotient without its high digit is the low digit; the digit may be that of a shifted number."""
    lemmas = hint(t.compare("eq", y // (a * b), y // a // b), t.compare("eq", x // a, y // a + (x - y) // a))
    right = y // a % b + (x - y) // a
    return x // a - b * (y // (a * b)), right, when(t.compare("eq", (x - y) % a, 0)), lemmas


@rule("div-cancel", tags=["expansive"])
def div_cancel(x: Idx, y: Idx, c: Pos):
    """A high digit of a sum without one summand is the other summand without the low digit."""
    return c * ((x + y) // c) - x, y - (x + y) % c


@rule("div-up", tags=["expansive"])
def div_up(x: Idx, c: Pos, k: Num):
    """A number rounded up to a multiple is the number and what is missing."""
    lemma = hint(t.compare("eq", (x + k) // c, -((-x) // c)))
    return c * ((x + k) // c), x + (-x) % c, when(t.compare("eq", k, c - 1)), lemma


@rule("mod-up", tags=["expansive"])
def mod_up(x: Idx, c: Pos, k: Num):
    """What is missing to the next multiple, without the offset."""
    lemma = hint(t.compare("eq", (x + k) // c, -((-x) // c)))
    return k - (x + k) % c, (-x) % c, when(t.compare("eq", k, c - 1)), lemma


@rule("div-doubled-digit", tags=["expansive"])
def div_doubled_digit(x: Idx, c: Pos, d: Pos):
    """A digit that counts twice carries where it is half of the radix or more."""
    half = t.binary("floordiv", c, 2)
    lemmas = hint(
        t.compare("eq", 2 * (x % c) // c, (x % c + half) // c),
        t.compare("eq", (x + x % c) // c, x // c + 2 * (x % c) // c),
        t.compare("eq", (x + half) // c, x // c + (x % c + half) // c),
        t.compare("eq", (x + x % c) // (c * d), (x + x % c) // c // d),
        t.compare("eq", (x + half) // (c * d), (x + half) // c // d),
    )
    return (x + x % c) // (c * d), (x + half) // (c * d), lemmas


@rule("digits-to-remainder", tags=["expansive"])
def digits_to_remainder(x: Idx, c: Pos, b: Num):
    """Of two digits that almost merge one is enough, and the number."""
    return c * (x // c) + b * (x % c), x + b * (x % c) - x % c

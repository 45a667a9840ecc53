"""Laws of splitting and merging: a number is the sum of its digits in any mixed radix; a run of digits is one digit.

`x // c` and `x % c` split; `c * high + low` merges. Each law also holds times a scale and beside any other summands.
"""

from __future__ import annotations

from eqsat.ir.rule import Family, Idx, Pos, hint, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

RULES = Family("split_merge")
rule = RULES.rule


def _same(x: Term, z: Term, c: Term) -> Term:
    """That two numbers are the same modulo c."""
    return t.compare("eq", (x - z) % c, 0)


@rule("split-merge", source="RFC 39", tags=["normal"])
def split_merge(x: Idx, c: Pos):
    """Splitting by c and merging again is the identity."""
    return x // c * c + x % c, x


@rule("split-merge-same", tags=["normal"])
def split_merge_same(x: Idx, z: Idx, c: Pos):
    """The low part may be that of another number which is the same modulo c."""
    return x // c * c + z % c, x, when(_same(x, z, c)), hint(t.compare("eq", z % c, x % c))


@rule("split-rest", tags=["normal"])
def split_rest(x: Idx, c: Pos):
    """What is left without the high part is the low part."""
    return x - x // c * c, x % c


@rule("split-exact", tags=["normal"])
def split_exact(x: Idx, c: Pos):
    """Dividing a multiple and multiplying again is the identity."""
    return x // c * c, x, when(t.compare("eq", x % c, 0))


@rule("digit-merge", tags=["normal"])
def digit_merge(x: Idx, y: Idx, z: Idx, a: Pos, b: Pos):
    """The digits above a, split again at b, merge to the quotient; the low one may be written with less below it."""
    lemmas = hint(
        t.compare("eq", x // (a * b), x // a // b),
        t.compare("eq", x // a, z // a + y + b * ((x - z - a * y) // (a * b))),
    )
    return b * (x // (a * b)) + (z // a + y) % b, x // a, when(_same(x, z + a * y, a * b)), lemmas


@rule("digit-mod", tags=["normal"])
def digit_mod(x: Idx, y: Idx, z: Idx, a: Pos, b: Pos):
    """Two neighbouring low digits merge to one remainder; the lowest may be that of a number the same modulo a."""
    lemmas = hint(
        t.compare("eq", z % a, x % a),
        t.compare("eq", (x + a * y) // (a * b), (x // a + y) // b),
    )
    return a * ((x // a + y) % b) + z % a, (x + a * y) % (a * b), when(_same(x, z, a)), lemmas


@rule("digit-run", tags=["normal"])
def digit_run(x: Idx, y: Idx, z: Idx, w: Idx, a: Pos, b: Pos, c: Pos):
    """Two neighbouring middle digits merge to one."""
    lemmas = hint(
        t.compare("eq", x // (a * b), x // a // b),
        t.compare("eq", x // a, z // a + w + b * ((x - z - a * w) // (a * b))),
        t.compare("eq", (x // a + b * y) // (b * c), (x // (a * b) + y) // c),
    )
    left = b * ((x // (a * b) + y) % c) + (z // a + w) % b
    return left, (x // a + b * y) % (b * c), when(_same(x, z + a * w, a * b)), lemmas

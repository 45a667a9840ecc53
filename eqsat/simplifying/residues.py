"""Variables whose remainders are assumed, as multiples of the divisor: where x % 4 == 1, x is 4*q + 1."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from math import gcd
from typing import Any

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, substitute
from eqsat.proving.question import Box


@dataclass(frozen=True)
class Residues:
    """Terms over quotients: `forward` names variables by them, `back` says what they are, `box` where they range."""

    forward: dict[Term, Term]
    back: dict[Term, Term]
    box: dict[Term, Any]

    def into(self, term: Term) -> Term:
        """The term over the quotients."""
        return substitute(term, self.forward)

    def out(self, term: Term) -> Term:
        """The term over the variables."""
        return substitute(term, self.back)


def residues(assuming: Term, box: Box, taken: Collection[str], divisor: int = 0) -> Residues | None:
    """What an assumption says of remainders of variables; None if nothing. `taken`: names that are in use.

    With a divisor, only as much as matters for remainders by it: where x % 4 == 1, x is 2*q + 1.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> given = parse_expr("x % 4 == 1 and y < 3")
    >>> found = residues(given, {}, ("x", "y"))
    >>> found is not None and str(found.into(parse_expr("x + y")))
    '4*x_1 + y + 1'
    """
    forward: dict[Term, Term] = {}
    back: dict[Term, Term] = {}
    ranges: dict[Term, Any] = dict(box)
    for part in conjuncts(assuming):
        if part.op != "eq" or not any(a.op == "const" for a in part.args):
            continue
        digit, value = part.args if part.args[1].op == "const" else part.args[::-1]
        if digit.op != "mod" or digit.args[0].op != "var" or digit.args[1].op != "const":
            continue
        x, c, r = digit.args[0], digit.args[1].payload, value.payload
        if x in forward or not 0 <= r < c or gcd(c, divisor) == 1:
            continue
        c = gcd(c, divisor)
        r %= c
        q = t.make("var", (), next(name for k in count(1) if (name := f"{x}_{k}") not in taken))
        forward[x], back[q] = c * q + r, x // c
        start, stop = box.get(x, (None, None))
        ranges[q] = (None if start is None else -((r - start) // c), None if stop is None else (stop - 1 - r) // c + 1)
    return Residues(forward, back, ranges) if forward else None

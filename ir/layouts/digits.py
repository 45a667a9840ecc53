"""Reading a term as one digit of a source in mixed radix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from eqsat.ir.ranges.map_bounds import at_least, exact_quotient
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables

_ONE = t.index_const(1)


@dataclass(frozen=True, eq=False)
class Digit:
    """(source // divisor) % modulus; no modulus means the rest of the source."""

    source: Term
    divisor: Term
    modulus: Term | None


def read_digit(term: Term) -> Digit | None:
    """A term as one digit of a source, nested floors and remainders put together.

    >>> d = read_digit(t.var("i") % 32 // 4)
    >>> str(d.source), str(d.divisor), str(d.modulus)
    ('i', '4', '8')
    """
    if term.op not in ("floordiv", "mod"):
        return Digit(term, _ONE, None)
    size = term.args[1]
    if free_variables(size) or not at_least(size, 1):
        return None
    inner = read_digit(term.args[0])
    if inner is None:
        return None
    if term.op == "floordiv":
        divisor = inner.divisor * size
        if inner.modulus is None:
            return Digit(inner.source, divisor, None)
        modulus = exact_quotient(inner.modulus, size)
        return None if modulus is None else Digit(inner.source, divisor, modulus)
    if inner.modulus is None or exact_quotient(inner.modulus, size) is not None:
        return Digit(inner.source, inner.divisor, size)
    return None


class StaticDigit(NamedTuple):
    """source // weight % radix, both numbers; without a radix the rest of the source."""

    source: Term
    weight: int
    radix: int | None


def static_digit(term: Term) -> StaticDigit | None:
    """A term as one digit of a source whose weight and radix are numbers.

    >>> source, weight, radix = static_digit(t.var("i") % 32 // 4)
    >>> weight, radix, static_digit(t.var("i") // t.sym("N"))
    (4, 8, None)
    """
    digit = read_digit(term)
    if digit is None:
        return None
    weight, radix = t.int_value(digit.divisor), None if digit.modulus is None else t.int_value(digit.modulus)
    if weight is None or (radix is None and digit.modulus is not None):
        return None
    return StaticDigit(digit.source, weight, radix)

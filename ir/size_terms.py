"""Extents of shapes as sizes of flat maps: numbers, products of symbols as monomials, other terms as atoms."""

from __future__ import annotations

from functools import lru_cache

from eqsat.ir import term as t
from eqsat.ir.shape import Dim, Shape
from eqsat.ir.sizes import Size, monomial, mul, product
from eqsat.ir.term import Term
from eqsat.ir.text import format_term

_atoms: dict[str, Term] = {}


def as_size(extent: Dim) -> Size:
    """The size of an extent.

    >>> str(as_size(4 * t.sym("N")))
    '4*N'
    """
    return extent if isinstance(extent, int) else _term_size(extent)


@lru_cache(maxsize=4096)
def _term_size(term: Term) -> Size:
    number = t.int_value(term)
    if number is not None:
        return number
    constant, parts = t.linear_parts(term)
    if constant or len(parts) != 1:
        return _atom(term)
    coefficient, body = parts[0]
    result: Size = coefficient
    for factor in body.args if body.op == "prod" else (body,):
        result = mul(result, _atom(factor))
    return result


def _atom(term: Term) -> Size:
    name = str(term.payload[0]) if term.op == "sym" else f"({format_term(term)})"
    _atoms[name] = term
    return monomial(1, name)


def as_extent(size: Size) -> Dim:
    """The extent that a size stands for.

    >>> as_extent(as_size(4 * t.sym("N"))) is 4 * t.sym("N")
    True
    """
    if isinstance(size, int):
        return size
    return t.product([t.index_const(size.coef), *(_atoms[name] for name in size.symbols)])


def shape_size(shape: Shape) -> Size:
    """The number of elements of a shape."""
    return product([as_size(d) for d in shape])

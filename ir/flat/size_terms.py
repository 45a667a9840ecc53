"""Extents of shapes as sizes of flat maps: numbers, products of symbols as monomials, other terms as factors."""

from __future__ import annotations

from functools import lru_cache

from eqsat.ir.flat.sizes import Size, product, size_of
from eqsat.ir.terms.shape import Dim, Shape


def as_size(extent: Dim) -> Size:
    """The size of an extent.

    >>> from eqsat.ir.terms.term import sym
    >>> n = sym("N")
    >>> str(as_size(4 * n)), str(as_size(n + 1))
    ('4*N', 'N + 1')
    """
    return extent if isinstance(extent, int) else _term_size(extent)


_term_size = lru_cache(maxsize=4096)(size_of)


def as_extent(size: Size) -> Dim:
    """The extent that a size stands for.

    >>> from eqsat.ir.terms.term import sym
    >>> n = sym("N")
    >>> as_extent(as_size(4 * n)) is 4 * n
    True
    """
    return size if isinstance(size, int) else size.term


def shape_size(shape: Shape) -> Size:
    """The number of elements of a shape."""
    return product([as_size(d) for d in shape])

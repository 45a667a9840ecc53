"""An independent check of composed maps, pointwise, before the e-graph may believe them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import FlatMap, IntArray, substitute
from eqsat.ir.flat.sizes import Size, number, value
from eqsat.ir.flat.table import Map, from_array, widened
from eqsat.ir.tensors.size_samples import symbol_sample
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols

SYMBOL_TRIALS = 3
ALL_POINTS = 1 << 16
SAMPLES = 2048


def same_composition(f: Map, g: Map, h: Map) -> bool:
    """Whether h = f after g: at every cell of small maps; of large ones at the corners of every digit, where digit maps
    that differ do differ, and at random cells. Symbolic maps are checked for a few values of their symbols, at which
    f and g exist.

    >>> from eqsat.ir.flat.map import digit, from_digits, identity
    >>> swap = from_digits(6, [digit(3, 1), digit(2, 3)])
    >>> same_composition(swap, identity(6), swap), same_composition(swap, swap, swap)
    (True, False)
    """
    if h.n_out != g.n_out or h.n_in != f.n_in:
        return False
    if not (f.is_numeric and g.is_numeric and h.is_numeric):
        return _same_at_samples(f, g, h)
    cells = _cells(g, h)
    through = g.at(cells)
    inside = through >= 0
    expected = np.where(inside, f.at(np.where(inside, through, 0)) if f.n_out else -1, -1)
    return bool(np.array_equal(expected, h.at(cells)))


def _same_at_samples(f: Map, g: Map, h: Map) -> bool:
    checked = False
    for numbers in _trials(f, g, h):
        try:
            first, second = _numeric(f, numbers), _numeric(g, numbers)
        except LayoutError:
            continue  # there are no such tensors at these sizes
        try:
            if not same_composition(first, second, _numeric(h, numbers)):
                return False
        except LayoutError:
            return False
        checked = True
    return checked


def _trials(*maps: Map) -> Iterator[dict[Term, int]]:
    """Values for the symbols of some maps: different ones in each trial, and for different symbols, if they may be."""
    sizes = [s for m in maps for s in _sizes(m) if not isinstance(s, int)]
    found = symbols(*dict.fromkeys(f for s in sizes for f in s.factors))
    for trial in range(SYMBOL_TRIALS):
        yield {s: symbol_sample(s, 2 + (3 * trial + k) % 7) for k, s in enumerate(found)}


def _sizes(m: Map) -> Iterator[Size]:
    yield m.n_in
    if isinstance(m, FlatMap):
        yield m.offset
        for d in m.digits:
            yield from d
    else:
        yield from (m.outer, m.inner)


def _numeric(m: Map, numbers: Mapping[Term, int]) -> Map:
    if isinstance(m, FlatMap):
        return substitute(m, numbers)
    return widened(value(m.outer, numbers), from_array(m.table.array, m.table_in), value(m.inner, numbers))


def _cells(*maps: Map) -> IntArray:
    n = maps[0].n_out
    assert isinstance(n, int)
    if n <= ALL_POINTS:
        return np.arange(n, dtype=np.int64)
    picks = [np.random.default_rng(n).integers(0, n, SAMPLES)]
    for m in maps:
        if isinstance(m, FlatMap):
            picks.append(_corners(m))
    return np.unique(np.concatenate(picks)).astype(np.int64)


def _corners(m: FlatMap) -> IntArray:
    values: list[list[int]] = []
    weight = 1
    for d in reversed(m.digits):
        extent, lo, hi = number(d.extent), number(d.lo), number(d.hi)
        picks = sorted({p for p in (0, lo - 1, lo, hi - 1, hi, extent - 1) if 0 <= p < extent})
        values.append([p * weight for p in picks])
        weight *= extent
    total = list(itertools.islice(itertools.product(*values), 1 << 15))
    return np.array([sum(p) for p in total], dtype=np.int64)

"""Index formulas as flat maps, and flat maps as index formulas.

A formula is brought into its shortest form and then read: as digits, as a table where it is small, else it stays a
formula. So what cancels is gone: a swizzle meets its inverse as the identity. Two digit maps whose composition has no
digits stay two, for both together say more, and move cells faster, than a formula that grows with every further one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.fast import remembered
from eqsat.ir.flat.map import Digit, FlatMap, all_padding
from eqsat.ir.flat.ops import TABLE_LIMIT, Composed, compose, compose_parts
from eqsat.ir.flat.read import digits_of
from eqsat.ir.flat.read_tables import tables_of
from eqsat.ir.flat.recognise import SMALL
from eqsat.ir.flat.size_terms import as_extent, shape_size
from eqsat.ir.flat.sizes import Size
from eqsat.ir.flat.table import Listed, Lookup, Map, TableMap
from eqsat.ir.flat.tabled import from_array
from eqsat.ir.flat.term_map import TermMap, cell
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.tensors.tensor import View
from eqsat.ir.tensors.views import flatten, unflatten
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.exact import INT64_MAX, magnitude
from eqsat.ir.terms.shape import output_axes, static_shape
from eqsat.ir.terms.tables import Table, load_table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, nodes_of, postorder, substitute, symbols

TABLE_POINTS = 1 << 20
"""The largest View, in cells, that is read from the table of its values."""
MOST_WRITTEN = 512
"""The largest formula of a View that is a map, in distinct terms."""
MOST_SEARCHED = 48
"""The largest formula whose shortest form is searched for; larger ones are simplified by rules alone."""
MOST_COMPOSED = 24
"""The largest formula that stands for two maps, if it is larger than both."""


# -- maps as formulas --------------------------------------------------------------------------------------------------


def address_at(m: Map, i: Term) -> Term:
    """The source index of output index i, as a term; without meaning where the map pads."""
    if isinstance(m, TermMap):
        return substitute(m.address, {cell(m.n_out): i})
    return address_of(m, digits_at(m, i))


def address_of(m: Listed, digits: Sequence[Term]) -> Term:
    """The source index at some digits of the output index, as a term."""
    address = t.as_index(as_extent(m.offset))
    for d, digit in zip(m.digits, digits, strict=True):
        address = address + digit * t.as_index(as_extent(d.stride))
    for x, row in _rows_at(m, digits):
        address = address + table_load(x.table.array, row) * t.as_index(as_extent(x.unit))
    return address


def valid_of(m: Listed, digits: Sequence[Term]) -> Term:
    """Whether some digits of the output index are valid, as a term."""
    checks = [check for d, digit in zip(m.digits, digits, strict=True) for check in _window(d, digit)]
    for x, row in _rows_at(m, digits):
        if bool(np.any(x.table.array < 0)):
            checks.append(t.compare("le", 0, table_load(x.table.array, row)))
    return t.logical_and(*checks)


def digits_at(m: Listed, i: Term) -> list[Term]:
    """The digits of output index i, as terms."""
    found: list[Term] = []
    inner = t.index_const(1)
    for d in reversed(m.digits):
        extent = t.as_index(as_extent(d.extent))
        found.append(i // inner % extent)
        inner = inner * extent
    found.reverse()
    return found


def _rows_at(m: Listed, digits: Sequence[Term]) -> list[tuple[Lookup, Term]]:
    """The tables of a map, and the row that each takes at some digits."""
    found: list[tuple[Lookup, Term]] = []
    for x in m.lookups if isinstance(m, TableMap) else ():
        row = t.index_const(0)
        for p in x.places:
            row = row * t.as_index(as_extent(m.digits[p].extent)) + digits[p]
        found.append((x, row))
    return found


def valid_at(m: Map, i: Term) -> Term:
    """Whether an index inside of the map's box reads the source, as a term."""
    if isinstance(m, TermMap):
        return substitute(m.valid, {cell(m.n_out): i})
    return valid_of(m, digits_at(m, i))


def _window(d: Digit, position: Term) -> list[Term]:
    """What a digit at a position has to fulfil to be valid."""
    checks: list[Term] = []
    if d.lo != 0:
        checks.append(t.compare("le", t.as_index(as_extent(d.lo)), position))
    if d.hi != d.extent:
        checks.append(t.compare("lt", position, t.as_index(as_extent(d.hi))))
    return checks


# -- formulas as maps --------------------------------------------------------------------------------------------------


@remembered(1 << 12)
def from_formula(n_in: Size, n_out: Size, address: Term, valid: Term, most: int = MOST_WRITTEN) -> Map | None:
    """The map of formulas of `cell(n_out)`: digits where they have any, a table where it is small, else a formula.

    None where the formula has more than `most` distinct terms, needs more than 64 bits, or reads a cell outside of a
    source in numbers.

    >>> i = cell(64)
    >>> print(from_formula(64, 64, i // 8 * 8 + ((i % 8 ^ i // 8) ^ i // 8), t.TRUE))
    (64:1) of 64
    """
    i = cell(n_out)
    if isinstance(n_in, int) and isinstance(n_out, int) and n_out <= TABLE_LIMIT and not symbols(address, valid):
        return _listed((n_out,), n_in, address, valid)
    box = {i: (0, n_out)} if isinstance(n_out, int) else {}
    there = inhabited(n_out)
    back = {twin: leaf for leaf, twin in there.items()}
    for shortest in (False, True):
        found = _shorter([substitute(x, there) for x in (address, valid)], box, shortest)
        address, valid = (substitute(x, back) for x in found)
        if valid is t.FALSE:
            return all_padding(n_in, n_out)
        digits = digits_of((as_extent(n_out),), n_in, address, valid)
        if digits is not None:
            return digits
        if dag_size(address, valid) > MOST_SEARCHED:
            break
    kept = dag_size(address, valid) <= most and fits_words([address, valid])
    return TermMap(n_in, n_out, address, valid) if kept else None


def _shorter(terms: Sequence[Term], box: Mapping[Term, tuple[int, int]], shortest: bool) -> list[Term]:
    """Terms in normal form, or in their shortest one: found once for all symbols of which the same is known, so that
    the blocks of a network share it. Others stand for them, in the order of their names, which count up."""
    axes = [a for x in terms for a in nodes_of("axis", x)]
    found = sorted(
        {*symbols(*terms), *symbols(*(a.args[0] for a in axes))},
        key=lambda s: (len(s.payload.name), s.payload.name, s.order),
    )
    names: dict[Term, Term] = {}
    for n, s in enumerate(found):
        _, lower, upper, multiple, _ = t.symbol_facts(s)
        names[s] = t.sym(f"s{n}", lower, upper, multiple, f"stands for {n}")
    back = {new: old for old, new in names.items()}
    known = _shorter_once(tuple(substitute(x, names) for x in terms), tuple(box.items()), shortest)
    return [substitute(x, back) for x in known]


@remembered(1 << 12)
def _shorter_once(
    terms: tuple[Term, ...], box: tuple[tuple[Term, tuple[int, int]], ...], shortest: bool
) -> tuple[Term, ...]:
    shorter = decider().shortest if shortest else decider().simplify
    return tuple(shorter(terms, dict(box)))


def inhabited(n_out: Size) -> dict[Term, Term]:
    """What a cell of a box says of sizes that may be zero: `cell(n_out)`, and each symbol whose least value leaves the
    box empty, with a symbol that is at least as large as a box with a cell needs it.

    >>> from eqsat.ir.flat.sizes import size_of
    >>> n = t.sym("N", 0)
    >>> [str(x.payload.lower) for x in inhabited(size_of(n - 1)).values() if x.op == "sym"]
    ['2']
    """
    least: dict[Term, int] = {}
    for factor in () if isinstance(n_out, int) else n_out.factors:
        constant, parts = t.linear_parts(factor)
        if len(parts) == 1 and parts[0][0] > 0 and parts[0][1].op == "sym":
            coefficient, symbol = parts[0]
            least[symbol] = max(least.get(symbol, 1), -((constant - 1) // coefficient))
    twins: dict[Term, Term] = {}
    for symbol, low in least.items():
        s = symbol.payload
        most = low if s.upper is None else s.upper // s.multiple_of * s.multiple_of
        if (s.lower is None or s.lower < low) and low <= most:
            twins[symbol] = t.sym(s.name, low, s.upper, s.multiple_of, s.key)
    return {cell(n_out): t.ax(0, substitute(t.as_index(as_extent(n_out)), twins)), **twins} if twins else {}


def fits_words(formulas: Sequence[Term]) -> bool:
    """Whether formulas, and every step towards them, fit 64 bits, as far as their sizes are numbers.

    >>> fits_words([cell(8) * 2**60 // 2**60]), fits_words([cell(8) * 2**61 // 2**61])
    (True, False)
    """
    bounds = Bounds()

    def size(node: Term) -> int:
        low, high = bounds.of(node)
        return 0 if low is None or high is None else max(abs(low), abs(high))

    used = (node for node in postorder(*formulas) if node.dtype == INDEX)
    return all(max(size(node), magnitude(node, [size(a) for a in node.args])) <= INT64_MAX for node in used)


def _listed(shape: tuple[int, ...], n_in: int, address: Term, valid: Term) -> Listed | None:
    """The map of formulas over the axes of a shape in numbers, from their values; None where these are undefined."""
    env: dict[Term, NDArray] = {}
    for n, axis in enumerate(output_axes(shape)):
        env[axis] = np.arange(shape[n], dtype=np.int64).reshape([-1 if k == n else 1 for k in range(len(shape))])
    (at, bad), (read, bad_valid) = evaluate_masked([address, valid], env, load_table)
    if bad_valid is not None and bool(np.any(bad_valid)):
        return None
    if bad is not None and bool(np.any(np.logical_and(bad, read))):
        return None
    return from_array(np.broadcast_to(np.where(read, at, -1), shape).reshape(-1), n_in)


def map_of_view(view: View, limit: int = TABLE_POINTS) -> Listed | None:
    """The flat map of a View, its fill left out; None where neither digits nor small tables describe it.

    Above `SMALL` cells it is read from the formulas alone, up to `limit` cells then from all their values.

    >>> import eqsat.ir.tensors.tensor as T
    >>> print(map_of_view(T.input("x", (2, 3), "float32").permute_dims((1, 0)).node))
    (3:1, 2:3) of 6
    """
    shape, source = view.outputs[0][0], view.source.shape
    address, n_in = flatten(view.gather, source), shape_size(source)
    found: Listed | None = digits_of(shape, n_in, address, view.valid)
    known = static_shape(shape)
    if found is None and (known is None or prod(known) > SMALL):
        found = tables_of(shape, n_in, address, view.valid)
    if found is not None or known is None or prod(known) > limit or not isinstance(n_in, int):
        return found
    return None if symbols(address, view.valid) else _listed(known, n_in, address, view.valid)


def formula_of_view(view: View) -> Map | None:
    """The flat map of a View that has no digits as it is written, nor a table; None where its formulas are not of
    indices alone, too large, or undefined."""
    shape, source = view.outputs[0][0], view.source.shape
    cells, inside = shape_size(shape), shape_size(source)
    address, valid = flatten(view.gather, source), view.valid
    if any(not isinstance(x.payload, Table) for x in nodes_of("load", address, valid)):
        return None
    if isinstance(cells, int) and isinstance(inside, int) and cells <= TABLE_POINTS and not symbols(address, valid):
        return None  # there is no table of it, because it is not defined at every cell
    places = dict(zip(output_axes(shape), unflatten(cell(cells), shape), strict=True))
    return from_formula(inside, cells, substitute(address, places), substitute(valid, places))


# -- composition -------------------------------------------------------------------------------------------------------


def composed(f: Map, g: Map) -> Map | None:
    """As `compose`, by formulas where neither digits nor a table of their size say it.

    None for two digit maps without a joint digit form, and where a formula would be too large.

    >>> from eqsat.ir.flat.sizes import monomial
    >>> n = monomial(16, t.sym("N"))
    >>> i = cell(n)
    >>> swizzle = from_formula(n, n, i // 16 * 16 + (i % 16 ^ i // 16 % 16), t.TRUE)
    >>> composed(swizzle, swizzle).is_identity
    True
    """
    found = compose(f, g)
    return _formulas(f, g) if found is None else found


def composed_parts(f: Map, g: Map) -> Composed | None:
    """As `compose_parts`, by formulas where neither digits nor a table of their size say it."""
    found = compose_parts(f, g)
    if found is not None:
        return found
    whole = _formulas(f, g)
    if whole is None or whole.is_total:
        return None if whole is None else Composed(whole, False, False)
    if isinstance(g, TermMap):
        inner = not (isinstance(whole, TermMap) and whole.valid is g.valid)
    else:
        inner = isinstance(whole, TermMap) or whole.valid_count != g.valid_count
    return Composed(whole, not g.is_total, inner and not f.is_total)


@remembered(1 << 12)
def _formulas(f: Map, g: Map) -> Map | None:
    most = [dag_size(m.address, m.valid) for m in (f, g) if isinstance(m, TermMap)]
    if not most and isinstance(f, FlatMap) and isinstance(g, FlatMap):
        return None
    i = cell(g.n_out)
    at = address_at(g, i)
    valid = t.logical_and(valid_at(g, i), valid_at(f, at))
    return from_formula(f.n_in, g.n_out, address_at(f, at), valid, max(MOST_COMPOSED, *most, 0))

"""What is known about a flat map: inverse, injective, surjective, the part of the source it reads, its core.

Answers are exact; ``None`` means that the question was too large or symbolic to decide, or about a formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from eqsat.ir.flat.map import Digit, FlatMap, canonical, digit, from_digits, identity
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.recognise import Rows
from eqsat.ir.flat.sizes import Size, at_most, common, div, mul, number, numbers, total
from eqsat.ir.flat.table import Lookup, Map, TableMap, rows_in
from eqsat.ir.flat.table_facts import apart, table_injective, table_inverse
from eqsat.ir.flat.tabled import tabled
from eqsat.ir.flat.term_map import TermMap


@lru_cache(maxsize=1 << 14)
def inverse(m: Map) -> Map | None:
    """The map that undoes a bijective one; None where m is not bijective (or, with symbols, not known to be).

    >>> print(inverse(from_digits(6, [digit(3, 1), digit(2, 3)])))
    (2:1, 3:2) of 6
    """
    if isinstance(m, TermMap):
        return None
    if isinstance(m, TableMap):
        return table_inverse(m)
    chain = _chain(m)
    if chain is None or m.n_in == 0:
        return None if chain is None else m
    offset: Size = 0
    digits: list[Digit] = []
    for d, weight in reversed(chain):
        back = weight
        if not at_most(0, d.stride):
            offset, back = total(offset, mul(weight, total(d.extent, -1))), mul(-1, weight)
        digits.append(digit(d.extent, back))
    return from_digits(m.n_out, digits, offset)


def _chain(m: FlatMap) -> list[tuple[Digit, Size]] | None:
    """The digits by ascending source weight, each with its output weight, if they enumerate the source exactly."""
    if not m.is_total or m.n_in != m.n_out:
        return None
    weight: Size = 1
    pool: list[tuple[Digit, Size]] = []
    for d in reversed(m.digits):
        pool.append((d, weight))
        weight = mul(weight, d.extent)
    chain: list[tuple[Digit, Size]] = []
    want: Size = 1
    while pool:
        found = next((entry for entry in pool if entry[0].stride in (want, mul(-1, want))), None)
        if found is None:
            return [] if m.n_in == 0 else None
        pool.remove(found)
        chain.append(found)
        want = mul(want, found[0].extent)
    return chain


def is_bijective(m: Map) -> bool:
    """Whether every source cell is read exactly once and nothing is padded (with symbols: whether that is certain).

    >>> is_bijective(identity(6)), is_bijective(from_digits(6, [digit(3, 2)]))
    (True, False)
    """
    if isinstance(m, TermMap):
        return False
    if isinstance(m, TableMap):
        return table_inverse(m) is not None
    return _chain(m) is not None


def is_permutation(m: Map) -> bool:
    """Whether a map only changes the order of digits: what a layout is that any operator may have its axes in. Flips,
    rolls and gathers are bijective, too, and are none.

    >>> is_permutation(from_digits(6, [digit(3, 1), digit(2, 3)])), is_permutation(from_digits(6, [digit(6, -1)], 5))
    (True, False)
    """
    return isinstance(m, FlatMap) and is_bijective(m) and m.offset == 0 and all(at_most(0, d.stride) for d in m.digits)


@lru_cache(maxsize=1 << 14)
def is_injective(m: Map) -> bool | None:
    """Whether no source cell is read twice.

    >>> is_injective(from_digits(9, [digit(3, 2), digit(3, 1)]))
    False
    >>> from eqsat.ir.flat.sizes import size_of
    >>> from eqsat.ir.terms import term as t
    >>> n = size_of(t.sym("N"))
    >>> is_injective(from_digits(mul(6, n), [digit(n, 6), digit(4, 1)]))
    True
    """
    if isinstance(m, TermMap):
        return None
    if isinstance(m, TableMap):
        return table_injective(m)
    active = [(d.stride, d.width) for d in m.digits if d.width != 1]
    if m.is_all_padding or _chain(m) is not None:
        return True
    if any(stride == 0 and at_most(2, count) for stride, count in active):
        return False
    known = numbers([part for move in active for part in move])
    if known is None:
        return _beyond_each_other(active) or None
    moves = sorted((abs(stride), count) for stride, count in zip(known[::2], known[1::2], strict=True))
    return apart(moves)


def _beyond_each_other(moves: Sequence[tuple[Size, Size]]) -> bool:
    """Whether steps (stride, positions) can stand in an order in which each is no shorter than all of the one below."""
    rest = [(stride if at_most(1, stride) else mul(-1, stride), count) for stride, count in moves]
    if not all(at_most(1, stride) for stride, _ in rest):
        return False
    while rest:
        for k, (stride, count) in enumerate(rest):
            others = rest[:k] + rest[k + 1 :]
            if all(at_most(mul(stride, count), other) for other, _ in others):
                rest = others
                break
        else:
            return False
    return True


@lru_cache(maxsize=1 << 14)
def split_core(m: Map) -> tuple[Map, Map]:
    """(core, layout) with ``m = compose(core, layout)``: layout bijective, core the same for all orders of m's digits.

    The core's digits are sorted: broadcast ones first, then by falling stride. The core of a permutation is the
    identity, that of a flip is the flip alone. Where digits overlap in the source, or have one valid position, two
    orders may keep different cores.

    >>> core, layout = split_core(from_digits(12, [digit(3, 1), digit(2, 0), digit(2, 6)]))
    >>> print(core, "|", layout)
    (2:0, 2:6, 3:1) of 12 | (3:1, 4:3) of 12
    """
    if is_permutation(m):
        return identity(m.n_in), m
    if isinstance(m, TermMap) or m.is_all_padding:
        return m, identity(m.n_out)
    core, layout = _sorted_digits(m) if isinstance(m, FlatMap) else _sorted_tables(m)
    if core == m:
        return m, identity(m.n_out)
    # Sorted neighbours may have merged into digits that sort differently.
    deeper, again = split_core(core)
    joined = compose(again, layout)
    if joined is not None and is_permutation(joined):
        return deeper, joined
    # Of a table, sorted digits may be digits that merge across what the table looked up: then it is its own core.
    return (m, identity(m.n_out)) if isinstance(m, TableMap) and deeper != core else (core, layout)


def _sorted_digits(m: FlatMap) -> tuple[FlatMap, FlatMap]:
    digits = [atom for d in m.digits for atom in atoms(d)]
    order = _in_chains(digits, sorted(range(len(digits)), key=lambda j: _core_key(digits[j])))
    weights: dict[int, Size] = {}
    weight: Size = 1
    for j in reversed(order):
        weights[j] = weight
        weight = mul(weight, digits[j].extent)
    layout = from_digits(m.n_out, [digit(d.extent, weights[j]) for j, d in enumerate(digits)])
    return canonical(m.n_in, [digits[j] for j in order], m.offset), layout


def _sorted_tables(m: TableMap) -> tuple[Map, Map]:
    """The digits of a table stand together, at the place of its longest step, in the order of their first steps."""
    keys: dict[int, tuple[object, ...]] = {}
    for n, d in enumerate(m.digits):
        if n not in m.looked_up:
            keys[n] = (*_core_key(d), ())
    for x in m.lookups:
        keys |= _table_keys(m, x)
    order = sorted(range(len(m.digits)), key=lambda n: keys[n])
    if order == list(range(len(m.digits))):
        return m, identity(m.n_out)
    weights: dict[int, Size] = {}
    weight: Size = 1
    for n in reversed(order):
        weights[n] = weight
        weight = mul(weight, m.digits[n].extent)
    layout = from_digits(m.n_out, [digit(d.extent, weights[n]) for n, d in enumerate(m.digits)])
    place = {n: at for at, n in enumerate(order)}
    rows: list[Rows] = []
    for r in rows_in(m):
        shape = [number(m.digits[p].extent) for p in r.places]
        turn = sorted(range(len(shape)), key=lambda k: place[r.places[k]])
        values = r.values.reshape(shape).transpose(turn).reshape(-1)
        valid = r.valid.reshape(shape).transpose(turn).reshape(-1)
        rows.append(Rows(tuple(place[r.places[k]] for k in turn), values, valid, r.unit))
    core = tabled(m.n_in, [m.digits[n] for n in order], rows, m.offset)
    return (m, identity(m.n_out)) if core is None else (core, layout)


def _table_keys(m: TableMap, x: Lookup) -> dict[int, tuple[object, ...]]:
    longest = mul(x.unit, int(x.table.array.max()))
    shape = [number(m.digits[p].extent) for p in x.places]
    cells = x.table.array.reshape(shape)
    keys: dict[int, tuple[object, ...]] = {}
    for k, p in enumerate(x.places):
        steps = [int(v) for v in np.take(cells, 1, k).reshape(-1)[:1] - cells.reshape(-1)[:1]]
        head = _core_key(Digit(m.digits[p].extent, longest, 0, m.digits[p].extent))[:5]
        keys[p] = (*head, (), (), (), True, (x.places[0], [-abs(s) for s in steps], -shape[k]))
    return keys


def _in_chains(digits: Sequence[Digit], order: Sequence[int]) -> list[int]:
    """An order in which a digit is followed by the one that it continues, so that both merge wherever they stood."""
    placed: dict[int, None] = {}
    for first in order:
        at: int | None = first
        while at is not None and at not in placed:
            placed[at] = None
            stride = digits[at].stride
            below = (k for k in order if k not in placed and digits[k].stride != 0 and digits[k].is_full)
            at = next((k for k in below if mul(digits[k].stride, digits[k].extent) == stride), None)
    return list(placed)


def atoms(d: Digit) -> list[Digit]:
    """A broadcast digit with a window, as its smallest window over a full digit."""
    if d.stride != 0 or d.is_full:
        return [d]
    full = common(d.extent, common(d.lo, d.hi))
    outer = [quotient for part in (d.extent, d.lo, d.hi) if (quotient := div(part, full)) is not None]
    return [d] if len(outer) < 3 else [Digit(outer[0], 0, outer[1], outer[2]), digit(full, 0)]


def _core_key(d: Digit) -> tuple[object, ...]:
    sign = at_most(0, d.stride)
    length = d.stride if sign else mul(-1, d.stride)
    degree, factor, names = _sort_key(length)
    windowed = d.stride == 0 and not d.is_full
    ties = (_sort_key(part) for part in (d.extent, d.lo, d.hi))
    return (d.stride != 0, windowed, -degree, -factor, names, *ties, sign)


def _sort_key(a: Size) -> tuple[int, int, tuple[tuple[bytes, bytes], ...]]:
    return (0, a, ()) if isinstance(a, int) else (len(a.factors), a.coef, tuple(f.order for f in a.factors))

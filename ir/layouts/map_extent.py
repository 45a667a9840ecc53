"""The extent that an output of an index map declares over a box: what the shape of the physical tensor is made of.

It is the greatest value plus one, where a digit `% c` counts as c, whatever of it is used. Where a variable occurs both
inside of a digit and outside of digits, the true maximum over the box decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import prod

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.errors import LayoutError
from eqsat.ir.points import ENUMERATION_LIMIT, grid, points, some_points, values_at
from eqsat.ir.ranges.bit_rows import Bits, echelon
from eqsat.ir.ranges.map_bounds import Bound, at_least, bounds, merged, tidy_extent
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Dim, as_dim
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, postorder, substitute, symbols

ATTEMPTS = 8
MOST_CORNERED = 6  # variables of a box whose corners are tried
BLOCKS = 1 << 8  # pieces of a box in which the bits of its points are free, of which the greatest value is asked


_DIVIDING = frozenset(("floordiv", "mod", "truncdiv", "truncmod", "shl", "shr"))


class NegativeOutput(LayoutError):
    """An output is negative somewhere, or may be: it declares no extent, and the map no physical shape."""


def partial(*terms: Term) -> bool:
    """Whether terms may be undefined somewhere: they load, or divide or shift by what is not a suitable number."""
    for node in postorder(*terms):
        if node.op == "load" or (node.op in _DIVIDING and (t.int_value(node.args[1]) or 0) < 1):
            return True
    return False


def declared_extent(term: Term, axes: Mapping[Term, Dim], what: Callable[[], str]) -> Dim:
    """The extent that an output of a map declares over a box: its greatest value plus one, digits counted whole.

    >>> i = t.var("i")
    >>> declared_extent(i % 4, {i: 3}, lambda: "i % 4"), declared_extent((i + 2) // 8, {i: 16}, lambda: "(i + 2) // 8")
    (4, 3)

    what: the map, for messages. Raises LayoutError where a value is negative (with the point), undefined, or without a
    known bound.
    """
    quick = _digits_extent(term, axes)
    if quick is not None:
        return quick
    term = merged(term)
    used = free_variables(term)
    sizes = {v: axes[v] for v in used}
    empty = any(isinstance(e, int) and e == 0 for e in axes.values())
    found = bounds(term, {v: (t.index_const(0), t.as_index(e) - 1) for v, e in sizes.items()})
    if empty:
        return _clamped(found.high) if found is not None else 0
    numbers = {v: (0, e) for v, e in sizes.items() if isinstance(e, int)}
    static = len(numbers) == len(sizes) and not symbols(term)
    digits_apart = found is not None and found.exact and not found.hidden & found.visible
    if not digits_apart and static:
        exact = _at_corner(term, numbers, found) or _by_bits(term, numbers)
        if exact is not None:
            return exact
        if points(numbers) <= ENUMERATION_LIMIT:
            return _enumerated(term, numbers, what())
    if found is None:
        raise LayoutError(what(), f"no bound of {term} is known", "give the symbols a value, or use +, -, *, // and %")
    if not at_least(found.low):
        proof = decider().prove(t.compare("le", 0, term), numbers)
        if proof.verdict == "refuted":
            raise _negative(what(), term, dict(proof.witness or {}))
        if proof.verdict == "unknown":
            raise NegativeOutput(what(), f"{term} may be negative", "physical indices start at 0")
    if not digits_apart and static:
        return _attained(term, numbers, t.int_value(found.high) or 0) + 1
    return _clamped(found.high, all(at_least(t.as_index(e), 1) for e in axes.values()))


def _attained(term: Term, box: Mapping[Term, tuple[int, int]], high: int) -> int:
    """The greatest value over a large box, where a sample and the prover find it; else the bound."""
    cells = some_points([stop for _, stop in box.values()])
    found = values_at([term], dict(zip(box, cells, strict=True)), len(cells[0]))
    if found is None:
        return high
    most = int(found[0].max())
    for _ in range(ATTEMPTS):
        proof = decider().prove(t.compare("le", term, most), box)
        if proof.verdict == "proved":
            return most
        witness = proof.witness or {}
        at = {v: t.index_const(int(witness[str(v)])) for v in box if str(v) in witness}
        value = t.int_value(substitute(term, at)) if proof.verdict == "refuted" else None
        if value is None or value <= most:
            break
        most = value
    return high


def _by_bits(term: Term, box: Mapping[Term, tuple[int, int]]) -> int | None:
    """One more than the greatest value of a term whose bits are xors of bits; None for other terms.

    A range is cut into blocks in which some low bits are free and the others fixed, from the largest on.
    """
    bits = Bits({v: (stop - 1).bit_length() for v, (_, stop) in box.items()}.get)
    rows = bits.rows([term])
    if rows is None or prod(box[v][1].bit_count() for v in bits.atoms) > BLOCKS:
        return None
    columns = [sum(((mask >> k) & 1) << n for n, mask in enumerate(rows[0])) for k in range(bits.size)]
    greatest = 0
    for blocks in product(*([(first, *b) for b in _blocks(box[v][1])] for v, (first, _) in bits.atoms.items())):
        free = [(columns[first + k], 0) for first, _, count in blocks for k in range(count)]
        fixed = [columns[first + k] for first, at, _ in blocks for k in range(at.bit_length()) if (at >> k) & 1]
        value = columns[0]
        for column in fixed:
            value ^= column
        basis = echelon(free)
        for lead in sorted(basis, reverse=True):
            if not (value >> lead) & 1:
                value ^= basis[lead][0]
        greatest = max(greatest, value)
    return greatest + 1


def _blocks(stop: int) -> list[tuple[int, int]]:
    """The numbers below `stop` as (first number, how many low bits of it are free).

    >>> _blocks(13)
    [(0, 3), (8, 2), (12, 0)]
    """
    places = [k for k in reversed(range(stop.bit_length())) if (stop >> k) & 1]
    return [(stop >> (k + 1) << (k + 1), k) for k in places]


def _digits_extent(term: Term, axes: Mapping[Term, Dim]) -> int | None:
    """The declared extent of a sum of digits of different variables over a box of numbers, where nothing needs to be
    merged or tried; the same rules as `bounds`, on numbers. None for any other term."""
    extent = axes.get(term)
    if isinstance(extent, int):
        return extent
    done: dict[Term, tuple[int, int]] = {}
    nodes = uses = 0
    for node in postorder(term):
        if node.op == "const":
            done[node] = node.payload, node.payload
            continue
        nodes += 1
        uses += sum(a.op != "const" for a in node.args)
        if node in axes:
            extent = axes[node]
            if not isinstance(extent, int) or extent == 0:
                return None
            done[node] = 0, extent - 1
        elif node.op == "sum":
            low = high = node.payload[0]
            for c, a in zip(node.payload[1], node.args, strict=True):
                (first, last), c = done[a], int(c)
                low, high = low + c * (first if c > 0 else last), high + c * (last if c > 0 else first)
            done[node] = low, high
        elif node.op in ("floordiv", "mod") and node.args[1].op == "const" and node.args[1].payload > 0:
            divisor = node.args[1].payload
            low, high = done[node.args[0]]
            done[node] = (low // divisor, high // divisor) if node.op == "floordiv" else (0, divisor - 1)
        else:
            return None
    low, high = done[term]
    # Every node but the root has a use. Where none has two, all occurrences of variables are different ones.
    return high + 1 if low >= 0 and uses <= max(0, nodes - 1) else None


def _at_corner(term: Term, box: Mapping[Term, tuple[int, int]], found: Bound | None) -> int | None:
    """One more than the greatest value of a term that a corner of the box has, where its bound says that there is no
    greater one; None where no corner has it, or where a value may be negative or undefined."""
    high = None if found is None or not at_least(found.low) else t.int_value(found.high)
    if high is None or len(box) > MOST_CORNERED or partial(term):
        return None
    corners = np.array(list(product(*((low, stop - 1) for low, stop in box.values()))), np.int64)
    value = values_at([term], dict(zip(box, corners.T, strict=True)), len(corners))
    return high + 1 if value is not None and int(value[0].max()) == high else None


def _clamped(high: Term, reached: bool = False) -> Dim:
    """One more than a greatest value; 0 where there is no point, which a size may say. `reached`: there are points."""
    extent = tidy_extent(high + 1)
    number = t.int_value(extent)
    if number is not None:
        return max(0, number)
    if reached or at_least(extent) or decider().prove(t.compare("le", 0, extent), {}):
        return as_dim(extent)
    return as_dim(t.binary("max", extent, 0))


def _negative(what: str, term: Term, witness: dict[str, int]) -> LayoutError:
    at = ", ".join(f"{name} = {value}" for name, value in witness.items())
    return NegativeOutput(
        what, f"{term} is negative" + (f" at {at}" if at else ""), "physical indices start at 0", witness
    )


def from_zero(term: Term, axes: Mapping[Term, Dim]) -> Term:
    """The term moved so that it is not negative over the box, where a bound of it is known.

    >>> i, j = t.var("i"), t.var("j")
    >>> print(from_zero(i - j, {i: 4, j: 3}))
    i - j + 2
    """
    found = bounds(merged(term), {v: (t.index_const(0), t.as_index(axes[v]) - 1) for v in free_variables(term)})
    return term if found is None or at_least(found.low) else term - found.low


def _enumerated(term: Term, box: Mapping[Term, tuple[int, int]], what: str) -> int:
    from eqsat.ir.terms.text import point_names

    env = grid(box)
    value, bad = evaluate_masked([term], env, load_table)[0]
    full = np.broadcast_shapes(value.shape, *(a.shape for a in env.values()))

    def point(flat: int) -> dict[str, int]:
        where = np.unravel_index(flat, full) if full else ()
        return {name: int(p) for name, p in zip(point_names(list(box)), where, strict=True)}

    if bad is not None and bool(np.any(bad)):
        at = point(int(np.argmax(np.broadcast_to(bad, full))))
        raise LayoutError(what, f"{term} is undefined at {', '.join(f'{n} = {v}' for n, v in at.items())}")
    if int(value.min()) < 0:
        raise _negative(what, term, point(int(np.argmin(np.broadcast_to(value, full)))))
    return int(value.max()) + 1

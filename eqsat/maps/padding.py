"""The padding of an index map: the cells of its declared shape that no point of the box reaches, as a predicate.

With an inverse at hand the padding is known exactly: a cell is reached if the inverse leads from it into the box and
the map leads back. Most of these conditions follow from the others; the predicate keeps as few as it can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import NDArray
from eqsat.ir.points import LARGEST_RANDOM, grid, some_points, values_at
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, postorder
from eqsat.maps.cases import Solved
from eqsat.maps.problem import Problem
from eqsat.maps.tidy import tidy

ALL_CELLS = 1 << 14
SHORT = 4  # nodes: nothing is shorter
LARGEST_SEARCH = 1 << 20
_HARD = ("bitxor", "bitand", "bitor", "load", "prod")  # what the prover needs long for
_CHUNK = 1 << 18
_FIRST = 1 << 7


def padding_of(problem: Problem, found: Solved) -> Term:
    """The padding of a map over numbers with a checked inverse, said with few conditions.

    A small box is tried at every cell; for a large one a choice that fits a sample is believed if the prover shows it.
    """
    assert problem.numbers is not None
    extents, declared = problem.numbers
    if prod(extents) == prod(declared):
        return t.FALSE
    values = found.values
    excluded = tidy(found.excluded, problem.cells)
    inside = problem.leaving(values)
    points = problem.points if prod(declared) <= ALL_CELLS else None
    if points is None:
        if found.exact or found.loose is not None:
            left = excluded if found.exact else tidy([*inside, *problem.astray(values, found.loose)], problem.cells)
            if _is_padding(problem, values, left):
                return _proved(problem, left, [] if found.exact else excluded)
        return _proved(problem, tidy(problem.conditions(values), problem.cells), excluded)
    truth = np.logical_not(points.reached)
    cells = grid(problem.cells)
    masks = _masks([*inside, *excluded], cells, declared)
    sets = [_cover([*masks], masks, truth), _cover(excluded, masks, truth)]
    if sets[0] is None:
        masks |= _masks(problem.astray(values), cells, declared)
        sets[0] = _cover([*masks], masks, truth)
    for chosen in sorted((c for c in sets if c is not None), key=lambda c: dag_size(*c)):
        short = t.logical_or(*tidy(chosen, problem.cells))
        mask = _masks([short], cells, declared).get(short)
        if mask is not None and np.array_equal(mask, truth):
            return short
    return t.logical_or(*problem.conditions(values))


def _masks(claims: Sequence[Term], env: dict[Term, NDArray], shape: tuple[int, ...]) -> dict[Term, NDArray]:
    """Where claims hold, at cells; claims that are undefined somewhere are left out."""
    result: dict[Term, NDArray] = {}
    different = list(dict.fromkeys(claims))
    for claim, (value, bad) in zip(different, evaluate_masked(different, env, load_table), strict=True):
        if bad is None or not bool(np.any(bad)):
            result[claim] = np.broadcast_to(value, shape).ravel()
    return result


def _cover(claims: Sequence[Term], masks: Mapping[Term, NDArray], truth: NDArray) -> list[Term] | None:
    """A few of the claims that together hold where `truth` does, or None."""
    usable: list[tuple[int, int, Term]] = []
    for n, claim in enumerate(claims):
        mask = masks.get(claim)
        if mask is not None and not bool(np.any(mask & ~truth)):
            usable.append((-int(np.count_nonzero(mask)), n, claim))
    kept: list[Term] = []
    covered = np.zeros_like(truth)
    for _, _, claim in sorted(usable, key=lambda item: (item[0], dag_size(item[2]))):
        if bool(np.any(masks[claim] & ~covered)):
            kept.append(claim)
            covered = covered | masks[claim]
    if not np.array_equal(covered, truth):
        return None
    for claim in list(kept):
        rest = [masks[c] for c in kept if c is not claim]
        if rest and np.array_equal(np.logical_or.reduce(rest), covered):
            kept = [c for c in kept if c is not claim]
    # Claims are lazy, from the left: one that may be undefined stands behind those that guard it.
    chosen = set(kept)
    return [c for c in dict.fromkeys(claims) if c in chosen]


def _proved(problem: Problem, claims: Sequence[Term], others: Sequence[Term]) -> Term:
    """A short disjunction for a box too large to try: chosen at a sample, shown by the prover."""
    assert problem.numbers is not None
    left = [c for c in dict.fromkeys(claims) if c is not t.FALSE]
    whole = t.logical_or(*left)
    if whole is t.TRUE or dag_size(whole) <= SHORT:
        return whole
    arrays = some_points(problem.numbers[1], ALL_CELLS)
    env, shape = dict(zip(problem.physical, arrays, strict=True)), (len(arrays[0]),)
    masks = _masks([whole, *left, *others], env, shape)
    if whole not in masks:
        return whole
    given = set(left)
    sets = [_cover(choice, masks, masks[whole]) for choice in ([*left, *others], others)]
    for chosen in sorted((c for c in sets if c is not None), key=lambda c: dag_size(*c)):
        short = t.logical_or(*chosen)
        if dag_size(short) >= dag_size(whole):
            break
        same = [t.logical_or(short, t.logical_not(c)) for c in left if c not in set(chosen)]
        same += [t.logical_or(whole, t.logical_not(c)) for c in chosen if c not in given]
        if all(decider().prove(c, problem.cells) for c in same):
            return short
    return whole


def first_cell(padding: Term, cells: Sequence[Term], declared: Sequence[int]) -> tuple[int, ...] | None:
    """The first cell, in row-major order, where the padding predicate holds; None if it is too far to be found."""
    total = prod(declared)
    if total > LARGEST_RANDOM:
        return None
    for start in range(0, min(total, LARGEST_SEARCH), _CHUNK):
        flat = np.arange(start, min(start + _CHUNK, total), dtype=np.int64)
        at = np.unravel_index(flat, tuple(declared)) if declared else ()
        value, _ = evaluate_masked([padding], dict(zip(cells, map(np.asarray, at), strict=True)), load_table)[0]
        holds = np.broadcast_to(value, flat.shape)
        if bool(holds.any()):
            k = int(np.argmax(holds))
            return tuple(int(a[k]) for a in at)
    if total <= LARGEST_SEARCH or any(n.op in _HARD for n in postorder(padding)):
        return None
    return _first_by_proof(padding, cells, declared)


def some_cell(padding: Term, cells: Sequence[Term], declared: Sequence[int]) -> tuple[int, ...] | None:
    """A cell where the padding predicate holds, or None if none is found at once."""
    arrays = some_points(declared)
    shape = (len(arrays[0]),) if arrays else ()
    holds = _masks([padding], dict(zip(cells, arrays, strict=True)), shape).get(padding)
    if holds is not None and bool(holds.any()):
        return tuple(int(a[int(np.argmax(holds))]) for a in arrays)
    box = {p: (0, n) for p, n in zip(cells, declared, strict=True)}
    proof = decider().prove(t.logical_not(padding), box)
    if proof.verdict != "refuted" or proof.witness is None:
        return None
    return tuple(int(proof.witness.get(str(p), 0)) for p in cells)


def _first_by_proof(padding: Term, cells: Sequence[Term], declared: Sequence[int]) -> tuple[int, ...] | None:
    """Axis by axis: the least coordinate up to which the prover finds padding, by bisection; None without padding."""
    box = {p: (0, n) for p, n in zip(cells, declared, strict=True)}
    for p, n in zip(cells, declared, strict=True):
        low, high = 0, n - 1
        while low < high:
            middle = (low + high) // 2
            proof = decider().prove(t.logical_not(padding), {**box, p: (low, middle + 1)})
            if proof.verdict == "unknown":
                return None
            if proof.verdict == "proved":
                low = middle + 1
            else:
                high = min(middle, int((proof.witness or {}).get(str(p), middle)))
        box[p] = (low, low + 1)
    cell = tuple(box[p][0] for p in cells)
    value, _ = evaluate_masked([padding], {p: np.asarray(k) for p, k in zip(cells, cell, strict=True)}, load_table)[0]
    return cell if bool(value) else None


def _is_padding(problem: Problem, values: Sequence[Term], claims: Sequence[Term]) -> bool:
    """Whether claims hold at those of a few cells whose values do not lie in the box, or do not lead back."""
    assert problem.numbers is not None
    cells = dict(zip(problem.physical, some_points(problem.numbers[1], whole=ALL_CELLS), strict=True))
    wrong, whole = astray(problem, values, cells), t.logical_or(*claims)
    if wrong is None:
        return False
    mask = _masks([whole], cells, wrong.shape).get(whole)
    return mask is not None and np.array_equal(mask, wrong)


def astray(problem: Problem, values: Sequence[Term], cells: Mapping[Term, NDArray]) -> NDArray | None:
    """A mask of the cells whose values do not lie in the box, or do not lead back; None where that is undefined."""
    assert problem.numbers is not None
    size = max((len(a) for a in cells.values()), default=1)
    found = values_at(values, cells, size)
    if found is None:
        return None
    wrong: NDArray = np.zeros(size, np.bool_)
    for x, extent in zip(found, problem.numbers[0], strict=True):
        wrong = wrong | (x < 0) | (x >= extent)
    inside = {v: np.where(wrong, 0, x) for v, x in zip(problem.inputs, found, strict=True)}
    back = values_at(problem.outputs, inside, size)
    if back is None:
        return None
    for x, p in zip(back, cells.values(), strict=True):
        wrong = wrong | (x != p)
    return wrong


def first_astray(problem: Problem, values: Sequence[Term], sample: bool = True) -> tuple[int, ...] | None:
    """The first cell from which values do not lead into the box and back, if it is found soon, else one of a few if a
    sample is wanted."""
    assert problem.numbers is not None
    declared = problem.numbers[1]
    total, start, size = prod(declared), 0, min(_FIRST, prod(declared))
    while size and start + size <= ALL_CELLS and total < LARGEST_RANDOM:
        at = np.unravel_index(np.arange(start, start + size), declared) if declared else ()
        cell = _first_of(problem, values, list(at))
        if cell is not None:
            return cell
        start, size = start + size, min(8 * size, total - start - size)
    return _first_of(problem, values, some_points(declared, whole=ALL_CELLS)) if sample and start < total else None


def _first_of(problem: Problem, values: Sequence[Term], cells: Sequence[NDArray]) -> tuple[int, ...] | None:
    mask = astray(problem, values, dict(zip(problem.physical, cells, strict=True)))
    places: list[int] = [] if mask is None else np.flatnonzero(mask).tolist()
    return min((tuple(int(c[k]) for c in cells) for k in places), default=None)

"""Untimed checks of what the sides answered, by numpy: at every point of a small box, at many points of a large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from map_suite.sides import Case, Found, Question

EVERY_POINT = 1 << 21
SAMPLES = 1 << 14


def sample(shape: Sequence[int], seed: int = 0) -> list[NDArray]:
    """Points of a box as one array per axis: all of a small box, else random ones and the corners."""
    if prod(shape) <= SAMPLES:
        return [a.ravel() for a in np.indices(tuple(shape))]
    random = np.random.default_rng(seed)
    arrays: list[NDArray] = []
    for k, n in enumerate(shape):
        corners = np.array([(n - 1) * (c >> min(k, 5) & 1) for c in range(64)])
        near = random.integers(0, n, 512)
        # Half of the points share their other coordinates with a neighbour, which tells apart what random ones do not.
        arrays.append(
            np.concatenate([corners, random.integers(0, n, SAMPLES), near, np.minimum(near + (k == 0), n - 1)])
        )
    return arrays


def values(terms: Sequence[Term], env: Mapping[str, NDArray]) -> list[NDArray]:
    size = len(next(iter(env.values()))) if env else 1
    found = evaluate_masked(list(terms), {t.var(n): a for n, a in env.items()}, load_table)
    return [np.broadcast_to(v if bad is None else np.where(bad, -(1 << 40), v), (size,)) for v, bad in found]


def truth(case: Case) -> tuple[bool | None, bool | None]:
    """Whether the map is injective, and bijective onto its declared shape; None where there are too many points."""
    if prod(case.shape) > EVERY_POINT:
        return (False, False) if _sampled_collision(case) else (None, None)
    grid = [a.ravel() for a in np.indices(case.shape)]
    cells = _cells(case, case.m.map_indices(grid))
    injective = bool(np.unique(cells).size == cells.size)
    return injective, injective and prod(case.shape) == prod(case.declared)


def _cells(case: Case, image: Sequence[NDArray]) -> NDArray:
    flat = np.zeros(len(image[0]) if image else 1, np.int64)
    for a, n in zip(image, case.declared, strict=True):
        flat = flat * n + a
    return flat


def _sampled_collision(case: Case) -> bool:
    points = np.unique(np.stack(sample(case.shape)), axis=1)
    cells = _cells(case, case.m.map_indices(list(points)))
    return bool(np.unique(cells).size < cells.size) or prod(case.shape) > prod(case.declared)


def judge(question: Question, case: Case, found: Found, injective: bool | None, bijective: bool | None) -> str:
    """ "right", "unknown", or "wrong"; a decision about more points than can be tried counts as right."""
    if found.kind == "unknown":
        return "unknown"
    if question == "decide":
        if found.kind == "yes" and found.note == "injective":  # up to strides, and about the map as it was read
            return "right" if injective is not False and _agree(case.m.outputs, found.terms, case.box) else "wrong"
        if found.kind == "yes":
            return "wrong" if injective is False or bijective is False else "right"
        return "wrong" if bijective else "right"
    if question == "invert":
        if found.kind == "none":
            return "wrong" if injective else "right"
        if injective is False:
            return "wrong"
        return "right" if found.inverse is None or _inverts(case, found) else "wrong"
    return "right" if not found.terms or _same(question, case, found) else "wrong"


def _inverts(case: Case, found: Found) -> bool:
    assert found.inverse is not None and found.padding is not None
    points = sample(case.shape)
    back = values(found.inverse.outputs, dict(zip(found.inverse.names, case.m.map_indices(points), strict=True)))
    if not all(np.array_equal(a, b) for a, b in zip(points, back, strict=True)):
        return False
    # The inverse being right on the image, a cell is reached exactly where it leads to a point that leads back.
    cells = sample(case.declared)
    *there, pads = values([*found.inverse.outputs, found.padding], dict(zip(found.inverse.names, cells, strict=True)))
    inside = np.logical_and.reduce([(x >= 0) & (x < n) for x, n in zip(there, case.shape, strict=True)])
    again = case.m.map_indices([np.where(inside, x, 0) for x in there])
    reached = np.logical_and.reduce([inside, *(a == b for a, b in zip(again, cells, strict=True))])
    return bool(np.array_equal(pads.astype(bool), ~reached))


def _same(question: Question, case: Case, found: Found) -> bool:
    if question == "simplify map":
        before, box = case.terms, case.box
    else:
        assert case.predicate is not None
        before, box = (case.predicate,), case.cell_box
    return _agree(before, found.terms, box)


def _agree(before: Sequence[Term], after: Sequence[Term], box: Mapping[str, int]) -> bool:
    env = dict(zip(box, sample(tuple(box.values())), strict=True))
    return all(np.array_equal(a, b) for a, b in zip(values(before, env), values(after, env), strict=True))

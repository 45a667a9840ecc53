"""Windows that overlap share what they have in common: a reduction of two as one after the other, by rows.

    before:  for c: for i, j: y[c, i, j] = max over r, q of x[c, i + r, j + q]          # of 3 x 3, 9 for each
    after:   for c: for i, u: t[i, u] = max over r of x[c, i + r, u]                    # 3 and 3
                    for i, j: y[c, i, j] = max over q of t[i, j + q]

Where a body depends on an axis j of the output and a reduced axis q only by j * s + q, the reduction over the other
reduced axes is the same for all j and q of one sum, and is computed once for it. That the body is so is shown by
putting the sum in place of the two, and back. Guards go with the body: at a border t holds what the body is there, and
that t reads nothing outside is shown anew.
Combiners may take their terms in any order, unless the value says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from eqsat.backends.lowering.access import load_claims, settle
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.rows import HALVES, SHARE, STACK, Group, Rows
from eqsat.backends.lowering.split import extent_of
from eqsat.backends.lowering.values import Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import BOOL, INDEX, itemsize
from eqsat.ir.errors import BoundsError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, linear_parts, load
from eqsat.ir.terms.walk import nodes_of, substitute

WORTH = 0.75
"""Two reductions take this part of the steps of one at most."""
COMBINERS = ("sum", "max", "min")
LEAST = 8
"""Windows side by side that are worth it."""


def share_windows(
    steps: Sequence[Value | Group], simplifier: IndexSimplifier, machine: Machine | None
) -> list[Value | Group]:
    """The steps, reductions over windows that overlap as two that share rows; none without a machine."""
    if machine is None:
        return list(steps)
    shapes = {v.name: v.shape for s in steps for v in ((s,) if isinstance(s, Value) else s.values)}
    result: list[Value | Group] = []
    for step in steps:
        group = _shared(step, simplifier, machine) if isinstance(step, Value) else None
        fits = group is not None and _is_inside(group.values[0], shapes, simplifier)
        result.append(group if group is not None and fits else step)
    return result


def _is_inside(value: Value, shapes: Mapping[str, tuple[int, ...]], simplifier: IndexSimplifier) -> bool:
    """Whether every access of a body is shown to stay in its buffer."""
    assert value.body is not None
    try:
        for claim in load_claims(value.body, shapes, simplifier):
            settle(claim, claim.guard, claim.form, simplifier)
    except BoundsError:
        return False
    return True


def _shared(value: Value, simplifier: IndexSimplifier, machine: Machine) -> Group | None:
    """A reduction as two in a loop over rows."""
    if value.kind != "body" or value.body is None or value.ordered or value.combiner not in COMBINERS:
        return None
    dtype = value.body.dtype
    if not value.points or dtype in (*HALVES, BOOL, INDEX) or sum(d > 1 for d in value.reduce) < 2:
        return None
    for along, across, steps in _windows(value):
        terms = prod(value.reduce) // extent_of(across)
        now = extent_of(along) * prod(value.reduce)
        then = _reach(along, across, steps) * terms + extent_of(along) * extent_of(across)
        group = _split(value, along, across, steps, simplifier, machine) if then <= WORTH * now else None
        if group is not None:
            return group
    return None


def _windows(value: Value) -> Iterator[tuple[Term, Term, tuple[int, int]]]:
    """Axes of the output, the last ones first, with reduced ones that an index adds to them, and the two factors."""
    assert value.body is not None
    indices = [i for n in nodes_of("load", value.body) for i in n.args]
    for n, d in reversed([*enumerate(value.shape)][1:]):
        for m, e in enumerate(value.reduce):
            along, across = t.ax(n, d), t.red(m, e)
            if d < LEAST or e < 2:
                continue
            for index in indices:
                factors = {u: k for k, u in linear_parts(index)[1]}
                steps = factors.get(along, 0), factors.get(across, 0)
                if min(steps) == 1:
                    yield along, across, steps
                    break


def _reach(along: Term, across: Term, steps: tuple[int, int]) -> int:
    """How many positions the windows reach over together."""
    return steps[0] * (extent_of(along) - 1) + steps[1] * (extent_of(across) - 1) + 1


def _split(
    value: Value, along: Term, across: Term, steps: tuple[int, int], simplifier: IndexSimplifier, machine: Machine
) -> Group | None:
    """Two reductions, if the body depends on two axes by their sum alone, and the rows between them fit in a cache."""
    assert value.body is not None
    (_, place), (_, gone), extent = along.payload, across.payload, _reach(along, across, steps)
    both = t.ax(place, extent)
    one, other = (along, across) if steps[0] == 1 else (across, along)
    body = substitute(value.body, {one: both, other: t.index_const(0)})
    there = substitute(body, {both: steps[0] * along + steps[1] * across})
    if simplifier.simplify(there) is not simplifier.simplify(value.body):
        return None
    rest = [m for m in range(len(value.reduce)) if m != gone]
    renamed = {t.red(m, value.reduce[m]): t.red(k, value.reduce[m]) for k, m in enumerate(rest)}
    name, dtype = f"{value.name}_windows", value.body.dtype
    shape = tuple(extent if n == place else d for n, d in enumerate(value.shape))
    reduce = tuple(value.reduce[m] for m in rest)
    first = replace(
        value, name=name, shape=shape, dtype=dtype, label=name, body=substitute(body, renamed), reduce=reduce,
        steps=(), after=None,
    )  # fmt: skip
    index = [t.ax(n, d) for n, d in enumerate(value.shape)]
    index[place] = steps[0] * along + steps[1] * t.red(0, extent_of(across))
    second = replace(value, body=load(name, index, dtype), reduce=(extent_of(across),))
    rows = _rows(shape, place, itemsize(dtype), machine)
    return None if rows == 0 else Group((first, second), Rows(rows, frozenset({name})), {})


def _rows(shape: Sequence[int], place: int, size: int, machine: Machine) -> int:
    """How many axes before one are those of rows: so that a row fits in the first cache, else the second; 0: none."""
    for room in (machine.first // 2, min(machine.second // SHARE, STACK)):
        for k in range(1, place + 1):
            if prod(shape[:k]) > 1 and prod(shape[k:]) * size <= room:
                return k
    return 0

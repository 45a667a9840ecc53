"""Loops in the order of a buffer's cells: split, fission, reorder and fuse as its index asks, guards where it pads.

An index like `[i//4, i%4]` is read digit by digit, and the loops are split, put in order and fused. Where the digits do
not tell (an offset, a sum of two loops), the whole nest is transformed by the index as a map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from eqsat.accesses.access import Access, Loop, accesses
from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.layouts.digits import static_digit
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, Seq, Stmt, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.ir.terms.walk import free_variables, substitute
from eqsat.scheduling.block_layout import transform_loops
from eqsat.scheduling.change import Change
from eqsat.scheduling.loops import fuse, rename_loop, split
from eqsat.scheduling.nest import (
    Place,
    at,
    blocks,
    find_block,
    find_loop,
    loops,
)
from eqsat.scheduling.order import fission, peel, reorder
from eqsat.scheduling.trace import Step, sizes_of

Digits = list[list[tuple[Term, int]]]
"""For each new loop the digits of old ones, as (axis, divisor), the most significant first."""


class Steps:
    """Small steps in a row: the function after them, and what they did."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.texts: list[str] = []
        self.reordered: list[str] = []

    def do(self, primitive: Callable[..., Change], **args: Any) -> tuple[str, ...]:
        """Take a step."""
        change = primitive(self.func, **args)
        step = Step(primitive.__name__, args, change.made, sizes=sizes_of(self.func, args))
        self.func = change.func
        self.texts.append(str(step))  # `change` says what was reordered
        self.reordered.extend(change.reordered)
        return change.made

    def change(self, made: Sequence[str]) -> Change:
        """All of them as one."""
        return Change(self.func, tuple(made), tuple(dict.fromkeys(self.reordered)), tuple(self.texts))


def reorder_by_buffer(func: PrimFunc, buffer: str, block: str | None = None) -> Change:
    """The loops of a block in the order of the cells of a buffer that it writes, or else reads.

    rewrite: `for i in 14: A[i//4, i%4] = S(i)` -> `for i_0 in 4: for i_1 in 4: if 4*i_0 + i_1 < 14: A[i_0, i_1] = ...`
    Without a block, all blocks that touch the buffer. Parts of loops that do not follow the buffer (an initialisation)
    are split off where that is legal.
    """
    what = f"reorder_by_buffer of {buffer}"
    if block is not None:
        found = find_block(func, block, what)
        return follow(func, buffer, found, what)
    names = [n for n, p in blocks(func).items() if _access(p, buffer) is not None]
    if not names:
        raise ScheduleError(what, f"no block touches {buffer}", f"the blocks are {', '.join(blocks(func))}")
    steps, made = Steps(func), list[str]()
    paths = {n: blocks(func)[n].path for n in names}
    for name in sorted(names, key=lambda n: paths[n], reverse=True):  # from the last one: earlier paths stay
        place = next(p for p in blocks(steps.func).values() if p.path == paths[name])
        change = follow(steps.func, buffer, place, what)
        steps.func = change.func
        steps.texts.extend(change.steps)
        steps.reordered.extend(change.reordered)
        made = [*change.made, *made]
    return steps.change(made)


def _access(place: Place, buffer: str) -> Access | None:
    """The access that the loops are to follow: the last write, or else the first read."""
    own = [a for a in accesses(place.stmt, place.context) if a.buffer == buffer]
    writes = [a for a in own if a.write]
    return writes[-1] if writes else own[0] if own else None


def follow(func: PrimFunc, buffer: str, place: Place, what: str) -> Change:
    """The same for one block."""
    steps = Steps(func)
    place = _unique(steps, place)
    access = _access(place, buffer)
    if access is None:
        raise ScheduleError(what, f"the block does not touch {buffer}")
    around = len(place.context.loops)
    index = [i for i in access.index if i is not None]
    if len(index) < len(access.index):
        shown = [None if i is None else str(i) for i in access.index]
        found = {"buffer": buffer, "index": shown}
        raise ScheduleError(what, f"the {access} depends on data", "reorder the loops by hand", found)
    own = access.loops[around:]
    axes = {loop.stmt.axis for loop in own}
    index = [i for i in dict.fromkeys(index) if any(v in axes for v in free_variables(i))]
    used = {v for i in index for v in free_variables(i)}
    involved = [n for n, loop in enumerate(own) if loop.stmt.axis in used]
    if not involved:
        return Change(func)
    range_ = own[involved[0] : involved[-1] + 1]
    rename = _apart(steps, range_, access)
    new = {x.stmt.axis: t.var(rename[x.name], x.stmt.axis.args[0]) for x in range_}
    index = [substitute(i, new) for i in index]
    members = [new[loop.stmt.axis] for loop in range_]
    kept = _kept(index, members)
    if [x.serial for x in (*index, *kept)] == [m.serial for m in members]:
        return steps.change([leaf_name(m) for m in members])
    if len(kept) == len(members):
        problem = f"the index {', '.join(map(str, index))} does not tell any of its loops"
        found = {"buffer": buffer, "index": [str(i) for i in index]}
        raise ScheduleError(what, problem, "reorder the loops by hand", found)
    digits = _digits(index, members)
    if digits is not None:
        try:
            trial = Steps(steps.func)
            made = _by_digits(trial, digits, members, kept)
        except ScheduleError:
            pass  # a guard in the way; the whole nest may still be transformed
        else:
            trial.texts, trial.reordered = [*steps.texts, *trial.texts], [*steps.reordered, *trial.reordered]
            return trial.change(made)
    positions = {m: t.var(f"v{n}") for n, m in enumerate(members)}  # the index has no other variables
    outputs = tuple(substitute(x, positions) for x in (*index, *kept))
    m = IndexMap(tuple(leaf_name(v) for v in positions.values()), outputs)
    return steps.change(steps.do(transform_loops, loops=[leaf_name(x) for x in members], index_map=m))


def _unique(steps: Steps, place: Place) -> Place:
    """The block after its loops have got names that no other loop has."""
    inside = len(place.path)
    while True:
        shared = [n for n, p in loops(steps.func).items() if "@" in n and p.path[:inside] == place.path]
        if not shared:
            return at(steps.func, place.path)
        name = fresh_name(shared[0].partition("@")[0], names_of(steps.func))
        steps.do(rename_loop, loop=shared[0], name=name)


def _apart(steps: Steps, members: Sequence[Loop], access: Access) -> dict[str, str]:
    """Split off what stands beside the nest of these loops; the new name of each of them."""
    rename = {loop.name: loop.name for loop in members}
    path = access.path
    for loop in reversed(members[:-1]):
        guards, body = peel(loop.stmt.body)
        if not isinstance(body, Seq):
            continue
        at = path[len(loop.path) + 1 + len(guards)]
        # Loops inside of this one were cut before: what was one part may be several now.
        name = rename[loop.name]
        body = peel(find_loop(steps.func, name, "fission")[0].body)[1]
        assert isinstance(body, Seq)
        inner = {rename[m.name] for m in members if len(m.path) > len(loop.path)}
        at = next((n for n, p in enumerate(body.parts) if _has_loop(p, inner)), at)
        count = len(body.parts)
        if at + 1 < count:
            steps.do(fission, loop=name, at=at + 1)
        if at > 0:
            rename[loop.name] = steps.do(fission, loop=name, at=at)[1]
    return rename


def _has_loop(stmt: Stmt, names: set[str]) -> bool:
    return any(isinstance(s, For) and leaf_name(s.axis) in names for s in statements(stmt))


def _kept(index: Sequence[Term], members: Sequence[Term]) -> list[Term]:
    """The loops that stay besides those of the index, so that no two iterations become one."""
    used = {v for i in index for v in free_variables(i)}
    kept = [m for m in members if m not in used]
    for candidate in [None, *reversed([m for m in members if m in used])]:
        if candidate is not None:
            kept = [m for m in members if m is candidate or any(m is k for k in kept)]
        box = {m: (0, n) for m in members if (n := t.int_value(m.args[0])) is not None}
        if decider().injective([*index, *kept], box):
            return kept
    return kept


def _digits(index: Sequence[Term], members: Sequence[Term]) -> Digits | None:
    """The index as digits of the loops, each digit of each loop once; None where it is none."""
    found: Digits = []
    known: dict[Term, list[tuple[int, int | None]]] = {}
    for output in index:
        constant, parts = t.linear_parts(output)
        ordered = sorted(parts, key=lambda p: p[0])
        place, digits = 1, list[tuple[Term, int]]()
        for c, part in ordered:
            digit = static_digit(part)
            if digit is None or c != place or constant or not any(digit.source is m for m in members):
                return None
            source, weight, radix = digit
            extent = t.int_value(source.args[0]) if source.args else None
            if extent is None:
                return None
            known.setdefault(source, []).append((weight, radix))
            digits.insert(0, (source, weight))
            place *= radix if radix is not None else -(-extent // weight)
        found.append(digits)
    for axis, places in known.items():
        reach: int | None = 1
        for divisor, modulus in sorted(places, key=lambda p: p[0]):
            if divisor != reach:
                return None
            reach = None if modulus is None else divisor * modulus
        if reach is not None and reach < (t.int_value(axis.args[0]) or 0):
            return None
    return found


def _by_digits(steps: Steps, digits: Digits, members: Sequence[Term], kept: Sequence[Term]) -> list[str]:
    by_axis: dict[Term, list[int]] = {}
    for row in digits:
        for axis, divisor in row:
            by_axis.setdefault(axis, []).append(divisor)
    name: dict[tuple[Term, int], str] = {}
    now: list[str] = []
    for axis in members:
        places = sorted(by_axis.get(axis, [1]), reverse=True)
        if len(places) == 1:
            name[axis, 1] = leaf_name(axis)
            now.append(leaf_name(axis))
            continue
        factors = [None, *(a // b for a, b in pairwise(places))]
        made = steps.do(split, loop=leaf_name(axis), factors=factors)
        name.update({(axis, p): n for p, n in zip(places, made, strict=True)})
        now.extend(made)
    spatial = [[name[d] for d in row] for row in digits]
    wanted = [*(n for row in spatial for n in row), *(leaf_name(k) for k in kept)]
    if wanted != now:
        steps.do(reorder, loops=wanted)
    result: list[str] = []
    for row in spatial:
        current = row[0]
        for other in row[1:]:
            (current,) = steps.do(fuse, outer=current, inner=other)
        result.append(current)
    return [*result, *(leaf_name(k) for k in kept)]

"""Random steps of schedules: some legal, some not, most of them on what is there."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from eqsat.accesses import dependences
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store, children, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import map_loads, nodes_of
from eqsat.scheduling import nest
from eqsat.scheduling.schedule import Schedule

Take = Callable[[Schedule], object]

MAPS = {
    1: ("i -> i//2, i%2", "i -> i//4, i%4", "i -> (i+1)//3, (i+1)%3", "i -> 0, i"),
    2: ("i, j -> j, i", "i, j -> i, j//2, j%2", "i, j -> i//2, j, i%2", "i, j -> j//3, i, j%3"),
    3: ("i, j, k -> k, i, j", "i, j, k -> i, k//2, j, k%2"),
}
BIJECTIVE = {1: ("i -> i//2, i%2", "i -> i"), 2: ("i, j -> j, i", "i, j -> i, j"), 3: ("i, j, k -> k, i, j",)}
PAIRS = ("i, j -> i + j, j", "i, j -> i, j + 2*i", "i, j -> (i+1)//2, (i+1)%2, j", "i, j -> j, i//2, i%2")


def _sum_of(*places: Term) -> Term:
    return t.linear(0, [(1, p) for p in places])


PADS: tuple[Any, ...] = (None, 0, 7, UNDEF, _sum_of)


def nests(s: Schedule) -> list[list[str]]:
    """The chains of loops with only guards between, outer ones first, of two or more."""
    found: list[list[str]] = []
    for name, place in nest.loops(s.func).items():
        chain, here = [name], place.stmt
        assert isinstance(here, For)
        body = here.body
        while isinstance(body, (For, If)):
            if isinstance(body, For):
                chain.append(leaf_name(body.axis))
                body = body.body
            else:
                body = body.then
        if len(chain) > 1:
            found.append(chain)
    return found


def steps(s: Schedule, rng: random.Random) -> list[tuple[str, Take]]:
    """A step of each kind that there is something for."""
    found: list[tuple[str, Take]] = []
    if not s.loops:
        return [("cache_read", lambda x: x.cache_read(x.func.params[0]))]
    loop = rng.choice(s.loops)
    factors = rng.choice([[None, 2], [None, 3], [2, None], [None, 2, 2]])
    found.append(("split", lambda x: x.split(loop, factors)))
    found.append(("parallel", lambda x: x.parallel(loop)))
    found.append(("vectorize", lambda x: x.vectorize(loop)))
    found.append(("unroll", lambda x: x.unroll(loop)))
    chains = nests(s)
    if chains:
        chain = rng.choice(chains)
        k = rng.randrange(len(chain) - 1)
        found.append(("fuse", lambda x: x.fuse(chain[k], chain[k + 1])))
        pair, pair_map = chain[k : k + 2], rng.choice(PAIRS)
        found.append(("transform_loops", lambda x: x.transform_loops(pair, pair_map)))
        order = list(chain)
        rng.shuffle(order)
        if order != chain:
            found.append(("reorder", lambda x: x.reorder(*order)))
    cuts = [(n, p.stmt.body) for n, p in nest.loops(s.func).items() if isinstance(p.stmt, For)]
    sequences = [(n, len(b.parts)) for n, b in cuts if isinstance(b, Seq)]
    if sequences:
        name, count = rng.choice(sequences)
        at = rng.randrange(1, count)
        found.append(("fission", lambda x: x.fission(name, at)))
    block = rng.choice(s.blocks)
    depth = nest.block_depth(s.func, block, "")
    if depth:
        m = rng.choice(BIJECTIVE[min(depth, 3)])
        found.append(("transform_block_layout", lambda x: x.transform_block_layout(block, m)))
    buffer = rng.choice([*s.func.params, *_locals(s)])
    found.append(("reorder_by_buffer", lambda x: x.reorder_by_buffer(buffer)))
    local = [d for d in dict.fromkeys(_locals(s)) if _locals(s).count(d) == 1 and 0 < len(s.buffer(d).shape) <= 3]
    if local:
        own = rng.choice(local)
        index_map = rng.choice(MAPS[len(s.buffer(own).shape)])
        pad = rng.choice(PADS)
        found.append(("transform_layout", lambda x: x.transform_layout(own, index_map, pad)))
    found.append(("cache_read", lambda x: x.cache_read(buffer)))
    found.append(("cache_write", lambda x: x.cache_write(buffer)))
    return found


PASSES = (
    "simplify_statements", "hoist_expression", "reduce_loop_extents", "merge_adjacent_loops", "remove_no_op",
    "remove_branching_through_overcompute", "remove_overcompute_through_branching", "choose_padding",
    "optimize_statements", "flatten_buffers",
)  # fmt: skip


KEPT = (
    "assume", "compact_buffer", "remove_assume", "remove_store_undef", "rename_loop", "set_axis_separators",
    "vectorize_buffers",
)  # fmt: skip
"""The names of `kept_steps`."""


def kept_steps(s: Schedule, rng: random.Random) -> list[tuple[str, Take]]:
    """Steps that move no iteration: names, promises that hold, physical axes, and buffers of another shape or type."""
    parts = list(statements(s.func.body))
    terms = [term for x in parts for term in stmt_terms(x)]
    there = {
        "vectorize_buffers": any(term.lanes > 1 for term in terms),
        "remove_assume": any(isinstance(x, Assume) for x in parts),
        "remove_store_undef": bool(nodes_of("hole", *terms)),
    }
    found: list[tuple[str, Take]] = [(n, lambda x, n=n: getattr(x, n)()) for n, able in there.items() if able]
    places = nest.loops(s.func)
    if places:
        name, place = rng.choice(list(places.items()))
        found.append(("rename_loop", lambda x: x.rename_loop(name, f"{name.partition('@')[0]}n")))
        assert isinstance(place.stmt, For)
        axis, least = place.stmt.axis, rng.randint(1, 3)
        holds = rng.choice([axis >= 0, axis // least <= axis, axis % least < least])
        found.append(("assume", lambda x: x.assume(holds)))
    free: Any = {"interface": "free"}
    for buffer in [p for p in s.func.params if len(s.buffer(p).shape) > 1]:
        at = rng.randrange(1, len(s.buffer(buffer).shape))
        found.append(("set_axis_separators", lambda x, n=buffer, at=at: x.set_axis_separators(n, [at], **free)))
    own = _locals(s)
    for buffer in [n for n in dict.fromkeys(own) if own.count(n) == 1]:
        found.append(("compact_buffer", lambda x, n=buffer: x.compact_buffer(n)))
        rank = len(s.buffer(buffer).shape)
        if rank > 1:
            at = rng.randrange(1, rank)
            found.append(("set_axis_separators", lambda x, n=buffer, at=at: x.set_axis_separators(n, [at])))
    return found


def widened(func: PrimFunc, rng: random.Random) -> PrimFunc:
    """The function with more cells around those of its local buffers, which nothing touches."""
    once = to_ssa(func)
    shown = {s.data for s in statements(once.body) if isinstance(s, Alias)}
    plain = [s.buffer for s in statements(once.body) if isinstance(s, Alloc) and s.buffer.name not in shown]
    low = {d.name: [rng.randint(0, 2) for _ in d.shape] for d in plain if d.is_dense and not d.transforms}

    def at(name: str, index: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(
            t.ramp(i.args[0] + n, i.args[1], i.payload) if i.op == "ramp" else i + n
            for i, n in zip(index, low[name], strict=True)
        )

    def load(term: Term) -> Term:
        if term.payload not in low:
            return term
        return t.make("load", at(term.payload, term.args), term.payload, term.dtype, term.lanes)

    def change(stmt: Stmt) -> Stmt:
        stmt = with_terms(stmt, lambda term: map_loads(term, load))
        if isinstance(stmt, Store) and stmt.buffer in low:
            stmt = Store(stmt.buffer, at(stmt.buffer, stmt.index), stmt.value)
        elif isinstance(stmt, Alloc) and stmt.buffer.name in low:
            shape = tuple(
                d + n + rng.randint(0, 1) for d, n in zip(stmt.buffer.shape, low[stmt.buffer.name], strict=True)
            )
            stmt = replace(stmt, buffer=replace(stmt.buffer, shape=shape))
        return with_children(stmt, [change(part) for part in children(stmt)])

    return replace(once, body=change(once.body))


WEIGHTS: Mapping[str, float] = {
    "remove_store_undef": 24, "vectorize_buffers": 8, "remove_overcompute_through_branching": 4,
    "reduce_loop_extents": 4, "compact_buffer": 3.5, "remove_assume": 3, "merge_adjacent_loops": 2.4,
    "hoist_expression": 2.5, "cache_write": 2.2, "remove_branching_through_overcompute": 2.6,
    "cache_read": 2.4, "transform_layout": 2.4, "reorder_by_buffer": 2.2, "transform_block_layout": 2, "fission": 2,
    "reorder": 2, "transform_loops": 1.8, "remove_no_op": 1.7, "simplify_statements": 1.5, "choose_padding": 1.5,
    "parallel": 1.2, "assume": 1.2, "fuse": 1.1, "flatten_buffers": 1.3, "optimize_statements": 1.1,
    "set_axis_separators": 1.5,
}  # fmt: skip
"""How much more often than others a step is drawn which is rarely possible or rarely changes anything."""


def draw(found: Sequence[tuple[str, Take]], rng: random.Random) -> tuple[str, Take]:
    """One of the steps: first of their names, by weight, then of those with that name."""
    named: dict[str, list[Take]] = {}
    for name, take in found:
        named.setdefault(name, []).append(take)
    (name,) = rng.choices(list(named), [WEIGHTS.get(n, 1) for n in named])
    return name, rng.choice(named[name])


def whole_steps(s: Schedule, rng: random.Random) -> list[tuple[str, Take]]:
    """Each pass as a step, and layouts of parameters, whose interface is free."""
    found: list[tuple[str, Take]] = [(n, lambda x, n=n: getattr(x, n)()) for n in PASSES]
    rank = {p: len(s.buffer(p).shape) for p in s.func.params}
    for name in rng.sample(s.func.params, 2):
        if rank[name] in MAPS:
            m, pad, style = rng.choice(MAPS[rank[name]]), rng.choice(PADS), rng.choice(("after", "after", "select"))
            more: Any = {"interface": "free", "style": style, "rewrite_loops": rng.random() < 0.8}
            found.append(("free layout", lambda x, n=name, m=m, p=pad, k=more: x.transform_layout(n, m, p, **k)))
    return found


def _locals(s: Schedule) -> list[str]:
    return [x.buffer.name for x in statements(s.func.body) if isinstance(x, Alloc)]


@contextmanager
def unchecked() -> Generator[None]:
    """Steps are taken without a look at dependences: to see what they would do."""
    known = dependences.conflict
    dependences.conflict = lambda *_, **__: None  # type: ignore[assignment]
    try:
        yield
    finally:
        dependences.conflict = known


def attempt(s: Schedule, take: Take) -> ScheduleError | None:
    """Take a step; the error where it is refused."""
    try:
        take(s)
    except ScheduleError as error:
        return error
    return None

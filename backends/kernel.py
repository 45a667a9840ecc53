"""One value, one kernel: from a fused body to the loop nest that fills its buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from eqsat.backends.access import flat_index, flatten_loads, load_claims, settle
from eqsat.backends.affine import Folder
from eqsat.backends.order import Order, loop_order, reduction_lanes, tile_transpose
from eqsat.backends.split import Axes, Nest, Policy, Roots, TooManyPieces, extent_of
from eqsat.backends.values import Value
from eqsat.ir import term as t
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.run import neutral
from eqsat.ir.stmt import Alloc, BufferDecl, For, PrimFunc, Seq, Stmt, Store, seq, statements, stmt_terms
from eqsat.ir.tables import Table
from eqsat.ir.term import Term, load
from eqsat.ir.walk import leaves, renumber_loads, substitute

POLICIES = (Policy(), Policy(split=False), Policy(cut=False, split=False, pieces=1 << 30))


def combine(combiner: str, a: Term, b: Term) -> Term:
    """One step of a reduction."""
    if combiner in ("sum", "prod"):
        return t.add(a, b) if combiner == "sum" else t.mul(a, b)
    return t.binary(combiner, a, b)


class KernelBuilder:
    """Builds the function of one value. `shapes` gives the logical shape of every buffer its body loads."""

    def __init__(self, value: Value, shapes: Mapping[str, tuple[int, ...]], folder: Folder) -> None:
        assert value.body is not None
        self.value = value
        self.folder = folder
        self.spatial = [t.ax(n, d) for n, d in enumerate(value.shape)]
        self.reduced = [t.red(n, d) for n, d in enumerate(value.reduce)]
        self.claims = load_claims(value.body, shapes, folder) if value.points else []
        self.flat = folder.fold(flatten_loads(value.body, shapes))

    def statements(self) -> Stmt:
        """The loop nest, the plainest policy last; every access of it is shown to be in range."""
        value = self.value
        if not all(value.shape):
            return Seq(())
        store = flat_index(self.spatial, value.shape)
        if not all(value.reduce):
            assert value.combiner is not None
            empty = t.const(neutral(value.combiner, value.dtype), value.dtype)
            order = loop_order(self.spatial, (), (empty, store), self.folder)
            return self.pointwise(Nest(self.folder, POLICIES[-1], {}, 2), order)
        evidence = [x for c in self.claims for x in (c.guard, c.form)]
        order = loop_order(self.spatial, self.reduced, (self.flat, store, *evidence), self.folder)
        wheres = len(leaves("where", self.flat))
        for policy in POLICIES:
            policy = replace(policy, pieces=policy.pieces + 2 * wheres)
            try:
                if value.combiner is None:
                    tiles = tile_transpose(order.spatial, order.roots[0])
                    return self.pointwise(Nest(self.folder, policy, tiles, 2), order)
                return self.reduction(policy, order)
            except TooManyPieces:
                continue
        raise AssertionError("the last policy has no limit")

    def settle(self, evidence: Sequence[Term]) -> None:
        """Show every claim at one place of the kernel."""
        for n, claim in enumerate(self.claims):
            if 2 * n < len(evidence):
                settle(claim, evidence[2 * n], evidence[2 * n + 1], self.folder)

    def pointwise(self, nest: Nest, order: Order) -> Stmt:
        """Loops around one store."""

        def store(roots: Roots, _: Axes) -> list[Stmt]:
            self.settle(roots[2:])
            return [Store(self.value.name, (roots[1],), roots[0])]

        def inner(roots: Roots, deferred: Axes) -> list[Stmt]:
            nest.leaves -= 1
            return nest.build(deferred, roots, store)

        return seq(nest.build(order.spatial, order.roots, inner))

    def reduction(self, policy: Policy, order: Order) -> Stmt:
        """Spatial loops around: clear the accumulators, loop and combine, store. Roots: body, index, lane, evidence."""
        value, combiner = self.value, str(self.value.combiner)
        dtype = "float32" if value.dtype == "float16" else value.dtype
        body = t.cast_to(order.roots[0], dtype)
        tiles = reduction_lanes(order.spatial, order.reduced, body, value.dtype, value.ordered)
        along = next((a for a in order.reduced if a in tiles), None)
        width = 1 if along is None else tiles[along]
        lane = t.index_const(0) if along is None else self.folder.fold(t.binary("mod", along, width))
        nest = Nest(self.folder, policy, tiles, 3)
        clear = t.const(neutral(combiner, dtype), dtype)

        def step(roots: Roots, _: Axes) -> list[Stmt]:
            self.settle(roots[3:])
            if roots[0] is clear:
                return []
            return [Store("acc", (roots[2],), combine(combiner, load("acc", [roots[2]], dtype), roots[0]))]

        def accumulate(roots: Roots, deferred: Axes) -> list[Stmt]:
            nest.leaves -= 1
            return nest.build(deferred, roots, step)

        def across(roots: Roots, _: Axes) -> list[Stmt]:
            """Accumulators along a reduced axis, or one: combined into the first at the end."""
            cell, total = t.ax(2000, width), t.index_const(0)
            start: Stmt = Store("acc", (cell if width > 1 else total,), clear)
            finish: list[Stmt] = []
            if width > 1:
                rest = t.ax(2001, width - 1)
                start = For(cell, start)
                joined = combine(combiner, load("acc", [total], dtype), load("acc", [rest + 1], dtype))
                finish = [For(rest, Store("acc", (total,), joined))]
            result = Store(value.name, (roots[1],), t.cast_to(load("acc", [total], dtype), value.dtype))
            parts = [start, *nest.build(order.reduced, roots, accumulate), *finish, result]
            return [Alloc(BufferDecl("acc", (width,), dtype), seq(parts))]

        def beside(roots: Roots, deferred: Axes) -> list[Stmt]:
            """Accumulators along the last output axis."""
            (v,) = deferred
            start = For(v, Store("acc", (v,), clear))
            held = (roots[0], roots[1], v, *roots[3:])
            result = For(v, Store(value.name, (roots[1],), t.cast_to(load("acc", [v], dtype), value.dtype)))
            parts = [start, *nest.build((*order.reduced, v), held, step), result]
            return [Alloc(BufferDecl("acc", (extent_of(v),), dtype), seq(parts))]

        def leaf(roots: Roots, deferred: Axes) -> list[Stmt]:
            nest.leaves -= 1
            return beside(roots, deferred) if deferred else across(roots, deferred)

        return seq(nest.build(order.spatial, (body, order.roots[1], lane, *order.roots[2:]), leaf))


def build_kernel(
    name: str, value: Value, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], folder: Folder
) -> tuple[PrimFunc, dict[str, NDArray]]:
    """The function that fills the buffer of a value, and the constant tables that it reads, by parameter name."""
    body = KernelBuilder(value, shapes, folder).statements()
    tables: dict[Table, str] = {}
    body = _name_tables(_number_loops(body, 0, {}), tables)
    names = [*_loaded(body), value.name]
    decls: dict[str, BufferDecl] = {}
    arrays = {name: table.array for table, name in tables.items()}
    for n in names:
        if n in arrays:
            decls[n] = BufferDecl(n, (int(arrays[n].size),), INDEX)
        else:
            shape = shapes[n]
            decls[n] = BufferDecl(n, (prod(shape),), dtypes[n], f"{dtypes[n]}[{', '.join(map(str, shape))}]")
    return PrimFunc(name, tuple(names), decls, body, ", ".join(value.steps)), arrays


def _number_loops(stmt: Stmt, depth: int, axes: dict[Term, Term]) -> Stmt:
    """Axes numbered by the loops around them, so that a kernel reads well."""
    if isinstance(stmt, For):
        role, _ = stmt.axis.payload
        axis = t.make("axis", stmt.axis.args, (role, depth))
        return replace(stmt, axis=axis, body=_number_loops(stmt.body, depth + 1, {**axes, stmt.axis: axis}))
    if isinstance(stmt, Store):
        return Store(stmt.buffer, tuple(substitute(i, axes) for i in stmt.index), substitute(stmt.value, axes))
    if isinstance(stmt, Alloc):
        return replace(stmt, body=_number_loops(stmt.body, depth, axes))
    return Seq(tuple(_number_loops(p, depth, axes) for p in stmt.parts)) if isinstance(stmt, Seq) else stmt


def _loaded(body: Stmt) -> list[str]:
    """The parameters that a body reads, in order of appearance."""
    found: dict[str, None] = {}
    local: set[str] = set()
    for stmt in statements(body):
        if isinstance(stmt, Alloc):
            local.add(stmt.buffer.name)
        for n in leaves("load", *stmt_terms(stmt)):
            found.setdefault(n.payload)
    return [n for n in found if n not in local]


def _name_tables(stmt: Stmt, tables: dict[Table, str]) -> Stmt:
    """Loads of constant tables as loads of named parameters."""

    def rename(term: Term) -> Term:
        used = [n.payload for n in leaves("load", term) if isinstance(n.payload, Table)]
        for table in used:
            tables.setdefault(table, table.source_key.replace(" ", "_"))
        return renumber_loads(term, {table: tables[table] for table in used}) if used else term

    if isinstance(stmt, Store):
        return Store(stmt.buffer, tuple(rename(i) for i in stmt.index), rename(stmt.value))
    if isinstance(stmt, (For, Alloc)):
        return replace(stmt, body=_name_tables(stmt.body, tables))
    if isinstance(stmt, Seq):
        return Seq(tuple(_name_tables(p, tables) for p in stmt.parts))
    return stmt

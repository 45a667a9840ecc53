"""One value, one kernel: from a fused body to the loop nest that fills its buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from eqsat.backends.lowering.access import Claim, flat_index, flatten_loads, load_claims, settle
from eqsat.backends.lowering.affine_moves import find_moves
from eqsat.backends.lowering.floor import upwards
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.moves import Move
from eqsat.backends.lowering.order import Order, loop_order, tile_transpose
from eqsat.backends.lowering.positions import positions_in_rows
from eqsat.backends.lowering.reduce import Reduction, choose_tile
from eqsat.backends.lowering.rows import ALL, Rows
from eqsat.backends.lowering.split import EVIDENCE, Axes, Nest, Policy, Roots, TooManyPieces
from eqsat.backends.lowering.values import RESULT, Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import map_terms, with_children, with_terms
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Seq, Stmt, Store, children, seq, statements, stmt_terms
from eqsat.ir.tensors.run import neutral
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, renumber_loads, substitute, transform

POLICIES = (Policy(), Policy(split=False), Policy(cut=False, split=False, pieces=1 << 30))


class KernelBuilder:
    """Builds the function of one value. `shapes` gives the logical shape of every buffer its body loads."""

    def __init__(
        self,
        value: Value,
        shapes: Mapping[str, tuple[int, ...]],
        simplifier: IndexSimplifier,
        machine: Machine | None = None,
        rows: Rows = ALL,
        forms: Mapping[Term, Term] | None = None,
    ) -> None:
        assert value.body is not None
        self.machine = machine
        self.value = value
        self.simplifier = simplifier
        self.axes = [t.ax(n, d) for n, d in enumerate(value.shape)]
        self.spatial = self.axes[rows.axes :]
        self.reduced = [t.red(n, d) for n, d in enumerate(value.reduce)]
        self.claims = load_claims(value.body, shapes, simplifier) if value.points else []
        self.elements = {name: prod(shape) for name, shape in shapes.items()}
        self.after = None
        if value.after is not None:
            self.after = simplifier.simplify(rows.flatten(value.after, {**shapes, RESULT: ()}))
        self.flat = simplifier.simplify(rows.flatten(value.body, shapes))
        if forms:
            self.flat = simplifier.simplify(substitute(self.flat, forms))
        self.store = rows.place(value.name, self.axes, value.shape)
        self.beside: tuple[KernelBuilder, ...] = ()
        """What a reduction stores before each of its steps: element-wise values, over the axes of the reduction."""

    def roots(self) -> Roots:
        """The body, where it is stored, what is applied to a result, what is stored beside; then evidence."""
        after = () if self.after is None else (self.after,)
        beside = [x for other in self.beside for x in (other.flat, other.store)]
        claims = ((c.guard, c.form, t.index_const(n)) for n, c in enumerate(self.all_claims))
        return (self.flat, self.store, *after, *beside, *(x for claim in claims for x in claim))

    def take(self, roots: Roots) -> Roots:
        """Have other roots that mean the same, the first of those given; the rest of these."""
        assert not self.beside
        self.flat, self.store, *rest = roots
        if self.after is not None:
            self.after, *rest = rest
        end = EVIDENCE * len(self.claims)
        pairs = zip(self.claims, rest[:end:EVIDENCE], rest[1:end:EVIDENCE], strict=True)
        self.claims = [Claim(guard, form, claim.access) for claim, guard, form in pairs]
        return tuple(rest[end:])

    @property
    def all_claims(self) -> list[Claim]:
        """What is to be shown of every load."""
        return self.claims + [claim for other in self.beside for claim in other.claims]

    def statements(self) -> Stmt:
        """The loop nest, the plainest policy last; every access of it is shown to be in range."""
        value = self.value
        if not all(value.shape):
            return Seq(())
        if not all(value.reduce):
            assert value.combiner is not None
            empty = t.const(neutral(value.combiner, value.dtype), value.dtype)
            order = loop_order(self.spatial, (), (empty, self.store), self.simplifier)
            return self.pointwise(Nest(self.simplifier, POLICIES[-1], {}, 2), order)
        roots = self.roots()
        watched = len(roots) - EVIDENCE * len(self.all_claims)
        order = loop_order(self.spatial, self.reduced, roots, self.simplifier, watched)
        wheres = len(nodes_of("where", self.flat))
        for policy in POLICIES:
            policy = replace(policy, pieces=policy.pieces + 2 * wheres)
            try:
                if value.combiner is None:
                    tiles = tile_transpose(order.spatial, order.roots[0])
                    return self.pointwise(Nest(self.simplifier, policy, tiles, 2), order)
                return self.reduction(policy, order)
            except TooManyPieces:
                continue
        raise AssertionError("the last policy has no limit")

    def settle(self, evidence: Sequence[Term]) -> None:
        """Show every claim at one place of the kernel that is not shown around it."""
        claims = self.all_claims
        for guard, form, number in zip(*(evidence[n::EVIDENCE] for n in range(EVIDENCE)), strict=True):
            settle(claims[t.int_value(number) or 0], guard, form, self.simplifier)

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
        """Spatial loops around: clear the accumulators, loop and combine, store."""
        value = self.value

        dtype = value.reduced_dtype

        def store(roots: Roots, held: Term) -> Store:
            result = t.cast_to(held, dtype)
            if value.after is not None:
                result = transform(roots[2], lambda n: result if n.op == "load" and n.payload == RESULT else None)
            return Store(value.name, (roots[1],), result)

        def beside(roots: Roots) -> list[Stmt]:
            pairs = zip(self.beside, roots[::2], roots[1::2], strict=True)
            return [Store(other.value.name, (place,), value) for other, value, place in pairs]

        tile = choose_tile(order, dtype, str(value.combiner), value.ordered, self.elements, self.machine)
        work = Reduction(str(value.combiner), dtype, order, tile, self.simplifier, self.settle, store, beside)
        return seq(work.statements(policy, 1 if value.after is None else 2, 2 * len(self.beside)))


def kernel_moves(
    value: Value,
    shapes: Mapping[str, tuple[int, ...]],
    simplifier: IndexSimplifier,
    forms: Mapping[Term, Term] | None = None,
) -> tuple[Move, ...] | None:
    """The moves of an element-wise value; None where it is not a small union of affine ones."""
    if value.combiner is not None or value.body is None:
        return None
    axes = tuple(t.ax(n, d) for n, d in enumerate(value.shape))
    body = simplifier.simplify(flatten_loads(value.body, shapes))
    if forms:
        body = simplifier.simplify(substitute(body, forms))
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    return find_moves(value.name, value.dtype, axes, body, flat_index(axes, value.shape), sizes, simplifier)


def build_kernel(
    name: str,
    value: Value,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str],
    simplifier: IndexSimplifier,
    machine: Machine | None = None,
    forms: Mapping[Term, Term] | None = None,
) -> tuple[PrimFunc, dict[str, NDArray]]:
    """The function that fills the buffer of a value, and the constant tables that it reads, by parameter name.

    `forms` gives index terms of its flat body other ones that are equal.
    """
    body = KernelBuilder(value, shapes, simplifier, machine, forms=forms).statements()
    if machine is not None:
        body = positions_in_rows(body, simplifier)
    return kernel_function(name, body, [value], shapes, dtypes, simplifier)


def kernel_function(
    name: str,
    body: Stmt,
    values: Sequence[Value],
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str],
    simplifier: IndexSimplifier,
) -> tuple[PrimFunc, dict[str, NDArray]]:
    """A loop nest that fills the buffers of values as a function, and the constant tables that it reads."""
    tables: dict[Table, str] = {}

    def finish(term: Term) -> Term:
        """Dividends that are not negative, and loads of constant tables as loads of named parameters."""
        term = upwards(term, simplifier)
        used = [n.payload for n in nodes_of("load", term) if isinstance(n.payload, Table)]
        for table in used:
            tables.setdefault(table, table.source_key.replace(" ", "_"))
        return renumber_loads(term, {table: tables[table] for table in used}) if used else term

    body = map_terms(_number_loops(body, 0, {}), finish)
    filled = {v.name: None for v in values}
    local = {s.buffer.name for s in statements(body) if isinstance(s, Alloc)}
    names = [*(n for n in _loaded(body) if n not in filled), *(n for n in filled if n not in local)]
    decls: dict[str, BufferDecl] = {}
    arrays = {name: table.array for table, name in tables.items()}
    for n in names:
        if n in arrays:
            decls[n] = BufferDecl(n, (int(arrays[n].size),), INDEX)
        else:
            shape = shapes[n]
            decls[n] = BufferDecl(n, (prod(shape),), dtypes[n], f"{dtypes[n]}[{', '.join(map(str, shape))}]")
    note = ", ".join(step for v in values for step in v.steps)
    return PrimFunc(name, tuple(names), decls, body, note), arrays


def _number_loops(stmt: Stmt, depth: int, axes: dict[Term, Term]) -> Stmt:
    """Axes numbered by the loops around them, so that a kernel reads well."""
    if isinstance(stmt, For):
        role, _ = stmt.axis.payload
        axis = t.make("axis", stmt.axis.args, (role, depth))
        return replace(stmt, axis=axis, body=_number_loops(stmt.body, depth + 1, {**axes, stmt.axis: axis}))
    stmt = with_terms(stmt, lambda term: substitute(term, axes))
    return with_children(stmt, [_number_loops(part, depth, axes) for part in children(stmt)])


def _loaded(body: Stmt) -> list[str]:
    """The parameters that a body reads, in order of appearance."""
    found: dict[str, None] = {}
    local: set[str] = set()
    for stmt in statements(body):
        if isinstance(stmt, Alloc):
            local.add(stmt.buffer.name)
        for n in nodes_of("load", *stmt_terms(stmt)):
            found.setdefault(n.payload)
    return [n for n in found if n not in local]

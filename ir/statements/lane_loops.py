"""Stores of vectors as loops over their lanes, for passes that know scalar accesses only; and back, where a pass left
such a loop as it was.

A store of a vector reads all that its lanes read before it writes one, and then writes them in order. A loop over lanes
does so where no lane reads memory that a lane before it has written, which addresses show; else the loop runs from the
last lane to the first, or the values are held in a local buffer between two loops. A hole with the lane in its index is
one for each lane, one without is shared by all of them: it stays the term that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.ir.statements.lanes import has_lanes, lane, scalar_decl
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    For,
    LoopKind,
    Stmt,
    Store,
    children,
    own_accesses,
    seq,
    statements,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.ir.terms.walk import map_loads, nodes_of, occurs, renumber_loads

MOST_LANES = 64
"""Of longer vectors each pair of lanes is taken to meet."""


@dataclass(frozen=True, eq=False)
class LaneLoops:
    """A function whose vector stores are loops, as far as they can be.

    before: the function with vectors. loops: what each store, or assumption about lanes, became, and
    what it was. names: of the new loops.
    views: of each buffer of vectors, by the name of the buffer of its lanes, the alias that was replaced by that, if
    it is one. taken: the names in use.
    """

    before: PrimFunc
    func: PrimFunc
    loops: Mapping[Stmt, Store | Assume]
    names: tuple[str, ...]
    views: Mapping[str, tuple[str, Alias | None]]


@dataclass(frozen=True, eq=False)
class _Memory:
    """A buffer: its declaration, the buffer that owns its memory, the first byte there, and the name of the view of its
    lanes, where it holds vectors."""

    decl: BufferDecl
    root: int
    start: int = 0
    view: str | None = None

    def address(self, index: Sequence[Term]) -> Term:
        """The first byte of an element of the buffer, or of a lane of it where the index is one of the view."""
        decl = self.decl.in_one_axis
        flat = t.index_const(0)
        if decl.strides is not None:
            for i, stride in zip(index, decl.strides, strict=True):
                flat = flat + i * stride
        else:
            for i, extent in zip(index, decl.shape, strict=True):
                flat = flat * extent + i
        return (flat + decl.elem_offset) * decl.element_bytes + self.start


_Scope = Mapping[str, _Memory]


def to_lane_loops(func: PrimFunc) -> LaneLoops:
    """The function with each store of a vector as a loop over its lanes, which is vectorized where lanes are apart.

    >>> f = PrimFunc.parse('''func f(x: float32[8], y: float32[8])
    ...   y[ramp(7, -2, 4)] = x[ramp(0, 1, 4)]
    ...   y[ramp(1, 1, 4)] = y[ramp(0, 1, 4)]''')
    >>> print(to_lane_loops(f).func)
    func f(x: float32[8], y: float32[8])
      vectorized for lane in 4:
        y[7 - 2*lane] = x[lane]
      for lane_1 in 4:
        y[4 - lane_1] = y[3 - lane_1]

    A store stays as it is where one of its buffers holds vectors and is not dense, and where a hole would have to be
    held.
    """
    if not has_lanes(func):
        return LaneLoops(func, func, {}, (), {})
    work = _Work(func)
    body = work.stmt(func.body, work.params(func))
    views = [(view, name) for view, (name, alias) in work.views.items() if alias is None and name in func.buffer_map]
    for view, name in reversed(views):
        body = Alias(scalar_decl(func.buffer_map[name], view), name, body)
    return LaneLoops(func, replace(func, body=body), work.loops, tuple(work.names), work.views)


def with_vectors(made: LaneLoops, func: PrimFunc, keep: Collection[str] = ()) -> PrimFunc:
    """A function that a pass made of one with lane loops, with vector stores again where a loop still is one.

    keep: the names of loops that are to stay.

    >>> f = PrimFunc.parse('''func f(x: float32[8], y: float32[8])
    ...   y[ramp(0, 1, 4)] = x[ramp(0, 1, 4)]''')
    >>> made = to_lane_loops(f)
    >>> with_vectors(made, made.func) == f
    True
    """
    if func == made.func and not set(keep) & set(made.names):
        return made.before
    if not made.loops and not made.views:
        return func
    work = _Back(func, made, keep)
    return replace(func, body=_without(work.stmt(func.body, work.params(func)), work.idle()))


class _Work:
    """One function on the way to scalars."""

    def __init__(self, func: PrimFunc) -> None:
        self.taken = names_of(func)
        self.used = {name for s in statements(func.body) for name in _buffers(s)}
        self.roots = 0
        self.loops: dict[Stmt, Store | Assume] = {}
        self.names: list[str] = []
        self.views: dict[str, tuple[str, Alias | None]] = {}

    def fresh(self, base: str) -> str:
        name = fresh_name(base, self.taken)
        self.taken.add(name)
        return name

    def params(self, func: PrimFunc) -> _Scope:
        return {name: self.memory(func.buffer_map[name]) for name in func.params}

    def memory(self, decl: BufferDecl, alias: Alias | None = None, scope: _Scope | None = None) -> _Memory:
        """A buffer as it is declared, with a view of its lanes where it needs one."""
        if alias is not None and scope is not None:
            base = scope[alias.data]
            found = _Memory(decl, base.root, base.start + alias.offset * decl.element_bytes)
        else:
            self.roots += 1
            found = _Memory(decl, self.roots)
        closed = any(s.value is None for s in decl.padding_steps)  # of which a view of the lanes would know nothing
        plain = decl.is_dense and not decl.axis_separators and not closed
        if decl.lanes == 1 or not plain or decl.name not in self.used:
            return found
        return replace(found, view=self.view(decl, alias))

    def view(self, decl: BufferDecl, alias: Alias | None) -> str | None:
        view = self.fresh(f"{decl.name}_lanes")
        self.views[view] = decl.name, None if alias is None else replace(alias, body=seq([]))
        return view

    # -- statements

    def stmt(self, stmt: Stmt, scope: _Scope) -> Stmt:
        if isinstance(stmt, (Store, Assume)):
            return self.lane_by_lane(stmt, scope)
        if isinstance(stmt, (Alloc, Alias)):
            return self.declaration(stmt, scope)
        return with_children(stmt, [self.stmt(part, scope) for part in children(stmt)])

    def declaration(self, stmt: Alloc | Alias, scope: _Scope) -> Stmt:
        found = self.memory(stmt.buffer, stmt if isinstance(stmt, Alias) else None, scope)
        body = self.stmt(stmt.body, {**scope, stmt.buffer.name: found})
        if found.view is None:
            return replace(stmt, body=body)
        lanes = scalar_decl(stmt.buffer, found.view)
        if isinstance(stmt, Alloc):
            return replace(stmt, body=Alias(lanes, stmt.buffer.name, body))
        kept = replace(stmt, body=Alias(lanes, stmt.buffer.name, body))
        return kept if stmt.buffer.name in _mentioned(body) else Alias(
            lanes, stmt.data, body, stmt.offset * stmt.buffer.lanes)  # fmt: skip

    def lane_by_lane(self, stmt: Store | Assume, scope: _Scope) -> Stmt:
        if (stmt.value if isinstance(stmt, Store) else stmt.condition).lanes == 1:
            return stmt
        made = loop_of(stmt, scope, self.fresh)
        if made is None:
            return stmt
        self.names += [leaf_name(s.axis) for s in statements(made) if isinstance(s, For)]
        self.loops[made] = stmt
        return made


class _Back(_Work):
    """One function on the way back: loops that are those of a store in its scope are that store."""

    def __init__(self, func: PrimFunc, made: LaneLoops, keep: Collection[str]) -> None:
        super().__init__(func)
        self.made = made
        self.marks = {*made.names, *(s.buffer.name for s in made.loops if isinstance(s, Alloc))}.difference(keep)
        self.declared = {s.buffer.name for s in statements(func.body) if isinstance(s, (Alloc, Alias))}

    def idle(self) -> set[str]:
        """The names of aliases that stand for one another: those that nothing uses go."""
        return {*self.made.views, *(name for name, alias in self.made.views.values() if alias is not None)}

    def view(self, decl: BufferDecl, alias: Alias | None) -> str | None:
        return None  # it is where its alias stands

    def stmt(self, stmt: Stmt, scope: _Scope) -> Stmt:
        name = leaf_name(stmt.axis) if isinstance(stmt, For) else stmt.buffer.name if isinstance(stmt, Alloc) else None
        if name in self.marks:
            plain = vector_of(stmt)
            whole = None if plain is None else self.in_elements(plain, scope)
            for found in (self.made.loops.get(stmt), whole, plain):
                if found is not None and self.stands(stmt, found, scope):
                    return found
        return super().stmt(stmt, scope)

    def declaration(self, stmt: Alloc | Alias, scope: _Scope) -> Stmt:
        own = stmt.buffer.name
        found = self.memory(stmt.buffer, stmt if isinstance(stmt, Alias) else None, scope)
        inner = {**scope, own: found}
        if own not in self.made.views or not isinstance(stmt, Alias):
            return replace(stmt, body=self.stmt(stmt.body, inner))
        name, alias = self.made.views[own]
        if name in scope and stmt.data == name and _is_view(stmt, scope[name].decl, 0):
            return replace(stmt, body=self.stmt(stmt.body, {**inner, name: replace(scope[name], view=own)}))
        if alias is None or name in self.declared or stmt.data != alias.data or not _is_view(
                stmt, alias.buffer, alias.offset):  # fmt: skip
            return replace(stmt, body=self.stmt(stmt.body, inner))
        vectors = replace(self.memory(alias.buffer, alias, scope), view=own)
        return replace(alias, body=replace(stmt, body=self.stmt(stmt.body, {**inner, name: vectors})))

    def in_elements(self, store: Store, scope: _Scope) -> Store:
        """A store whose accesses of views are those of the vectors that they show, where they may be."""
        shown = {m.view: m.decl for m in scope.values() if m.view is not None}

        def moved(name: object, index: Sequence[Term]) -> tuple[str, tuple[Term, ...]] | None:
            decl = shown.get(str(name))
            if decl is None or index[-1].op != "ramp" or index[-1].lanes != decl.lanes:
                return None
            constant, parts = t.linear_parts(index[-1].args[0])
            if any(c % decl.lanes for c in (constant, *(c for c, _ in parts))):
                return None
            element = t.linear(constant // decl.lanes, [(c // decl.lanes, x) for c, x in parts])
            return decl.name, ((*index[:-1], element) if decl.shape else ())

        def load(node: Term) -> Term:
            found = moved(node.payload, node.args)
            return node if found is None else t.make("load", found[1], found[0], node.dtype, node.lanes)

        target = moved(store.buffer, store.index) or (store.buffer, store.index)
        return Store(target[0], tuple(map_loads(i, load) for i in target[1]), map_loads(store.value, load))

    def stands(self, stmt: Stmt, store: Store | Assume, scope: _Scope) -> bool:
        """Whether the loop of a store, in this scope and by the names that it has, is this statement."""
        if not _buffers(store) <= scope.keys():
            return False
        loops = [leaf_name(s.axis) for s in statements(stmt) if isinstance(s, For)]
        held = [s.buffer.name for s in statements(stmt) if isinstance(s, Alloc)]
        names = iter([*held, *loops])
        return loop_of(store, scope, lambda _: next(names)) == stmt


def _is_view(stmt: Alias, decl: BufferDecl, offset: int) -> bool:
    """Whether an alias shows the lanes of a buffer that begins so many elements after the memory of both."""
    return stmt.buffer == scalar_decl(decl, stmt.buffer.name) and stmt.offset == offset * decl.lanes


# -- one store -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Lanes:
    """One store in its scope, lane by lane."""

    store: Store
    scope: _Scope

    @property
    def target(self) -> _Memory:
        return self.scope[self.store.buffer]

    def term(self, term: Term, number: int | Term) -> Term:
        return _lane_of(term, number, self.scope)

    def at(self, number: int | Term) -> tuple[Term, ...]:
        """The index of a lane."""
        index, wide = tuple(self.term(i, number) for i in self.store.index), self.target.decl.lanes
        last = index[-1] if index else t.index_const(0)
        return (*index[:-1], last * wide + number) if wide > 1 else index

    def bytes_of(self, name: str, index: Sequence[Term], number: int) -> tuple[tuple[Term, ...], tuple[int, int]]:
        """Where a lane of an access lies: terms that lanes may share, and bytes from the sum of these on."""
        memory = self.scope[name]
        size = memory.decl.element_bytes // memory.decl.lanes
        skip = number * size if memory.decl.lanes > 1 else 0
        address = memory.address([self.term(i, number) for i in index]) + skip
        constant, parts = t.linear_parts(address)
        return tuple(c * x for c, x in parts), (constant, constant + size)


def _lane_of(term: Term, number: int | Term, scope: _Scope) -> Term:
    """One lane of a term, with loads of views for those of vectors."""
    found = lane(term, number, {n: m.decl.lanes for n, m in scope.items() if m.decl.lanes > 1})
    return renumber_loads(found, {n: m.view for n, m in scope.items() if m.view is not None})


def loop_of(store: Store | Assume, scope: _Scope, fresh: Callable[[str], str]) -> Stmt | None:
    """A store of a vector, or an assumption about lanes, as a loop over these; None where that is not to be had."""
    if any(scope[b].decl.lanes > 1 and scope[b].view is None for b in _buffers(store)):
        return None
    if isinstance(store, Assume):
        each = t.var(fresh("lane"), store.condition.lanes)
        return For(each, Assume(_lane_of(store.condition, each, scope)), "vectorized")
    it = _Lanes(store, scope)
    inner = [*nodes_of("load", store.value, *store.index)]
    named = [n for n in inner if isinstance(n.payload, str)]
    own = [n for n in named if scope[n.payload].root == it.target.root]
    count = store.value.lanes
    writes = [(store.buffer, store.index)]
    reads = [(str(n.payload), n.args) for n in own]
    meets = _meets(it, reads, writes, count)
    twice = bool(_meets(it, writes, writes, count))
    forward, back = any(k < j for j, k in meets), any(k > j for j, k in meets)
    name = scope[store.buffer].view or store.buffer
    if not forward or (not back and not twice):
        k = t.var(fresh("lane"), count)
        place: Term = k if not forward else count - 1 - k
        kind: LoopKind = "serial" if forward or back or twice else "vectorized"
        return For(k, Store(name, it.at(place), it.term(store.value, place)), kind)
    in_index = any(scope[n.payload].root == it.target.root for n in nodes_of("load", *store.index))
    if in_index or leaves_open(store.value):
        return None
    held = BufferDecl(fresh("lanes"), (count,), it.target.decl.scalar)
    j, k = (t.var(fresh("lane"), count) for _ in range(2))
    read = For(j, Store(held.name, (j,), it.term(store.value, j)), "vectorized")
    write = For(k, Store(name, it.at(k), t.load(held.name, [k], held.dtype)), "serial" if twice else "vectorized")
    return Alloc(held, seq([read, write]))


Accesses = Sequence[tuple[str, Sequence[Term]]]


def _meets(it: _Lanes, one: Accesses, other: Accesses, count: int) -> set[tuple[int, int]]:
    """Different lanes j and k for which an access of `one` in j and of `other` in k may share a byte."""
    pairs = {(j, k) for j in range(count) for k in range(count) if j != k}
    if count > MOST_LANES:
        return pairs if one and other else set()
    found: set[tuple[int, int]] = set()
    places = [[[it.bytes_of(*access, n) for access in side] for n in range(count)] for side in (one, other)]
    for j, k in pairs:
        for base, (first, last) in places[0][j]:
            for own, (start, end) in places[1][k]:
                same = len(base) == len(own) and all(a is b for a, b in zip(base, own, strict=True))
                if not same or (first < end and start < last):
                    found.add((j, k))
    return found


def leaves_open(value: Term) -> bool:
    """Whether a value may be a hole itself, which frees a cell; held in a buffer it would be a value like any other."""
    if value.op in ("where", "given", "broadcast"):
        return any(map(leaves_open, value.args[value.op != "broadcast" :]))
    return value.op == "hole"


# -- and back --------------------------------------------------------------------------------------------------------


def vector_of(stmt: Stmt) -> Store | None:
    """The store of a vector that a loop over lanes may be, by its text: whether it is, `loop_of` tells."""
    if not isinstance(stmt, For) or not isinstance(stmt.body, Store) or t.int_value(stmt.extent_term) is None:
        return None
    k, store = stmt.axis, stmt.body
    index, value = [_ramps(i, k, stmt.extent) for i in store.index], _ramps(store.value, k, stmt.extent)
    if not index or (value.lanes == 1 and leaves_open(value)):
        return None
    value = t.broadcast(value, stmt.extent) if stmt.extent else value
    if index[-1].lanes == 1:
        index[-1] = t.ramp(index[-1], 0, stmt.extent)
    loads = [n for n in nodes_of("load", value, *index) if n.args]
    if any(i.lanes > 1 for at in (index, *(n.args for n in loads)) for i in at[:-1]):
        return None
    return Store(store.buffer, tuple(index), value)


def _ramps(term: Term, k: Term, count: int) -> Term:
    """A term for all values of an axis at once."""
    if not occurs([k], term):
        return term
    if term.dtype == t.INDEX:
        constant, parts = t.linear_parts(term)
        still = [(c, x) for c, x in parts if not occurs([k], x)]
        steps = [_over(c, x, k) for c, x in parts if occurs([k], x)]
        if all(step is not None for step in steps):
            return t.ramp(t.linear(constant, still), t.linear(0, [(1, x) for x in steps if x is not None]), count)
    return t.rebuild(term, [_ramps(a, k, count) for a in term.args])


def _over(coefficient: int, summand: Term, k: Term) -> Term | None:
    """The step of a summand that is the axis times something else."""
    if summand is k:
        return t.index_const(coefficient)
    rest = [a for a in summand.args if a is not k]
    if summand.op == "prod" and len(rest) == len(summand.args) - 1 and not occurs([k], *rest):
        return coefficient * t.product(rest)
    return None


# -- names -------------------------------------------------------------------------------------------------------------


def _buffers(stmt: Stmt) -> set[str]:
    """The buffers that a statement itself accesses."""
    return {name for name, _ in own_accesses(stmt)}


def _mentioned(stmt: Stmt) -> set[str]:
    """The buffers that a statement and those inside access or alias."""
    inner = list(statements(stmt))
    return {s.data for s in inner if isinstance(s, Alias)}.union(*map(_buffers, inner))


def _without(stmt: Stmt, names: Container[str]) -> Stmt:
    """The statement without those of these aliases that nothing uses."""
    stmt = with_children(stmt, [_without(part, names) for part in children(stmt)])
    if isinstance(stmt, Alias) and stmt.buffer.name in names and stmt.buffer.name not in _mentioned(stmt.body):
        return stmt.body
    return stmt

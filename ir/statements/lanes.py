"""Vector accesses as scalar ones: a store of several lanes is as many stores, of values that are all read before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    Stmt,
    Store,
    children,
    seq,
    statements,
    stmt_terms,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim
from eqsat.ir.terms.term import Term, rebuild
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import nodes_of, postorder, renumber_loads


def has_lanes(func: PrimFunc) -> bool:
    """Whether a function has vector accesses, or buffers of vectors."""
    stmts = list(statements(func.body))
    decls = [*func.buffer_map.values(), *(s.buffer for s in stmts if isinstance(s, (Alloc, Alias)))]
    return any(d.lanes > 1 for d in decls) or any(
        n.lanes > 1 for n in postorder(*(x for s in stmts for x in stmt_terms(s)))
    )


def lane(term: Term, number: int | Term, vectors: Mapping[str, int]) -> Term:
    """One lane of a term; `vectors` says how many lanes the elements of buffers of vectors have.

    >>> i = t.var("i")
    >>> print(lane(t.load("x", [t.ramp(4 * i, 2, 4)], "int8") + 1, 3, {}))
    x[4*i + 6] + int8(1)
    """
    done: dict[Term, Term] = {}
    for node in postorder(term):
        args = [done[a] for a in node.args]
        if node.op == "ramp":
            done[node] = args[0] + args[1] * number
        elif node.op == "broadcast":
            done[node] = args[0]
        elif node.op == "load" and vectors.get(node.payload, 1) > 1:
            last = args[-1] if args else t.index_const(0)
            at = (*args[:-1], last * vectors[node.payload] + number)
            done[node] = t.make("load", at, node.payload, node.dtype, 1)
        elif all(a is b for a, b in zip(args, node.args, strict=True)):
            done[node] = node
        elif node.op == "load":
            done[node] = t.make("load", args, node.payload, node.dtype, 1)
        else:
            done[node] = rebuild(node, args)
    return done[term]


def to_scalars(func: PrimFunc) -> PrimFunc:
    """The function with scalar accesses only; buffers of vectors are buffers of their lanes, parameters by an alias.

    >>> f = PrimFunc.parse('''func f(x: float32[8])
    ...   alias v: float32x4[2] = x
    ...   v[1] = x[ramp(0, 1, 4)]''')
    >>> print(str(to_scalars(f)).split("v[5] = ")[0].rstrip())
    func f(x: float32[8])
      alias v: float32[8] = x
      alloc lanes: float32[4]
      lanes[0] = x[0]
      lanes[1] = x[1]
      lanes[2] = x[2]
      lanes[3] = x[3]
      v[4] = lanes[0]
    """
    if not has_lanes(func):
        return func
    work = _Lanes(func)
    body = work.stmt(func.body)
    for name in reversed(func.params):
        if name in work.aliases:
            body = Alias(scalar_decl(func.buffer_map[name], work.aliases[name]), name, body)
    return replace(func, body=body)


def scalar_decl(decl: BufferDecl, name: str | None = None) -> BufferDecl:
    """The declaration of a dense buffer of vectors as a buffer of their lanes."""
    last = as_dim(t.as_index(decl.shape[-1] if decl.shape else 1) * decl.lanes)
    return replace(decl, name=name or decl.name, shape=(*decl.shape[:-1], last), dtype=decl.scalar, transforms=())


class _Lanes:
    """Names of single use are expected: the function is in SSA form, and its buffers are flat."""

    def __init__(self, func: PrimFunc) -> None:
        decls = dict(func.buffer_map)
        self.root = {name: name for name in func.params}
        for s in statements(func.body):
            if isinstance(s, (Alloc, Alias)):
                decls[s.buffer.name] = s.buffer
                self.root[s.buffer.name] = self.root[s.data] if isinstance(s, Alias) else s.buffer.name
        self.taken = set(decls)
        self.vectors = {name: d.lanes for name, d in decls.items() if d.lanes > 1}
        self.scalars = {name: d.scalar for name, d in decls.items()}
        self.aliases: dict[str, str] = {}
        for name in func.params:
            if name in self.vectors:
                self.aliases[name] = self.fresh(f"{name}_lanes")

    def fresh(self, base: str) -> str:
        name = fresh_name(base, self.taken)
        self.taken.add(name)
        return name

    def name(self, buffer: str) -> str:
        return self.aliases.get(buffer, buffer)

    def term(self, term: Term, number: int = 0) -> Term:
        found = lane(term, number, self.vectors)
        return renumber_loads(found, self.aliases)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            return self.store(stmt)
        if isinstance(stmt, Assume) and stmt.condition.lanes > 1:
            return seq([Assume(self.term(stmt.condition, k)) for k in range(stmt.condition.lanes)])
        if isinstance(stmt, (Alloc, Alias)) and stmt.buffer.lanes > 1:
            body, decl = self.stmt(stmt.body), scalar_decl(stmt.buffer)
            if isinstance(stmt, Alloc):
                return Alloc(decl, body)
            return Alias(decl, stmt.data, body, stmt.offset * stmt.buffer.lanes)
        moved = with_terms(stmt, self.term)
        return with_children(moved, [self.stmt(part) for part in children(moved)])

    def store(self, stmt: Store) -> Stmt:
        lanes, wide = stmt.value.lanes, self.vectors.get(stmt.buffer, 1)
        if wide == 1 and lanes == 1:
            return Store(self.name(stmt.buffer), tuple(map(self.term, stmt.index)), self.term(stmt.value))
        places: list[tuple[Term, ...]] = []
        for k in range(lanes):
            at = tuple(self.term(i, k) for i in stmt.index)
            places.append((*at[:-1], at[-1] * wide + k) if wide > 1 else at)
        values = [self.term(stmt.value, k) for k in range(lanes)]
        name = self.name(stmt.buffer)
        if not self.reads(stmt.buffer, stmt.value, *stmt.index):
            return seq([Store(name, at, v) for at, v in zip(places, values, strict=True)])
        hold = _Held(self.fresh)
        values = hold.all(values, self.scalars[stmt.buffer])
        for n, index in enumerate(stmt.index):
            if self.reads(stmt.buffer, index):
                numbers = [t.cast_to(at[n], "int64") for at in places]
                moved = [t.cast_to(x, t.INDEX) for x in hold.all(numbers, "int64")]
                places = [(*at[:n], x, *at[n + 1 :]) for at, x in zip(places, moved, strict=True)]
        return hold.around([Store(name, at, v) for at, v in zip(places, values, strict=True)])

    def reads(self, buffer: str, *terms: Term) -> bool:
        """Whether terms read the memory of a buffer."""
        return any(self.root[n.payload] == self.root[buffer] for n in nodes_of("load", *terms))


class _Held:
    """Local buffers that hold terms from before a store changes what they read."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.fresh = fresh
        self.decls: list[BufferDecl] = []
        self.stores: list[Stmt] = []

    def all(self, values: Sequence[Term], dtype: str) -> list[Term]:
        """The values as loads of a buffer."""
        decl = BufferDecl(self.fresh("lanes"), (len(values),), dtype)
        self.decls.append(decl)
        self.stores += [Store(decl.name, (t.index_const(k),), v) for k, v in enumerate(values)]
        return [t.load(decl.name, [k], dtype) for k in range(len(values))]

    def around(self, stmts: Sequence[Stmt]) -> Stmt:
        """Statements in the buffers' scope, after what these hold is stored."""
        body = seq([*self.stores, *stmts])
        for decl in reversed(self.decls):
            body = Alloc(decl, body)
        return body

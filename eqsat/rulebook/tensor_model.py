"""The meaning of tensor laws in first-order logic.

Universal statements (hypotheses, bijections, the domain of reductions) are instantiated: for a proof at the index terms
that occur, for a counter-model at every element of a universe of one to three indices, which makes the model exact.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from eqsat.rulebook import tensor_proofs as p

ORDER_FREE, NEUTRAL = "reduce-reindex", "reduce-neutral"
AXIOMS = {
    ORDER_FREE: "axiom: an order-free reduction over a bijection of its box",
    NEUTRAL: "axiom: an order-free reduction without indices at which its body is neutral",
}
"""What proofs may use, by the names of the axioms of `rules/axioms.py`."""
MOST_INSTANCES = 3000


@dataclasses.dataclass(frozen=True)
class _Cell:
    """A tensor at an index."""

    value: Any
    defined: Any
    inside: Any


@dataclasses.dataclass(frozen=True)
class _Mapped:
    """A map at an index."""

    gather: Any
    valid: Any
    fill: Any
    fill_defined: Any
    inside: Any


@dataclasses.dataclass(frozen=True)
class _Reduction:
    """One reduction met while unfolding: its value and definedness, and its body at a reduced index."""

    op: str
    order: str  # the bijection through which it runs; empty where its order makes no difference
    value: Any
    defined: Any
    body: Callable[[Any], tuple[Any, Any]]
    at: Any  # the output index, kept so that its identity stays taken
    box: Callable[[Any], Any]  # where it reduces


class World:
    """The vocabulary of a law in one Z3 context; `size` 0: an open universe, else that many indices."""

    def __init__(self, size: int, believed: Collection[str]) -> None:
        self.z3: Any = importlib.import_module("z3")
        self.context: Any = self.z3.Context()
        self.size, self.believed = size, believed
        self.index_sort: Any = self.z3.DeclareSort("Index", self.context)
        self.value_sort: Any = self.z3.DeclareSort("Value", self.context)
        self.bool_sort: Any = self.z3.BoolSort(self.context)
        self.true: Any = self.z3.BoolVal(True, self.context)
        self.shown: dict[int, tuple[str, tuple[Any, ...], Any]] = {}  # by the identity of the expression
        self.symbols: dict[tuple[Any, ...], Any] = {}
        self.applied: dict[tuple[Any, ...], Any] = {}  # `shown` keeps their arguments, whose identities stay taken
        self.mapped: dict[tuple[p.MVar, int], _Mapped] = {}
        self.indices: dict[int, Any] = {}
        self.bijections: dict[p.MVar, None] = {}
        self.constraints: list[Any] = []
        self.reductions: dict[tuple[p.TCompute, int], _Reduction] = {}
        self.reduced: dict[str, list[Any]] = {}
        self.axioms: dict[str, None] = {}
        self.results: dict[str, Any] = {}
        self.universe = [self.z3.Const(f"#{k}", self.index_sort) for k in range(size)]
        self.indices.update((element.get_id(), element) for element in self.universe)
        self.constraints.extend(a != b for a, b in itertools.combinations(self.universe, 2))

    # -- symbols -------------------------------------------------------------------------------------------------------

    def apply(self, name: str, sort: Any, *args: Any) -> Any:
        """An uninterpreted symbol at arguments, remembered for the printed model."""
        key = (name, sort.get_id(), *(a.get_id() for a in args))
        if key not in self.applied:
            kind = name, key[1], *(n in self.indices for n in key[2:])
            if kind not in self.symbols:
                made = self.z3.Function(name, *(a.sort() for a in args), sort) if args else self.z3.Const(name, sort)
                self.symbols[kind] = made
            self.applied[key] = result = self.symbols[kind](*args) if args else self.symbols[kind]
            if result.get_id() not in self.shown:
                self.shown[result.get_id()] = (name, args, result)
                if sort is self.index_sort:
                    self.register(result)
        return self.applied[key]

    def register(self, index: Any) -> None:
        """A new index term; in a finite universe it is one of the elements."""
        if index.get_id() not in self.indices:
            self.indices[index.get_id()] = index
            if self.universe:
                self.constraints.append(self.z3.Or(*(index == e for e in self.universe)))

    def index(self, name: str, *args: Any) -> Any:
        return self.apply(name, self.index_sort, *args)

    def value(self, name: str, *args: Any) -> Any:
        return self.apply(name, self.value_sort, *args)

    def predicate(self, name: str, *args: Any) -> Any:
        return self.apply(name, self.bool_sort, *args)

    # -- unfolding -----------------------------------------------------------------------------------------------------

    def fill(self, f: p.FillExpr, x: Any) -> tuple[Any, Any]:
        """Value and definedness of a fill."""
        if isinstance(f, p.FConst):
            return self.value(f"constant {f.name}"), self.true
        if isinstance(f, p.FVar):
            return self.value(f"fill {f.name}", x), self.predicate(f"fill defined {f.name}", x)
        if isinstance(f, p.FOf):
            mapped = self.map(f.map, x)
            return mapped.fill, mapped.fill_defined
        parts = [self.fill(a, x) for a in f.args]
        return self.value(f.function, *(v for v, _ in parts)), self.z3.And(self.true, *(d for _, d in parts))

    def map(self, m: p.MapExpr, x: Any, source_inside: Callable[[Any], Any] | None = None) -> _Mapped:
        """A map at an index; the identity needs the box of its source."""
        z3 = self.z3
        if isinstance(m, p.MVar):
            key = (m, x.get_id())
            if key not in self.mapped:
                self.mapped[key] = self.variable(m, x)
            return self.mapped[key]
        if isinstance(m, p.MIdentity):
            inside = self.true if source_inside is None else source_inside(x)
            return _Mapped(x, self.true, self.value("fill identity", x), self.true, inside)
        if isinstance(m, p.MInverse):
            self.bijections[m.map] = None
            name = m.map.name
            value, defined = self.fill(p.FVar(f"of {name}^-1"), x)
            inside = self.predicate(f"source box {name}", x)
            return _Mapped(self.index(f"gather {name}^-1", x), self.true, value, defined, inside)
        if isinstance(m, p.MCompose):
            outer = self.map(m.then, x, lambda y: self.map(m.first, y, source_inside).inside)
            inner = self.map(m.first, outer.gather, source_inside)
            return _Mapped(
                inner.gather,
                z3.And(outer.valid, inner.valid),
                z3.If(outer.valid, inner.fill, outer.fill),
                z3.If(outer.valid, inner.fill_defined, outer.fill_defined),
                outer.inside,
            )
        if isinstance(m, p.MFilled):
            value, defined = self.fill(m.fill, x)
            return dataclasses.replace(self.map(m.map, x, source_inside), fill=value, fill_defined=defined)
        if isinstance(m, p.MTotal):
            return dataclasses.replace(self.map(m.map, x, source_inside), valid=self.true)
        yes, no = self.map(m.yes, x, source_inside), self.map(m.no, x, source_inside)
        chosen = self.predicate(f"condition {m.condition}", x)
        picked = [
            z3.If(chosen, a, b)
            for a, b in zip((yes.gather, yes.valid, yes.fill, yes.fill_defined, yes.inside),
                            (no.gather, no.valid, no.fill, no.fill_defined, no.inside), strict=True)
        ]  # fmt: skip
        self.register(picked[0])
        return _Mapped(*picked)

    def variable(self, m: p.MVar, x: Any) -> _Mapped:
        """A map that a law leaves open, at an index."""
        value, defined = self.fill(p.FVar(f"of {m.name}"), x)
        self.bijections |= {m: None} if m.bijective else {}
        valid = self.true if m.bijective else self.predicate(f"valid {m.name}", x)
        return _Mapped(self.index(f"gather {m.name}", x), valid, value, defined, self.predicate(f"box {m.name}", x))

    def cell(self, t: p.TensorExpr, x: Any) -> _Cell:
        """A tensor at an index."""
        z3 = self.z3
        if isinstance(t, p.TVal):
            inside = self.predicate(f"box {t.name}", x)
            return _Cell(self.value(t.name, x), inside, inside)
        if isinstance(t, p.TFull):
            value, defined = self.fill(t.value, x)
            inside = self.inside(t.like, x)
            return _Cell(value, z3.And(inside, defined), inside)
        if isinstance(t, p.TView):
            mapped = self.map(t.map, x, lambda y: self.inside(t.source, y))
            return self.viewed(mapped, self.cell(t.source, mapped.gather))
        if isinstance(t, p.TPointwise):
            cells = [self.cell(a, x) for a in t.args]
            value = self.value(t.function, *(c.value for c in cells))
            return _Cell(value, z3.And(*(c.defined for c in cells)), z3.And(*(c.inside for c in cells)))
        if isinstance(t, p.TWhere):
            yes, no = self.cell(t.yes, x), self.cell(t.no, x)
            chosen = self.predicate(f"condition {t.condition}", x)
            inside = z3.And(yes.inside, no.inside)
            defined = z3.And(inside, z3.If(chosen, yes.defined, no.defined))
            return _Cell(z3.If(chosen, yes.value, no.value), defined, inside)
        if isinstance(t, p.TGuard):
            return self.viewed(self.map(t.map, x, lambda y: self.inside(t.body, y)), self.cell(t.body, x))
        return self.compute(t, x)

    def inside(self, t: p.TensorExpr, x: Any) -> Any:
        """Whether an index is in a tensor's box; unlike `cell`, this unfolds no values."""
        if isinstance(t, p.TVal):
            return self.predicate(f"box {t.name}", x)
        if isinstance(t, p.TFull):
            return self.inside(t.like, x)
        if isinstance(t, p.TView):
            return self.map(t.map, x, lambda y: self.inside(t.source, y)).inside
        if isinstance(t, p.TPointwise):
            return self.z3.And(*(self.inside(a, x) for a in t.args))
        if isinstance(t, p.TWhere):
            return self.z3.And(self.inside(t.yes, x), self.inside(t.no, x))
        if isinstance(t, p.TGuard):
            return self.map(t.map, x, lambda y: self.inside(t.body, y)).inside
        return self.predicate(f"box {t.op}", x) if t.at is None else self.map(t.at, x).inside

    def viewed(self, mapped: _Mapped, source: _Cell) -> _Cell:
        z3 = self.z3
        defined = z3.And(mapped.inside, z3.If(mapped.valid, source.defined, mapped.fill_defined))
        return _Cell(z3.If(mapped.valid, source.value, mapped.fill), defined, mapped.inside)

    def compute(self, t: p.TCompute, x: Any) -> _Cell:
        z3 = self.z3
        inside, here = None, x
        if t.at is not None:
            mapped = self.map(t.at, x)
            inside, here = mapped.inside, mapped.gather
        own = self.predicate(f"box {t.op}", here)
        inside = own if inside is None else inside

        if not t.reduced:
            value, defined = self.body(t, here, None)
            return _Cell(value, z3.And(inside, own, defined), inside)
        order = t.permuted
        if order and ORDER_FREE in self.believed:
            self.axioms[ORDER_FREE], order = None, ""  # a bijection of the reduced box leaves the value as it is
        key = (dataclasses.replace(t, permuted=order), here.get_id())
        if key not in self.reductions:
            n = len(self.reductions)
            value = self.apply(f"{t.op} reduced {n}", self.value_sort)
            defined = z3.Const(f"defined {n}", self.bool_sort)
            body, box = partial(self.body, t, here), partial(self.reduced_box, t)
            self.reductions[key] = _Reduction(t.op, order, value, defined, body, here, box)
        found = self.reductions[key]
        return _Cell(found.value, z3.And(inside, own, found.defined), inside)

    def body(self, t: p.TCompute, x: Any, j: Any) -> tuple[Any, Any]:
        """Value and definedness of what a Compute combines, at an output index and a reduced one (None: none)."""
        cells = [self.read(r, x, j) for r in t.reads]
        value = self.value(f"body {t.op}", *((x,) if j is None else (x, j)), *(c.value for c in cells))
        return value, self.z3.And(self.true, *(c.defined for c in cells))

    def reduced_box(self, t: p.TCompute, j: Any) -> Any:
        """Whether a Compute reduces over an index."""
        whole = self.predicate(f"reduced box {t.op}", j)
        return self.z3.And(whole, self.predicate(f"within {t.within}", j)) if t.within else whole

    def neutral(self, op: str, value: Any) -> Any:
        """Whether a value changes nothing that an operator combines it with."""
        return self.predicate(f"neutral {op}", value)

    def read(self, r: p.TRead | p.TReadThrough, x: Any, j: Any) -> _Cell:
        at = self.index(f"access {r.access}", *((x,) if j is None else (x, j)))
        if isinstance(r, p.TRead):
            return self.cell(r.operand, at)
        mapped = self.map(r.map, at, lambda y: self.inside(r.operand, y))
        return self.viewed(mapped, self.cell(r.operand, mapped.gather))

    # -- formulas ------------------------------------------------------------------------------------------------------

    def place(self, i: p.IndexExpr, env: dict[str, Any]) -> Any:
        if isinstance(i, p.IVar):
            return env[i.name]
        at = self.place(i.index, env)
        if isinstance(i, p.IAccess):
            return self.index(f"access {i.access}", at, env[i.reduced.name])
        return self.map(i.map, at).gather

    def worth(self, v: p.VAt | p.VFill, env: dict[str, Any]) -> Any:
        x = self.place(v.index, env)
        return self.cell(v.tensor, x).value if isinstance(v, p.VAt) else self.fill(v.fill, x)[0]

    def formula(self, f: p.Formula, env: dict[str, Any]) -> Any:
        z3 = self.z3
        if isinstance(f, p.HNot):
            return z3.Not(self.formula(f.part, env))
        if isinstance(f, p.HAnd):
            return z3.And(self.true, *(self.formula(part, env) for part in f.parts))
        if isinstance(f, (p.HImplies, p.HIff)):
            a, b = self.formula(f.a, env), self.formula(f.b, env)
            return z3.Implies(a, b) if isinstance(f, p.HImplies) else a == b
        if isinstance(f, p.HSameValue):
            return self.worth(f.a, env) == self.worth(f.b, env)
        if isinstance(f, p.HSameIndex):
            return self.place(f.a, env) == self.place(f.b, env)
        x = self.place(f.index, env)
        if isinstance(f, p.HNeutral):
            return self.neutral(f.of.op, self.body(f.of, x, self.place(f.reduced, env))[0])
        if isinstance(f, p.HWithin):
            return self.predicate(f"within {f.part}", x)
        if isinstance(f, p.HReduced):
            return self.predicate(f"reduced box {f.op}", x)
        if isinstance(f, p.HCondition):
            return self.predicate(f"condition {f.name}", x)
        if isinstance(f, p.HValid):
            return self.map(f.map, x).valid
        if isinstance(f.of, (p.TVal, p.TFull, p.TView, p.TPointwise, p.TWhere, p.TGuard, p.TCompute)):
            return self.inside(f.of, x)
        return self.map(f.of, x).inside

    # -- instances of universal statements -----------------------------------------------------------------------------

    def bijection(self, m: p.MVar, x: Any) -> Any:
        """A bijection and its inverse at one index."""
        z3, name = self.z3, m.name
        box, source = self.predicate(f"box {name}", x), self.predicate(f"source box {name}", x)
        there, back = self.index(f"gather {name}", x), self.index(f"gather {name}^-1", x)
        onto = z3.And(self.predicate(f"source box {name}", there), self.index(f"gather {name}^-1", there) == x)
        into = z3.And(self.predicate(f"box {name}", back), self.index(f"gather {name}", back) == x)
        return z3.And(z3.Implies(box, onto), z3.Implies(source, into))

    def close(self, hypotheses: Sequence[p.Formula], rounds: int) -> bool:
        """Instantiate everything at the known indices; False where that is too much or, in a universe, not all."""
        done: set[Any] = set()
        for _ in range(rounds):
            before = len(done)
            self.compare_reductions(done)
            for key, r in list(self.reductions.items()):
                for j in self.universe or list(self.reduced.get(r.op, ())):
                    self.once(done, ("domain", key, j.get_id()), lambda r=r, j=j: self.in_domain(r, j))
            for place, x in self.universe_indices():
                for m in list(self.bijections):
                    self.once(done, ("bijection", m, place), lambda m=m, x=x: self.bijection(m, x))
            for n, f in enumerate(hypotheses):
                names = sorted(_index_names(f))
                for choice in itertools.product(*(self.candidates(f, name) for name in names)):
                    env = {name: x for name, (_, x) in zip(names, choice, strict=True)}
                    self.once(done, (n, *(c for c, _ in choice)), lambda f=f, env=env: self.formula(f, env))
            if len(done) > MOST_INSTANCES:
                return False
            if len(done) == before:
                return True
        return not self.universe

    def universe_indices(self) -> list[tuple[int, Any]]:
        """Where universal statements are instantiated, by identity."""
        return [(e.get_id(), e) for e in self.universe] if self.universe else list(self.indices.items())

    def candidates(self, f: p.Formula, name: str) -> list[tuple[int, Any]]:
        """Where an index variable of a hypothesis is instantiated: a reduced one, for a proof, at reduced indices."""
        ops = () if self.universe else _reduced_by(f, name)
        found = {j.get_id(): j for op in ops for j in self.reduced.get(op, ())}
        return list(found.items()) if ops else self.universe_indices()

    def once(self, done: set[Any], key: Any, make: Callable[[], Any]) -> None:
        if key not in done and len(done) <= MOST_INSTANCES:
            done.add(key)
            self.constraints.append(make())

    def in_domain(self, r: _Reduction, j: Any) -> Any:
        """A defined reduction has a body defined at every reduced index."""
        z3 = self.z3
        return z3.Implies(z3.And(r.defined, r.box(j)), r.body(j)[1])

    def reduced_index(self, op: str, name: str) -> Any:
        """A new reduced index of an operator."""
        j = self.index(name)
        self.reduced.setdefault(op, []).append(j)
        return j

    def compare_reductions(self, done: set[Any]) -> None:
        """Reductions of the same operator are equal unless their bodies differ somewhere in the box, or one of them has
        a value there that is not neutral where the other one has none."""
        for n, r in enumerate(list(self.reductions.values())):
            self.once(done, ("undefined", n), lambda n=n, r=r: self.undefined_somewhere(n, r))
        for (a, left), (b, right) in itertools.combinations(list(enumerate(self.reductions.values())), 2):
            if (left.op, left.order) == (right.op, right.order):
                name = f"differ at {a} {b}"
                self.once(done, ("differ", a, b), lambda x=left, y=right, name=name: self.equal_unless(x, y, name))

    def undefined_somewhere(self, n: int, r: _Reduction) -> Any:
        """A reduction is defined, or its body is not at some reduced index."""
        j = self.reduced_index(r.op, f"undefined at {n}")
        return self.z3.Or(r.defined, self.z3.And(r.box(j), self.z3.Not(r.body(j)[1])))

    def equal_unless(self, left: _Reduction, right: _Reduction, name: str) -> Any:
        """Two reductions of one operator are equal, or apart at some reduced index."""
        j = self.reduced_index(left.op, name)
        return self.z3.Or(left.value == right.value, self.apart(left, right, j))

    def apart(self, left: _Reduction, right: _Reduction, j: Any) -> Any:
        """Two reductions of one operator differ at a reduced index."""
        z3, a, b, x, y = self.z3, left.body(j)[0], right.body(j)[0], left.box(j), right.box(j)
        if x.eq(y):
            return z3.And(x, a != b)
        if NEUTRAL not in self.believed:
            return z3.Or(x != y, z3.And(x, a != b))
        self.axioms[NEUTRAL] = None
        alone = [z3.And(x, z3.Not(y), z3.Not(self.neutral(left.op, a)))]
        alone.append(z3.And(y, z3.Not(x), z3.Not(self.neutral(left.op, b))))
        return z3.Or(z3.And(x, y, a != b), *alone)


def _parts(node: Any) -> Iterator[Any]:
    """A formula and all that it is made of."""
    yield node
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            yield from _parts(getattr(node, field.name))
    elif isinstance(node, tuple):
        for part in node:  # pyright: ignore[reportUnknownVariableType]
            yield from _parts(part)


def _index_names(f: p.Formula) -> set[str]:
    """The index variables of a formula."""
    return {x.name for x in _parts(f) if isinstance(x, p.IVar)}


def _reduced_by(f: p.Formula, name: str) -> set[str]:
    """The operators that a formula says to reduce over an index variable."""
    return {x.op for x in _parts(f) if isinstance(x, p.HReduced) and x.index.name == name}

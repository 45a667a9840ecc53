"""The meaning of tensor laws in first-order logic: sides are unfolded to out[i] over any index sort, for every rank.

A *tensor* has a value and an "inside" predicate (its box); reading outside is undefined. A *map* is what a View needs:
gather (index to index), valid, fill and the box of the result. A law is two tensors and some hypotheses (`ir/law.py`).
It is proved when, wherever the left is defined, the right is defined and equal, and both have the same box. So a right
side that could read out of range is refused. A refuted law comes with a finite model.

Universal statements (hypotheses, bijections, the domain of reductions) are instantiated: for a proof at the index terms
that occur, for a counter-model at every element of a universe of one to three indices, which makes the model exact.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Expr, nodes

ORDER_FREE, NEUTRAL = "reduce-reindex", "reduce-neutral"
AXIOMS = {
    ORDER_FREE: "axiom: an order-free reduction over a bijection of its box",
    NEUTRAL: "axiom: an order-free reduction without indices at which its body is neutral",
}
"""What proofs may use, by the names of the axioms of `rules/axioms.py`."""
MOST_INSTANCES = 3000
_FILLS = ("constant", "applied")
_MAPS = ("map", "bijection", "identity", "inverse", "compose", "filled", "chosen")
_COMBINES = {
    "combine": (), "combine_at": ("at",), "combine_permuted": ("permuted",), "combine_moved": ("at", "permuted"),
    "combine_within": ("within",),
}  # fmt: skip
"""What stands before the operator and the reads of a Compute."""
_AT_INDEX, _AT_REDUCED = ("index", "neutral", "same_value"), ("reduces", "within", "neutral", "reached")
"""What speaks of the index i, and of the reduced index j."""


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
class _Compute:
    """combine over j of body(i, j, loads), for any body and combiner, both named by `op`.

    at: the body is taken at gather(i) of this map, whose box the result has. permuted: the reduced index runs through
    a bijection of the reduced box (the order-free axiom makes that no difference; a proof records its use). within:
    only the reduced indices of this part of the box (the axiom of neutral values says where that makes no difference).
    """

    op: str
    reads: tuple[Expr, ...]
    at: Expr | None = None
    permuted: str = ""
    within: str = ""

    @staticmethod
    def of(t: Expr) -> _Compute:
        """What an expression combines."""
        args = _args(t)
        return _Compute(*args[-2:], **dict(zip(_COMBINES[t.op], args[:-2], strict=True)))


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
        self.mapped: dict[tuple[Expr, int], _Mapped] = {}
        self.indices: dict[int, Any] = {}
        self.bijections: dict[str, None] = {}
        self.constraints: list[Any] = []
        self.reductions: dict[tuple[_Compute, int], _Reduction] = {}
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

    def fill(self, f: Expr, x: Any) -> tuple[Any, Any]:
        """Value and definedness of a fill."""
        args = _args(f)
        if f.op == "constant":
            return self.value(f"constant {args[0]}"), self.true
        if f.op != "applied":
            raise _meaningless(f, "fill")
        parts = [self.fill(a, x) for a in args[1]]
        return self.value(args[0], *(v for v, _ in parts)), self.z3.And(self.true, *(d for _, d in parts))

    def own_fill(self, name: str, x: Any) -> tuple[Any, Any]:
        """Value and definedness of the fill that a map comes with: any value, where it is defined at all."""
        return self.value(f"fill of {name}", x), self.predicate(f"fill defined of {name}", x)

    def map(self, m: Expr, x: Any, source_inside: Callable[[Any], Any] | None = None) -> _Mapped:
        """A map at an index; the identity needs the box of its source."""
        z3 = self.z3
        args = _args(m)
        if m.op in ("map", "bijection"):
            key = (m, x.get_id())
            if key not in self.mapped:
                self.mapped[key] = self.variable(str(args[0]), m.op == "bijection", x)
            return self.mapped[key]
        if m.op == "identity":
            inside = self.true if source_inside is None else source_inside(x)
            return _Mapped(x, self.true, self.value("fill identity", x), self.true, inside)
        if m.op == "inverse":
            if args[0].op not in ("map", "bijection"):
                raise _meaningless(m, "map")
            name = str(args[0])
            self.bijections[name] = None
            value, defined = self.own_fill(f"{name}^-1", x)
            inside = self.predicate(f"source box {name}", x)
            return _Mapped(self.index(f"gather {name}^-1", x), self.true, value, defined, inside)
        if m.op == "compose":
            first, then = args
            outer = self.map(then, x, lambda y: self.map(first, y, source_inside).inside)
            inner = self.map(first, outer.gather, source_inside)
            return _Mapped(
                inner.gather,
                z3.And(outer.valid, inner.valid),
                z3.If(outer.valid, inner.fill, outer.fill),
                z3.If(outer.valid, inner.fill_defined, outer.fill_defined),
                outer.inside,
            )
        if m.op == "filled":
            value, defined = self.fill(args[1], x)
            return dataclasses.replace(self.map(args[0], x, source_inside), fill=value, fill_defined=defined)
        if m.op != "chosen":
            raise _meaningless(m, "map")
        return self.chosen(str(args[0]), [self.map(each, x, source_inside) for each in args[1]], x)

    def chosen(self, condition: str, maps: Sequence[_Mapped], x: Any) -> _Mapped:
        """The first map where a condition on the output index holds, else the next ones in turn."""
        first, *rest = maps
        if not rest:
            return first
        other, holds = self.chosen(condition + "'", rest, x), self.predicate(f"condition {condition}", x)
        picked = [self.z3.If(holds, a, b) for a, b in zip(vars(first).values(), vars(other).values(), strict=True)]
        self.register(picked[0])
        return _Mapped(*picked)

    def variable(self, name: str, bijective: bool, x: Any) -> _Mapped:
        """A map that a law leaves open, at an index; a bijective one is valid everywhere and one to one between its box
        and its source's box."""
        value, defined = self.own_fill(name, x)
        self.bijections |= {name: None} if bijective else {}
        valid = self.true if bijective else self.predicate(f"valid {name}", x)
        return _Mapped(self.index(f"gather {name}", x), valid, value, defined, self.predicate(f"box {name}", x))

    def cell(self, t: Expr, x: Any) -> _Cell:
        """A tensor at an index."""
        z3 = self.z3
        args = _args(t)
        if t.op == "tensor":
            inside = self.predicate(f"box {args[0]}", x)
            return _Cell(self.value(args[0], x), inside, inside)
        if t.op == "view":
            source, m = args
            mapped = self.map(m, x, lambda y: self.inside(source, y))
            return self.viewed(mapped, self.cell(source, mapped.gather))
        if t.op == "pointwise":
            cells = [self.cell(a, x) for a in args[1]]
            value = self.value(args[0], *(c.value for c in cells))
            return _Cell(value, z3.And(*(c.defined for c in cells)), z3.And(*(c.inside for c in cells)))
        if t.op == "select":
            return self.selected(args[0], [self.cell(a, x) for a in args[1]], x)
        if t.op == "guarded":
            m, body = args
            return self.viewed(self.map(m, x, lambda y: self.inside(body, y)), self.cell(body, x))
        if t.op not in _COMBINES:
            raise _meaningless(t, "tensor")
        return self.compute(_Compute.of(t), x)

    def selected(self, condition: str, cells: Sequence[_Cell], x: Any) -> _Cell:
        """The first cell where a condition on the index holds, else the next ones in turn; lazy."""
        z3 = self.z3
        first, *rest = cells
        if not rest:
            return first
        other, holds = self.selected(condition + "'", rest, x), self.predicate(f"condition {condition}", x)
        inside = z3.And(first.inside, other.inside)
        defined = z3.And(inside, z3.If(holds, first.defined, other.defined))
        return _Cell(z3.If(holds, first.value, other.value), defined, inside)

    def inside(self, t: Expr, x: Any) -> Any:
        """Whether an index is in a tensor's box; unlike `cell`, this unfolds no values."""
        args = _args(t)
        if t.op == "tensor":
            return self.predicate(f"box {args[0]}", x)
        if t.op in ("view", "guarded"):
            source, m = args if t.op == "view" else args[::-1]
            return self.map(m, x, lambda y: self.inside(source, y)).inside
        if t.op in ("pointwise", "select"):
            return self.z3.And(*(self.inside(a, x) for a in args[1]))
        if t.op not in _COMBINES:
            raise _meaningless(t, "tensor")
        made = _Compute.of(t)
        return self.predicate(f"box {made.op}", x) if made.at is None else self.map(made.at, x).inside

    def viewed(self, mapped: _Mapped, source: _Cell) -> _Cell:
        z3 = self.z3
        defined = z3.And(mapped.inside, z3.If(mapped.valid, source.defined, mapped.fill_defined))
        return _Cell(z3.If(mapped.valid, source.value, mapped.fill), defined, mapped.inside)

    def compute(self, t: _Compute, x: Any) -> _Cell:
        z3 = self.z3
        inside, here = None, x
        if t.at is not None:
            mapped = self.map(t.at, x)
            inside, here = mapped.inside, mapped.gather
        own = self.predicate(f"box {t.op}", here)
        inside = own if inside is None else inside
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

    def body(self, t: _Compute, x: Any, j: Any) -> tuple[Any, Any]:
        """Value and definedness of what a Compute combines, at an output index and a reduced one."""
        cells = [self.read(r, x, j) for r in t.reads]
        value = self.value(f"body {t.op}", x, j, *(c.value for c in cells))
        return value, self.z3.And(self.true, *(c.defined for c in cells))

    def reduced_box(self, t: _Compute, j: Any) -> Any:
        """Whether a Compute reduces over an index."""
        whole = self.predicate(f"reduced box {t.op}", j)
        return self.z3.And(whole, self.predicate(f"within {t.within}", j)) if t.within else whole

    def neutral(self, op: str, value: Any) -> Any:
        """Whether a value changes nothing that an operator combines it with."""
        return self.predicate(f"neutral {op}", value)

    def read(self, r: Expr, x: Any, j: Any) -> _Cell:
        """A load of a Compute, with or without a View absorbed into it."""
        args = _args(r)
        if r.op not in ("read", "read_through"):
            raise _meaningless(r, "load")
        operand, at = args[0], self.index(f"access {args[-1]}", x, j)
        if r.op == "read":
            return self.cell(operand, at)
        mapped = self.map(args[1], at, lambda y: self.inside(operand, y))
        return self.viewed(mapped, self.cell(operand, mapped.gather))

    # -- formulas ------------------------------------------------------------------------------------------------------

    def place(self, i: Expr, env: dict[str, Any]) -> Any:
        """An index: `i` itself, where a map reads, or where a Compute reads an operand for the reduced index."""
        args = _args(i)
        if i.op == "index":
            return env["i"]
        if i.op == "reached":
            return self.index(f"access {args[2]}", self.place(args[1], env), env["j"])
        if i.op != "gather":
            raise _meaningless(i, "index")
        return self.map(args[0], self.place(args[1], env)).gather

    def worth(self, v: Expr, env: dict[str, Any]) -> Any:
        """The value of a tensor or a fill at the index."""
        return self.fill(v, env["i"])[0] if v.op in _FILLS else self.cell(v, env["i"]).value

    def formula(self, f: Expr, env: dict[str, Any]) -> Any:
        """What a hypothesis says of indices."""
        z3 = self.z3
        args = _args(f)
        if f.op == "negation":
            return z3.Not(self.formula(args[0], env))
        if f.op == "both":
            return z3.And(self.true, *(self.formula(part, env) for part in args[0]))
        if f.op in ("implies", "iff"):
            a, b = (self.formula(side, env) for side in args)
            return z3.Implies(a, b) if f.op == "implies" else a == b
        if f.op == "same_value":
            return self.worth(args[0], env) == self.worth(args[1], env)
        if f.op == "same_index":
            return self.place(args[0], env) == self.place(args[1], env)
        if f.op == "neutral":
            made = _Compute.of(args[0])
            return self.neutral(made.op, self.body(made, env["i"], env["j"])[0])
        if f.op == "within":
            return self.predicate(f"within {args[0]}", env["j"])
        if f.op == "reduces":
            return self.predicate(f"reduced box {args[0]}", env["j"])
        if f.op not in ("takes", "valid", "inside"):
            raise _meaningless(f, "hypothesis")
        x = self.place(args[1], env)
        if f.op == "takes":
            return self.predicate(f"condition {args[0]}", x)
        if f.op == "valid":
            return self.map(args[0], x).valid
        return self.map(args[0], x).inside if args[0].op in _MAPS else self.inside(args[0], x)

    # -- instances of universal statements -----------------------------------------------------------------------------

    def bijection(self, name: str, x: Any) -> Any:
        """A bijection and its inverse at one index."""
        z3 = self.z3
        box, source = self.predicate(f"box {name}", x), self.predicate(f"source box {name}", x)
        there, back = self.index(f"gather {name}", x), self.index(f"gather {name}^-1", x)
        onto = z3.And(self.predicate(f"source box {name}", there), self.index(f"gather {name}^-1", there) == x)
        into = z3.And(self.predicate(f"box {name}", back), self.index(f"gather {name}", back) == x)
        return z3.And(z3.Implies(box, onto), z3.Implies(source, into))

    def close(self, hypotheses: Sequence[Expr], rounds: int) -> bool:
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

    def candidates(self, f: Expr, name: str) -> list[tuple[int, Any]]:
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


def _args(e: Expr) -> tuple[Any, ...]:
    """What an operation has, of the kinds that its function in `ir/law.py` takes."""
    return e.args


def _meaningless(e: Expr, wanted: str) -> EqsatError:
    return EqsatError(
        f"law expression {e}", f"{e.op} has no meaning as a {wanted}", "see the functions of eqsat.ir.law"
    )


def _index_names(f: Expr) -> set[str]:
    """The index variables of a formula."""
    found = {e.op for e in nodes(f)}
    return {name for name, ops in (("i", _AT_INDEX), ("j", _AT_REDUCED)) if found.intersection(ops)}


def _reduced_by(f: Expr, name: str) -> set[str]:
    """The operators that a formula says to reduce over an index variable."""
    return {str(e.args[0]) for e in nodes(f) if e.op == "reduces"} if name == "j" else set()

"""Kernels that differ only in the names of their buffers are built once: models repeat their blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eqsat.backends.lowering.access import flatten_loads
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.kernel import build_kernel, kernel_moves
from eqsat.backends.lowering.moves import Move
from eqsat.backends.lowering.order import divisions
from eqsat.backends.lowering.row_kernel import row_kernel
from eqsat.backends.lowering.rows import Group
from eqsat.backends.lowering.shorter import Shorter
from eqsat.backends.lowering.values import RESULT, Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_names
from eqsat.ir.statements.stmt import Store, statements, stmt_terms
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, renumber_loads

PIECES = 2
"""A kernel of so many pieces is small: a wrap-around takes two."""


@dataclass(frozen=True)
class Built:
    """A kernel: its function, its moves if it is nothing but moves, its index tables, the buffers of its value.

    names: those that the value loads, then the one that it fills, each once, in the order in which they first occur.
    """

    func: PrimFunc
    moves: tuple[Move, ...] | None
    tables: dict[str, NDArray]
    names: tuple[str, ...]

    @property
    def size(self) -> tuple[int, int, int]:
        """How many divisions, stores and nodes of terms there are."""
        stores = [s for s in statements(self.func.body) if isinstance(s, Store)]
        terms = [list(postorder(*stmt_terms(s))) for s in stores]
        return sum(divisions(tuple(stmt_terms(s))) for s in stores), len(stores), sum(map(len, terms))

    def is_smaller(self, other: Built) -> bool:
        """Whether there is less of something than in another kernel for the same value, and more of nothing."""
        moves, others = (len(m.moves or ()) for m in (self, other))
        if (self.moves is None and other.moves is not None) or (moves > others and other.moves is not None):
            return False
        return self.size != other.size and all(a <= b for a, b in zip(self.size, other.size, strict=True))


def _loaded(value: Value) -> tuple[str, ...]:
    terms = [x for x in (value.body, value.after) if x is not None]
    return tuple(dict.fromkeys(n.payload for n in nodes_of("load", *terms) if not isinstance(n.payload, Table)))


class KernelCache:
    """The kernels of a program, each built once. `shapes` and `dtypes` are those of every buffer."""

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, str],
        simplifier: IndexSimplifier,
        machine: Machine | None = None,
    ) -> None:
        self.shapes, self.dtypes, self.simplifier, self.machine = shapes, dtypes, simplifier, machine
        self.shorter = Shorter(simplifier)
        self._known: dict[object, Built] = {}
        self.duplicates: dict[str, str] = {}
        """Functions that are another one with other buffers, by name: the name of that one."""

    def get(self, name: str, step: Value | Group) -> Built:
        """The kernel of a value, or of several that share rows, under a name."""
        values = (step,) if isinstance(step, Value) else step.values
        names = tuple(dict.fromkeys(n for v in values for n in (*_loaded(v), v.name) if n != RESULT))
        key = tuple(self._key(v, names) for v in values)
        if isinstance(step, Group):
            key = (*key, step.rows.axes, tuple(n in step.rows.local for n in names))
        known = self._known.get(key)
        if known is None:
            context = (self.shapes, self.dtypes, self.simplifier, self.machine)
            if isinstance(step, Value):
                built = self._smallest(name, step, names)
            else:
                built = Built(*row_kernel(name, step, *context), names)
            self._known[key] = built
            return built
        self.duplicates[name] = known.func.name
        local = set[str]() if isinstance(step, Value) else step.rows.local
        table = {old: new for old, new in zip(known.names, names, strict=True) if new not in local}
        return Built(
            replace(with_names(known.func, table), name=name, note=", ".join(s for v in values for s in v.steps)),
            None if known.moves is None else tuple(_moved(m, table) for m in known.moves),
            known.tables,
            names,
        )

    def _smallest(self, name: str, value: Value, names: tuple[str, ...]) -> Built:
        """The kernel of a value, over shorter index terms where those make it smaller."""

        def build(forms: Mapping[Term, Term] | None = None) -> Built:
            func, tables = build_kernel(name, value, self.shapes, self.dtypes, self.simplifier, self.machine, forms)
            return Built(func, kernel_moves(value, self.shapes, self.simplifier, forms), tables, names)

        first = build()
        quotients, stores, _ = first.size
        if value.body is None or not (quotients or (value.combiner is None and stores > PIECES)):
            return first
        forms = self.shorter.forms(self.simplifier.simplify(flatten_loads(value.body, self.shapes)))
        second = build(forms) if forms else first
        return second if second.is_smaller(first) else first

    def _key(self, value: Value, names: tuple[str, ...]) -> object:
        """What the function depends on, besides the names of buffers."""
        places = {n: f"{k}" for k, n in enumerate(names)}
        terms = [None if x is None else renumber_loads(x, places).digest for x in (value.body, value.after)]
        types = tuple((self.shapes[n], self.dtypes[n], n in self.simplifier.tables and n) for n in names)
        return (*terms, types, value.reduce, value.combiner, value.ordered)


def _moved(move: Move, names: Mapping[str, str]) -> Move:
    operands = tuple(replace(a, buffer=names[a.buffer]) for a in move.operands)
    return replace(move, out=replace(move.out, buffer=names[move.out.buffer]), operands=operands)

"""Kernels that differ only in the names of their buffers are built once: models repeat their blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from eqsat.backends.lowering.affine import Folder
from eqsat.backends.lowering.kernel import build_kernel, kernel_moves
from eqsat.backends.lowering.moves import Move
from eqsat.backends.lowering.row_kernel import row_kernel
from eqsat.backends.lowering.rows import Group
from eqsat.backends.lowering.values import RESULT, Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, For, If, Seq, Stmt, Store
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import leaves, renumber_loads


@dataclass(frozen=True)
class Made:
    """The function of a value, its moves if it is nothing but moves, its index tables; the names its value loads."""

    func: PrimFunc
    moves: tuple[Move, ...] | None
    tables: dict[str, NDArray]
    names: tuple[str, ...]


def _loaded(value: Value) -> tuple[str, ...]:
    terms = [x for x in (value.body, value.after) if x is not None]
    return tuple(dict.fromkeys(n.payload for n in leaves("load", *terms) if not isinstance(n.payload, Table)))


class Kernels:
    """Builds the kernels of a program. `shapes` and `dtypes` are those of every buffer."""

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtypes: Mapping[str, str],
        folder: Folder,
        machine: Machine | None = None,
    ) -> None:
        self.shapes, self.dtypes, self.folder, self.machine = shapes, dtypes, folder, machine
        self._known: dict[object, Made] = {}
        self.equal: dict[str, str] = {}
        """Functions that are another one with other buffers, by name: the name of the other one."""

    def make(self, name: str, step: Value | Group) -> Made:
        """The function of a value, or of several that share rows."""
        values = (step,) if isinstance(step, Value) else step.values
        names = tuple(dict.fromkeys(n for v in values for n in (*_loaded(v), v.name) if n != RESULT))
        key = tuple(self._key(v, names) for v in values)
        if isinstance(step, Group):
            key = (*key, step.rows.axes, tuple(n in step.rows.local for n in names))
        known = self._known.get(key)
        if known is None:
            context = (self.shapes, self.dtypes, self.folder, self.machine)
            if isinstance(step, Value):
                func, tables = build_kernel(name, step, *context)
                made = Made(func, kernel_moves(step, self.shapes, self.folder), tables, names)
            else:
                made = Made(*row_kernel(name, step, *context), names)
            self._known[key] = made
            return made
        self.equal[name] = known.func.name
        local = set[str]() if isinstance(step, Value) else step.rows.local
        table = {old: new for old, new in zip(known.names, names, strict=True) if new not in local}
        return Made(
            replace(renamed(known.func, table), name=name, note=", ".join(s for v in values for s in v.steps)),
            None if known.moves is None else tuple(_moved(m, table) for m in known.moves),
            known.tables,
            names,
        )

    def _key(self, value: Value, names: tuple[str, ...]) -> object:
        """What the function depends on, besides the names of buffers."""
        places = {n: f"{k}" for k, n in enumerate(names)}
        terms = [None if x is None else renumber_loads(x, places).digest for x in (value.body, value.after)]
        types = tuple((self.shapes[n], self.dtypes[n], n in self.folder.tables and n) for n in names)
        return (*terms, types, value.reduce, value.combiner, value.ordered)


def renamed(func: PrimFunc, names: Mapping[str, str]) -> PrimFunc:
    """A function over other buffers."""

    def there(term: Term) -> Term:
        return renumber_loads(term, names)

    params = tuple(names.get(p, p) for p in func.params)
    decls = {names.get(p, p): replace(d, name=names.get(p, p)) for p, d in func.buffer_map.items()}
    return replace(func, params=params, buffer_map=decls, body=_renamed(func.body, names, there))


def _renamed(stmt: Stmt, names: Mapping[str, str], there: Callable[[Term], Term]) -> Stmt:
    if isinstance(stmt, Store):
        target = names.get(stmt.buffer, stmt.buffer)
        return Store(target, tuple(there(i) for i in stmt.index), there(stmt.value))
    if isinstance(stmt, (For, Alloc)):
        return replace(stmt, body=_renamed(stmt.body, names, there))
    if isinstance(stmt, Seq):
        return Seq(tuple(_renamed(p, names, there) for p in stmt.parts))
    assert not isinstance(stmt, If)
    return stmt


def _moved(move: Move, names: Mapping[str, str]) -> Move:
    operands = tuple(replace(a, buffer=names[a.buffer]) for a in move.operands)
    return replace(move, out=replace(move.out, buffer=names[move.out.buffer]), operands=operands)

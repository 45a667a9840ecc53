"""The buffers and cells that a statement names, found once for each statement: what names none of a buffer's cells is
passed over by all who ask about these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqsat.ir.statements.stmt import Alias, Seq, Stmt, Store, children, own_accesses
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.passes.cells import differ

MOST = 1 << 14
Index = tuple[Term, ...]


class Cells:
    """Cells by buffer: those of plain numbers, which are found at once, and those of all other indices.

    >>> i, one = t.ax(0, 4), t.index_const(1)
    >>> found = Cells([("x", (one,)), ("y", (i, one))])
    >>> found.may_mean("x", (i,)), found.may_mean("x", (t.index_const(2),)), found.may_mean("y", (one, one))
    (True, False, True)
    """

    def __init__(self, found: Iterable[tuple[str, Index]] = ()) -> None:
        self.plain: dict[str, dict[tuple[object, ...], Index]] = {}
        self.others: dict[str, dict[tuple[int, ...], Index]] = {}
        for buffer, index in found:
            self.add(buffer, index)

    def add(self, buffer: str, index: Index) -> None:
        """With one more cell."""
        numbers = _numbers(index)
        if numbers is not None:
            self.plain.setdefault(buffer, {})[numbers] = index
        else:
            self.others.setdefault(buffer, {})[tuple(i.serial for i in index)] = index

    def update(self, other: Cells) -> None:
        """With all cells of others."""
        for name, plain in other.plain.items():
            self.plain.setdefault(name, {}).update(plain)
        for name, others in other.others.items():
            self.others.setdefault(name, {}).update(others)

    def may_mean(self, buffer: str, index: Index) -> bool:
        """Whether an index may mean one of the cells: not all of them have other numbers."""
        plain, numbers = self.plain.get(buffer, {}), _numbers(index)
        if numbers in plain if numbers is not None else not all(differ(own, index) for own in plain.values()):
            return True
        return not all(differ(own, index) for own in self.others.get(buffer, {}).values())


def _numbers(index: Index) -> tuple[object, ...] | None:
    """The numbers that an index is made of alone."""
    return tuple(i.payload for i in index) if all(i.op == "const" and i.dtype == t.INDEX for i in index) else None


class Mentioned:
    """What a statement reads and stores to, the indices as they are written there, and what it takes an alias of.

    >>> i = t.ax(0, 4)
    >>> found = mentioned(Store("y", (i,), t.load("x", [i + 1], "int8")))
    >>> sorted(found.names), sorted(found.writes), found.cells.may_mean("x", (i,))
    (['x', 'y'], ['y'], True)
    """

    def __init__(self, stmt: Stmt) -> None:
        self._own = list(own_accesses(stmt))
        parts = [mentioned(part) for part in children(stmt)]
        read = {name for name, _ in (self._own[:-1] if isinstance(stmt, Store) else self._own)}
        self.reads: frozenset[str] = frozenset(read.union(*(part.reads for part in parts)))
        written = {stmt.buffer} if isinstance(stmt, Store) else set[str]()
        self.writes: frozenset[str] = frozenset(written.union(*(part.writes for part in parts)))
        aliases = {stmt.data} if isinstance(stmt, Alias) else set[str]()
        self.names: frozenset[str] = frozenset(read.union(written, aliases, *(part.names for part in parts)))
        """All buffers that it reads, writes or takes an alias of."""
        self._parts = parts
        self._kept = None if isinstance(stmt, Seq) else self._cells()

    @property
    def cells(self) -> Cells:
        """All cells; of rows, which may be long and differ in little, they are not kept."""
        return self._cells() if self._kept is None else self._kept

    def _cells(self) -> Cells:
        found = Cells(self._own)
        for part in self._parts:
            found.update(part.cells)
        return found


class _Known:
    """What was found of statements, by identity; they live as long as their ids."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Stmt, Mentioned]] = {}

    def ask(self, stmt: Stmt) -> Mentioned:
        found = self.known.get(id(stmt))
        if found is None:
            found = (stmt, Mentioned(stmt))
            if len(self.known) >= MOST:
                self.known.clear()
            self.known[id(stmt)] = found
        return found[1]


_KNOWN = _Known()


def mentioned(stmt: Stmt) -> Mentioned:
    """What a statement names."""
    return _KNOWN.ask(stmt)


def names_in(stmt: Stmt) -> frozenset[str]:
    """The buffers that a statement reads, writes or takes an alias of."""
    return mentioned(stmt).names


def misses(stmt: Stmt, buffer: str, index: Sequence[Term]) -> bool:
    """Whether all cells of a buffer that a statement names have other numbers in their indices.

    >>> i, zero, one = t.ax(0, 4), t.index_const(0), t.index_const(1)
    >>> store = Store("y", (i, zero), t.load("x", [i], "int8"))
    >>> misses(store, "y", (i, one)), misses(store, "y", (i, i)), misses(store, "z", (i,))
    (True, False, True)
    """
    return not mentioned(stmt).cells.may_mean(buffer, tuple(index))

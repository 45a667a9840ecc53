"""Statements taken apart: each store, assumption and condition alone, in the loops and branches that it stands in.

Whether two statements meet is asked of each pair of their atoms, and of each pair once: most statements of a graph are
made of the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt
from eqsat.ir.terms import term as t
from eqsat.passes.paths import EMPTY

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Atom:
    """A statement with one store, assumption or condition; `key` tells it from others."""

    key: Key
    stmt: Stmt


def atoms(stmt: Stmt) -> Iterator[Atom]:
    """The atoms of a statement, in its order. Those that only declare buffers are left out.

    >>> from eqsat.ir.statements.stmt import Store
    >>> i = t.ax(0, 4)
    >>> both = For(i, Seq((Store("x", (i,), t.const(0, "int8")), Store("y", (i,), t.const(1, "int8")))))
    >>> [atom.stmt.body.buffer for atom in atoms(both)]
    ['x', 'y']
    """
    if isinstance(stmt, Seq):
        for part in stmt.parts:
            yield from atoms(part)
    elif isinstance(stmt, For):
        for atom in atoms(stmt.body):
            head = (stmt.axis.serial, stmt.kind, stmt.reduce)
            yield Atom((head, *atom.key), replace(stmt, body=atom.stmt))
    elif isinstance(stmt, If):
        yield Atom(("if", stmt.condition.serial), If(stmt.condition, EMPTY))
        arms = ((stmt.condition, stmt.then), (t.logical_not(stmt.condition), stmt.orelse))
        for test, arm in arms:
            for atom in atoms(arm) if arm is not None else ():
                yield Atom((test.serial, *atom.key), If(test, atom.stmt))
    elif isinstance(stmt, (Alloc, Alias)):
        yield from atoms(stmt.body)
    else:
        yield Atom((stmt,), stmt)


@dataclass
class Pairs:
    """Whether two statements go together, decided by their atoms: pair by pair, each once."""

    decide: Callable[[Hashable, Stmt, Stmt], bool]
    known: dict[tuple[Hashable, Key, Key], bool] = field(default_factory=dict[tuple[Hashable, Key, Key], bool])

    def hold(self, about: Hashable, first: Stmt, second: Stmt) -> bool:
        """Whether it holds of all pairs."""
        others = list(atoms(second))
        return all(self._pair(about, a, b) for a in atoms(first) for b in others)

    def _pair(self, about: Hashable, a: Atom, b: Atom) -> bool:
        key = (about, a.key, b.key)
        if key not in self.known:
            self.known[key] = self.decide(about, a.stmt, b.stmt)
        return self.known[key]

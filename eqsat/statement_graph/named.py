"""Names that Python has for statements of the graph: terms that are made of names are never deep, however long a row of
statements is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.graph.egglog_adapter import Call, Expression, Row
from eqsat.statement_graph.schema import NAMED
from eqsat.statement_graph.snapshot import Snapshot


class Named:
    """What has a name, and which names the graph has not been told of.

    >>> names = Named()
    >>> names.of(Call("Leaf", (7,))), names.of(Call("Leaf", (8,))) == names.of(Call("Leaf", (7,)))
    (Call(function='Named', args=(0,)), False)
    """

    def __init__(self) -> None:
        self._known: dict[Call, Call] = {}
        self._new: list[tuple[Expression, Expression]] = []

    def of(self, made: Call) -> Call:
        """The name of a term, which is of names and numbers or not deep."""
        found = self._known.get(made)
        if found is None:
            found = self._known[made] = Call(NAMED, (len(self._known),))
            self._new.append((found, made))
        return found

    def new(self) -> list[tuple[Expression, Expression]]:
        """What is equal by new names: it is for the graph, and told once."""
        new, self._new = self._new, []
        return new


class Classes:
    """The classes of a snapshot by name, each made of the names of its parts."""

    def __init__(self, rows: Sequence[Row], snapshot: Snapshot, names: Named) -> None:
        self._known = {row.output: Call(NAMED, row.args) for row in rows}
        self._snapshot = snapshot
        self._names = names

    def all(self, given: Sequence[Any]) -> tuple[Expression, ...]:
        """Numbers, and the names of classes."""
        return tuple(a if isinstance(a, int) else self._name(a) for a in given)

    def _name(self, found: Any) -> Call:
        for part in self._snapshot.inside_out(found, self._known):
            node = self._snapshot.smallest(part)
            args = (a if isinstance(a, int) else self._known[a] for a in node.args)
            self._known[part] = self._names.of(Call(node.op, tuple(args)))
        return self._known[found]

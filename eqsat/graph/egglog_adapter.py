"""The one door to egglog (13.2 and 14): a small, typed e-graph handle over its text and AST bindings.

A graph belongs to the thread that made it: in egglog 13 another one panics, and a process that was forked after its
parent had used a graph waits for ever. So both are refused here; whoever may be called from anywhere runs its graphs in
a worker (`eqsat.workers.call`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir.errors import EqsatError

CHUNK = 8


class EngineFailure(EqsatError):
    """egglog refused a command or failed; the graph must not be used any more."""


@dataclass(frozen=True)
class Call:
    """A constructor or relation applied to arguments; integers are literals."""

    function: str
    args: tuple[Any, ...]


Expression = Call | int


@dataclass(frozen=True)
class Row:
    """One row of a function table; classes are opaque hashable ids, integers are Python ints."""

    args: tuple[Any, ...]
    output: Any


_first_user: list[int] = []  # the process that first used egglog, of this one and those that it was forked from


def usable() -> bool:
    """Whether this process may make graphs: neither it nor the one that it was forked from used egglog before the fork.

    >>> usable()
    True
    """
    return not _first_user or _first_user[0] == os.getpid()


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


class EGraph:
    """An e-graph: run text, insert expressions in bulk, read tables back."""

    def __init__(self) -> None:
        if not usable():
            raise EngineFailure("egglog", "was used before this process was forked", "run the graph in a worker")
        _first_user.append(os.getpid())  # before the import, during which another thread may fork
        del _first_user[1:]
        from egglog import bindings

        self._home = _here()
        self._b: Any = bindings
        self._graph: Any = bindings.EGraph()
        self._span: Any = bindings.RustSpan("eqsat", 0, 0)

    def _guard(self, action: Any) -> Any:
        if self._home != _here():
            raise EngineFailure("egglog", "the graph belongs to another thread or process", "run it in a worker")
        try:
            return action()
        except BaseException as error:
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise EngineFailure("egglog", str(error)) from error
            raise

    def close(self) -> None:
        """Give up the graph now, in its own thread: one that another thread collects is never freed."""
        self._guard(lambda: None)
        self._graph = None

    def run(self, text: str) -> Any:
        """Run commands, separated by blank lines; parsed in small pieces, because 13.2 keeps the text per node."""
        report: Any = None
        commands = [c for c in text.split("\n\n") if c.strip()]
        for start in range(0, len(commands), CHUNK):
            piece = "\n".join(commands[start : start + CHUNK])
            outputs = self._guard(lambda piece=piece: self._graph.run_program(*self._graph.parse_program(piece)))
            for output in outputs:
                report = getattr(output, "report", report)
        return report

    def _expression(self, e: Expression) -> Any:
        b, s = self._b, self._span
        if isinstance(e, int):
            return b.Lit(s, b.Int(e))
        return b.Call(s, e.function, [self._expression(a) for a in e.args])

    def insert(self, facts: Sequence[Call]) -> None:
        """Add facts (relation rows) or expressions."""
        self._actions([self._b.Expr_(self._span, self._expression(f)) for f in facts])

    def set(self, values: Sequence[tuple[Call, int]]) -> None:
        """Set function rows."""
        b, s = self._b, self._span
        actions = [b.Set(s, f.function, [self._expression(a) for a in f.args], self._expression(v)) for f, v in values]
        self._actions(actions)

    def union(self, a: Expression, b: Expression) -> None:
        self._actions([self._b.Union(self._span, self._expression(a), self._expression(b))])

    def unions(self, pairs: Sequence[tuple[Expression, Expression]]) -> None:
        """Make pairs of expressions equal, adding them where they are new."""
        self._actions([self._b.Union(self._span, self._expression(a), self._expression(b)) for a, b in pairs])

    def apply(
        self,
        inserts: Sequence[Call],
        unions: Sequence[tuple[Expression, Expression]],
        sets: Sequence[tuple[Call, int]],
        deletes: Sequence[Call],
    ) -> None:
        """Insertions, unions, values and deletions, in this order, in one go."""
        b, s, e = self._b, self._span, self._expression
        actions = [b.Expr_(s, e(f)) for f in inserts]
        actions += [b.Union(s, e(x), e(y)) for x, y in unions]
        actions += [b.Set(s, f.function, [e(a) for a in f.args], e(v)) for f, v in sets]
        actions += [b.Change(s, b.Delete(), f.function, [e(a) for a in f.args]) for f in deletes]
        self._actions(actions)

    def _actions(self, actions: Sequence[Any]) -> None:
        if actions:
            commands = [self._b.ActionCommand(a) for a in actions]
            self._guard(lambda: self._graph.run_program(*commands))

    def find(self, e: Expression) -> Any:
        """The class of an expression that is already in the graph."""
        return self._guard(lambda: self._graph.eval_expr(self._expression(e)))[1]

    def delete(self, facts: Sequence[Call]) -> None:
        """Remove relation rows."""
        b, s = self._b, self._span
        self._actions([b.Change(s, b.Delete(), f.function, [self._expression(a) for a in f.args]) for f in facts])

    def tables(self) -> Any:
        """The graph at this moment, for `rows` and `size`: read it once, ask it often."""
        return self._guard(lambda: self._graph.freeze()).functions

    def rows(self, functions: Sequence[str], tables: Any = None) -> dict[str, list[Row]]:
        """The rows of function tables, subsumed ones left out. Sorts: `i64` becomes int, `Vs` a tuple of classes."""
        tables = self.tables() if tables is None else tables
        result: dict[str, list[Row]] = {}
        for name in functions:
            table = tables.get(name)
            result[name] = [] if table is None else list(self._read(table))
        return result

    def _read(self, table: Any) -> Iterator[Row]:
        sorts, out = list(table.input_sorts), table.output_sort
        for row in table.rows:
            if not row.subsumed:
                yield Row(
                    tuple(self._value(v, s) for v, s in zip(row.inputs, sorts, strict=True)),
                    self._value(row.output, out),
                )

    def _value(self, value: Any, sort: str) -> Any:
        if sort == "i64":
            return self._graph.value_to_i64(value)
        if sort == "Vs":
            return tuple(self._graph.value_to_vec(value))
        return value

    def size(self, functions: Sequence[str], tables: Any = None) -> int:
        """The number of rows of some functions."""
        tables = self.tables() if tables is None else tables
        return sum(len(tables[name].rows) for name in functions if name in tables)

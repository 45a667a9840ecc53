"""The one door to egglog (13.2 and 14): a small, typed e-graph handle over its text and AST bindings.

A graph belongs to the thread that made it: in egglog 13 another one panics, and a process that was forked after its
parent had used a graph waits for ever. So both are refused here; whoever may be called from anywhere runs its graphs in
a worker (`eqsat.workers.call`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eqsat.graph.bulk import FEW, Call, Expression, Kind, is_readable, kind_of, read_by, rule_text
from eqsat.ir.errors import EqsatError

CHUNK = 8
MOST_EXPRESSIONS = 20_000  # that a graph keeps as egglog has them


class EngineFailure(EqsatError):
    """egglog refused a command or failed; the graph must not be used any more."""


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
        from eqsat.graph.egglog_bindings import bindings

        self._home = _here()
        self._b: Any = bindings
        self._graph: Any = bindings.EGraph()
        self._span: Any = bindings.RustSpan("eqsat", 0, 0)
        self._bulks: dict[tuple[str, tuple[Kind, ...]], str] = {}
        self._expressions: dict[Expression, Any] = {}

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
        self._expressions.clear()

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
        """An expression as egglog has it. Most come again, many times: to find one is cheaper than to make it."""
        found = self._expressions.get(e)
        if found is None:
            b, s = self._b, self._span
            if isinstance(e, int):
                found = b.Lit(s, b.Int(e))
            else:
                found = b.Call(s, e.function, [self._expression(a) for a in e.args])
            if len(self._expressions) >= MOST_EXPRESSIONS:
                self._expressions.clear()
            self._expressions[e] = found
        return found

    def insert(self, facts: Sequence[Call]) -> None:
        """Add facts (relation rows) or expressions."""
        self._in_bulk("", [(f,) for f in facts])

    def relate(self, facts: Sequence[Call]) -> None:
        """Add rows of relations between numbers alone."""
        rows: dict[str, list[tuple[int, ...]]] = {}
        for fact in facts:
            rows.setdefault(fact.function, []).append(fact.args)
        single = [Call(name, found[0]) for name, found in rows.items() if len(found) == 1 or not found[0]]
        self._actions([self._action("", (f,)) for f in single])
        for name, found in rows.items():
            if len(found) > 1 and found[0]:
                self._read_rows(name, found)

    def set(self, values: Sequence[tuple[Call, int]]) -> None:
        """Set function rows."""
        self._in_bulk("set", values)

    def union(self, a: Expression, b: Expression) -> None:
        self._actions([self._action("union", (a, b))])

    def unions(self, pairs: Sequence[tuple[Expression, Expression]]) -> None:
        """Make pairs of expressions equal, adding them where they are new."""
        self._in_bulk("union", pairs)

    def _action(self, head: str, parts: tuple[Expression, ...]) -> Any:
        b, s, e = self._b, self._span, self._expression
        if head == "union":
            return b.Union(s, e(parts[0]), e(parts[1]))
        if head == "set":
            function, value = parts
            assert isinstance(function, Call)
            return b.Set(s, function.function, [e(a) for a in function.args], e(value))
        return b.Expr_(s, e(parts[0]))

    def _in_bulk(self, head: str, actions: Sequence[tuple[Expression, ...]]) -> None:
        """Actions with one head, those of a kind together."""
        if len(actions) <= FEW or not is_readable(self._b, self._span):
            self._actions([self._action(head, parts) for parts in actions])
            return
        kinds: dict[tuple[Kind, ...], list[tuple[list[int], tuple[Expression, ...]]]] = {}
        for parts in actions:
            numbers: list[int] = []
            kinds.setdefault(kind_of(parts, numbers), []).append((numbers, parts))
        for kind, found in kinds.items():
            if len(found) <= FEW or not found[0][0]:
                self._actions([self._action(head, parts) for _, parts in found])
                continue
            name = self._bulks.get((head, kind))
            if name is None:
                name = self._bulks[head, kind] = f"bulk{len(self._bulks)}"
                self.run(rule_text(name, head, kind))
            self._read_rows(f"{name}_rows", [numbers for numbers, _ in found])
            self.run(f"(run-schedule (run {name}))")

    def _read_rows(self, relation: str, rows: Sequence[Sequence[int]]) -> None:
        if is_readable(self._b, self._span):
            self._guard(lambda: read_by(self._graph, self._b, self._span, relation, rows))
        else:
            self._actions([self._action("", (Call(relation, tuple(row)),)) for row in rows])

    @contextmanager
    def scratch(self) -> Generator[None]:
        """What is inserted and declared within is gone afterwards; a graph that fails within is not used any more."""
        kept = dict(self._bulks)
        self.run("(push)")
        yield
        self.run("(pop)")
        self._bulks = kept

    def apply(
        self,
        inserts: Sequence[Call],
        unions: Sequence[tuple[Expression, Expression]],
        sets: Sequence[tuple[Call, int]],
        deletes: Sequence[Call],
    ) -> None:
        """Insertions, unions, values and deletions, in this order, in one go."""
        b, s, e = self._b, self._span, self._expression
        actions = [self._action("", (f,)) for f in inserts]
        actions += [self._action("union", pair) for pair in unions]
        actions += [self._action("set", pair) for pair in sets]
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

    def sizes(self) -> dict[str, int]:
        """The number of rows of each function."""
        return dict(self._command(self._b.PrintSize(self._span, None)).sizes)

    def related(self, relation: str) -> list[tuple[int, ...]]:
        """The rows of a relation between numbers; where they are few, many times faster than `rows`.

        >>> graph = EGraph()
        >>> _ = graph.run("(relation edge (i64 i64)) (edge 1 -2)")
        >>> graph.related("edge"), graph.sizes()["edge"]
        ([(1, -2)], 1)
        """
        mode = self._b.CSVPrintFunctionMode()
        lines = str(self._command(self._b.PrintFunction(self._span, relation, None, None, mode))).splitlines()
        return [tuple(map(int, line.split(",")[1:-1])) for line in lines if line]

    def _command(self, command: Any) -> Any:
        return self._guard(lambda: self._graph.run_program(command))[0]

    def size(self, functions: Sequence[str], tables: Any = None) -> int:
        """The number of rows of some functions."""
        tables = self.tables() if tables is None else tables
        return sum(len(tables[name].rows) for name in functions if name in tables)


__all__ = ["Call", "EGraph", "EngineFailure", "Expression", "Row", "usable"]

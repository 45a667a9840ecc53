"""Many facts of one kind at once: egglog compiles each action that it is given, which takes as long as reading a
hundred rows of a table. So the numbers in them become rows of a table, and one rule makes the actions of these."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

FEW = 6
"""Actions of one kind, up to which each is compiled by itself: a rule has to be compiled, too."""
PIECE = 4000  # bytes that every pipe takes without somebody who reads

Kind = str | tuple[Any, ...]
"""What actions have in common: their heads and functions, with a `HOLE` for each number."""
HOLE = "#"


@dataclass(frozen=True)
class Call:
    """A constructor or relation applied to arguments; integers are literals."""

    function: str
    args: tuple[Any, ...]


Expression = Call | int


def kind_of(parts: Sequence[Expression], numbers: list[int]) -> tuple[Kind, ...]:
    """What expressions are but for their numbers, which are appended.

    >>> numbers = []
    >>> kind_of([Call("View", (Call("Value", (7,)), 3))], numbers), numbers
    ((('View', ('Value', '#'), '#'),), [7, 3])
    """
    return tuple([_kind(x, numbers) for x in parts])


def _kind(e: Expression, numbers: list[int]) -> Kind:
    if isinstance(e, Call):
        return (e.function, *[_kind(a, numbers) for a in e.args])
    numbers.append(e)
    return HOLE


def rule_text(name: str, head: str, kind: Sequence[Kind]) -> str:
    """The table for the numbers of some actions, and the rule that makes them, in a ruleset of its own.

    >>> print(rule_text("bulk0", "union", [("Value", HOLE), ("Leaf", HOLE)]))
    (ruleset bulk0)
    (relation bulk0_rows (i64 i64))
    (rule ((bulk0_rows a0 a1)) ((union (Value a0) (Leaf a1)) (delete (bulk0_rows a0 a1))) :ruleset bulk0)
    """
    count = iter(range(1 << 30))
    parts = " ".join(_text(k, count) for k in kind)
    names = " ".join(f"a{k}" for k in range(next(count)))
    action = f"({head} {parts})" if head else parts
    sorts = " ".join("i64" for _ in names.split())
    return (
        f"(ruleset {name})\n(relation {name}_rows ({sorts}))\n"
        f"(rule (({name}_rows {names})) ({action} (delete ({name}_rows {names}))) :ruleset {name})"
    )


def _text(kind: Kind, count: Iterator[int]) -> str:
    if kind == HOLE:
        return f"a{next(count)}"
    name, *args = kind
    return f"({' '.join([name, *(_text(a, count) for a in args)])})"


def pieces(rows: Iterable[Sequence[int]]) -> Iterator[bytes]:
    """Rows of numbers as egglog reads them, in pieces that a pipe takes.

    >>> list(pieces([(1, 2), (3, 4)]))
    [b'1\\t2\\n3\\t4\\n']
    """
    piece: list[bytes] = []
    size = 0
    for row in rows:
        line = ("\t".join(map(str, row)) + "\n").encode()
        if size + len(line) > PIECE:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield b"".join(piece)


def read_by(graph: Any, bindings: Any, span: Any, relation: str, rows: Iterable[Sequence[int]]) -> None:
    """Let a graph read rows of a relation: what it reads is a file, here a pipe that holds all of it."""
    for piece in pieces(rows):
        end, start = os.pipe()
        try:
            try:
                os.write(start, piece)
            finally:
                os.close(start)
            graph.run_program(bindings.Input(span, relation, f"/dev/fd/{end}"))
        finally:
            os.close(end)


_readable: list[bool] = []


def is_readable(bindings: Any, span: Any) -> bool:
    """Whether graphs of this process can read what it writes into a pipe: not where no folder lists open files."""
    if not _readable:
        graph = bindings.EGraph()
        try:
            graph.run_program(*graph.parse_program("(relation probe (i64 i64))"))
            read_by(graph, bindings, span, "probe", [(-1, 2), (3, 4)])
            found = sorted(
                tuple(graph.value_to_i64(x) for x in row.inputs) for row in graph.freeze().functions["probe"].rows
            )
            _readable.append(found == [(-1, 2), (3, 4)])
        except (bindings.EggSmolError, OSError):
            _readable.append(False)
    return _readable[0]

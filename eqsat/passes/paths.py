"""Places in a statement: a path gives, from the outermost statement on, the number of the child that is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.stmt import If, Seq, Stmt, children, seq

Path = tuple[int, ...]
EMPTY = Seq(())


def at(stmt: Stmt, path: Path) -> Stmt:
    """The statement at a path."""
    for number in path:
        stmt = children(stmt)[number]
    return stmt


def joined(stmt: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """The same statement around others: sequences in a sequence are one, an empty `else` is none."""
    if isinstance(stmt, Seq):
        return seq(parts)
    return with_children(stmt, parts[:1] if isinstance(stmt, If) and is_empty(parts[-1]) else parts)


def put(stmt: Stmt, path: Path, new: Stmt) -> Stmt:
    """The statement with another one at a path; the paths of all others stay (see `tidy`)."""
    if not path:
        return new
    parts = list(children(stmt))
    parts[path[0]] = put(parts[path[0]], path[1:], new)
    return with_children(stmt, parts)


def paths(stmt: Stmt, path: Path = (), *, start: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Every statement with its path, outer ones first; from a path on."""
    if path >= start:
        yield path, stmt
    for number, child in enumerate(children(stmt)):
        if (*path, number) >= start[: len(path) + 1]:
            yield from paths(child, (*path, number), start=start)


def is_empty(stmt: Stmt) -> bool:
    """Whether a statement does nothing."""
    return isinstance(stmt, Seq) and all(is_empty(part) for part in stmt.parts)


def tidy(stmt: Stmt) -> Stmt:
    """Without statements that do nothing, and sequences in sequences; a loop or branch around nothing is nothing.

    What is tidy already is itself: so what was found of it is found again.
    """
    parts = [tidy(child) for child in children(stmt)]
    if isinstance(stmt, Seq):
        kept = [part for part in parts if not is_empty(part)]
        if len(kept) < 2 or any(isinstance(part, Seq) for part in kept):
            return seq(kept)
        return with_children(stmt, kept)
    return EMPTY if parts and all(is_empty(part) for part in parts) else joined(stmt, parts)


def with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """The function with another body, tidied."""
    return replace(func, body=tidy(body))


def changed_while(func: PrimFunc, change: Callable[[PrimFunc, Path, Stmt], PrimFunc | None]) -> PrimFunc:
    """The function when a change, which is asked at each statement, outer and earlier ones first, finds nothing more.

    It makes another function, tidied, or None. It is asked again at what it changed, and goes on behind that; what
    stands before is for another round: so a round asks as often as there are statements and changes.
    """
    start: Path = ()
    done = func
    while True:
        for path, stmt in paths(func.body, start=start):
            new = change(func, path, stmt)
            if new is not None:
                func, start = new, path
                break
        else:
            if func is done:
                return func
            start, done = (), func

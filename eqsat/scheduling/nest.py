"""Places in a function: loops and blocks by name, statements by path, and their replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.accesses.access import Context, Path, parts
from eqsat.ir.decide import decider
from eqsat.ir.errors import EqsatError, ScheduleError
from eqsat.ir.given import text
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    For,
    If,
    Seq,
    Stmt,
    Store,
    children,
    seq,
    statements,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name, symbol_names
from eqsat.ir.terms.walk import nodes_of, substitute


@dataclass(frozen=True, eq=False)
class Place:
    """A statement and what is around it."""

    stmt: Stmt
    context: Context

    @property
    def path(self) -> Path:
        """The way to it."""
        return self.context.path


def places(func: PrimFunc) -> Iterator[Place]:
    """Every statement of a function, outer ones first, in order."""
    stack = [Place(func.body, Context.of(func))]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(Place(*top.context.child(top.stmt, n)) for n in reversed(parts(top.stmt)))


def at(func: PrimFunc, path: Path) -> Place:
    """The statement at a path."""
    here = Place(func.body, Context.of(func))
    for number in path:
        here = Place(*here.context.child(here.stmt, number))
    return here


def named(items: Sequence[tuple[str, Place]]) -> dict[str, Place]:
    """Items by name; where several have one name they are `name@0`, `name@1`, ... in order."""
    counts: dict[str, int] = {}
    for name, _ in items:
        counts[name] = counts.get(name, 0) + 1
    seen: dict[str, int] = {}
    found: dict[str, Place] = {}
    for name, place in items:
        number = seen[name] = seen.get(name, -1) + 1
        found[name if counts[name] == 1 else f"{name}@{number}"] = place
    return found


def loops(func: PrimFunc) -> dict[str, Place]:
    """The loops of a function by name, in order."""
    return named([(leaf_name(p.stmt.axis), p) for p in places(func) if isinstance(p.stmt, For)])


def find_loop(func: PrimFunc, name: str, what: str) -> tuple[For, Context]:
    """The loop of a name, and what is around it."""
    known = loops(func)
    if name not in known:
        alike = [n for n in known if n.startswith(f"{name}@")]
        problem = f"there are {len(alike)} loops {name!r}" if alike else f"there is no loop {name!r}"
        raise ScheduleError(what, problem, f"the loops are {', '.join(alike or known) or 'none'}")
    place = known[name]
    assert isinstance(place.stmt, For)
    return place.stmt, place.context


def stages(place: Place) -> list[Place]:
    """The statements that run one after the other inside of a declaration: what is below Alloc, Alias and Seq."""
    if isinstance(place.stmt, (Alloc, Alias, Seq)):
        return [s for n in parts(place.stmt) for s in stages(Place(*place.context.child(place.stmt, n)))]
    return [place]


def blocks(func: PrimFunc) -> dict[str, Place]:
    """The outermost statements of a function by the buffer that each writes last."""
    found: list[tuple[str, Place]] = []
    for stage in stages(Place(func.body, Context.of(func))):
        written = [s.buffer for s in statements(stage.stmt) if isinstance(s, Store)]
        found.append((written[-1] if written else "assume", stage))
    return named(found)


def find_block(func: PrimFunc, name: str, what: str) -> Place:
    """The block of a name."""
    known = blocks(func)
    if text(name, what, ScheduleError) not in known:
        alike = [n for n in known if n.startswith(f"{name}@")]
        problem = f"there are {len(alike)} blocks {name!r}" if alike else f"there is no block {name!r}"
        raise ScheduleError(what, problem, f"the blocks are {', '.join(alike or known) or 'none'}")
    return known[name]


def replaced(func: PrimFunc, path: Path, new: Stmt) -> PrimFunc:
    """The function with another statement at a path; sequences inside of sequences become one."""
    return replace(func, body=_put(func.body, path, new))


def _put(stmt: Stmt, path: Path, new: Stmt) -> Stmt:
    if not path:
        return new
    inner, place = list(children(stmt)), path[0] - isinstance(stmt, If)
    inner[place] = _put(inner[place], path[1:], new)
    return seq(inner) if isinstance(stmt, Seq) else with_children(stmt, inner)


def at_part(stmt: Stmt, number: int) -> Stmt:
    """A part of a statement, by its number in paths."""
    return children(stmt)[number - isinstance(stmt, If)]


def rewritten(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """A statement whose stores, conditions and assumptions are changed, outer ones last."""
    parts = [rewritten(part, change) for part in children(stmt)]
    return seq(parts) if isinstance(stmt, Seq) else change(with_children(stmt, parts))


def map_terms(stmt: Stmt, change: Callable[[Sequence[Term]], Sequence[Term]]) -> Stmt:
    """A statement over other terms."""

    def one(s: Stmt) -> Stmt:
        if isinstance(s, Store):
            *index, value = change((*s.index, s.value))
            return replace(s, index=tuple(index), value=value)
        if isinstance(s, (If, Assume)):
            return replace(s, condition=change((s.condition,))[0])
        return s

    return rewritten(stmt, one)


def substituted(stmt: Stmt, table: Mapping[Term, Term]) -> Stmt:
    """A statement with axes replaced by terms, simplified as far as quick rules go."""

    def change(terms: Sequence[Term]) -> Sequence[Term]:
        new = [substitute(x, table) for x in terms]
        if all(a is b for a, b in zip(new, terms, strict=True)):
            return terms
        return simplified(new)

    return map_terms(stmt, change)


def simplified(terms: Sequence[Term]) -> Sequence[Term]:
    """Terms as simple as quick rules make them; vectors stay as wide as they were, so one that is a number stays."""
    found = decider().simplify(terms, {})
    return [new if new.lanes == old.lanes else old for old, new in zip(terms, found, strict=True)]


def guarded(condition: Term, stmt: Stmt) -> Stmt:
    """The statement where a condition holds."""
    return stmt if condition is t.TRUE else If(condition, stmt)


def new_names(func: PrimFunc, what: str, given: Sequence[str] | None, wanted: Sequence[str]) -> list[str]:
    """Names for new loops: those given, which must be free, or free ones like those wanted."""
    taken = names_of(func)
    if given is not None:
        if len(given) != len(wanted) or len(set(given)) != len(given) or set(given) & taken:
            problem = f"the names {', '.join(given)} are {len(given)}, or taken"
            raise ScheduleError(what, problem, f"give {len(wanted)} that the function does not use")
        return list(given)
    found: list[str] = []
    for name in wanted:
        found.append(fresh_name(name, {*taken, *found}))
    return found


def block_depth(func: PrimFunc, block: str, what: str) -> int:
    """How many loops stand one directly inside of the other in a block, guards between them left out."""
    here = find_block(func, block, what).stmt
    count = 0
    while isinstance(here, (For, If)):
        count += isinstance(here, For)
        here = here.body if isinstance(here, For) else here.then
    return count


def index_map_in(what: str, given: Any, rank: int, sizes: Iterable[Term] = ()) -> IndexMap:
    """What a user gives as an index map, with the errors of a schedule; a text may speak of sizes by their names."""
    try:
        known = {name: size for size, name in symbol_names(sizes).items()}
        return IndexMap.parse(given, known) if isinstance(given, str) else index_map_of(given, rank)
    except EqsatError as error:
        raise ScheduleError(what, str(error), witness=error.witness) from error


def index_map_of(given: Any, rank: int) -> IndexMap:
    """An index map, its text or a function."""
    if isinstance(given, IndexMap):
        return given
    return IndexMap.parse(given) if isinstance(given, str) else IndexMap.from_func(given, rank)


def depends_on_tables(*terms: Term) -> bool:
    """Whether terms load constant tables, which statements do not."""
    return any(isinstance(n.payload, Table) for n in nodes_of("load", *terms))

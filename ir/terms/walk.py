"""Iterative, sharing walks over term DAGs: order, rewriting, substitution, and what occurs inside."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from eqsat.ir import clock
from eqsat.ir.terms.term import Term, distributed, make, rebuild


def postorder(*roots: Term, done: Container[Term] = ()) -> Iterator[Term]:
    """Every distinct subterm once, arguments before users; terms in `done`, and what only they hold, are left out."""
    clock.check()  # a walk is short; what runs for long is many walks
    seen: set[int] = set()  # serials: hashing a term is a call, hashing a number is not
    stack: list[Term] = list(reversed(roots))
    while stack:
        term = stack[-1]
        if term.serial in seen or (done and term in done):
            stack.pop()
            continue
        if term.args:
            missing = [a for a in term.args if a.serial not in seen and not (done and a in done)]
            if missing:
                missing.reverse()
                stack.extend(missing)
                continue
        stack.pop()
        seen.add(term.serial)
        yield term


def transform(term: Term, change: Callable[[Term], Term | None], memo: dict[Term, Term] | None = None) -> Term:
    """Rebuild bottom up; `change` sees each node over its rebuilt arguments and may answer a replacement.

    What a node folds to over them (`a and a` to a) is rebuilt already and not changed a second time.
    """
    done: dict[Term, Term] = {} if memo is None else memo
    for node in postorder(term):
        if node in done:
            continue
        args = [done[a] for a in node.args]
        new = node if all(a is b for a, b in zip(args, node.args, strict=True)) else rebuild(node, args)
        changed = None if new is not node and _is_part(new, args) else change(new)
        done[node] = new if changed is None else changed
    return done[term]


def _is_part(term: Term, args: list[Term]) -> bool:
    return any(term is a or any(term is b for b in a.args) for a in args)


def expanded(term: Term) -> Term:
    """A term with products of sums as sums of products, where these are not long.

    >>> from eqsat.ir.terms.term import sym
    >>> n = sym("N")
    >>> expanded((n + 1) * (n + 2) // 2)
    (3*N + N*N + 2) // 2
    """

    def change(node: Term) -> Term | None:
        is_product = node.op == "prod" and any(f.op == "sum" for f in node.args)
        return distributed(*node.args, most=32) if is_product else None

    return transform(term, change)


def substitute(term: Term, table: Mapping[Term, Term]) -> Term:
    """Replace subterms simultaneously; replaced terms are not visited again.

    >>> from eqsat.ir.terms.term import var
    >>> i, j = var("i"), var("j")
    >>> str(substitute(i // 4 + j, {i: j, j: i}))
    'i + j // 4'
    """
    if not table:
        return term
    done: dict[int, Term] = {known.serial: value for known, value in table.items()}
    stack: list[Term] = [term]
    while stack:
        node = stack[-1]
        if node.serial in done:
            stack.pop()
            continue
        missing: list[Term] = []
        for a in node.args:
            if a.serial not in done:
                if a.args:
                    missing.append(a)
                else:
                    done[a.serial] = a
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        args = [done[a.serial] for a in node.args]
        same = all(a is b for a, b in zip(args, node.args, strict=True))
        done[node.serial] = node if same else rebuild(node, args)
    return done[term.serial]


def map_loads(term: Term, change: Callable[[Term], Term]) -> Term:
    """Replace every load; `change` sees it over its rebuilt index."""
    return transform(term, lambda node: change(node) if node.op == "load" else None)


def renumber_loads(term: Term, sources: Mapping[Any, Any]) -> Term:
    """Give loads new sources (operand numbers, tensors or buffers); sources not in the table stay."""

    def change(node: Term) -> Term | None:
        if node.op == "load" and node.payload in sources:
            return make("load", node.args, sources[node.payload], node.dtype, node.lanes)
        return None

    return transform(term, change)


def nodes_of(op: str, *roots: Term) -> list[Term]:
    """The distinct subterms with this operation, inner nodes as well as leaves, operands before what uses them.

    >>> from eqsat.ir.terms.parse import parse_expr
    >>> nodes_of("floordiv", parse_expr("(i // 2) // 3 + j // 2"))
    [i // 2, i // 2 // 3, j // 2]
    """
    return [n for n in postorder(*roots) if n.op == op]


def free_variables(*roots: Term) -> list[Term]:
    """Axes and named variables, in order of appearance."""
    return [n for n in postorder(*roots) if n.op in ("axis", "var")]


def symbols(*roots: Term) -> list[Term]:
    """Symbolic sizes, in order of appearance."""
    return nodes_of("sym", *roots)


def occurs(table: Iterable[Term], *roots: Term) -> bool:
    """Whether any of these terms occurs in the roots."""
    wanted = set(table)
    return any(n in wanted for n in postorder(*roots))


def conjuncts(predicate: Term) -> tuple[Term, ...]:
    """The parts of a conjunction; any other predicate is its only part."""
    return predicate.args if predicate.op == "and" else (predicate,)


def dag_size(*roots: Term) -> int:
    """The number of distinct nodes."""
    return sum(1 for _ in postorder(*roots))

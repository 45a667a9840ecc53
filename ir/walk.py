"""Iterative, sharing walks over term DAGs: order, rewriting, substitution, and what occurs inside."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from eqsat.ir.term import Term, load, rebuild


def postorder(*roots: Term, done: Container[Term] = ()) -> Iterator[Term]:
    """Every distinct subterm once, arguments before users; terms in `done`, and what only they hold, are left out."""
    seen: set[Term] = set()
    stack: list[Term] = list(reversed(roots))
    while stack:
        term = stack[-1]
        if term in seen or (done and term in done):
            stack.pop()
            continue
        missing = [a for a in term.args if a not in seen and not (done and a in done)]
        if missing:
            missing.reverse()
            stack.extend(missing)
        else:
            stack.pop()
            seen.add(term)
            yield term


def transform(term: Term, change: Callable[[Term], Term | None], memo: dict[Term, Term] | None = None) -> Term:
    """Rebuild bottom up; `change` sees each node over its rebuilt arguments and may answer a replacement."""
    done: dict[Term, Term] = {} if memo is None else memo
    for node in postorder(term):
        if node in done:
            continue
        args = [done[a] for a in node.args]
        new = node if all(a is b for a, b in zip(args, node.args, strict=True)) else rebuild(node, args)
        changed = change(new)
        done[node] = new if changed is None else changed
    return done[term]


def substitute(term: Term, table: Mapping[Term, Term]) -> Term:
    """Replace subterms simultaneously; replaced terms are not visited again.

    >>> from eqsat.ir.term import var
    >>> i, j = var("i"), var("j")
    >>> str(substitute(i // 4 + j, {i: j, j: i}))
    'i + j // 4'
    """
    done: dict[Term, Term] = {}
    stack: list[tuple[Term, bool]] = [(term, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if node in table:
            done[node] = table[node]
        elif ready or not node.args:
            args = [done[a] for a in node.args]
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            done[node] = node if same else rebuild(node, args)
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args)
    return done[term]


def map_loads(term: Term, change: Callable[[Term], Term]) -> Term:
    """Replace every load; `change` sees it over its rebuilt index."""
    return transform(term, lambda node: change(node) if node.op == "load" else None)


def renumber_loads(term: Term, sources: Mapping[Any, Any]) -> Term:
    """Give loads new sources (operand numbers, tensors or buffers); sources not in the table stay."""

    def change(node: Term) -> Term | None:
        if node.op == "load" and node.payload in sources:
            return load(sources[node.payload], node.args, node.dtype)
        return None

    return transform(term, change)


def leaves(op: str, *roots: Term) -> list[Term]:
    """The distinct subterms with this operation, in order of appearance."""
    return [n for n in postorder(*roots) if n.op == op]


def free_variables(*roots: Term) -> list[Term]:
    """Axes and named variables, in order of appearance."""
    return [n for n in postorder(*roots) if n.op in ("axis", "var")]


def symbols(*roots: Term) -> list[Term]:
    """Symbolic sizes, in order of appearance."""
    return leaves("sym", *roots)


def occurs(table: Iterable[Term], *roots: Term) -> bool:
    """Whether any of these terms occurs in the roots."""
    wanted = set(table)
    return any(n in wanted for n in postorder(*roots))


def dag_size(*roots: Term) -> int:
    """The number of distinct nodes."""
    return sum(1 for _ in postorder(*roots))

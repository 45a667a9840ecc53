"""Answers of the rewriter with one rule left out: what `simplify` and `decide` say then, without the e-graph, which may
find another way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from eqsat.ir.terms.term import Term
from eqsat.proving import rules as deciding
from eqsat.proving.prover import decide
from eqsat.rewriting.match_looks import Looks
from eqsat.rewriting.rewrite import Rewriter
from eqsat.simplifying import simplify as simplifying

Row = Mapping[str, Any]
_compiled: Callable[..., Rewriter] = simplifying._rewriter  # pyright: ignore[reportPrivateUsage]
_normaliser = deciding.normaliser


def reduced(rewriter: Rewriter, name: str) -> Rewriter:
    """Compiled rules without one of them; the rewriter itself where it does not have it."""
    if all(r.name != name for r in rewriter.rules):
        return rewriter
    result = Rewriter(())
    result.rules = tuple(r for r in rewriter.rules if r.name != name)
    for op, patterns in rewriter.by_root.items():
        kept = [(n, p) for n, p in patterns if n != name]
        if kept:
            result.by_root[op], result.looks[op] = kept, Looks(p.look for _, p in kept)
    return result


def forget() -> None:
    """Forget the answers, so that rules decide them again; verdicts on disk have to be off (EQSAT_CACHE=off)."""
    simplifying._simplified.cache_clear()  # pyright: ignore[reportPrivateUsage]


@contextmanager
def leaving_out(name: str) -> Generator[None]:
    """Within it, simplifying and deciding go without this rule."""

    @cache
    def rewriter(rules: object, *tags: str) -> Rewriter:
        return reduced(_compiled(None, *tags), name)

    @cache
    def normaliser() -> Rewriter:
        return reduced(_normaliser(), name)

    forget()
    with mock.patch.object(simplifying, "_rewriter", rewriter), mock.patch.object(deciding, "normaliser", normaliser):
        yield
    forget()


def ranges_of(row: Row) -> dict[str, Any]:
    """The ranges of a row: lists of JSON are pairs."""
    return {n: r if isinstance(r, int) else tuple(r) for n, r in row.get("ranges", {}).items()}


def answer(row: Row) -> str:
    """What is said to a row: its text simplified, or decided."""
    if row.get("question") == "decide":
        return decide(row["text"], ranges_of(row), row.get("assuming"))
    return str(simplified(row))


def _never(_: Term) -> bool:
    return False


def simplified(row: Row) -> Term:
    """The text of a row simplified by the rewriter."""
    with mock.patch.object(simplifying, "may_be_stuck", _never):
        return simplifying.simplify(row["text"], ranges_of(row), row.get("assuming"))

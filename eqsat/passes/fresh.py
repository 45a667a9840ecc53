"""New names: of axes that no other axis is, and of what memory holds at one time.

In a `scope` names are numbered by what is asked, not by what was asked before: the same question then makes the same
terms, so that answers to it and to all that it consists of are found again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from eqsat.ir.terms import term as t
from eqsat.ir.terms.leaves import MARK
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name

_ALL = itertools.count()


@dataclass
class Scope:
    """Numbers from one on, with a tag that tells them from those of other scopes."""

    tag: str
    number: int = 0


class _Local(threading.local):
    scope: Scope | None = None


_local = _Local()


@contextmanager
def scope(tag: str) -> Generator[None]:
    """New names are numbered from one on here. They must not leave the scope, nor enter another one of its tag.

    >>> with scope("a"):
    ...     print(renamed(t.var("i", 4)))
    i#1a
    """
    before = _local.scope
    _local.scope = Scope(tag)
    try:
        yield
    finally:
        _local.scope = before


def fresh() -> str:
    """What makes a name new."""
    here = _local.scope
    if here is None:
        return f"{MARK}{next(_ALL)}q"
    here.number += 1
    return f"{MARK}{here.number}{here.tag}"


def renamed(axis: Term) -> Term:
    """A variable with the extent of an axis and a name that nothing else has."""
    return t.make("var", (axis.args[0],), f"{leaf_name(axis).partition(MARK)[0]}{fresh()}")

"""Holes: padding whose value the program leaves open. Each place that introduces one gets its own number."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from eqsat.ir.locks import fork_safe
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, TermLike


class _Undef:
    """The pad value that promises nothing; `eq.UNDEF` is its only instance."""

    def __repr__(self) -> str:
        return "eq.UNDEF"

    def __reduce__(self) -> str:
        return "UNDEF"


UNDEF = _Undef()


class _Numbers:
    """The numbers in use by this process: a fresh one is above all that were made or read."""

    def __init__(self) -> None:
        self.lock = fork_safe(threading.Lock())
        self.last = 0

    def fresh(self) -> int:
        with self.lock:
            self.last += 1
            return self.last

    def reserve(self, number: int) -> None:
        with self.lock:
            self.last = max(self.last, number)


_numbers = _Numbers()


def new_hole(dtype: str, index: Sequence[TermLike]) -> Term:
    """A hole with a fresh number, indexed by the given axes."""
    return t.hole(_numbers.fresh(), dtype, index)


def reserve_holes(number: int) -> None:
    """Keep numbers up to this one from being given to new holes: called where holes are read from a file."""
    _numbers.reserve(number)

"""Records with terms in them: dataclasses that are compared field by field, terms by identity."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, cast

from eqsat.ir.terms.node import Term


class Record:
    """A dataclass with `eq=False` that is equal to another one of its class with the same fields.

    The `==` of terms makes a term, so that what dataclasses generate cannot compare them.

    >>> from dataclasses import dataclass
    >>> from eqsat.ir.terms.leaves import var
    >>> @dataclass(frozen=True, eq=False)
    ... class Pair(Record):
    ...     left: Term
    ...     right: Term
    >>> x, y = var("x"), var("y")
    >>> Pair(x, y) == Pair(x, y), Pair(x, y) == Pair(y, x), len({Pair(x, y), Pair(x, y)})
    (True, False, 1)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(map(_same, _values(self), _values(cast(Record, other))))

    def __hash__(self) -> int:
        return hash(_values(self))


def _same(a: object, b: object) -> bool:
    return a is b or (not isinstance(a, Term) and not isinstance(b, Term) and bool(a == b))


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class that are compared."""
    return tuple(f.name for f in fields(kind) if f.compare)


def _values(record: Record) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in _names(type(record)))

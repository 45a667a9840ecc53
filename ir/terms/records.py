"""Records with terms in them: dataclasses that are compared field by field, terms by identity."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from operator import attrgetter
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
        values = _values(type(self))
        return all(map(_same, values(self), values(other)))

    def __hash__(self) -> int:
        return hash(_values(type(self))(self))


def _same(a: object, b: object) -> bool:
    return a is b or (not isinstance(a, Term) and not isinstance(b, Term) and bool(a == b))


@cache
def _values(kind: type[Any]) -> Any:
    """What reads the fields of a class that are compared, as a tuple."""
    names = [f.name for f in fields(kind) if f.compare]
    if len(names) == 1:
        (name,) = names
        return lambda record: (getattr(record, name),)
    return cast(Any, attrgetter(*names)) if names else lambda _: ()

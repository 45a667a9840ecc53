"""Equality of statements: the same classes, the same names and numbers, the same terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from eqsat.ir.terms.term import Term


class Structural:
    """A frozen dataclass that is equal to another one of the same structure; terms in it are compared as `a.same(b)`.

    >>> from eqsat.ir.statements.stmt import Store
    >>> from eqsat.ir.terms.term import const, var
    >>> Store("x", (var("i"),), const(0, "int8")) == Store("x", (var("i"),), const(1, "int8"))
    False
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and structure(self) == structure(other)

    def __hash__(self) -> int:
        return hash(structure(self))


def structure(value: Any) -> Any:
    """Nested tuples that are equal where the values have the same structure."""
    if isinstance(value, Term):
        return Term, value.serial
    if isinstance(value, tuple):
        return tuple(structure(v) for v in cast("tuple[Any, ...]", value))
    if isinstance(value, Mapping):
        return tuple((key, structure(v)) for key, v in cast("Mapping[Any, Any]", value).items())
    if isinstance(value, Structural):
        names = [f.name for f in fields(cast(Any, value))]
        return type(value), *(structure(getattr(value, name)) for name in names)
    return value

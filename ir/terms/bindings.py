"""Values for symbols: numbers, or other sizes, given by name or by symbol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eqsat.ir.errors import ShapeError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import symbol_names
from eqsat.ir.terms.walk import postorder

Bindings = Mapping[Any, Any]
"""Values by the name that texts show, or by the symbol itself."""


def bindings(known: Iterable[Term], values: Bindings, what: str) -> dict[Term, Term]:
    """The terms that symbols become; an error for a name that no symbol has and for a value that breaks its bounds.

    >>> n = t.sym("N", lower=2)
    >>> bindings([n], {"N": 4}, "bind") == {n: t.index_const(4)}
    True
    """
    names = symbol_names(known)
    by_name = {name: symbol for symbol, name in names.items()}
    table: dict[Term, Term] = {}
    for given, value in values.items():
        symbol = by_name.get(given) if isinstance(given, str) else given if isinstance(given, Term) else None
        if symbol is None or symbol not in names:
            have = ", ".join(by_name) or "none"
            raise ShapeError(f"{what}: {given}={value}", f"no symbol is {given}", f"its symbols: {have}")
        if symbol in table:
            raise ShapeError(f"{what}: {given}={value}", f"{names[symbol]} has a value already")
        table[symbol] = _checked(symbol, value, f"{what}: {names[symbol]}={value}")
    return table


def _checked(symbol: Term, value: Any, what: str) -> Term:
    term = t.as_index(value)
    for node in postorder(term):
        if node.op in ("axis", "var", "load", "hole"):
            raise ShapeError(what, f"depends on {node}", "give a number, or a size of symbols")
    number = t.int_value(term)
    if number is not None and not t.holds_facts(symbol, number):
        raise ShapeError(what, f"{number} breaks {bounds(symbol)}")
    return term


def bounds(symbol: Term) -> str:
    """What is known of the value of a symbol, as errors say it.

    >>> bounds(t.sym("n", 2, 8, 4))
    '2 <= n <= 8, a multiple of 4'
    """
    name, lower, upper, multiple, _ = t.symbol_facts(symbol)
    below, above = "" if lower is None else f"{lower} <= ", "" if upper is None else f" <= {upper}"
    return f"{below}{name}{above}" + ("" if multiple == 1 else f", a multiple of {multiple}")

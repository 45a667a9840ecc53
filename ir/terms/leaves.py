"""The leaves of terms - numbers, axes, variables, symbols, loads, holes - and what converts to a term."""

from __future__ import annotations

import keyword
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import INDEX, as_dtype, check_value, from_bits, holds_value, to_bits
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.given import whole
from eqsat.ir.terms.node import SymbolFacts, Term, TermLike, make


def index_const(value: int) -> Term:
    """An integer of index type."""
    return make("const", (), int(value), INDEX)


def const(value: Any, dtype: Any) -> Term:
    """A constant of a data type (by bits: 0.0 and -0.0 differ) or of index type.

    >>> const(0.0, "float32").same(const(-0.0, "float32"))
    False
    """
    if dtype == INDEX and type(value) is int:
        return make("const", (), value)
    dtype = as_dtype(dtype)
    check_value(value, dtype)
    return index_const(int(value)) if dtype == INDEX else make("const", (), to_bits(value, dtype), dtype)


def const_value(term: Term) -> Any:
    """The number of a `const` term: an int for index terms, else a numpy scalar."""
    return term.payload if term.dtype == INDEX else from_bits(term.payload, term.dtype)


def is_const(term: Term, value: Any = None) -> bool:
    """Whether the term is a constant (bitwise equal to `value`, when given)."""
    if term.op != "const":
        return False
    if value is None:
        return True
    if not holds_value(value, term.dtype):
        return False
    return term.payload == (int(value) if term.dtype == INDEX else to_bits(value, term.dtype))


def int_value(term: Term) -> int | None:
    """The integer of a constant index term, else None."""
    return cast(int, term.payload) if term.op == "const" and term.dtype == INDEX else None


def _whole(value: Any, what: str, name: str) -> int:
    return value if type(value) is int else whole(value, what, name, TypeMismatch)


def ax(n: int, extent: TermLike) -> Term:
    """Spatial axis number n of a View, Compute or IndexMap: 0 <= ax < extent."""
    return make("axis", (as_index(extent),), ("ax", _whole(n, "axis", "number")))


def red(n: int, extent: TermLike) -> Term:
    """Reduce axis number n of a Compute."""
    return make("axis", (as_index(extent),), ("red", _whole(n, "axis", "number")))


def var(name: str, extent: TermLike | None = None) -> Term:
    """A named free index variable, as `eq.axis` and `eq.parse_expr` make it; with an extent, 0 <= name < extent."""
    _check_name("index variable", name)
    return make("var", () if extent is None else (as_index(extent),), name)


MARK = "#"
"""No name that a user gives has it."""


def hidden(name: str, extent: TermLike | None = None) -> Term:
    """A variable that is none of the user's, whatever they call theirs.

    >>> print(hidden("c", 4))
    c#
    """
    return make("var", () if extent is None else (as_index(extent),), f"{name}{MARK}")


def _check_name(kind: str, name: str) -> None:
    """Names are identifiers, so that printed terms can be read again."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeMismatch(f"{kind} {name!r}", "the name is not an identifier", "use letters, digits and _")


def sym(
    name: str, lower: int | None = 1, upper: int | None = None, multiple_of: int = 1, key: str | None = None
) -> Term:
    """A symbolic size: an unknown integer with lower <= name <= upper, divisible by multiple_of.

    Every call makes another symbol, but for readers, which give the `key` of one that was made before.

    >>> sym("N") is sym("N")
    False
    """
    _check_name("symbol", name)
    what = f"symbol {name}"
    lower, upper = (None if n is None else _whole(n, what, "bound") for n in (lower, upper))
    multiple_of = _whole(multiple_of, what, "multiple_of")
    if multiple_of < 1:
        raise TypeMismatch(f"symbol {name}", f"multiple_of is {multiple_of}", "at least 1")
    if lower is not None and upper is not None and lower > upper:
        raise TypeMismatch(f"symbol {name}", f"lower {lower} is above upper {upper}")
    if lower is not None and upper is not None and upper // multiple_of * multiple_of < lower:
        raise TypeMismatch(f"symbol {name}", f"no multiple of {multiple_of} is from lower {lower} to upper {upper}")
    return make("sym", (), SymbolFacts(name, lower, upper, multiple_of, key or _new_key()))


_latest = 0
_key_lock = threading.Lock()


def _new_key() -> str:
    """An identity that no other symbol has: those of other processes meet in files and workers, so it is random; it
    begins with the time, so that the keys of one process sort by age."""
    global _latest
    with _key_lock:
        _latest = max(_latest + 1, time.time_ns())
        return f"{_latest:016x}{os.urandom(6).hex()}"


def symbol_facts(symbol: Term) -> SymbolFacts:
    """The name, the bounds and the identity of a symbolic size."""
    return cast(SymbolFacts, symbol.payload)


def holds_facts(symbol: Term, value: int) -> bool:
    """Whether a symbol may have this value.

    >>> holds_facts(sym("N", multiple_of=4), 8), holds_facts(sym("N", lower=2), 1)
    (True, False)
    """
    facts = symbol_facts(symbol)
    above = facts.lower is None or facts.lower <= value
    return above and (facts.upper is None or value <= facts.upper) and value % facts.multiple_of == 0


def hole(number: int, dtype: str, index: Sequence[TermLike]) -> Term:
    """One fixed but unknown value per (number, index): padding that the program leaves open."""
    return make("hole", [as_index(i) for i in index], _whole(number, "hole", "number"), dtype)


def load(source: Any, index: Sequence[TermLike], dtype: str) -> Term:
    """The element of `source` (an operand number, a tensor or a buffer) at an index."""
    return make("load", [as_index(i) for i in index], source, dtype)


def ramp(base: TermLike, stride: TermLike, lanes: int) -> Term:
    """The index vector base, base + stride, ..., of `lanes` elements."""
    lanes = _whole(lanes, "ramp", "number of lanes")
    if lanes < 1:
        raise TypeMismatch(f"ramp of {lanes} lanes", "needs at least one lane")
    return make("ramp", (as_index(base), as_index(stride)), lanes, INDEX, lanes)


def broadcast(value: Term, lanes: int) -> Term:
    """A vector of `lanes` elements, each of them `value`; a vector of so many lanes is itself.

    >>> print(broadcast(const(0, "int8"), 4), "|", broadcast(index_const(3), 4))
    broadcast(int8(0), 4) | ramp(3, 0, 4)

    Errors: TypeMismatch for less than one lane, and for a vector of another number of lanes.
    """
    lanes = _whole(lanes, "broadcast", "number of lanes")
    if lanes < 1 or value.lanes not in (1, lanes):
        problem = f"{value} has {value.lanes} lanes" if lanes > 0 else "needs at least one lane"
        raise TypeMismatch(f"broadcast to {lanes} lanes", problem)
    if value.lanes == lanes:
        return value
    return ramp(value, 0, lanes) if value.dtype == INDEX else make("broadcast", (value,), lanes, value.dtype, lanes)


def as_index(value: Any) -> Term:
    """A term of index type from an integer or an index term."""
    if isinstance(value, Term):
        if value.dtype != INDEX:
            raise TypeMismatch(f"index {value}", f"has type {value.dtype}, not index", "use eq.cast(value, 'index')")
        return value
    if type(value) is int:
        return make("const", (), value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeMismatch(f"index {value!r}", "not an integer")
    return index_const(int(cast(Any, value)))


def as_term(value: Any, like: str) -> Term:
    """A term of type `like` from a number, or the term itself."""
    return value if isinstance(value, Term) else const(value, like)


def pair(op: str, a: Any, b: Any) -> tuple[Term, Term]:
    """Both operands as terms of one type; a plain number takes the type of the other operand."""
    if isinstance(a, Term):
        x, y = a, b if isinstance(b, Term) else const(b, a.dtype)
    elif isinstance(b, Term):
        x, y = const(a, b.dtype), b
    else:
        return as_index(a), as_index(b)
    if x.dtype != y.dtype:
        raise TypeMismatch(f"{op} of {x} and {y}", f"types {x.dtype} and {y.dtype} differ", "use eq.cast")
    return x, y

"""The values that arguments give to the symbols of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import Bindings, bindings
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import symbol_names


def bind_function(
    func: PrimFunc, shapes: Mapping[str, Sequence[int]], given: Bindings | None = None
) -> dict[Term, int]:
    """A number for every symbol of a function: as given, else read off the shapes of its arguments.

    An extent that is a symbol, or a multiple of one plus a number, tells it. Raises EvaluationError for a symbol that
    nothing tells, and for shapes that need two values of one.
    """
    what = f"function {func.name}"
    table = bindings(func.symbols, given or {}, what)
    found = {s: v for s, value in table.items() if (v := t.int_value(value)) is not None}
    for name in func.params:
        for dim, n in zip(func.buffer_map[name].shape, shapes.get(name, ()), strict=False):
            solved = None if isinstance(dim, int) else solve(dim, n)
            if solved is not None and solved[0] not in found:
                found[solved[0]] = solved[1]
    names = symbol_names(func.symbols)
    for symbol, value in found.items():
        bindings(func.symbols, {symbol: value}, what)  # its bounds hold
    missing = [names[s] for s in func.symbols if s not in found]
    if missing:
        raise EvaluationError(what, f"no argument tells {', '.join(missing)}", f"symbols={{{missing[0]!r}: ...}}")
    return found


def solve(dim: Term, n: int) -> tuple[Term, int] | None:
    """The symbol of an extent c*N + d, and its value where the extent is n; None for others.

    >>> symbol = t.sym("N")
    >>> solve(4 * symbol + 1, 13), solve(4 * symbol + 1, 14), solve(symbol // 2, 3)
    ((N, 3), None, None)
    """
    constant, parts = t.linear_parts(dim)
    if len(parts) != 1 or parts[0][1].op != "sym" or (n - constant) % parts[0][0]:
        return None
    return parts[0][1], (n - constant) // parts[0][0]

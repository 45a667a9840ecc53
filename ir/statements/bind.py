"""The values that arguments give to the symbols of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.memory import declared_view
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Stmt, children
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import Bindings, bindings
from eqsat.ir.terms.shape import as_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import symbol_names
from eqsat.ir.terms.walk import substitute


def bind_function(
    func: PrimFunc, shapes: Mapping[str, Sequence[int]], given: Bindings | None = None
) -> dict[Term, int]:
    """A number for every symbol of a function: as given, else read off the shapes of its arguments.

    An extent that is a symbol, or a multiple of one plus a number, tells it; so does that of a physical axis. Raises
    EvaluationError for a symbol that nothing tells, and for shapes that need two values of one.
    """
    what = f"function {func.name}"
    table = bindings(func.symbols, given or {}, what)
    found = {s: v for s, value in table.items() if (v := t.int_value(value)) is not None}
    for name in func.params:
        given_shape = shapes.get(name, ())
        for dim, n in zip(func.buffer_map[name].extents(len(given_shape)), given_shape, strict=False):
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


def by_declared_axes(
    func: PrimFunc, arrays: Mapping[str, NDArray], given: Bindings | None = None
) -> Mapping[str, NDArray]:
    """The arguments of a function by the axes that it declares; those with their physical axes as views.

    >>> import numpy as np
    >>> f = PrimFunc.parse("func f(x: int8[2, 3, 4] separators [2])")
    >>> by_declared_axes(f, {"x": np.zeros((6, 4), "int8")})["x"].shape
    (2, 3, 4)
    """
    if not any(func.buffer_map[n].axis_separators for n in arrays if n in func.buffer_map):
        return arrays
    sizes = bind_function(func, {n: a.shape for n, a in arrays.items()}, given)
    return {n: declared_view(func.buffer_map[n], sizes, a) if n in func.buffer_map else a for n, a in arrays.items()}


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


def at_sizes(func: PrimFunc, sizes: Mapping[Term, int]) -> PrimFunc:
    """The function with numbers for some of its symbols.

    >>> f = PrimFunc.parse("func f(x: int8[N], y: int8[N])\\n  symbol N\\n  for i in N:\\n    y[i] = x[N - 1 - i]")
    >>> print(at_sizes(f, {f.symbols[0]: 4}))
    func f(x: int8[4], y: int8[4])
      for i in 4:
        y[i] = x[3 - i]
    """
    return _at_sizes(func, tuple(sorted(sizes.items(), key=lambda x: x[0].serial)))


@lru_cache(maxsize=256)
def _at_sizes(func: PrimFunc, sizes: tuple[tuple[Term, int], ...]) -> PrimFunc:
    table = {s: t.index_const(n) for s, n in sizes}

    def decl(d: BufferDecl) -> BufferDecl:
        return replace(d, shape=tuple(as_dim(substitute(t.as_index(n), table)) for n in d.shape))

    def sized(s: Stmt) -> Stmt:
        made = with_terms(with_children(s, [sized(x) for x in children(s)]), lambda x: substitute(x, table))
        if isinstance(made, For):
            return replace(made, axis=substitute(made.axis, table))
        return replace(made, buffer=decl(made.buffer)) if isinstance(made, Alloc | Alias) else made

    buffers = {name: decl(d) for name, d in func.buffer_map.items()}
    return PrimFunc(func.name, func.params, buffers, sized(func.body), func.note)

"""Costs over symbolic sizes are polynomials: whether one is at most another at every size that is declared."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from eqsat.extraction.cost import layout_cells
from eqsat.ir.flat.size_samples import sampled, symbol_sample
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, symbol_names
from eqsat.ir.terms.walk import expanded, postorder, symbols

FAR = 1 << 20
"""Where a size without an upper bound is looked at, too."""
MOST_SIZES = 30
"""Of costs in more sizes, of which some are more and others less, nothing is shown: that takes the square of their
number."""


def program_polynomial(program: Program) -> Term:
    """The bytes moved by the layout operators of a program, over its symbols.

    >>> from eqsat.ir.terms.term import sym
    >>> from eqsat.ir.tensors.tensor import input
    >>> x = input("x", (sym("N"), 4), "float32")
    >>> program_polynomial(Program([x], {"y": x.permute_dims((1, 0))}))
    32*N
    """
    moved = [(size, each) for _, cells, each in layout_cells(program) for size in cells]
    return t.linear(0, [(each, t.as_index(as_extent(size))) for size, each in moved])


def never_more(a: Term, b: Term) -> bool:
    """Whether a <= b is shown for all sizes in the ranges of the symbols; False also where it is not known.

    A size from `low` on is low + u, one between two bounds is (low + high * u) / (1 + u), each for some u >= 0; a
    polynomial in these without a negative coefficient is never negative.

    >>> from eqsat.ir.terms.term import sym
    >>> n, c = sym("N"), sym("C", upper=8)
    >>> never_more(n * 8, n * n * 8), never_more(n * c, n * 8), never_more(n * 64, n * n)
    (True, True, False)
    """
    if _sums_up(expanded(t.linear(0, [(1, b), (-1, a)]))):
        return True
    sp: Any = importlib.import_module("sympy")  # which takes a third of a second
    sizes: dict[Term, Any] = {}
    difference: Any = sp.expand(_as_sympy(b, sizes) - _as_sympy(a, sizes))
    left = difference.free_symbols
    bounds = [(name, *Bounds().of(size)) for size, name in sizes.items() if name in left]
    if all(c >= 0 for c in difference.as_coefficients_dict().values()) and all((low or 0) >= 0 for _, low, _ in bounds):
        return True
    if len(bounds) > MOST_SIZES:
        return False
    more: list[Any] = []
    for name, low, high in bounds:
        more.append(u := sp.Dummy())
        least = low or 0
        difference = difference.subs(name, least + u if high is None else (least + high * u) / (1 + u))
    above, below = sp.fraction(sp.together(difference))
    sign = below.subs(dict.fromkeys(more, 1))
    coefficients = sp.Poly(above, *more).coeffs() if more else [above]
    return all(c * sign >= 0 for c in coefficients)


def _sums_up(term: Term) -> bool:
    """Whether a term is a sum of products of sizes that are never negative; where sums are left as factors, no."""
    constant, parts = t.linear_parts(term)
    factors = dict.fromkeys(f for _, part in parts for f in (part.args if part.op == "prod" else (part,)))
    if constant < 0 or any(n < 0 for n, _ in parts) or any(f.op == "sum" for f in factors):
        return False
    return all((Bounds().of(f)[0] or 0) >= 0 for f in factors)


def _as_sympy(term: Term, sizes: dict[Term, Any]) -> Any:
    """A polynomial as sympy has it; what is neither a sum nor a product is a size of its own."""
    sp: Any = importlib.import_module("sympy")
    done: dict[Term, Any] = {}
    for x in postorder(term):
        if x.op == "sum":
            constant, parts = t.linear_parts(x)
            done[x] = constant + sum(c * done[a] for c, a in parts)
        elif x.op == "const":
            done[x] = sp.Integer(t.int_value(x))
        elif x.op == "prod":
            done[x] = sp.prod([done[a] for a in x.args])
        else:
            done[x] = sizes.setdefault(x, sp.Dummy())
    return done[term]


def size_notes(before: Program, after: Program | None = None) -> list[str]:
    """At which sizes the costs of a program were compared, where it has symbolic ones, and what holds at the others.

    >>> from eqsat.ir.terms.term import sym
    >>> from eqsat.ir.tensors.tensor import input
    >>> x = input("x", (sym("N"), sym("C", upper=8)), "float32")
    >>> turned, plain = (Program([x], {"y": y}) for y in (x.permute_dims((1, 0)), x))
    >>> size_notes(turned, plain)
    ['bytes are counted at N = 64, C = 8', 'bytes: 8*C*N before, 0 after, never more at other sizes']
    """
    dims = (d for node in before.all_nodes() for shape, _ in node.outputs for d in shape if isinstance(d, Term))
    names = symbol_names(symbols(*dims))
    if not names:
        return []
    counted = [f"bytes are counted at {_shown({s: symbol_sample(s) for s in names}, names)}"]
    if after is None:
        return counted
    old, new = program_polynomial(before), program_polynomial(after)
    if never_more(new, old):
        verdict = "never more at other sizes"
    else:
        worse = _worse(old, new)
        verdict = "perhaps more at other sizes" if worse is None else f"more at {_shown(worse, names)}"
    shown = [format_term(x, names=names) for x in (old, new)]
    return [*counted, f"bytes: {shown[0]} before, {shown[1]} after, {verdict}"]


def without_size_notes(notes: Iterable[str], before: Program, after: Program) -> list[str]:
    """Notes of a result that is not taken, without those that say how many bytes it moves at other sizes."""
    told = [] if after is before else size_notes(before, after)[1:]
    return [note for note in notes if note not in told]


def _worse(old: Term, new: Term) -> dict[Term, int] | None:
    """Sizes at which the second is more: all the least, or all the greatest, that are declared."""
    for wish in (0, FAR):
        at = {s: symbol_sample(s, wish) for s in symbols(old, new)}
        if sampled(as_size(new), at) > sampled(as_size(old), at):
            return at
    return None


def _shown(at: dict[Term, int], names: Any) -> str:
    shown = [f"{names[s]} = {value}" for s, value in at.items()]
    return ", ".join([*shown[:4], *([f"{len(shown) - 4} more"] if len(shown) > 4 else [])])

"""What users write (names, texts, ranges by name) as terms and boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name, parse_expr, symbol_names
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.proving.question import LEAVES, Box

Ranges = Mapping[str, Any]


def _leaves(*roots: Term) -> list[Term]:
    return [node for node in postorder(*roots) if node.op in LEAVES]


def read(exprs: Sequence[Any], ranges: Ranges | None) -> tuple[list[Term], Box]:
    """Terms from terms and strings, one leaf per name, and the box that the ranges give."""
    extents = [r for r in (ranges or {}).values() if isinstance(r, Term)]
    leaves = given = _leaves(*(e for e in exprs if isinstance(e, Term)), *extents)
    by_name: dict[str, Term] = {}
    # A leaf that knows its extent goes first. Symbols of one name stay apart; a plain variable is what has its name.
    shown = symbol_names(leaf for leaf in given if leaf.op == "sym")
    for leaf in sorted(given, key=lambda x: x.op == "var" and not x.args):
        by_name.setdefault(shown.get(leaf) or leaf_name(leaf), leaf)
    terms = [e if isinstance(e, Term) else parse_expr(e, by_name) for e in exprs]
    if not all(isinstance(e, Term) for e in exprs):
        leaves = _leaves(*terms, *extents)
    table: dict[Term, Term] = {}
    box: dict[Term, tuple[int | None, int | None]] = {}
    place = {name: k for k, name in enumerate(ranges or ())}
    named = [(shown.get(leaf) or leaf_name(leaf), leaf) for leaf in leaves]
    for name, leaf in sorted(named, key=lambda x: place.get(x[0], len(place))):
        first = by_name.setdefault(name, leaf)
        wanted = None if ranges is None else ranges.get(name)
        if isinstance(wanted, Term) and wanted.op != "const":
            table[leaf] = t.var(name, wanted)
            continue
        if leaf is not first:
            if wanted is None and leaf.args:
                raise EqsatError(f"proof about {terms[0]}", f"two different axes are called {name}", "rename one")
            table[leaf] = first
        if wanted is not None:
            box[first] = _range(name, wanted)
    return [substitute(e, table) for e in terms] if table else terms, box


def _range(name: str, wanted: Any) -> tuple[int | None, int | None]:
    if isinstance(wanted, Term):
        wanted = t.int_value(wanted)
    pair = cast("Sequence[Any]", wanted) if isinstance(wanted, (tuple, list)) else (0, wanted)
    try:
        start, stop = (None if bound is None else index(bound) for bound in pair)
    except (TypeError, ValueError) as error:
        problem = f"{wanted!r} is not an extent or a pair (start, stop)"
        raise EqsatError(f"range of {name}", problem, "for example 16, (4, 16) or (0, None)") from error
    return start, stop

"""What users write (names, texts, ranges by name) as terms and boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.given import told, whole
from eqsat.ir.terms import term as t
from eqsat.ir.terms.parse import parse_expr, parse_written
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name, symbol_names
from eqsat.ir.terms.walk import conjuncts, postorder, substitute
from eqsat.proving.question import LEAVES, Box, definedness, own_condition

Ranges = Mapping[str, Any]


def _leaves(*roots: Term) -> list[Term]:
    return [node for node in postorder(*roots) if node.op in LEAVES]


def read(exprs: Sequence[Any], ranges: Ranges | None) -> tuple[list[Term], Box]:
    """Terms from terms and strings, one leaf per name, and the box that the ranges give.

    A range that is empty is kept, whether or not its name occurs: there is no point then. EqsatError for ranges that
    are none.
    """
    terms, _, box = _read(exprs, ranges, written=False)
    return terms, box


def read_written(exprs: Sequence[Any], ranges: Ranges | None) -> tuple[list[Term], list[Term], Box]:
    """The same, and for each text what it asks as it is written beyond what the definedness of its term asks.

    >>> terms, asked, _ = read_written(["4//y - 4//y == 0", "4//y == 1"], None)
    >>> print(*terms, *asked)
    True 4 // y == 1 y != 0 True
    """
    terms, asked, box = _read(exprs, ranges, written=True)
    known = [set(conjuncts(d)) for d in definedness(terms)]
    return (
        terms,
        [t.logical_and(*(c for c in conjuncts(a) if c not in k)) for a, k in zip(asked, known, strict=True)],
        box,
    )


def _read(exprs: Sequence[Any], ranges: Ranges | None, written: bool) -> tuple[list[Term], list[Term], Box]:
    _check_kind(ranges)
    extents = [r for r in (ranges or {}).values() if isinstance(r, Term)]
    leaves = given = _leaves(*(e for e in exprs if isinstance(e, Term)), *extents)
    by_name: dict[str, Term] = {}
    # A leaf that knows its extent goes first. Symbols of one name stay apart; a plain variable is what has its name.
    shown = symbol_names(leaf for leaf in given if leaf.op == "sym")
    for leaf in sorted(given, key=lambda x: x.op == "var" and not x.args):
        by_name.setdefault(shown.get(leaf) or leaf_name(leaf), leaf)
    terms: list[Term] = []
    asked: list[Term] = []
    for e in exprs:
        if not isinstance(e, Term) and written:
            term, own = parse_written(e, by_name, lambda node: own_condition(node, {}))
        else:
            term, own = (e if isinstance(e, Term) else parse_expr(e, by_name)), t.TRUE
        terms.append(term)
        asked.append(own)
    if not all(isinstance(e, Term) for e in exprs):
        leaves = _leaves(*terms, *asked, *extents)
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
    _check_names(ranges or {}, by_name, {name for name, leaf in named if by_name[name] not in box and not leaf.args})
    for name, wanted in (ranges or {}).items():
        if name not in by_name and not (isinstance(wanted, Term) and wanted.op != "const"):
            start, stop = _range(name, wanted)
            if start is not None and stop is not None and start >= stop:
                box[t.var(name)] = (start, stop)
    return [substitute(e, table) for e in terms], [substitute(e, table) for e in asked], box


def _check_kind(ranges: Any) -> None:
    if ranges is None:
        return
    if not isinstance(ranges, Mapping):
        raise EqsatError("ranges", f"{told(ranges)} is no dict", "such as {'i': 16}")
    for name in cast("Mapping[Any, Any]", ranges):
        if not isinstance(name, str):
            raise EqsatError("ranges", f"{told(name)} is no name", "such as {'i': 16}")


def _check_names(ranges: Ranges, known: Mapping[str, Term], free: set[str]) -> None:
    """Raise for ranges of names that do not occur, where a name that occurs has no range, and either looks like one of
    these or no name is right: one is meant for another. Ranges of further names are nobody's mistake.

    A range that is empty leaves no point, whether or not its name occurs.
    """
    wrong = not any(name in known for name in ranges)
    for name, wanted in ranges.items():
        close = get_close_matches(name, free, 1, 0.0 if wrong else 0.5)
        if name in known or not close or isinstance(wanted, Term):
            continue
        start, stop = _range(name, wanted)
        if start is None or stop is None or start < stop:
            raise EqsatError(f"range of {name!r}", "the name does not occur", f"perhaps {close[0]!r} was meant")


def _range(name: str, wanted: Any) -> tuple[int | None, int | None]:
    if isinstance(wanted, Term):
        wanted = t.int_value(wanted)
    pair = cast("Sequence[Any]", wanted) if isinstance(wanted, (tuple, list)) else (0, wanted)
    try:
        start, stop = (None if bound is None else whole(bound, name) for bound in pair)
    except (EqsatError, ValueError) as error:
        problem = f"{wanted!r} is not an extent or a pair (start, stop)"
        raise EqsatError(f"range of {name}", problem, "for example 16, (4, 16) or (0, None)") from error
    return start, stop

"""Bounds of index terms over boxes whose extents may be symbols, and from them the declared extent of a map's outputs.

A bound is a term over the symbols. `x % c` counts as its whole range [0, c), whatever its image: a digit declares its
radix. Where a variable occurs both inside of such a digit and elsewhere, the true maximum over the box decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.ranges.intervals import operation_span
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, transform


@dataclass(frozen=True, eq=False)
class Bound:
    """low <= value <= high; `exact` where both ends are reached.

    `visible` and `hidden` are the variables that occur outside and inside of digits.
    """

    low: Term
    high: Term
    exact: bool = True
    visible: frozenset[Term] = frozenset()
    hidden: frozenset[Term] = frozenset()


# -- sizes: terms over symbols ----------------------------------------------------------------------------------------


def _without_floor(term: Term) -> Term:
    """A lower bound of a sum in which x // c became linear: c*(x // c) lies in [x - c + 1, x]."""
    for _ in range(8):
        constant, parts = t.linear_parts(term)
        changed = False
        result = t.index_const(constant)
        for c, node in parts:
            divisor = t.int_value(node.args[1]) if node.op == "floordiv" else None
            if divisor is not None and divisor > 0 and c % divisor == 0:
                k = c // divisor
                result = result + node.args[0] * k - (k * (divisor - 1) if k > 0 else 0)
                changed = True
            else:
                result = result + node * c
        if not changed:
            return term
        term = result
    return term


def at_least(term: Term, least: int = 0) -> bool:
    """Whether a term over symbols is certainly >= least (false: not shown).

    >>> n = t.sym("N")
    >>> at_least(4 * ((n + 3) // 4) - n), at_least(n - 2)
    (True, False)
    """
    number = t.int_value(term)
    if number is not None:
        return number >= least
    limits = Bounds()
    return limits.span(term)[0] >= least or limits.span(_without_floor(term))[0] >= least


def exact_quotient(a: Term, b: Term) -> Term | None:
    """a / b where b divides a as they are written, else None.

    >>> n = t.sym("N")
    >>> str(exact_quotient(12 * n, 4 * n))
    '3'
    """
    constant, parts = t.linear_parts(a)
    factor, factors = _monomial(b)
    if factor == 0 or constant % factor or (constant and factors):
        return None
    result = t.index_const(constant // factor)
    for c, node in parts:
        rest = list(node.args) if node.op == "prod" else [node]
        for f in factors:
            found = next((k for k, r in enumerate(rest) if r is f), None)
            if found is None:
                return None
            rest.pop(found)
        if c % factor:
            return None
        result = result + t.product([t.index_const(c // factor), *rest])
    return result


def _monomial(term: Term) -> tuple[int, list[Term]]:
    constant, parts = t.linear_parts(term)
    if not parts:
        return constant, []
    if constant or len(parts) != 1:
        return 1, [term]
    c, node = parts[0]
    return c, list(node.args) if node.op == "prod" else [node]


def floor_div(a: Term, d: Term) -> Term:
    """a // d for a divisor that is certainly positive, with the multiples of d taken out of the floor."""
    if t.is_const(d, 1):
        return a
    constant, parts = t.linear_parts(a)
    outside, inside = t.index_const(0), t.index_const(0)
    for c, node in parts:
        whole = node * c
        quotient = exact_quotient(whole, d)
        if quotient is not None:
            outside = outside + quotient
        elif (n := t.int_value(d)) is not None and node.op == "sym" and c * t.symbol_facts(node).multiple_of % n == 0:
            outside = outside + t.binary("floordiv", whole, d)
        else:
            inside = inside + whole
    if t.int_value(inside) is None or t.int_value(d) is not None:
        return outside + t.binary("floordiv", inside + constant, d)
    if constant >= 0 and at_least(d - constant, 1):
        return outside
    if constant < 0 and at_least(d + constant, 0):
        return outside - 1
    return outside + t.binary("floordiv", t.index_const(constant), d)


def modulo(a: Term, d: Term) -> Term:
    """a % d for a divisor that is certainly positive, without the multiples of d.

    >>> i, j = t.var("i"), t.var("j")
    >>> str(modulo(16 * i + j, t.index_const(8)))
    'j % 8'
    """
    constant, parts = t.linear_parts(a)
    kept = [(c, node) for c, node in parts if exact_quotient(node * c, d) is None]
    number = t.int_value(d)
    return t.binary("mod", t.linear(constant % number if number else constant, kept), d)


def ceil_div(a: Term, d: Term) -> Term:
    """The number of blocks of d that a cells need.

    >>> str(ceil_div(t.sym("N"), t.index_const(4))), str(ceil_div(t.sym("N", multiple_of=4), t.index_const(4)))
    ('(N + 3) // 4', 'N // 4')
    """
    return tidy_extent(floor_div(a - 1, d) + 1)


def tidy_extent(term: Term) -> Term:
    """x // c + k as (x + k*c) // c: how shapes are usually written."""
    constant, parts = t.linear_parts(term)
    if constant and len(parts) == 1 and parts[0][0] == 1 and parts[0][1].op == "floordiv":
        inner, divisor = parts[0][1].args
        return t.binary("floordiv", inner + divisor * constant, divisor)
    return term


# -- terms over variables ---------------------------------------------------------------------------------------------


def merged(term: Term) -> Term:
    """The term with split digits put together again: c*(x // c) + x % c is x, also under a common factor.

    >>> i = t.var("i")
    >>> str(merged(i // 4 * 4 + i % 4)), str(merged(i // 4 % 4 * 8 + i % 4 * 2))
    ('i', 'i % 16 * 2')
    """

    def change(node: Term) -> Term | None:
        result = node
        while result.op == "sum":
            step = _merge_once(result)
            if step is None:
                break
            result = step
        return result

    return transform(term, change)


def _merge_once(node: Term) -> Term | None:
    constant, parts = t.linear_parts(node)
    coefficient = {p: c for c, p in parts}
    for c, low in parts:
        if low.op != "mod" or (radix := t.int_value(low.args[1])) is None or radix <= 0:
            continue
        x = low.args[0]
        quotient = floor_div(x, low.args[1])
        for d, high in parts:
            if d != c * radix or high is low:
                continue
            whole: Term | None = None
            if high is quotient:
                whole = x
            elif high.op == "mod" and high.args[0] is quotient:
                m = t.int_value(high.args[1])
                whole = x % (radix * m) if m is not None and m > 0 else None
            if whole is not None:
                rest = [(k, p) for p, k in coefficient.items() if p is not low and p is not high]
                return t.linear(constant, [*rest, (c, whole)])
    return None


def bounds(term: Term, box: Mapping[Term, tuple[Term, Term]]) -> Bound | None:
    """Bounds of a term over a box of inclusive ranges; None where no bound is known."""
    done: dict[Term, Bound | None] = {}
    for node in postorder(term):
        if node in box:
            done[node] = Bound(*box[node], visible=frozenset([node]))
        elif node.op in ("const", "sym"):
            done[node] = Bound(node, node)
        else:
            args = [done[a] for a in node.args]
            known = [a for a in args if a is not None]
            done[node] = _bound(node, known) if len(known) == len(args) and args else None
    return done[term]


def _joined(low: Term, high: Term, args: list[Bound], exact: bool = True) -> Bound:
    """A bound made of those of the arguments: exact where these are and share no variable outside of digits."""
    visible = frozenset[Term]().union(*(a.visible for a in args))
    hidden = frozenset[Term]().union(*(a.hidden for a in args))
    apart = len(visible) == sum(len(a.visible) for a in args)
    return Bound(low, high, exact and apart and all(a.exact for a in args), visible, hidden)


def _bound(node: Term, args: list[Bound]) -> Bound | None:
    op = node.op
    if op == "sum":
        low = high = t.index_const(node.payload[0])
        for c, a in zip(node.payload[1], args, strict=True):
            low, high = low + (a.low if c > 0 else a.high) * c, high + (a.high if c > 0 else a.low) * c
        return _joined(low, high, args)
    if op == "prod":
        return _product_bound(args)
    if op in ("floordiv", "mod"):
        x, d = args
        if d.low is not d.high or not at_least(d.low, 1):
            return None
        if op == "floordiv":
            return _joined(floor_div(x.low, d.low), floor_div(x.high, d.low), args)
        return Bound(t.index_const(0), d.low - 1, True, frozenset(), x.visible | x.hidden)
    if op == "load":
        source = node.payload
        if isinstance(source, Table) and source.array.size:
            ends = t.index_const(int(source.array.min())), t.index_const(int(source.array.max()))
            return _joined(*ends, args, exact=False)
        return None
    if op == "where":
        return _union(args[1:], args) if args[0] else None
    return _numeric_bound(op, node, args)


def _product_bound(args: list[Bound]) -> Bound | None:
    low, high = args[0].low, args[0].high
    for a in args[1:]:
        ends = [t.distributed(x, y) for x in (low, high) for y in (a.low, a.high)]
        values = [t.int_value(e) for e in ends]
        numbers = [v for v in values if v is not None]
        if len(numbers) == len(ends):
            low, high = t.index_const(min(numbers)), t.index_const(max(numbers))
        elif at_least(low) and at_least(a.low):
            low, high = ends[0], ends[3]
        elif a.low is a.high and at_least(a.low):
            low, high = ends[0], ends[2]
        else:
            return None
    return _joined(low, high, args)


def _union(parts: list[Bound], args: list[Bound]) -> Bound | None:
    lows, highs = [t.int_value(p.low) for p in parts], [t.int_value(p.high) for p in parts]
    low, high = [x for x in lows if x is not None], [x for x in highs if x is not None]
    if len(low) < len(parts) or len(high) < len(parts):
        return None
    return _joined(t.index_const(min(low)), t.index_const(max(high)), args, exact=False)


def _numeric_bound(op: str, node: Term, args: list[Bound]) -> Bound | None:
    """min, max, abs, truncating division, bit operations and conditions, where all bounds are numbers. The ends are
    reached where the operation has them at ends of its operands."""
    if node.dtype == "bool":
        # A condition has no bound; it only passes its variables on.
        return _joined(t.index_const(0), t.index_const(1), args, exact=False)
    ends = [(t.int_value(a.low), t.int_value(a.high)) for a in args]
    spans = [(a, b) for a, b in ends if a is not None and b is not None]
    if len(spans) < len(ends) or op not in _NUMERIC or (op in _BY_NUMBER and not _is_number(spans[1], _BY_NUMBER[op])):
        return None
    low, high = operation_span(node, spans)
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    corners = [abs(at[0]) if op == "abs" else t.fold_index(op, *at) for at in product(*spans)]
    return _joined(t.index_const(low), t.index_const(high), args, low in corners and high in corners)


_BY_NUMBER = {"truncdiv": 1, "truncmod": 1, "shl": 0, "shr": 0}
"""Operations with a number, and the least with which they are defined."""
_NUMERIC = frozenset(("min", "max", "abs", "bitand", "bitor", "bitxor", *_BY_NUMBER))


def _is_number(span: tuple[int, int], least: int) -> bool:
    return span[0] == span[1] >= least

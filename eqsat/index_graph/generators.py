"""Equalities that no rule finds, proposed where the equations of a map lead no further.

Each follows from several equations at once, or from arithmetic on numbers: linear elimination (over the fractions, or
modulo a number), rows over bits, the inverse of an odd factor modulo a power of two, the inverse of a table.
"""

from __future__ import annotations

from itertools import combinations
from math import gcd

import numpy as np

from eqsat.graph.egglog_adapter import Call
from eqsat.index_graph.bits import WIDEST_BITS, solve_bits
from eqsat.index_graph.equations import MOST_FORMS, Equations
from eqsat.index_graph.extract import Extractor
from eqsat.index_graph.linear import eliminate
from eqsat.index_graph.sums import Class, Linear, axpy
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables

LARGEST_TABLE = 1 << 22
MOST_PAIRS = 64
_OF_BITS = frozenset(("BXor", "BOr", "BAnd"))


def propose(equations: Equations) -> int:
    """Ask the generators, one after the other, until one makes a change; the number of changes."""
    for generator in (elimination, products, tables, rows_of_bits):
        generator(equations)
        changed = equations.say()
        if changed:
            return changed
    return 0


# -- linear systems ----------------------------------------------------------------------------------------------------


def elimination(equations: Equations) -> None:
    """What several sums with more than one unknown each determine together."""
    systems: dict[int, list[Linear]] = {}
    for v, forms in equations.sums.forms_of.items():
        sides = [equations.sums.form(f) for f in forms[:MOST_FORMS]]
        if v in equations.sums.atoms and equations.is_known(v):
            sides.append((0, {v: 1}))
        systems.setdefault(0, []).extend(axpy((a[0], dict(a[1])), -1, b) for a, b in combinations(sides, 2))
    for v, x, n in equations.by_numbers("Mod"):
        if equations.is_known(v):
            for f in equations.sums.forms_of.get(x, ())[:MOST_FORMS]:
                constant, table = equations.sums.form(f)
                systems.setdefault(n, []).append(axpy((constant, dict(table)), -1, (0, {v: 1})))
    moduli = {gcd(a, b) for a in systems for b in systems} - {1}
    for n in sorted(moduli, reverse=True):
        parts = [equations.apart(d) for m, system in systems.items() if m % (n or 1) == 0 for d in system if n or not m]
        rows = [{x: k % n if n else k for x, k in unknown.items() if not n or k % n} for unknown, _ in parts]
        left = [k for k, row in enumerate(rows) if row]
        for factor, node, multiples in eliminate([rows[k] for k in left], n):
            total: Linear = (0, {})
            for row, k in multiples:
                total = axpy(total, -k, parts[left[row]][1])
            solved(equations, node, factor, total, n)


def solved(equations: Equations, node: Class, factor: int, total: Linear, modulus: int) -> None:
    """State that factor * node = total, modulo a number if there is one."""
    place = equations.sums.place(total)
    if place is None:
        return
    whole = equations.sums.name(node)
    if modulus:
        scaled = whole if factor == 1 else Call("Scale", (factor, whole))
        equations.unions.append((equations.divided(scaled, modulus, "Mod"), equations.divided(place, modulus, "Mod")))
    else:
        equations.unions.append((whole, place if factor == 1 else equations.divided(place, factor)))


# -- products and tables -----------------------------------------------------------------------------------------------


def products(equations: Equations) -> None:
    """A known product by a factor that is at least 1, or modulo a power of two by an odd one."""
    for r in equations.rows["Mul"]:
        for x, y in (r.args, r.args[::-1]):
            if equations.is_known(x) or not equations.is_known(y):
                continue
            name = equations.sums.name
            if equations.is_known(r.output) and equations.sums.low.get(y, 0) >= 1:
                equations.unions.append((name(x), Call("Div", (name(r.output), name(y)))))
            factor = equations.known.term(y)
            if not _is_odd(factor):
                continue
            for v, product, n in equations.by_numbers("Mod"):
                if product == r.output and equations.is_known(v) and n & (n - 1) == 0:
                    found = t.product([equations.known.term(v), _inverse(factor, n)]) % n
                    equations.unions.append((equations.divided(name(x), n, "Mod"), equations.load(found)))


def _is_odd(x: Term) -> bool:
    constant, parts = t.linear_parts(x)
    return constant % 2 == 1 and all(c % 2 == 0 for c, _ in parts)


def _inverse(odd: Term, modulus: int) -> Term:
    """The inverse of an odd term modulo a power of two, by Newton's steps."""
    inverse, correct = odd % modulus, 8  # an odd number is its own inverse modulo 8
    while correct < modulus:
        inverse = t.product([inverse, (2 - t.product([odd % modulus, inverse])) % modulus]) % modulus
        correct *= correct
    return inverse


def tables(equations: Equations) -> None:
    """From table[x] = v, with v known, x by the table of the inverse."""
    operations = {number: node for number, node in equations.graph.loader.operation.values()}
    for r in equations.rows["Op1"]:
        node, x = operations.get(r.args[0]), r.args[1]
        if node is None or node.op != "load" or not equations.is_known(r.output) or equations.is_known(x):
            continue
        low, high = equations.sums.low.get(x), equations.sums.high.get(x)
        if isinstance(node.payload, Table) and low is not None and high is not None:
            back = inverted(node.payload, equations.known.term(r.output), low, high)
            if back is not None:
                equations.unions.append((equations.sums.name(x), equations.load(back)))


def inverted(table: Table, value: Term, low: int, high: int) -> Term | None:
    """The index in [low, high] at which a table holds a value, where the values differ there."""
    if low < 0 or high >= len(table.array):
        return None
    used = table.array[low : high + 1]
    first, last = int(used.min()), int(used.max())
    if last - first >= LARGEST_TABLE or len(np.unique(used)) < len(used):
        return None
    back = np.full(last - first + 1, low, np.int64)
    back[used - first] = np.arange(low, high + 1)
    return table_load(back, t.binary("min", t.binary("max", value - first, 0), last - first))


# -- bits --------------------------------------------------------------------------------------------------------------


def rows_of_bits(equations: Equations) -> None:
    """What the bits of known terms over the inputs determine: of operations on bits, else of all that is known."""
    inputs = frozenset(equations.graph.loader.leaf) - equations.names
    over = Extractor(equations.graph.read(), equations.graph.forms, equations.graph.loader, inputs)
    bitwise: list[tuple[Term, Term]] = []
    others: list[tuple[Term, Term]] = []
    for node in over.nodes:
        if not node.children or not equations.is_known(node.output) or not over.reachable(node):
            continue
        if node.function in _OF_BITS:
            bitwise.append((over.read(node), equations.known.term(node.output)))
        elif over.best[node.output][1] is node:
            others.append((over.read(node), equations.known.term(node.output)))
    facts = equations.graph.loader.places.top.facts

    def width(x: Term) -> int | None:
        low, high = facts.of(x)
        return None if low is None or high is None or low < 0 else min(high.bit_length(), WIDEST_BITS)

    def unknown(x: Term) -> bool:
        return any(v in inputs for v in free_variables(x))

    for pairs in (bitwise, [*bitwise, *others]):
        found = solve_bits(pairs[:MOST_PAIRS], unknown, width)
        for atom, value in found.items():
            equations.unions.append((equations.load(atom), equations.load(value)))
        if found:
            return

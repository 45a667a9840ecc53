"""What is known about the terms of an index map while its equations are solved: windows, residues, values.

A window says that a term lies in [low, low + extent), low a term over the outputs; a residue gives its remainder modulo
a number. A window that is no wider than a known modulus gives the value; residues are joined by the Chinese remainder
theorem; what is known of x // a says something about x // (a*b), and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np

from eqsat.ir import term as t
from eqsat.ir.bounds import Bounds
from eqsat.ir.map_algebra import canonical_mod, coprime_split, exact_div
from eqsat.ir.map_bounds import exact_quotient, merged
from eqsat.ir.tables import Table, table_load
from eqsat.ir.term import Term
from eqsat.ir.walk import leaves, postorder, substitute, transform

LARGEST_TABLE = 1 << 22
LARGEST_MODULUS = 1 << 40  # greater ones would overflow 64 bits when residues are joined


@dataclass(frozen=True, eq=False)
class Window:
    """low <= x < low + extent."""

    low: Term
    extent: int


@dataclass(frozen=True, eq=False)
class Residue:
    """x = value (mod modulus)."""

    modulus: int
    value: Term


@dataclass(frozen=True, eq=False)
class Constraint:
    """low <= term < low + extent; with a modulus: term = low (mod modulus)."""

    term: Term
    low: Term
    extent: int = 1
    modulus: int = 0


def _bare(node: Term) -> tuple[int, Term]:
    """A term as a number and the rest."""
    constant = node.payload[0] if node.op == "sum" else 0
    return constant, node - constant if constant else node


class Facts:
    """What constraints say about inputs within half-open ranges; `cells` are the ranges of the outputs' variables.

    `ranges` may hold ranges of other terms over the inputs as well; an input or output of symbolic extent has none.
    """

    def __init__(
        self,
        inputs: Sequence[Term],
        ranges: Mapping[Term, tuple[int, int]],
        cells: Mapping[Term, tuple[int, int]],
        constraints: Sequence[Constraint],
    ) -> None:
        self.inputs = list(inputs)
        self.inside = Bounds({**ranges, **cells})
        self.outside = Bounds(cells)
        self.pending: list[Constraint] = list(constraints)
        single = {x: t.index_const(a) for x, (a, b) in ranges.items() if b - a == 1}
        self.known: dict[Term, Term] = {v: single[v] for v in self.inputs if v in single}
        self.pending += [Constraint(x, value) for x, value in single.items() if x not in self.known]
        self.windows: dict[Term, Window] = {}
        self.residues: dict[Term, Residue] = {}
        self.pool: list[tuple[Term, Term]] = []
        self.changes = 0
        self._inputs = set(self.inputs)
        self._digits = bool(leaves("floordiv", *(c.term for c in constraints)))
        self._opaque: dict[Term, bool] = {}

    def push(self, c: Constraint) -> None:
        self.pending.append(c)
        self.changes += 1

    # -- values over the outputs --------------------------------------------------------------------------------------

    def mod(self, value: Term, modulus: int) -> Term:
        return canonical_mod(value, modulus, self.outside)

    def div(self, value: Term, divisor: int) -> Term:
        return exact_div(value, divisor, self.outside)

    # -- reading ------------------------------------------------------------------------------------------------------

    def unknown(self, term: Term) -> bool:
        """Whether an input that is not solved occurs."""
        for node in postorder(term, done=self._opaque):
            self._opaque[node] = node in self._inputs or any(self._opaque[a] for a in node.args)
        return self._opaque[term]

    def reduce(self, term: Term) -> Term:
        """The term with everything known replaced."""
        term = substitute(term, self.known)
        if not self.residues:
            return term

        def change(node: Term) -> Term | None:
            if node in self.known:
                return self.known[node]
            if node.op != "mod" or (m := t.int_value(node.args[1])) is None or m <= 0:
                return None
            found = self.residues.get(node.args[0])
            return self.mod(found.value, m) if found is not None and found.modulus % m == 0 else None

        return transform(term, change)

    def split(self, term: Term) -> tuple[Term, list[tuple[int, Term]]]:
        """A sum as its known part and the summands that are not."""
        constant, parts = t.linear_parts(self.reduce(term))
        known, rest = t.index_const(constant), list[tuple[int, Term]]()
        for c, node in parts:
            if self.unknown(node):
                rest.append((c, node))
            else:
                known = known + node * c
        return known, rest

    def window(self, node: Term) -> Window | None:
        """The narrowest range known for a node."""
        low, high = self.inside.of(node)
        found = self.windows.get(node)
        if low is None or high is None:
            return found
        if found is None or found.extent >= high - low + 1:
            return Window(t.index_const(low), high - low + 1)
        return found

    # -- facts --------------------------------------------------------------------------------------------------------

    def value_of(self, node: Term) -> Term | None:
        """The known value of a node or a sum."""
        if node in self.known:
            return self.known[node]
        constant, bare = _bare(node)
        found = self.windows.get(bare)
        return found.low + constant if found is not None and found.extent == 1 else self.known.get(bare)

    def window_of(self, node: Term) -> Window | None:
        constant, bare = _bare(node)
        found = self.windows.get(bare)
        return None if found is None else Window(found.low + constant, found.extent)

    def residue_of(self, node: Term) -> Residue | None:
        constant, bare = _bare(node)
        found = self.residues.get(bare)
        return None if found is None else Residue(found.modulus, found.value + constant)

    def learn_window(self, node: Term, low: Term, extent: int) -> bool:
        constant, node = _bare(node)
        low = low - constant
        if extent == 1:
            self.solve_node(node, low)
            return True
        have = self.window(node)
        if have is None or extent < have.extent:
            self.windows[node] = Window(low, extent)
            self.changes += 1
            if node.op == "sum":
                self.push(Constraint(node, low, extent))
            self.finish(node)
        return node in self._inputs

    def learn_residue(self, node: Term, modulus: int, value: Term, pending: bool = False) -> None:
        """node = value (mod modulus); `pending`: a constraint says so already."""
        constant, node = _bare(node)
        value = value - constant
        have, given = self.residues.get(node), modulus
        if have is not None:
            if have.modulus % modulus == 0:
                return
            if modulus % have.modulus:
                whole = lcm(have.modulus, modulus)
                if whole > LARGEST_MODULUS:
                    return
                a, b = coprime_split(have.modulus, modulus)
                first, second = whole // a * pow(whole // a, -1, a), whole // b * pow(whole // b, -1, b)
                modulus, value = whole, have.value * (first % whole) + value * (second % whole)
        self.residues[node] = Residue(modulus, value)
        self.changes += 1
        if node.op == "sum" and not (pending and modulus == given):
            self.push(Constraint(node, value, modulus=modulus))
        self.finish(node)

    def finish(self, node: Term) -> None:
        """A node known modulo a number that is no smaller than its window is known."""
        residue, window = self.residues.get(node), self.window(node)
        if residue is None or window is None or window.extent > residue.modulus or window.extent == 1:
            return
        self.solve_node(node, window.low + self.mod(residue.value - window.low, residue.modulus))

    def solve_node(self, node: Term, value: Term) -> None:
        """Note the value of a node, and what it says about the nodes inside."""
        constant, node = _bare(node)
        if self.value_of(node) is not None:
            return
        value = merged(value - constant)
        self.changes += 1
        if node.op == "sum":
            self.windows[node] = Window(value, 1)
            self.push(Constraint(node, value))
            return
        self.known[node] = value
        if node in self._inputs:
            return
        number = t.int_value(node.args[1]) if len(node.args) == 2 else None
        if node.op == "floordiv" and number is not None and number > 0:
            self.push(Constraint(node.args[0], value * number, number))
        elif node.op == "mod" and number is not None and number > 0:
            self.push(Constraint(node.args[0], value, modulus=number))
        elif node.op == "load" and isinstance(node.payload, Table):
            self.invert_table(node.payload, node.args[0], value)
        else:
            self.pool.append((node, value))

    def invert_table(self, source: Table, index: Term, value: Term) -> None:
        """From table[index] = value, the index by the table of the inverse."""
        low, high = self.inside.of(index)
        if low is None or high is None or low < 0 or high >= len(source.array):
            return
        used = source.array[low : high + 1]
        first, last = int(used.min()), int(used.max())
        if last - first >= LARGEST_TABLE or len(np.unique(used)) < len(used):
            return
        back = np.full(last - first + 1, low, np.int64)
        back[used - first] = np.arange(low, high + 1)
        at = value - first
        least, most = self.outside.of(at)
        if least is None or least < 0:
            at = t.binary("max", at, 0)
        if most is None or most > last - first:
            at = t.binary("min", at, last - first)
        self.push(Constraint(index, table_load(back, at)))

    def revisit(self) -> None:
        """Nodes of known value that are not solved for what is inside: a ^ b with one side known, products."""
        pool, self.pool = self.pool, []
        for node, value in pool:
            args = [self.reduce(a) for a in node.args]
            unknown = [a for a in args if self.unknown(a)]
            if not unknown:
                continue
            if node.op == "bitxor" and len(unknown) == 1:
                other = args[1] if unknown[0] is args[0] else args[0]
                self.push(Constraint(unknown[0], t.binary("bitxor", value, other)))
                continue
            if node.op == "prod" and len(unknown) == 1:
                other = t.product([a for a in args if a is not unknown[0]])
                least = self.outside.of(other)[0]
                if least is not None and least >= 1:
                    self.push(Constraint(unknown[0], t.binary("floordiv", value, other)))
                    continue
            self.pool.append((node, value))

    # -- digits of one source -----------------------------------------------------------------------------------------

    def quotients(self) -> dict[Term, dict[int, Term]]:
        """The quotients x // a that occur, by x and a."""
        roots = [self.reduce(c.term) for c in self.pending]
        found: dict[Term, dict[int, Term]] = {}
        for node in postorder(*roots, *self.windows, *self.residues, *self.known):
            if node.op == "floordiv" and (a := t.int_value(node.args[1])) is not None and a > 0:
                found.setdefault(node.args[0], {1: node.args[0]})[a] = node
        return found

    def link(self) -> None:
        """What is known of x // a says something about x // (a*b), and the other way round."""
        for chain in self.quotients().values():
            weights = sorted(chain)
            for n, c in enumerate(weights):
                for a in weights[:n]:
                    if c % a == 0 and (self.value_of(chain[a]) is None or self.value_of(chain[c]) is None):
                        self.link_pair(chain[a], chain[c], c // a)

    def link_pair(self, base: Term, quotient: Term, ratio: int) -> None:
        exact, above = self.value_of(base), self.value_of(quotient)
        if exact is not None:
            self.solve_node(quotient, self.div(exact, ratio))
            return
        if above is not None:
            self.learn_window(base, above * ratio, ratio)
            return
        low, high = self.residue_of(base), self.residue_of(quotient)
        if low is not None and low.modulus % ratio == 0:
            if low.modulus > ratio:
                self.learn_residue(quotient, low.modulus // ratio, self.div(self.mod(low.value, low.modulus), ratio))
            if high is not None and low.modulus % (ratio * high.modulus):
                digit = self.mod(high.value, high.modulus)
                self.learn_residue(base, ratio * high.modulus, self.mod(low.value, ratio) + digit * ratio)
        wide = self.window_of(quotient)
        if wide is not None:
            self.learn_window(base, wide.low * ratio, wide.extent * ratio)
        wide = self.window_of(base)
        if wide is not None:
            aligned = exact_quotient(wide.low, t.index_const(ratio)) is not None
            count = -(-wide.extent // ratio) if aligned else (wide.extent + ratio - 2) // ratio + 1
            self.learn_window(quotient, self.div(wide.low, ratio), count)

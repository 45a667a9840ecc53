"""The digit analysis of index terms: exact ranges, and the affine form a term has on the box of its axes.

Every axis term carries its extent, so `0 <= axis < extent` is known; nothing else is assumed. `Folder.fold` answers an
equal term in which divisions, remainders, comparisons, minima and maxima that the box decides are gone. It is an
analysis by intervals and divisibility of sums, not a search: what it cannot decide stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from eqsat.ir.dtypes import INDEX, NDArray, is_int
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term, int_value, linear, linear_parts, rebuild
from eqsat.ir.terms.walk import postorder

Range = tuple[int, int]
INDEX_LIMIT = 1 << 40
"""A 64-bit number from data that is used as an index saturates here, beyond every buffer: sums cannot overflow."""


class Folder:
    """Ranges and folded forms of terms, remembered for the time one kernel is built."""

    def __init__(self, tables: Mapping[str, NDArray] | None = None) -> None:
        self.tables = dict(tables or {})
        """The contents of index tables, and of integer constants that become an index, by the name in loads."""
        self._facts: dict[Term, Range] = {}
        self._bounds = Bounds()
        self._seen: dict[Term, None] = {}
        self._folded: dict[Term, Term] = {}

    def range(self, term: Term) -> Range | None:
        """The least and greatest value of an index term; None where no bound is known."""
        told = len(self._facts)
        for node in postorder(term, done=self._seen):
            self._seen[node] = None
            known = self._contents(node)
            if known is not None:
                self._facts[node] = (int(known.min(initial=0)), int(known.max(initial=0)) + 1)
            elif node.dtype == INDEX and node.op == "cast" and node.args[0].dtype in ("int64", "uint64"):
                self._facts[node] = (0 if node.args[0].dtype == "uint64" else -INDEX_LIMIT, INDEX_LIMIT + 1)
        if len(self._facts) > told:
            self._bounds = Bounds(self._facts)
        low, high = self._bounds.of(term)
        return None if low is None or high is None else (low, high)

    def _contents(self, node: Term) -> NDArray | None:
        """What an index term reads, where that is a constant: a load of a table, or a cast load of integers."""
        if node.dtype != INDEX:
            return None
        source = node.args[0] if node.op == "cast" and is_int(node.args[0].dtype) else node
        known = source.op == "load" and isinstance(source.payload, str)
        return self.tables.get(source.payload) if known else None

    # -- folding

    def fold(self, term: Term) -> Term:
        """An equal term (for all positions of the axes), with what the box decides folded away."""
        done = self._folded
        stack: list[tuple[Term, bool]] = [(term, False)]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if not ready and node.args:
                stack.append((node, True))
                stack.extend((a, False) for a in node.args if a not in done)
                continue
            args = [done[a] for a in node.args]
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            done[node] = self._step(node if same else rebuild(node, args))
        return done[term]

    def fold_all(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        """Several terms folded."""
        return tuple(self.fold(x) for x in terms)

    def _step(self, node: Term) -> Term:
        op = node.op
        if op in t.COMPARE and node.args[0].dtype == INDEX:
            return self._compare(node)
        if node.dtype != INDEX:
            return node
        if op == "sum":
            return self._join(node)
        if op == "load" and isinstance(node.payload, Table):
            at, array = int_value(node.args[0]), node.payload.array
            return node if at is None or not 0 <= at < array.size else t.index_const(int(array[at]))
        if op == "abs":
            low, high = self.range(node.args[0]) or (-1, 1)
            return node.args[0] if low >= 0 else t.neg(node.args[0]) if high <= 0 else node
        if len(node.args) != 2:
            return node
        a, b = node.args
        if op in ("min", "max"):
            low, high = self.range(a - b) or (-1, 1)
            if low >= 0 or high <= 0:
                return a if (low >= 0) == (op == "max") else b
            return node
        number = int_value(b)
        if number is None or number <= 0:
            return node
        if op in ("truncdiv", "truncmod") and (self.range(a) or (-1, 0))[0] >= 0:
            op = "floordiv" if op == "truncdiv" else "mod"
        if op == "floordiv":
            return self.div(a, number)
        return self.mod(a, number) if op == "mod" else node

    def _split(self, x: Term, c: int) -> tuple[int, list[tuple[int, Term]], Term]:
        """x = c * (constant + parts) + rest, the rest without a multiple of c among its summands."""
        constant, parts = linear_parts(x)
        whole = [(k // c, u) for k, u in parts if k % c == 0]
        return constant // c, whole, linear(constant % c, [(k, u) for k, u in parts if k % c])

    def _block(self, x: Term, c: int) -> int | None:
        """x // c where that is one number on the whole box."""
        known = self.range(x)
        return known[0] // c if known is not None and known[0] // c == known[1] // c else None

    def _coarse(self, x: Term, c: int) -> tuple[int, Term, Term] | None:
        """x = unit * high + low with 0 <= low < unit on the box, for the largest such divisor unit > 1 of c."""
        constant, parts = linear_parts(x)
        for unit in sorted({gcd(c, k) for k, _ in parts} - {1, c}, reverse=True):
            low = linear(constant % unit, [(k, u) for k, u in parts if k % unit])
            block = self._block(low, unit)
            if block is not None:
                high = linear(constant // unit + block, [(k // unit, u) for k, u in parts if k % unit == 0])
                return unit, high, low - block * unit
        return None

    def div(self, x: Term, c: int) -> Term:
        """x // c for a positive number c.

        >>> i, j = t.ax(0, 8), t.ax(1, 16)
        >>> print(Folder().div(16 * i + j + 32, 16))
        i0 + 2
        """
        if c == 1:
            return x
        constant, whole, rest = self._split(x, c)
        block = self._block(rest, c)
        if block is not None:
            return linear(constant + block, whole)
        r0, parts = linear_parts(rest)
        low = linear(r0, [(k % c, u) for k, u in parts])
        block = self._block(low, c)
        if block is not None:
            return linear(constant + block, [*whole, *((k // c, u) for k, u in parts)])
        coarse = self._coarse(rest, c)
        if coarse is not None:
            unit, high, _ = coarse
            return linear(constant, [*whole, (1, self.div(high, c // unit))])
        if len(parts) == 1 and parts[0][0] == 1:
            nested = self._div_of(parts[0][1], r0, c)
            if nested is not None:
                return linear(constant, [*whole, (1, nested)])
        return linear(constant, [*whole, (1, t.make("floordiv", (rest, t.index_const(c))))])

    def _div_of(self, u: Term, shift: int, c: int) -> Term | None:
        """(y // n + shift) // c, and (y % n) // c, as one division of y."""
        n = int_value(u.args[1]) if u.op in ("floordiv", "mod") else None
        if n is None or n <= 0:
            return None
        if u.op == "floordiv":
            return self.div(u.args[0] + shift * n, n * c)
        return self.mod(self.div(u.args[0], c), n // c) if n % c == 0 and shift == 0 else None

    def mod(self, x: Term, c: int) -> Term:
        """x % c for a positive number c.

        >>> i, j = t.ax(0, 8), t.ax(1, 16)
        >>> print(Folder().mod(16 * i + j + 32, 16))
        i1
        """
        if c == 1:
            return t.index_const(0)
        rest = self._split(x, c)[2]
        r0, parts = linear_parts(rest)
        for candidate in (rest, linear(r0, [(k % c, u) for k, u in parts])):
            block = self._block(candidate, c)
            if block is not None:
                return candidate - block * c
        coarse = self._coarse(rest, c)
        if coarse is not None:
            unit, high, low = coarse
            return linear(0, [(unit, self.mod(high, c // unit)), (1, low)])
        if r0 == 0 and len(parts) == 1 and parts[0][0] == 1 and parts[0][1].op == "mod":
            y, n = parts[0][1].args
            number = int_value(n)
            if number is not None and number > 0 and number % c == 0:
                return self.mod(y, c)
        return t.make("mod", (rest, t.index_const(c)))

    def _join(self, node: Term) -> Term:
        """k * (y % n) joined with k * n * (y // n), or with k * n * ((y // n) % m), in one sum."""
        constant, parts = linear_parts(node)
        if not any(u.op == "mod" for _, u in parts):
            return node
        table = {u: k for k, u in parts}
        for u, k in list(table.items()):
            n = int_value(u.args[1]) if u.op == "mod" else None
            if n is None or n <= 0 or u not in table:
                continue
            y = u.args[0]
            quotient = self.div(y, n)
            for v, kv in list(table.items()):
                if kv != k * n or v is u:
                    continue
                joined = y if v is quotient else None
                m = int_value(v.args[1]) if v.op == "mod" and v.args[0] is quotient else None
                if m is not None and m > 0:
                    joined = self.mod(y, n * m)
                if joined is not None:
                    rest = [(c, w) for w, c in table.items() if w is not u and w is not v]
                    return self._join(linear(constant, [*rest, (k, joined)]))
        return node

    def _compare(self, node: Term) -> Term:
        a, b = node.args
        difference = b - a
        known = self.range(difference)
        if node.op in ("eq", "ne"):
            if known is None or (known[0] <= 0 <= known[1] and known != (0, 0)):
                return node
            return t.bool_const((known == (0, 0)) == (node.op == "eq"))
        least = 0 if node.op == "le" else 1
        if known is not None and (known[0] >= least or known[1] < least):
            return t.bool_const(known[0] >= least)
        constant, parts = linear_parts(difference)
        if len(parts) != 1 or parts[0][1].op != "floordiv":
            return node
        k, u = parts[0]
        n = int_value(u.args[1])
        if n is None or n <= 0:
            return node
        # k * (x // n) + constant >= least, as a bound of x itself.
        if k > 0:
            return self._step(t.compare("le", -((constant - least) // k) * n, u.args[0]))
        return self._step(t.compare("lt", u.args[0], ((constant - least) // -k + 1) * n))


def nonnegative_form(condition: Term) -> Term | None:
    """The index term f for which the comparison says f >= 0; None for other conditions."""
    if condition.op not in ("le", "lt") or condition.args[0].dtype != INDEX:
        return None
    return condition.args[1] - condition.args[0] - (0 if condition.op == "le" else 1)


def conjuncts(condition: Term) -> tuple[Term, ...]:
    """The parts of a conjunction."""
    return condition.args if condition.op == "and" else (condition,)

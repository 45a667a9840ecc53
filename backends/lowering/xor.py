"""Exclusive or with a constant as digits, which loop nests split like any others.

On numbers that are not negative, x ^ c turns the digits of x around where c has ones: for a run of b ones from bit a,
the digit d = x // 2**a % 2**b becomes 2**b - 1 - d.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import free_variables, nodes_of, transform

MOST = 16
"""An axis of at most so many positions is walked position by position to make an operand constant."""


def ones(number: int) -> Iterator[tuple[int, int]]:
    """Where the runs of ones of a number begin, in bits, and how long they are.

    >>> list(ones(0b110100))
    [(2, 1), (4, 2)]
    """
    bit = 0
    while number >> bit:
        if number >> bit & 1:
            first = bit
            while number >> bit & 1:
                bit += 1
            yield first, bit - first
        else:
            bit += 1


def digits_of_xor(term: Term, simplifier: IndexSimplifier) -> Term:
    """The term with each x ^ constant of an x that is not negative as a sum of digits."""

    def change(node: Term) -> Term | None:
        if node.op != "bitxor" or node.dtype != INDEX:
            return None
        numbers = [int_value(a) for a in node.args]
        if numbers[0] is not None:
            numbers, node = numbers[::-1], t.make("bitxor", (node.args[1], node.args[0]))
        x, number = node.args[0], numbers[1]
        known = simplifier.range(x)
        if number is None or number < 0 or known is None or known[0] < 0:
            return None
        total = x
        for first, length in ones(number):
            size = 1 << length
            total = total + (1 << first) * (size - 1 - 2 * (x // (1 << first) % size))
        return total

    return transform(term, change) if nodes_of("bitxor", term) else term


def narrow_axis(roots: Sequence[Term], axes: Sequence[Term]) -> int | None:
    """The number of an axis of few positions that is all that one operand of an exclusive or depends on."""
    for node in nodes_of("bitxor", *roots):
        for operand in node.args:
            there = set(free_variables(operand))
            used = [k for k, axis in enumerate(axes) if axis in there]
            if len(used) == 1 and (int_value(axes[used[0]].args[0]) or MOST + 1) <= MOST:
                return used[0]
    return None

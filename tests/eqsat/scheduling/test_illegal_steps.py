"""Steps that are illegal on purpose: each is refused, and its witness is looked at again, by arithmetic of our own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from eqsat.ir.errors import ScheduleError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.scheduling.schedule import Schedule

Witness = dict[str, Any]
Case = tuple[str, Callable[[Schedule], object], Callable[[Witness], bool]]
"""The body of a function, an illegal step, and whether its witness is one."""
Cells = Callable[[dict[str, int]], tuple[set[Any], set[Any]]]
"""What an iteration writes and reads."""


def meets(one: Cells, two: Cells | None = None) -> Callable[[Witness], bool]:
    """Two iterations, not the same, meet in the cell, and one of them writes it."""

    def check(w: Witness) -> bool:
        (a, b), (c, d) = one(w["first"]), (two or one)(w["second"])
        cell = w["cell"]
        return w["first"] != w["second"] and cell in a | b and cell in c | d and cell in a | c

    return check


def later(one: Cells, two: Cells) -> Callable[[Witness], bool]:
    """An iteration of the first of two loops meets an earlier one of the second."""

    def check(w: Witness) -> bool:
        (a, b), (c, d) = one({"i": w["i"]}), two({"i": w["j"]})
        cell = w["cell"]
        return w["i"] > w["j"] and cell in a | b and cell in c | d and cell in a | c

    return check


def scan(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    A[i + {d}] = A[i] + int32(1)"
    return body, lambda s: s.parallel("i"), meets(lambda p: ({(p["i"] + d,)}, {(p["i"],)}))


def total(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    B[{d}] = B[{d}] + A[i]"
    return body, lambda s: s.vectorize("i"), meets(lambda p: ({(d,)}, {(d,)}))


def skew(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    for j in {d + 1}:\n      C[i + 1, j] = C[i, j + 1]"
    return body, lambda s: s.reorder("j", "i"), meets(lambda p: ({(p["i"] + 1, p["j"])}, {(p["i"], p["j"] + 1)}))


def cut(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    B[i] = A[i]\n    A[i + {d}] = int32(3)"
    return body, lambda s: s.fission("i", 1), meets(lambda p: ({(p["i"] + d,)}, set()), lambda p: (set(), {(p["i"],)}))


def shifted(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    A[i] = int32(3)\n  for j in {n}:\n    B[j] = A[j + {d}]"
    return (
        body,
        lambda s: s.merge_adjacent_loops("i"),
        later(lambda p: ({(p["i"],)}, set()), lambda p: (set(), {(p["i"] + d,)})),
    )


def reversed_(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    A[i] = B[i]*int32({d})\n  for j in {n}:\n    B[{n - 1} - j] = A[j]"
    return (
        body,
        lambda s: s.merge_adjacent_loops("i"),
        later(lambda p: ({(p["i"],)}, {(p["i"],)}), lambda p: ({(n - 1 - p["i"],)}, {(p["i"],)})),
    )


def outside(n: int, d: int) -> Case:
    """The added loads leave their buffer."""
    body = f"for i in {20 + d}:\n    if i < {n}:\n      D[i] = A[i]"
    return body, lambda s: s.remove_branching_through_overcompute(), lambda w: w["buffer"] == "A" and w["cell"][0] >= 20


def observed(n: int, d: int) -> Case:
    """The added stores change what the caller sees."""
    body = f"for i in {n + d}:\n    if i < {n}:\n      B[i] = A[i] + int32({d})"
    return body, lambda s: s.remove_branching_through_overcompute(), lambda w: n <= w["cell"][0] < n + d


def wrong_padding(n: int, d: int) -> Case:
    """The padding is known, and is not what a sum ignores."""
    known = f"for z in {n + d}:\n    assume z < {n} or A[z] == int32({d})\n  "
    body = f"{known}for i in {n + d}:\n    if i < {n}:\n      B[{d}] = B[{d}] + A[i]"
    return body, lambda s: s.remove_branching_through_overcompute(), lambda w: w["cell"] == (d,)


def collapsed(n: int, d: int) -> Case:
    """Two elements become one."""
    m = IndexMap.parse(f"i -> i % {19 - d}")

    def same(w: Witness) -> bool:
        one, two = w["first"]["i"], w["second"]["i"]
        return one != two and m.map_indices((one,)) == m.map_indices((two,))

    return f"for i in {n}:\n    B[i] = A[i]", lambda s: s.transform_layout("B", m, interface="free"), same


def of_the_caller(n: int, d: int) -> Case:
    name = "AB"[d % 2]
    m = f"i -> i//{d + 1}, i%{d + 1}"
    return f"for i in {n}:\n    B[i] = A[i]", lambda s: s.transform_layout(name, m), lambda w: w["parameter"] == name


SKEWED = meets(lambda p: ({(p["i"] + 1, p["j"])}, {(p["i"], p["j"] + 1)}))


def turned(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    for j in {d + 1}:\n      C[i + 1, j] = C[i, j + 1]"
    return body, lambda s: s.transform_loops(["i", "j"], "i, j -> j, i"), SKEWED


def turned_block(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    for j in {d + 1}:\n      C[i + 1, j] = C[i, j + 1]"
    return body, lambda s: s.transform_block_layout("C", "i, j -> j, i"), SKEWED


def backwards(n: int, d: int) -> Case:
    """A running sum from the end on cannot follow the cells of its buffer."""
    body = f"for i in {n}:\n    A[{n} - i] = A[{n + d} - i] + int32(1)"
    return body, lambda s: s.reorder_by_buffer("A"), meets(lambda p: ({(n - p["i"],)}, {(n + d - p["i"],)}))


def stale(n: int, d: int) -> Case:
    """A copy would not see what is written after it was made."""
    body = f"for i in {n}:\n    B[i] = A[i]\n    A[i + {d}] = int32(3)"
    return (
        body,
        lambda s: s.cache_read("A"),
        meets(lambda p: ({(p["i"] + d,)}, set()), lambda p: (set(), {(p["i"],)})),
    )


def broken_promise(n: int, d: int) -> Case:
    body = f"for i in {n}:\n    B[i] = A[i]"
    return body, lambda s: s.assume(f"i < {n - d}", "B"), lambda w: n - d <= w["i"] < n


def dropped(n: int, d: int) -> Case:
    """A store that the caller sees does not run."""
    body = f"for i in {n}:\n    B[i] = A[i] + int32({d})"
    return (
        body,
        lambda s: s.remove_overcompute_through_branching(f"i < {n - d}"),
        lambda w: w["buffer"] == "B" and n - d <= w["cell"][0] < n,
    )


def shown_otherwise(n: int, d: int) -> Case:
    """An alias of another shape would show other cells."""
    body = f"alloc t: int32[40]\n  alias u: int32[4, 10] = t\n  for i in {n}:\n    t[i] = A[i]\n    B[i] = u[0, i]"
    return body, lambda s: s.compact_buffer("t"), lambda w: w == {"buffer": "t", "alias": "u"}


def axes_of_the_caller(n: int, d: int) -> Case:
    return (
        f"for i in {n}:\n    B[i] = C[{d}, i % 6]",
        lambda s: s.set_axis_separators("C", [1]),
        lambda w: w == {"parameter": "C"},
    )


FAMILIES = (
    scan, total, skew, cut, shifted, reversed_, outside, observed, wrong_padding, collapsed, of_the_caller, turned,
    turned_block, backwards, stale, broken_promise, dropped, shown_otherwise, axes_of_the_caller,
)  # fmt: skip


def refused(count: int, seed: int) -> Counter[str]:
    """How many were refused, with a witness that is one; fails where one is accepted."""
    rng, found = random.Random(seed), Counter[str]()
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        n = rng.randint(5, 10)
        body, take, is_witness = family(n, rng.randint(1, 4))
        head = "func f(A: int32[20], B: int32[20], C: int32[11, 6], D: int32[40])"
        s = Schedule(PrimFunc.parse(f"{head}\n  {body}"))
        with pytest.raises(ScheduleError) as caught:
            take(s)
        assert is_witness(caught.value.witness), (body, str(caught.value), caught.value.witness)
        assert s.func is s.original and not len(s.trace) and "func f(" in caught.value.program
        found[family.__name__] += 1
    return found


# feature: A7, C8, C7, E1, E11, E12, E13, E19, H8
def test_illegal_steps_are_refused_with_witnesses() -> None:
    assert len(refused(38, 0)) == len(FAMILIES)


@pytest.mark.slow
def test_many_illegal_steps_are_refused_with_witnesses() -> None:
    assert refused(2000, 1).total() == 2000

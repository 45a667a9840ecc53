"""A function cut in two: the second part knows of the first what was proved of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_functions import at, doubled, function, number, total

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, BufferDecl, For, Store, seq
from eqsat.ir.terms import term as t
from eqsat.scheduling.nest import blocks, find_block, replaced
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.split_function import split_function

PACK = "i -> i//4, i%4"
A14 = np.arange(1, 15, dtype="int32")


def cut(pad_value: Any, style: Any = "after") -> tuple[PrimFunc, PrimFunc]:
    """The row sum over a padded copy, cut between the copy and the sum."""
    s = Schedule(total())
    s.cache_read("A")
    s.transform_layout("A_cache", PACK, pad_value, style=style)
    last = [name for name in s.blocks if name.startswith("B")][-1]
    return s.split_function(last, ["transform", "compute"])


def run_both(first: PrimFunc, second: PrimFunc, canary: int = 77) -> dict[str, NDArray]:
    memory = {"A": A14.copy(), "B": np.zeros(1, "int32"), "A_cache": np.full((4, 4), canary, "int32")}
    for part in (first, second):
        run_primfunc(part, {name: memory[name] for name in part.params})
    return memory


def test_unknown_padding_stays_unknown() -> None:  # feature: E17
    first, second = cut(None)
    assert "assume" not in str(second) and run_both(first, second)["B"].tolist() == [A14.sum()]
    assert run_both(first, second)["A_cache"].reshape(-1)[14:].tolist() == [77, 77]  # padding is observable now


def test_undef_stores_stay_at_the_cut() -> None:  # feature: E17
    first, second = cut(eq.UNDEF)
    assert "hole(" in str(first).split("\n", 2)[2] and "assume" not in str(second)
    memory = {"A": A14, "A_cache": np.zeros((4, 4), "int32"), "B": np.zeros(1, "int32")}
    freed = run_primfunc(first, {name: memory[name] for name in first.params}, track=True)
    assert freed["A_cache"].reshape(-1).tolist() == [False] * 14 + [True] * 2


@pytest.mark.parametrize("style", ["after", "select"])
def test_known_padding_is_assumed(style: str) -> None:  # feature: E17
    first, second = cut(0, style)
    assert "] == int32(0)" in str(second) and "assume" not in str(first)
    assert run_both(first, second)["B"].tolist() == [A14.sum()]
    wrong = {"A_cache": np.full((4, 4), 5, "int32"), "B": np.zeros(1, "int32")}
    with pytest.raises(EvaluationError, match="assume"):
        run_primfunc(second, wrong)


def test_what_the_first_part_does_not_leave_is_not_assumed() -> None:  # feature: E17
    s = Schedule(doubled())
    s.cache_write("B")
    s.transform_layout("B_cache", PACK, 3)
    before_padding, _ = s.split_function("B_cache@1")  # the padding is written behind the cut
    assert "assume" not in str(s.split_function("B_cache@1")[1])
    assert before_padding.params == ("A", "B_cache")
    first, second = s.split_function("B")
    assert "== int32(3)" in str(second)
    memory = {"A": A14, "B": np.zeros(14, "int32"), "B_cache": np.zeros((4, 4), "int32")}
    for part in (first, second):
        run_primfunc(part, {name: memory[name] for name in part.params}, track=True)
    assert memory["B"].tolist() == (2 * A14).tolist()


def test_padding_that_is_overwritten_is_not_assumed() -> None:  # feature: E17
    s = Schedule(total())
    s.cache_read("A")
    s.transform_layout("A_cache", PACK, 0)
    last = [name for name in s.blocks if name.startswith("B")][-1]
    place = find_block(s.func, last, "")
    for cell, assumed in ((3, False), (1, True)):  # of the third row: padding, and an element
        store = Store("A_cache", (t.index_const(3), t.index_const(cell)), number(9))
        func = replaced(s.func, place.path, seq([store, place.stmt]))
        _, second = split_function(func, [n for n in blocks(func) if n.startswith("B")][-1])
        assert ("assume" in str(second)) == assumed


def test_cuts_that_cannot_be_made() -> None:
    with pytest.raises(eq.ScheduleError, match="nothing stands before it"):
        Schedule(doubled()).split_function("B")
    i, j = t.var("i", 4), t.var("j", 4)
    both = seq([For(i, Store("v", (i,), number(1))), For(j, Store("B", (j,), at("v", j)))])
    s = Schedule(function(Alias(BufferDecl("v", (4,), "int32"), "A", both), A=(4,), B=(4,)))
    with pytest.raises(eq.ScheduleError, match="v is an alias around both parts"):
        s.split_function("B")

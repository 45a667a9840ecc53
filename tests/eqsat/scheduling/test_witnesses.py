"""What a refusal shows: the iterations, the cell, the buffer and the index that it is for, looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For
from eqsat.ir.terms.term import load
from eqsat.passes.split import split_function
from eqsat.scheduling import nest
from eqsat.scheduling.schedule import Schedule

SUM = "for i in 8:\n    reduce for r in 8:\n      B[i] = B[i] + A[i, r]"
Step = Callable[[Schedule], object]


def witness(body: str, take: Step) -> dict[str, Any]:
    """That of a step which is refused, and changes nothing."""
    s = Schedule(PrimFunc.parse(f"func f(A: int32[8, 8], B: int32[8], C: int32[8])\n  {body}"))
    with pytest.raises(ScheduleError) as caught:
        take(s)
    assert s.func is s.original and str(caught.value)
    return caught.value.witness


# feature: C7
def test_an_output_that_mixes_loops_keeps_parts_of_a_sum_apart() -> None:
    w = witness(SUM, lambda s: s.transform_block_layout("B", "i, r -> i + r, r"))
    assert w["output"] == "i + r" and w["first"]["i"] == w["second"]["i"]
    assert sum(w["first"].values()) != sum(w["second"].values())


def test_an_output_that_only_seems_to_mix_loops() -> None:
    s = Schedule(PrimFunc.parse(f"func f(A: int32[8, 8], B: int32[8])\n  {SUM}"))
    with pytest.raises(ScheduleError, match=r"\(8\*i \+ r\) % 16 mixes"):  # (8*i + r) // 16 is i // 2
        s.transform_block_layout("B", "i, r -> (8*i + r)//16, (8*i + r) % 16")
    s.transform_block_layout("B", "i, r -> (8*i + r)//16, i % 2, r")
    assert [place.stmt.reduce for place in nest.loops(s.func).values() if isinstance(place.stmt, For)] == [
        False, False, True,
    ]  # fmt: skip


GUARD = "for i in 8:\n    if B[{read}] < int32(3):\n      for j in 8:\n        B[{write}] = A[i, j]"


TURNS: list[Step] = [lambda s: s.reorder("j", "i"), lambda s: s.transform_loops(["i", "j"], "i, j -> j, i")]


@pytest.mark.parametrize("take", TURNS)
def test_a_guard_that_reads_what_is_written_inside(take: Step) -> None:
    w = witness(GUARD.format(read="i", write="j"), take)
    assert w["cell"] == (w["first"]["i"],) == (w["second"]["j"],) and w["buffer"] == "B"


def test_a_guard_that_reads_other_cells_than_are_written_stays_what_it_is() -> None:
    body = "for i in 4:\n    if B[i] < int32(3):\n      for j in 4:\n        B[j + 4] = B[j + 4] + A[i, j]"
    s = Schedule(PrimFunc.parse(f"func f(A: int32[8, 8], B: int32[8])\n  {body}"))
    s.reorder("j", "i")
    assert s.loops == ["j", "i"]


COPY = "for i in 8:\n    B[i] = C[i]"


CASES: list[tuple[str, Step, dict[str, Any]]] = [
    (COPY, lambda s: s.split("i", [2, 3]), {"iteration": 6}),
    (
        COPY, lambda s: s.transform_layout("B", "i -> i//3, i%3", load("C", [0], "int32"), interface="free"),
        {"buffer": "C", "index": ["0"]},
    ),
    (
        "for i in 8:\n    B[i] = hole(1, 'int32')", lambda s: s.cache_write("B"), {"buffer": "B", "index": ["i"]},
    ),
    (f"{COPY}\n  C[0] = int32(1)", lambda s: s.assume("B[3] == int32(1)", "C"), {"buffer": "B", "index": ["3"]}),
    (
        "for i in 8:\n    B[cast(C[i], 'index') % 8] = int32(1)", lambda s: s.reorder_by_buffer("B"),
        {"buffer": "B", "index": [None]},
    ),
    (
        "for i in 8:\n    B[i] = C[i] + C[0]\n    B[0] = int32(1)",
        lambda s: s.transform_layout("B", "i -> i//3, i%3", 0, interface="free", style="select"), {"buffer": "B"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "take", "wanted"), CASES)
def test_a_refusal_names_the_buffer_and_the_index(body: str, take: Step, wanted: dict[str, Any]) -> None:
    assert witness(body, take) == wanted


def test_loops_of_different_lengths_are_not_merged() -> None:
    body = "for i in 8:\n    B[i] = int32(1)\n  for j in 6:\n    C[j] = int32(1)"
    assert witness(body, lambda s: s.merge_adjacent_loops("i")) == {"loop": "i", "i": 6}


def test_a_function_with_an_alias_is_not_split() -> None:
    body = f"{COPY}\n  alias D: int32[64] = A\n  D[0] = int32(1)"
    with pytest.raises(ScheduleError, match="D is an alias of A") as caught:
        split_function(PrimFunc.parse(f"func f(A: int32[8, 8], B: int32[8], C: int32[8])\n  {body}"), 1)
    assert caught.value.witness == {"alias": "D"}


def test_a_branch_that_is_not_there_is_named() -> None:
    s = Schedule(PrimFunc.parse(f"func f(B: int32[8], C: int32[8])\n  {COPY}"))
    with pytest.raises(ScheduleError, match="neither `if` nor `where` has the condition i < 3"):
        s.remove_branching_through_overcompute("i < 3")

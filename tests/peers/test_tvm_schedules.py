"""The same schedules by eqsat and by Apache TVM: ours compute what the function does, whatever TVM's do."""

from __future__ import annotations

import pytest
from compare_schedules import Function, Functions, Stage, compared, main

pytestmark = pytest.mark.tvm
LOOPS = ["split", "fuse", "reorder", "unroll", "parallel", "vectorize", "merge"]
SHARED = [*LOOPS, "transform_layout", "transform_block_layout"]


# feature: C1, C4, E11
def test_random_schedules_compute_the_same() -> None:
    """TVM's wrong answers are printed, and never fail the test: it may have become right."""
    found = compared(60, 100)
    print(found.counts, *found.witnesses, sep="\n")
    assert found.problems == []
    assert [name for name in SHARED if not found.counts[name, "both"]] == []


def test_the_texts_are_one_function() -> None:
    """What both sides are given computes the same before any step."""
    assert compared(10, 0, steps=0).problems == []
    twice = Function({"A": (4,), "B": (4,)}, frozenset(), (Stage((("i", 4, "spatial"),), "B[i] = A[i] + A[i]"),))
    assert "for i in 4:" in str(twice.ours()) and "B[v_i] = A[v_i] + A[v_i]" in twice.theirs().mod.script()
    assert str(Functions(3).function().ours()) == str(Functions(3).function().ours())


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--functions", "3", "--reasons"]) == 0
    assert "eqsat computes something else: 0" in capsys.readouterr().out

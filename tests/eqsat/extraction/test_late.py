"""Where the time for pricing views is over, the rest are priced roughly, and there is a result all the same."""

from __future__ import annotations

import pytest

import eqsat as eq
from eqsat.operators.interned import Reindex


@pytest.mark.parametrize("target", ["c", "onnx"])
def test_late_choices_are_programs_and_no_dearer(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Moves that cancel go; a move that must stay stays; and no view is priced by its spelling."""  # feature: G12
    x = eq.input("x", (1, 32, 6, 6), "float32")
    y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW").pad(((0, 0), (0, 0), (1, 1), (1, 1)))
    program = eq.Program([x], {"y": y, "z": (x + 1.0).layout_transform("NCHW", "NCHW8c")})

    def priced(reindex: Reindex) -> int:
        raise AssertionError(reindex)

    monkeypatch.setattr("eqsat.engine.PRICING_SHARE", 0.0)
    monkeypatch.setattr("eqsat.extraction.prices.map_bytes", priced)
    found = eq.optimize(program, target, objective="bytes")
    assert found.cost_after < found.cost_before and eq.verify(program, found.program).verdict == "proved"

"""Gains of time that prices cannot tell from nothing are not taken where more bytes are moved for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import onnx, result
from eqsat.nets import conv_chain
from eqsat.result import PRICE_ERROR, Measure

BEFORE = Measure(3, 1_000_000, 20, 10**9)


@given(st.integers(0, 2_000_000), st.integers(0, 10**9))
def test_a_trade_needs_more_bytes_and_hardly_any_time(moved: int, picoseconds: int) -> None:
    after = Measure(3, moved, 20, picoseconds)
    assert after.trades(BEFORE) == (moved > BEFORE.bytes_moved and 10**9 - picoseconds < PRICE_ERROR * 10**9)


def test_bytes_alone_are_no_trade() -> None:
    assert not Measure(3, 2_000_000, 20).trades(Measure(3, 1_000_000, 20))


@pytest.mark.parametrize("error", [PRICE_ERROR, 2.0])
def test_models_are_given_back_where_a_result_only_trades(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With prices that tell nothing and bytes that count as more, every result is a trade."""
    monkeypatch.setattr(result, "PRICE_ERROR", error)
    original = Measure.trades

    def swapped_trades(after: Measure, before: Measure) -> bool:
        return original(swapped(after), swapped(before))

    if error > 1:
        monkeypatch.setattr(Measure, "trades", swapped_trades)
    found = onnx.optimize(conv_chain())
    assert (found.final == found.initial) == (error > 1)


def swapped(measure: Measure) -> Measure:
    return Measure(measure.layout_ops, -measure.bytes_moved, measure.nodes, measure.picoseconds)

"""Tuning measures once, remembers the winner, and never changes a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from eqsat.backends import tune
from eqsat.backends.compile import compile
from eqsat.ir.tensor import input


def test_the_winner_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    asked: list[int] = []

    def last_is_best(calls: Sequence[Callable[[], None]], rounds: int = 1) -> list[float]:
        asked.append(len(calls))
        for call in calls:
            call()
        return [1.0] * (len(calls) - 1) + [0.5]

    monkeypatch.setattr(tune, "measure", last_is_best)
    x = input("x", (70, 90), "float32")
    array = np.random.default_rng(0).standard_normal((70, 90)).astype("float32")
    default = compile(x.permute_dims((1, 0)))
    first, second = (compile(x.permute_dims((1, 0)), tune=True) for _ in range(2))
    assert len(asked) == 1 and asked[0] > 2
    assert first.source == second.source != default.source
    for k in (first, second):
        np.testing.assert_array_equal(k(x=array), array.T)
    (remembered,) = (tmp_path / "tuned").iterdir()
    remembered.write_text("torn")
    compile(x.permute_dims((1, 0)), tune=True)
    assert len(asked) == 2


def test_a_near_tie_keeps_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))

    def nearly(calls: Sequence[Callable[[], None]], rounds: int = 1) -> list[float]:
        return [1.0] + [0.99] * (len(calls) - 1)

    monkeypatch.setattr(tune, "measure", nearly)
    y = input("x", (70, 90), "float32").permute_dims((1, 0))
    assert compile(y, tune=True).source == compile(y).source


def test_calls_are_measured_by_turns() -> None:
    order: list[str] = []
    times = tune.measure([lambda: order.append("a"), lambda: order.append("b")], rounds=3)
    assert order == ["a", "b"] * 4 and len(times) == 2 and min(times) >= 0

"""Tuning measures once, remembers the winner, and never changes a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from eqsat.backends.c import tune
from eqsat.backends.compile import compile
from eqsat.ir.tensors.tensor import input


def test_the_winner_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    asked: list[int] = []

    def last_is_best(calls: Sequence[Callable[[], None]]) -> tuple[int, list[float]]:
        asked.append(len(calls))
        for call in calls:
            call()
        return len(calls) - 1, [1.0] * len(calls)

    monkeypatch.setattr(tune, "best_of", last_is_best)
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


CALLS = 4
MEASURED = {
    "a near tie": ([1.0, 0.99, 0.98, 1.0], None, 0),
    "better both times": ([1.0, 0.9, 0.8, 1.0], [0.8] * 15, 2),
    "by chance": ([1.0, 0.9, 0.8, 1.0], [1.0] * 15, 0),
    "on a busy machine": ([1.0, 0.9, 0.8, 1.0], [0.5] * 9 + [1.5] * 6, 0),
    "worse": ([1.0, 1.1, 1.2, 1.3], None, 0),
}
"""Medians of the first measurement, times of a second one beside a default that takes 1, and who wins."""


@pytest.mark.parametrize("name", MEASURED)
def test_the_default_wins_where_no_other_is_better_beyond_doubt(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    first, second, winner = MEASURED[name]

    def measured(calls: Sequence[Callable[[], None]], rounds: int = tune.ROUNDS) -> list[list[float]]:
        if len(calls) == CALLS:
            return [[t] * rounds for t in first]
        assert second is not None and len(calls) == 2
        return [[1.0] * rounds, second]

    monkeypatch.setattr(tune, "measure", measured)
    assert tune.best_of([lambda: None] * CALLS) == (winner, first)


def test_calls_are_measured_by_turns() -> None:
    order: list[str] = []

    def call(name: str) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            sleep(2 * tune.SAMPLE)

        return run

    times = tune.measure([call("a"), call("b")], rounds=3)
    assert order[:4] == ["a", "a", "b", "b"], "calls to warm up, and to see how often a sample repeats them"
    assert [sorted(order[k : k + 2]) for k in range(4, 10, 2)] == [["a", "b"]] * 3
    assert len(order) == 10 and [len(taken) for taken in times] == [3, 3] and min(map(min, times)) >= 2 * tune.SAMPLE

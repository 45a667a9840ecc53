"""The collector of garbage is put off while a program is optimised, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import eqsat as eq
from eqsat import engine
from eqsat.ir.collector import RARELY, rarely


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """The thresholds that Python begins with: the tests have others."""
    own = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*own)


def test_whoever_leaves_first_the_last_restores_what_was_usual() -> None:
    before = gc.get_threshold()  # feature: G12
    one, other = rarely(), rarely()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold()[0] == RARELY
    other.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_it_is_as_before_after_a_failure() -> None:
    before = gc.get_threshold()  # feature: G12
    with pytest.raises(ValueError, match="on the way"), rarely():
        raise ValueError("on the way")
    assert gc.get_threshold() == before


def test_programs_are_optimised_with_it_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []  # feature: G12
    whole = engine.cheapest

    def watched(*args: Any, **given: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return whole(*args, **given)

    monkeypatch.setattr(engine, "cheapest", watched)
    before, x = gc.get_threshold(), eq.input("x", (2, 3), "float32")
    eq.optimize(x.permute_dims((1, 0)).relu().permute_dims((1, 0)))
    assert min(seen) >= RARELY
    assert gc.get_threshold() == before

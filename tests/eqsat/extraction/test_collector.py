"""The collector of garbage is put off while a choice is made, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest

from eqsat.extraction.cheapest import cheapest
from eqsat.extraction.collector import RARELY, rarely
from eqsat.extraction.extract import Alternative, UseLeaf
from eqsat.graph.nodes import ClassId


def test_whoever_leaves_first_the_last_restores_what_was_usual() -> None:
    before = gc.get_threshold()  # feature: G12
    one, other = rarely(), rarely()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold()[0] == max(before[0], RARELY)
    other.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_it_is_as_before_after_a_failure() -> None:
    before = gc.get_threshold()  # feature: G12
    with pytest.raises(ValueError, match="on the way"), rarely():
        raise ValueError("on the way")
    assert gc.get_threshold() == before


def test_a_choice_is_made_with_it_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []  # feature: G12

    def none(_table: object, _roots: Sequence[ClassId]) -> None:
        seen.append(gc.get_threshold()[0])

    monkeypatch.setattr("eqsat.extraction.cheapest.take_apart", none)
    assert cheapest({0: [Alternative(UseLeaf(0), 0, ())]}, [0], 1.0) is None
    assert min(seen) >= RARELY

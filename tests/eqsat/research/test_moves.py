"""Laws of layout moves that are found: proved for all sizes, and the same on numbers, by numpy."""

from __future__ import annotations

import json
import random
from collections.abc import Set
from typing import Any

import numpy as np
import pytest

from eqsat.cli import main
from eqsat.ir.rule import Rule
from eqsat.research.discover_moves import MoveLaw, MoveLaws, discover_moves
from eqsat.research.move_rules import to_paste
from eqsat.research.moves import GIVEN, MOVES, SHAPES, Chain, conditions_needed, prove_chains, value_at
from eqsat.rulebook import check_rules

BY_NAME = {move.name: move for move in MOVES}


def chain(text: str, shape: str = "n") -> Chain:
    """A chain by its text: "roll a, flip"."""
    steps = [part.strip().partition(" ") for part in text.split(",") if part.strip()]
    return Chain(shape, tuple((BY_NAME[name], amount) for name, _, amount in steps))


def sound(found: MoveLaws) -> None:
    """By numpy at random sizes and amounts for which the conditions hold."""
    draw = random.Random(0)
    for law in found.laws:
        tried = 0
        for _ in range(150):
            env = {name: draw.randrange(0 if name in "ab" else 1, 7) for name in "nmab"}
            left = law.left.run(env)
            if left is None or not all(value_at(c, env) for c in law.conditions):
                continue
            right = law.right.run(env)
            assert right is not None and np.array_equal(left, right), (law, env)
            tried += 1
        assert tried > 5, law


TRUE = [
    ("roll a, roll b", "roll a + b"), ("pad_front a, crop_front a", ""), ("pad_end a, crop_end a", ""),
    ("crop_front a, crop_front b", "crop_front a + b"), ("flip, roll a, flip", "roll -a"), ("roll n - a", "roll -a"),
    ("flip, crop_front a, flip", "crop_end a"), ("pad_front a, flip", "flip, pad_end a"),
]  # fmt: skip
WRONG = [
    ("roll a, roll b", "roll a - b"), ("crop_front a, pad_front a", ""), ("pad_front a, crop_end a", ""),
    ("roll a, flip", "flip, roll a"), ("pad_front a, crop_front b", "pad_front a - b"), ("flip", ""),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), TRUE, ids=lambda text: text or "x")
def test_true_laws_are_proved(left: str, right: str) -> None:  # feature: J5
    assert prove_chains(chain(left), chain(right), GIVEN[0])


@pytest.mark.parametrize(("left", "right"), WRONG, ids=lambda text: text or "x")
def test_wrong_laws_are_not(left: str, right: str) -> None:  # feature: J5
    assert prove_chains(chain(left), chain(right), GIVEN[0]) is None


SUMS = [
    ("roll a, sum", "sum"), ("flip, sum", "sum"), ("pad_front a, sum", "sum"), ("transpose, sum", "sum_last"),
    ("merge, sum", "sum, sum"), ("sum_last, sum", "sum, sum"), ("pad_end a, sum_last", "sum_last, pad_end a"),
    ("crop_front a, sum_last", "sum_last, crop_front a"), ("roll b, pad_front a, sum", "sum"),
]  # fmt: skip
NO_SUMS = [
    ("crop_front a, sum", "sum"), ("sum_last", "sum"), ("pad_front a, sum_last", "sum_last"),
    ("crop_end a, sum_last", "sum_last, crop_front a"), ("roll a, sum_last", "sum_last"), ("sum", "sum, sum"),
    ("transpose, crop_front a, sum", "crop_front a, sum_last"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SUMS)
def test_laws_of_reductions_are_proved(left: str, right: str) -> None:  # feature: J5
    one, other = chain(left, "n, m"), chain(right, "n, m")
    assert prove_chains(one, other, GIVEN[0]) and prove_chains(other, one, GIVEN[0])


@pytest.mark.parametrize(("left", "right"), NO_SUMS)
def test_wrong_laws_of_reductions_are_not(left: str, right: str) -> None:  # feature: J5
    assert prove_chains(chain(left, "n, m"), chain(right, "n, m"), GIVEN[0]) is None


FEW = {"roll", "flip", "transpose", "sum", "sum_last"}


@pytest.mark.parametrize("names", [FEW, pytest.param(BY_NAME.keys(), marks=pytest.mark.slow)], ids=["few", "all"])
def test_reductions_come_first(names: Set[str], monkeypatch: pytest.MonkeyPatch) -> None:  # feature: J5
    """Laws over matrices: what is summed is not moved before, and what is moved is what is left of it."""
    chosen = [move for move in MOVES if move.name in names]
    assert len(chosen) == len(names)
    monkeypatch.setattr("eqsat.research.discover_moves.MOVES", chosen)
    found = discover_moves(shapes=["n, m"], seconds=120)
    said = {f"{law.left} = {law.right}" for law in found.laws}
    assert {"x.transpose().sum() = x.sum_last()", "x.flip().sum_last() = x.sum_last().flip()"} <= said
    assert found.complete and not found.unknown
    sound(found)


def test_conditions_are_those_that_are_needed() -> None:  # feature: J5
    left, right = chain("pad_front a, crop_front b"), chain("pad_front a - b")
    assert [str(c) for c in conditions_needed(left, right, GIVEN[1])] == ["b <= a"]
    assert conditions_needed(chain("roll a, roll b"), chain("roll a + b"), GIVEN[0]) == ()


def test_permutes_and_reshapes() -> None:  # feature: J5
    assert prove_chains(chain("transpose, transpose", "n, m"), chain("", "n, m"), GIVEN[0])
    assert prove_chains(chain("merge, split", "n, m"), chain("", "n, m"), GIVEN[0])
    found = discover_moves(shapes=["n*m"], seconds=120)
    said = {f"{law.left} = {law.right}" for law in found.laws}
    assert {"x.split().merge() = x", "x.flip().flip() = x", "x.pad_front(a).crop_front(a) = x"} <= said
    assert found.complete and not found.unknown and all(law.by for law in found.laws)
    sound(found)


def test_what_is_printed_can_be_pasted() -> None:  # feature: J5
    """A module of rules that are proved; what the normal form of sums says is a comment."""
    pairs = [
        ("roll a, roll b", "roll a + b", "n"),
        ("pad_front a, crop_front a", "", "n"),
        ("merge, split", "", "n, m"),
        ("roll a, sum_last", "sum_last, roll a", "n, m"),
        ("merge, sum", "sum, sum", "n, m"),
    ]
    laws = [MoveLaw(chain(left, n), chain(right, n), (), "", ()) for left, right, n in pairs]
    scope: dict[str, Any] = {}
    exec(to_paste(laws), scope)
    pasted = [x for x in scope.values() if isinstance(x, Rule)]
    assert {r.name for r in pasted} >= {"roll-a-roll-b", "merge-split"} and check_rules(pasted).ok


@pytest.mark.slow
def test_the_classic_laws() -> None:  # feature: J5
    found = discover_moves(seconds=240)
    said = {f"{law.left} = {law.right}" for law in found.laws}
    assert {"x.roll(a).roll(b) = x.roll(a + b)", "x.pad_front(a).crop_front(a) = x"} <= said
    assert found.complete and set(SHAPES) == {law.left.shape for law in found.laws}
    sound(found)


def test_on_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def short(seconds: float, progress: object) -> MoveLaws:
        return discover_moves(1, seconds)

    monkeypatch.setattr("eqsat.cli.research.discover_moves", short)
    assert main(["rules", "discover", "--grammar", "layouts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["complete"]

"""Texts are asked about as they are written: what folds is still asked for, and a box without points proves all."""

from __future__ import annotations

from random import Random

import pytest

import eqsat as eq

UNDEFINED = [
    ("4//y - 4//y == 0", {"y": 3}),
    ("(4//y)*0 == 0", {"y": 3}),
    ("(4%y)*0 == 0", {"y": 3}),
    ("(truncdiv(4, y) - truncmod(4, y))*0 == 0", {"y": 3}),
    ("(1 << y)*0 == 0", {"y": (-1, 3)}),
    ("[1, 2][y]*0 == 0", {"y": 3}),
    ("(1 if 4//y == 1 else 1) == 1", {"y": 3}),
    ("where(4//y == 1, 1, 1) == 1", {"y": 3}),
    ("(4//y == 1 and False) or True", {"y": 3}),
    ("y >= 0 and (4//y)*0 == 0", {"y": 3}),
    ("0 <= y <= y + 4//y*0", {"y": 3}),
    ("q = 4//y; q - q == 0", {"y": 3}),
]
DEFINED = [
    ("y == 0 or (4//y)*0 == 0", {"y": 3}),
    ("(y == 0) | ((4//y)*0 == 0)", {"y": 3}),
    ("((4//y)*0 if y > 0 else 0) == 0", {"y": 3}),
    ("0 < y < 0*(4//y) or True", {"y": 3}),
    ("q = 4//y; (q - q if y != 0 else 0) == 0", {"y": 3}),
    ("(4//y)*0 == 0", {"y": (1, 4)}),
]


@pytest.mark.parametrize(("text", "ranges"), UNDEFINED)
def test_what_folds_is_asked_for(text: str, ranges: dict[str, int]) -> None:
    proof = eq.prove(text, ranges)
    assert proof.verdict == "refuted" and proof.witness is not None
    assert eq.decide(text, ranges) == "sometimes"


@pytest.mark.parametrize(("text", "ranges"), DEFINED)
def test_what_is_not_evaluated_is_not_asked_for(text: str, ranges: dict[str, int]) -> None:
    assert eq.prove(text, ranges).verdict == "proved" and eq.decide(text, ranges) == "always"


def test_an_assumption_is_read_as_it_is_written() -> None:
    assert eq.prove("y != 0", {"y": 3}, "4//y - 4//y == 0").verdict == "proved"
    assert eq.decide("(x if 4//y == 1 else x) >= 0", {"y": 1, "x": 4}) == "never"


@pytest.mark.parametrize("text", ["x - y*0 > 100", "x > 100", "x + y > 100"])
def test_an_empty_range_empties_the_box_whatever_its_name(text: str) -> None:
    for empty in (0, (5, 3)):
        proof = eq.prove(text, {"x": 3, "y": empty})
        assert (proof.verdict, proof.note) == ("proved", "the box is empty")
        assert eq.decide(text, {"x": 3, "y": empty}) == "always"
        assert eq.prove(text, {"x": 3, "y": empty}, "x > 50").verdict == "proved"
        assert eq.simplify(text, {"x": 3, "y": empty}).same(eq.parse_expr(text))


def _number(rng: Random, depth: int) -> str:
    kind = rng.randrange(7 if depth else 2)
    if kind == 0:
        return str(rng.randrange(-1, 4))
    if kind == 1:
        return rng.choice("xy")
    a, b = _number(rng, depth - 1), _number(rng, depth - 1)
    if kind == 2:
        return f"({a} if {_predicate(rng, depth - 1)} else {rng.choice((a, b))})"
    return f"({a} {rng.choice(('//', '%', '//', '*', '-', '+'))} {rng.choice((a, b, 'y', '0', 'x'))})"


def _predicate(rng: Random, depth: int) -> str:
    kind = rng.randrange(5 if depth else 3)
    if kind < 2:
        return f"({_number(rng, depth)} {rng.choice(('==', '<', '<=', '!='))} {_number(rng, depth)})"
    if kind == 2:
        return f"({_number(rng, depth)} <= {_number(rng, 0)} < {_number(rng, depth)})"
    if kind == 3:
        return f"(not {_predicate(rng, depth - 1)})"
    a, b = _predicate(rng, depth - 1), _predicate(rng, depth - 1)
    return f"({a} {rng.choice(('and', 'or'))} {rng.choice(('True', 'False', b))})"


def _holds(text: str, x: int, y: int) -> bool:
    try:
        return bool(eval(text, {"x": x, "y": y}))
    except ZeroDivisionError:
        return False


def test_random_texts_agree_with_python() -> None:
    rng, seen = Random(5), set[str]()
    for _ in range(150):
        text = _predicate(rng, 3)
        points = [_holds(text, x, y) for x in range(-1, 3) for y in range(3)]
        ranges = {"x": (-1, 3), "y": 3}
        expected = "always" if all(points) else "sometimes" if any(points) else "never"
        assert eq.prove(text, ranges).verdict == ("proved" if all(points) else "refuted"), text
        assert eq.decide(text, ranges) == expected, text
        seen.add(expected)
    assert len(seen) == 3

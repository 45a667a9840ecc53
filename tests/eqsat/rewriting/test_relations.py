"""What an assumption says of two indices holds below further guards."""

import random
from typing import Any

import pytest

import eqsat as eq

FREE = (None, None)


def select(p: Any, x: Any, y: Any) -> Any:
    return x if p else y


NAMES: dict[str, Any] = {"where": select, "maximum": max, "minimum": min}


@pytest.mark.parametrize(
    ("text", "assuming", "wanted"),
    [
        ("0 <= x and 0 <= y", "x <= y", "0 <= x"),
        ("0 <= x or 0 <= y", "x <= y", "0 <= y"),
        ("where(0 <= x, where(0 <= y, 1, 2), 3)", "x <= y", "where(0 <= x, 1, 3)"),
        ("where(x < 3, where(y < 9, 1, 2), 3)", "y <= x + 5", "where(x < 3, 1, 3)"),
        ("0 <= x and 0 <= y", "x <= y + 1", "0 <= x and 0 <= y"),
        ("0 <= x and 0 <= y", "z <= w", "0 <= x and 0 <= y"),
    ],
)
def test_a_guard_on_one_side_says_something_of_the_other(text: str, assuming: str, wanted: str) -> None:
    names = dict.fromkeys("xyzw", FREE)
    used = {n: r for n, r in names.items() if n in text.replace("where", "") + assuming}
    assert str(eq.simplify(text, used, assuming=assuming)) == wanted


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_random_relations_keep_the_meaning(count: int) -> None:
    """Nested guards under relations of two indices, at every point where the assumption holds."""
    draw = random.Random(5)
    for _ in range(count):
        a, b, c, d = (draw.randint(-4, 4) for _ in range(4))
        less, more = (
            draw.choice(["x <= y", "y < x", "x + y <= 3", "2*x <= y", "x - y == 1", "x != y"]),
            "x" if a % 2 else "y",
        )
        text = f"where(x < {a}, where(y <= {b}, 1, {more} + {c}), where({d} <= y, 2, x))"
        found = str(eq.simplify(text, {"x": (-5, 6), "y": (-5, 6)}, assuming=less))
        for x in range(-5, 6):
            for y in range(-5, 6):
                if eval(less, {"x": x, "y": y}):
                    here = {**NAMES, "x": x, "y": y}
                    assert eval(found, dict(here)) == eval(text, dict(here)), (text, less, found, x, y)

"""Congruences with unknown divisors: proved where polynomials divide, and nothing else is."""

from __future__ import annotations

import random
from functools import cache
from itertools import permutations
from types import CodeType

import pytest
from seeds import some_of

import eqsat as eq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.text import parse_expr
from eqsat.proving.congruence import completed, congruence_claim, polynomial, reduced
from eqsat.proving.question import claim
from eqsat.proving.range import settled

POSITIVE = "c > 0 and m > 0"


def verdict(text: str, given: str = "") -> str:
    known = " and ".join(filter(None, (POSITIVE, given)))
    return congruence_claim(settled(claim(parse_expr(text), {}, parse_expr(known)).question)).verdict


DIVIDED = [
    ("(k*(x % m) + y) % c == (k*x + y) % c", "k*m % c == 0"),
    ("(x + c*y*y) % c == x % c", ""),
    ("x*c*m % (c*m) == 0", ""),
    ("(x % (c*m) + y) % c == (x + y) % c", ""),
    ("(x*x - y*y) % c == 0", "(x - y) % c == 0"),
    ("(3*x + y) % c == 0", "(x + m) % c == 0 and (y - 3*m) % c == 0"),
    ("x*y % c == 0", "y % (c*m) == 0"),
    ("(x % m) % c == x % c", "m % c == 0"),
]


# feature: J2
@pytest.mark.parametrize(("text", "given"), DIVIDED)
def test_what_divides_is_proved(text: str, given: str) -> None:
    assert verdict(text, given) == "proved"
    assert eq.prove(text, assuming=f"{POSITIVE} and {given}" if given else POSITIVE)


@pytest.mark.parametrize(
    ("text", "known"),
    [("3*x + y", ["c", "x + m", "y - 3*m"]), ("x*y - m*m", ["c", "x - 2*m", "2*y - m"]), ("x*x - y*y", ["c", "x - y"])],
)
def test_what_was_made_before_does_not_matter(text: str, known: list[str]) -> None:
    """Polynomials are ordered by when their variables were made: two may begin with one that is not asked about."""
    for n, order in enumerate(permutations("xymc")):
        names = {name: t.var(f"{name}{n}") for name in order}
        divisors = completed([polynomial(parse_expr(k, names)) for k in known])
        left = reduced(polynomial(parse_expr(text, names)), divisors)
        assert not left, order


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("(k*(x % m) + y) % c == (k*x + y) % c", "2*k*m % c == 0"),
        ("(k*(x % m) + y) % c == (k*x + y) % c", "k*m % (c + 1) == 0"),
        ("(x + c*y) % (c*m) == x % (c*m)", ""),
        ("x % c == y % c", "2*(x - y) % c == 0"),
        ("x*y % (c*m) == 0", "y % c == 0"),
        ("x % c == x % m", ""),
        ("(x % c) + (y % c) == 0", "(x + y) % c == 0"),
    ],
)
def test_what_does_not_divide_is_not(text: str, given: str) -> None:
    assert verdict(text, given) == "unknown"


def _polynomial(draw: random.Random, depth: int = 2) -> str:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(["x", "y", "k", "c", "m", "2", "3", "x % m", "y % c", "x // m", "y % (c*m)"])
    a, b = (_polynomial(draw, depth - 1) for _ in range(2))
    return f"({a}) {draw.choice('++-**')} ({b})"


@cache
def _read(text: str) -> CodeType:
    return compile(text, "claim", "eval")


def _value(text: str, env: dict[str, int]) -> int:
    return eval(_read(text), {}, env)  # a text of our own, over integers


@pytest.mark.parametrize("seed", some_of(range(4), 2))
def test_nothing_wrong_is_proved(seed: int) -> None:
    """Random claims under random facts, beside the integers of Python; most random claims are made true at first."""
    draw = random.Random(seed)
    proved = 0
    for _ in range(150):
        divisor = draw.choice(["c", "m", "c*m"])
        fact = f"({_polynomial(draw, 1)}) % ({draw.choice(['c', 'm', 'c*m'])}) == 0"
        left = _polynomial(draw)
        right = f"{left} + ({_polynomial(draw, 1)}) * ({draw.choice(['c', 'm', 'k*m', 'c*m', 'y'])})"
        text = f"({left}) % ({divisor}) == ({right}) % ({divisor})"
        if verdict(text, fact) != "proved":
            continue
        proved += 1
        for _ in range(300):
            env = {n: draw.randint(-9, 9) for n in "xyk"} | {n: draw.randint(1, 6) for n in "cm"}
            assert not _value(fact, env) or _value(text, env), (text, fact, env)
    assert proved >= 10


def test_long_polynomials_are_left_alone() -> None:
    factors = "*".join(f"(x + {n}*y + z)" for n in range(1, 9))
    assert verdict(f"{factors} % c == 0") == "unknown"

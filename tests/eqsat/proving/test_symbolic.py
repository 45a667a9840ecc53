"""Questions about unknown sizes: what holds for all is proved, what fails has a witness, the rest is unknown."""

from typing import Any

import pytest

from eqsat.ir.errors import EqsatError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, sym, var
from eqsat.ir.terms.text import parse_expr
from eqsat.ir.terms.walk import postorder
from eqsat.proving.prover import Budget, Portfolio, decide, prove
from eqsat.proving.question import definedness

ASK = Portfolio(cached=False)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", "off")


def the_names() -> dict[str, Term]:
    """Sizes, and axes over them: `i` below N, `j` below M, `a` and `b` the digits of N padded to fours, and so on."""
    sizes = {n: sym(n) for n in ("N", "M", "C", "H", "W", "A", "B")}
    sizes |= {"Z": sym("Z", lower=0), "P": sym("P", lower=0), "K": sym("K", upper=64), "N3": sym("N3", lower=3)}
    sizes |= {"N4": sym("N4", lower=4, multiple_of=4), "N16": sym("N16", lower=16, multiple_of=16)}
    n, h = sizes["N"], sizes["H"]
    over = {"i": "N", "n": "N", "j": "M", "c": "C", "h": "H", "w": "W", "q": "A", "r": "B", "z": "Z", "k": "K"}
    over |= {"i3": "N3", "i4": "N4", "i16": "N16"}
    extents: dict[str, Any] = {name: sizes[size] for name, size in over.items()}
    extents |= {"a": (n + 3) // 4, "b": 4, "io": sizes["N4"] // 4, "ah": (h + 7) // 8, "bh": 8, "p": n + 2 * sizes["P"]}
    return sizes | {name: var(name, extent) for name, extent in extents.items()} | {"x": var("x"), "y": var("y")}


NAMES = the_names()

CLAIMS = {
    "always": """
        (N+3)//4*4 >= N
        (N+3)//4*4 < N + 4
        (N+3)//4*4 - N <= 3
        (N4+3)//4*4 == N4
        N4//4*4 == N4
        N4 % 4 == 0
        N16 % 8 == 0
        N16 // 16 * 16 == N16
        N16 // 4 % 4 == 0
        N // 4 * 4 <= N
        4*a + b >= 0
        4*a + b < N + 3
        4*a + b < (N+3)//4*4
        (4*a + b >= N) == (a == (N-1)//4 and b > (N-1)%4)
        (4*a + b >= N) == (a == N//4 and b >= N%4)
        (4*a + b)//4 == a
        (4*a + b)%4 == b
        4*io + b < N4
        i < N
        0 <= i and i < N
        i // 4 < (N+3)//4
        i // 4 <= (N-1)//4
        i4 // 4 < N4 // 4
        i // 4 * 4 + i % 4 == i
        i % N == i
        i // N == 0
        (i + 1) % N < N
        (i + N) % N == i
        (i + 1) % N == where(i == N - 1, 0, i + 1)
        (i + N - 1) % N == where(i == 0, N - 1, i - 1)
        ((i + 1) % N + N - 1) % N == i
        N - 1 - i >= 0
        N - 1 - (N - 1 - i) == i
        N - 1 - i < N
        (c*H + h) // H == c
        (c*H + h) % H == h
        c*H + h < C*H
        (c*H + h)*W + w < C*H*W
        ((c*H + h)*W + w) % W == w
        ((c*H + h)*W + w) // W == c*H + h
        ((c*H + h)*W + w) // W % H == h
        ((c*H + h)*W + w) // (H*W) == c
        ((c*H + h)*W + w) // W // H == c
        ((c*H + h)*W + w) % (H*W) == h*W + w
        ((n*C + c)*H + h)*W + w < N*C*H*W
        (((n*C + c)*H + h)*W + w) // (C*H*W) == n
        (((n*C + c)*H + h)*W + w) // (H*W) % C == c
        (((n*C + c)*H + h)*W + w) % W == w
        i // A * A + i % A == i
        i // A // B == i // (A*B)
        i % (A*B) // A == i // A % B
        i % (A*B) % A == i % A
        q*B + r < A*B
        (q*B + r)//B == q and (q*B + r)%B == r
        x // A * A <= x
        (x + A - 1)//A*A >= x
        (x + A - 1)//A*A - x < A
        (N + A - 1)//A*A >= N
        (N + A - 1)//A == (N - 1)//A + 1
        z < Z
        k < 64
        K <= 64 and K >= 1
        p - P < N + P
        minimum(i, N) == i
        maximum(i - N, 0) == 0
        minimum(4*a + b, N - 1) < N
        where(4*a + b < N, 4*a + b, 0) < N
        where(p >= P and p < N + P, p - P, 0) < N
        abs(i - j) < maximum(N, M)
        (ah*8 + bh)//8 == ah and ah < (H+7)//8
        i // 8 * 8 + 8 <= (N + 7)//8*8
        i*2 // 2 == i
        (2*i + 1) % 2 == 1
        i*i >= 0
        i*j < N*M
        N*M >= N
        N*N % N == 0
        N*M % M == 0
        (N*M) // N == M
        truncdiv(i, 4) == i // 4
        i ^ 0 == i
        (N + 3) // 4 >= 1
        N // (N + 1) == 0
        i // (N + 1) == 0
        (i + j) // (N + M) == 0
        (i % A) * B + r < A*B
        (x % A + A) % A == x % A
        (x % (4*A)) % 4 == x % 4
        (x % (4*A)) // 4 == x // 4 % A
        (4*A*x + y) % 4 == y % 4
        ((i % (A*B)) // B)*B + i % B == i % (A*B)
        N*N >= N
        N % 2 == 0 or N % 2 == 1
        i % 4 < N
        N & 3 == N % 4
        (N & 3) == N % 4
        (N >> 2) == N // 4
        (i << 2) >> 2 == i
        where(i < N, i, 0) == i
        x % A == x - x // A * A
        -((-N) // 4) == (N + 3)//4
        -((-x) // A) == (x + A - 1)//A
    """,
    "never": """
        4*a + b >= N + 3
        4*io + b >= N4
        i >= N
    """,
    "sometimes": """
        (N+3)//4*4 == N
        N // 4 * 4 == N
        4*a + b >= N
        4*a + b < N
        i // 4 < N // 4
        (i + 1) % N == 0
        c*H + h == i
        (x + y)//A == x//A + y//A
        k < 63
        p - P >= 0 and p - P < N
        ah*8 + bh >= H
        i*2 % N == i*2
        i*M + j == j*N + i
        i3 // 3 < N3 // 3
        N*N == N
        N % A == 0
    """,
}
ROWS = [(line.strip(), verdict) for verdict, lines in CLAIMS.items() for line in lines.strip().splitlines()]


def falsifies(goal: Term, witness: Any) -> bool:
    """Whether the values of a witness lie in the ranges and make the predicate false or undefined."""
    for node in the_leaves(goal):
        value = witness[node.payload if node.op == "var" else node.payload[0]]
        if node.op == "sym":
            _, lower, upper, multiple, _ = t.symbol_facts(node)
            assert lower is None or value >= lower
            assert (upper is None or value <= upper) and value % multiple == 0
        elif node.args:
            assert 0 <= value < node.args[0].evaluate(dict(witness))
    whole = t.logical_and(definedness([goal])[0], goal)
    return not whole.evaluate(dict(witness))


def the_leaves(goal: Term) -> list[Term]:
    return [node for node in postorder(goal) if node.op in ("var", "sym")]


@pytest.mark.parametrize(("text", "verdict"), ROWS)
def test_claims_about_all_sizes(text: str, verdict: str) -> None:  # feature: A14 D17
    goal = parse_expr(text, NAMES)
    assert decide(goal) == verdict
    if verdict == "sometimes":
        for side in (goal, t.logical_not(goal)):
            proof = prove(side)
            assert proof.verdict == "refuted" and proof.witness is not None
            assert falsifies(side, proof.witness), proof


MAPS = {
    "proved": """
        (i + 1) % N | i
        (i + N - 1) % N | i
        N - 1 - i | i
        i // 4 ; i % 4 | i
        i // A ; i % A | i
        2*i | i
        i*M + j | i j
        j*N + i | i j
        i ; (i + j) % M | i j
        (i + j) % N ; j | i j
        i*N + i | i
        i // 4 * 4 + i % 4 | i
        i // 8 * 16 + i % 8 | i
        n ; c // 4 ; h ; w ; c % 4 | n c h w
        n ; c // 16 ; h ; w ; c % 16 | n c h w
        (n*C + c)*H + h | n c h
        ((n*C + c)*H + h)*W + w | n c h w
        ((n*((C+3)//4) + c//4)*H + h)*4 + c%4 | n c h
        (c*H + h)//W ; (c*H + h)%W | c h
        (h*W + w)//(2*W) ; (h*W + w)%(2*W) | h w
        h // 2 ; w // 2 ; h % 2 ; w % 2 | h w
        (i + 2)//8 ; (i + 2)%8 | i
        i4 // 4 ; i4 % 4 | i4
        where(i < N//2, i, N - 1 - i + N//2) | i
        where(i == 0, N - 1, i - 1) | i
        a*4 + b | a b
        i*i | i
        i*(i+1)//2 | i
        (N + 3)//4 - 1 - a ; b | a b
        (i + A) % N | i
        i ^ 1 | i
        i // 3 ; i % 5 | i
    """,
    "refuted": """
        i // 4 | i
        i % 4 | i
        i % A | i
        (5*i) % N | i
        (2*i) % N | i
        i + j | i j
        (i + j) % N ; i | i j
        i // 8 * 4 + i % 8 | i
        i4 // 4 ; i4 % 2 | i4
        minimum(i, 5) | i
        abs(i - 3) | i
        (i*i) % N | i
        i*N + j | i j
        (3*i + j) % N ; i | i j
    """,
}
MAP_ROWS = [(line.strip(), verdict) for verdict, lines in MAPS.items() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("text", "verdict"), MAP_ROWS)
def test_maps_over_all_sizes(text: str, verdict: str) -> None:  # feature: A7 A14
    formulas, axes = text.rsplit("|", 1)
    outputs = [parse_expr(part, NAMES) for part in formulas.split(";")]
    box = [NAMES[name] for name in axes.split()]
    assert set(box) <= {leaf for o in outputs for leaf in the_leaves(o)}
    proof = ASK.injective(outputs, {})
    assert proof.verdict == verdict, proof
    if verdict == "refuted":
        assert proof.witness is not None
        first, second = proof.witness["first"], proof.witness["second"]
        assert first != second and all(first[n] == second[n] for n in first if NAMES[n].op == "sym")
        assert [o.evaluate(first) for o in outputs] == [o.evaluate(second) for o in outputs]


HARD = ["x*x*x + y*y*y != (x + y + 1)*(x + y + 1)*(x + y + 1) or x*y == 0 or x + y + 1 == 0", "(N*N*N - N) % 6 == 0"]


@pytest.mark.parametrize("text", HARD)
def test_what_is_out_of_reach_is_unknown_or_right(text: str) -> None:
    proof = prove(parse_expr(text, NAMES), budget=Budget(z3_rlimits=(100_000,)))
    assert proof.verdict in ("proved", "unknown")


def test_assumptions_about_sizes() -> None:
    """They are used; one that contradicts the declared bounds is refused, not believed."""
    n = NAMES["N"]
    inside = NAMES["a"] * 4 + NAMES["b"] < n
    assert decide(inside, None, t.compare("eq", n % 4, 0)) == "always"
    assert decide(inside, None, n > 8) == "sometimes"
    for contradiction in (n < 1, t.compare("eq", NAMES["N4"] % 2, 1), NAMES["i"] >= n):
        with pytest.raises(EqsatError, match="contradictory"):
            decide(inside, None, contradiction)


def test_sizes_of_zero_and_below() -> None:
    """The declared bounds of a symbol matter: what holds from 1 upwards may fail at 0 and below."""
    for low, verdict in ((1, "always"), (0, "sometimes"), (None, "sometimes")):
        size = sym("S", lower=low)
        assert decide(t.compare("lt", 0, size)) == verdict
    size = sym("S", lower=0)
    assert decide((size + 3) // 4 >= 1) == "sometimes"
    assert decide(var("x", size) < size) == "always", "an empty axis has no counterexample"

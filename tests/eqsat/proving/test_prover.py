"""The portfolio answers right, never contradicts an enumeration, and says unknown instead of failing."""

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.ir.enumerator import Enumerator
from eqsat.ir.errors import EqsatError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term, ax, load, sym, var, where
from eqsat.ir.terms.text import parse_expr
from eqsat.proving.bits import bits_equal, bits_injective
from eqsat.proving.digits import digits_injective
from eqsat.proving.isl import isl_claim, isl_injective
from eqsat.proving.points import Answer, confirms, confirms_collision
from eqsat.proving.prover import Budget, Portfolio, decide, prove, prove_equal
from eqsat.proving.question import Question, claim, collision, definedness, refinement
from eqsat.proving.range import settled
from eqsat.proving.z3 import Formulation
from eqsat.proving.z3_formulations import BITS, EUCLID, NATIVE, NONLINEAR, ask_once, z3_claim

IX, JX, N, C = var("i"), var("j"), sym("N"), sym("C")
ASK = Portfolio(cached=False)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", "off")


CLAIMS: list[tuple[str, Any, str | None, str]] = [
    ("x // 4 * 4 + x % 4 == x", None, None, "proved"),
    ("4*io + ii < 14", {"io": 4, "ii": 4}, None, "refuted"),
    ("4*io + ii < 14", {"io": 4, "ii": 4}, "not (io == 3 and ii >= 2)", "proved"),
    ("(4*io + ii < 14) == (not (io == 3 and ii >= 2))", {"io": 4, "ii": 4}, None, "proved"),
    ("n // 8 == 0", {"n": (0, None)}, "n < 8", "proved"),
    ("n // 8 == 0", {"n": (0, None)}, "n < 9", "refuted"),
    ("i % 48 < 48 and i // 48 <= 20833", {"i": 1000000}, None, "proved"),
    ("truncdiv(x, 3) == x // 3", {"x": (0, None)}, None, "proved"),
    ("truncdiv(x, 3) == x // 3", None, None, "refuted"),
    ("truncdiv(x, -3)*-3 + truncmod(x, -3) == x", None, None, "proved"),
    ("(x ^ (x >> 1)) >> 1 == (x >> 1) ^ (x >> 2)", {"x": 1 << 60}, None, "proved"),
    ("(x ^ 5) ^ 5 == x", {"x": 1000003}, None, "proved"),
    ("(x ^ y) == (x | y) - (x & y)", {"x": 1 << 20, "y": 1 << 20}, None, "proved"),
    ("x // y >= 0 if y > 0 else True", {"x": 100, "y": (None, None)}, None, "proved"),
    ("x // y >= 0", {"x": 100, "y": 10}, None, "refuted"),
    ("x // y == x // y", {"y": 10}, None, "refuted"),
    ("1 << x > 0", {"x": (-3, 10)}, None, "refuted"),
    ("abs(x) >= x and abs(x) >= -x", None, None, "proved"),
    ("minimum(x, y) + maximum(x, y) == x + y", None, None, "proved"),
    ("i < 0", {"i": 0}, None, "proved"),
    ("i < 5", {"i": 10, "k": 0}, None, "proved"),
    ("x*x >= 0", None, None, "proved"),
]


@pytest.mark.parametrize(("text", "ranges", "assuming", "verdict"), CLAIMS)
def test_claims(text: str, ranges: Any, assuming: str | None, verdict: str) -> None:  # feature: D17
    proof = prove(text, ranges, assuming)
    assert proof.verdict == verdict, proof
    assert bool(proof) == (verdict == "proved")
    if verdict == "refuted" and proof.witness is not None:
        at = dict(proof.witness)
        goal = parse_expr(text)
        defined = definedness([goal])[0]
        assert not (t.logical_and(defined, goal)).evaluate(at)


# -- rules with unknown positive constants ----------------------------------------------------------------------------

POSITIVE = "a > 0 and b > 0 and k > 0 and n > 0"
INNER = POSITIVE + " and 0 <= y and y < a"
DIGITS = POSITIVE + " and 0 <= y and y < a and 0 <= z and z < b"
RULES: list[tuple[str, str]] = [
    ("x//a*a + x%a == x", POSITIVE), ("(x//a)//b == x//(a*b)", POSITIVE), ("(x*a)//a == x", POSITIVE),
    ("(x*a)%a == 0", POSITIVE), ("(x*a + y)//a == x + y//a", POSITIVE), ("(x*a + y)%a == y%a", POSITIVE),
    ("(x*a + y)//a == x", INNER), ("(x*a + y)%a == y", INNER), ("y//a == 0", INNER), ("y%a == y", INNER),
    ("(x%a)%a == x%a", POSITIVE), ("(x%a)//a == 0", POSITIVE), ("(x*b)//(a*b) == x//a", POSITIVE),
    ("(x*a + y)//(a*b) == x//b", INNER), ("(x%a + y)%a == (x + y)%a", POSITIVE), ("(x + a)//a == x//a + 1", POSITIVE),
    ("(x + k*a)%a == x%a", POSITIVE), ("(a*n - 1 - x)//a == n - 1 - x//a", POSITIVE), ("(x//a)*a <= x", POSITIVE),
    ("(x + a - 1)//a*a >= x", POSITIVE), ("minimum(x, y)//a == minimum(x//a, y//a)", POSITIVE),
    ("(x < n*a) == (x//a < n)", POSITIVE), ("(x*a + y < n*a) == (x < n)", INNER),
    ("((x*a + y)*b + z)//b//a == x", DIGITS), ("((x*a + y)*b + z)//(b*a) == x", DIGITS),
]  # fmt: skip
SLOW_RULES: list[tuple[str, str]] = [
    ("(x%(a*b))//b == (x//b)%a", POSITIVE), ("(x%(a*b))%a == x%a", POSITIVE), ("(x%(k*b))%b == x%b", POSITIVE),
    ("(x%a)//b == (x//b)%(a//b)", POSITIVE + " and a%b == 0"), ("(x*b)%(a*b) == (x%a)*b", POSITIVE),
    ("(x*a)%(a*b) + y == (x*a + y)%(a*b)", INNER), ("(x//b)%a*b + x%b == x%(a*b)", POSITIVE),
    ("((x*a + y)*b + z)//b%a == y", DIGITS), ("(x + y)%a == (x%a + y%a)%a", POSITIVE),
]  # fmt: skip
UNSOUND: list[tuple[str, str]] = [
    ("(x + y)//a == x//a + y//a", POSITIVE), ("(x%a)%b == x%b", POSITIVE), ("(x*a + y)//a == x", POSITIVE),
    ("x//a*a + x%a == x", "a >= 0"), ("-(x//a) == (-x)//a", POSITIVE), ("(x*b + y)%(a*b) == (x%a)*b + y", INNER),
    ("(5*x)%a == (5*z)%a and x != z", "a > 0 and 0 <= x and x < a and 0 <= z and z < a"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "assuming"), RULES)
def test_rules_with_symbolic_constants(text: str, assuming: str) -> None:
    assert prove(text, None, assuming).verdict == "proved"


@pytest.mark.slow
@pytest.mark.parametrize(("text", "assuming"), SLOW_RULES)
def test_hard_rules_with_symbolic_constants(text: str, assuming: str) -> None:
    assert prove(text, None, assuming).verdict == "proved"


@pytest.mark.parametrize(("text", "assuming"), UNSOUND)
def test_unsound_rules_are_refuted(text: str, assuming: str) -> None:
    proof = prove(text, None, assuming)
    assert proof.verdict == "refuted" and proof.witness is not None
    assert max(abs(v) for v in proof.witness.values()) <= 10, "the counterexample is small"


def test_hints() -> None:
    hard, assuming = "((x*a + y)*b + z)//b%a == y", DIGITS
    a, b, x, y, z = (var(n) for n in "abxyz")
    lemma = t.compare("eq", ((x * a + y) * b + z) // b, x * a + y)
    small = Budget(z3_rlimits=(600_000,))
    assert prove(hard, None, assuming, budget=small, hints=[lemma]).verdict == "proved"
    wrong = t.compare("eq", y, t.index_const(0))
    assert prove("y == 0", {"y": 10}, None, hints=[wrong]).verdict == "refuted", "a hint must be proved first"


# -- maps -------------------------------------------------------------------------------------------------------------

REVERSE_16 = "(i % 16)*256 + (i // 16 % 16)*16 + i // 256"
REVERSE_4 = " + ".join(f"(i // {4**k} % 4)*{4 ** (9 - k)}" for k in range(10))
TILED = "((i // 48)*32 + j // 32)*1536 + (i % 48)*32 + j % 32"
MAPS: list[tuple[str, dict[str, int], bool]] = [
    ("n; c//16; h; w; c%16", {"n": 8, "h": 56, "w": 56, "c": 256}, True),
    ("o//16; i//16; h; w; i%16; o%16", {"o": 512, "i": 256, "h": 3, "w": 3}, True),
    ("((n*256 + c)*56 + h)*56 + w", {"n": 8, "c": 256, "h": 56, "w": 56}, True),
    ("(((n*16 + c//16)*56 + h)*56 + w)*16 + c%16", {"n": 8, "c": 256, "h": 56, "w": 56}, True),
    ("i//4; i%4", {"i": 17}, True),
    (TILED, {"i": 1000, "j": 1000}, True),
    ("i//4; i%3", {"i": 17}, False),
    ("(5*i) % 16", {"i": 16}, True),
    ("(5*i) % 4096", {"i": 4096}, True),
    ("(6*i) % 4096", {"i": 4096}, False),
    (REVERSE_16, {"i": 4096}, True),
    (REVERSE_4, {"i": 4**10}, True),
    ("i; j ^ (i % 8)", {"i": 1024, "j": 1024}, True),
    ("i; j ^ (i % 8)", {"i": 100000, "j": 100001}, True),
    ("i ^ j; i // 2", {"i": 1024, "j": 1024}, False),
    ("i ^ (i >> 1)", {"i": 1 << 40}, True),
    ("i; (i + j) % 64", {"i": 100000, "j": 64}, True),
    ("(35*i + j)//21; (35*i + j)%21", {"i": 6, "j": 35}, True),
    ("(3500*i + j)//2100; (3500*i + j)%2100", {"i": 60000, "j": 3500}, True),
    ("i%3; i%5", {"i": 15}, True),
    ("i%3; i%5", {"i": 16}, False),
    ("i % 7", {"i": 14}, False),
    ("i % 7000000", {"i": 14000000}, False),
    ("i // 2", {"i": 1 << 50}, False),
    ("3", {"i": 1}, True),
    ("3", {"i": 2}, False),
    ("3", {"i": 0}, True),
]


@pytest.mark.parametrize(("text", "extents", "expected"), MAPS)
def test_injective(text: str, extents: dict[str, int], expected: bool) -> None:  # feature: A7, A13
    outputs = [parse_expr(part) for part in text.split(";")]
    begun = time.perf_counter()
    proof = ASK.injective(outputs, {var(n): (0, e) for n, e in extents.items()})
    assert time.perf_counter() - begun < 3, proof
    assert proof.verdict == ("proved" if expected else "refuted"), proof
    if not expected:
        assert proof.witness is not None
        first, second = proof.witness["first"], proof.witness["second"]
        assert first != second and all(0 <= p[n] < e for p in (first, second) for n, e in extents.items())
        assert [o.evaluate(first) for o in outputs] == [o.evaluate(second) for o in outputs]


def test_the_witness_of_a_collision_is_the_first() -> None:  # feature: A7
    assert ASK.injective([IX % 7], {IX: (0, 14)}).witness == {"first": {"i": 0}, "second": {"i": 7}}


def test_undefined_maps_are_not_injective() -> None:
    proof = ASK.injective([IX, 12 // (JX - 2)], {IX: (0, 4), JX: (0, 4)})
    assert proof.verdict == "refuted" and proof.witness is not None and proof.witness["j"] == 2
    assert "not defined" in proof.note


def test_symbolic_maps() -> None:
    size = sym("B")
    o, i, k = var("o", N), var("i", C), var("k", size)
    assert ASK.injective([o * C + i], {}).verdict == "proved"
    assert ASK.injective([(o * C + i) * size + k], {}).verdict == "proved"
    assert ASK.injective([var("x") // C, var("x") % C], {}).verdict == "proved"
    proof = ASK.injective([(5 * i) % C], {})
    assert proof.verdict == "refuted" and proof.witness is not None
    assert proof.witness["first"]["C"] == proof.witness["second"]["C"], "both points have the same sizes"
    assert ASK.injective([i], {}).verdict == "proved", "sizes may differ between questions, not between points"


# -- data, loads, definedness -----------------------------------------------------------------------------------------


def data(name: str, dtype: str) -> Term:
    return t.make("var", (), name, dtype)


def test_fixed_width_integers_wrap() -> None:
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        x, two = data("x", dtype), t.const(2, dtype)
        proof = ASK.equal((x * two) // two, x, {})
        assert proof.verdict == "refuted" and proof.witness is not None, dtype
        y, z = data("y", dtype), data("z", dtype)
        assert ASK.equal(y + x, x + y, {}).verdict == "proved"
        assert ASK.equal((x - y) + z, x - (y - z), {}).verdict == "proved"
    x = data("x", "int8")
    assert ASK.equal(abs(x), t.binary("max", x, -x), {}).verdict == "proved", "abs(-128) is -128"
    assert ASK.prove(t.compare("le", t.const(0, "int8"), abs(x)), {}).witness == {"x": -128}


def test_floats_are_not_reals() -> None:
    x, y = data("x", "float32"), data("y", "float32")
    zero = t.const(0, "float32")
    assert ASK.prove(t.compare("eq", x, x), {}).verdict == "refuted", "NaN"
    assert ASK.equal(x, x, {}).verdict == "proved"
    assert ASK.equal(x * zero, zero, {}).verdict == "refuted"
    assert ASK.equal(t.neg(t.neg(x)), x, {}).verdict == "proved"
    assert ASK.equal(x + y, y + x, {}).verdict == "proved"
    assert ASK.equal(x + zero, x, {}).verdict == "refuted", "-0.0 + 0.0 is 0.0"
    assert ASK.equal((x + y) - y, x, {}).verdict == "refuted"
    half = data("h", "float16")
    assert ASK.equal(t.binary("max", half, half), half, {}).method == "enumeration"


def test_finite_is_recorded() -> None:
    x, zero = load(0, (IX,), "float32"), t.const(0, "float32")
    assert ASK.equal(x * zero, zero, {IX: (0, None)}).verdict == "unknown"
    proof = ASK.equal(x * zero, zero, {IX: (0, None)}, finite=True)
    assert proof.verdict == "proved" and any(a.startswith("finite") for a in proof.assumptions)
    plain = ASK.equal(x + zero, x + zero, {IX: (0, None)}, finite=True)
    assert plain.verdict == "proved" and plain.assumptions == ()
    assert ASK.equal(x, zero, {IX: (0, None)}, finite=True).verdict == "unknown"


def test_what_is_not_known_is_never_a_refutation() -> None:
    x = load(0, (IX,), "int32")
    box = {IX: (0, 8)}
    assert ASK.prove(t.compare("eq", x, x), box, shapes={0: (8,)}).verdict == "proved"
    assert ASK.prove(t.compare("eq", x, x), box).verdict == "unknown", "the load may be out of range"
    assert ASK.prove(t.compare("eq", x, load(0, (IX + 1,), "int32")), box, shapes={0: (9,)}).verdict == "unknown"
    shifted = load(0, (4 * (IX // 4) + IX % 4,), "int32")
    assert ASK.equal(x, shifted, box).verdict == "proved"
    one, other = t.hole(1, "int32", (IX,)), t.hole(2, "int32", (IX,))
    assert ASK.equal(one, one + t.const(0, "int32"), box).verdict == "proved"
    assert ASK.equal(one, other, box).verdict == "unknown"


def test_definedness_is_part_of_equality() -> None:
    zero, one = t.const(0, "int32"), t.const(1, "int32")
    x = load(0, (IX,), "int32")
    guarded, masked = where(IX < 14, x, zero), x * where(IX < 14, one, zero)
    box = {IX: (0, 16)}
    assert ASK.equal(guarded, masked, box).verdict == "unknown", "reads past the buffer"
    assert ASK.equal(guarded, masked, box, shapes={0: (14,)}).verdict != "proved"
    assert ASK.equal(guarded, masked, box, shapes={0: (16,)}).verdict == "proved"
    assert ASK.equal(masked, guarded, box).verdict == "proved"
    assert ASK.equal(JX // JX, t.index_const(1), {}).verdict == "proved"
    assert ASK.equal(t.index_const(1), JX // JX, {}).verdict == "refuted"


def test_tables() -> None:
    import numpy as np

    table = table_load(np.array([3, 1, 2, 0]), IX)
    assert ASK.injective([table], {IX: (0, 4)}).verdict == "proved"
    assert ASK.prove(table < 4, {IX: (0, 4)}).verdict == "proved"
    assert ASK.prove(table < 4, {IX: (0, 5)}).witness == {"i": 4}, "out of range"
    below = Portfolio(Budget(points=1, few_points=1), cached=False)
    assert below.prove(where(IX < 4, table, t.index_const(0)) < 4, {IX: (0, 9)}).verdict == "proved"


def test_ramps_are_lane_by_lane() -> None:
    vector = t.ramp(4 * IX, 1, 4)
    assert ASK.prove(t.compare("lt", vector, t.index_const(16)), {IX: (0, 4)}).verdict == "proved"
    assert ASK.prove(t.compare("lt", vector, t.index_const(15)), {IX: (0, 4)}).witness == {"i": 3, "lane": 3}


def test_symbols_bring_their_bounds() -> None:
    n = sym("n", lower=1, upper=None, multiple_of=4)
    i = var("i", n)
    assert ASK.prove(t.compare("eq", n % 4, t.index_const(0)), {}).verdict == "proved"
    assert ASK.prove(i // 4 < n // 4, {}).verdict == "proved"
    assert ASK.prove(i // 3 < n // 3, {}).verdict == "refuted"
    assert ASK.prove(i < 100, {}).verdict == "refuted"
    assert ASK.prove(ax(0, N) < N, {}).verdict == "proved"


# -- the public functions ---------------------------------------------------------------------------------------------


def test_decide() -> None:
    assert decide("i < 16", {"i": 16}) == "always"
    assert decide("i > 16", {"i": 16}) == "never"
    assert decide("i > 8", {"i": 16}) == "sometimes"
    assert decide("i > 8", {"i": 16}, "i > 12") == "always"
    assert decide("12 // i > 0", {"i": 16}) == "sometimes", "undefined at 0"
    assert decide("12 // i < 0", {"i": 16}) == "never"
    assert decide(t.compare("eq", load(0, (IX,), "int32"), t.const(0, "int32")), {"i": 4}) == "unknown"


def test_contradictory_assumptions_are_rejected() -> None:
    for text, ranges in (("i > 20", {"i": 16}), ("x > y and y > x", {}), ("x % 4 == 1 and x % 2 == 0", None)):
        with pytest.raises(EqsatError, match="contradictory"):
            prove("i < 4", ranges, text)
    assert prove("i < 4", {"i": 0}, "i < 2").verdict == "proved", "an empty box contradicts nothing"
    assert ASK.prove(IX < 4, {IX: (0, 16)}, IX > 20).note == "the assumptions never hold"


def test_ranges_and_names() -> None:
    assert prove(var("i", 16) < 16).verdict == "proved"
    assert prove(var("i", 16) < 16, {"i": 17}).witness == {"i": 16}
    assert prove(var("i", N) // 4 <= N // 4).verdict == "proved"
    assert prove("i < N", {"i": N, "N": (1, None)}).verdict == "proved"
    assert prove(var("i", 16) < 8, None, "i < 8").verdict == "proved", "text means the same axis"
    with pytest.raises(EqsatError, match="two different axes"):
        prove(var("i", 16) < var("i", 8))
    with pytest.raises(EqsatError, match="range of i"):
        prove("i < 4", {"i": "many"})
    with pytest.raises(EqsatError, match="not bool"):
        prove("i + 4")
    proof = prove("i < 8", {"i": 16}, "i < 4")
    assert proof.assumptions == ("i < 4",) and proof.seconds > 0
    assert prove_equal("(8*x + y) // 8", "x", {"y": 8}).verdict == "proved"


def test_the_box_of_a_question_counts_and_not_the_extent_of_its_axis() -> None:
    n = t.sym("N")
    for axis, limit in ((t.ax(0, 14), t.index_const(14)), (t.ax(0, n), n)):
        assert Portfolio(cached=False).prove(axis < limit, {}).verdict == "proved"
        wider = settled(claim(axis < limit, {axis: (0, 20)}).question)
        assert wider.goal is not t.TRUE
        assert settled(claim(axis < limit, {axis: (0, None)}).question).goal is not t.TRUE


def test_spent_budgets_are_unknown() -> None:
    stingy = Portfolio(Budget(points=1, few_points=1, isl_operations=1, z3_rlimits=(1,), rules=False), cached=False)
    assert stingy.prove(t.compare("eq", (IX * IX + IX) % 2, t.index_const(0)), {}).verdict == "unknown"
    assert stingy.prove(t.compare("eq", IX // 3 // 5, IX // 15), {}).verdict == "unknown"
    flat = IX * 3 + JX
    assert stingy.injective([flat // 2, flat % 2], {IX: (0, 1 << 30), JX: (0, 3)}).verdict == "unknown"


def test_large_numbers_do_not_overflow() -> None:
    big = 1 << 62
    assert ASK.prove(t.compare("eq", (IX * big) // big, IX), {IX: (0, 100)}).verdict == "proved"
    assert ASK.prove((IX * big) < 2 * big, {IX: (0, 100)}).verdict != "proved"
    assert ASK.prove(IX * IX >= IX, {IX: (0, 1 << 70)}).verdict == "proved"


def test_solvers_load_on_first_use() -> None:
    code = "import sys, eqsat.proving.prover as p; p.Portfolio(); print('z3' in sys.modules, 'islpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# -- agreement with enumeration ---------------------------------------------------------------------------------------

NUMBERS = st.integers(-3, 9)


def terms(depth: int) -> st.SearchStrategy[Term]:
    leaf = st.one_of(st.sampled_from([IX, JX]), NUMBERS.map(t.index_const))
    if depth == 0:
        return leaf
    below = terms(depth - 1)
    ops = st.sampled_from(["add", "sub", "mul", *t.INDEX_BINARY])
    build = {"add": t.add, "sub": t.sub, "mul": t.mul}

    def binary(op: str, a: Term, b: Term) -> Term:
        if op in ("shl", "shr"):
            b = t.binary("mod", b, t.index_const(5))
        return build[op](a, b) if op in build else t.binary(op, a, b)

    def choice(c: Term, a: Term, b: Term) -> Term:
        return where(c, a, b)

    chosen = st.builds(choice, predicates(0), below, below)
    return st.one_of(leaf, st.builds(binary, ops, below, below), chosen)


def predicates(depth: int) -> st.SearchStrategy[Term]:
    compared = st.builds(t.compare, st.sampled_from(["lt", "le", "eq", "ne"]), terms(depth), terms(depth))
    if depth == 0:
        return compared

    def both(a: Term, b: Term) -> Term:
        return t.logical_and(a, b)

    def either(a: Term, b: Term) -> Term:
        return t.logical_or(a, b)

    pairs = [st.builds(both, compared, compared), st.builds(either, compared, compared)]
    return st.one_of(compared, *pairs, compared.map(t.logical_not))


BOX = {IX: (-2, 5), JX: (0, 8)}
WITHOUT_POINTS = Portfolio(Budget(points=0, few_points=0, isl_operations=100_000, z3_rlimits=(100_000,)), cached=False)


def check(question: Question, answer: Answer, truth: str) -> None:
    """A member may give up; its proofs must be true, and its refutations must be points."""
    if answer.verdict == "proved":
        assert truth == "proved", f"{answer.method} proves {question}"
    if answer.verdict == "refuted":
        assert answer.witness is not None
        if answer.second is None:
            confirmed = confirms(question, answer.witness)
        else:
            confirmed = confirms_collision(question, answer.witness, answer.second)
        assert confirmed and truth == "refuted", f"{answer.method} refutes {question} at {answer.witness}"


@settings(max_examples=25)
@given(predicates(2), predicates(1))
def test_members_agree_with_enumeration(goal: Term, assuming: Term) -> None:
    for given_too in (None, assuming):
        asked = claim(goal, BOX, given_too)
        known = t.TRUE if given_too is None else t.logical_and(definedness([given_too])[0], given_too)
        truth = Enumerator().prove(t.logical_or(t.logical_not(known), goal), BOX).verdict
        question = settled(asked.question)
        if any(v.empty for v in question.variables):
            assert truth == "proved"
            continue
        check(question, isl_claim(question, 100_000), truth)
        found = bits_equal(question)  # its refutations are candidates: they may lie outside of the box
        assert found.verdict != "proved" or truth == "proved", question
        check(question, z3_claim(question, (100_000,)), truth)
        assert ASK.prove(goal, BOX, given_too).verdict == truth


@settings(max_examples=40)
@given(predicates(2), st.sampled_from([*NONLINEAR, BITS, BITS]))
def test_every_formulation_agrees_with_enumeration(goal: Term, form: Formulation) -> None:
    truth = Enumerator().prove(goal, BOX).verdict
    question = claim(goal, BOX).question
    check(question, ask_once(question, question.goal, form, frozenset(), 100_000), truth)


DIVISIONS = [
    "i // 3 * 3 + i % 3 == i and 0 <= i % 3 and i % 3 < 3",
    "i // -3 * -3 + i % -3 == i and i % -3 <= 0 and -3 < i % -3",
    "truncdiv(i, 3)*3 + truncmod(i, 3) == i and abs(truncmod(i, 3)) < 3 and abs(truncdiv(i, 3))*3 <= abs(i)",
    "truncdiv(i, -3) == -truncdiv(i, 3) and truncdiv(-i, 3) == -truncdiv(i, 3)",
    "i // j * j + i % j == i if j != 0 else True",
]


@pytest.mark.parametrize("form", [NATIVE, EUCLID, BITS], ids=lambda f: f.name)
@pytest.mark.parametrize("text", DIVISIONS)
def test_division_of_negative_numbers(text: str, form: Formulation) -> None:
    names = {"i": IX, "j": JX}
    question = claim(parse_expr(text, names), {IX: (-9, 10), JX: (-4, 5)}).question
    answer = ask_once(question, question.goal, form, frozenset(), 4_000_000)
    assert answer.verdict == "proved", (answer, form)
    wrong = claim(parse_expr(text.replace("==", "!=", 1), names), {IX: (-9, 10), JX: (-4, 5)}).question
    assert ask_once(wrong, wrong.goal, form, frozenset(), 4_000_000).verdict == "refuted"


def bit_terms() -> st.SearchStrategy[Term]:
    """Sums, shifts and masks of one number, some of which carry."""
    number = st.integers(0, 15).map(t.index_const)

    def shifted(right: int, left: int) -> Term:
        return (IX >> right) << left

    def masked(mask: int, left: int) -> Term:
        return (IX & mask) << left

    def digit(weight: int, radix: int, stride: int) -> Term:
        return IX // weight % radix * stride

    small = st.integers(0, 3)
    digits = st.builds(digit, st.integers(1, 8), st.integers(1, 8), st.integers(1, 9))
    piece = st.one_of(st.builds(shifted, small, small), st.builds(masked, st.integers(0, 15), small), digits, number)
    joined = st.sampled_from(["bitxor", "bitor", "bitand", "add"])

    def join(op: str, a: Term, b: Term) -> Term:
        return a + b if op == "add" else t.binary(op, a, b)

    return st.builds(join, joined, piece, piece)


@settings(max_examples=80)
@given(bit_terms(), bit_terms())
def test_rank_agrees_with_enumeration(a: Term, b: Term) -> None:
    box = {IX: (0, 16)}
    single = collision([a, b], box).question
    check(single, bits_injective(single), Enumerator().injective([a, b], box).verdict)
    double = claim(t.compare("eq", a, b), box).question
    check(double, bits_equal(double), Enumerator().prove(t.compare("eq", a, b), box).verdict)


@settings(max_examples=40)
@given(terms(2), terms(2))
def test_refinement_agrees_with_enumeration(a: Term, b: Term) -> None:
    question = settled(refinement(a, b, BOX).question)
    defined_a, defined_b = definedness([a, b])
    goal = t.logical_or(t.logical_not(defined_a), t.logical_and(defined_b, t.compare("eq", a, b)))
    truth = Enumerator().prove(goal, BOX).verdict
    assert ASK.equal(a, b, BOX).verdict == truth
    if not any(v.empty for v in question.variables):
        check(question, z3_claim(question, (100_000,)), truth)


@settings(max_examples=40)
@given(st.lists(terms(2), min_size=1, max_size=3), st.integers(1, 9), st.integers(1, 9))
def test_injectivity_agrees_with_enumeration(outputs: list[Term], rows: int, columns: int) -> None:
    box = {IX: (0, rows), JX: (0, columns)}
    defined = Enumerator().prove(t.logical_and(*definedness(outputs)), box).verdict
    truth = Enumerator().injective(outputs, box).verdict if defined == "proved" else "refuted"
    assert ASK.injective(outputs, box).verdict == truth
    assert WITHOUT_POINTS.injective(outputs, box).verdict in (truth, "unknown")
    if defined == "proved":
        question = collision(outputs, box).question
        check(question, digits_injective(question), truth)
        check(question, isl_injective(question, 100_000), truth)
        found = bits_injective(question)
        assert found.verdict != "proved" or truth == "proved", f"{outputs}"


@settings(max_examples=150)
@given(st.data())
def test_digit_maps(draw: st.DataObject) -> None:
    """Maps built from digits, mostly injective: where the certificate must not say yes too often."""
    extent = draw.draw(st.integers(2, 60))
    factors = draw.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3))
    digits: list[Term] = []
    weight = 1
    for f in factors:
        digits.append(IX // weight % draw.draw(st.sampled_from([f, f, f, 2 * f, 3])))
        weight *= draw.draw(st.sampled_from([f, f, f, 2]))
    digits.append(IX // weight)
    strides = draw.draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12]), min_size=4, max_size=4))
    flat = t.linear(0, zip(strides, digits, strict=False))
    for outputs in (digits, digits[:-1], [flat], [flat, digits[0]]):
        question = collision(outputs, {IX: (0, extent)}).question
        truth = Enumerator().injective(outputs, {IX: (0, extent)}).verdict
        check(question, digits_injective(question), truth)


def test_a_variable_that_settles_away_contradicts_nothing() -> None:
    """`i == i` drops out, and the range of i was stated in too few bits for it: then everything was proved."""
    i = var("i", 16)
    for value in (t.load("x", (), "int32"), t.load("x", (), "float32")):
        claim = t.logical_not(t.logical_and(value < t.const(0, value.dtype), t.compare("eq", i, i)))
        assert Portfolio(cached=False).prove(claim, {}).verdict != "proved"
    n = t.sym("n", 1000)
    claim = t.logical_not(t.logical_and(t.load("x", (), "int32") < t.const(0, "int32"), t.compare("eq", n, n)))
    assert Portfolio(cached=False).prove(claim, {}).verdict != "proved"


def test_cells_at_numbers_have_no_value_for_the_rules() -> None:
    """Whether `x[0]` is inside of x, and whether two floats are the same, are questions that numpy is not asked."""
    zero = t.const(0, "int32")
    first, second = load("x", [t.index_const(0)], "int32"), load("x", [t.index_const(1)], "int32")
    assert decide(t.compare("eq", first, second), None, t.compare("eq", second, zero)) == "unknown"
    a, b = load("x", [t.index_const(0)], "float32"), load("x", [t.index_const(1)], "float32")
    one = t.compare("eq", a, t.const(1.0, "float32"))
    proof = Portfolio(cached=False).equal(a - t.const(0.0, "float32"), b, {}, one)
    assert proof.verdict == "unknown"

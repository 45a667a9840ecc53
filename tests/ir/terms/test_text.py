"""Printed terms read back as the same terms; what is not in the language is refused."""

import ast
from random import Random

import pytest
from hypothesis import given
from term_strategies import DATA, TABLE, names_of, terms

from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, parse_expr

SOURCES = {f"${n}": (n, dtype) for n, dtype in enumerate(DATA)} | {TABLE.name: (TABLE, "index")}


def reread(text: str, term: Term) -> Term:
    return parse_expr(text, names_of(term), SOURCES)


@given(terms(steps=16))
def test_text_round_trip(term: Term) -> None:
    assert reread(format_term(term, limit=None), term) is term


def test_shared_and_deep_terms_have_texts_of_their_size() -> None:
    shared = deep = t.var("i")
    for n in range(3000):
        deep = t.binary("floordiv", deep, 3) + t.var("j") if n % 2 else t.binary("mod", deep, n + 2)
    for _ in range(200):
        shared = shared * shared + 1
    for term in (shared, deep):
        text = format_term(term, limit=None)
        assert len(text) < 400_000
        assert reread(text, term) is term
        assert str(term).startswith(f"<{term.op} of ")


i, j, n = t.var("i"), t.var("j"), t.sym("N")
PRINTED = [
    (i // 4 * 4 + i % 4, "i // 4 * 4 + i % 4"),
    (-(i // 4), "-(i // 4)"),
    (-(i // 4) * 4 + i % 4, "i % 4 - i // 4 * 4"),
    (-(i % 4) * 4, "-4*(i % 4)"),
    (-(i * j), "-i*j"),
    (5 - i, "5 - i"),
    (-i - 5, "-i - 5"),
    (i - 5 * j, "i - 5*j"),
    ((i + 1) * (j + 2), "(i + 1)*(j + 2)"),
    (2 * i // (3 * j), "2*i // (3*j)"),
    ((-2 * i) // 3, "(-2*i) // 3"),
    (i // (j // 2), "i // (j // 2)"),
    ((i // j) // 2, "i // j // 2"),
    ((i & 3) + 1, "(i & 3) + 1"),
    ((i & 3) * 2, "2*(i & 3)"),
    (i << 2 | j, "i << 2 | j"),
    (i // -4, "i // (-4)"),
    (t.logical_not(t.logical_or(i < j, j < n)), "not (i < j or j < N)"),
    ((i < j) == (j < n), "(i < j) == (j < N)"),
    (t.where(i < 4, i, -1), "where(i < 4, i, -1)"),
    (t.const(-0.0, "float32"), "float32(-0.0)"),
    (t.const(float("nan"), "float16"), "float16(nan)"),
    (t.const(float("-inf"), "float64"), "float64(-inf)"),
    (t.const(0.1, "float32"), "float32(0.1)"),
    (t.const(5, "float32") ** (-t.const(2, "float32")), "float32(5.0)**-float32(2.0)"),
    (t.load(0, [i, j], "float32"), "$0[i, j]"),
    (t.load(0, [], "float32"), "$0[()]"),
    (t.ramp(i, 2, 4), "ramp(i, 2, 4)"),
]


@pytest.mark.parametrize(("term", "text"), PRINTED, ids=[text for _, text in PRINTED])
def test_printed_form(term: Term, text: str) -> None:
    assert str(term) == text
    assert parse_expr(text, names_of(term), {"$0": (0, "float32")}) is term
    ast.parse(text.replace("$", "_"))


def test_huge_numbers_print_and_read() -> None:
    term = i + (7 << 30_000)
    assert parse_expr(str(term)) is term


READ = [
    ("0 <= i < 4", t.logical_and(i >= 0, i < 4)),
    ("i if i > 2 else j", t.where(i > 2, i, j)),
    ("a = i + 1; b = a * a\nb - a", (i + 1) * (i + 1) - (i + 1)),
    ("+i", i),
    ("~(i < 4)", t.logical_not(i < 4)),
    ("min(i, max(j, 3))", t.binary("min", i, t.binary("max", j, 3))),
]


@pytest.mark.parametrize(("text", "term"), READ, ids=[text for text, _ in READ])
def test_reads(text: str, term: Term) -> None:
    assert parse_expr(text) is term


REFUSED = [
    "", "   ", "i +", "i.real", "[i]", "lambda: i", "f(i)", "__import__('os')", "i[0]", "open('x')", "i := 3", "0.5",
    "i in j", "i is j", "(i for i in j)", "f'{i}'", "i; j = 3", "import os", "x.y = 3; i", "a = b = 3; a", "'a'",
    "min(i, j, n)",
    "where(i < 3, i)", "hole('a', 'float32')", "float32('1')", "cast(i, int8)", "cast(i, 'nonsense')", "i\0",
    "(" * 5000 + "i" + ")" * 5000, "-" * 100_000 + "i", "not " * 50_000 + "i", "9" * 5000, "i" * 2_000_000,
    "True + 1", "i + (j < 3)", "i / 2", "minimum(*i, j)", "abs(x=i)", "await i", "yield", "i if j", "~float32(1.0)",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=[text[:20] for text in REFUSED])
def test_refuses(text: str) -> None:
    with pytest.raises(EqsatError):
        parse_expr(text)


def test_errors_name_the_column() -> None:
    with pytest.raises(ParseError, match="column 5"):
        parse_expr("i + j.real")


@pytest.mark.parametrize("seed", range(200))
def test_products_of_sums_are_read_as_they_were(seed: int) -> None:
    """A number before a sum would be multiplied into it: 6*(n + 2)*m is (6*n + 12)*m."""
    random = Random(seed)
    n, m, i = t.var("n"), t.var("m"), t.var("i", 5)

    def linear() -> Term:
        return random.choice([1, 2, 3, -1, 6]) * random.choice([n, m, i, i // 2, n % 3]) + random.choice([0, 0, 2, -2])

    term = linear()
    for _ in range(random.randint(1, 3)):
        other = linear() if random.random() < 0.7 else t.index_const(random.choice([2, 6, -1, -3]))
        term = term * other if random.random() < 0.7 else term + other * linear()
    assert parse_expr(str(term), {"n": n, "m": m, "i": i}) is term


def test_the_opposite_bits_of_an_index_are_a_difference() -> None:
    """`~x` is -1 - x for numbers without end, as Python has it, beside `&`, `|` and `^`."""
    x = t.var("x")
    assert parse_expr("~x") is -1 - x and parse_expr("~~x") is x and parse_expr("~5") is t.index_const(-6)
    assert [(~x).same(-1 - x), str(~x)] == [True, "-x - 1"]
    for wrong in ("~float32(1.0)", "~x.y"):
        with pytest.raises(EqsatError):
            parse_expr(wrong)

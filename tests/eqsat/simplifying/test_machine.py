"""Machine integers simplified as indices: where no value leaves its type, and nowhere else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import parse_expr
from eqsat.simplifying.simplify import simplify_term


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """A discarded result (UnsoundWarning) fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


AXIS = t.var("i", 12)
LEAST = {"int8": st.integers(-9, 20), "uint8": st.integers(0, 20)}
BITS = np.arange(256, dtype=np.uint8)


def cell(name: str, dtype: str) -> Term:
    return t.load(name, (), dtype)


def small(name: str, dtype: str = "int32", low: int = 0, high: int = 8) -> Term:
    """low <= name < high."""
    x = cell(name, dtype)
    return t.logical_and(t.const(low, dtype) <= x, x < t.const(high, dtype))


def of(text: str, dtype: str = "int32") -> Term:
    """A text over cells `x`, `y` and numbers of one type."""
    known = {t.var(name): t.var(name) for name in "xy"}

    def data(term: Term) -> Term:
        if term in known:
            return cell(term.payload, dtype)
        if term.op == "const":
            return t.const(int(term.payload), dtype) if term.dtype == "index" else term
        if term.op == "sum":
            constant, items = t.linear_parts(term)
            parts = [data(x) if k == 1 else t.mul(data(x), t.const(k, dtype)) for k, x in items]
            whole = parts[0]
            for part in parts[1:]:
                whole = whole + part
            return whole + t.const(constant, dtype) if constant else whole
        if term.op in t.COMPARE:
            return t.compare(term.op, *map(data, term.args))
        return (
            t.rebuild(term, [data(a) for a in term.args])
            if term.op in ("and", "or", "where", "not")
            else t.binary(term.op, *map(data, term.args))
        )

    return data(parse_expr(text))


# feature: E3
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("x // 8", "int32(0)"),
        ("x % 8", "x[()]"),
        ("(x + 3) // 16", "int32(0)"),
        ("(x * 8 + y) // 8", "x[()]"),
        ("(x * 8 + y) % 8", "y[()]"),
        ("minimum(x, 20) + maximum(y, 7)", "x[()] + int32(7)"),
        ("where(x < 8, x % 16, y)", "x[()]"),
        ("x // 4 * 4 + x % 4", "x[()]"),
        ("x + 3 < 11 and y < 4", "y[()] < int32(4)"),
        ("(x + y) // 4", "(y[()] + x[()]) // int32(4)"),
    ],
)
def test_cells_of_a_small_range(text: str, result: str) -> None:
    known = t.logical_and(small("x"), small("y"))
    assert str(simplify_term(of(text), {}, known)) == result


def test_an_operation_that_may_wrap_is_kept() -> None:
    x, one = cell("x", "int8"), t.const(1, "int8")
    up, high = t.compare("lt", x, x + one), t.const(100, "int8")
    assert simplify_term(up) is up  # false at 127
    assert simplify_term(up, {}, x < high) is t.TRUE
    doubled = (x + x) // t.const(2, "int8")
    assert simplify_term(doubled, {}, small("x", "int8", 0, 100)) is doubled  # 70 + 70 is -116
    assert simplify_term(doubled, {}, small("x", "int8", 0, 64)) is x
    u = cell("u", "uint8")
    below = u - t.const(1, "uint8") < u
    assert simplify_term(below) is below  # false at 0
    assert simplify_term(below, {}, small("u", "uint8", 1, 255)) is t.TRUE


def test_the_least_number_by_minus_one_is_no_quotient() -> None:
    x, minus = cell("x", "int8"), t.const(-1, "int8")
    for e in (abs(x), x // minus):  # of -128: -128
        positive = t.const(-128, "int8") < (abs(x) if e.op == "abs" else -(x // minus))
        assert simplify_term(positive) is not t.TRUE
    assert simplify_term(t.const(0, "int8") <= abs(x), {}, t.const(-128, "int8") < x) is t.TRUE


def test_loops_as_machine_integers() -> None:
    i = t.cast_to(AXIS, "int32")
    assert str(simplify_term(i // t.const(16, "int32"))) == "int32(0)"
    back = i // t.const(4, "int32") * t.const(4, "int32") + i % t.const(4, "int32")
    assert simplify_term(back) is i
    wide = t.cast_to(t.var("k", 1000), "int8") // t.const(4, "int8")
    assert simplify_term(wide) is wide


def test_an_index_of_a_cell_by_a_fact_of_its_type() -> None:
    x = cell("x", "int32")
    e = t.cast_to(x, "index") // 8
    assert str(simplify_term(e, {}, small("x"))) == "0"


def test_a_zero_divisor_stays_undefined_or_becomes_defined() -> None:
    x, y = cell("x", "int32"), cell("y", "int32")
    e = x // y
    assert simplify_term(e, {}, t.logical_and(small("x"), small("y"))) is e
    assert str(simplify_term(e, {}, t.logical_and(small("x"), small("y", low=8, high=20)))) == "int32(0)"


def test_a_remainder_of_a_cell_that_is_assumed() -> None:
    """Where x % 4 == 1, x is 4*q + 1: q has a name that no user gives, as x has."""
    x, four = cell("x", "int8"), t.const(4, "int8")
    known = t.logical_and(t.compare("eq", x % four, t.const(1, "int8")), x < t.const(100, "int8"))
    assert str(simplify_term((x + t.const(3, "int8")) % four, {}, known)) == "int8(0)"


def test_a_hole_is_no_number() -> None:
    hole = t.hole(0, "int32", ())
    e = (hole + cell("x", "int32")) // t.const(8, "int32")
    assert simplify_term(e, {}, small("x")) is e


# -- every pair of bytes ----------------------------------------------------------------------------------------------


def constant(dtype: str, numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Term]:
    return st.builds(t.const, numbers, st.just(dtype))


def numbers(dtype: str) -> st.SearchStrategy[Term]:
    cells = st.sampled_from([cell("x", dtype), cell("y", dtype)])
    other = [
        t.cast_to(AXIS, dtype),
        t.cast_to(AXIS + 3, dtype),
        t.cast_to(t.cast_to(cell("z", "int16"), "index"), dtype),
    ]
    return st.one_of(cells, cells, cells, st.sampled_from(other), constant(dtype, LEAST[dtype]))


def wider(dtype: str) -> Callable[[st.SearchStrategy[Term]], st.SearchStrategy[Term]]:
    size = constant(dtype, st.sampled_from([1, 2, 3, 4, 8, 16]))

    def grown(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        divided = st.builds(t.binary, st.sampled_from(["floordiv", "mod", "truncdiv", "truncmod"]), parts, size | parts)
        ring = [st.builds(f, parts, parts) for f in (t.add, t.sub, t.mul)]
        other = st.builds(t.binary, st.sampled_from(["min", "max", "bitand", "bitxor"]), parts, parts)
        chosen = st.builds(t.where, predicates(parts), parts, parts)
        return st.one_of(divided, *ring, other, chosen, st.builds(t.unary, st.sampled_from(["neg", "abs"]), parts))

    return grown


def predicates(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    read = parts.map(lambda x: t.cast_to(x, "index"))
    operator = st.sampled_from(["lt", "le", "eq", "ne"])
    return st.builds(t.compare, operator, parts, parts) | st.builds(t.compare, operator, read, st.integers(-3, 20))


def facts(dtype: str) -> st.SearchStrategy[Term]:
    def of_cell(name: str) -> st.SearchStrategy[Term]:
        low, high = st.sampled_from([0, 0, 1, 2]), st.sampled_from([4, 8, 20])
        known = st.builds(small, st.just(name), st.just(dtype), low, high)
        return st.one_of(known, known, known, st.just(t.TRUE), st.just(cell(name, dtype) <= cell("y", dtype)))

    more = st.just(t.TRUE) | predicates(numbers(dtype))
    return st.builds(t.logical_and, of_cell("x"), of_cell("y"), more)


def differs(before: Term, after: Term, assuming: Term, dtype: str) -> bool:
    """Whether the values differ for some bytes x and y and some others, where the first is defined."""
    x = BITS.view(dtype)[:, None]
    for i in (0, 3, 11):
        for z in (-300, 5, 128, 7000):
            arrays: dict[str, NDArray] = {"x": x, "y": x.T, "z": np.asarray(z, "int16")}
            terms = [before, after, assuming]
            found = evaluate_masked(terms, {AXIS: np.asarray(i)}, lambda name, _, a=arrays: (a[name], None))
            (a, a_bad), (b, b_bad), (known, known_bad) = found
            inside = np.broadcast_to(known, (256, 256))
            for bad in (a_bad, known_bad):
                inside = inside if bad is None else inside & ~bad
            wrong = (a != b) if b_bad is None else (a != b) | b_bad
            if np.any(wrong & inside):
                return True
    return False


@cache
def claims(dtype: str) -> tuple[st.SearchStrategy[Term], st.SearchStrategy[Term]]:
    """Terms or predicates, and what is known: made once, as hypothesis looks into all parts of a new strategy."""
    terms = st.recursive(numbers(dtype), wider(dtype), max_leaves=6)
    return terms | predicates(terms), facts(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_equal_for_all_bytes(dtype: str, data: st.DataObject) -> None:
    e, assuming = map(data.draw, claims(dtype))
    found = simplify_term(e, {}, assuming)
    assert cost(found) <= cost(e)
    assert not differs(e, found, assuming, dtype), f"{e} -> {found}"


def test_the_comparison_can_fail() -> None:
    x, three = cell("x", "int8"), t.const(3, "int8")
    assert differs((x + three) // t.const(2, "int8"), x // t.const(2, "int8") + t.const(1, "int8"), t.TRUE, "int8")
    assert differs(x + three - three < x + t.const(1, "int8"), t.TRUE, t.TRUE, "int8")

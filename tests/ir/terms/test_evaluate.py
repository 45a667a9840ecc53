"""The numpy meaning of terms: exact indices, fixed-width data, lazy branches."""

import math
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from term_strategies import LEAVES, Undefined, plain_value, terms

from eqsat.ir.dtypes import INTS, UINTS, from_bits
from eqsat.ir.errors import EvaluationError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import blocks, cast_array, evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term

i, j = t.var("i"), t.var("j")
DATA_INTS = (*INTS, *UINTS)


@given(terms(loads=False), st.data())
def test_indices_are_evaluated_exactly_and_lazily(term: Term, data: st.DataObject) -> None:
    """The values and the undefined points of a grid are those of Python's own arithmetic."""
    rows = data.draw(st.lists(st.integers(-5, 20), min_size=2, max_size=4))
    env = {leaf: np.asarray(3 + n, np.int64) for n, leaf in enumerate(LEAVES)}
    env[LEAVES[0]] = np.array(rows)[:, None]
    env[LEAVES[3]] = np.array([-3, 0, 7])[None, :]
    value, bad = evaluate_masked([term], env, load_table)[0]
    value = np.broadcast_to(value, (len(rows), 3))
    wrong = np.broadcast_to(False if bad is None else bad, value.shape)
    for a, row in enumerate(rows):
        for b, column in enumerate((-3, 0, 7)):
            point = {leaf: int(v) for leaf, v in env.items() if v.ndim == 0} | {LEAVES[0]: row, LEAVES[3]: column}
            try:
                expected = plain_value(term, point)
            except Undefined:
                assert wrong[a, b]
            else:
                assert not wrong[a, b] and value[a, b] == expected


def test_evaluation_does_not_overflow() -> None:
    big = 1 << 40
    assert (i * big * big // big // big).evaluate({"i": 5}) == 5
    assert (i * i).evaluate({"i": 2**40}) == 2**80
    assert ((i * i) % 7).evaluate({"i": np.array([2**40, 3])}).tolist() == [2**80 % 7, 2]
    assert t.absolute(i).evaluate({"i": -(2**63)}) == 2**63
    assert (i + 1).evaluate({"i": np.array([2**64 - 1], np.uint64)}).tolist() == [2**64]
    assert (i << j).evaluate({"i": 1, "j": 100}) == 1 << 100
    assert (i >> j).evaluate({"i": -1, "j": 100}) == -1
    assert t.cast_to(i * i, "int8").evaluate({"i": 2**40 + 1}) == np.int8((2**40 + 1) ** 2 % 256)
    assert t.cast_to(i * i, "float64").evaluate({"i": 2**40}) == 2.0**80


@pytest.mark.parametrize("count", [63, 64, 100])
def test_exact_sums_and_products_have_any_number_of_operands(count: int) -> None:
    """Numpy's functions take 64 arrays at most."""
    xs = [t.var(f"x{k}") for k in range(count)]
    env = {x: np.arange(3) + k for k, x in enumerate(xs)}
    total = t.linear(1 << 80, [(1 << k + 1, x) for k, x in enumerate(xs)])
    product = reduce(mul, [x + 2 for x in xs])
    (sums, _), (products, _) = evaluate_masked([total, product], env)
    wanted = [[int(env[x][n]) for x in xs] for n in range(3)]
    assert sums.tolist() == [(1 << 80) + sum(v << k + 1 for k, v in enumerate(row)) for row in wanted]
    assert products.tolist() == [math.prod(v + 2 for v in row) for row in wanted]


@pytest.mark.parametrize("dtype", DATA_INTS)
def test_integers_wrap(dtype: str) -> None:
    info = np.iinfo(dtype)
    top, bottom, one = t.const(int(info.max), dtype), t.const(int(info.min), dtype), t.const(1, dtype)
    assert (top + one).evaluate() == info.min
    assert (bottom - one).evaluate() == info.max
    assert (top * t.const(2, dtype)).evaluate() == np.multiply(np.array(info.max, dtype), np.array(2, dtype))
    assert t.neg(bottom).evaluate() == info.min
    assert (top + one).evaluate().dtype == dtype
    doubled = (top * t.const(2, dtype)) // t.const(2, dtype)
    assert doubled.evaluate() != info.max, "(x*2)//2 is not x"


def test_float16_rounds_after_every_operation() -> None:
    a = t.const(2048, "float16")
    assert ((a + t.const(1, "float16")) + t.const(1, "float16")).evaluate() == 2048
    assert (t.const(300, "float16") * t.const(300, "float16")).evaluate() == np.inf
    one = np.float16(0.1)
    for name, function in (("exp", np.exp), ("sqrt", np.sqrt), ("sin", np.sin)):
        assert t.unary(name, t.const(0.1, "float16")).evaluate() == function(one)


def test_signed_zeros_and_nan() -> None:
    zero, minus, nan = (t.const(v, "float32") for v in (0.0, -0.0, math.nan))
    one = t.const(1.0, "float32")
    assert (one / minus).evaluate() == -np.inf and (one / zero).evaluate() == np.inf
    assert np.signbit(t.neg(zero).evaluate())
    for op in ("min", "max"):
        assert np.isnan(t.binary(op, nan, one).evaluate()) and np.isnan(t.binary(op, one, nan).evaluate())
    assert not (nan == nan).evaluate() and (nan != nan).evaluate()


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [(-1.9, "int8", -1), (1.9, "int8", 1), (300.0, "int8", 127), (-300.0, "int8", -128), (-5.0, "uint8", 0),
     (math.nan, "int32", 0), (math.inf, "int64", 2**63 - 1), (-math.inf, "int64", -(2**63)),
     (math.inf, "uint64", 2**64 - 1), (2.0**63, "int64", 2**63 - 1), (2.0**63, "uint64", 2**63),
     (2.0**64 - 2**12, "uint64", 2**64 - 2**12), (-0.5, "uint16", 0), (2.0**31, "int32", 2**31 - 1),
     (2147483520.0, "int32", 2147483520), (math.nan, "bool", True), (0.0, "bool", False)],
)  # fmt: skip
def test_casts_from_float_saturate(value: float, dtype: str, expected: int) -> None:
    result = t.cast_to(t.const(value, "float64"), dtype).evaluate()
    assert result == expected and result.dtype == dtype
    assert cast_array(np.array([value, 0.0]), dtype)[0] == expected


def test_casts_between_integers_wrap() -> None:
    assert t.cast_to(t.const(300, "int32"), "uint8").evaluate() == 44
    assert t.cast_to(t.const(-1, "int8"), "uint64").evaluate() == 2**64 - 1
    assert t.cast_to(t.const(2**64 - 1, "uint64"), "index").evaluate() == 2**64 - 1
    assert t.cast_to(t.const(2**53 + 1, "int64"), "float64").evaluate() == 2.0**53


def test_integer_division() -> None:
    at = np.array([[-7, 7, -7, 7]]).T, np.array([[2, -2, 3]])
    env = {"i": at[0], "j": at[1]}
    assert (i // j).evaluate(env).tolist() == np.floor_divide(*at).tolist()
    assert (i % j).evaluate(env).tolist() == np.mod(*at).tolist()
    assert t.binary("truncdiv", i, j).evaluate({"i": -7, "j": 2}) == -3
    assert t.binary("truncmod", i, j).evaluate({"i": -7, "j": 2}) == -1
    for dtype in INTS:
        a, b = t.const(-7, dtype), t.const(2, dtype)
        assert t.binary("truncdiv", a, b).evaluate() == -3 and (a // b).evaluate() == -4
        low = t.const(int(np.iinfo(dtype).min), dtype)
        assert (low // t.const(-1, dtype)).evaluate() == np.iinfo(dtype).min


def test_branches_that_are_not_taken_need_no_value() -> None:
    safe = t.where(i > 0, 12 // i, -1)
    assert safe.evaluate({"i": np.array([0, 3, -2])}).tolist() == [-1, 4, -1]
    assert t.where(i <= 0, -1, 12 // i).evaluate({"i": np.array([0, 3, -2])}).tolist() == [-1, 4, -1]
    assert t.logical_and(i > 0, 12 // i > 3).evaluate({"i": np.array([0, 3, 4])}).tolist() == [False, True, False]
    assert t.logical_or(i <= 0, 12 // i > 3).evaluate({"i": np.array([0, 3, 4])}).tolist() == [True, True, False]
    with pytest.raises(EvaluationError, match=r"undefined.*\(1,\)"):
        t.where(i < 0, 12 // i, 12 // i + 1).evaluate({"i": np.array([-1, 0])})
    with pytest.raises(EvaluationError):
        t.logical_and(12 // i > 3, i > 0).evaluate({"i": 0})


UNDEFINED = [
    12 // i, 12 % i, t.binary("truncdiv", 12, i), t.const(1, "int8") // t.const(0, "int8"), 1 << (i - 1),
    t.const(1, "int8") << t.const(8, "int8"), t.const(2, "int32") ** t.const(-1, "int32"),
]  # fmt: skip


@pytest.mark.parametrize("term", UNDEFINED, ids=str)
def test_undefined_is_an_error(term: Term) -> None:
    with pytest.raises(EvaluationError):
        term.evaluate({"i": 0})


@pytest.mark.parametrize("bad", [{}, {"i": 0.5}, {"i": True}, {"i": "a"}, {"i": [1, None]}])
def test_wrong_values_for_variables(bad: dict[str, Any]) -> None:
    with pytest.raises(EvaluationError):
        (i + 1).evaluate(bad)


def test_extents_need_no_value() -> None:
    assert (t.ax(0, t.sym("N")) + 1).evaluate({"i0": 4}) == 5


def test_vectors() -> None:
    lanes = t.ramp(i, 2, 4) + j
    assert lanes.evaluate({"i": np.array([0, 10]), "j": np.array([1, 2])}).tolist() == [[1, 3, 5, 7], [12, 14, 16, 18]]
    assert t.where(lanes < 4, lanes, 0).evaluate({"i": 0, "j": 1}).tolist() == [1, 3, 0, 0]


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(1, 40))
def test_blocks_cover_a_box_once(extents: list[int], limit: int) -> None:
    seen = np.zeros(extents, int)
    for block in blocks(extents, limit):
        assert 0 < seen[block].size <= limit
        seen[block] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_constants_keep_their_bits(dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 2**16 if dtype == "float16" else 2**32, 200)
    for bits in values.tolist():
        value = from_bits(bits, dtype)
        assert np.array_equal(t.const(value, dtype).evaluate(), value, equal_nan=True)

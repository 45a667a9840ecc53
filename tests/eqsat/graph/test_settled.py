"""Padding of axes that an operator keeps moves behind it, by a proved law, where what becomes of it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from seeds import each_value

import eqsat as eq
import eqsat.laws.answers as law_answers
import eqsat.laws.known as known
from eqsat.graph.encode import encode
from eqsat.graph.search import Limits, Snapshot, run, task_of
from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.map import digit, from_digits
from eqsat.ir.flat.sizes import size_of
from eqsat.ir.tensors.run import reduction
from eqsat.ir.tensors.tensor import as_program
from eqsat.ir.terms import term as t
from eqsat.laws.numbers import same_bits
from eqsat.laws.settled import Around, Settled, around, combined, settled

INF, NAN = float("inf"), float("nan")
VALUES: dict[str, Sequence[Any]] = {
    "float32": (0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 3.0),
    "int8": (0, 1, -1, 127, -128),
    "bool": (False, True),
}
X = eq.input("x", (6, 14), "float32")
N = eq.input("n", (6, 14), "int8")
W = eq.input("w", (14, 3), "float32")
Y = eq.input("y", (6, 4, 5), "float32")
K = ((1, 2), (0, 0))
ROWS = ((1, 2), (0, 0), (0, 0))
WEIGHTS = np.arange(-20, 22, dtype="float32").reshape(14, 3)


def lifts(found: eq.Result) -> bool:
    """Whether a padding moved behind an operator; the answer is the same program, which is proved or run."""
    assert {r.verdict for r in found.checked.regions} <= {"proved", "run"}
    return any(name.startswith("lift-pad") and n for name, n in found.progress.matches.items())


def drawn(rng: np.random.Generator, x: eq.Tensor) -> NDArray:
    shape = [d if isinstance(d, int) else 3 for d in x.shape]
    return np.asarray(rng.choice(np.asarray(VALUES[x.dtype], object), shape), x.dtype)


def feeds_of(program: eq.Tensor, seed: int) -> dict[str, NDArray]:
    rng = np.random.default_rng(seed)
    return {x.name: drawn(rng, x) for x in as_program(program).inputs}


MOVES: dict[str, eq.Tensor] = {
    "sum of 0": X.pad(K, 0).sum(1),
    "sum of -0": X.pad(K, -0.0).sum(1),
    "sum of few whole numbers": X.pad(K, 3).sum(1),
    "sum of inf": X.pad(K, INF).sum(1),
    "sum of NaN": X.pad(K, NAN).sum(1),
    "sum that overflows": N.pad(K, 100).sum(1),
    "sum in its order": eq.compute((9,), lambda i, k: X.pad(K, 0)[i, k], reduce=(14,), ordered=True),
    "max": X.pad(K, -3.7).max(1),
    "max of NaN": X.pad(K, NAN).max(1),
    "min": N.pad(K, 5).min(1),
    "product of 1": X.pad(K, 1).prod(1),
    "product of 0": X.pad(K, 0).prod(1),
    "any": eq.equal(X, 0).pad(K, True).any(1),
    "all": eq.equal(X, 0).pad(K, False).all(1),
    "mean": X.pad(K, 7).mean(1),
    "norm": (X.pad(K, 2) * X.pad(K, 2)).sum(1).sqrt(),
    "of a function": X.pad(K, -INF).exp().sum(1),
    "before a permutation": X.pad(K, 0).permute_dims((1, 0)).sum(0),
    "of packed rows": X.layout_transform("i, j -> i // 4, j, i % 4", pad_value=0).sum(1),
    "both axes, one of them kept": X.pad(((1, 2), (3, 0)), 2).max(1),
    "of one of two axes": eq.input("y", (3, 4, 5), "float32").pad(((0, 0), (1, 1), (0, 0)), 0).sum((0, 2)),
    "product with numbers": eq.matmul(X.pad(K, 0), eq.constant(WEIGHTS)),
    "of whole numbers": eq.matmul(N.pad(K, 0), eq.input("m", (14, 3), "int8")),
    "both operands of products, one by one": (
        eq.input("a", (5, 2, 7), "float32").pad(((0, 3), (0, 0), (0, 0)), 0)
        * eq.input("b", (5, 2, 7), "float32").pad(((0, 3), (0, 0), (0, 0)), 2)
    ).sum(2),
    "a spread, with the mean below": X.pad(K, 2).var(1),
    "sums of greatest": Y.pad(ROWS, 3).max(1).sum(1),
    "squares of distances": ((X.pad(K, 0) - X.pad(K, 0)) * 2).max(1),
}
STAYS: dict[str, eq.Tensor] = {
    "sum that is rounded": X.pad(K, 0.1).sum(1),
    "sum of too large numbers": X.pad(K, float((1 << 23) + 1)).sum(1),
    "product of others": X.pad(K, -1).prod(1),
    "product of -0": X.pad(K, -0.0).prod(1),
    "0 times what may be infinite": eq.matmul(X.pad(K, 0), W),
    "0 times infinity": eq.matmul(X.pad(K, 0), eq.constant(np.where(WEIGHTS == 7, INF, WEIGHTS).astype("float32"))),
    "more is added": (X.pad(K, 0) + eq.input("y", (9, 14), "float32")).sum(1),
    "the row is added": eq.compute((9,), lambda i, k: X.pad(K, 0)[i, k] + eq.cast(i, "float32"), reduce=(14,)),
    "the axis that is reduced alone": X.pad(((0, 0), (1, 2)), 2).max(1),
}


# feature: E14
NEAR = {
    "any",
    "max",
    "of whole numbers",
    "product of 1",
    "squares of distances",
    "sum of -0",
    "sum of inf",
    "sums of greatest",
}  # to others, which are in every run


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in MOVES])
def test_padding_of_what_is_kept_moves_behind(name: str) -> None:
    program = MOVES[name]
    found = eq.optimize(program)
    assert lifts(found)
    for seed in range(3):
        feeds = feeds_of(program, seed)
        with np.errstate(all="ignore"):
            one, other = eq.evaluate(program, feeds), eq.evaluate(found.program, feeds)
        if program.shape[0] == 9:
            assert same_bits(one[[0, 7, 8]], other[[0, 7, 8]]), "around the part it is the same, bit by bit"
        np.testing.assert_allclose(other.astype("float64"), one.astype("float64"), rtol=1e-4)


# feature: E14
@pytest.mark.parametrize("name", STAYS)
def test_other_padding_of_what_is_kept_stays(name: str) -> None:
    assert not lifts(eq.optimize(STAYS[name]))


def test_what_is_padded_is_moved_once_and_cut() -> None:
    """The paddings become one, and a crop behind them takes the rest away."""
    twice = eq.optimize(X.pad(K, 0).sum(1).pad(2))
    assert str(twice.program).count("pad") == 1 and twice.cost_after < twice.cost_before
    whole = eq.optimize(X.pad(K, 3).max(1).relu().crop((1,), (6,)))
    assert "pad" not in str(whole.program) and whole.cost_after == 0
    part = eq.optimize(X.pad(K, 3).max(1).crop((0,), (7,)))
    assert lifts(part) and part.cost_after < part.cost_before


# feature: E14
@pytest.mark.parametrize("count", [2, 3, 4])
def test_padding_passes_any_number_of_reductions(count: int) -> None:
    """What is one value around a part stays so through all that combines it, and what stands between."""
    x = eq.input("x", (6, 2, 2, 2, 2), "float32")
    program = x.pad(((1, 2), *[(0, 0)] * 4), 2)
    for n in range(count):
        program = getattr(program, ("sum", "max", "min", "sum")[n])(1) + 1
    found = eq.optimize(program)
    assert sum(n for name, n in found.progress.matches.items() if name.startswith("lift-pad")) >= count
    before, pad, after = str(found.program).rpartition("pad ")
    assert "reduce" in before and "pad " not in before and "reduce" not in after and pad
    feeds = {"x": np.random.default_rng(0).normal(size=(6, 2, 2, 2, 2)).astype("float32")}
    np.testing.assert_allclose(eq.evaluate(found.program, feeds), eq.evaluate(program, feeds), rtol=1e-5)


def test_a_wrong_value_below_is_refused_by_running_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a result below is combined from its operands."""

    def wrong(*args: Any) -> Around | None:
        found = around(*args)
        return None if found is None else replace(found, cells=[(c, t.const(5, x.dtype)) for c, x in found.cells])

    program = Y.pad(ROWS, 3).max(1).max(1)
    assert lifted(program) == 2
    monkeypatch.setattr(known, "around", wrong)
    assert lifted(program) == 1


def test_what_several_operands_read_of_a_row_is_known_together() -> None:
    """An element-wise operator over rows and one number for each row."""
    found = eq.optimize((X.pad(K, 3) - X.pad(K, 3).max(1, keepdims=True)).exp().sum(1))
    assert found.cost_after < found.cost_before / 10
    few = eq.optimize((X.pad(K, 3) - eq.input("z", (9, 1), "float32")).sum(1))
    assert not lifts(few)


@pytest.mark.parametrize("lower", [0, 1])
def test_a_maximum_of_nothing_is_no_padding(lower: int) -> None:
    """Over an axis that may have no positions the value of what is padded is not known, but that of a sum is."""
    n = eq.symbol("N", lower=lower)
    x = eq.input("x", (6, n), "float32")
    assert lifts(eq.optimize(x.pad(K, 2).max(1))) == (lower == 1)
    assert lifts(eq.optimize(x.pad(K, 0).sum(1)))
    assert not lifts(eq.optimize(x.pad(K, 2).sum(1))), "so many times 2 is not known"


def test_sizes_beside_may_be_symbols() -> None:
    n = eq.symbol("N", lower=1)
    x = eq.input("x", (6, n, 14), "float32")
    found = eq.optimize(x.pad(((1, 2), (0, 0), (0, 0)), 4).max(2))
    assert lifts(found)
    feeds = {"x": np.random.default_rng(0).normal(size=(6, 5, 14)).astype("float32")}
    np.testing.assert_array_equal(
        eq.evaluate(found.program, feeds), np.pad(feeds["x"], ((1, 2), (0, 0), (0, 0)), constant_values=4).max(2)
    )


@pytest.mark.parametrize("name", ["sum of few whole numbers", "max", "product of 1", "sum of NaN"])
def test_a_wrong_value_is_refused_by_running_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with the formulas: what is combined on numbers is another value."""

    def wrong(*args: Any) -> Settled | None:
        found = settled(*args)
        return None if found is None else replace(found, value=t.const(5, found.value.dtype), claim=t.TRUE)

    monkeypatch.setattr(law_answers, "settled", wrong)
    assert not lifts_in_process(MOVES[name])
    monkeypatch.undo()
    assert lifts_in_process(MOVES[name])


def test_a_wrong_value_is_refused_where_one_cell_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where much is combined below a cell, those few that are left are padded ones, and there is one."""

    def wrong(*args: Any) -> Settled | None:
        found = settled(*args)
        return None if found is None else replace(found, value=t.const(5, found.value.dtype), claim=t.TRUE)

    program = eq.input("x", (6, 40), "float32").pad([(0, 9), (0, 0)], 3).max(1)
    monkeypatch.setattr("eqsat.laws.numbers.MOST_ROWS", 1)
    assert lifts_in_process(program)
    monkeypatch.setattr(law_answers, "settled", wrong)
    assert not lifts_in_process(program)


def test_a_wrong_part_is_refused_by_running_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that leaves out a row which holds something else."""

    def wrong(*args: Any) -> Settled | None:
        found = settled(*args)
        if found is None:
            return None
        part, back = from_digits(9, [digit(5, 1)], 2), from_digits(5, [digit(9, 1, 2, 7)], -2)
        return replace(found, part=part, back=back, claim=t.TRUE)

    monkeypatch.setattr(law_answers, "settled", wrong)
    assert not lifts_in_process(MOVES["sum of 0"])


def lifts_in_process(program: eq.Tensor) -> bool:
    return lifted(program) > 0


def lifted(program: eq.Tensor) -> int:
    """How many operators a padding moves behind."""
    last: list[Snapshot] = []
    run(task_of(encode(as_program(program)), "c", Limits()), last.append)
    return sum(n for name, n in last[-1].progress.matches.items() if name.startswith("lift-pad"))


# -- what so many equal values are combined to -------------------------------------------------------------------------


@each_value(
    dtype=["float16", "float32", "float64", "int8", "uint8", "int32", "bool"], combiner=["sum", "prod", "max", "min"]
)
def test_what_is_combined_is_what_numpy_makes_of_it_in_any_order(dtype: str, combiner: str) -> None:
    numbers = [0, 1, 2, 3, 100, 127] if dtype != "bool" else [False, True]
    numbers += [-1, -128] if dtype.startswith(("int", "float")) else []
    numbers += (
        [-0.0, 0.1, 0.25, 0.75, 1e-3, 2.0**-24, INF, -INF, NAN, 2047.0, 2049.0, 3e4]
        if dtype.startswith("float")
        else []
    )
    told = 0
    for number in numbers:
        value = np.asarray(number).astype(dtype)
        for count in (1, 2, 7, 30, 3000):
            found = combined(combiner, t.const(value[()], dtype), count)
            if found is None:
                continue
            told += 1
            table = np.full((2, count), value, dtype)
            made = reduction(table, combiner, 1, dtype)
            assert same_bits(made, np.full(2, t.const_value(found), dtype)), (number, count)
            with np.errstate(all="ignore"):
                ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[combiner]
                start = np.zeros((), dtype) if combiner == "sum" else np.ones((), dtype)
                folded = ufunc(start, value) if combiner in ("sum", "prod") else value
                for _ in range(count - 1):
                    folded = ufunc(folded, value).astype(dtype)
            assert same_bits(np.asarray(folded), np.asarray(t.const_value(found), dtype)), (number, count)
    assert told >= 10


def test_what_is_combined_of_no_values() -> None:
    n = size_of(eq.symbol("N", lower=0))
    told = [combined(c, t.const(v, "float32"), n) for c, v in (("sum", 0), ("prod", 1), ("max", 2), ("sum", INF))]
    assert [x is not None for x in told] == [True, True, False, False]


# -- random programs ---------------------------------------------------------------------------------------------------


def random_program(rng: np.random.Generator) -> eq.Tensor:
    """Something that pads, reduces and takes parts, twice."""
    dtype = ("float32", "float32", "int8")[rng.integers(3)]
    y = eq.input("x", tuple(int(d) for d in rng.integers(1, 5, rng.integers(2, 4))), dtype)
    for _ in range(2):
        pads = [(int(a), int(b)) if c else (0, 0) for a, b, c in rng.integers(0, 3, (y.rank, 3))]
        y = y.pad(pads, rng.choice(np.asarray([0, 0, 1, 2, 0.5] if dtype == "float32" else [0, 0, 1, 127], object)))
        if rng.integers(2):
            y = [-y, y * y, y.relu(), y + 1][rng.integers(4)]
        if y.rank > 1:
            y = y.permute_dims([int(n) for n in rng.permutation(y.rank)])
            y = getattr(y, ("sum", "prod", "max", "min")[rng.integers(4)])(int(rng.integers(y.rank)))
        if rng.integers(2):
            start = [int(rng.integers(0, d)) for d in y.shape if isinstance(d, int)]
            y = y.crop(start, [int(rng.integers(1, int(str(d)) - s + 1)) for s, d in zip(start, y.shape, strict=True)])
    return y


def check(seed: int) -> bool:
    program = random_program(np.random.default_rng(seed))
    found = eq.optimize(program)
    assert not found.notes, f"seed {seed}: {found.notes}"
    feeds = feeds_of(program, seed)
    with np.errstate(all="ignore"):
        before, after = (np.asarray(eq.evaluate(p, feeds)) for p in (program, found.program))
    np.testing.assert_allclose(after, before, rtol=1e-5, err_msg=f"seed {seed}: {program}")
    return lifts(found)


def test_random_padding_of_what_is_kept() -> None:
    assert sum(check(seed) for seed in range(9)) >= 2


@pytest.mark.slow
def test_many_random_paddings_of_what_is_kept() -> None:
    assert sum(check(10_000 + seed) for seed in range(2000)) >= 500


SQUARE = eq.input("w", (14, 14), "float32")
BLOCKS: dict[str, tuple[int, Callable[[eq.Tensor], eq.Tensor]]] = {
    "products": (30, lambda x: x + eq.matmul(x, SQUARE)),
    "softmaxes": (20, lambda x: eq.maximum(x, x.softmax(1))),
    "long": (100, lambda x: eq.matmul(x, SQUARE).softmax(1)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_is_below_a_padding_takes_no_time(name: str) -> None:
    """Results are computed once for all that read them, and only where something is known of them."""
    count, block = BLOCKS[name]
    x = X
    for _ in range(count):
        x = block(x)
    found = eq.optimize(x.pad(K, 0).max(1))
    assert lifts(found) and found.status == "saturated"


def test_a_size_may_be_a_symbol_far_below() -> None:
    """Neither the operator nor a view of its operands has the symbol."""
    n = eq.symbol("N", lower=1)
    x = eq.input("x", (n, 2, 6), "float32")
    found = eq.optimize(x.pad(((0, 0), (0, 0), (1, 1)), 0.0).max(0).softmax(0).max(0))
    assert sum(k for name, k in found.progress.matches.items() if name.startswith("lift-pad")) == 3


def test_what_is_below_may_have_too_many_numbers_to_be_run() -> None:
    """A padding stays behind an operator whose check would combine too much; the others are moved."""
    x = eq.input("x", (2, 3000, 3000), "float32")
    assert lifted(x.pad(((0, 1), (0, 0), (0, 0)), 2).max(2).softmax(1)) == 1


def test_views_of_equal_blocks_are_known_once() -> None:
    """Else each view of a deep network would be compared with those of all its blocks."""
    x = eq.input("x", (2, 3, 4), "float32")
    y = x
    for _ in range(6):
        y = y.permute_dims((2, 0, 1)).exp().permute_dims((1, 2, 0))
    encoded = encode(eq.Program([x], {"y": y}))
    assert sorted(map(len, encoded.views.values())) == [1, 1]

"""Loads are shown to be in range from what guards say about positions, whatever they also say about data."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.backends.compile import compile
from eqsat.ir.errors import BoundsError
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.arrays.cells import take
from eqsat.ir.tensors.reductions import concat
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Tensor, compute, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


def test_a_load_that_is_guarded_beside_a_condition_on_data() -> None:
    x = input("x", (2, 2), "float32")
    padded = x.pad(((0, 0), (0, 1)))
    y = pointwise.where(padded < padded * 2.0 + 1.0, padded, -padded)
    a = np.array([[1, -3], [0, 2]], np.float32)
    assert np.array_equal(compile(y)({"x": a}), evaluate(y, {"x": a}))


def test_a_condition_on_data_alone_guards_nothing() -> None:
    x = input("x", (4,), "float32")
    y = compute((8,), lambda i: t.where(x[t.binary("min", i, 3)] < 0.0, x[i], t.const(0, "float32")))
    with pytest.raises(BoundsError, match="may leave its buffer"):
        compile(y)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
def test_a_constant_index_has_the_bounds_of_its_data(dtype: str) -> None:
    """x[table[i]] needs no clamp where every number of the table is in range, and is refused where one is not."""
    x = input("x", (5, 6), "float32")

    def gathered(numbers: list[int], extra: int = 0) -> Tensor:
        table = constant(np.array(numbers, dtype)).reshape((2, 2))
        rows = compute((2, 2, 6), lambda i, j, k: x[t.cast_to(table[i, j], "index") + extra, k])
        return rows.sum((0,))

    array = np.arange(30, dtype="float32").reshape(5, 6)
    k = compile(gathered([4, 0, 3, 3]))
    np.testing.assert_array_equal(k(x=array), array[[[4, 0], [3, 3]]].sum(0))
    assert "index_of_" not in k.source
    np.testing.assert_array_equal(compile(gathered([3, 0, 3, 1], 1))(x=array), array[[[4, 1], [4, 2]]].sum(0))
    for bad in (gathered([5, 0, 3, 3]), gathered([4, 0, 3, 3], 1)):
        with pytest.raises(BoundsError, match="may leave its buffer"):
            compile(bad)


def test_what_data_choose_is_read_under_the_guards_of_views() -> None:
    """Gathers of padded, cut and reshaped inputs, and views of gathers: indices that are data, below guards."""
    rng = np.random.default_rng(17)
    for k in range(12):
        rows, columns = (int(n) for n in rng.integers(2, 7, 2))
        x, chosen = input("x", (rows, columns), "float32"), input("chosen", (4,), "int64")
        y = x.pad([(int(a), int(b)) for a, b in rng.integers(0, 3, (2, 2))], 1.5)
        if rng.integers(2):
            y = y[int(rng.integers(2)) :, : -int(rng.integers(1, 2))]
        height, width = (int(str(d)) for d in y.shape)
        parts = [d for d in range(1, height * width + 1) if height * width % d == 0]
        split = int(rng.choice(parts))
        y = y.reshape((split, height * width // split))
        y = take(y, chosen, int(rng.integers(2)))
        y = y.pad(((1, 0), (0, 1)), 0.0) if rng.integers(2) else y.permute_dims((1, 0))
        least = min(split, height * width // split)
        feeds = {
            "x": rng.standard_normal((rows, columns)).astype("float32"),
            "chosen": rng.integers(-least, least, 4),
        }
        np.testing.assert_array_equal(compile(y)(feeds), evaluate(y, feeds), err_msg=str(k))


# feature: K1
@pytest.mark.parametrize("pieces", [34, 70])
def test_the_last_piece_of_a_long_chain_of_choices_is_in_range(pieces: int) -> None:
    """All bounds of the pieces before hold in it: only the tightest of one form is kept."""
    arrays = {f"x{n}": np.arange(6, dtype="int16").reshape(2, 3) + 6 * n for n in range(pieces)}
    inputs = [input(name, a.shape, "int16") for name, a in arrays.items()]
    kernel = compile(concat(inputs, 0))
    assert np.array_equal(kernel(arrays), np.concatenate(list(arrays.values()), 0))


def test_what_all_uses_of_a_load_say_is_known_where_they_are_many() -> None:
    """A load under a guard, in more pieces than a disjunction may have parts."""
    x = input("x", (5,), "int16")

    def body(i: t.Term, j: t.Term) -> t.Term:
        found = x[i]
        for n in range(70):
            found = t.where(
                t.compare("eq", j, n), t.const(n, "int16"), t.where(t.compare("eq", j, 149 - n), x[i], found)
            )
        return t.where(i < 5, found, t.const(-1, "int16"))

    y = compute((8, 150), body)
    a = np.arange(5, dtype="int16")
    assert np.array_equal(compile(y)(x=a), evaluate(y, {"x": a}))


@pytest.mark.parametrize("pairs", [40, 70, pytest.param(90, marks=pytest.mark.slow)])
def test_a_load_in_many_pieces_is_known_within_their_hull(pairs: int) -> None:
    """Neighbours that change places, by slices: x[i - 1] is read in as many pieces, each with bounds of its own."""
    x = input("x", (2 * pairs, 3), "float32")
    rows = [x[k : k + 1] for pair in range(pairs) for k in (2 * pair + 1, 2 * pair)]
    a = np.arange(6 * pairs, dtype=np.float32).reshape(-1, 3)
    swapped = a.reshape(-1, 2, 3)[:, ::-1].reshape(-1, 3)
    assert np.array_equal(compile(concat(rows, 0))({"x": a}), swapped)


@pytest.mark.parametrize("last", [70, 71])
def test_a_piece_beyond_the_buffer_is_refused_among_many(last: int) -> None:
    """Of 70 places where x[i + 1] is read, one may be outside of x."""
    x = input("x", (71,), "float32")

    def body(i: Term) -> Term:
        value: Term = t.const(0, "float32")
        for k in (*range(0, 2 * 35, 2), last - 1):
            value = t.where(t.logical_and(k <= i, i <= k), x[i + 1], value)
        return value

    if last > 70:
        with pytest.raises(BoundsError, match="may leave its buffer"):
            compile(compute((72,), body))
    else:
        a = np.arange(71, dtype=np.float32)
        wanted = [k + 1 if (k < 70 and k % 2 == 0) or k == 69 else 0 for k in range(72)]
        assert compile(compute((72,), body))({"x": a}).tolist() == wanted

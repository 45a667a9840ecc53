"""Formulas whose layouts are easy to get wrong: each optimised for every target, compared, and verified.

A constant coordinate is a coordinate; loads that a guard drops or that repeat, unit axes, empty parts, bool.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from program_checks import check_optimised

import eqsat as eq
from eqsat.ir.dtypes import INDEX
from eqsat.ir.tensors.tensor import Compute, Program, Tensor, as_program
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table

S = eq.input("s", (5, 5), "float32")
T = S.permute_dims((1, 0))
Z = eq.input("z", (5, 5), "float32")
V = eq.input("v", (4,), "float32")
W = eq.input("w", (3, 4, 5), "float32").permute_dims((2, 0, 1))
Q = eq.input("q", (7, 2), "float32")
ONE, NONE = eq.input("one", (1,), "float32"), eq.input("none", (0,), "float32")
B = eq.input("b", (2,), "bool")
N = eq.input("n", (3,), "int32")
TABLE = Table(np.array([3, 1, 0]))

ROWS: dict[str, Callable[[], Tensor]] = {
    "a row of a view": lambda: eq.compute((3,), lambda i: T[0, i]),
    "and a number": lambda: eq.compute((3,), lambda i: T[0, i] + 1.0),
    "guarded": lambda: eq.compute((3,), lambda i: eq.where(i < 2, T[0, i], 1.0)),
    "reduced": lambda: eq.compute((3,), lambda i, k: T[0, k], reduce=(4,), combiner="max"),
    "moved": lambda: eq.compute((3, 2), lambda i, j: S[0, i]).permute_dims((1, 0)),
    "of rank 3": lambda: eq.compute((3, 4), lambda i, j: W[0, i, j]),
    "computed, of rank 3": lambda: eq.compute((4, 4), lambda i, j: W[0, j % 3, i]),
    "in the middle": lambda: eq.compute((5, 4), lambda i, j: W[i, 0, j]),
    "another row": lambda: eq.compute((3,), lambda i: T[1, i]),
    "the diagonal": lambda: eq.compute((3,), lambda i: T[i, i]),
    "a cell, guarded": lambda: eq.compute((2,), lambda i: eq.where(i < 1, V[i], V[0])),  # pyright: ignore[reportUnknownLambdaType]
    "a cell, spread and moved": lambda: eq.compute((4, 5), lambda i, j: V[0]).permute_dims((1, 0)),
    "a row subtracted": lambda: eq.compute((5, 5), lambda i, j: T[i, j] - T[0, j]),
    "a column subtracted": lambda: eq.compute((5, 5), lambda i, j: T[i, j] - T[i, 0]),
}
GUARDS: dict[str, Callable[[], Tensor]] = {
    "never, and the load is gone": lambda: eq.compute(
        (1, 4, 8), lambda i, j, k: eq.where(i % 5 >= 5, Q[i % 5 - 5, 0], -1.0)
    ),
    "never, one of two operands": lambda: eq.compute((1, 4), lambda i, j: eq.where(i > 0, Q[i, 0], V[j])),
    "never, moved": lambda: eq.compute((1, 4), lambda i, j: eq.where(i > 0, Q[j, 0], 0.0)).permute_dims((1, 0)),
    "always": lambda: eq.compute((1, 4), lambda i, j: eq.where(i < 1, V[j], Q[j, 0])).permute_dims((1, 0)),
    "never, reduced": lambda: eq.compute((4,), lambda i, k: eq.where(k > 0, Q[k, 0], V[i]), reduce=(1,)),
    "never, of nothing": lambda: eq.compute((3,), lambda i: eq.where(i < 0, NONE[i], 2.0)),
    "concat of one and none": lambda: eq.concat([ONE, NONE], 0),
    "concat of none and one": lambda: eq.concat([NONE, ONE], 0),
    "concat of three": lambda: eq.concat([NONE, ONE, NONE], 0).reshape((1, 1)).permute_dims((1, 0)),
    "concat with none": lambda: eq.concat([V, NONE], 0).flip(0),
    "concat of one and none, padded": lambda: eq.concat([ONE, NONE], 0).pad(1),
}
WITHOUT_LOADS: dict[str, Callable[[], Tensor]] = {
    "a constant, moved": lambda: eq.compute((2, 8), lambda i, j: eq.const(1.0, "float32")).permute_dims((1, 0)),
    "a position, moved": lambda: eq.compute((2, 8), lambda i, j: eq.cast(i * 3 + j, "int32")).permute_dims((1, 0)),
    "a sum of ones": lambda: eq.compute((2, 8), lambda i, j, k: eq.const(1, "int32"), reduce=(3,)).permute_dims((1, 0)),
    "a sum of nothing": lambda: eq.compute((2, 8), lambda i, j, k: eq.const(1, "int32"), reduce=(0,)).pad(1),
    "one cell": lambda: eq.compute((), lambda: eq.const(1.0, "float32")).reshape((1, 1)),
}
BOOL: dict[str, Callable[[], Tensor]] = {
    "not, padded": lambda: (~B).pad(1, False),
    "cast, padded": lambda: B.cast("float32").pad(1),
    "cast, blocked": lambda: B.cast("float32").layout_transform("i -> i//4, i%4", pad_value=0.0),
    "and, padded": lambda: (B & B).pad(1),
    "not, padded with true": lambda: (~B).pad(1, True),
    "cast to int8, padded with 7": lambda: B.cast("int8").pad(1, 7),
}
LOOKUPS: dict[str, Callable[[], Tensor]] = {
    "one of two loads": lambda: eq.compute(
        (3,), lambda i: eq.where(i < 2, V[eq.cast(N[i], INDEX) % 4], V[i])
    ).pad(1),
    "the part that is looked up": lambda: eq.compute(
        (3,), lambda i: eq.where(i < 2, V[eq.cast(N[i], INDEX) % 4], V[i])
    ).crop((0,), (2,)),
    "in a table": lambda: eq.compute(
        (3,), lambda i: eq.where(i < 2, V[t.load(TABLE, [i], INDEX)], V[i])
    ).crop((0,), (2,)),
    "moved": lambda: eq.compute((3, 4), lambda i, j: S[eq.cast(N[i], INDEX) % 5, j]).permute_dims((1, 0)),
    "of a view": lambda: eq.compute((3, 4), lambda i, j: T[eq.cast(N[i], INDEX) % 5, j]),
}  # fmt: skip


@pytest.mark.parametrize("make", [
    pytest.param(make, id=f"{group}: {name}")
    for group, cases in (
        ("row", ROWS), ("guard", GUARDS), ("without loads", WITHOUT_LOADS), ("bool", BOOL), ("lookup", LOOKUPS)
    )
    for name, make in cases.items()
])  # fmt: skip
def test_an_optimised_formula_means_the_same(make: Callable[[], Tensor]) -> None:
    check_optimised(as_program(make()))


def test_a_row_of_a_view_is_not_the_row_of_its_source() -> None:
    of_source, of_view = eq.compute((3,), lambda i: S[0, i]), eq.compute((3,), lambda i: T[0, i])
    assert eq.verify(of_source, of_view).verdict == "refuted"
    check_optimised(Program([S], {"source": of_source, "view": of_view}))
    assert eq.verify(of_view, eq.compute((3,), lambda i: S[i, 0])).verdict == "proved"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("after", ["nothing", "permute", "pad"])
def test_two_reads_of_one_tensor_and_one_of_each_of_two(order: tuple[int, int], after: str) -> None:
    """Operators of one normal form, spelled with one operand and with two."""

    def made(other: Tensor) -> Tensor:
        y = eq.compute((5, 5), lambda i, j: S[i, j] - other[j, 4 - i])
        return {"nothing": y, "permute": y.permute_dims((1, 0)), "pad": y.pad(1)}[after]

    pair = [("one", made(S)), ("two", made(Z))]
    check_optimised(Program([S, Z], {pair[k][0]: pair[k][1] for k in order}))


def test_two_operands_that_are_one_tensor() -> None:
    body = eq.compute((5, 5), lambda i, j: S[i, j] - Z[j, i]).node
    assert isinstance(body, Compute)
    twice = Tensor(Compute([S, S], body.shape, body.body))
    check_optimised(Program([S, Z], {"twice": twice, "both": Tensor(body), "moved": twice.permute_dims((1, 0))}))


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "uint8", "int64", "float16"),
        *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("int8", "uint64", "float32", "float64")),
    ],
)
def test_padding_moves_through_operators_of_every_type(dtype: str) -> None:
    x = eq.input("x", (3, 2), dtype)
    y = ~x if dtype == "bool" else x + x
    check_optimised(as_program(y.pad(1).permute_dims((1, 0)).reshape((20,))))
    check_optimised(as_program(y.cast("float32").pad(1).permute_dims((1, 0))))


def test_a_row_of_a_tensor_of_symbolic_size() -> None:
    n = eq.symbol("N", lower=1)
    x = eq.input("x", (n, 4), "float32")
    program = as_program(eq.compute((4,), lambda i: x.permute_dims((1, 0))[i, 0]))
    best = eq.optimize(program).program
    for size in (1, 3):
        feeds = {"x": np.arange(size * 4, dtype=np.float32).reshape(size, 4)}
        assert np.array_equal(eq.evaluate(program, feeds), eq.evaluate(best, feeds))

"""Padding before a reduction is not read where it is neutral, by a proved law, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Compute
from eqsat.ir.terms.tables import table_load

INF, NAN = float("inf"), float("nan")
VALUES: dict[str, Sequence[Any]] = {
    "float32": (0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 3.0),
    "int8": (0, 1, -1, 127, -128),
    "bool": (False, True),
}
X = eq.input("x", (6, 14), "float32")
N = eq.input("n", (6, 14), "int8")
P = ((0, 0), (1, 2))
WEIGHTS = np.arange(51, dtype="float32").reshape(17, 3)


def drops(program: eq.Tensor) -> bool:
    """Whether a reduction leaves its padding out; the answer is the same program, which is proved or run."""
    found = eq.optimize(program)
    assert {r.verdict for r in found.checked.regions} <= {"proved", "run"}
    return any(name.startswith("drop-neutral") and n for name, n in found.progress.matches.items())


# feature: E14, L
@pytest.mark.parametrize(
    "program",
    [
        X.pad(P, 0).sum(1),
        pytest.param(X.pad(P, -0.0).sum(1), marks=pytest.mark.slow),
        X.pad(P, -INF).max(1),
        pytest.param(X.pad(P, INF).min(1), marks=pytest.mark.slow),
        pytest.param(X.pad(P, 1).prod(1), marks=pytest.mark.slow),
        N.pad(P, 0).sum(1),
        N.pad(P, -128).max(1),
        pytest.param(N.pad(P, 127).min(1), marks=pytest.mark.slow),
        pytest.param(X.relu().pad(P, 0).max(1), marks=pytest.mark.slow),
        X.pad(P, 0).relu().max(1),
        abs(X).pad(P, -2).max(1),
        X.pad(P, -INF).exp().sum(1),
        X.pad(P, -INF).exp().max(1),  # exp(-inf) is 0, which no exponential is below
        X.pad(P, eq.UNDEF).max(1),  # a hole may be filled with what is neutral
        X.pad(P, 0).mean((0, 1)),
        X.pad(((2, 0), (1, 2)), 0).sum((0, 1)),
        pytest.param(eq.equal(X, 0).pad(P, False).any(1), marks=pytest.mark.slow),
        eq.equal(X, 0).pad(P, True).all(1),
        X.layout_transform("i, j -> i, j // 4, j % 4", pad_value=0).sum((1, 2)),
        eq.matmul(X.pad(P, 0), eq.input("w", (14, 3), "float32").pad(((1, 2), (0, 0)), 5)),
        pytest.param(eq.matmul(N.pad(P, 0), eq.input("w", (17, 3), "int8")), marks=pytest.mark.slow),
        eq.matmul(X.pad(P, 0), eq.constant(WEIGHTS)),
        pytest.param(abs(X.pad(P, 0)).sum(1), marks=pytest.mark.slow),
        (X.pad(P, 0) * X.pad(P, 0)).sum(1).sqrt(),
        (X.pad(P, -INF) - X.pad(P, -INF).max(1, keepdims=True)).exp().sum(1),
    ],
)
def test_neutral_padding_is_not_read(program: eq.Tensor) -> None:
    found = eq.optimize(program)
    assert drops(program) and found.cost_after < found.cost_before


# feature: E14
@pytest.mark.parametrize(
    "program",
    [
        X.pad(P, 1).sum(1),
        X.pad(P, 0).max(1),
        X.pad(P, 0).prod(1),
        X.pad(P, NAN).max(1),
        X.pad(P, -INF).sum(1),
        X.pad(P, 0).exp().sum(1),
        X.relu().pad(P, 0).min(1),
        X.relu().pad(P, 1).max(1),
        N.pad(P, 0).max(1),
        eq.matmul(X.pad(P, 0), eq.input("w", (17, 3), "float32")),  # 0 times an infinity is no 0
        eq.matmul(X.pad(P, 0), eq.input("w", (14, 3), "float32").pad(((1, 2), (0, 0)), INF)),
        eq.matmul(X.pad(P, 0), eq.constant(np.where(WEIGHTS == 7, INF, WEIGHTS).astype("float32"))),
        eq.matmul(X.pad(P, 1), eq.constant(WEIGHTS)),
        X.pad(P, 0).softmax(1),
    ],
)
def test_other_padding_stays(program: eq.Tensor) -> None:
    assert not drops(program)


def test_the_order_of_a_sum_that_is_kept_keeps_its_terms() -> None:
    padded = X.pad(P, 0)
    assert not drops(eq.compute((6,), lambda i, k: padded[i, k], reduce=(17,), ordered=True))


def test_a_sum_of_padding_alone_stays_a_sum() -> None:
    """Of one term that is kept the sum is 0 for -0.0, so that one more is kept."""
    x = eq.input("x", (3, 1), "float32")
    found = eq.optimize(x.pad(((0, 0), (0, 4))).sum(1))
    value: NDArray = eq.evaluate(found.program, {"x": np.full((3, 1), -0.0, "float32")})
    assert not np.signbit(value).any()


# feature: E18
def test_a_masked_row_is_what_it_was() -> None:
    """Attention over padded keys: the row that masks all of them is NaN before and after."""
    q, k = eq.input("q", (3, 4), "float32"), eq.input("k", (5, 4), "float32")
    mask, v = eq.input("m", (3, 5), "float32"), eq.input("v", (5, 2), "float32")

    def attention(keys: eq.Tensor, values: eq.Tensor, mask: eq.Tensor) -> eq.Tensor:
        return eq.matmul((eq.matmul(q, keys.permute_dims((1, 0))) + mask).softmax(1), values)

    rows = ((0, 3), (0, 0))
    padded = attention(k.pad(rows), v.pad(rows), mask.pad(((0, 0), (0, 3)), -INF))
    random = np.random.default_rng(0)
    shapes = {"q": (3, 4), "k": (5, 4), "v": (5, 2)}
    feeds = {name: random.standard_normal(s).astype("float32") for name, s in shapes.items()}
    feeds["m"] = np.where(random.random((3, 5)) < 0.4, -INF, 0).astype("float32")
    feeds["m"][1] = -INF
    expected = eq.evaluate(attention(k, v, mask), feeds)
    found = eq.evaluate(eq.optimize(padded).program, feeds)
    assert np.isnan(expected[1]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# feature: E14
def test_unpadded_is_proved_to_be_the_same() -> None:
    assert eq.verify(X.pad(P, 0).sum(1), X.sum(1)).verdict == "proved"
    assert eq.verify(X.pad(P, 1).prod(1), X.prod(1)).verdict == "proved"
    assert eq.verify(N.pad(P, -128).max(1), N.max(1)).verdict == "proved"
    assert eq.verify(X.pad(P, 1).sum(1), X.sum(1)).verdict == "refuted"
    assert eq.verify(N.pad(P, 0).max(1), N.max(1)).verdict != "proved"


def test_sizes_may_be_symbols() -> None:
    n = eq.symbol("N", lower=1)
    x = eq.input("x", (n, 14), "float32")
    found = eq.optimize(x.pad(P, 0).sum(1))
    assert drops(x.pad(P, 0).sum(1)) and "pad" not in str(found.program)


# -- random programs ---------------------------------------------------------------------------------------------------


def _unary(rng: np.random.Generator, x: eq.Tensor) -> eq.Tensor:
    if x.dtype == "bool":
        return x if rng.integers(2) else ~x
    made = [-x, x * x, x + 1, eq.maximum(x, 0)]
    made += [eq.exp(x), abs(x), eq.sqrt(x), x * 0.0] if x.dtype == "float32" else []
    if x.rank == 2:
        rows = rng.integers(0, int(str(x.shape[0])), int(str(x.shape[0])))
        made.append(eq.compute(x.shape, lambda i, j: x[table_load(rows, i), j] + 0))
    return made[rng.integers(len(made))]


def _padded(rng: np.random.Generator, x: eq.Tensor) -> eq.Tensor:
    pads = [(int(a), int(b)) if c else (0, 0) for a, b, c in rng.integers(0, 3, (x.rank, 3))]
    return x.pad(pads, rng.choice(np.asarray(VALUES[x.dtype], object)))


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray:
    return np.asarray(rng.choice(np.asarray(VALUES[dtype], object), shape).astype(dtype))


def _program(rng: np.random.Generator) -> tuple[eq.Tensor, dict[str, NDArray]]:
    dtype = ("float32", "float32", "int8", "bool")[rng.integers(4)]
    shape = tuple(int(d) for d in rng.integers(1, 5, rng.integers(1, 4)))
    y, feeds = eq.input("x", shape, dtype), {"x": _drawn(rng, shape, dtype)}
    for step in (_unary, _padded, _unary, _padded):
        if step is _padded and y.rank and rng.integers(4):
            y = _padded(rng, y)
        elif step is _unary and rng.integers(2):
            y = _unary(rng, y)
    if y.rank == 2 and dtype != "bool" and rng.integers(2):
        few = 3, max(1, int(str(y.shape[1])) - 1)
        w = _padded(rng, eq.input("w", few, dtype))
        if w.shape[1] == y.shape[1]:
            return eq.matmul(y, w.permute_dims((1, 0))), {**feeds, "w": _drawn(rng, few, dtype)}
    y = y.permute_dims([int(n) for n in rng.permutation(y.rank)])
    axes = tuple(int(n) for n in np.flatnonzero(rng.integers(0, 2, y.rank))) or (0,)
    kinds = ("any", "all", "max", "min") if dtype == "bool" else ("sum", "prod", "max", "min")
    return getattr(y, kinds[rng.integers(4)])(axes), feeds


def _check(seed: int) -> bool:
    program, feeds = _program(np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        found = eq.optimize(program)
        before, after = (np.asarray(eq.evaluate(p, feeds)) for p in (program, found.program))
    assert not found.notes, f"seed {seed}: {found.notes}"
    np.testing.assert_allclose(after, before, rtol=1e-6, err_msg=f"seed {seed}: {program}")
    combiner = program.node.combiner if isinstance(program.node, Compute) else None
    if program.dtype == "float32" and combiner not in ("max", "min"):  # of zeros, whichever comes first
        np.testing.assert_array_equal(np.signbit(after[after == 0]), np.signbit(before[before == 0]), f"seed {seed}")
    return any(name.startswith("drop-neutral") for name, n in found.progress.matches.items() if n)


def test_random_padding_before_reductions() -> None:
    assert sum(_check(seed) for seed in range(10, 18)) >= 2


@pytest.mark.slow
def test_many_random_paddings_before_reductions() -> None:
    dropped = sum(_check(1000 + seed) for seed in range(1500))
    assert dropped >= 150


def test_a_body_may_hold_numbers_of_its_own() -> None:
    """A load of a constant table is none of an operand."""
    order = np.array([2, 0, 1, 5, 4, 3])
    turned = eq.compute((6, 14), lambda i, j: X[table_load(order, i), j] * 2)
    assert drops(turned.pad(P, 0).sum(1)) and drops(turned.pad(P, -INF).max(1)) and not drops(turned.pad(P, 1).sum(1))

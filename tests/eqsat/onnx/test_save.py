"""`eq.onnx.save` writes what `eq.evaluate` means: in onnxruntime, and read again."""

# feature: I1
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from formula_cases import Case, feeds_of, program_of, special  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from saving import difference, operators, random_feeds, saved  # noqa: E402
from seeds import each_value, some_of  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.ir.dtypes import DATA, FLOATS, INTS, NDArray  # noqa: E402
from eqsat.ir.errors import EqsatError, EvaluationError, FrontendError  # noqa: E402
from eqsat.ir.tensors import contraction, reductions, views  # noqa: E402
from eqsat.ir.tensors.run import evaluate_outputs  # noqa: E402
from eqsat.ir.tensors.tensor import Compute, Program, Tensor, compute, input  # noqa: E402
from eqsat.ir.terms import term as t  # noqa: E402
from eqsat.ir.terms.tables import Table  # noqa: E402
from eqsat.ir.terms.term import FLOAT_TEST, FLOAT_UNARY, Term  # noqa: E402
from eqsat.ir.terms.walk import postorder  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.formulas.formula import Formula  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402
from eqsat.testing import arrays_for, programs  # noqa: E402

pytestmark = pytest.mark.onnx

F = "float32"
LAYOUT = {"Reshape", "Transpose", "Identity"}
x5, m, v3 = input("x", (5,), F), input("m", (3, 4), F), input("v", (3,), F)
image, kernel = input("i", (2, 4, 9, 8), F), input("k", (8, 4, 3, 3), F)
at = input("at", (4,), "int64")


def line(n: Any, fn: Callable[[Term], Term]) -> Tensor:
    return compute(n, fn)


def plane(shape: Any, fn: Callable[[Term, Term], Term]) -> Tensor:
    return compute(shape, fn)


# -- the formulas that users write ----------------------------------------------------------------------------------

READS: list[tuple[str, Callable[[], Tensor], list[str]]] = [
    ("a part", lambda: line(4, lambda i: x5[i] * 2), ["Slice", "Mul"]),
    ("neighbours", lambda: line(4, lambda i: x5[i] + x5[i + 1]), ["Slice", "Slice", "Add"]),
    ("guarded", lambda: line(5, lambda i: eq.where(i >= 1, x5[i - 1], 0)), ["Slice", "Pad"]),
    ("guarded, turned", lambda: line(5, lambda i: eq.where(i < 1, 2.5, x5[i - 1])), ["Slice", "Pad"]),
    ("under one", lambda: line(5, lambda i: eq.where(i >= 1, eq.exp(x5[i - 1]), 0)), ["Slice", "Pad", "Exp", "Where"]),
    ("every other", lambda: line(2, lambda i: x5[i * 2 + 1] - 1), ["Slice", "Sub"]),
    ("one row", lambda: line(4, lambda i: m[1, i] + 1), ["Reshape", "Slice", "Add"]),
    ("a cell", lambda: compute((), lambda: x5[3] + 1), ["Slice", "Reshape", "Add"]),
    ("a diagonal", lambda: line(3, lambda i: m[i, i] + 1), ["Reshape", "Slice", "Add"]),
    ("computed", lambda: line(4, lambda i: m[1, eq.cast(at[i] % 4, "index")]), []),
    ("computed, guarded", lambda: line(4, lambda i: eq.where(at[i] >= 0, x5[eq.cast(at[i] % 5, "index")], -1)), []),
    ("uses two axes", lambda: plane((2, 3), lambda i, j: x5[i + j] * v3[j]), []),
    ("a whole row twice", lambda: plane((3, 4), lambda i, j: m[i, j] - m[2 - i, j]), ["Slice", "Sub"]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), [r[1:] for r in READS], ids=[r[0] for r in READS])
def test_reads(make: Callable[[], Tensor], expected: list[str]) -> None:
    found = operators(saved(make()))
    assert not expected or [op for op in found if op != "Identity"] == expected


# -- scalar functions ------------------------------------------------------------------------------------------------


def values(dtype: str, seed: int, count: int = 64) -> NDArray:
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype in FLOATS:
        ends = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 300.0, -300.0, 1e-6]
        large = [] if dtype == "float16" else [2.0**31, -(2.0**31) - 1024, 2.0**63, -(2.0**64), 1e20, 2.0**32 - 1]
        drawn = random.standard_normal(count) * random.choice([0.01, 1, 10], count)
        return np.concatenate([drawn, ends, large]).astype(dtype)
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 7], dtype)
    low = -9 if info.min < 0 else 0
    drawn = random.integers(low, 10, count).astype(dtype)
    return np.concatenate([drawn, ends, random.integers(info.min, info.max, count, dtype=dtype)])


def pairs(dtype: str) -> tuple[NDArray, NDArray]:
    a, b = np.meshgrid(values(dtype, 1, 12), values(dtype, 2, 12))
    return a.ravel().copy(), b.ravel().copy()


@pytest.mark.parametrize("dtype", DATA)
def test_unary_functions(dtype: str) -> None:
    a = values(dtype, 0)
    x = input("x", a.shape, dtype)
    names = ["not"] if dtype == "bool" else ["neg", "abs"]
    names += [*FLOAT_UNARY, *FLOAT_TEST] if dtype in FLOATS else ["bitnot"] if dtype != "bool" else []

    def made(name: str) -> Tensor:
        return line(a.shape, lambda i: t.logical_not(x[i]) if name == "not" else t.unary(name, x[i]))

    for name in names:
        saved(Program([x], {name: made(name)}), {"x": a})


MOST = [pytest.param(x, marks=pytest.mark.slow) if x in ("int16", "uint16", "uint32") else x for x in DATA]


def _defined(op: str, a: Term, b: Term) -> Term:
    """A binary operation where it is defined, else its first operand."""
    if a.dtype in FLOATS or a.dtype == "bool":
        return t.binary(op, a, b)
    if op in ("floordiv", "mod", "truncdiv", "truncmod"):
        return t.where(t.compare("ne", b, 0), t.binary(op, a, b), a)
    if op in ("shl", "shr"):
        bits = t.const(8 * np.dtype(a.dtype).itemsize, a.dtype)
        return t.where(t.logical_and(t.compare("le", 0, b), t.compare("lt", b, bits)), t.binary(op, a, b), a)
    if op == "pow":
        return t.where(t.compare("le", 0, b), t.binary(op, a, b), a)
    return t.binary(op, a, b)


def _binary_names(dtype: str) -> list[str]:
    if dtype == "bool":
        return ["bitand", "bitor", "bitxor", "min", "max"]
    common = ["add", "sub", "mul", "floordiv", "mod", "min", "max", "pow"]
    return [*common, "div"] if dtype in FLOATS else [*common, "truncdiv", "truncmod", *t.BITWISE]


@pytest.mark.parametrize("dtype", MOST)
def test_binary_functions(dtype: str) -> None:
    a, b = pairs(dtype)
    x, y = input("x", a.shape, dtype), input("y", a.shape, dtype)

    def made(op: str) -> Tensor:
        return line(a.shape, lambda i: _defined(op, x[i], y[i]))

    def compared(op: str) -> Tensor:
        return line(a.shape, lambda i: t.compare(op, x[i], y[i]))

    names = _binary_names(dtype)
    outputs = {op: made(op) for op in names} | {op: compared(op) for op in t.COMPARE}
    saved(Program([x, y], outputs), {"x": a, "y": b})


@pytest.mark.parametrize("dtype", [x for x in MOST if x != "bool"])
def test_operations_with_numbers(dtype: str) -> None:
    a = values(dtype, 3)
    x = input("x", a.shape, dtype)
    numbers: list[Any] = [2.5, -0.75] if dtype in FLOATS else [3, int(np.iinfo(dtype).max)]
    numbers += [-1, -3, int(np.iinfo(dtype).min)] if dtype in INTS else []

    def made(op: str, number: Any) -> Tensor:
        return line(a.shape, lambda i: _defined(op, x[i], t.const(number, dtype)))

    names = [op for op in _binary_names(dtype) if op != "pow"]
    outputs = {f"{op}{n}": made(op, number) for op in names for n, number in enumerate(numbers)}
    outputs |= {f"pow{n}": line(a.shape, lambda i, n=n: x[i] ** t.const(type(numbers[0])(n), dtype)) for n in range(4)}
    saved(Program([x], outputs), {"x": a})


@pytest.mark.parametrize("dtype", DATA)
def test_casts(dtype: str) -> None:
    a = values(dtype, 4)
    x = input("x", a.shape, dtype)
    outputs = {other: line(a.shape, lambda i, d=other: t.cast_to(x[i], d)) for other in DATA if other != dtype}
    saved(Program([x], outputs), {"x": a})


@pytest.mark.parametrize("dtype", DATA)
def test_choices_and_positions(dtype: str) -> None:
    a = values(dtype, 5)
    n = a.size
    x, c = input("x", (n,), dtype), input("test", (n,), "bool")
    chosen = line(n, lambda i: t.where(c[i], x[i], x[n - 1 - i]))
    padded = x.pad((2, 1), True if dtype == "bool" else 3)
    where = line(n, lambda i: t.where(i % 3 < 1, x[i], t.cast_to(t.cast_to(i, "int64"), dtype)))
    taken = x.take([3, 0, 0], 0)
    saved(Program([x, c], {"a": chosen, "b": padded, "c": where, "d": taken}), {"x": a, "test": values("bool", 6, n)})


@pytest.mark.parametrize("dtype", INTS)
def test_positions_by_data(dtype: str) -> None:
    """Those below 0 count from the end, by a sum that fits int64 for all others, too."""
    info = np.iinfo(dtype)
    at = np.array([0, 2, -1, -3, 3, -4, info.max, info.min], dtype)
    x, i = input("x", (3, 4), "float32"), input("i", at.shape, dtype)
    feeds = {"x": np.arange(12, dtype="float32").reshape(3, 4), "i": at}
    saved(Program([x, i], {"rows": x[i], "columns": x[:, i], "twice": x[i][i], "pairs": x[i, i[::-1]]}), feeds)


# -- reductions ------------------------------------------------------------------------------------------------------


@each_value(dtype=DATA, combiner=["sum", "prod", "max", "min"])
def test_reductions(dtype: str, combiner: str) -> None:
    if dtype == "bool" and combiner in ("sum", "prod"):
        return
    random = np.random.default_rng(0)
    shape = (3, 4, 5)
    x, e = input("x", shape, dtype), input("e", (3, 0), dtype)
    drawn = values(dtype, 7, 60)
    a = drawn[random.permutation(drawn.size)][:60].reshape(shape)
    if dtype in FLOATS and combiner in ("sum", "prod"):
        a = special(random.integers(-8, 9, shape) / 4, random, [np.nan, np.inf], dtype)

    def reduced(axes: Any, ordered: bool = False) -> Tensor:
        def load(i: Term, *k: Term) -> Term:
            return x[(i, *k)] if len(k) == 2 else x[(i, k[0], 2)]

        return compute((3,), load, [shape[n] for n in axes], combiner, ordered=ordered)

    outputs = {f"over{n}": reductions.reduce(x, combiner, axes) for n, axes in enumerate([0, 1, 2, (0, 2), None])}
    outputs |= {"some": reduced([1]), "ordered": reduced([1, 2], True)}
    outputs["nothing"] = compute((3,), lambda i, k: e[i, k], (0,), combiner)
    saved(Program([x, e], outputs), {"x": a, "e": np.zeros((3, 0), dtype)})


@pytest.mark.parametrize("dtype", ["int16", "uint64", "bool", *FLOATS])
def test_symbolic_reductions_may_be_empty(dtype: str) -> None:
    n = t.sym("Rows", lower=0)
    x = input("x", (2, n), dtype)
    outputs = {c: compute((2,), lambda i, k: x[i, k], (n,), c) for c in ("max", "min")}
    if dtype != "bool":
        outputs["prod"] = compute((2,), lambda i, k: x[i, k], (n,), "prod")
        outputs["sum"] = compute((2,), lambda i, k: x[i, k] + x[i, 0], (n,), "sum", ordered=True)
    for size in (0, 1, 3):
        saved(Program([x], outputs), sizes={"Rows": size})


# -- operators -------------------------------------------------------------------------------------------------------

CONVOLUTIONS: list[dict[str, Any]] = [
    {}, {"padding": 1}, {"padding": 1, "strides": 2}, {"strides": (1, 3)}, {"dilation": 2, "padding": (2, 0, 1, 2)},
    {"groups": 2, "padding": (0, 1, 1, 0)}, {"groups": 4, "strides": (2, 1)}, {"padding": 4},
]  # fmt: skip
LAYOUTS = [("NCHW", "OIHW"), ("NHWC", "HWIO"), ("NHWC", "OHWI"), ("NCHW2c", "OIHW2i4o"), ("CHWN", "OIHW4o")]


@pytest.mark.parametrize(("data", "weights"), LAYOUTS, ids=[a for a, _ in LAYOUTS])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=[str(c) for c in CONVOLUTIONS])
def test_convolutions_are_one_operator(options: dict[str, Any], data: str, weights: str) -> None:
    groups = options.get("groups", 1)
    if 4 // groups % 2 and "2i" in weights:
        weights = "OIHW4o"
    x = input("x", eq.Layout("NCHW").to(data).forward_shape((2, 4, 9, 8)), F)
    w = input("w", eq.Layout("OIHW").to(weights).forward_shape((8, 4 // groups, 3, 3)), F)
    found = operators(saved(eq.conv2d(x, w, data_layout=data, kernel_layout=weights, **options)))
    assert [op for op in found if op not in LAYOUT] == ["Conv"]
    assert data != "NCHW" or "Transpose" not in found or weights != "OIHW"


def pooled(x: Tensor, combiner: str, pad: int, stride: int, size: int = 3, share: Any = None) -> Tensor:
    """Pooling of (n, c, h, w) as a user writes it."""
    n, c, h, w = (int(str(d)) for d in x.shape)
    ignored = t.const({"max": -np.inf, "min": np.inf, "sum": 0.0}[combiner], x.dtype)

    def cell(b: Term, k: Term, i: Term, j: Term, p: Term, q: Term) -> Term:
        y, z = i * stride + p - pad, j * stride + q - pad
        value = x[b, k, y, z] if share is None else x[b, k, y, z] / share
        inside = t.logical_and(y >= 0, y < h, z >= 0, z < w)
        return t.where(inside, value, ignored) if pad else value

    outs = [(d + 2 * pad - size) // stride + 1 for d in (h, w)]
    return compute((n, c, *outs), cell, (size, size), combiner)


def _mean(pad: int) -> Tensor:
    total = pooled(image, "sum", pad, 2)
    return total / 9.0


def _mean_of_cells() -> Tensor:
    total = pooled(image, "sum", 1, 2)

    def count(d: int) -> Callable[[Term], Term]:
        return lambda i: t.binary("min", i * 2 + 2, d) - t.binary("max", i * 2 - 1, 0)

    rows, columns = count(9), count(8)
    return compute(total.shape, lambda n, c, i, j: total[n, c, i, j] / t.cast_to(rows(i) * columns(j), F))


def signal(*shape: int, dtype: str = F) -> Tensor:
    return input("s", shape, dtype)


def weight(*shape: int, dtype: str = F) -> Tensor:
    return input("w", shape, dtype)


def convolved(dtype: str) -> Tensor:
    return eq.conv2d(signal(1, 2, 5, 5, dtype=dtype), weight(3, 2, 3, 3, dtype=dtype), padding=1)


a34, b45, batch = input("a", (3, 4), F), input("b", (4, 5), F), input("c", (2, 3, 4), F)
SINGLE: list[tuple[str, Callable[[], Tensor], set[str]]] = [
    ("max pool", lambda: pooled(image, "max", 1, 2), {"MaxPool", "IsNaN", "Cast", "Less", "Where"}),
    ("max pool without padding", lambda: pooled(image, "max", 0, 1), {"MaxPool", "IsNaN", "Cast", "Less", "Where"}),
    ("mean pool", lambda: _mean(0), {"AveragePool"}),
    ("mean pool with padding", lambda: _mean(1), {"AveragePool"}),
    ("mean of cells", _mean_of_cells, {"AveragePool"}),
    ("sum of quotients", lambda: pooled(image, "sum", 0, 2, 2, 4.0), {"AveragePool"}),
    ("sum pool", lambda: pooled(image, "sum", 1, 2), {"Conv"}),
    ("matmul", lambda: eq.matmul(a34, b45), {"MatMul"}),
    ("batched", lambda: eq.matmul(batch, b45), {"MatMul"}),
    ("conv in one axis", lambda: contraction.conv(signal(2, 4, 9), weight(6, 2, 3), 2, 1, 1, 2), {"Conv"}),
    ("conv in three axes", lambda: contraction.conv(signal(1, 2, 5, 4, 6), weight(3, 2, 2, 3, 2), 1, 1), {"Conv"}),
    ("softmax", lambda: m.softmax(1), {"Softmax"}),
    ("concat", lambda: eq.concat([m, m.relu()], 0), {"Relu", "Concat"}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), [s[1:] for s in SINGLE], ids=[s[0] for s in SINGLE])
def test_operators_that_onnx_has(make: Callable[[], Tensor], expected: set[str]) -> None:
    assert set(operators(saved(make()))) - {"Reshape", "Identity"} == expected


OTHERS: list[tuple[str, Callable[[], Tensor]]] = [
    ("min pool", lambda: pooled(image, "min", 1, 2)),
    ("max pool in NHWC", lambda: pooled_nhwc()),
    ("conv of float64", lambda: convolved("float64")),
    ("conv of int8", lambda: convolved("int8")),
    ("conv of float16", lambda: convolved("float16")),
    ("transposed conv", lambda: contraction.conv_transpose(signal(1, 4, 4, 3), weight(4, 2, 3, 3), 2, 1, 1, 2)),
    ("matmul of int8", lambda: eq.matmul(input("p", (3, 4), "int8"), input("q", (4, 2), "int8"))),
    ("matmul of bits", lambda: eq.matmul(input("p", (3, 4), "uint64"), input("q", (4, 2), "uint64"))),
    ("a sum of products of three", lambda: compute((3,), lambda i, k: m[i, k] * m[i, k] * v3[i], (4,))),
    ("pack", lambda: image.layout_transform("NCHW", "NCHW3c", pad_value=1.5)),
    ("a hole", lambda: views.crop(views.pad(v3, 2, eq.UNDEF), (2,), (3,)) + 1),
    ("a fill from the source", lambda: views.pad(v3, 2, t.load(0, (t.ax(0, 7) % 3,), F) * 2.0)),
    ("reflected", lambda: m.pad(2, mode="reflect")),
    ("wrapped", lambda: m.pad(3, mode="wrap").roll(2, 0).flip(1).tile((1, 2))),
    ("mean", lambda: reductions.mean(m, 1)),
    ("sigmoid", lambda: m.sigmoid()),
    ("clip", lambda: m.clip(-1, 1)),
    ("a window of ten", lambda: compute((4, 3, 3), lambda i, j, k, a, b: batch4()[i + a, j + b, k], (2, 2), "max")),
    ("a formula without operands", lambda: plane((3, 4), lambda i, j: t.cast_to(i * 10 + j, F))),
    ("a number", lambda: compute((2, 3), lambda i, j: t.const(True, "bool"))),
    ("no cells", lambda: compute((2, 0), lambda i, j: m[i, j] + 1)),
    ("an empty operand", lambda: line(3, lambda i: eq.where(i < 0, input("e", (0,), F)[i], 1.0))),
    ("rank 0", lambda: input("s", (), "int8") * 3),
    ("choices", lambda: line(3, lambda i: eq.where(i < 1, x5[i], eq.where(i < 2, x5[i + 3], v3[i] * 2)))),
]  # fmt: skip


def batch4() -> Tensor:
    return input("q", (5, 4, 3), F)


def pooled_nhwc() -> Tensor:
    x = input("x", (2, 6, 7, 3), F)
    return compute((2, 3, 3, 3), lambda n, i, j, c, p, q: x[n, i * 2 + p, j * 2 + q, c], (2, 3), "max")


@pytest.mark.parametrize("make", [o[1] for o in OTHERS], ids=[o[0] for o in OTHERS])
def test_other_programs(make: Callable[[], Tensor]) -> None:
    saved(make())


def test_parts_of_a_split() -> None:
    parts = eq.split(m, [1, 3], 1)
    saved(Program([m], {f"p{n}": p for n, p in enumerate(parts)}))


def test_nan_stays_in_maxima() -> None:
    cells = np.random.default_rng(0).standard_normal((2, 4, 9, 8)).astype(F)
    cells[0, 1, 3, 3], cells[1, 2, 0, 7] = np.nan, np.inf
    outputs = {"pool": pooled(image, "max", 1, 2), "max": image.max((1, 3)), "min": image.min(None)}
    saved(Program([image], outputs), {"i": cells})


# -- symbolic sizes --------------------------------------------------------------------------------------------------

N = t.sym("Width", lower=1)
xn, mn, q = input("x", (N,), F), input("m", (2, N), F), input("q", (1, N), F)
SYMBOLIC: list[tuple[str, Callable[[], Tensor]]] = [
    ("a shifted read", lambda: line(N, lambda i: eq.where(i >= 1, xn[i - 1], 0))),
    ("the next one", lambda: line(N, lambda i: eq.where(i + 1 < N, xn[i + 1], xn[i]))),
    ("its own position", lambda: line(N, lambda i: xn[i] * t.cast_to(i, F))),
    ("its size", lambda: line(N, lambda i: xn[i] / t.cast_to(t.as_index(N), F))),
    ("mirrored", lambda: line(N, lambda i: xn[N - 1 - i])),
    ("two axes", lambda: plane((N, N), lambda i, j: xn[i] - xn[j])),
    ("reduced", lambda: compute((2,), lambda i, k: mn[i, k] * xn[k] + 1.0, (N,))),
    ("multiplied", lambda: eq.matmul(mn, input("w", (N, 3), F))),
    ("convolved", lambda: eq.conv2d(input("x", (N, 3, N, 5), F), input("w", (2, 3, 3, 3), F), padding=1)),
    ("twice", lambda: eq.concat([xn, xn.relu()], 0)),
    ("half", lambda: line(N // 2, lambda i: xn[i * 2 + 1])),
    ("pooled", lambda: compute((1, N), lambda n, i, p: eq.where(i + p < N, q[n, i + p], -np.inf), (2,), "max")),
]  # fmt: skip


@pytest.mark.parametrize("make", [s[1] for s in SYMBOLIC], ids=[s[0] for s in SYMBOLIC])
def test_symbolic_sizes(make: Callable[[], Tensor]) -> None:
    for size in (1, 2, 5):
        saved(make(), sizes={"Width": size})


def test_symbolic_sizes_may_be_empty() -> None:
    n = t.sym("Rows", lower=0)
    x, y = input("x", (n, 3, 5, 5), F), input("y", (n,), F)
    programs = [
        eq.conv2d(x, weight(2, 3, 3, 3), padding=1),
        compute((n, 3, 4), lambda b, c, i, k: x[b, c, i + k, 2], (2,), "max"),
        line(n, lambda i: eq.where(i + 1 < n, y[i + 1], y[0])),  # pyright: ignore[reportUnknownLambdaType]
        eq.matmul(x, weight(5, 2)),
    ]
    for made in programs:
        for size in (0, 1, 2):
            saved(made, sizes={"Rows": size})


# -- files and errors ------------------------------------------------------------------------------------------------


def test_a_tensor_is_saved_with_its_names(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    eq.onnx.save(line(5, lambda i: eq.where(i >= 1, x5[i - 1], 0)), path)
    model = onnx.load(path)
    assert [(v.name) for v in (*model.graph.input, *model.graph.output)] == ["x", "out"]
    back = eq.onnx.load(path)
    assert list(evaluate_outputs(back, {"x": np.arange(5, dtype=F)})["out"]) == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("wrong", [5, "m.onnx", None, np.zeros(3)])
def test_other_things_are_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(EqsatError, match="not a program or a tensor"):
        eq.onnx.save(wrong, tmp_path / "m.onnx")
    with pytest.raises(FrontendError, match="like"):
        eq.onnx.save(x5, tmp_path / "m.onnx", 3 if wrong is None else wrong)  # pyright: ignore[reportArgumentType]
    assert not list(tmp_path.iterdir())


def test_an_output_with_the_name_of_an_input_is_refused() -> None:
    with pytest.raises(FrontendError, match="name of an input"):
        write(Program([x5], {"x": x5.relu()}))
    saved(Program([x5], {"x": x5}))


def test_an_operator_without_a_formula_is_refused() -> None:
    (y,) = eq.opaque("strange", [x5], [((5,), F)])
    with pytest.raises(FrontendError, match="strange"):
        write(Program([x5], {"y": y}))


# -- random programs -------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(programs(dtypes=DATA), st.integers(0, 100))
def test_random_programs(program: Program, seed: int) -> None:
    saved(program, arrays_for(program, seed))


def check(seed: int) -> None:
    program = program_of(seed)
    feeds = feeds_of(program, seed)
    try:
        evaluate_outputs(program, feeds, undef=0)
    except EvaluationError:
        write(program)
        return
    saved(program, feeds)


@pytest.mark.parametrize("start", some_of(range(0, 80, 10), 2))
def test_random_formulas(start: int) -> None:
    for seed in range(start, start + 10):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_many_random_formulas(start: int) -> None:
    for seed in range(start, start + 250):
        check(seed)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@settings(max_examples=2000)
@given(programs(dtypes=DATA), st.integers(0, 100))
def test_many_random_programs(program: Program, seed: int) -> None:
    saved(program, arrays_for(program, seed))


def test_random_formulas_have_what_they_should() -> None:
    cases = [Case(seed) for seed in range(200)]
    assert {c.inputs[0].dtype for c in cases} == set(DATA)
    nodes = [n for seed in range(200) for n in program_of(seed).nodes()]
    terms = [x for n in nodes if isinstance(n, Compute) for x in postorder(n.body)]
    wanted = {"where", "load", "cast", "mod", "floordiv", "truncdiv", "shl", "hole", "sym", "pow"}
    assert wanted <= {x.op for x in terms}
    assert any(isinstance(x.payload, Table) for x in terms)
    assert any(x.op == "cast" and x.dtype == t.INDEX for x in terms), "an index that is data"


def test_a_lost_slice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer that takes every load at the output's index for a whole operand."""
    plain = Formula.plain

    def careless(self: Formula, source: Tensor, index: Any) -> Any:
        found = plain(self, source, index)
        same = source.rank == len(self.axes) and all(i is a for i, a in zip(index, self.axes, strict=False))
        return plain(self, input("y", self.extents, source.dtype), self.axes) if found is None and same else found

    monkeypatch.setattr(Formula, "plain", careless)
    with pytest.raises((AssertionError, EqsatError)):
        saved(line(4, lambda i: x5[i] * 2))


def test_differences_are_found() -> None:
    program = Program([x5], {"y": x5 * 2})
    feeds = random_feeds(program)
    got: NDArray = run_session(session(write(program)), feeds)[0]
    assert not difference(feeds["x"] * 2, got)
    assert difference(feeds["x"] * np.float32(2.001), got) and difference(got.astype(np.float64), got)

"""Evaluating programs: feeding, symbols, opaque operators, block by block, and what a program may be."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.tensors import run
from eqsat.ir.tensors.program_text import format_program
from eqsat.ir.tensors.run import evaluate_outputs, gather
from eqsat.ir.tensors.tensor import Compute, Constant, Opaque, Tensor, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms import walk


def test_named_inputs_and_outputs() -> None:
    x, y = eq.input("x", (2,), "float32"), eq.input("y", (), "float32")
    p = eq.Program([x, y], {"sum": x + y, "same": x, "twice": (x + x)})
    a, b = np.array([1, 2], "float32"), np.float32(3)
    result = evaluate_outputs(p, {"x": a, "y": b})
    assert {k: v.tolist() for k, v in result.items()} == {"sum": [4, 5], "same": [1, 2], "twice": [2, 4]}
    swapped = evaluate_outputs(p, {"x": a.astype(">f4"), "y": b})["sum"]
    assert swapped.tolist() == [4, 5] and swapped.dtype.isnative
    assert eq.constant(a.astype(">f4")).node.outputs[0][1] == "float32"


def test_a_constant_owns_its_array() -> None:
    a = np.arange(3.0)
    node = eq.constant(a).node
    a[0] = 9
    assert isinstance(node, Constant) and node.array.tolist() == [0, 1, 2] and not node.array.flags.writeable
    assert Constant(a).array is not a and a.flags.writeable


n = eq.symbol("N", lower=2, upper=8, multiple_of=2)
xn = eq.input("x", (n, 3), "float32")
WRONG: list[dict[str, Any]] = [
    {}, {"x": np.zeros((2, 3), "float32"), "y": 1}, {"x": np.zeros((2, 3))}, {"x": np.zeros((2, 4), "float32")},
    {"x": np.zeros((3, 3), "float32")}, {"x": np.zeros((10, 3), "float32")}, {"x": np.zeros((0, 3), "float32")},
    {"x": np.zeros((2, 3, 1), "float32")}, {"x": "text"},
]  # fmt: skip


@pytest.mark.parametrize("feed", WRONG)
def test_wrong_arrays(feed: dict[str, Any]) -> None:
    with pytest.raises(EvaluationError):
        eq.evaluate(xn.relu(), feed)


def test_symbols_are_read_from_shapes() -> None:
    half = eq.input("h", (n // 2,), "float32")
    spread = half.reshape((n // 2, 1)).broadcast_to((n // 2, 3))
    p = eq.Program([half, xn], {"y": spread + xn.slice((0, 0), (n // 2, 3))})
    a, h = np.arange(12, dtype="float32").reshape(4, 3), np.array([10, 20], "float32")
    assert evaluate_outputs(p, {"x": a, "h": h})["y"].tolist() == (a[:2] + h[:, None]).tolist()
    with pytest.raises(EvaluationError, match="N // 2 is 2"):
        eq.evaluate(p, {"x": a, "h": np.zeros(3, "float32")})
    with pytest.raises(EvaluationError, match="no extent by itself"):
        eq.evaluate(half.relu(), {"h": h})


def test_symbols_are_solved_from_sums() -> None:
    h, w = eq.symbol("H"), eq.symbol("W")
    x = eq.input("x", (h + 2, 2 * w + h), "float32")
    y = x.slice((0, 0), (h, w))
    a = np.arange(45, dtype="float32").reshape(5, 9)
    assert eq.evaluate(y, {"x": a}).tolist() == a[:3, :3].tolist()
    with pytest.raises(EvaluationError, match="no extent by itself"):
        eq.evaluate(y, {"x": np.zeros((5, 8), np.float32)})
    with pytest.raises(EvaluationError, match="H = -1"):
        eq.evaluate(y, {"x": np.zeros((1, 9), np.float32)})


def test_a_size_that_only_an_operator_knows_is_learned() -> None:
    k = eq.symbol("K", lower=0)
    x = eq.input("x", (4,), "float32")

    def positive(a: NDArray) -> NDArray:
        return a[a > 0]

    kept = eq.opaque("Kept", [x], [((k,), "float32")], impl=positive)[0]
    a = np.array([1, -1, 2, 0], "float32")
    assert eq.evaluate(kept + 1.0, {"x": a}).tolist() == [2, 3]
    assert eq.evaluate(kept.sum(), {"x": -abs(a)}).tolist() == 0


def test_opaque_operators() -> None:
    x = eq.input("x", (3,), "float32")
    a = np.array([3, 1, 2], "float32")

    def sort(v: NDArray) -> Any:
        v.sort()
        return v, np.argsort(a)

    values, order = eq.opaque("Sort", [x], [((3,), "float32"), ((3,), "int64")], impl=sort)
    result = evaluate_outputs(eq.Program([x], {"v": values + x, "o": order}), {"x": a})
    assert result["v"].tolist() == [4, 3, 5] and result["o"].tolist() == [1, 2, 0] and a.tolist() == [3, 1, 2]
    for impl, outputs in (
        (None, ((3,), "float32")),
        (np.negative, ((4,), "float32")),
        (np.negative, ((3,), "float64")),
        (np.modf, ((3,), "float32")),
    ):
        with pytest.raises(EvaluationError):
            eq.evaluate(eq.opaque("Bad", [x], [outputs], impl=impl)[0], {"x": a})


def test_definitions_see_symbolic_shapes() -> None:
    x = eq.input("x", (n, 3), "float32")

    def twice(y: Tensor) -> Tensor:
        return y.pad(((0, 0), (0, 1))).crop((0, 0), y.shape) * 2.0

    node = Opaque("Twice", [x], [((n, 3), "float32")], definition=twice)
    a = np.arange(12, dtype="float32").reshape(4, 3)
    assert eq.evaluate(Tensor(node), {"x": a}).tolist() == (2 * a).tolist()


@given(st.integers(1, 50), st.integers(0, 4), st.integers(0, 3))
def test_blocks_do_not_change_results(limit: int, rows: int, inner: int) -> None:
    x, w = eq.input("x", (rows, 3, 2), "int64"), eq.input("w", (2, inner), "int64")
    y = eq.concat([eq.matmul(x, w).pad(((0, 0), (1, 0), (0, 0)), 5), eq.matmul(x.flip(1), w)], 1).sum(0)
    feed = {"x": np.arange(rows * 6).reshape(rows, 3, 2), "w": np.arange(2 * inner).reshape(2, inner)}
    whole = eq.evaluate(y, feed)
    normal, run.CHUNK_POINTS = run.CHUNK_POINTS, limit
    try:
        np.testing.assert_array_equal(eq.evaluate(y, feed), whole)
    finally:
        run.CHUNK_POINTS = normal


@given(st.data())
def test_gather(data: st.DataObject) -> None:
    """The fast path for outer indices is fancy indexing."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    grid = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    index: list[NDArray] = []
    for extent in shape:
        size = [d if data.draw(st.booleans()) else 1 for d in grid]
        count = int(np.prod(size))
        values = data.draw(st.lists(st.integers(0, extent - 1), min_size=count, max_size=count))
        index.append(np.array(values, np.int64).reshape(size))
    np.testing.assert_array_equal(gather(array, index), array[tuple(index)])


def test_large_programs_are_evaluated_without_recursion() -> None:
    x = y = eq.input("x", (2,), "int64")
    for k in range(3000):
        y = y.flip() if k % 3 == 0 else y + 1 if k % 3 == 1 else eq.maximum(y, x)
    assert eq.evaluate(y, {"x": np.array([0, 1])}).tolist() == [1000, 1001]
    wide = eq.concat([x] * 300, 0)
    assert eq.evaluate(wide.sum(), {"x": np.array([0, 1])}) == 300


def test_a_gather_by_data() -> None:
    x, i = eq.input("x", (4,), "float32"), eq.input("i", (3,), "int64")
    y = eq.compute((3,), lambda k: x[eq.cast(i[k], "index")])
    a = np.array([5, 6, 7, 8], "float32")
    assert eq.evaluate(y, {"x": a, "i": np.array([3, 0, 3])}).tolist() == [8, 5, 8]
    with pytest.raises(EvaluationError, match="out of range"):
        eq.evaluate(y, {"x": a, "i": np.array([4, 0, 3])})


x3 = eq.input("x", (3,), "float32")
i0, r0 = t.ax(0, 3), t.red(0, 2)
BAD: list[Any] = [
    lambda: eq.Program([], {"y": x3}),
    lambda: eq.Program([x3.relu()], {}),
    lambda: eq.Program([x3, eq.input("x", (3,), "float32")], {"y": x3}),
    lambda: eq.Program([x3], {"y": cast(Any, 3)}),
    lambda: eq.evaluate(cast(Any, 3)),
    lambda: eq.compute((3,), lambda i: i),
    lambda: eq.compute((3,), lambda i: 3),
    lambda: eq.compute((3,), lambda i: x3[i] + x3[eq.axis("k")]),
    lambda: eq.compute((4,), lambda i: x3[t.ax(0, 3)]),
    lambda: eq.compute((3,), lambda i: x3[t.ax(1, 3)]),
    lambda: eq.compute((3,), lambda i, r: x3[i] < 1.0, reduce=(2,)),
    lambda: eq.compute((3,), lambda i, r: x3[i], reduce=(2,), combiner="mean"),
    lambda: eq.compute((3,), lambda i: x3[t.ramp(i, 0, 2)]),
    lambda: from_body(t.load(0, [i0], "float32"), (3,)),
    lambda: Compute([x3], (3,), t.load(1, [i0], "float32")),
    lambda: Compute([x3], (3,), t.load(0, [i0, i0], "float32")),
    lambda: Compute([x3], (3,), t.load(0, [i0], "float64")),
    lambda: Compute([x3], (3,), t.load(0, [r0], "float32")),
    lambda: Compute([x3], (3,), t.load(0, [i0], "float32"), (), "sum"),
]


@pytest.mark.parametrize("build", BAD)
def test_refuses(build: Any) -> None:
    with pytest.raises(EqsatError):
        build()


def test_the_text_of_a_program() -> None:
    x, w = eq.input("x", (2, 4), "float32"), eq.input("w", (4, 3), "float32")
    y = eq.matmul(x.pad(((0, 0), (1, 0))).crop((0, 1), (2, 4)), w) + eq.constant(2, "float32", name="two")
    text = format_program(eq.Program([x, w], {"y": y.softmax(1), "z": x}, "net"))
    assert text.splitlines() == [
        "net(x: float32(2, 4), w: float32(4, 3)) -> y, z",
        "  t0 = pad x[i0, i1 - 1] where 0 <= i1 - 1 else float32(0.0)  # float32(2, 5)",
        "  t1 = crop t0[i0, i1 + 1]                          # float32(2, 4)",
        "  t2 = matmul sum(t1[i0, r0]*w[r0, i1] for r0 < 4)  # float32(2, 3)",
        "  two = constant 2.0                                # float32()",
        "  t3 = add t2[i0, i1] + two[()]                     # float32(2, 3)",
        "  y = softmax(t3, axis=1) {a0 a1 -> a0 a1}          # float32(2, 3)",
        "  z = x",
    ]
    for _ in range(1000):
        x = x + 1.0
    long = str(eq.Program([walk_input(x)], {"y": x}))
    assert "more nodes" in long and len(long.splitlines()) < 250


def walk_input(x: Tensor) -> Tensor:
    while x.node.operands:
        x = x.node.operands[0]
    return x


def test_walks_leave_out_what_is_done() -> None:
    i, j = t.var("i"), t.var("j")
    assert [str(s) for s in walk.postorder(i // j + 1, done={i // j})] == ["i // j + 1"]


def test_evaluate_and_a_kernel_give_the_same_kind_of_result() -> None:
    x = eq.input("x", (2,), "float32")
    feed = {"x": np.array([1, -2], "float32")}
    cases: list[eq.Program | Tensor] = [x.relu(), eq.Program([x], {"y": x.relu()}), eq.Program([x], {"y": -x, "z": x})]
    for program in cases:
        value, kernel = eq.evaluate(program, feed), eq.compile(program, target="numpy")(feed)
        assert type(value) is type(kernel)
        np.testing.assert_equal(value, kernel)
    assert list(eq.evaluate(cases[2], feed)) == ["y", "z"]
    assert list(evaluate_outputs(cases[0], feed)) == ["out"] and list(evaluate_outputs(cases[1], feed)) == ["y"]


@pytest.mark.parametrize("inner", [33, 4096, 8192])
def test_sums_of_two_bytes_round_once(inner: int) -> None:
    """Wherever the terms lie: numpy's own sums of float16 round at each step, unless they lie side by side."""
    x, y = eq.input("x", (3, inner), "float16"), eq.input("y", (inner, 2), "float16")
    rng = np.random.default_rng(inner)
    for a, b in ((np.ones((3, inner)), np.ones((inner, 2))), (rng.random((3, inner)), rng.random((inner, 2)))):
        a, b = a.astype("float16"), b.astype("float16")
        want = (a.astype("float32")[:, :, None] * b.astype("float32")).sum(1)
        got = eq.evaluate(eq.matmul(x, y), {"x": a, "y": b})
        assert got.dtype == np.float16
        np.testing.assert_allclose(got.astype("float32"), want, rtol=2e-3)
        down = eq.evaluate(y.sum(axis=0), {"y": b})
        np.testing.assert_array_equal(down, b.astype("float32").sum(0).astype("float16"))


def test_what_fits_no_memory_is_an_error_of_ours() -> None:
    x = eq.input("x", (1,), "float32")
    with pytest.raises(EvaluationError, match="more memory than there is"):
        eq.evaluate(eq.broadcast_to(x, (1 << 45,)) + 1, {"x": np.ones(1, "float32")})


def test_the_nodes_of_a_program_are_those_of_its_outputs_now() -> None:
    x = eq.input("x", (3,), "float32")
    program = eq.Program([x], {"y": x.relu()})
    assert len(program.nodes()) == 2
    program.outputs["z"] = x.exp()
    assert len(program.nodes()) == 3 and program.nodes()[-1] is program.outputs["z"].node
    del program.outputs["y"]
    assert len(program.nodes()) == 2

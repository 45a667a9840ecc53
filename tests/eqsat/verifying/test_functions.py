"""Calls of functions over buffers are followed cell by cell: what is proved of them is what they do."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from random_functions import random_function
from random_primfuncs import random_case

import eqsat as eq
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.statements.bind import at_sizes, bind_function
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Assume, statements
from eqsat.ir.tensors.tensor import Opaque
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.verifying import functions
from eqsat.verifying.cells import Unfolding, ValueNumbers
from eqsat.verifying.functions import called

BLOCKS = """\
func f(x: float32[2, 8, 6], y: float32[2, 8, 6])
  alloc t: float32[2, 8, 6]
  for n in 2:
    for c in 8:
      for w in 6:
        t[n, c, w] = x[n, c, w] + float32(1.0)
  for c in 8:
    for n in 2:
      for w in 6:
        y[n, c, w] = max(t[n, c, w], float32(0.0))"""
X = eq.input("x", (2, 8, 6), "float32")


def call_of(text: str, *inputs: eq.Tensor) -> eq.Tensor:
    func = eq.PrimFunc.parse(text)
    (y,) = eq.call(func, dict(zip(func.params, inputs, strict=False))).values()
    return y


# feature: G17
def test_layouts_that_flow_through_blocks_are_proved() -> None:
    there = X.layout_transform("n, c, w -> n, c//4, w, c%4").layout_transform("n, c, w, d -> n, 4*c + d, w")
    turned = X.permute_dims((0, 2, 1)).permute_dims((0, 2, 1))
    for x in (there, turned):
        program = call_of(BLOCKS, x)
        found = eq.optimize(program)
        assert found.layout_ops == 0 and found.program is not program
        proof = eq.verify(program, found.program)
        assert (proof.verdict, proof.method) == ("proved", "cell by cell")


WRONG = [
    ("t[n, c, w], float32(0.0)", "t[n, c, 5 - w], float32(0.0)"),
    ("float32(1.0)", "float32(-1.0)"),
    ("t[n, c, w], float32(0.0)", "t[n, c, w], float32(-0.0)"),
    ("for c in 8:\n    for n", "for c in 7:\n    for n"),
]


# feature: G17
@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_result_is_refuted(case: int) -> None:
    zeros = eq.constant(np.zeros((2, 8, 6), "float32"))
    program = call_of(BLOCKS, X, zeros)
    proof = eq.verify(program, call_of(BLOCKS.replace(*WRONG[case]), X, zeros))
    if case == 2:  # of 0.0 and -0.0, either is the greatest
        assert proof.verdict == "unknown"
        return
    assert proof.verdict == "refuted" and proof.witness is not None and proof.witness["output"] == "out"
    given = {"x": proof.witness["x"]}
    wrong = eq.evaluate(call_of(BLOCKS.replace(*WRONG[case]), X, zeros), given)
    assert not np.array_equal(eq.evaluate(program, given), wrong, equal_nan=True)


PRODUCT = """\
func product(A: float32[3, 4], B: float32[4, 5], C: float32[3, 5])
  for i in 3:
    for z in 5:
      C[i, z] = float32(0.0)
    reduce for k in 4:
      for j in 5:
        C[i, j] = C[i, j] + A[i, k]*B[k, j]"""
A, B = eq.input("A", (3, 4), "float32"), eq.input("B", (4, 5), "float32")


def raised(x: eq.Tensor, by: float) -> eq.Tensor:
    """What BLOCKS computes, of a tensor of any shape, with another number."""
    return eq.compute(x.shape, lambda i, j, k: eq.maximum(x[i, j, k] + np.float32(by), np.float32(0)))


def verdict(p: eq.Tensor, q: eq.Tensor, *inputs: eq.Tensor) -> str:
    return eq.verify(eq.Program(inputs, {"y": p}), eq.Program(inputs, {"y": q})).verdict


# feature: G17
def test_loops_that_reduce_are_products_and_others_keep_their_order() -> None:
    assert verdict(call_of(PRODUCT, A, B), A @ B, A, B) == "proved"
    assert verdict(call_of(PRODUCT, A, B), (A + 1) @ B, A, B) == "refuted"
    serial = PRODUCT.replace("reduce for", "for")
    assert verdict(call_of(serial, A, B), A @ B, A, B) == "unknown"
    assert verdict(call_of(serial, A, B), call_of(serial.replace("product", "other"), A, B), A, B) == "proved"
    whole = serial.replace("float32(0.0)", "int8(0)").replace("float32", "int8")
    a, b = eq.input("A", (3, 4), "int8"), eq.input("B", (4, 5), "int8")
    assert verdict(call_of(whole, a, b), eq.matmul(a, b), a, b) == "proved"  # whole numbers have no order


SERIAL_AROUND = """\
func f(x: float32[2, 3], y: float32[1])
  y[0] = float32(0.0)
  for s in 2:
    reduce for k in 3:
      y[0] = y[0] + x[s, k]"""


def test_only_loops_that_reduce_have_no_order() -> None:
    x = eq.input("x", (2, 3), "float32")
    assert verdict(call_of(SERIAL_AROUND, x), x.sum((0, 1)).reshape((1,)), x) == "unknown"
    both = SERIAL_AROUND.replace("for s", "reduce for s").replace("reduce reduce", "reduce")
    assert verdict(call_of(both, x), x.sum((0, 1)).reshape((1,)), x) == "proved"
    assert verdict(call_of(SERIAL_AROUND, x), call_of(SERIAL_AROUND, x.flip(1)), x) == "proved"
    assert verdict(call_of(SERIAL_AROUND, x), call_of(SERIAL_AROUND, x.flip(0)), x) == "unknown"


CHOSEN = """\
func f(x: int8[4], y: int8[4])
  for i in 4:
    if x[i] < int8(0):
      y[i] = -x[i]
    else:
      y[i] = x[i]"""


def test_branches_that_data_choose() -> None:
    x = eq.input("x", (4,), "int8")
    wanted = eq.compute((4,), lambda i: eq.where(x[i] < 0, -x[i], x[i]))
    zeros = eq.constant(np.zeros(4, "int8"))
    assert verdict(call_of(CHOSEN, x, zeros), wanted, x) == "proved"
    assert verdict(call_of(CHOSEN, x, zeros), x, x) == "refuted"


# feature: G17
def test_sizes_that_are_not_known() -> None:
    text = """\
func f(x: int8[N, 4], y: int8[N, 4])
  symbol N
  alloc t: int8[N, 4]
  for i in N:
    for j in 4:
      t[i, j] = x[i, j] + int8(1)
  for i in N:
    for j in 4:
      y[i, j] = max(t[N - 1 - i, j], int8(0))"""
    x = eq.input("x", (eq.symbol("K", lower=1), 4), "int8")
    program = call_of(text, x.permute_dims((1, 0)).permute_dims((1, 0)))
    found = eq.optimize(program)
    assert not [n for n in found.program.nodes() if isinstance(n, Opaque)]
    assert eq.verify(program, found.program).verdict == "proved"
    assert eq.verify(program, (x + 1).relu()).verdict == "refuted"


def test_functions_that_are_too_long_to_follow_are_their_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MOST_STEPS", 100)
    program = call_of(BLOCKS, X.permute_dims((0, 2, 1)).permute_dims((0, 2, 1)))
    proof = eq.verify(program, eq.optimize(program).program)
    assert (proof.verdict, proof.method) == ("proved", "normal form")
    monkeypatch.setattr("eqsat.verifying.cells.MOST_CELLS", 1 << 12)  # which these are more than
    large = BLOCKS.replace("[2, 8, 6]", "[2, 80, 60]").replace("in 8", "in 80").replace("in 6", "in 60")
    x = eq.input("x", (2, 80, 60), "float32")
    for shift, wanted in ((1.0, "proved"), (2.0, "refuted")):
        assert eq.verify(call_of(large, x), raised(x, shift)).verdict == wanted


# -- what numbers mean -------------------------------------------------------------------------------------------------


class Decoded:
    """The values of numbers, where the inputs hold something."""

    def __init__(self, values: ValueNumbers, inputs: dict[str, NDArray]) -> None:
        self.known: dict[int, Any] = dict(values.constants)
        self.keys = {number: key for key, number in values.table.items()}
        for key, first in values.table.items():
            if key[0] == "input":
                self.known |= dict(enumerate(inputs[key[1]].ravel(), first))

    def __call__(self, number: int) -> Any:
        if number not in self.known:
            self.known[number] = self.made(*self.keys[number])
        return self.known[number]

    def made(self, op: str, payload: Any, dtype: str, types: Any, row: Any) -> Any:
        if op == "reduce":
            items = [self(n) for n in np.frombuffer(row, np.int64)]
            combine = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[payload]
            return combine.reduce(np.array(items, dtype), dtype=dtype)
        if op == "where":
            return self(row[1] if self(row[0]) else row[2])
        leaves = [t.make("var", (), f"operand{k}", d) for k, d in enumerate(types)]
        env = {leaf: np.asarray(self(n), leaf.dtype if leaf.dtype != INDEX else "int64")
               for leaf, n in zip(leaves, row, strict=True)}  # fmt: skip
        ((value, bad),) = evaluate_masked([t.make(op, leaves, payload, dtype)], env)
        assert bad is None or not bad.any()
        return value[()]


def followed(func: eq.PrimFunc, arrays: dict[str, NDArray]) -> bool:
    """Whether a function is followed; then its numbers mean what the interpreter leaves."""
    if any(d.lanes > 1 or not d.is_dense or d.transforms for d in func.buffer_map.values()):
        return False
    try:
        made = eq.call(func, {n: eq.input(n, a.shape, a.dtype.name) for n, a in arrays.items()})
    except eq.EqsatError:
        return False
    node = next(iter(made.values())).node
    assert isinstance(node, Opaque)
    values = ValueNumbers()
    operands = [values.block(("input", n), prod(a.shape)).reshape(a.shape) for n, a in arrays.items()]
    found = called(Unfolding(values, "p"), node, operands)
    if found is None:
        return False
    decode = Decoded(values, {n: a.copy() for n, a in arrays.items()})
    run_primfunc(func, arrays)
    for name, cells in zip(made, found, strict=True):
        got = np.array([decode(int(n)) for n in cells.ravel()], arrays[name].dtype).reshape(cells.shape)
        scale = 0 if arrays[name].dtype.kind != "f" else 1e-3
        np.testing.assert_allclose(got, arrays[name], scale, scale, err_msg=f"{name} of {func}")
    return True


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 6000), marks=pytest.mark.slow)], ids=len)
def test_numbers_mean_what_functions_compute(seeds: range) -> None:
    count = 0
    for seed in seeds:
        with np.errstate(all="ignore"):
            case = random_case(seed, without=("holes", "vectors", "strides"))
            sizes = bind_function(case.func, {}, case.sizes)
            count += followed(at_sizes(case.func, sizes), case.arguments(seed))
            other = random_function(seed)
            if not any(isinstance(s, Assume) for s in statements(other.func.body)):
                rng = np.random.default_rng(seed)
                dtype = other.func.buffer_map["A"].dtype
                count += followed(other.func, {n: rng.integers(-3, 4, (4, 4)).astype(dtype) for n in "ABCD"})
    assert count > len(seeds) / 2

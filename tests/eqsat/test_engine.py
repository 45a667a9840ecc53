"""The whole way from a program to a cheaper one: what must fold, and what must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_checks import equal_arrays

from eqsat.engine import RETRIES, Limits, measure, optimize
from eqsat.extraction.decode import Decoder
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors import pointwise, reductions
from eqsat.ir.tensors.contraction import conv2d
from eqsat.ir.tensors.library import opaque
from eqsat.ir.tensors.run import evaluate, evaluate_outputs
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Compute, Opaque, Program, Tensor, View, as_program, compute, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.result import Result
from eqsat.testing import arrays_for


def best(program: Program | Tensor, target: str = "onnx", exact: bool = True, **options: object) -> Result:
    """The result with the fewest bytes, after checking that it means the same on random arrays and is not worse."""
    result = optimize(program, target, "bytes", **options)  # type: ignore[arg-type]
    before = as_program(program)
    feeds = arrays_for(before)
    with np.errstate(all="ignore"):
        expected, found = evaluate_outputs(before, feeds), evaluate_outputs(result.program, feeds)
    for name, array in expected.items():
        assert equal_arrays(array, found[name], exact), name
    assert result.cost_after <= result.cost_before
    return result


def kinds(result: Result) -> list[str]:
    return [type(n).__name__ for n in result.program.nodes()]


X = input("x", (8, 8), "float32")


def pad(x: Tensor, value: float = 0.0) -> Tensor:
    return x.pad(2, value)


def crop(x: Tensor) -> Tensor:
    return x.crop((2, 2), (8, 8))


@pytest.mark.smoke
def test_a_chain_of_blocked_layouts_pads_and_crops_folds_to_relu() -> None:
    x = input("x", (1, 32, 6, 6), "float32")
    y = x.layout_transform("NCHW", "NCHW16c").relu().layout_transform("NCHW16c", "NCHW8c")
    y = y.pad(((0, 0), (0, 0), (1, 1), (1, 1), (0, 0))).crop((0, 0, 1, 1, 0), (1, 4, 6, 6, 8))
    result = best(y.layout_transform("NCHW8c", "NCHW"))
    assert kinds(result) == ["Input", "Compute"] and result.bytes_moved == 0


# feature: I6
@pytest.mark.smoke
def test_pad_exp_crop_pad_does_not_cancel() -> None:
    result = best(pad(crop(pad(X).exp())))
    assert result.layout_ops == 1, "the sound answer is exp, then one pad"
    assert [o.proof.verdict for o in result.obligations].count("refuted") >= 1


def test_pad_relu_crop_pad_is_one_pad() -> None:
    result = best(pad(crop(pad(X).relu())))
    assert result.layout_ops == 1 and result.bytes_moved == (8 * 8 + 12 * 12) * 4


def test_the_sign_of_infinity_survives() -> None:
    y = constant(np.float32(1)) / pad(crop(-pad(X)))
    result = best(y)
    x = np.zeros((8, 8), np.float32)
    with np.errstate(all="ignore"):
        value = evaluate(result.program, {"x": x})
    assert value[0, 0] == np.inf and value[2, 2] == -np.inf


# feature: G7
def test_pad_of_crop_of_an_input_stays() -> None:
    result = best(X.crop((0, 0), (3, 3)).pad(((0, 5), (0, 5))))
    assert result.layout_ops > 0 and result.bytes_moved > 0


def test_an_undefined_pad_of_a_crop_may_be_the_source_but_is_not_merged_with_it() -> None:
    padded = X.crop((0, 0), (3, 3)).pad(((0, 5), (0, 5)), UNDEF)
    assert optimize(padded, "onnx").bytes_moved == 0
    both = Program([X], {"out": padded, "same": X.crop((0, 0), (3, 3)).pad(((0, 5), (0, 5)))})
    result = optimize(both, "onnx")
    feeds = arrays_for(both)
    found = evaluate_outputs(result.program, feeds)
    assert np.array_equal(found["same"][3:], np.zeros((5, 8))) and np.array_equal(
        found["out"][:3, :3], feeds["x"][:3, :3]
    )


# feature: G6
@pytest.mark.parametrize(
    "start, size, ops",
    [((2, 2), (8, 8), 0), ((1, 1), (10, 10), 1), ((3, 3), (4, 4), 1), ((0, 0), (2, 12), 0)],
    ids=["same", "smaller pad", "larger crop", "only padding"],
)
def test_crop_of_pad(start: tuple[int, int], size: tuple[int, int], ops: int) -> None:
    assert best(pad(X).crop(start, size).relu()).layout_ops == ops


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_pad_of_a_broadcast_keeps_its_window(broadcast: bool) -> None:
    x = input("x", (1, 2), "float32")
    y = compute((1, 2), lambda i, j: t.where(j < 1, x[i, j], x[i, 1 - j])) if broadcast else x.crop((0, 0), (1, 1))
    best(y.relu().pad(((0, 0), (0, 1))))


def test_int8_multiplication_and_division_do_not_fold() -> None:
    x = input("x", (4,), "int8")
    y = compute((4,), lambda i: t.binary("floordiv", x[i] * 2, 2))
    result = best(y)
    found = evaluate(result.program, {"x": np.array([100, -100, 1, 0], np.int8)})
    assert found.tolist() == [-28, 28, 1, 0]


def test_a_zero_extent_leaves_unrelated_inputs_apart() -> None:
    a, b = input("a", (0, 4), "float32"), input("b", (0, 4), "float32")
    x, y = input("x", (2, 3), "float32"), input("y", (2, 3), "float32")
    program = Program(
        [a, b, x, y],
        {"zero": (a.permute_dims((1, 0)) + b.permute_dims((1, 0))), "out": x.permute_dims((1, 0)), "other": y.relu()},
    )
    result = best(program)
    assert result.program.outputs["out"].shape == (3, 2)


def test_a_fact_of_a_guard_does_not_leak() -> None:
    x = input("x", (16,), "float32")
    y = compute((16,), lambda i: t.where(i < 4, x[i // 4], t.const(0, "float32")) + x[i // 4])
    best(y)


def test_random_operators_stay_two() -> None:
    def noise() -> Tensor:
        return opaque(
            "onnx:RandomUniform", [], [((4, 4), "float32")], pure=False, impl=lambda: np.zeros((4, 4), np.float32)
        )[0]

    program = Program([], {"a": noise(), "b": noise().permute_dims((1, 0)).permute_dims((1, 0))})
    result = optimize(program, "onnx")
    assert sum(isinstance(n, Opaque) for n in result.program.nodes()) == 2

    def zeros() -> np.ndarray:
        return np.zeros((4, 4), np.float32)

    pure = [opaque("Same", [], [((4, 4), "float32")], impl=zeros)[0] for _ in range(2)]
    merged = optimize(Program([], {"a": pure[0], "b": pure[1].permute_dims((1, 0)).permute_dims((1, 0))}), "onnx")
    assert sum(isinstance(n, Opaque) for n in merged.program.nodes()) == 1


# feature: G12 G13 G8 I3
@pytest.mark.smoke
def test_conv_add_conv_with_frozen_convolutions_keeps_three_of_five_rewrites() -> None:
    x, f = input("x", (1, 16, 6, 6), "float32"), input("f", (16, 16, 3, 3), "float32")
    bias = constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    blocked = f.layout_transform("OIHW", "OIHW4i4o")

    def conv(y: Tensor) -> Tensor:
        z = conv2d(
            y.layout_transform("NCHW", "NCHW4c"), blocked, padding=1, data_layout="NCHW4c", kernel_layout="OIHW4i4o"
        )
        return z.layout_transform("NCHW4c", "NCHW")

    program = as_program(conv(conv(x) + bias))
    assert measure(program).layout_ops == 5
    result = best(program, exact=False, freeze=["conv2d"])
    assert result.layout_ops == 3
    with pytest.raises(EqsatError, match="no operator has that name"):
        optimize(program, freeze=["conv9d"])


def test_a_layout_crosses_broadcast_reduction_and_softmax() -> None:
    x = input("x", (2, 8, 4, 4), "float32")
    y = x.permute_dims((0, 2, 3, 1)).softmax(3) + constant(np.arange(8, dtype=np.float32))
    y = y.permute_dims((0, 3, 1, 2)).mean((2, 3))
    assert best(y, exact=False).layout_ops == 0


# feature: I5
def test_a_transposed_product_is_the_product_of_transposes() -> None:
    a, b = input("a", (5, 7), "float32"), input("b", (7, 3), "float32")
    y = reductions.matmul(b.permute_dims((1, 0)), a.permute_dims((1, 0))).permute_dims((1, 0))
    assert best(y, exact=False).layout_ops == 0


def test_a_permuted_reduced_axis_moves_into_the_weight() -> None:
    a = input("a", (5, 2, 3), "float32")
    weight = constant(np.arange(24, dtype=np.float32).reshape(6, 4))
    y = reductions.matmul(a.permute_dims((0, 2, 1)).reshape((5, 6)), weight)
    assert best(y, exact=False).layout_ops == 0


# feature: I4
@pytest.mark.parametrize("inner", [False, True])
def test_split_and_concat_of_one_tensor(inner: bool) -> None:
    a, b = X.crop((0, 0), (8, 4)), X.crop((0, 4), (8, 4))
    if inner:
        a, b = a.relu(), b.relu()
    result = best(reductions.concat([a, b], 1))
    assert result.layout_ops == 0
    rolled = best(reductions.concat([b, a], 1))
    assert rolled.layout_ops == 1


def test_a_slice_of_a_concatenation_reads_its_part() -> None:
    a, b = X.relu(), X.exp()
    assert best(reductions.concat([a, b], 0).crop((8, 0), (8, 8))).layout_ops == 0


def test_symbolic_batch() -> None:
    n = t.sym("N")
    x = input("x", (n, 4, 6), "float32")
    y = x.permute_dims((0, 2, 1)).relu().permute_dims((0, 2, 1))
    result = optimize(y, "onnx")
    assert result.layout_ops == 0
    a = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
    assert np.array_equal(evaluate(result.program, {"x": a}), np.maximum(a, 0))


CUBE = input("x", (4, 5, 6), "float32")
THROUGH: list[tuple[str, Tensor, int]] = [
    ("map axes permuted", CUBE.permute_dims((1, 0, 2)).softmax(2).permute_dims((1, 0, 2)), 0),
    ("all axes permuted", CUBE.permute_dims((2, 0, 1)).softmax(0).permute_dims((1, 2, 0)), 0),
    (
        "a map axis split",
        CUBE.reshape((2, 2, 5, 6)).permute_dims((1, 0, 2, 3)).softmax(3).permute_dims((1, 0, 2, 3)).reshape((4, 5, 6)),
        0,
    ),
    (
        "mixed with the other axis",
        CUBE.reshape((4, 30)).roll(1, 1).reshape((4, 5, 6)).softmax(2).reshape((4, 30)).roll(-1, 1).reshape((4, 5, 6)),
        2,
    ),
]


@pytest.mark.parametrize(("program", "left"), [case[1:] for case in THROUGH], ids=[case[0] for case in THROUGH])
def test_a_signature_lets_a_layout_through_its_map_axes_only(program: Tensor, left: int) -> None:
    assert best(program, exact=False).layout_ops == left


@pytest.mark.parametrize(("signature", "left"), [("", 2), ("n c -> n c", 0)])
def test_positions_move_through_what_a_signature_allows(signature: str, left: int) -> None:
    known = Signature.parse(signature, map="n", equivariant="c") if signature else None
    x = input("x", (4, 6), "float32")
    node = opaque("Norm", [x.flip(0)], [(x.shape, x.dtype)], {"axis": 1}, known, _centred)[0]
    assert best(node.flip(0)).layout_ops == left


def test_limits_give_a_correct_program_and_the_reason() -> None:
    y: Tensor = X
    for k in range(30):
        y = pad(y, float(k % 3)).permute_dims((1, 0)).exp().crop((1, 1), (8, 8))
    result = best(y, limits=Limits(nodes=10))
    assert result.status == "node-limit"
    assert best(y, limits=Limits(iterations=1)).status == "iteration-limit"


@pytest.mark.parametrize("kind", ["permute", "nonaligned", "pads"])
def test_cost_grows_linearly_with_the_length_of_a_chain(kind: str) -> None:
    sizes = [result_nodes(kind, n) for n in (20, 40, 80)]
    assert sizes[2] <= 4.5 * max(sizes[0], 2), sizes


def result_nodes(kind: str, n: int) -> int:
    return best(chain(kind, n), "c").progress.nodes


def _centred(a: NDArray) -> NDArray:
    return a - a.max(1, keepdims=True)


def chain(kind: str, n: int) -> Tensor:
    """n layout operators: aligned splits and permutes, reshapes that do not align, or pads with crops."""
    rng = np.random.default_rng(n)
    y = input("x", {"permute": (2, 4, 6, 8), "nonaligned": (6, 35), "pads": (8, 8)}[kind], "float32")
    for k in range(n):
        shape = [d for d in y.shape if isinstance(d, int)]
        if kind == "pads":
            y = y.pad(2, float(k % 5)) if k % 2 == 0 else y.crop((1, 3), (shape[0] - 4, shape[1] - 4))
        elif k % 2 == 0:
            y = y.permute_dims([int(i) for i in rng.permutation(len(shape))])
        elif kind == "permute":
            y = (
                y.reshape((*shape[:-1], 2, shape[-1] // 2))
                if shape[-1] % 2 == 0 and len(shape) < 6
                else y.reshape((-1, *shape[2:]))
            )
        else:
            y = y.reshape([(10, 21), (14, 15), (6, 35), (30, 7), (5, 42)][int(rng.integers(5))])
    return y


def test_reductions_that_differ_in_an_idle_axis_are_not_merged() -> None:
    def repeated(n: int) -> Tensor:
        return compute((8, 8), lambda i, j, k: X[i, j], reduce=(n,))

    program = Program([X], {"two": repeated(2), "five": repeated(5).permute_dims((1, 0)).permute_dims((1, 0))})
    result = best(program, "c", exact=False)
    x = np.ones((8, 8), np.float32)
    found = evaluate_outputs(result.program, {"x": x})
    assert found["two"][0, 0] == 2 and found["five"][0, 0] == 5


def test_an_ordered_sum_keeps_its_order() -> None:
    x = input("x", (6, 5), "float32")
    y = compute((1,), lambda o, i, j: x.permute_dims((1, 0))[j, i], reduce=(6, 5), ordered=True)
    z = compute((1,), lambda o, j, i: x[i, j], reduce=(5, 6), ordered=True)
    best(Program([x], {"rows": y, "columns": z}), "c", exact=True)


def test_only_the_given_rules_are_used() -> None:
    y = pad(X).relu().crop((2, 2), (8, 8))
    assert best(y).layout_ops == 0
    assert best(y, rules=["compose"]).layout_ops == 2
    assert best(y, rules=["compose", "inline"]).layout_ops == 0


def test_options_are_checked() -> None:
    with pytest.raises(EqsatError, match="no such rule"):
        optimize(X.relu(), rules=["magic"])
    with pytest.raises(EqsatError, match="unknown target"):
        optimize(X.relu(), "cuda")
    with pytest.raises(EqsatError, match="no objective of target 'c'"):
        optimize(X.relu(), objective="time")
    with pytest.raises(EqsatError, match="'bytes' or 'time'"):
        optimize(X.relu(), "onnx", objective="beauty")


def test_the_explanation_names_rules_and_side_conditions() -> None:
    text = best(pad(crop(pad(X).relu()))).explain()
    assert "side conditions: " in text and "proved" in text and "inline: " in text


def test_what_is_not_reached_is_left_alone() -> None:
    program = Program([X], {"a": X, "b": X.relu(), "c": pointwise.cast(X, "int32").flip(0)})
    result = best(program)
    assert any(isinstance(n, (View, Compute)) for n in result.program.nodes())


@pytest.mark.parametrize("left, choices", [(0.0, RETRIES + 1), (1e9, 1)])
def test_another_choice_is_made_where_there_is_time_for_it(
    monkeypatch: pytest.MonkeyPatch, left: float, choices: int
) -> None:
    """Each choice is said to cost more than was claimed."""
    made: list[int] = []

    def chosen(decoder: Decoder, *known: Any) -> dict[int, int]:
        made.append(len(made))
        return {-1: len(made)}

    monkeypatch.setattr(Decoder, "chosen", chosen)
    monkeypatch.setattr("eqsat.engine.LEFT", left)
    there = X.permute_dims((1, 0)).exp().permute_dims((1, 0))
    assert optimize(there, limits=Limits(seconds=100)).final.layout_ops == 0
    assert len(made) == choices

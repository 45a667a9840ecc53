"""Models with named dimensions: one symbol per model, and layouts that are counted as the search counts them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import each_value, some_of

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.ir.flat.size_samples import SAMPLE  # noqa: E402
from eqsat.ir.tensors.bind import program_symbols  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.bytes import bytes_moved  # noqa: E402
from eqsat.verifying.verify import verify  # noqa: E402

pytestmark = pytest.mark.onnx

Node = tuple[str, str, str, dict[str, Any]]
Ends = dict[str, list[Any]]


def model(nodes: list[Node], ins: Ends, outs: Ends, constants: dict[str, Any] | None = None) -> Any:
    made = [helper.make_node(op, a.split(), b.split(), **attrs) for op, a, b, attrs in nodes]
    ends = [[helper.make_tensor_value_info(n, 1, s) for n, s in x.items()] for x in (ins, outs)]
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
    graph = helper.make_graph(made, "g", ends[0], ends[1], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def there_and_back(dim: Any) -> Any:
    turns: list[Node] = [
        ("Transpose", "x", "t", {"perm": [1, 0]}), ("Relu", "t", "r", {}), ("Transpose", "r", "y", {"perm": [1, 0]}),
    ]  # fmt: skip
    return model(turns, {"x": [dim, 4]}, {"y": [dim, 4]})


def run(m: Any, feeds: dict[str, Any]) -> list[Any]:
    return run_session(session(m), feeds, [o.name for o in m.graph.output])


def test_a_dimension_is_one_symbol_of_one_model() -> None:  # finding: an axis N beside another N
    eq.optimize(eq.input("x", (eq.symbol("N", lower=2), 4), "float32").permute_dims((1, 0)).relu())
    first, second = (eq.onnx.load(there_and_back("N")) for _ in range(2))
    mine, other = program_symbols(first), program_symbols(second)
    assert [str(s) for s in mine] == ["N"] == [str(s) for s in other] and mine[0] is not other[0]
    assert verify(first, second).verdict == "proved"
    for _ in range(2):
        found = eq.onnx.optimize(there_and_back("N"))
        assert found.layout_ops == 0 and [n.op_type for n in found.model.graph.node] == ["Relu"]


def test_two_symbols_of_one_name_are_two_dimensions(tmp_path: Any) -> None:
    x, y = (eq.input(k, (eq.symbol("N"), 3), "float32") for k in "xy")
    path = tmp_path / "m.onnx"
    eq.onnx.save(eq.Program([x, y], {"o": eq.concat([x, y], 0)}), path)
    made = onnx.load(path)
    dims = [v.type.tensor_type.shape.dim[0].dim_param for v in (*made.graph.input, *made.graph.output)]
    assert dims[:2] == ["N", "N_1"] and len(set(dims)) == 3
    feeds = {"x": np.ones((2, 3), "f4"), "y": np.zeros((3, 3), "f4")}
    assert np.array_equal(run(made, feeds)[0], np.concatenate([feeds["x"], feeds["y"]]))


def test_a_gain_on_a_dynamic_model_is_counted_and_kept() -> None:
    before = there_and_back("N")
    found = eq.onnx.optimize(before)
    assert bytes_moved(before).total == found.initial.bytes_moved == 2 * 2 * SAMPLE * 4 * 4
    assert bytes_moved(found.model).total == found.bytes_moved == 0
    assert f"bytes are counted at N = {SAMPLE}" in found.notes


W = np.arange(12, dtype="f4").reshape(4, 3)
COUNTED: dict[str, tuple[Any, int]] = {
    "einsum turns": (model([("Einsum", "x", "y", {"equation": "ij->ji"})], {"x": [3, 4]}, {"y": [4, 3]}), 96),
    "einsum turns, implicit": (model([("Einsum", "x", "y", {"equation": "ji"})], {"x": [3, 4]}, {"y": [4, 3]}), 96),
    "einsum copies": (model([("Einsum", "x", "y", {"equation": "ij->ij"})], {"x": [3, 4]}, {"y": [3, 4]}), 0),
    "einsum sums": (model([("Einsum", "x", "y", {"equation": "ij->j"})], {"x": [3, 4]}, {"y": [4]}), 0),
    "einsum sums and turns": (
        model([("Einsum", "x", "y", {"equation": "ijk->ki"})], {"x": [3, 2, 4]}, {"y": [4, 3]}), 96,
    ),
    "gemm flags": (
        model([("Gemm", "x w", "y", {"transA": 1, "transB": 1})], {"x": [3, 2], "w": [5, 3]}, {"y": [2, 5]}), 0,
    ),
    "overridable": (
        model([("Transpose", "w", "t", {"perm": [1, 0]}), ("Add", "t x", "y", {})], {"x": [3, 4], "w": [4, 3]},
              {"y": [3, 4]}, {"w": W}), 96,
    ),
    "constant": (
        model([("Transpose", "w", "t", {"perm": [1, 0]}), ("Add", "t x", "y", {})], {"x": [3, 4]}, {"y": [3, 4]},
              {"w": W}), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_report_guard_and_search_count_alike(case: str) -> None:
    made, expected = COUNTED[case]
    found = eq.onnx.optimize(made)
    assert bytes_moved(made).total == expected
    assert bytes_moved(found.model).total <= expected
    if case != "einsum sums and turns":  # the search takes the order of a reduction's result for free
        assert found.initial.bytes_moved == expected
    feeds = {
        v.name: np.random.default_rng(0).normal(size=[d.dim_value for d in v.type.tensor_type.shape.dim]).astype("f4")
        for v in made.graph.input
    }
    for a, b in zip(run(made, feeds), run(found.model, feeds), strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


EMPTY: list[Node] = [
    ("Transpose", "x", "b", {"perm": [1, 2, 0]}), ("Relu", "b", "d", {}), ("Transpose", "d", "e", {"perm": [2, 0, 1]}),
    ("Add", "e e", "f", {}), ("Shape", "f", "s", {}), ("ConstantOfShape", "s", "k", {}), ("Add", "f k", "y", {}),
]  # fmt: skip


@pytest.mark.parametrize("shape", [[1, "D", 0], [0, "D", 2], ["D", 0, "E"], [0, 0, "D"]])
def test_a_zero_extent_beside_a_symbol(shape: list[Any]) -> None:  # finding: int('D')
    made = model(EMPTY, {"x": shape}, {"y": shape})
    found = eq.onnx.optimize(made)
    for size in (0, 1, 3):
        feeds = {"x": np.ones([d if isinstance(d, int) else size for d in shape], "f4")}
        assert run(found.model, feeds)[0].shape == run(made, feeds)[0].shape


FAR = 2**63 - 1
PARTS: dict[str, tuple[list[Node], dict[str, Any], list[str]]] = {
    "one after another": (
        [("Slice", "x a far zero", "p", {}), ("Relu", "p", "q", {}), ("Slice", "q a minus zero", "y", {})],
        {"a": [1], "far": [FAR], "minus": [-1], "zero": [0]}, ["Slice", "Relu"],
    ),
    "between transposes": (
        [("Transpose", "x", "t", {"perm": [1, 0]}), ("Slice", "t a far zero one", "p", {}),
         ("Transpose", "p", "y", {"perm": [1, 0]})],
        {"a": [-3], "far": [FAR], "zero": [0], "one": [1]}, ["Slice"],
    ),
    "there and back again": (
        [("Slice", "x minus before zero minus", "p", {}), ("Relu", "p", "q", {}),
         ("Slice", "q minus before zero minus", "y", {})],
        {"minus": [-1], "before": [-FAR - 1], "zero": [0]}, ["Relu"],
    ),
    "what a border made larger": (
        [("Pad", "x w", "p", {}), ("Slice", "p a b zero", "y", {})],
        {"w": [1, 0, 2, 0], "a": [1], "b": [-2], "zero": [0]}, ["Identity"],
    ),
    "few rows of what a border made larger": (  # without rows, both are of the border
        [("Pad", "x w", "p", {}), ("Slice", "p a b zero", "y", {})],
        {"w": [2, 0, 2, 0], "a": [1], "b": [3], "zero": [0]}, ["Pad", "Slice"],
    ),
    "the last row": (  # which is none where there are no rows
        [("Relu", "x", "r", {}), ("Transpose", "r", "t", {"perm": [1, 0]}), ("Slice", "t minus far zero", "y", {})],
        {"minus": [-1], "far": [FAR], "zero": [0]}, ["Relu", "Slice", "Transpose"],
    ),
    "up to a size of the model": (
        [("Shape", "x", "s", {}), ("Gather", "s zero", "n", {}), ("Transpose", "x", "t", {"perm": [1, 0]}),
         ("Slice", "t zero n one", "p", {}), ("Transpose", "p", "y", {"perm": [1, 0]})],
        {"zero": [0], "one": [1]}, ["Identity"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTS)
def test_parts_of_axes_of_unknown_extent(case: str) -> None:
    nodes, constants, expected = PARTS[case]
    made = model(nodes, {"x": ["H", "W"]}, {"y": [None, None]}, {k: np.array(v) for k, v in constants.items()})
    found = eq.onnx.optimize(made)
    assert sorted(n.op_type for n in found.model.graph.node) == sorted(expected)
    for shape in ((0, 0), (0, 3), (1, 1), (2, 1), (3, 2), (2, 5), (7, 6)):
        feeds = {"x": np.random.default_rng(0).normal(size=shape).astype("f4")}
        np.testing.assert_array_equal(run(found.model, feeds)[0], run(made, feeds)[0])


def test_a_bound_that_may_be_counted_from_the_end() -> None:
    """W - 2 is a place of its own where W is 1."""
    nodes: list[Node] = [
        ("Shape", "x", "s", {}), ("Gather", "s one", "n", {"axis": 0}), ("Sub", "n two", "k", {}),
        ("Transpose", "x", "t", {"perm": [1, 0]}), ("Slice", "t k far one", "p", {}),
        ("Transpose", "p", "y", {"perm": [1, 0]}),
    ]  # fmt: skip
    constants = {"one": np.array([1]), "two": np.array([2]), "far": np.array([FAR])}
    made = model(nodes, {"x": ["H", "W"]}, {"y": [None, "W"]}, constants)
    found = eq.onnx.optimize(made)
    for shape in ((4, 1), (3, 0), (2, 5), (5, 2)):
        feeds = {"x": np.random.default_rng(0).normal(size=shape).astype("f4")}
        expected = run(made, feeds)[0]
        np.testing.assert_array_equal(run(found.model, feeds)[0], expected)
        np.testing.assert_array_equal(eq.evaluate(eq.onnx.load(made), feeds), expected)


# feature: I4 I8
@each_value(opset=[11, 17, 18], mode=["nearest", "linear"], channels=[4, "C"])
def test_resizes_of_unknown_sizes_move_with_their_axes(channels: int | str, mode: str, opset: int) -> None:
    """By two along height and width: what is not resized keeps an extent that inference has no name for."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Resize", ["t", "roi", "scales"], ["r"], mode=mode),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 3, 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "H", "W", channels])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = eq.onnx.optimize(model, objective="bytes").model
    assert [n.op_type for n in found.graph.node] == ["Resize"]
    for shape in ((1, 3, 5, 4), (2, 4, 1, 4)):
        feeds = {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}
        assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(run(model, feeds), run(found, feeds), strict=True))


# feature: I4 I8
@each_value(opset=[11, 17, 18], mode=["nearest", "linear"], case=["numbers", "twice", "numbers of known"])
def test_resizes_to_computed_sizes_move_with_their_axes(case: str, mode: str, opset: int) -> None:
    """Sizes are a Concat of what Shape says of the axes that stay, and of numbers or multiples for the others."""
    known = case == "numbers of known"
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Shape", ["t"], ["s"]),
        helper.make_node("Slice", ["s", "0", "2"], ["front"]),
        helper.make_node("Slice", ["s", "2", "4"], ["image"]),
        helper.make_node("Mul", ["image", "2"], ["larger"]),
        helper.make_node("Concat", ["front", "larger" if case == "twice" else "fixed"], ["sizes"], axis=0),
        helper.make_node("Resize", ["t", "roi", "none", "sizes"], ["r"], mode=mode),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 3, 1]),
    ]
    shape = ["N", 3, 5, "C"] if known else ["N", "H", "W", 4]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    none = np.zeros(0, np.float32)
    constants = {"roi": none, "none": none, "fixed": np.array([6, 7])} | {str(k): np.array([k]) for k in (0, 2, 4)}
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = eq.onnx.optimize(model, objective="bytes")
    moves = case != "numbers" or opset >= 18  # else sizes for all axes, two of which only a Shape knows
    assert (found.bytes_moved == 0) == moves
    if moves and (mode == "nearest" or opset > 10):
        assert [n.op_type for n in found.model.graph.node] == ["Resize"]
    for size in ((1, 3, 5, 4), (2, 3, 5, 4)):
        feeds = {"x": np.random.default_rng(0).standard_normal(size, np.float32)}
        for a, b in zip(run(model, feeds), run(found.model, feeds), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


# feature: I4
@pytest.mark.parametrize("part", some_of(range(6), 2))
def test_random_resizes_to_computed_sizes(part: int) -> None:
    """All modes, at sizes that scales make and at those that none makes."""
    moved = 0
    for seed in range(10 * part, 10 * part + 10):
        random = Random(seed)
        mode = random.choice(["nearest", "linear", "cubic"])
        places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
        opset = random.choice([11, 13, 18, 19])
        place = random.choice(places[: 5 if opset > 18 else 4])
        rounding = random.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        image = [random.randrange(1, 9), random.randrange(1, 9)]
        fixed = [random.randrange(1, 20), random.randrange(1, 20)]
        shape = random.choice([["N", *image, "C"], ["N", "H", "W", 3], [2, *image, "C"]])
        nodes = [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
            helper.make_node("Shape", ["t"], ["s"]),
            helper.make_node("Slice", ["s", "0", "2"], ["front"]),
            helper.make_node("Slice", ["s", "2", "4"], ["image"]),
            helper.make_node("Mul", ["image", "3"], ["larger"]),
            helper.make_node("Concat", ["front", random.choice(["larger", "fixed"])], ["sizes"], axis=0),
            helper.make_node(
                "Resize", ["t", "roi", "none", "sizes"], ["r"], mode=mode, nearest_mode=rounding,
                coordinate_transformation_mode=place,
            ),
            helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 3, 1]),
        ]  # fmt: skip
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
        none = np.zeros(0, np.float32)
        constants = {"roi": none, "none": none, "fixed": np.array(fixed)} | {
            str(k): np.array([k]) for k in (0, 2, 4, 3)
        }
        tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
        graph = helper.make_graph(nodes, "g", [x], [y], tensors)
        before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        found = eq.onnx.optimize(before, objective="bytes", checked=False)
        moved += found.bytes_moved < found.initial.bytes_moved
        for count in (1, 2):
            size = [count if shape[0] == "N" else 2, *image, 3]
            feeds = {"x": np.random.default_rng(seed).standard_normal(size, np.float32)}
            np.testing.assert_allclose(run(found.model, feeds)[0], run(before, feeds)[0], atol=1e-5, err_msg=f"{seed}")
    assert moved


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("kept", [False, True])
def test_a_size_that_a_later_tensor_has(opset: int, kept: bool) -> None:
    """A Range of as many numbers as a tensor has columns, counted in float32: its size is its own."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["n"], axis=0),
        helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Range", ["zero", "f", "step"], ["grid"]),
        helper.make_node("Shape", ["grid"], ["length"]),
        helper.make_node("Concat", ["rows", "length"], ["whole"], axis=0),
        helper.make_node("Transpose", ["row"], ["column"], perm=[1, 0]),
        helper.make_node("Expand", ["column", "whole"], ["wide"]),
        helper.make_node("Transpose", ["wide"], ["turned"], perm=[1, 0]),
        helper.make_node("Relu", ["turned"], ["back"]),
        helper.make_node("Transpose", ["back"], ["y"], perm=[1, 0]),
        *([helper.make_node("Neg", ["grid"], ["z"])] if kept else []),
    ]
    numbers = {"one": 1, "zero": np.float32(0), "step": np.float32(1), "rows": [4]}
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in numbers.items()]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["A", "B"]), ("row", [1, 4]))]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, None])]
    outs += [helper.make_tensor_value_info("z", TensorProto.FLOAT, [None])] if kept else []
    graph = helper.make_graph(nodes, "g", ends, outs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = eq.onnx.optimize(model)
    ops = [n.op_type for n in found.model.graph.node]
    assert ops.count("Range") == 1 and not (kept and "Transpose" in ops), (ops, found.notes)
    for b in (5, 1, 0):
        feeds = {"x": np.ones((2, b), np.float32), "row": np.arange(-2, 2, dtype=np.float32)[None]}
        for wanted, made in zip(*(run_session(session(m), feeds) for m in (model, found.model)), strict=True):
            assert np.array_equal(wanted, made) and wanted.shape == made.shape


COMPUTED: dict[str, tuple[list[Node], dict[str, Any]]] = {
    "Max": ([("Max", "n m", "k", {})], {}),
    "Max of what is more": ([("Mul", "n two", "d", {}), ("Max", "d m", "d2", {}), ("Div", "d2 two", "k", {})], {}),
    "Min": ([("Add", "n two", "d", {}), ("Min", "d m", "k", {})], {}),
    "Where": ([("Equal", "n minus", "e", {}), ("Where", "e two n", "k", {})], {}),
    "Where, of equals": ([("Equal", "n m", "e", {}), ("Where", "e m two", "k", {})], {}),
    "Where, of more": ([("Add", "n two", "d", {}), ("Equal", "n d", "e", {}), ("Where", "e two n", "k", {})], {}),
    "Where, of a constant": ([("Where", "yes n two", "k", {})], {"yes": np.array([True])}),
    "Expand": ([("Expand", "n one", "k", {})], {}),
}


def with_a_computed_size(steps: list[Node], more: dict[str, Any]) -> Any:
    """Transposes there and back around a Reshape to (k, 6, 4), where k is counted from N."""
    nodes: list[Node] = [
        ("Shape", "x", "s", {}), ("Gather", "s zero", "n", {}),
        ("Shape", "z", "s2", {}), ("Gather", "s2 zero", "m", {}),
        *steps, ("Concat", "k rest", "shape", {"axis": 0}), ("Transpose", "x", "t", {"perm": [0, 2, 1]}),
        ("Reshape", "t shape", "r", {}), ("Transpose", "r", "u", {"perm": [0, 2, 1]}), ("Add", "u z", "y", {}),
    ]  # fmt: skip
    numbers = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "minus": np.array([-1])}
    ends: tuple[Ends, Ends] = {"x": ["N", 4, 6], "z": ["N", 4, 6]}, {"y": [None, 4, 6]}
    return model(nodes, *ends, {**numbers, "rest": np.array([6, 4]), **more})


@pytest.mark.parametrize("case", COMPUTED)
def test_sizes_that_are_chosen(case: str) -> None:
    """What exporters write where shapes are broadcast: the larger one of two sizes that are equal, and the like."""
    m = with_a_computed_size(*COMPUTED[case])
    found = eq.onnx.optimize(m)
    assert [n.op_type for n in found.model.graph.node] == ["Add"], found.notes
    for n in (1, 3):
        feeds = {k: np.random.default_rng(n).standard_normal((n, 4, 6)).astype("f4") for k in "xz"}
        assert np.array_equal(run(m, feeds)[0], run(found.model, feeds)[0])


@pytest.mark.parametrize("step", ["Max", "Min", "Equal"])
def test_sizes_that_are_not_certain_stay(step: str) -> None:
    """N may be less than 2, and more; and it may be 2."""
    steps: dict[str, list[Node]] = {
        "Max": [("Max", "n two", "k", {})],
        "Min": [("Min", "n two", "k", {})],
        "Equal": [("Equal", "n two", "e", {}), ("Where", "e m one", "k", {})],
    }
    m = with_a_computed_size(steps[step], {})
    found = eq.onnx.optimize(m)
    assert step in [n.op_type for n in found.model.graph.node]
    feeds = {k: np.random.default_rng(2).standard_normal((2, 4, 6)).astype("f4") for k in "xz"}
    assert np.array_equal(run(m, feeds)[0], run(found.model, feeds)[0])


@pytest.mark.parametrize("extent", [1, 2])
def test_regions_are_resized_along_axes_that_runtimes_have(extent: int) -> None:
    """From rows and columns to axes 1 and 3: onnxruntime blends along the last two, or the two before the last."""
    nodes: list[Node] = [
        ("Transpose", "x", "t", {"perm": [2, 0, 1, 3]}), ("Neg", "t", "t2", {}),
        ("Resize", "t2 roi  sizes", "r", {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
                                          "axes": [3, 2]}),
        ("Transpose", "r", "y", {"perm": [1, 2, 0, 3]}),
    ]  # fmt: skip
    m = model(nodes, {"x": [1, 4, extent, 4], "roi": [4]}, {"y": [1, 3, extent, 3]})
    m.graph.node[2].input[:] = ["t2", "roi", "", "sizes"]
    m.graph.input.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]))
    m.opset_import[0].version = 19
    found = eq.onnx.optimize(m, checked=False)
    feeds = {
        "x": np.random.default_rng(0).standard_normal((1, 4, extent, 4)).astype("f4"),
        "roi": np.array([0.1, 0.2, 0.8, 0.9], "f4"),
        "sizes": np.array([3, 3]),
    }
    assert np.allclose(run(m, feeds)[0], run(found.model, feeds)[0], atol=1e-6)

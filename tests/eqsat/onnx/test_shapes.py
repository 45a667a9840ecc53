"""Models whose shapes are found out late: unit axes, unknown and empty axes, sizes computed while the model runs."""

# feature: I1
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from seeds import each_value

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.ir.tensors.bind import node_symbols  # noqa: E402
from eqsat.ir.tensors.run import evaluate  # noqa: E402
from eqsat.ir.tensors.tensor import Opaque, input  # noqa: E402
from eqsat.models.guarded import check_model  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.call import Call, Declined  # noqa: E402
from eqsat.onnx.infer import infer  # noqa: E402
from eqsat.onnx.ops.table import apply  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.slice import taken  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx
FLOAT, HALF, INT, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL


@dataclass
class Case:
    """Nodes as (operator, inputs, outputs, attributes); inputs and outputs as (name, type, shape); constants."""

    nodes: Sequence[tuple[str, str, str, dict[str, Any]]]
    inputs: Sequence[tuple[str, int, Any]]
    outputs: Sequence[tuple[str, int, Any]]
    constants: Mapping[str, Any]
    sizes: Sequence[Mapping[str, Sequence[int]]]
    opset: int = 17

    def model(self) -> ModelProto:
        nodes = [helper.make_node(op, i.split(), o.split(), **attrs) for op, i, o, attrs in self.nodes]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info(*x) for x in self.inputs],
            [helper.make_tensor_value_info(*x) for x in self.outputs],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def feeds(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """Different numbers in every cell; whole numbers are what they are given as."""
        result: dict[str, Any] = {}
        for name, kind, _ in self.inputs:
            if kind == INT:
                result[name] = np.array(shapes[name], np.int64)
            else:
                result[name] = np.arange(int(np.prod(shapes[name])), dtype=np.float32).reshape(shapes[name]) - 3
        return result


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def n(op: str, inputs: str, outputs: str, **attrs: Any) -> tuple[str, str, str, dict[str, Any]]:
    return op, inputs, outputs, attrs


BACKWARD = {"b": ints(-1), "a": ints(0), "st": ints(-1)}
FILL = numpy_helper.from_array(np.array([1.5], np.float32))
CASES: dict[str, Case] = {
    "squeeze of what may be 1": Case(
        [n("Squeeze", "x", "s"), n("Relu", "s", "y")],
        [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["K"])], {}, [{"x": (1, 4)}],
    ),
    "squeeze, then an axis by number": Case(
        [n("Squeeze", "x", "s"), n("ReduceSum", "s a", "y", keepdims=0)],
        [("x", FLOAT, ["N", 3, "M"])], [("y", FLOAT, ["K"])], {"a": ints(-1)},
        [{"x": (1, 3, 4)}, {"x": (2, 3, 1)}, {"x": (0, 3, 1)}],
    ),
    "squeeze of numbers": Case(
        [n("Squeeze", "x", "s"), n("Relu", "s", "y")],
        [("x", FLOAT, [1, 4, 1])], [("y", FLOAT, [4])], {}, [{"x": (1, 4, 1)}],
    ),
    "unit axis in front": Case(
        [n("Unsqueeze", "x ax", "u"), n("Add", "u x", "e"), n("Transpose", "e", "y", perm=[0, 4, 1, 2, 3])],
        [("x", FLOAT, [4, 6, 3])], [("y", FLOAT, [1, 3, 4, 4, 6])], {"ax": ints(0, 2)}, [{"x": (4, 6, 3)}], 13,
    ),
    "unit axes in front of a comparison": Case(
        [n("Relu", "x", "r"), n("Unsqueeze", "r ax", "u"), n("Equal", "u x", "e"),
         n("Transpose", "e", "y", perm=[1, 0, 4, 3, 2])],
        [("x", FLOAT, [4, 3])], [("y", BOOL, [1, 1, 4, 4, 3])], {"ax": ints(0, 1, 3)}, [{"x": (4, 3)}], 13,
    ),
    "sizes of a value that is written later": Case(
        [n("Transpose", "x", "t", perm=[1, 0]), n("Shape", "t", "s"), n("ConstantOfShape", "s", "c", value=FILL),
         n("Add", "t c", "a"), n("Cast", "a", "y", to=HALF)],
        [("x", FLOAT, ["N", 4])], [("y", HALF, [4, "N"])], {}, [{"x": (3, 4)}, {"x": (1, 4)}, {"x": (0, 4)}],
    ),
    "sizes of a cut-out, found while the model runs": Case(
        # As a detector's head: what is cut out has unknown sizes, a grid of that size is made, added and flattened.
        [n("Slice", "x z e two", "s"), n("Transpose", "s", "t", perm=[0, 2, 3, 1]), n("Relu", "t", "r"),
         n("Shape", "r", "size"), n("ConstantOfShape", "size", "grid", value=FILL), n("Add", "r grid", "g"),
         n("Transpose", "g", "back", perm=[0, 3, 1, 2]), n("Shape", "back", "whole"),
         n("Slice", "whole z two", "head"), n("Concat", "head minus", "target", axis=0),
         n("Reshape", "back target", "flat"), n("Transpose", "flat", "y", perm=[0, 2, 1])],
        [("x", FLOAT, [1, 4, 6, 5]), ("e", INT, [1])], [("y", FLOAT, None)],
        {"z": ints(0), "two": ints(2), "minus": ints(-1)},
        [{"x": (1, 4, 6, 5), "e": (4,)}, {"x": (1, 4, 6, 5), "e": (1,)}],
    ),
    "reversal to the largest number": Case(
        [n("Transpose", "x", "t", perm=[1, 0]), n("Slice", "t b e a st", "y")],
        [("x", FLOAT, [3, 2])], [("y", FLOAT, ["k", 3])], {**BACKWARD, "e": ints(2**63 - 1)}, [{"x": (3, 2)}], 10,
    ),
    "reversal to the largest int32, and nodes after it": Case(
        [n("Slice", "x b e a st", "s"), n("Relu", "s", "r"), n("Transpose", "r", "y", perm=[1, 0])],
        [("x", FLOAT, [3, 2])], [("y", FLOAT, [2, "k"])], {**BACKWARD, "e": ints(2**31 - 1)}, [{"x": (3, 2)}],
    ),
    "a symbolic axis that is 0": Case(
        [n("Softmax", "x", "s", axis=0), n("Unsqueeze", "s ax", "u"), n("GreaterOrEqual", "u x", "g"),
         n("Transpose", "g", "y", perm=[5, 3, 0, 2, 1, 4])],
        [("x", FLOAT, ["A", 4, "B", "C"])], [("y", BOOL, [None] * 6)], {"ax": ints(2, 1)},
        [{"x": (4, 4, 5, 0)}, {"x": (4, 4, 5, 3)}, {"x": (0, 4, 1, 2)}, {"x": (1, 4, 1, 1)}], 18,
    ),
    "symbolic axes, one of them 0, merged": Case(
        [n("Transpose", "x", "t", perm=[0, 2, 3, 1]), n("Flatten", "t", "f", axis=3), n("Transpose", "f", "y")],
        [("x", FLOAT, ["A", 4, "B", "C"])], [("y", FLOAT, None)], {},
        [{"x": (2, 4, 5, 0)}, {"x": (2, 4, 0, 3)}, {"x": (0, 4, 1, 2)}, {"x": (2, 4, 2, 1)}],
    ),
    "a cut of an open size from padded symbolic axes": Case(
        [n("Pad", "x p", "q"), n("Split", "q k", "y", axis=2)],
        [("x", FLOAT, ["M", "N", 3])], [("y", FLOAT, None)], {"p": ints(0, 2, 0, 0, 0, 0), "k": ints(3)},
        [{"x": (2, 3, 3)}, {"x": (1, 1, 3)}],
    ),
    "windows that begin behind the input": Case(
        [n("MaxPool", "x", "p", kernel_shape=[1], strides=[2], ceil_mode=1), n("Transpose", "p", "t", perm=[2, 0, 1]),
         n("Flatten", "t", "f", axis=0), n("Relu", "f", "y")],
        [("x", FLOAT, [1, 2, 6])], [("y", FLOAT, None)], {}, [{"x": (1, 2, 6)}], 12,
    ),
    "dilated windows with automatic padding": Case(
        [n("MaxPool", "x", "p", kernel_shape=[2], dilations=[2], auto_pad="SAME_UPPER"), n("Flatten", "p", "f", axis=0),
         n("Transpose", "f", "y")],
        [("x", FLOAT, [1, 2, 6])], [("y", FLOAT, None)], {}, [{"x": (1, 2, 6)}],
    ),
    "a cut symbolic axis of opset 10, added to a whole one": Case(
        [n("Slice", "x b e a st", "s"), n("Transpose", "x", "t", perm=[1, 0]), n("Transpose", "s", "r", perm=[1, 0]),
         n("Add", "t r", "u"), n("Transpose", "u", "y", perm=[1, 0])],
        [("x", FLOAT, ["N", 3])], [("y", FLOAT, None)],
        {"b": ints(0), "e": ints(1), "a": ints(0), "st": ints(1)}, [{"x": (4, 3)}, {"x": (1, 3)}], 10,
    ),
    "the same Split twice": Case(
        [n("Split", "x", "a b"), n("Split", "x", "c d"), n("Concat", "d a b c", "y", axis=1)],
        [("x", FLOAT, [4, 3])], [("y", FLOAT, [2, 12])], {}, [{"x": (4, 3)}],
    ),
    "an empty part of a Concat, turned": Case(
        [n("Concat", "c x x", "v", axis=0), n("Transpose", "v", "y")],
        [("x", FLOAT, [1, 5, 3])], [("y", FLOAT, [3, 5, 2])], {"c": np.zeros((0, 5, 3), np.float32)},
        [{"x": (1, 5, 3)}],
    ),
    "an output behind dilated windows, its rank left open": Case(
        [n("MaxPool", "x", "p", kernel_shape=[1, 2], dilations=[2, 1], ceil_mode=1), n("Squeeze", "p", "s"),
         n("ReduceMax", "s", "y", axes=[-2])],
        [("x", FLOAT, [1, 3, 4, 2])], [("y", FLOAT, None)], {}, [{"x": (1, 3, 4, 2)}], 12,
    ),
    **{
        f"an empty Reshape by a computed size in opset {opset}": Case(
            [n("Shape", "x", "s"), n("Gather", "s i", "g", axis=0), n("Concat", "g m", "k", axis=0),
             n("Reshape", "x k", "r"), n("Concat", "m g", "l", axis=0), n("Reshape", "x l", "t"), n("Neg", "t", "y")],
            [("x", FLOAT, ["N", 0, 5])], [("r", FLOAT, [None, 0]), ("y", FLOAT, [None, None])],
            {"i": ints(0), "m": ints(-1)}, [{"x": (3, 0, 5)}, {"x": (1, 0, 5)}], opset,
        )
        for opset in (8, 13, 17)
    },
}  # fmt: skip


def optimized(model: ModelProto) -> ModelProto:
    """Without the check of results, which would hide what is wrong."""
    return front.optimize(model, checked=False).model


def written(model: ModelProto) -> ModelProto:
    return write(read(model))


@pytest.mark.parametrize("way", [optimized, written], ids=["optimize", "read and write"])
@pytest.mark.parametrize("name", CASES)
def test_shapes_and_values_stay(name: str, way: Callable[[ModelProto], ModelProto]) -> None:
    case = CASES[name]
    before = case.model()
    after = way(before)
    check_model(shape_inference.infer_shapes(after))
    for shapes in case.sizes:
        feeds = case.feeds(shapes)
        for a, b in zip(run_session(session(before), feeds), run_session(session(after), feeds), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype, shapes
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_squeeze_without_axes_is_a_barrier_unless_every_axis_is_a_number() -> None:
    kinds = {name: [x for x in read(CASES[name].model()).nodes() if isinstance(x, Opaque)] for name in list(CASES)[:3]}
    assert [len(kinds[name]) for name in kinds] == [1, 1, 0]


def test_strings_keep_their_type() -> None:
    texts = [helper.make_tensor_value_info("x", TensorProto.STRING, [2, 2])]
    for shape in (None, [4, 2], ["k", 2]):
        ends = [helper.make_tensor_value_info("y", TensorProto.STRING, shape)]
        nodes = [helper.make_node("Concat", ["x", "x"], ["y"], axis=0)]
        before = helper.make_model(
            helper.make_graph(nodes, "g", texts, ends), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        )
        after = front.optimize(before).model
        known = ends if shape is not None else [helper.make_tensor_value_info("y", TensorProto.STRING, [4, 2])]
        assert after.graph.output[0].type == known[0].type
        feeds = {"x": np.array([["a", "b"], ["c", "d"]], object)}
        assert run_session(session(after), feeds)[0].tolist() == run_session(session(before), feeds)[0].tolist()


def test_slices_take_what_onnxruntime_takes() -> None:
    edges = (0, 1, -1, 2, 4, -4, 5, -6, 100, -100, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63))
    rows = [(s, e, by) for s in edges for e in edges for by in (1, 2, -1, -3)]
    names = [f"{kind}{k}" for k in range(len(rows)) for kind in "sed"]
    constants = [numpy_helper.from_array(ints(v), name) for name, v in zip(names, np.ravel(rows).tolist(), strict=True)]
    constants.append(numpy_helper.from_array(ints(0), "axis"))
    nodes = [helper.make_node("Slice", ["x", f"s{k}", f"e{k}", "axis", f"d{k}"], [f"y{k}"]) for k in range(len(rows))]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [5])],
        [helper.make_tensor_value_info(f"y{k}", FLOAT, [f"k{k}"]) for k in range(len(rows))],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    made = run_session(session(model), {"x": np.arange(5, dtype=np.float32)})
    for (start, end, step), row in zip(rows, made, strict=True):
        first, count = taken(5, start, end, step)
        assert row.tolist() == [first + k * step for k in range(count)], (start, end, step)


@pytest.mark.parametrize("k", [0, 1, -2], ids=str)
@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_numbers_are_read_whatever_their_rank(k: int, shape: tuple[int, ...]) -> None:
    """Exporters write the diagonal of Trilu and the axis of CumSum as numbers and as vectors of one."""
    for op, slot in (("Trilu", np.array(k)), ("CumSum", np.array(k % 2))):
        case = Case(
            [n("Transpose", "x", "t", perm=[1, 0]), n(op, "t k", "u"), n("Transpose", "u", "y", perm=[1, 0])],
            [("x", FLOAT, [4, 4])], [("y", FLOAT, [4, 4])], {"k": slot.reshape(shape)}, [{"x": (4, 4)}],
        )  # fmt: skip
        before = case.model()
        feeds = case.feeds(case.sizes[0])
        for after in (optimized(before), write(read(before))):
            assert op in [x.op_type for x in after.graph.node]
            assert np.array_equal(run_session(session(before), feeds)[0], run_session(session(after), feeds)[0])
    x = input("x", (4, 4), "float32")
    with pytest.raises(Declined):
        apply(Call("Trilu", (x,), {"k": (1, 2)}))


def test_no_type_that_onnxruntime_lacks_is_brought_in() -> None:
    """Pad, Cast as Cast, Pad would need a Pad of int16, which no runtime here has."""
    case = Case(
        [n("Cast", "x", "c", to=INT), n("Pad", "c p", "y")],
        [("x", TensorProto.INT16, [2, 3])], [("y", INT, [2, 5])], {"p": ints(0, 1, 0, 1)}, [],
    )  # fmt: skip
    after = optimized(case.model())
    feeds = {"x": np.arange(6, dtype=np.int16).reshape(2, 3)}
    assert np.array_equal(run_session(session(case.model()), feeds)[0], run_session(session(after), feeds)[0])
    own = Case([n("Pad", "x p", "y")], case.inputs, [("y", TensorProto.INT16, [2, 5])], case.constants, [])
    assert [x.op_type for x in write(read(own.model())).graph.node] == ["Pad"]  # the model's own choice of runtime


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize("extent", [1, 3])
def test_a_backward_slice_is_written_so_that_all_read_it_alike(end: int, extent: int) -> None:
    """Where onnxruntime infers shapes, the largest numbers are positions, as in onnx.reference; else the first cell."""
    from onnx.reference import ReferenceEvaluator

    names = ("starts", "ends", "axes", "steps")
    numbers = zip(names, (-1, end, -1, -2), strict=True)
    nodes = [helper.make_node("Constant", [], [n], value_ints=[v]) for n, v in numbers]
    nodes += [helper.make_node("Slice", ["x", *names], ["s"]), helper.make_node("Neg", ["s"], ["y"])]
    ends = [helper.make_tensor_value_info(n, FLOAT, [d]) for n, d in (("x", extent), ("y", None))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": np.arange(extent, dtype=np.float32)}
    wanted = run_session(session(model), feeds)[0]
    runner: Any = ReferenceEvaluator(write(read(model)))
    np.testing.assert_array_equal(runner.run(None, feeds)[0], wanted)


def test_a_grid_of_known_size_has_no_symbols() -> None:  # feature: I3
    """Anchors as detectors make them: Range up to a size that is cast to a float, in an axis named by an exporter."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "three"], ["w"]),
        helper.make_node("Cast", ["w"], ["f"], to=FLOAT),
        helper.make_node("Range", ["zero", "f", "one"], ["r"]),
        helper.make_node("Reshape", ["r", "row"], ["g"]),
        helper.make_node("Transpose", ["g"], ["t"], perm=[1, 0]),
        helper.make_node("Add", ["x", "t"], ["y"]),
    ]
    given = {"three": np.array(3), "zero": np.float32(0), "one": np.float32(1), "row": np.array([1, -1])}
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in given.items()]
    ends = [helper.make_tensor_value_info(n, FLOAT, [1, 2, 5, 5]) for n in "xy"]
    known = [helper.make_tensor_value_info("r", FLOAT, ["unk__0"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants, value_info=known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert not [s for node in read(model).nodes() for s in node_symbols(node)]
    found = front.optimize(model)
    assert [n.op_type for n in found.model.graph.node] == ["Add"]
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 5)).astype("float32")
    (wanted,), (got,) = (run_session(session(m), {"x": x}) for m in (model, found.model))
    assert np.array_equal(wanted, got)


@pytest.mark.parametrize("opset", [7, 8, 13])
@pytest.mark.parametrize("shape", [(0, 4), (2, 4), ("N", 4)], ids=str)
def test_opset_7_has_tensors_of_one_value(shape: tuple[str | int, int], opset: int) -> None:
    """Nothing but a border remains; the first versions of ONNX have no Expand."""
    cut: dict[str, Any] = {"axes": [1], "starts": [5], "ends": [7]} if opset < 10 else {}
    pads: dict[str, Any] = {"pads": [0, 0, 0, 3], "value": 2.0} if opset < 11 else {}
    more = ([] if pads else ["pads", "two"]), ([] if cut else ["start", "end", "one"])
    given = {"pads": [0, 0, 0, 3], "start": [5], "end": [7], "one": [1], "two": np.float32(2)}
    constants = [numpy_helper.from_array(np.asarray(given[n]), n) for names in more for n in names]
    nodes = [
        helper.make_node("Pad", ["x", *more[0]], ["p"], **pads),
        helper.make_node("Slice", ["p", *more[1]], ["y"], **cut),
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Transpose", ["t"], ["z"], perm=[1, 0]),
    ]
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", shape), ("y", [None] * 2), ("z", [None] * 2))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = front.optimize(model)
    assert not {"Pad", "Slice", "Transpose"} & {n.op_type for n in found.model.graph.node}, found.notes
    for rows in (3, 0) if shape[0] == "N" else shape[:1]:
        x = np.ones((int(rows), 4), np.float32)
        y, z = run_session(session(found.model), {"x": x})
        assert np.array_equal(y, np.full((len(x), 2), 2, np.float32)) and np.array_equal(z, x)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(
    ("shape", "first", "middle", "last"),
    [
        (["N", 6, "M"], [0, 2, 1], [0, 0, 2, 3], [0, 2, 3, 1]),  # (N, 2, 3, M) of (N, 6, M): another axis before M
        ([2, 3, "N", "M"], [2, 3, 0, 1], [0, 0, 6], [2, 0, 1]),  # (6, N, M) of (2, 3, N, M): one too many before N
        (["N", 6, "M"], [2, 0, 1], [0, 0, 2, 3], [1, 0, 2, 3]),  # a Transpose remains
    ],
)
def test_sizes_that_may_be_0_are_copied(
    shape: list[str | int], first: list[int], middle: list[int], last: list[int], opset: int
) -> None:
    """Before opset 14 a Reshape takes a size 0 from the same axis of its operand."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=first),
        helper.make_node("Reshape", ["a", "shape"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=last),
    ]
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", shape), ("y", [None] * len(last)))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(np.array(middle), "shape")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = front.optimize(model)
    ops = [n.op_type for n in found.model.graph.node]
    assert ops.count("Transpose") <= (last[0] == 1) and found.final.rank < found.initial.rank, (ops, found.notes)
    for n, m in ((4, 5), (0, 5), (4, 0), (0, 0), (1, 1)):
        sizes = [{"N": n, "M": m}.get(str(d), d) for d in shape]
        x = np.random.default_rng(0).standard_normal([int(d) for d in sizes]).astype(np.float32)
        (wanted,), (made,) = (run_session(session(each), {"x": x}) for each in (model, found.model))
        assert made.shape == wanted.shape and np.array_equal(made, wanted)


@pytest.mark.parametrize("opset", [11, 17])
def test_sizes_that_are_multiplied_may_be_0(opset: int) -> None:
    """Exporters compute the sizes that a Reshape is asked for; of W alone being 0, it makes something else."""
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", ["B", 4, "H", "W"]), ("y", [None] * 3))]
    axes = [] if opset < 13 else ["first"]
    more: dict[str, Any] = {"axes": [0]} if opset < 13 else {}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        *(helper.make_node("Gather", ["s", f"at{k}"], [f"d{k}"]) for k in (0, 2, 3)),
        helper.make_node("Mul", ["d2", "d3"], ["cells"]),
        *(helper.make_node("Unsqueeze", [d, *axes], [f"{d}1"], **more) for d in ("d0", "cells")),
        helper.make_node("Concat", ["d01", "cells1", "four"], ["shape"], axis=0),
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Transpose", ["r"], ["u"], perm=[0, 2, 1]),
        helper.make_node("Neg", ["u"], ["y"]),
    ]
    given = {"first": [0], "four": [4], **{f"at{k}": k for k in (0, 2, 3)}}
    constants = [numpy_helper.from_array(np.array(v), n) for n, v in given.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    assert not read(model).envelope.inhabited
    found = front.optimize(model)
    assert "Transpose" not in {n.op_type for n in found.model.graph.node}, found.notes
    for sizes in ((2, 4, 3, 5), (1, 4, 1, 1), (0, 4, 3, 5), (2, 4, 0, 5), (0, 4, 0, 0)):
        x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
        (wanted,), (made,) = (run_session(session(each), {"x": x}) for each in (model, found.model))
        assert made.shape == wanted.shape and np.array_equal(made, wanted)


@pytest.mark.parametrize("needed", [True, False])
def test_a_reshape_tells_what_is_not_0(needed: bool) -> None:
    """Of nothing, -1 is no number: where all of the model fails for a size 0, another Reshape may, too."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Transpose", ["r"], ["u"], perm=[0, 2, 1]),
        helper.make_node("Neg" if needed else "Abs", ["u" if needed else "x"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", ["B", 4, "H", "W"]), ("y", None))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(np.array([0, -1, 4]), "shape")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert read(model).envelope.inhabited == ({"B"} if needed else set())
    found = front.optimize(model).model.graph
    assert sorted(n.op_type for n in found.node) == (["Neg", "Reshape"] if needed else ["Abs"])
    x = np.random.default_rng(0).standard_normal((2, 4, 3, 5)).astype(np.float32)
    (wanted,), (made,) = (run_session(session(each), {"x": x}) for each in (model, front.optimize(model).model))
    assert made.shape == wanted.shape and np.array_equal(made, wanted)
    if needed:
        with pytest.raises(Exception, match="Reshape"):
            run_session(session(model), {"x": x[:0]})


def test_what_an_opset_cannot_say_is_another_choice() -> None:
    """A border on one long row is the cheapest, but before opset 11 its width is a number: the rest is done anyway."""
    nodes = [
        helper.make_node("Pad", ["x"], ["y"], pads=[0, 0, 0, 0, 1, 1], value=-1.0),
        helper.make_node("Transpose", ["x"], ["t"], perm=[2, 1, 0]),
        helper.make_node("Neg", ["t"], ["n"]),
        helper.make_node("Transpose", ["n"], ["z"], perm=[2, 1, 0]),
    ]
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", "MM1"), ("y", [None] * 3), ("z", "MM1"))]
    for end in (ends[0], ends[2]):
        end.type.tensor_type.shape.dim[2].dim_value = 1
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8)
    found = front.optimize(model)
    assert [n.op_type for n in found.model.graph.node if n.op_type != "Neg"] == ["Pad"], found.notes
    x = np.random.default_rng(0).standard_normal((3, 3, 1)).astype(np.float32)
    for wanted, made in zip(*(run_session(session(each), {"x": x}) for each in (model, found.model)), strict=True):
        assert np.array_equal(wanted, made)


@each_value(opset=[11, 22, 19, 20], op=["MaxPool", "AveragePool"], late=[False, True])
def test_pools_that_no_window_fits_have_no_cells(opset: int, op: str, late: bool) -> None:
    """Found by the long run: from opset 22 on, onnx counts one such window."""
    names = ["h", "w"] if late else [1, 7]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(op, ["r"], ["p"], kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Neg", ["t"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", [2, 3, *names]), ("y", [None] * 4))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 1, 7)).astype(np.float32)}
    wanted = run_session(session(model), feeds)
    assert wanted[0].shape == (2, 0, 4, 3)
    for other in (write(read(model)), front.optimize(model).model):
        assert run_session(session(other), feeds)[0].shape == wanted[0].shape
    if not late:
        assert np.shape(evaluate(read(model), feeds)) == wanted[0].shape


@pytest.mark.parametrize(("given", "total"), ((True, 6), (False, 6), (False, 3), (False, 0)))
@pytest.mark.parametrize("unit", (1, 4))
def test_layouts_move_through_the_parts_of_an_axis_of_unknown_size(given: bool, total: int, unit: int) -> None:
    """Split cuts every row alike, whatever the size of the axis: transposes around it go."""
    back: dict[str, Any] = {"perm": [0, 2, 1]}
    sizes = {"sizes": np.array([2, 4], np.int64)} if given else {}
    how: dict[str, Any] = {"axis": -1} if given else {"axis": -1, "num_outputs": 2}
    cut = ("Split", "t sizes" if given else "t", "p q", how)
    nodes: list[tuple[str, str, str, dict[str, Any]]] = [
        ("Transpose", "x", "t", back),
        cut,
        ("Relu", "p", "r", {}),
        ("Exp", "q", "e", {}),
    ]
    nodes += [("Transpose", "r", "y", back), ("Transpose", "e", "z", back)]
    outputs = [(n, FLOAT, ("b", f"{n}1", unit)) for n in "yz"]
    case = Case(nodes, [("x", FLOAT, ("b", "s", unit))], outputs, sizes, [], 18)
    model = case.model()
    found = front.optimize(model, objective="bytes")
    if unit > 1:
        assert not [n for n in found.model.graph.node if n.op_type == "Transpose"]
    assert found.checked.difference is None
    feeds = case.feeds({"x": (2, total, unit)})
    for a, b in zip(run_session(session(model), feeds), run_session(session(found.model), feeds), strict=True):
        assert a.shape == b.shape and np.array_equal(a, b)


def _attention(inside: str, rank: int) -> tuple[ModelProto, dict[str, Any]]:
    """Attention between transposes whose values have an open width: at rank 3 of its result, else of its scores."""
    wide = ["b", "t", "w"] if rank == 3 else ["b", 2, "t", "w"]
    given = [1, 5, 6] if rank == 3 else [1, 2, 5, 3]
    made = ["o"] if rank == 3 else ["a", "", "", "o"]
    heads: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2} if rank == 3 else {}
    node = helper.make_node("Attention", ["q", "k", "v"], made, **heads)
    functions: list[Any] = []
    shown = helper.make_tensor_value_info("o", FLOAT, [None] * rank)
    if inside == "function":
        own = [helper.make_opsetid("", 23)]
        functions.append(helper.make_function("own", "Attend", ["q", "k", "v"], ["o"], [node], own))
        node = helper.make_node("Attend", ["q", "k", "v"], ["o"], domain="own")
    if inside == "If":
        bodies: dict[str, Any] = {n: helper.make_graph([node], n, [], [shown]) for n in ("then_branch", "else_branch")}
        node = helper.make_node("If", ["c"], ["o"], **bodies)
    perm = [2, 0, 1] if rank == 3 else [3, 0, 1, 2]
    nodes = [node, helper.make_node("Transpose", ["o"], ["n"], perm=perm), helper.make_node("Neg", ["n"], ["y"])]
    sizes = {"q": given, "k": given, "v": wide}
    ends = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in sizes.items()]
    ends += [helper.make_tensor_value_info("c", BOOL, [])] * (inside == "If")
    graph = helper.make_graph(nodes, "g", ends, [helper.make_tensor_value_info("y", FLOAT, [None] * rank)])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {n: rng.standard_normal(given).astype(np.float32) for n in sizes}
    return model, feeds | ({"c": np.array(True)} if inside == "If" else {})


@each_value(said=[False, True], inside=["", "function", "If"], rank=[3, 4])
def test_attention_of_open_sizes_is_not_empty(said: bool, inside: str, rank: int) -> None:
    """onnx.shape_inference counts with 0 for a width that it does not know; so do the shapes that it left in models."""
    model, feeds = _attention(inside, rank)
    given = shape_inference.infer_shapes(model, data_prop=True) if said else model
    known = infer(given).modelled("o")
    assert known is not None and all(not isinstance(d, int) or d > 0 for d in known[0])
    if inside == "If":
        return  # onnxruntime holds on to the wrong shape there
    wanted = run_session(session(model), feeds)[0]
    assert wanted.size
    for other in (write(read(given)), front.optimize(given, checked=False).model, front.optimize(given).model):
        for value in other.graph.output:
            value.type.tensor_type.ClearField("shape")
        found = run_session(session(other), feeds)[0]
        assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-6)

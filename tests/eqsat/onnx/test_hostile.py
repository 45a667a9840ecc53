"""Bad and hostile model files: one clear error each, and nothing is written."""

# feature: I1
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.ir.errors import EqsatError, MissingPackage  # noqa: E402
from eqsat.models.package import require  # noqa: E402
from eqsat.nets import conv_chain  # noqa: E402

pytestmark = pytest.mark.onnx


def one(
    nodes: list[Any], constants: list[TensorProto] | None = None, shape: Any = (2, 3), out: Any = (2, 3)
) -> ModelProto:
    ins, outs = [helper.make_tensor_value_info("x", 1, shape)], [helper.make_tensor_value_info("y", 1, out)]
    graph = helper.make_graph(nodes, "g", ins, outs, constants or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def short_data() -> ModelProto:
    tensor = TensorProto(name="c", data_type=1, dims=[2, 3], raw_data=b"1234")
    return one([node("Add", "x c", "y")], [tensor])


def huge_tensor() -> ModelProto:
    tensor = TensorProto(name="c", data_type=1, dims=[2**40, 2**40], raw_data=b"1234")
    return one([node("Add", "x c", "y")], [tensor])


def negative_tensor() -> ModelProto:
    tensor = TensorProto(name="c", data_type=1, dims=[-2, 3], raw_data=b"")
    return one([node("Add", "x c", "y")], [tensor])


BAD: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "noise": lambda: np.random.default_rng(0).bytes(500),
    "text": lambda: b"<html>not a model</html>",
    "cut short": lambda: conv_chain().SerializeToString()[:-200],
    "cycle": lambda: one([node("Relu", "a", "b"), node("Relu", "b", "a"), node("Add", "x a", "y")]).SerializeToString(),
    "out of order": lambda: one([node("Relu", "h", "y"), node("Relu", "x", "h")]).SerializeToString(),
    "two values of one name": lambda: one([node("Relu", "x", "y"), node("Neg", "x", "y")]).SerializeToString(),
    "missing initialiser": lambda: one([node("Add", "x nowhere", "y")]).SerializeToString(),
    "missing output": lambda: one([node("Relu", "x", "z")]).SerializeToString(),
    "unknown operator": lambda: one([node("NoSuchOperator", "x", "y")]).SerializeToString(),
    "wrong attribute": lambda: one([node("Transpose", "x", "y", perm="ab")]).SerializeToString(),
    "short data": lambda: short_data().SerializeToString(),
    "huge tensor": lambda: huge_tensor().SerializeToString(),
    "negative tensor": lambda: negative_tensor().SerializeToString(),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(BAD[kind]())
    with pytest.raises(EqsatError) as caught:
        front.load(path)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("path", ["missing.onnx", "."])
def test_unreadable_files(path: str, tmp_path: Path) -> None:
    with pytest.raises(EqsatError, match="cannot be read"):
        front.load(tmp_path / path)


def external(location: str, **entries: str) -> ModelProto:
    tensor = TensorProto(name="c", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return one([node("Add", "x c", "y")], [tensor])


@pytest.mark.parametrize(
    ("location", "entries"),
    [
        ("../secret", {}), ("/etc/passwd", {}), ("", {}), ("missing", {}), ("link", {}), ("sub/../../secret", {}),
        ("data", {"offset": "20"}), ("data", {"length": "-4"}), ("data", {"offset": "x"}), ("data", {"length": "4"}),
    ],
)  # fmt: skip
def test_external_data_elsewhere_is_refused(location: str, entries: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(24))
    (folder / "data").write_bytes(bytes(24))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "m.onnx").write_bytes(external(location, **entries).SerializeToString())
    with pytest.raises(EqsatError):
        front.load(folder / "m.onnx")


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "data").write_bytes(b"pad!" + values.tobytes())
    model = external("data", offset="4", length="24")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    program = front.load(tmp_path / "m.onnx")
    assert program.outputs["y"].shape == (2, 3)
    front.save(program, tmp_path / "n.onnx")
    (weight,) = onnx.load(str(tmp_path / "n.onnx")).graph.initializer
    assert np.array_equal(numpy_helper.to_array(weight), values)
    with pytest.raises(EqsatError, match="path"):
        front.load(model)


@pytest.mark.parametrize(
    ("shape", "out", "said"),
    [
        (None, (2, 3), "input 'x': its rank is not known"),
        ((2, 3), None, "output 'y': its rank is not known"),
    ],
)
def test_what_has_no_rank_is_named(shape: Any, out: Any, said: str) -> None:
    """onnx.checker says that a field is missing, and not of which input or output."""
    model = one([node("Squeeze", "x", "y") if out is None else node("Relu", "x", "y")], shape=shape, out=out)
    if out is None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(EqsatError, match=said):
        front.optimize(model)
    assert front.optimize(one([node("Relu", "x", "y")], out=None)).model.graph.output[0].name == "y"


@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize("opset", [11, 17])
def test_shapes_of_outputs_may_be_left_out(gain: bool, opset: int, tmp_path: Path) -> None:
    """Runtimes take such a model, and ONNX does not: the result says the shapes, changed or not."""
    turns = [node("Transpose", "x", "t", perm=[1, 0]), node("Relu", "t", "r"), node("Transpose", "r", "y", perm=[1, 0])]
    model = one(turns if gain else [node("Relu", "x", "y")], shape=("N", 3), out=None)
    model.opset_import[0].version = opset
    assert not model.graph.output[0].type.tensor_type.HasField("shape")
    best = front.optimize(model)
    best.save(tmp_path / "out.onnx")
    [y] = onnx.load(tmp_path / "out.onnx").graph.output
    dims = y.type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["N", 3] and y.type.tensor_type.elem_type == 1
    assert (best.model is best.source) != gain and not model.graph.output[0].type.tensor_type.HasField("shape")


def test_shapes_of_strings_may_be_left_out(tmp_path: Path) -> None:
    model = one([node("Identity", "x", "y")])
    for ends in (model.graph.input, model.graph.output):
        ends[0].type.tensor_type.elem_type = TensorProto.STRING
    model.graph.output[0].type.tensor_type.ClearField("shape")
    front.optimize(model).save(tmp_path / "out.onnx")
    [y] = onnx.load(tmp_path / "out.onnx").graph.output
    assert [d.dim_value for d in y.type.tensor_type.shape.dim] == [2, 3] and y.type.tensor_type.elem_type == 8


def test_huge_extents_are_only_numbers() -> None:
    big = 2**40
    model = one([node("Transpose", "x", "y", perm=[1, 0])], shape=(big, big), out=(big, big))
    assert front.load(model).outputs["y"].shape == (big, big)
    filled = [numpy_helper.from_array(np.array([2**30, 2**10], np.int64), "s")]
    zeros = one([node("ConstantOfShape", "s", "z"), node("Add", "x z", "y")], filled, (1, 1), (2**30, 2**10))
    assert front.load(zeros).outputs["y"].shape == (2**30, 2**10)


def test_long_chains_do_not_recurse() -> None:
    count = 1200
    nodes = [
        node("Relu" if k % 2 else "Transpose", f"v{k}" if k else "x", f"v{k + 1}" if k + 1 < count else "y")
        for k in range(count)
    ]
    model = one(nodes)
    program = front.load(model)
    from eqsat.onnx.write import write

    assert len(write(program).graph.node) == count


def test_an_unwritable_output_leaves_nothing(tmp_path: Path) -> None:
    program = front.load(conv_chain())
    with pytest.raises(EqsatError, match="cannot be written"):
        front.save(program, tmp_path / "no" / "m.onnx")
    (tmp_path / "folder").mkdir()
    with pytest.raises(EqsatError, match="cannot be written"):
        front.save(program, tmp_path / "folder")
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


def test_models_too_large_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "MAX_PROTO", 1000)
    program = front.load(conv_chain())
    front.save(program, tmp_path / "m.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    again = front.load(tmp_path / "m.onnx")
    from eqsat.onnx.check import compare_models
    from eqsat.onnx.write import write

    assert compare_models(conv_chain(), write(again)).ok


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackage, match=r"pip install eqsat\[onnx\]"):
        require("onnx")
    with pytest.raises(MissingPackage):
        front.load("m.onnx")

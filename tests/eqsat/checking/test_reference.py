"""onnx.reference with the product that onnxruntime adds: the same as onnxruntime's."""

from itertools import product
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.onnx
onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from eqsat.checking.models import check_models  # noqa: E402
from eqsat.models.package import session  # noqa: E402
from eqsat.models.reference import evaluator  # noqa: E402


def _model(
    nodes: list[Any], shapes: dict[str, tuple[int, ...]], z: tuple[int | None, ...] | None = None, **sizes: list[int]
) -> Any:
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    given = [helper.make_tensor(name, 7, [len(v)], v) for name, v in sizes.items()]
    graph = helper.make_graph(nodes, "g", ends, [helper.make_tensor_value_info("z", 1, z)], given)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _fused(*operands: str, **attrs: Any) -> Any:
    return helper.make_node("FusedMatMul", operands, ["z"], domain="com.microsoft", **attrs)


@pytest.mark.parametrize("flags", list(product((0, 1), repeat=4)))
def test_the_product_is_that_of_onnxruntime(flags: tuple[int, ...]) -> None:
    pytest.importorskip("onnxruntime")
    batch, rows, inner, columns = 2, 3, 4, 5
    names = ("transA", "transB", "transBatchA", "transBatchB")
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (p, q), k in (("x", (rows, inner), 0), ("y", (inner, columns), 1)):
        d, e = (q, p) if flags[k] else (p, q)
        shapes[name] = (d, batch, e) if flags[k + 2] else (batch, d, e)
    model = _model([_fused("x", "y", alpha=0.5, **dict(zip(names, flags, strict=True)))], shapes)
    draw = np.random.default_rng(1).standard_normal
    feeds = {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}
    (wanted,), (found,) = session(model).run(None, feeds), evaluator(model).run(None, feeds)
    assert wanted.shape == (batch, rows, columns) == found.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("right", [True, False])
def test_a_result_is_compared_where_onnxruntime_does_not_take_the_original(right: bool) -> None:
    """There is no kernel that keeps a triangle of int8."""

    def triangle(name: str, upper: int) -> list[Any]:
        return [
            helper.make_node("Trilu", [name], ["l"], upper=upper),
            helper.make_node("Cast", ["l"], ["a"], to=1),
        ]

    first, turned = (
        helper.make_node("Cast", ["x"], ["i"], to=3),
        helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
    )
    shapes = {"x": (4, 4), "y": (4, 4)}
    product = helper.make_node("MatMul", ["a", "y"], ["z"])
    before = _model([first, turned, *triangle("t", 0), product], shapes, (4, 4))
    after = _model([first, *triangle("i", 1), _fused("a", "y", transA=int(right))], shapes, (4, 4))
    found = check_models(before, after)
    assert (found.difference is None) == right and found.count("run") == 1


def test_nothing_is_said_of_a_result_where_the_original_runs_nowhere() -> None:
    """A size that is inferred beside a 0, as transformers have it for an empty batch."""
    shapes = {"x": (0, 24), "w": (3, 5, 2)}
    taken = [helper.make_node("Reshape", ["x", "size"], ["a"])]
    apart = [helper.make_node("Transpose", ["w"], ["y"], perm=[0, 2, 1]), helper.make_node("MatMul", ["a", "y"], ["z"])]
    z = (0, 3, None, 5)
    models = [_model([*taken, *some], shapes, z, size=[0, 3, -1, 2]) for some in (apart, [_fused("a", "w", transB=1)])]
    found = check_models(*models)
    assert found.difference is None and [region.verdict for region in found.regions] == ["neither"]

"""What is meant by maxima over windows: where no NaN is, what a runtime makes, and NaN of each window that has one."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper

from eqsat.checking.meant import explicit

pytestmark = pytest.mark.onnx


def pool(attrs: dict[str, Any], opset: int = 17) -> ModelProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xy"]
    graph = helper.make_graph([helper.make_node("MaxPool", ["x"], ["y"], **attrs)], "one", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model: ModelProto | None, x: Any) -> Any:
    assert model is not None
    onnxruntime: Any = import_module("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


def drawn(r: Random) -> dict[str, Any]:
    count = r.choice([1, 2, 2, 3])
    taps = [r.randint(1, 4) for _ in range(count)]
    attrs: dict[str, Any] = {"kernel_shape": taps, "ceil_mode": int(r.random() < 0.4)}
    if r.random() < 0.6:
        attrs["strides"] = [r.randint(1, 3) for _ in taps]
    if r.random() < 0.4:
        attrs["dilations"] = [r.randint(1, 3) for _ in taps]
    if r.random() < 0.5:
        attrs["pads"] = [r.randint(0, k - 1) for k in taps + taps]
    elif r.random() < 0.5:
        attrs["auto_pad"] = r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attrs


def test_maxima_of_numbers_are_what_a_runtime_makes() -> None:
    compared = 0
    for seed in range(200):
        r = Random(seed)
        attrs = drawn(r)
        shape = [2, 3, *(r.randint(2, 9) for _ in attrs["kernel_shape"])]
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        x.reshape(-1)[r.randrange(x.size)] = np.inf
        try:
            expected = run(pool(attrs), x)
        except Exception as error:  # runtimes raise classes of their own, with no common base
            assert "MaxPool" in str(error)
            continue
        np.testing.assert_array_equal(expected, run(explicit(pool(attrs)), x), err_msg=str(seed))
        compared += 1
    assert compared > 150


def test_a_window_with_a_nan_has_that_wherever_it_stands() -> None:
    model, turned = (
        pool({"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
        pool({"kernel_shape": [2, 3], "pads": [0, 1, 1, 1]}),
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 7)).astype(np.float32)
    x[0, 1, 2, 3] = np.nan
    found = run(explicit(model), x)
    assert np.isnan(found).sum() == 6 and np.isnan(found[0, 1, 1:4, 2:4]).all()
    np.testing.assert_array_equal(found, run(explicit(turned), x.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2))


def test_there_is_nothing_to_be_said() -> None:
    assert explicit(pool({"kernel_shape": [2]}, opset=8)) is None
    places = pool({"kernel_shape": [2]})
    places.graph.node[0].output.append("places")
    assert explicit(places) is None

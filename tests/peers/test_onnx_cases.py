"""The cases that onnx brings for each of its operators, between transposes: models, inputs, and what they give."""

# feature: I2
from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import eqsat as eq  # noqa: E402
import eqsat.onnx as front  # noqa: E402
from eqsat.ir.dtypes import NDArray  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.infer import infer  # noqa: E402

pytestmark = [pytest.mark.onnx, pytest.mark.slow]
RANDOM = ("dropout", "bernoulli", "random", "multinomial")
PARTS = 16


class Case(NamedTuple):
    """A model, its inputs, and the shapes of its outputs where these are tensors."""

    name: str
    model: ModelProto
    feeds: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]


def cases(part: int) -> Iterator[Case]:
    """A part of all cases; without those whose results are random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    for case in found[part::PARTS]:
        if case.model is None or not case.data_sets or any(word in case.name for word in RANDOM):
            continue
        ins, outs = case.data_sets[0]
        names = [x.name for x in case.model.graph.input]
        feeds = {n: numpy_helper.to_array(a) if isinstance(a, TensorProto) else a for n, a in zip(names, ins)}  # noqa: B905
        made = zip(case.model.graph.output, outs, strict=True)
        tensors: dict[str, Any] = {x.name: a for x, a in made if _is_array(a) and _is_tensor(x)}
        yield Case(case.name, case.model, feeds, {n: np.shape(a) for n, a in tensors.items()})


def _is_array(a: Any) -> bool:
    return isinstance(a, (np.ndarray, np.generic))


def _is_sequence(a: Any) -> bool:
    return isinstance(a, (list, tuple))


def _is_tensor(value: Any) -> bool:
    return value.type.WhichOneof("value") == "tensor_type"


def between_transposes(case: Case, random: Random, open_sizes: bool) -> tuple[ModelProto, dict[str, Any]]:
    """The case with its inputs and outputs in other orders of their axes; perhaps with names for the inputs' sizes."""
    model, feeds = ModelProto.FromString(case.model.SerializeToString()), dict(case.feeds)
    before: list[NodeProto] = []
    after: list[NodeProto] = []
    for x in model.graph.input:
        array: Any = feeds.get(x.name)
        if not _is_array(array) or array.ndim < 2 or array.dtype == object or not _is_tensor(x):
            continue
        order = random.sample(range(array.ndim), array.ndim)
        name, kind = f"{x.name}.in", x.type.tensor_type.elem_type
        feeds[name] = np.ascontiguousarray(feeds.pop(x.name).transpose(np.argsort(order).astype(int)))
        before.append(helper.make_node("Transpose", [name], [x.name], perm=order))
        dims = [f"{name}.{k}" if open_sizes and d > 1 else d for k, d in enumerate(feeds[name].shape)]
        x.CopyFrom(helper.make_tensor_value_info(name, kind, dims))
    for x in model.graph.output:
        if len(case.shapes.get(x.name, ())) > 1:
            rank, name = len(case.shapes[x.name]), f"{x.name}.out"
            order = random.sample(range(rank), rank)
            after.append(helper.make_node("Transpose", [x.name], [name], perm=order))
            shape = [None if open_sizes else case.shapes[x.name][k] for k in order]
            x.CopyFrom(helper.make_tensor_value_info(name, x.type.tensor_type.elem_type, shape))
    if not any(o.domain == "" for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", 17))
    nodes = [*before, *model.graph.node, *after]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model, feeds


def run(model: ModelProto, feeds: Mapping[str, Any], runtime: bool) -> list[Any]:
    """By onnxruntime, or what onnx has for operators that it lacks."""
    if runtime:
        return run_session(session(model), feeds)
    other: Any = ReferenceEvaluator(model)
    return other.run(None, dict(feeds))


def ran(model: ModelProto, feeds: Mapping[str, Any]) -> tuple[bool, list[Any]] | None:
    """The results, and whether onnxruntime gave them; None where nobody runs the model."""
    for runtime in (True, False):
        try:
            return runtime, run(model, feeds, runtime)
        except Exception:  # each has errors of its own, and what neither runs is no case
            continue
    return None


def same(a: Any, b: Any) -> bool:
    """Equal results; of floats, as far as another order of sums changes them."""
    if a is None or b is None:
        return a is b
    if _is_sequence(a) and _is_sequence(b):
        return len(a) == len(b) and all(map(same, a, b))
    x: NDArray = np.asarray(a)
    y: NDArray = np.asarray(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if "float" not in x.dtype.name:
        return x.tolist() == y.tolist()
    close = 2e-2 if x.dtype.itemsize <= 2 else 1e-4
    return np.allclose(x.astype(np.float64), y.astype(np.float64), rtol=close, atol=close, equal_nan=True)


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_between_transposes(part: int, open_sizes: bool) -> None:
    """What is optimised, without a check that would have hidden a wrong one, gives the same."""
    wrong, count = list[str](), 0
    for case in cases(part):
        model, feeds = between_transposes(case, Random(case.name), open_sizes)
        wanted = ran(model, feeds)
        if wanted is None:
            continue
        count += 1
        try:
            made = front.optimize(model, checked=False).model
            if not same(wanted[1], run(made, feeds, wanted[0])):
                wrong.append(case.name)
        except eq.EqsatError as error:
            wrong.append(f"{case.name}: {error}")
    assert not wrong and count > 40, (count, wrong)


@pytest.mark.parametrize("part", range(PARTS))
def test_sizes_that_are_inferred_are_right(part: int) -> None:
    """Of each case all sizes of inputs are open, then each of them alone: what is said of the results holds."""
    wrong = list[str]()
    for case in cases(part):
        places = [
            (n, k)
            for n, x in enumerate(case.model.graph.input)
            if _is_tensor(x)
            for k, d in enumerate(x.type.tensor_type.shape.dim)
            if d.dim_value > 1
        ]
        for some in [places, *([p] for p in places)]:
            model = ModelProto.FromString(case.model.SerializeToString())
            for n, k in some:
                model.graph.input[n].type.tensor_type.shape.dim[k].dim_param = f"s{n}_{k}"
            for x in model.graph.output:
                if x.name in case.shapes:
                    x.type.tensor_type.ClearField("shape")
            try:
                types = infer(model)
            except eq.EqsatError:
                continue  # a rank that depends on a size, of which onnx.checker wants to know
            for name, shape in case.shapes.items():
                known = types.modelled(name)
                if known is not None and any(
                    isinstance(d, int) and d != e for d, e in zip(known[0], shape, strict=True)
                ):
                    wrong.append(f"{case.name} {some}: {name} {known[0]} is {shape}")
    assert not wrong, wrong

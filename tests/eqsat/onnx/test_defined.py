"""Operators of ONNX as formulas: they compute what the operator does, and their programs compile to one library."""

# feature: K3
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_cases import FAMILIES, Use, floats

import eqsat as eq
import eqsat.onnx as frontend
from eqsat import nets
from eqsat.backends.lowering.lower import HostCall, lower
from eqsat.graph.rebuild import rebuilt
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Constant, Node, Opaque, Program, Tensor
from eqsat.models.package import run_session, session
from eqsat.onnx.check import distance
from eqsat.onnx.ops.nodes import node_names

pytestmark = pytest.mark.onnx


def node_of(use: Use, prefix: str = "x") -> Opaque:
    node = frontend.load(use.model(prefix)).outputs["y"].node
    assert isinstance(node, Opaque) and node.definition is not None and node.impl is not None, use
    return node


def spelled(node: Opaque) -> list[Tensor]:
    assert node.definition is not None
    made = node.definition(*node.operands)
    return [made] if isinstance(made, Tensor) else list(made)


def expected(node: Opaque, feeds: dict[str, Any]) -> list[Any]:
    """What onnxruntime computes; its maximum of nothing but -inf is the lowest finite number."""
    assert node.impl is not None
    arrays = [x.node.array if isinstance(x.node, Constant) else feeds[x.name] for x in node.operands]
    values = [np.asarray(x) for x in node.impl(*arrays)]
    return [np.where(x == np.finfo(x.dtype).min, -np.inf, x) if x.dtype.kind == "f" else x for x in values]


@pytest.mark.parametrize("count", [9, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", FAMILIES)
def test_formulas_compute_what_the_runtime_computes(family: str, count: int) -> None:
    """A third of them are compiled, into one library."""
    outputs: dict[str, Tensor] = {}
    inputs: list[Tensor] = []
    feeds: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for seed in range(count):
        use = FAMILIES[family](np.random.default_rng(seed))
        node = node_of(use, f"x{seed}_")
        own = use.feeds(f"x{seed}_")
        want, made = expected(node, own), spelled(node)
        arguments = [x for x in node.operands if not isinstance(x.node, Constant)]
        got = evaluate_outputs(Program(arguments, {f"y{k}": y for k, y in enumerate(made)}), own)
        for w, g in zip(want, got.values(), strict=True):
            assert g.dtype == w.dtype or w.dtype == np.float64, use
            assert distance(w, g) <= 1e-5, use
        if seed < count // 3:
            for k, w in enumerate(want):
                outputs[f"y{seed}_{k}"], wanted[f"y{seed}_{k}"] = Tensor(node, k), w
            inputs += arguments
            feeds |= own
    values = eq.compile(Program(inputs, outputs))(feeds)
    for name, want in wanted.items():
        assert distance(want, values[name]) <= 1e-5, name


def test_families_cover_every_formula() -> None:
    drawn = {family(np.random.default_rng(seed)).op for family in FAMILIES.values() for seed in range(60)}
    assert drawn - {"Gemm"} == set(node_names()), "a Gemm is one node where it is scaled"


def test_a_maximum_with_nan_is_nan() -> None:
    x = floats(np.random.default_rng(0), 1, 2, 9, 9)
    x[0, 0, 4, 4] = np.nan
    node = node_of(Use("MaxPool", [x], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    program = Program(node.operands, {"y": Tensor(node)})
    np.testing.assert_array_equal(eq.compile(program)(x0=x), views.max((-1, -2)))


def test_small_numbers_are_normalised_as_large_ones() -> None:
    """The standard deviation grows by 1e-9 in ONNX's definition, not the variance; equal numbers become 0."""
    x = floats(np.random.default_rng(0), 2, 3, 4, 5)
    program = frontend.load(Use("MeanVarianceNormalization", [x]).model())
    kernel, wanted = eq.compile(program), session(Use("MeanVarianceNormalization", [x]).model())
    for scale in (1.0, 1e-3, 1e-5):
        small = x * np.float32(scale)
        assert distance(run_session(wanted, {"x0": small})[0], kernel(x0=small)) <= 1e-3, scale
    np.testing.assert_array_equal(kernel(x0=np.full_like(x, 2)), np.zeros_like(x))


def test_half_precision_is_computed_in_single() -> None:
    r = np.random.default_rng(0)
    x, w = floats(r, 1, 64, 8, 8).astype(np.float16), floats(r, 4, 64, 3, 3).astype(np.float16)
    node = node_of(Use("Conv", [x, w]))
    wide = node_of(Use("Conv", [x.astype(np.float32), w.astype(np.float32)]))
    feeds = {"x0": x, "x1": w}
    got: Any = eq.evaluate(spelled(node)[0], feeds)
    want: Any = eq.evaluate(spelled(wide)[0], {n: a.astype(np.float32) for n, a in feeds.items()})
    np.testing.assert_array_equal(got, want.astype(np.float16))


def test_other_operands_give_other_results() -> None:
    """A rebuilt node computes with its own operands, whatever its definition was tried on."""
    r = np.random.default_rng(0)
    x, w = floats(r, 1, 2, 5, 5), floats(r, 3, 2, 3, 3)
    program = frontend.load(Use("Conv", [x, w, floats(r, 3)], constants=(1, 2)).model())

    def doubled(node: Node) -> Node | None:
        return Constant(node.array * 2) if isinstance(node, Constant) else None

    twice = rebuilt(program, doubled)
    np.testing.assert_allclose(
        eq.compile(twice, target="c")(x0=x), 2 * eq.compile(program, target="c")(x0=x), rtol=1e-5
    )


def test_programs_travel_without_functions() -> None:
    r = np.random.default_rng(0)
    program = frontend.load(Use("Conv", [floats(r, 1, 2, 5, 5), floats(r, 3, 2, 3, 3)]).model())
    text = eq.ir.program_to_json(program, drop_impl=True)
    (node,) = [n for n in eq.ir.program_from_json(text).nodes() if isinstance(n, Opaque)]
    assert (node.op, node.impl, node.definition) == ("onnx:Conv", None, None)


NETWORKS: dict[str, Any] = {
    "converter": lambda: nets.nhwc_converter_net(blocks=5, seed=3),
    "chain": lambda: nets.conv_chain(seed=3),
    "windows": lambda: nets.window_partition(seed=3),
    "shuffle": lambda: nets.channel_shuffle(seed=3),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compile_to_one_library(name: str) -> None:
    model = NETWORKS[name]()
    program = frontend.load(model)
    assert not [s for s in lower(program).steps if isinstance(s, HostCall)]
    (x,) = program.inputs
    value = floats(np.random.default_rng(1), *(int(str(d)) for d in x.shape))
    kernel = eq.compile(program, target="c")
    (want,) = run_session(session(model), {x.name: value})
    assert distance(want, kernel({x.name: value})) <= 1e-5
    assert len(re.findall(r"^int eqsat_\w+\(", kernel.source, re.MULTILINE)) == 1

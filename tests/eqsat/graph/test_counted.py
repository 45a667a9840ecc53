"""Parts of operators with a parameter that counts positions: groups are cut with their number, if the formula stays."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto
from onnx_steps import Step, input_shape, model, operators, pad, values

import eqsat as eq
from eqsat.ir.errors import ShapeError
from eqsat.ir.tensors.library import define, operator
from eqsat.ir.tensors.tensor import Opaque
from eqsat.onnx.read import read
from eqsat.operators.alike import same_formula
from eqsat.operators.cuts import cut_bundles

pytestmark = pytest.mark.onnx

RNG = np.random.default_rng(1)
ONE_EACH, TWO_EACH = (RNG.normal(size=(8, n, 3, 3)).astype(np.float32) for n in (1, 2))
BIAS = np.arange(8, dtype=np.float32)


def conv(weights: np.ndarray[tuple[int, ...], np.dtype[np.float32]], groups: int, *more: object) -> Step:
    return "Conv", [weights, *more], {"pads": [1, 1, 1, 1], "group": groups}


def crop(axis: int, start: int, end: int) -> Step:
    return "Slice", [np.array([start]), np.array([end]), np.array([axis])], {}


IMAGE = [2, 3, 20, 20]
GONE: dict[str, ModelProto] = {
    "of each channel": model(IMAGE, pad(4, 1, (0, 5), 0.0), conv(ONE_EACH, 8), crop(1, 0, 3)),
    "with a bias": model(IMAGE, pad(4, 1, (2, 3), 0.0), conv(ONE_EACH, 8, BIAS), crop(1, 2, 5)),
    "before a function": model(IMAGE, pad(4, 1, (0, 5), 0.0), conv(ONE_EACH, 8), ("Relu", [], {}), crop(1, 0, 3)),
    "two of them": model(
        IMAGE, pad(4, 1, (0, 5), 0.0), conv(ONE_EACH, 8), ("Relu", [], {}), conv(ONE_EACH, 8, BIAS), crop(1, 0, 3)
    ),
    "any value": model(IMAGE, pad(4, 1, (0, 5), float("inf")), conv(ONE_EACH, 8), crop(1, 0, 3)),
    "groups of two": model([2, 4, 20, 20], pad(4, 1, (0, 4), 0.0), conv(TWO_EACH, 4), crop(1, 0, 4)),
}
STAYS: dict[str, ModelProto] = {
    "a part of a group": model([2, 5, 20, 20], pad(4, 1, (0, 3), 0.0), conv(TWO_EACH, 4), crop(1, 0, 5)),
    "no part": model(IMAGE, pad(4, 1, (0, 5), 0.0), conv(ONE_EACH, 8)),
}


@pytest.mark.parametrize("name", GONE)
def test_groups_are_cut_with_their_number(name: str) -> None:
    before = GONE[name]
    after = eq.onnx.optimize(before).model
    assert not {"Pad", "Slice"} & {*operators(after)}, operators(after)
    x = np.random.default_rng(2).normal(size=input_shape(before)).astype(np.float32)
    np.testing.assert_allclose(values(after, x), values(before, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", STAYS)
def test_other_parts_stay(name: str) -> None:
    assert "Pad" in operators(eq.onnx.optimize(STAYS[name]).model)


def test_groups_may_be_cut_beside_a_batch_of_any_size() -> None:
    of_any = read(model(["N", 8, 20, 20], conv(ONE_EACH, 8)))
    (node,) = (n for n in of_any.nodes() if isinstance(n, Opaque))
    assert cut_bundles(node) == {"b1"}


# -- what is no count --------------------------------------------------------------------------------------------------


def _counted(x: eq.Tensor, number: int) -> eq.Tensor:
    if x.shape[0] != number:
        raise ShapeError("own operator", f"{x.shape[0]} rows are not {number}")
    return x.sum(1)


@define("own_counted")
def counted(x: eq.Tensor, number: int) -> eq.Tensor:
    """Sums of so many rows."""
    return _counted(x, number)


@define("own_counted_times")
def counted_times(x: eq.Tensor, number: int) -> eq.Tensor:
    """Sums of so many rows, times their number."""
    return _counted(x, number) * float(number)


def own(op: str, rows: int) -> Opaque:
    node = operator(op, [eq.input("x", (rows, 5), "float32")], {"number": rows})[0].node
    assert isinstance(node, Opaque)
    return node


def test_a_number_that_the_formula_has_is_no_count() -> None:
    assert same_formula(own("own_counted", 8), own("own_counted", 3))
    assert not same_formula(own("own_counted_times", 8), own("own_counted_times", 3))
    assert cut_bundles(own("own_counted", 8)) == {"b0"}
    assert not cut_bundles(own("own_counted_times", 8))


# -- random programs ---------------------------------------------------------------------------------------------------


def drawn(seed: int) -> ModelProto:
    """A padded image, one or two convolutions in groups, and a part of their channels."""
    r, rng = Random(seed), np.random.default_rng(seed)
    groups, each = r.randint(2, 5), r.randint(1, 2)
    channels, after = groups * each, groups * r.choice([each, 1, 2])
    kept = r.randint(1, groups)
    front = r.choice([0, (groups - kept) * each])
    steps = [pad(4, 1, (front, channels - kept * each - front), r.choice([0.0, 0.0, 1.0]))]
    attrs = {"pads": [r.randint(0, 1)] * 4, "group": groups, "strides": [r.randint(1, 2)] * 2}
    weights = rng.normal(size=(after, each, 2, 2)).astype(np.float32)
    steps.append(("Conv", [weights, *([rng.normal(size=after).astype(np.float32)] * r.randint(0, 1))], attrs))
    if r.random() < 0.5:
        steps.append((r.choice(["Relu", "Exp"]), [], {}))
    if r.random() < 0.5:
        own = {"group": after, "pads": [1, 1, 1, 1]}
        steps.append(("Conv", [rng.normal(size=(after, 1, 3, 3)).astype(np.float32)], own))
    size = after // groups
    start = r.choice([front // each * size, r.randint(0, after - 1)])
    return model([2, kept * each, 5, 6], *steps, crop(1, start, r.choice([start + kept * size, after])))


def differences(seeds: range) -> tuple[list[int], int]:
    """The seeds of the programs that compute something else when optimised; how many lost their Pad."""
    wrong, gone = list[int](), 0
    for seed in seeds:
        before = drawn(seed)
        after = eq.onnx.optimize(before, objective="bytes", checked=False).model
        gone += "Pad" not in operators(after)
        x = np.random.default_rng(seed).normal(size=input_shape(before)).astype(np.float32)
        wrong += [] if np.allclose(values(after, x), values(before, x), 1e-4, 1e-5) else [seed]
    return wrong, gone


def test_random_groups() -> None:
    wrong, gone = differences(range(11))
    assert wrong == [] and gone >= 3


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_groups() -> None:
    assert differences(range(1000, 3000))[0] == []

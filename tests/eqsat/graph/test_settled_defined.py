"""Padding of axes that an operator without a formula keeps moves behind it, by what the operator is defined as."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from dataclasses import replace

from onnx import ModelProto
from onnx_steps import Step, input_shape, model, operators, pad, values

import eqsat as eq
import eqsat.laws.answers as law_answers
from eqsat.graph.encode import encode
from eqsat.graph.search import Limits, Snapshot, run, task_of
from eqsat.ir.terms import term as t
from eqsat.laws.settled import Settled
from eqsat.laws.settled_defined import settled_by_definition
from eqsat.onnx.read import read

pytestmark = pytest.mark.onnx

INF = float("inf")
WEIGHTS = np.random.default_rng(1).normal(size=(8, 3, 3, 3)).astype(np.float32)
SPOILED = np.where(np.arange(WEIGHTS.size).reshape(WEIGHTS.shape) == 7, np.float32(INF), WEIGHTS)
SCALE = np.arange(-9, 2991, dtype=np.float32)
BIAS = np.arange(8, dtype=np.float32)
SAME = {"pads": [1, 1, 1, 1]}
ROWS, LONG = [4, 3000], pad(2, 0, (100, 200), 0.0)
CUBE, SLABS = [4, 30, 30], pad(3, 0, (100, 200), 0.0)
IMAGE, CHANNELS, BATCH = [2, 3, 40, 40], pad(4, 1, (0, 13), 0.0), pad(4, 0, (10, 20), 0.0)
POOL = {"kernel_shape": [3, 3]}
LATER: dict[str, ModelProto] = {
    "norm": model(ROWS, LONG, ("ReduceL2", [np.array([1])], {})),
    "mean": model(ROWS, LONG, ("ReduceMean", [np.array([1])], {})),
    "softmax": model(ROWS, LONG, ("Softmax", [], {"axis": 1})),
    "product": model(ROWS, LONG, ("Gemm", [np.arange(15000, dtype=np.float32).reshape(3000, 5)], {})),
    "channels of means": model(IMAGE, CHANNELS, ("GlobalAveragePool", [], {})),
    "channels of greatest": model(IMAGE, pad(4, 1, (2, 3), -7.5), ("GlobalMaxPool", [], {})),
    "channels of windows": model(IMAGE, CHANNELS, ("AveragePool", [], POOL)),
    "channels of greatest in windows": model(IMAGE, pad(4, 1, (2, 3), 2.5), ("MaxPool", [], POOL)),
    "batch of windows": model(IMAGE, BATCH, ("MaxPool", [], POOL)),
    "greatest of a softmax": model(ROWS, LONG, ("Softmax", [], {"axis": 1}), ("ReduceMax", [np.array([1])], {})),
    "mean of a softmax": model([4, 4096], LONG, ("Softmax", [], {"axis": 1}), ("ReduceMean", [np.array([1])], {})),
    "norms of norms": model(CUBE, SLABS, ("ReduceL2", [np.array([1])], {}), ("ReduceL2", [np.array([2])], {})),
    "normal rows": model(
        ROWS, LONG, ("LayerNormalization", [np.ones(3000, np.float32)], {}), ("ReduceMax", [np.array([1])], {})
    ),
    "greatest of products": model(IMAGE, BATCH, ("Conv", [WEIGHTS], SAME), ("MaxPool", [], POOL)),
    "batch": model(IMAGE, BATCH, ("Conv", [WEIGHTS], SAME)),
    "batch behind a transpose": model(
        [40, 40, 3, 2], pad(4, 3, (10, 20), 0.0), ("Transpose", [], {"perm": [3, 2, 0, 1]}), ("Conv", [WEIGHTS], SAME)
    ),
    "batch before a function": model(IMAGE, BATCH, ("Relu", [], {}), ("Conv", [WEIGHTS], SAME)),
}
STAYS: dict[str, ModelProto] = {
    "a number for each channel": model(IMAGE, BATCH, ("Conv", [WEIGHTS, BIAS], SAME)),
    "infinite weights": model(IMAGE, BATCH, ("Conv", [SPOILED], SAME)),
    "rows scaled by numbers of any sign": model(
        ROWS, LONG, ("LayerNormalization", [np.arange(-9, 2991, dtype=np.float32)], {})
    ),
    "another value": model(IMAGE, pad(4, 0, (10, 20), 1.0), ("Conv", [WEIGHTS], SAME)),
    "rows that a number is taken of": model(ROWS, pad(2, 0, (100, 200), 0.1), ("ReduceL2", [np.array([1])], {})),
}


def moved(before: ModelProto) -> tuple[bool, ModelProto]:
    """Whether a Pad stands behind the operator that read it, or is the operator's own."""
    after = eq.onnx.optimize(before).model
    names = operators(after)
    return names.index("Pad") > names.index(next(n for n in names if n not in ("Pad", "Transpose", "Relu"))), after


# feature: E14
NEAR = {
    "batch",
    "batch before a function",
    "channels of greatest",
    "channels of windows",
    "greatest of a softmax",
    "mean",
}  # to others, which are in every run


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in LATER])
def test_padding_of_what_is_kept_is_moved(name: str) -> None:
    before = LATER[name]
    done, after = moved(before)
    assert done, operators(after)
    x = np.random.default_rng(2).normal(size=input_shape(before)).astype(np.float32)
    np.testing.assert_allclose(values(after, x), values(before, x), rtol=1e-4, atol=1e-5)


# feature: E14
@pytest.mark.parametrize("name", STAYS)
def test_other_padding_of_what_is_kept_stays(name: str) -> None:
    done, after = moved(STAYS[name])
    assert not done, operators(after)


@pytest.mark.parametrize("name", ["norm", "softmax", "channels of greatest in windows", "batch"])
def test_a_wrong_value_is_refused_by_running_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def wrong(*args: Any) -> Settled | None:
        found = settled_by_definition(*args)
        asked.append(found is not None)
        return None if found is None else replace(found, value=t.const(5, found.value.dtype), claim=t.TRUE)

    monkeypatch.setattr(law_answers, "settled_by_definition", wrong)
    last: list[Snapshot] = []
    run(task_of(encode(read(LATER[name])), "onnx", Limits()), last.append)
    assert any(asked) and not any(name.startswith("lift-pad") for name in last[-1].progress.matches)


# -- random programs --------------------------------------------------------------------------------------------------


def drawn(seed: int) -> ModelProto:
    """A model that pads, and has windows or reductions behind that."""
    r, rng = Random(seed), np.random.default_rng(seed)
    shape = [r.randint(1, 3), 4, r.randint(4, 7), r.randint(4, 7)]
    pads = [r.choice([0, 0, 2]) for _ in range(2)] + [0, r.choice([0, 0, 1])]
    pads += [r.choice([0, 5]), r.choice([0, 4]), 0, r.choice([0, 0, 1])]
    steps: list[Step] = [("Pad", [np.array(pads), r.choice([0.0, 0.0, -0.0, 1.0, 2.5, INF])], {})]
    channels = shape[1] + pads[1] + pads[5]
    if r.random() < 0.4:
        steps.append((r.choice(["Relu", "Neg", "Abs"]), [], {}))
    weights = rng.normal(size=(4, channels, 2, 2)).astype(np.float32)
    weights.flat[0] = r.choice([1.0, 1.0, INF])
    own = {"kernel_shape": [2, 2], "pads": [r.randint(0, 1)] * 4}
    steps.append(
        r.choice([
            ("Conv", [weights], {"pads": [r.randint(0, 1)] * 4}),
            ("MaxPool", [], own),
            ("AveragePool", [], {**own, "count_include_pad": r.randint(0, 1)}),
            ("GlobalAveragePool", [], {}),
            ("ReduceL2", [np.array([r.randint(0, 3)])], {}),
            ("Softmax", [], {"axis": r.randint(0, 3)}),
            ("LpPool", [], own),
        ])
    )  # fmt: skip
    if r.random() < 0.4:
        steps.append(("Slice", [np.array([0]), np.array([3]), np.array([r.randint(0, 1)])], {}))
    return model(shape, *steps)


def differences(seeds: range) -> tuple[list[int], int]:
    """The seeds of the programs that compute something else when optimised; how many were changed."""
    wrong, changed = list[int](), 0
    for seed in seeds:
        before = drawn(seed)
        after = eq.onnx.optimize(before, objective="bytes", checked=False).model
        changed += operators(after) != operators(before)
        rng = np.random.default_rng(seed)
        x = rng.normal(size=input_shape(before)).astype(np.float32)
        odd = np.where(rng.random(x.shape) < 0.2, rng.choice([INF, -INF, 0, -0.0]), x).astype(np.float32)
        with np.errstate(all="ignore"):
            same = [np.allclose(values(after, y), values(before, y), 1e-4, 1e-5, equal_nan=True) for y in (x, odd)]
        wrong += [] if all(same) else [seed]
    return wrong, changed


def test_random_programs_keep_their_values() -> None:
    wrong, changed = differences(range(10))
    assert wrong == [] and changed >= 2


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_programs_keep_their_values() -> None:
    assert differences(range(1000, 3000))[0] == []

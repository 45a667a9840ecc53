"""Operators without a formula leave out padding that each reduction of their definition ignores, and no other."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto
from onnx_steps import Step, input_shape, model, operators, pad, values

import eqsat as eq
import eqsat.laws.answers as law_answers
from eqsat.graph.encode import encode
from eqsat.graph.search import Limits, Snapshot, run, task_of
from eqsat.ir.tensors.library import define, operator
from eqsat.ir.tensors.tensor import Opaque, View, input
from eqsat.ir.terms import term as t
from eqsat.laws import defined as law_defined
from eqsat.laws.results import same_results
from eqsat.onnx.read import read
from eqsat.operators.definitions import Definition, definition_of
from eqsat.operators.definitions import _held as held  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.onnx

INF = float("inf")
WEIGHTS = np.random.default_rng(1).normal(size=(8, 16, 3, 3)).astype(np.float32)
SPOILED = np.where(np.arange(WEIGHTS.size).reshape(WEIGHTS.shape) == WEIGHTS.size - 1, np.float32(INF), WEIGHTS)
FACTORS = np.array([2, INF, 1], np.float32).reshape(3, 1, 1)
SAME = {"pads": [1, 1, 1, 1]}
CHANNELS = pad(4, 1, (0, 13), 0.0)
BORDER = np.array([0, 0, 1, 2, 0, 0, 0, 2])
AROUND: Step = ("Pad", [BORDER, 0.0], {})
AROUND_LAST: Step = ("Pad", [np.array([0, 1, 2, 0, 0, 0, 2, 0]), 0.0], {})
MOVED: Step = ("Transpose", [], {"perm": [0, 3, 1, 2]})
STEPPED: Step = ("Conv", [WEIGHTS[:, :3]], {"pads": [1, 0, 0, 1], "strides": [2, 1]})
GONE: dict[str, ModelProto] = {
    "ReduceL2": model([4, 30], pad(2, 1, (0, 2), 0.0), ("ReduceL2", [np.array([1])], {})),
    "ReduceL2 of both": model([4, 30], pad(2, 1, (1, 2), -0.0), ("ReduceL2", [np.array([0, 1])], {})),
    "ReduceLogSum": model([4, 30], pad(2, 0, (3, 1), 0.0), ("ReduceLogSum", [np.array([0])], {"keepdims": 0})),
    "ReduceLogSumExp": model([4, 30], pad(2, 1, (0, 2), -INF), ("ReduceLogSumExp", [np.array([1])], {})),
    "behind a transpose": model(
        [4, 30, 5],
        pad(3, 1, (0, 2), 0.0),
        ("Transpose", [], {"perm": [2, 0, 1]}),
        ("ReduceL2", [np.array([2])], {}),
    ),
    "behind a function": model([4, 30], pad(2, 1, (0, 2), 0.0), ("Relu", [], {}), ("ReduceL2", [np.array([1])], {})),
    "pieces of an axis": model(
        [4, 8, 5],
        pad(3, 2, (0, 1), 0.0),
        ("Reshape", [np.array([4, 48])], {}),
        ("ReduceL2", [np.array([1])], {}),
    ),
    "blocks of channels": model(
        [2, 4, 3, 9, 9],
        pad(5, 2, (0, 1), 0.0),
        ("Reshape", [np.array([2, 16, 9, 9])], {}),
        ("Conv", [WEIGHTS], SAME),
    ),
    "channels": model([2, 3, 9, 9], CHANNELS, ("Conv", [WEIGHTS], SAME)),
    "channels of points": model([2, 3, 9, 9], CHANNELS, ("Conv", [WEIGHTS[:, :, :1, :1]], {})),
    "channels of columns": model([2, 3, 9, 9], CHANNELS, ("Conv", [WEIGHTS[:, :, :, :1]], {"pads": [1, 0, 1, 0]})),
    "channels of any batch": model(["N", 3, 9, 9], CHANNELS, ("Conv", [WEIGHTS], SAME)),
    "channels of unknown sizes": model(["N", 3, "H", "W"], CHANNELS, ("Conv", [WEIGHTS], SAME)),
    "channels behind a step of unknown sizes": model(
        ["N", 5, "H", "W"],
        ("Conv", [WEIGHTS[:3, :5]], {**SAME, "strides": [2, 2]}),
        CHANNELS,
        ("Conv", [WEIGHTS], SAME),
    ),
    "channels between convolutions of other sizes": model(
        [2, 5, 9, 9], ("Conv", [WEIGHTS[:3, :5]], SAME), ("Relu", [], {}), CHANNELS, ("Conv", [WEIGHTS], SAME)
    ),
    "channels at every other position": model([2, 3, 9, 9], CHANNELS, ("Conv", [WEIGHTS], {**SAME, "strides": [2, 2]})),
    "a border": model([2, 3, 7, 9], AROUND, STEPPED),
    "a border of one unknown size": model(["N", 3, "H", 9], AROUND, STEPPED),
    "a border of unknown sizes": model(["N", 3, "H", "W"], AROUND, STEPPED),
    "a border of means": model(["N", 3, "H", "W"], AROUND, ("AveragePool", [], {"kernel_shape": [3, 4]})),
    "a border behind a transpose": model([2, 7, 9, 3], AROUND_LAST, MOVED, STEPPED),
    "a border of any batch behind a transpose": model(["N", 7, 9, 3], AROUND_LAST, MOVED, STEPPED),
    "a border of unknown sizes behind a transpose": model(["N", "H", "W", 3], AROUND_LAST, MOVED, STEPPED),
    "a border of one unknown size behind a transpose": model([1, "H", 9, 3], AROUND_LAST, MOVED, STEPPED),
    "a border behind a transpose and a reshape": model(
        [2, 7, 36, 3],
        AROUND_LAST,
        ("Reshape", [np.array([1, 2, 8, 40, 3])], {}),
        ("Transpose", [], {"perm": [0, 1, 4, 2, 3]}),
        ("Reshape", [np.array([2, 3, 8, 40])], {}),
        STEPPED,
    ),
    "a border of unknown sizes before a function, behind a transpose": model(
        ["N", "H", "W", 3], MOVED, AROUND, ("Relu", [], {}), STEPPED
    ),
    "two borders of unknown sizes": model(["N", 3, "H", "W"], AROUND, ("Relu", [], {}), AROUND, STEPPED),
    "a border times a number": model(["N", 3, "H", "W"], AROUND, ("Mul", [2.0], {}), STEPPED),
    "a border that numbers take to 0": model(
        [2, 7, 9, 3], ("Pad", [*AROUND_LAST[1][:1], 2.0], {}), MOVED, ("Sub", [2.0], {}), ("Div", [[3.0]], {}), STEPPED
    ),
    "channels times a number": model([2, 3, 9, 9], CHANNELS, ("Mul", [-2.0], {}), ("Conv", [WEIGHTS], SAME)),
    "a border of each channel": model(["N", 8, "H", "W"], AROUND, ("Conv", [WEIGHTS[:, :1]], {"group": 8})),
}
STAYS: dict[str, ModelProto] = {
    "picked out of a border": model(
        ["N", 3, 9, 9], AROUND, ("Gather", [np.array([7, 0, 2, 9, 3])], {"axis": 3}), ("Conv", [WEIGHTS[:, :3]], {})
    ),
    "a border of 1": model(["N", 3, "H", "W"], ("Pad", [BORDER, 1.0], {}), ("Conv", [WEIGHTS[:, :3]], {})),
    "a border of means that are not counted": model(
        ["N", 3, "H", "W"], AROUND, ("AveragePool", [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
    ),
    "another value": model([4, 30], pad(2, 1, (0, 2), 1.0), ("ReduceL2", [np.array([1])], {})),
    "another value in pieces": model(
        [4, 8, 5],
        pad(3, 2, (0, 1), 1.0),
        ("Reshape", [np.array([4, 48])], {}),
        ("ReduceL2", [np.array([1])], {}),
    ),
    "0 is no -inf": model([4, 30], pad(2, 1, (0, 2), 0.0), ("ReduceLogSumExp", [np.array([1])], {})),
    "inf": model([4, 30], pad(2, 1, (0, 2), INF), ("ReduceLogSumExp", [np.array([1])], {})),
    "a function makes it 1": model([4, 30], pad(2, 1, (0, 2), 0.0), ("Exp", [], {}), ("ReduceL2", [np.array([1])], {})),
    "positions count": model([4, 30], pad(2, 1, (2, 0), -INF), ("ArgMax", [], {"axis": 1})),
    "a number makes it 1": model([2, 3, 7, 9], AROUND, ("Add", [1.0], {}), ("Conv", [WEIGHTS[:, :3]], {})),
    "an unknown factor": model([2, 3, 7, 9], AROUND, ("Mul", [FACTORS], {}), ("Conv", [WEIGHTS[:, :3]], {})),
    "times infinity": model([2, 3, 7, 9], AROUND, ("Mul", [INF], {}), ("Conv", [WEIGHTS[:, :3]], {})),
    "a border of infinite weights": model([2, 3, 7, 9], AROUND, ("Conv", [SPOILED[:, -3:]], {})),
    "infinite weights": model([2, 3, 9, 9], CHANNELS, ("Conv", [SPOILED], SAME)),
    "a value of channels": model([2, 3, 9, 9], pad(4, 1, (0, 13), 0.5), ("Conv", [WEIGHTS], SAME)),
}


# feature: E14, G7
NEAR = {
    "a border of any batch behind a transpose",
    "a border of one unknown size",
    "a border of one unknown size behind a transpose",
    "channels of any batch",
    "channels of points",
    "two borders of unknown sizes",
    "channels of unknown sizes",
}  # to others


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in GONE])
def test_neutral_padding_is_gone(name: str) -> None:
    before = GONE[name]
    after = eq.onnx.optimize(before).model
    assert "Pad" in operators(before) and "Pad" not in operators(after), operators(after)
    assert before.graph.node[-1].op_type in operators(after), "the operator itself stays"
    x = np.abs(np.random.default_rng(2).normal(size=input_shape(before))).astype(np.float32)
    np.testing.assert_allclose(values(after, x), values(before, x), rtol=1e-4, atol=1e-5)


def test_weights_are_cut_with_the_channels() -> None:
    after = eq.onnx.optimize(GONE["channels"]).model
    assert [tuple(w.dims) for w in after.graph.initializer] == [(8, 3, 3, 3)]


@pytest.mark.parametrize("name", STAYS)
def test_other_padding_stays(name: str) -> None:
    before = STAYS[name]
    after = eq.onnx.optimize(before).model
    assert operators(after).count("Pad") == 1
    x = np.random.default_rng(2).normal(size=input_shape(before)).astype(np.float32)
    np.testing.assert_allclose(values(after, x), values(before, x), rtol=1e-4, atol=1e-5)


# -- operators of a user ----------------------------------------------------------------------------------------------


@define("own_sum_and_greatest")
def sum_and_greatest(x: eq.Tensor) -> eq.Tensor:
    return x.sum(1) + x.max(1)


@define("own_sum_less_greatest")
def sum_less_greatest(x: eq.Tensor, least: float) -> eq.Tensor:
    """Sums of exp(x - its greatest), which is 0 where it is not a number, or not larger than one."""
    top = x.max(1, keepdims=True)
    odd = eq.logical_or(eq.isinf(top), eq.isnan(top)) if least == 0 else top < least
    return (x - eq.where(odd, 0.0, top)).exp().sum(1)


@define("own_sum_in_numbers")
def sum_in_numbers(x: eq.Tensor) -> eq.Tensor:
    """Needs the size as a number."""
    weights = [1.0 for _ in range(x.shape[1])] if isinstance(x.shape[1], int) else len(x.shape[1])  # pyright: ignore
    return x.sum(1) * weights[0]  # pyright: ignore


X = input("x", (4, 30), "float32")
EDGE = ((0, 0), (0, 2))
OWN: dict[str, tuple[eq.Tensor, bool]] = {
    "one of two sees it": (operator("own_sum_and_greatest", [X.pad(EDGE, 0.0)])[0], False),
    "none sees it": (operator("own_sum_and_greatest", [abs(X).pad(EDGE, 0.0)])[0], True),
    "less a number": (operator("own_sum_less_greatest", [X.pad(EDGE, -INF)], {"least": 0.0})[0], True),
    "less what may be inf": (operator("own_sum_less_greatest", [X.pad(EDGE, -INF)], {"least": 2.0})[0], False),
    "numbers": (operator("own_sum_in_numbers", [X.pad(EDGE, 0.0)])[0], False),
}


@pytest.mark.parametrize("name", OWN)
def test_operators_of_a_user(name: str) -> None:
    program, gone = OWN[name]
    found = eq.optimize(program)
    assert found.status == "saturated" and not found.notes
    pads = [n for n in found.program.nodes() if isinstance(n, View) and n.fill is not None]
    assert bool(pads) != gone
    x = np.random.default_rng(3).normal(size=(4, 30)).astype(np.float32)
    np.testing.assert_allclose(eq.evaluate(found.program, {"x": x}), eq.evaluate(program, {"x": x}), rtol=1e-5)


# -- random programs --------------------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[ModelProto, list[int]]:
    """A model that reduces what it pads, and a shape of its input; of convolutions there may be two, of any sizes."""
    r, rng = Random(seed), np.random.default_rng(seed)
    op = r.choice(["ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Conv", "Conv"])
    rank = 4 if op == "Conv" else r.randint(2, 4)
    shape = [r.randint(1, 4) for _ in range(rank)]
    pads = [r.choice([0, 0, 1]) for _ in range(rank)] + [r.choice([0, 0, 1, 3]) for _ in range(rank)]
    value = r.choice([0.0, 0.0, -0.0, -INF, -INF, INF, 1.0])
    steps: list[Step] = []
    now = list(shape)
    if op == "Conv" and r.random() < 0.5:
        now[1] = r.randint(1, 4)
        steps.append((op, [rng.normal(size=(now[1], shape[1], 1, 1)).astype(np.float32)], {}))
    steps.append(("Pad", [np.array(pads), value], {}))
    now = [d + pads[n] + pads[rank + n] for n, d in enumerate(now)]
    if r.random() < 0.5:
        steps.append((r.choice(["Relu", "Exp", "Neg", "Abs"]), [], {}))
    if r.random() < 0.3:
        steps.append((r.choice(["Mul", "Add", "Sub", "Max"]), [r.choice([0.0, -0.0, 1.0, -1.0, 2.0, INF])], {}))
    perm, moved = r.sample(range(rank), rank), r.random() < 0.5
    if moved:
        steps.append(("Transpose", [], {"perm": perm}))
        now = [now[n] for n in perm]
    if op == "Conv":
        groups = r.choice([1, 1, 1, now[1]])
        kernel = [1 + (d > 1) for d in now[2:]]
        weights = rng.normal(size=(2 * groups, now[1] // groups, *kernel)).astype(np.float32)
        weights.flat[-1] = r.choice([1.0, 1.0, 1.0, INF])
        attrs = {"group": groups, "pads": [r.randint(0, 1)] * 4, "strides": [r.randint(1, 2)] * 2}
        steps.append((op, [weights], attrs))
    else:
        axes = np.array(sorted(r.sample(range(rank), r.randint(1, rank))))
        steps.append((op, [axes], {"keepdims": r.randint(0, 1)}))
    unknown = op == "Conv" and r.random() < 0.6
    fixed = perm[1] if moved else 1
    sizes = [f"D{n}" if unknown and n != fixed and r.random() < 0.7 else d for n, d in enumerate(shape)]
    return model(sizes, *steps), shape


def differences(seeds: range, gone: Counter[bool]) -> list[int]:
    """The seeds of the programs that compute something else when optimised, on usual numbers or on others."""
    wrong: list[int] = []
    for seed in seeds:
        before, shape = drawn(seed)
        after = eq.onnx.optimize(before, checked=False).model
        gone["Pad" in operators(after)] += 1
        rng = np.random.default_rng(seed)
        x = rng.normal(size=shape).astype(np.float32)
        odd = np.where(rng.random(x.shape) < 0.2, rng.choice([INF, -INF, np.nan, 0, -0.0]), x).astype(np.float32)
        with np.errstate(all="ignore"):
            same = [np.allclose(values(after, y), values(before, y), 1e-4, 1e-5, equal_nan=True) for y in (x, odd)]
        wrong += [] if all(same) else [seed]
    return wrong


def test_random_programs_keep_their_values() -> None:
    gone: Counter[bool] = Counter()
    assert differences(range(12, 25), gone) == []
    assert gone[False] >= 1 and gone[True] >= 3


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_programs_keep_their_values() -> None:
    assert differences(range(1000, 4000), Counter()) == []


# -- what is proposed, and the check of it -----------------------------------------------------------------------------


def definition(found: ModelProto) -> Definition | None:
    return next(definition_of(n) for n in read(found).nodes() if isinstance(n, Opaque))


S = t.sym("S", 1)
A, B = input("a", (4, S), "float32"), input("b", (S, S), "float32")
FREE: dict[str, eq.Tensor] = {
    "sums": A.sum(1),
    "of squares": (A * A).sum(1) + 1.0,
    "of rows less their maximum": (A - A.max(1, keepdims=True)).exp().sum(1),
    "of a transpose": A.permute_dims((1, 0)).relu().sum(0),
}
HELD: dict[str, eq.Tensor] = {
    "the number itself": A.mean(1),
    "another position": A.flip((1,)).sum(1),
    "the next position": eq.compute((4,), lambda i, j: A[i, j + 1], reduce=(S - 1,)),
    "the first position": A.sum(1) + eq.compute((4,), lambda i: A[i, 0]),
    "the position": eq.compute((4,), lambda i, j: t.where(j < 2, A[i, j], t.const(0, "float32")), reduce=(S,)),
    "two positions": eq.compute((4,), lambda i, j, k: A[i, j] * A[i, k], reduce=(S, S)),
    "another axis": B.permute_dims((1, 0)).sum((0, 1)),
    "pieces": A.reshape((2, 2, S)).reshape((4 * S,)).sum(0),
}


@pytest.mark.parametrize("name", [*FREE, *HELD])
def test_what_depends_on_the_number_of_positions(name: str) -> None:
    """A size is open where it says nothing but how many positions there are."""
    assert held({**FREE, **HELD}[name], {S}) == ({S} if name in HELD else set())


def test_what_a_definition_leaves_open() -> None:
    found = definition(GONE["channels"])
    assert found is not None and found.reduced == {"b1"}
    open_ = {name for name, sizes in found.sizes.items() if any(not isinstance(d, int) for d in sizes)}
    assert len(open_) == 3 and "b1" in open_, "the batch, and the channels of operand and result"
    counted = definition(STAYS["positions count"])
    assert counted is not None and not counted.reduced, "rows are any number, the positions along them are not"


@pytest.mark.parametrize("name", ["another value", "another value in pieces", "a value of channels", "inf"])
def test_a_wrong_proposal_is_refused_by_running_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with the formulas: if all positions are said to be neutral, the run of both sides differs."""
    outcomes: list[bool] = []

    def counted(*args: Any) -> bool:
        outcomes.append(same_results(*args))
        return outcomes[-1]

    monkeypatch.setattr(law_answers, "same_results", counted)
    monkeypatch.setattr(law_defined, "outside_of", everything_idle)
    encoded = encode(read(STAYS[name]))
    last: list[Snapshot] = []
    run(task_of(encoded, "onnx", Limits()), last.append)
    assert outcomes and not any(outcomes)
    assert not any(name.startswith("drop-neutral") for name in last[-1].progress.matches)


def everything_idle(whole: Any, _: Any, reduced: Any, extents: Any, least: int) -> Any:
    """A proposal to leave out all but the first few positions, and a claim that is true of anything."""
    kept = {n: (0, least) for n, a in reduced.items() if extents[a] > least}
    return law_defined.LeftOut(whole, kept, t.TRUE) if kept else None

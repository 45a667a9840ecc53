"""Operators in layouts of a user's choice: they stay in these, and layout changes stand at their edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends.targets import TARGETS
from eqsat.freezing.relay import freezing
from eqsat.ir.errors import EqsatError, LayoutError
from eqsat.ir.tensors.tensor import Node, Program, Tensor
from eqsat.ir.terms.shape import require_static
from eqsat.operators.forms import operator_name

X, W = eq.input("x", (1, 8, 6, 6), "float32"), eq.input("w", (8, 8, 3, 3), "float32")
CONV = ["NCHW -> NHWC", "OIHW -> HWIO", "NCHW -> NHWC"]
BLOCKED = ["NCHW -> NCHW4c", "OIHW -> OIHW4i4o", "NCHW -> NCHW4c"]


def named(program: Program, name: str) -> list[Node]:
    return [n for n in program.nodes() if operator_name(n) == name]


def same(before: Program | Tensor, after: Program) -> bool:
    program = eq.Program([X, W], {"y": before}) if isinstance(before, Tensor) else before
    r = np.random.default_rng(3)
    inputs: dict[str, np.ndarray] = {}
    for x in program.inputs:
        inputs[x.name] = r.standard_normal(require_static(x.shape, "test")).astype(np.float32)
    one, two = eq.evaluate(program, inputs), eq.evaluate(after, inputs)
    return bool(np.allclose(one, two, rtol=1e-4, atol=1e-4))


def convs(x: Tensor, w: Tensor, count: int) -> Program:
    y = x
    for _ in range(count):
        y = eq.conv2d(y, w, padding=1).relu()
    return eq.Program([x, w], {"y": y})


# feature: G14 G23 G12
@pytest.mark.parametrize("layouts", [CONV, BLOCKED])
def test_layout_changes_stand_once_at_the_edges_of_what_is_frozen(layouts: list[str]) -> None:
    """As ConvertLayout: one change before the first convolution, one behind the last, and one of the weight."""
    program = convs(X, W, 3)
    laid = freezing(program, {"conv2d": layouts}, "c")
    assert same(program, laid.program)
    result = eq.optimize(program, freeze={"conv2d": layouts})
    assert result.checked.difference is None and same(program, result.program)
    assert result.laid is not None and result.laid.layout_ops == 9 and result.layout_ops == 3
    assert result.cost_before == 0 < result.cost_after < result.laid.cost
    assert result.report.verdict.startswith("more bytes moved, for the layouts that were given: 3 moves instead of 0")
    assert [n.outputs[0][0] for n in named(result.program, "conv2d")] == [
        n.outputs[0][0] for n in named(laid.program, "conv2d")
    ]


# feature: G13 G14
def test_a_frozen_operator_stays_where_a_free_one_moves() -> None:
    """A relu between two changes that undo each other: free, it is read as it lies; frozen, it is not."""
    y = X.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    program = eq.Program([X, W], {"y": y})
    assert eq.optimize(program).layout_ops == 0
    assert eq.optimize(program, freeze=["relu"]).layout_ops == 2
    free = eq.optimize(program, freeze={"relu": "NHWC -> NCHW"})
    assert free.layout_ops == 0 and same(program, free.program)


# feature: G13 G14
def test_one_of_two_equal_operators_is_frozen() -> None:
    """By a tensor, or the name of an output; what is like it stays free."""
    first = X.layout_transform("NCHW", "NHWC").relu()
    y = first.layout_transform("NHWC", "NCHW").exp().layout_transform("NCHW", "NHWC").relu()
    program = eq.Program([X, W], {"y": y})
    assert eq.optimize(program).layout_ops == 1
    for key in (y, "y"):
        found = eq.optimize(program, freeze={key: "NHWC -> NCHW"})
        assert same(program, found.program) and found.layout_ops == 1
        (last,) = [n for n in named(found.program, "relu") if n.serial in found.frozen]
        assert last.outputs[0][0] == (1, 8, 6, 6)
    assert len(eq.optimize(program, freeze=["relu"]).frozen) == 2


# feature: G14
def test_constants_are_laid_ahead() -> None:
    """Weights of a frozen convolution are constants in its layout; they move when the program is made."""
    w = eq.constant(np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32))
    program = eq.Program([X], {"y": eq.conv2d(X, w, padding=1)})
    result = eq.optimize(program, freeze={"conv2d": BLOCKED})
    assert result.layout_ops == 2 and same(program, result.program)


# feature: G14
def test_every_order_of_an_operator_means_the_same() -> None:
    """The program in the layouts is the program, whatever orders and splits of axes a user thinks of."""
    r = np.random.default_rng(11)
    a, b = eq.input("a", (4, 6), "float32"), eq.input("b", (6, 8), "float32")
    bodies = {
        "matmul": eq.matmul(a, b),
        "maximum": eq.compute((4, 6), lambda i, j: eq.maximum(a[i, j], a[3 - i, j] * 2.0)),
        "softmax": a.softmax(1),
        "sum": eq.matmul(a, b).sum(0),
    }
    refused: dict[str, int] = {}
    for name, y in bodies.items():
        program = eq.Program([a, b], {"y": y})
        node = y.node
        for _ in range(4):
            layouts = [_drawn(r, x.shape) for x in (*node.operands, y)]
            try:
                laid = freezing(program, {y: layouts}, "c").program
            except LayoutError as error:
                assert "no such form" in str(error)
                refused[name] = refused.get(name, 0) + 1
                continue
            assert same(program, laid)
            result = eq.optimize(program, freeze={y: layouts})
            assert result.checked.difference is None and same(program, result.program)
    assert refused.keys() <= {"maximum", "softmax"}  # which compute with an axis that cannot be split then
    assert all(n < 4 for n in refused.values())


def _drawn(r: np.random.Generator, shape: tuple[Any, ...]) -> Any:
    names = [f"i{n}" for n in range(len(shape))]
    parts = [
        x for n, name in zip(shape, names, strict=True) for x in ((f"{name}//2", f"{name}%2") if n > 2 else (name,))
    ]
    r.shuffle(parts)
    return None if r.random() < 0.3 else f"{', '.join(names)} -> {', '.join(parts)}"


# feature: G14
@pytest.mark.parametrize("freeze, words", [
    ({"conv2d": [None, None]}, "2 layouts for 2 operands and 1 results"),
    ({"conv2d": "n, c -> c, n"}, "for result 0 of shape"),
    ({"conv2d": "NCHW -> NCHW16c"}, "for result 0 of shape"),
    ({"conv2d": "a, b, c, d -> a, b, c // 2, d"}, "for result 0 of shape"),
    ({"conv2d": ["NCHW -> NCHW2h", None, None]}, "no such form"),
    ({"conv9d": None}, "no operator has that name (one of conv2d"),
    ({"conv2d": CONV, "y": BLOCKED}, "contradicts freeze 'conv2d'"),
    ({"x": None}, "no operator has that name"),
    ([X], "only moves cells, or is computed already"),
    ([3], "is neither a name nor a tensor"),
])  # fmt: skip
def test_what_cannot_be_frozen_is_an_error(freeze: Any, words: str) -> None:
    program = eq.Program([X, W], {"y": eq.conv2d(X, W, padding=1)})
    with pytest.raises(EqsatError) as error:
        eq.optimize(program, freeze=freeze)
    assert words in str(error.value)


@pytest.fixture
def accelerator() -> Iterator[str]:
    """A target that has convolutions in blocks of channels, in either of two orders."""
    TARGETS["blocks"] = replace(TARGETS["c"], name="blocks", layouts={
        "conv2d": [["NCHW -> NCHW16c", "OIHW -> OIHW16i16o", "NCHW -> NCHW16c"], BLOCKED, CONV]
    })  # fmt: skip
    yield "blocks"
    del TARGETS["blocks"]


# feature: G23 G14
def test_a_target_says_which_layouts_it_has(accelerator: str) -> None:
    """Of those that fit the cheapest is taken: as what is around lies already."""
    nhwc = eq.input("x", (1, 6, 6, 8), "float32")
    for x in (X, nhwc.layout_transform("NHWC", "NCHW")):
        y = eq.conv2d(eq.conv2d(x, W, padding=1).relu(), W, padding=1)
        out = y if x is X else y.layout_transform("NCHW", "NHWC")
        program = eq.Program([X if x is X else nhwc, W], {"y": out})
        result = eq.optimize(program, accelerator)
        shapes = [n.outputs[0][0] for n in named(result.program, "conv2d")]
        assert result.checked.difference is None and same(program, result.program)
        assert result.layout_ops == (3 if x is X else 1), str(result.program)
        assert all(len(s) == 5 for s in shapes) or all(s[-1] == 8 for s in shapes)
    flat = eq.Program([X], {"y": X.relu()})
    assert eq.optimize(flat, accelerator).notes == eq.optimize(flat).notes
    TARGETS[accelerator] = replace(TARGETS[accelerator], layouts={"relu": ["NCHW -> NCHW16c"]})
    result = eq.optimize(flat, accelerator)
    assert any("has no layouts for relu (1, 8, 6, 6): it stays" in note for note in result.notes)


# feature: G9
def test_an_operator_takes_the_changes_around_it_if_that_is_cheaper() -> None:
    """A convolution between two changes of layout reads and writes as the changes do; frozen, it does not."""
    w = eq.constant(np.random.default_rng(1).standard_normal((8, 8, 3, 3)).astype(np.float32))
    x = eq.input("x", (2, 6, 6, 8), "float32")
    y = eq.conv2d(x.permute_dims((0, 3, 1, 2)), w, padding=1).permute_dims((0, 2, 3, 1))
    program = eq.Program([x], {"y": y})
    free = eq.optimize(program)
    assert (free.layout_ops, free.initial.layout_ops) == (0, 2) and same(program, free.program)
    assert eq.optimize(program, freeze=["conv2d"]).layout_ops == 2


# feature: G14
def test_frozen_layouts_hold_whatever_ends_the_search() -> None:
    """With holes, which are filled first, and where there is no time at all."""
    x = eq.input("x", (1, 8, 4, 6), "float32")
    padded = x.pad(((0, 0), (0, 0), (1, 1), (0, 0)), eq.UNDEF).crop((0, 0, 1, 0), (1, 8, 4, 6))
    program = eq.Program([x, W], {"y": eq.conv2d(padded.relu(), W, padding=1)})
    for limits in (eq.Limits(), eq.Limits(seconds=0), eq.Limits(nodes=0)):
        result = eq.optimize(program, freeze={"conv2d": BLOCKED}, limits=limits)
        (conv,) = named(result.program, "conv2d")
        assert conv.outputs[0][0][-1] == 4 and result.frozen == {conv.serial}
        assert result.laid is not None and result.cost_after <= result.laid.cost
    undef = eq.evaluate(program, {"x": np.ones((1, 8, 4, 6), np.float32), "w": np.ones((8, 8, 3, 3), np.float32)})
    found = eq.evaluate(
        result.program, {"x": np.ones((1, 8, 4, 6), np.float32), "w": np.ones((8, 8, 3, 3), np.float32)}
    )
    assert np.array_equal(undef, found)

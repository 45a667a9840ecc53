"""Every move that is left says what it is between, and what kept it."""

# feature: I9

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import eqsat as eq
from eqsat import Program, Tensor, constant, input
from eqsat.cli import main
from eqsat.engine import Limits
from eqsat.extraction.left import FREE, SLOW, moves_left
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.tensors.reductions import matmul
from eqsat.ir.tensors.tensor import View, as_program

X = input("x", (4, 6), "float32")
W = constant(np.arange(24, dtype=np.float32).reshape(4, 6))


def frozen(x: Tensor) -> Tensor:
    """An operator of which nothing is known."""
    return eq.opaque("mystery", [x], [(x.shape, x.dtype)])[0]


CASES = [
    ("between input and output", X.permute_dims((1, 0)),
     "the input 'x' is given in its order; the output 'out' is wanted in its order"),
    ("through a function that takes any order", X.permute_dims((1, 0)).relu(), FREE),
    ("an operator without a signature", frozen(frozen(X).permute_dims((1, 0))),
     "mystery 'out' is taken only as it is written"),
    ("a part", frozen(frozen(X).crop((0, 0), (2, 3))), "mystery 'out' reads a part of it"),
    ("padding", frozen(frozen(X).pad(((1, 0), (0, 0)))), "mystery 'out' reads its padding"),
    ("repeated cells", frozen(frozen(X).reshape((1, 4, 6)).broadcast_to((3, 4, 6))),
     "mystery 'out' reads cells more than once"),
    ("parts as one", frozen(eq.concat([frozen(X), X], axis=0)), "mystery 'out' reads the parts as one"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_reasons(program: Tensor, reason: str) -> None:
    result = eq.optimize(program)
    (move,) = result.left
    assert reason in move.reason and move.moved == result.bytes_moved
    assert f"left: {move}" in result.explain()


def test_nothing_is_left() -> None:
    result = eq.optimize(X.permute_dims((1, 0)).relu().permute_dims((1, 0)))
    assert not result.left and "left:" not in result.explain()


def test_what_decided_is_named() -> None:
    """Where the choice was by time, nothing is said of bytes."""
    turned = (X.permute_dims((1, 0)).relu() + X.permute_dims((1, 0)).exp()).sum(0)
    reasons = {o: [m.reason for m in eq.optimize(turned, target="onnx", objective=o).left] for o in ("bytes", "time")}
    assert not any(SLOW in r for r in reasons["bytes"]) and not any(FREE in r for r in reasons["time"])
    moved = as_program(X.permute_dims((1, 0)).relu())
    assert SLOW in moves_left(moved, "onnx", timed=True)[0].reason and FREE in moves_left(moved, "onnx")[0].reason


def test_the_limit_is_named() -> None:
    """What a search did not get to is not said to be best."""
    moved = X.permute_dims((1, 0)).relu()
    assert [m.reason for m in moves_left(as_program(moved), "c", "time-limit")] != [FREE]
    result = eq.optimize(moved, limits=Limits(iterations=1))
    assert result.status == "iteration-limit"
    assert "the search was ended by its iteration-limit" in result.left[0].reason


def test_a_condition_that_does_not_hold_is_named() -> None:
    """The cropped cells are not known to be zero, so that the padding stays; the reason tells which question failed."""
    program = as_program(frozen(X.pad(((0, 1), (0, 0)))))
    (view,) = (node for node in program.nodes() if isinstance(node, View))
    maps = maps_of_view(view)
    assert maps is not None
    asked = [f"pad-of-crop: held at pad = {maps[0]}", "pad-of-crop: held at pad = (9:1) of 9"]
    (move,) = moves_left(program, "c", "", asked)
    assert move.reason == f"mystery 'out' reads its padding; not proved: {asked[0]}"
    assert "not proved" not in moves_left(program, "c", "", asked[1:])[0].reason


def test_the_bytes_are_those_of_the_result() -> None:
    y = matmul(X.permute_dims((1, 0)), W).softmax(0).permute_dims((1, 0)).pad(((1, 1), (0, 0)))
    result = eq.optimize(Program([X], {"y": y, "z": X.flip((0,))}))
    moved = [m.moved for m in result.left]
    assert sum(moved) == result.bytes_moved and moved == sorted(moved, reverse=True)


def test_models_name_their_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In text, JSON and the report: the value, its readers, the reason."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["turned"], ["y"], axis=1),
        helper.make_node("Transpose", ["x"], ["z"], perm=[2, 0, 1]),
    ]
    types = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", (2, 3, 4)), ("y", (2, 4, 3)), ("z", (4, 2, 3)))]
    model = helper.make_model(helper.make_graph(nodes, "g", types[:1], types[1:]), ir_version=8)
    model.opset_import[0].version = 17
    onnx.save(model, str(tmp_path / "m.onnx"))
    command = ["optimize", str(tmp_path / "m.onnx"), "--report", str(tmp_path / "r.html")]
    assert main([*command, "--json"]) == 0
    left = json.loads(capsys.readouterr().out)["left"]
    assert sum(m["moved"] for m in left) == 384 and {"z"} <= {m["name"] for m in left}
    assert "the input 'x' is given in its order; the output 'z' is wanted in its order" in {m["reason"] for m in left}
    page = (tmp_path / "r.html").read_text()
    assert "Moves that are left" in page and "the output &#x27;z&#x27;" in page
    assert main(command) == 0
    assert (
        "  left: Transpose 'Transpose_1' float32(4, 2, 3) moves 192 bytes from the input 'x' to the output 'z': "
        in capsys.readouterr().out
    )

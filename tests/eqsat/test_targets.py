"""One list of targets, whose vocabularies the engine reads; it knows no format of models by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends.targets import TARGETS, Target, offered
from eqsat.ir.errors import BackendError, EqsatError
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Opaque, OperatorImpl, Tensor
from eqsat.ir.terms.shape import Shape
from eqsat.operators.bundles import of_opaque


@pytest.mark.parametrize("name", TARGETS)
def test_engine_compiler_and_commands_read_one_list(name: str) -> None:
    x = eq.input("x", (2, 3), "float32")
    assert eq.optimize(x.relu(), target=name).program is not None
    if TARGETS[name].compile is None:
        with pytest.raises(BackendError, match="one of c, opencl, numpy"):
            eq.compile(x.relu(), target=name)
    assert {*offered("optimize"), *offered("kernel")} <= TARGETS.keys()


def test_a_new_target_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "twin", Target("twin", "formulas", TARGETS["numpy"].compile))
    x = eq.input("x", (2, 3), "float32")
    y = x.permute_dims((1, 0)).relu().permute_dims((1, 0))
    assert eq.optimize(y, target="twin").bytes_moved == 0
    assert np.array_equal(eq.compile(y, target="twin")(x=-np.ones((2, 3), np.float32)), np.zeros((2, 3)))
    with pytest.raises(EqsatError, match="one of c, numpy, onnx, onnxruntime, opencl, twin"):
        eq.optimize(y, target="third")


def test_the_engine_names_no_format() -> None:
    """What a format's operators can do is said by its target and by its operators' implementations."""
    search = ["graph", "laws", "operators", "extraction", "workers"]
    index = ["index_graph", "maps", "proving", "rewriting", "simplifying"]
    rooms = [Path(eq.__file__).parent / room for room in (*search, *index)]
    files = [path for room in rooms for path in room.glob("*.py")]
    assert len(files) > 100
    assert {path.name for path in files if "onnx" in path.read_text()} == set()


class Softmax(OperatorImpl):
    """Softmax along the attribute `axis`, as a format of models might have it."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def __call__(self, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            shifted = np.exp(arrays[0] - arrays[0].max(self.axis, keepdims=True))
            return shifted / shifted.sum(self.axis, keepdims=True)

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[tuple[Shape, str]], attrs: Mapping[str, Any]
    ) -> Opaque:
        return softmax(operands[0], attrs["axis"], Softmax(attrs["axis"]))


def softmax(x: Tensor, axis: int, impl: Any) -> Opaque:
    labels = tuple((f"a{n}",) for n in range(x.rank))
    roles = {f"a{n}": "equivariant" if n == axis else "map" for n in range(x.rank)}
    return Opaque(
        "own:Softmax", [x], [(x.shape, x.dtype)], {"axis": axis}, Signature((labels,), (labels,), roles), impl
    )


def test_an_implementation_that_sees_attributes_lets_the_axis_move() -> None:
    """A plain function does not: with it the operator stays as it is written."""
    x = eq.input("x", (3, 4, 5), "float32")
    array = np.random.default_rng(0).random((3, 4, 5), np.float32)

    def program(make: Any) -> eq.Program:
        made = softmax(x.permute_dims((0, 2, 1)), 1, make)
        return eq.Program([x], {"y": Tensor(made, 0).permute_dims((0, 2, 1))})

    moved = eq.optimize(program(Softmax(1)), target="onnx")
    kept = eq.optimize(program(Softmax(1).__call__), target="onnx")
    assert moved.bytes_moved == 0 and kept.bytes_moved > 0
    node = next(n for n in moved.program.nodes() if isinstance(n, Opaque))
    assert node.attrs["axis"] == 2
    wanted = Softmax(2)(array)
    for found in (moved, kept):
        assert np.allclose(eq.evaluate(found.program, {"x": array}), wanted)


def test_operators_of_one_name_are_one_where_the_attributes_say_all() -> None:
    x = eq.input("x", (3, 4), "float32")
    one, two, plain = Softmax(1), Softmax(1), Softmax(1).__call__
    assert of_opaque(softmax(x, 1, one)).kind == of_opaque(softmax(x, 1, two)).kind
    assert of_opaque(softmax(x, 1, plain)).kind != of_opaque(softmax(x, 1, Softmax(1).__call__)).kind

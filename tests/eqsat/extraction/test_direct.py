"""What is added to a product as it is made is free only there: behind a view of the product it is an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.extraction.cheapest import cheapest
from eqsat.extraction.prices import NODE
from eqsat.ir.tensors.reductions import matmul
from eqsat.ir.tensors.tensor import Compute, Constant, Program, Tensor, View, as_program
from eqsat.pricing.programs import node_prices
from eqsat.pricing.table import shipped

TABLE = shipped()


def constant(*shape: int) -> Tensor:
    random = np.random.default_rng(sum(shape))
    return eq.constant(random.standard_normal(shape).astype(np.float32))


def rows(*shape: int) -> Tensor:
    return eq.input("x", shape, "float32")


def sums(program: Program) -> list[Compute]:
    return [node for node in program.nodes() if isinstance(node, Compute) and node.body.op == "add"]


def added_price(y: Tensor) -> int:
    """The price of the last sum."""
    program = as_program(y)
    return dict(node_prices(program, TABLE))[sums(program)[-1]]


FREE: dict[str, Callable[[], Tensor]] = {
    "rows": lambda: matmul(rows(8, 16), constant(16, 4)) + constant(4),
    "a batch of one": lambda: matmul(rows(1, 8, 16), constant(16, 4)) + constant(4),
    "rows of two axes": lambda: matmul(rows(2, 8, 16), constant(16, 4)) + constant(4),
}
DEAR: dict[str, Callable[[], Tensor]] = {
    "a product for each of a batch": lambda: matmul(rows(3, 8, 16), constant(3, 16, 4)) + constant(4),
    "a column": lambda: matmul(rows(8, 16), constant(16, 4)) + constant(8, 1),
    "no constant": lambda: matmul(rows(8, 16), constant(16, 4)) + eq.input("b", (4,), "float32"),
    "behind a view": lambda: matmul(rows(8, 16), constant(16, 4)).flip(0) + constant(4),
}


@pytest.mark.parametrize("name", [*FREE, *DEAR])
def test_a_row_is_added_to_a_product_as_it_is_made(name: str) -> None:
    """But for two reshapes around it in more than two dimensions."""
    y = {**FREE, **DEAR}[name]()
    assert (added_price(y) == (2 * round(TABLE.operators["reshape"]) if y.rank > 2 else 0)) is (name in FREE)


BEHIND: dict[str, Callable[[Tensor], Tensor]] = {
    "padded columns": lambda m: m.pad([(0, 0), (0, 16)]).relu() + constant(64),
    "padded rows": lambda m: m.pad([(0, 512), (0, 0)]) + constant(48),
    "windows": lambda m: moved(m) + constant(48),
    "a part of what is also read whole": lambda m: eq.concat([m.exp(), (m[:, :16] + constant(16)).relu()], 1),
    "two of them": lambda m: moved(m + constant(48)) + constant(16, 48),
}


@pytest.mark.parametrize("name", BEHIND)
def test_what_is_chosen_costs_what_was_claimed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for reshapes, which depend on shapes that are chosen later."""
    claimed: list[int] = []

    def noted(*arguments: Any) -> Any:
        found = cheapest(*arguments)
        assert found is not None
        claimed.append(found.cost // NODE)
        return found

    monkeypatch.setattr("eqsat.engine.cheapest", noted)
    found = eq.optimize(BEHIND[name](matmul(rows(4096, 96), constant(96, 48))), target="onnx")
    views = sum(isinstance(node, View) for node in found.program.nodes())
    assert abs(found.final.cost - claimed[-1]) <= 2 * (views + 1) * round(TABLE.operators["reshape"])


def moved(x: Tensor) -> Tensor:
    """Rows of windows."""
    return x.reshape(32, 4, 8, 4, 48).permute_dims((0, 2, 1, 3, 4)).reshape(256, 16, 48)


def test_a_sum_moves_to_the_product_in_front_of_a_view() -> None:
    """Both orders have one view; the sum is an operator only where the view stands between."""
    y = moved(matmul(rows(4096, 32), constant(32, 48))) + constant(48)
    found = eq.optimize(y.relu(), target="onnx")
    (add,) = sums(found.program)
    made = [x.node for x in add.operands if not isinstance(x.node, Constant)]
    assert len(made) == 1 and isinstance(made[0], Compute) and made[0].combiner == "sum"
    assert found.final.cost < found.initial.cost


def test_a_product_that_is_also_read_in_another_layout_is_made_once() -> None:
    x = rows(4096, 512)
    made = matmul(x, constant(512, 48))
    program = Program([x], {"sum": (made + constant(48)).relu(), "turned": made.permute_dims((1, 0)).exp()})
    found = eq.optimize(program, target="onnx").program
    assert sum(isinstance(node, Compute) and node.combiner == "sum" for node in found.nodes()) == 1
    assert sum(isinstance(node, View) for node in found.nodes()) <= 1


def test_a_frozen_sum_is_known_as_frozen() -> None:
    """Further rounds, over what a first one found, keep it."""
    x = rows(64, 96)
    add = matmul(x, constant(96, 48)) + constant(48)
    turned = add.permute_dims((1, 0)).relu().permute_dims((1, 0)).exp()
    found = eq.optimize(Program([x], {"y": turned}), target="onnx", freeze=[add])
    assert found.final.layout_ops == 0
    assert {node.serial for node in sums(found.program)} == found.frozen

"""Layouts through index formulas: the seed's examples, and what has no answer."""

from __future__ import annotations

import pytest

from eqsat.flow import flow_layout
from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.tensor import Tensor, compute, input

BLOCKED = IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4")


# feature: G11 G16
def test_the_seeds_relu_bias_and_sum() -> None:
    x, bias = input("x", (32, 256, 14, 14), "float32"), input("b", (256, 1, 1), "float32")
    assert flow_layout(x.relu(), BLOCKED)[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    maps = flow_layout(x + bias, BLOCKED)
    assert maps[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    assert maps[bias] == IndexMap.parse("i, j, k -> i//4, 0, 0, i%4")
    total = x.sum((2, 3))
    assert flow_layout(total, IndexMap.parse("n, c -> n, c//4, c%4"))[x] == IndexMap.parse(
        "i, j, k, l -> i, j//4, k, l, j%4"
    )


# feature: G17
def test_a_fused_body_flows_as_one() -> None:
    x = input("x", (2, 8, 3, 3), "float32")
    y = compute((2, 8, 3, 3), lambda n, c, h, w: (x[n, c, h, w] + 1.0) * x[n, c, h, w])
    assert flow_layout(y, BLOCKED)[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")


# feature: G19
def test_conflicting_or_computed_accesses_have_no_layout() -> None:
    a = input("a", (4, 4), "float32")
    transpose = IndexMap.parse("i, j -> j, i")
    both = compute((4, 4), lambda i, j: a[i, j] * a[j, i])
    shifted = compute((4, 4), lambda i, j: a[(i + 1) % 4, j])
    assert flow_layout(both, transpose)[a] is None
    assert flow_layout(shifted, transpose)[a] is None


def test_what_is_not_a_formula_is_refused() -> None:
    x: Tensor = input("x", (4, 4), "float32")
    with pytest.raises(LayoutError, match="not a Compute"):
        flow_layout(x.flip(0), IndexMap.parse("i, j -> j, i"))
    with pytest.raises(LayoutError, match="inputs for rank"):
        flow_layout(x.relu(), IndexMap.parse("i -> i"))

"""With fast paths off, the e-graphs alone come to the same costs, on chains of layout operators and on small models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.engine import Limits
from eqsat.graph.encode import encode
from eqsat.graph.search import run, task_of
from eqsat.ir.decide import decider
from eqsat.ir.fast import by_rules_alone, fast_paths
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.tensor import Tensor, as_program
from eqsat.ir.terms import term as t
from eqsat.simplifying import normal_forms

LENGTH = 12
SHAPES = {
    "permute": [(4, 6, 8, 16)],
    "reshape": [(6, 35), (10, 21), (14, 15), (30, 7), (5, 42)],
    "reshape-large": [(600, 3500), (1000, 2100), (1400, 1500), (3000, 700), (500, 4200)],
    "pads": [(8, 8)],
    "flips": [(3, 4, 5)],
    "rolls": [(6, 8)],
    "gathers": [(7, 4)],
}


def chain(family: str, length: int) -> Tensor:
    """A chain of layout operators around one that computes something."""
    source = np.random.default_rng(length)
    first, *others = SHAPES[family]
    y = eq.input("x", first, "float32")
    for k in range(length):
        now = [d for d in y.shape if isinstance(d, int)]
        if k == length // 2:
            y = y.exp()
        elif family == "pads":
            y = y.pad(2, float(k % 5)) if k % 2 == 0 else y.crop((1 + k % 2, 2), (now[0] - 4, now[1] - 4))
        elif family == "flips":
            y = y.flip((int(source.integers(3)),))
        elif family == "rolls":
            y = y.roll(int(source.integers(1, 6)), int(source.integers(2)))
        elif family == "gathers":
            y = y.take([int(i) for i in source.permutation(now[0])], axis=0)
        elif k % 2 == 0:
            y = y.permute_dims([int(i) for i in source.permutation(len(now))])
        elif family == "permute":
            split = now[-1] % 2 == 0 and len(now) < 6
            y = y.reshape((*now[:-1], 2, now[-1] // 2) if split else (now[0] * now[1], *now[2:]))
        else:
            y = y.reshape(others[int(source.integers(len(others)))])
    return y


def costs(optimised: Callable[[], Any]) -> tuple[int, int, int]:
    """What there was, and what is left with fast paths and without."""
    fast = optimised()
    with by_rules_alone():
        alone = optimised()
    return fast.cost_before, fast.cost_after, alone.cost_after


@pytest.mark.parametrize("family", SHAPES)
def test_chains_cost_the_same(family: str) -> None:
    program = chain(family, LENGTH)
    before, fast, alone = costs(lambda: eq.optimize(program))
    assert alone == fast < before


def test_the_switch_reaches_all_who_simplify(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of maps and kernels, and searches in workers; what was found with fast paths does not stand in."""
    i = t.var("i")
    terms, box = [i // 4 * 4 + i % 4], {i: (0, 64)}
    m = IndexMap.parse("i, j -> (i + j)%48, (4*j + i)%2")
    assert decider().simplify(terms, box) == [i] and m.is_injective((48, 2))

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("eqsat.simplifying.normal_forms.Session", refuse)
    normal_forms.forget()
    with by_rules_alone():
        assert decider().simplify(terms, box) == [i]
        assert m.is_injective((48, 2)) and not m.inverse((48, 2)).is_table
        task = task_of(encode(as_program(chain("flips", 3))), "c", Limits())
    assert not task.fast
    with pytest.raises(AssertionError):
        decider().simplify(terms, box)
    seen: list[bool] = []

    def looked(*_: object) -> None:
        seen.append(fast_paths())

    monkeypatch.setattr("eqsat.graph.search._run", looked)
    run(task, looked)
    assert seen == [False] and fast_paths()


@pytest.mark.onnx
@pytest.mark.parametrize("name", ["window_partition", "channel_shuffle", "conv_chain", "converter", "transformer"])
def test_small_models_cost_the_same(name: str) -> None:
    from eqsat import nets

    model = nets.nhwc_converter_net(blocks=8) if name == "converter" else getattr(nets, name)()
    assert len(model.graph.node) < 100
    _, fast, alone = costs(lambda: eq.onnx.optimize(model))
    assert alone == fast

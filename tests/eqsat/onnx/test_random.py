"""Random models over all operators that have an entry: optimised, they still compute what they did.

`EQSAT_ONNX_MODELS=20000 pytest -m slow tests/eqsat/onnx/test_random.py` is the long run; `EQSAT_ONNX_SEED` moves it on.
A difference names its seed: `draw(SEED)` builds the model again.
"""

# feature: I1
from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from seeds import some_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, helper, numpy_helper  # noqa: E402
from onnx_fuzz import PAIRS, Drawn, Run, differences, draw, meaning  # noqa: E402
from onnx_random import run  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.ir.errors import EqsatError, EvaluationError, FrontendError  # noqa: E402
from eqsat.ir.tensors import views  # noqa: E402
from eqsat.onnx.call import Call  # noqa: E402
from eqsat.onnx.ops import table as onnx_ops  # noqa: E402
from eqsat.onnx.ops import views as onnx_op_views  # noqa: E402
from eqsat.onnx.ops.table import operator_names  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx

COUNT, START = int(os.environ.get("EQSAT_ONNX_MODELS", 0)), int(os.environ.get("EQSAT_ONNX_SEED", 0))
EVERY_THIRD = 3
NO_KERNEL = {"Swish", "SwiGLU", "LinearAttention", "CausalConvWithState"}
"""Operators that onnxruntime does not have, so that no model over them is drawn."""


@pytest.fixture(autouse=True)
def nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_DEBUG", "1")


def failures(seeds: range, used: Counter[tuple[str, int]]) -> Iterator[str]:
    """What goes wrong with the models of some seeds: with their meaning, with the optimised ones, and with every third
    that is only read and written.
    """
    for seed in seeds:
        drawn = draw(seed)
        if drawn is None:
            continue
        used.update(drawn.used)
        ways: list[Callable[[Drawn], list[str]]] = [_meant, _optimized]
        if seed % EVERY_THIRD == 0:
            ways.append(_written)
        for way in ways:
            try:
                wrong = way(drawn)
            except Exception as error:  # whatever it is, the seed must be known
                wrong = [f"{type(error).__name__}: {error}"]
            if wrong:
                yield f"seed {seed}: {wrong[0]}\n{onnx.printer.to_text(drawn.model)}"


def _optimized(drawn: Drawn) -> list[str]:
    """Without the check of results, which would hide what is wrong."""
    return differences(drawn, front.optimize(drawn.model, checked=False).model)


# A size can outlive the value that has it, where all else that read it was size arithmetic: such a program cannot
# be evaluated or written by itself, and `optimize` gives the model back.


def _meant(drawn: Drawn) -> list[str]:
    try:
        return meaning(drawn)
    except EvaluationError as error:
        if "no value was given" in error.problem:
            return []
        raise


def _written(drawn: Drawn) -> list[str]:
    try:
        return differences(drawn, write(read(drawn.model)))
    except FrontendError as error:
        if "no tensor of the model has it" in error.problem:
            return []
        raise


@pytest.mark.parametrize("part", some_of(range(2), 1))
def test_random_models(part: int) -> None:
    """50 models, in two parts that may run side by side, the second one in the long run."""
    used: Counter[tuple[str, int]] = Counter()
    first = START + 25 * part
    assert list(failures(range(first, first + 25), used)) == []
    assert len({op for op, _ in used}) > 60


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_models() -> None:
    """All operators, in all versions that onnxruntime has."""
    used: Counter[tuple[str, int]] = Counter()
    found: list[str] = []
    for text in failures(range(START, START + (COUNT or 20_000)), used):
        found.append(text)
        print(text, file=sys.stderr, flush=True)
    assert found == []
    if COUNT == 0:
        assert {op for op, _ in used} >= set(operator_names()) - NO_KERNEL
        assert len(used) > len(PAIRS) * 0.9


def test_a_gather_may_find_no_cells() -> None:
    """Found by the long run: a padded tensor with no cells, read through a formula, is run with such sizes, too."""
    drawn = draw(8_320_356)
    assert drawn is not None and _optimized(drawn) == []


def test_a_drawn_model_runs_as_it_is_declared() -> None:
    """Found by the long run: an output of rank 0, which the runtime follows back to what has an axis -2."""
    drawn = draw(31_003_346)
    assert drawn is None or run(drawn.model, drawn.runs[0].feeds)


def test_a_pool_may_have_no_windows() -> None:
    """Found by the long run: of a rounded number of windows, onnx infers one too many where none fits."""
    drawn = draw(31_001_970)
    assert drawn is not None and _meant(drawn) == [] == _optimized(drawn)


def test_a_choice_comes_to_an_end() -> None:
    """Found by the long run: a step that only passes on was left out as needless, again and again."""
    drawn = draw(1086)
    assert drawn is not None and _optimized(drawn) == []


def test_steps_are_cheaper_only_where_they_are_there() -> None:
    """Found by the long run: an Expand of no cells costs less than the Pad that makes none; opset 6 has none."""
    drawn = draw(92_500_530)
    assert drawn is not None and _written(drawn) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_check_of_results_agrees() -> None:
    """What onnxruntime computes alike is not refused, and the check itself does not fail."""
    found: list[str] = []
    for seed in range(START, START + (COUNT or 2000)):
        drawn = draw(seed)
        if drawn is None:
            continue
        try:
            wrong = differences(drawn, front.optimize(drawn.model).model)
        except Exception as error:  # whatever it is, the seed must be known
            wrong = [f"{type(error).__name__}: {error}"]
        found += [f"seed {seed}: {wrong[0]}"] if wrong else []
    assert found == []


def test_sizes_that_onnx_forbids_are_left_out() -> None:
    """An empty operand of Concat fits any other in onnxruntime, as long as nobody tells it the shapes."""
    ends = [
        helper.make_tensor_value_info(n, 1, d) for n, d in (("a", ["N", "K"]), ("b", [None] * 2), ("y", [None] * 2))
    ]
    node = helper.make_node("Concat", ["a", "b"], ["y"], axis=0)
    graph = helper.make_graph([node], "g", ends[:2], ends[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones((0, 4), np.float32)}
    made = run(model, feeds)
    drawn = Drawn(model, {}, [Run(feeds, made, False)])
    assert made[0].shape == (2, 3) and meaning(drawn) == []
    drawn.runs = [Run(row.feeds, row.made, True) for row in drawn.runs]
    with pytest.raises(EvaluationError, match="does not accept the model"):
        meaning(drawn)


# -- the comparison can fail -----------------------------------------------------------------------------------------


def spoiled(model: ModelProto, name: str, op: str, rank: int, **attrs: Any) -> ModelProto:
    """The model with one more operator before an output."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        for names in (node.input, node.output):
            for k, n in enumerate(names):
                names[k] = "spoiled" if n == name else n
    more = ["spoiled"]
    if op == "Reshape":
        copy.graph.initializer.append(numpy_helper.from_array(np.array([1, -1] if rank == 1 else [-1]), "target"))
        more.append("target")
    copy.graph.node.append(helper.make_node(op, more, [name], **attrs))
    return copy


def test_the_comparison_notices_other_shapes_types_and_values() -> None:
    tried = noticed = 0
    for seed in range(6):
        drawn = draw(seed)
        if drawn is None:
            continue
        assert differences(drawn, drawn.model) == []
        for k, output in enumerate(drawn.model.graph.output):
            first: Any = drawn.runs[0].made[k]
            if first.dtype != np.float32 or output.name in {x.name for x in drawn.model.graph.input}:
                continue
            assert differences(drawn, spoiled(drawn.model, output.name, "Reshape", first.ndim))
            assert differences(drawn, spoiled(drawn.model, output.name, "Cast", first.ndim, to=11))
            tried += bool(first.size and np.any(first))
            noticed += bool(first.size and np.any(first)) and bool(
                differences(drawn, spoiled(drawn.model, output.name, "Neg", first.ndim))
            )
    assert tried > 5 and noticed == tried


def _squeeze(c: Call) -> Any:
    return views.squeeze(c.one(), c.get("axes"))


def _depth_to_space(c: Call) -> Any:
    return onnx_op_views.depth_to_space(Call(c.op, c.operands, {"blocksize": c.attrs["blocksize"]}, c.opset))


def _taken(extent: int, start: int, end: int, step: int) -> tuple[int, int]:
    cells = range(extent)[slice(start, end, step)]
    return (cells[0] if len(cells) and step < 0 else 0), len(cells)  # forgets where it begins


def _pad(c: Call) -> Any:
    return onnx_op_views.pad(Call(c.op, c.operands, {k: v for k, v in c.attrs.items() if k != "mode"}, c.opset))


BROKEN = {"Squeeze": _squeeze, "DepthToSpace": _depth_to_space, "Pad": _pad, "Slice": None}


@pytest.mark.parametrize("op", BROKEN)
def test_broken_entries_are_found(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that drop what they do not know, each found by a few models over its operator."""
    known = onnx_ops.lookup(op)
    assert known is not None
    if op == "Slice":
        monkeypatch.setattr(onnx_op_views, "taken", _taken)
    else:
        broken = onnx_ops.Operator(BROKEN[op], known.declared)  # pyright: ignore[reportArgumentType]
        monkeypatch.setitem(onnx_ops._operators, op, broken)  # pyright: ignore[reportPrivateUsage]
    found = 0
    for seed in range(150):
        drawn = draw(seed, op)
        found += drawn is not None and _differs(drawn)
        if found:
            return
    raise AssertionError(f"no model found that {op} is broken")


def _differs(drawn: Drawn) -> bool:
    try:
        return bool(meaning(drawn))
    except EqsatError:
        return True

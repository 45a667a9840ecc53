"""One random model from a seed, optimised, and compared with the original by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorShapeProto, checker, helper, numpy_helper
from onnx_more_recipes import RECIPES
from onnx_random import SIZES, TRIED, Builder, Rejected, info, run
from onnx_recipes import barrier

from eqsat.ir.errors import EvaluationError, FrontendError
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Opaque
from eqsat.models.guarded import check_model, infer_shapes
from eqsat.models.package import run_model
from eqsat.onnx.call import schema
from eqsat.onnx.infer import captured
from eqsat.onnx.ops.table import PREFIX
from eqsat.onnx.read import TOKEN, read

OLDEST, NEWEST = 6, min(28, onnx.defs.onnx_opset_version())
STRIDE = 97
TOLERANCE = {"float16": 3e-2, "float32": 3e-4, "float64": 1e-8}
WRAPS = ("Reshape", "Unsqueeze", "Squeeze", "Pad", "Slice", "Concat", "Expand", "Split", "Flatten")
LAYOUT = (*("Transpose",) * 3, *WRAPS)


@dataclass(frozen=True)
class Run:
    """Inputs, what onnxruntime makes of them, and whether every node was run with these sizes as it was added."""

    feeds: dict[str, Any]
    made: list[Any]
    tried: bool


@dataclass
class Drawn:
    """A random model, the inputs that it runs with and what it then computes, and the operators it has."""

    model: ModelProto
    exact: Mapping[str, bool]
    runs: list[Run] = field(default_factory=list[Run])
    used: Sequence[tuple[str, int]] = ()


def versions(op: str) -> list[tuple[int, int]]:
    """The opsets of every version of an operator, as (first, last)."""
    starts = sorted({int(schema(op, k).since_version) for k in range(1, NEWEST + 1) if schema(op, k) is not None})
    return list(zip(starts, [*(s - 1 for s in starts[1:]), NEWEST], strict=True))


PAIRS = [(op, first, last) for op in sorted(RECIPES) for first, last in versions(op) if last >= OLDEST]
"""Every version of every operator, in the opsets that onnxruntime has."""


def draw(seed: int, focus: str = "") -> Drawn | None:
    """A random model; None where nothing valid came of the seed.

    One operator in one version is always tried: another one for every seed, until all had their turn.
    """
    random = np.random.default_rng(seed)
    pairs = [p for p in PAIRS if p[0] == focus] or PAIRS
    turn, first, last = pairs[seed * STRIDE % len(pairs)]
    opset = int(random.integers(max(first, OLDEST), last + 1))
    b = Builder(random, opset, symbolic=bool(random.random() < 0.5))
    wanted = [op for op in sorted(RECIPES) if schema(op, opset) is not None]
    busy = b.pick((0.3, 0.6, 0.9))  # how much is wrapped in layout operators
    steps = b.whole(0, 5)
    place = b.whole(0, steps)
    for k in range(steps + 1):
        if b.chance(busy):
            attempt(b, b.pick(LAYOUT), 4)
        if b.chance(0.06):
            attempt(b, "barrier", 4)
        if attempt(b, turn if k == place else b.pick(wanted), 12 if k == place else 4) and b.chance(busy):
            attempt(b, b.pick(LAYOUT), 4)
    if not b.nodes:
        return None
    model, exact = b.model()
    drawn = Drawn(model, exact, used=b.used)
    ops = {n.op_type for n in model.graph.node}
    for k in range(len(SIZES) if b.symbolic else 1):
        if k >= TRIED and 1 in SIZES[k].values() and ops >= {"Squeeze", "ReverseSequence"}:
            continue  # of a rank below 2, onnxruntime reads memory that is not there, and may end the process
        feeds = {n: a for n, a in b.feeds(k).items() if any(i.name == n for i in model.graph.input)}
        try:
            made, again = run(model, feeds), run(model, feeds)
            # Where extents do not fit, onnxruntime does not always say so: cells that nobody wrote differ.
            if not any(compare(x, y, True) for x, y in zip(made, again, strict=True)):
                drawn.runs.append(Run(feeds, made, k < TRIED))
        except Exception:  # the model itself does not run at these sizes
            if k < TRIED:
                return None
    if not drawn.runs:
        return None
    # A model says of which rank its outputs are: it is run at sizes where they are.
    ranks = [[a.ndim for a in row.made] for row in drawn.runs]
    kept = b.pick(ranks)
    drawn.runs = [row for row, found in zip(drawn.runs, ranks, strict=True) if found == kept]
    for k, output in enumerate(model.graph.output):
        if output.type.tensor_type.HasField("shape") or any(row[k] != kept[k] for row in ranks):
            _retract(output.type.tensor_type, [row.made[k].shape for row in drawn.runs])
    try:
        check_model(infer_shapes(model))
    except checker.ValidationError:  # an output of unknown rank must be declared
        return None
    except FrontendError as error:  # a few models end the process of onnx, and would end this one
        if "ends its process" in error.problem:
            return None
        raise
    return drawn if _still_runs(drawn) else None


def _still_runs(drawn: Drawn) -> bool:
    """Whether the runtime takes the model with what it says of the ranks of outputs, which it follows back."""
    try:
        run(drawn.model, drawn.runs[0].feeds)
    except Exception:  # onnxruntime's own error classes share no base below Exception
        return False
    return True


def _retract(kind: Any, shapes: Sequence[tuple[int, ...]]) -> None:
    """Take back what a model says about an output that is not so at all sizes."""
    if len(kind.shape.dim) != len(shapes[0]):
        kind.ClearField("shape")
        kind.shape.dim.extend(TensorShapeProto.Dimension() for _ in shapes[0])
    if not shapes[0]:
        kind.shape.SetInParent()
    for n, d in enumerate(kind.shape.dim):
        if d.HasField("dim_value") and any(s[n] != d.dim_value for s in shapes):
            d.Clear()


def attempt(b: Builder, op: str, tries: int) -> bool:
    """Add an operator, if one of some tries works; what a failed try added is taken back."""
    for _ in range(tries):
        nodes, values, used = len(b.nodes), len(b.values), len(b.used)
        try:
            (RECIPES.get(op) or barrier)(b, op)
        except Rejected:
            for v in b.values[values:]:
                b.inputs.pop(v.name, None)
            del b.nodes[nodes:], b.values[values:], b.used[used:]
            continue
        return True
    return False


def differences(drawn: Drawn, after: ModelProto) -> list[str]:
    """How an optimised model differs from the drawn one: validity, interface, and values at all sizes that are
    not forbidden."""
    found: list[str] = []
    try:
        check_model(infer_shapes(after))
    except checker.ValidationError as error:
        return [f"not valid: {error}"]
    before = drawn.model.graph
    pairs = (("input", before.input, after.graph.input), ("output", before.output, after.graph.output))
    for kind, left, right in pairs:
        if [x.name for x in left] != [x.name for x in right]:
            found.append(f"{kind}s {[x.name for x in left]} became {[x.name for x in right]}")
        found += [
            f"{kind} {x.name} has another type"
            for x, y in zip(left, right, strict=False)
            if x.type.tensor_type.elem_type != y.type.tensor_type.elem_type
            or (x.type.tensor_type.HasField("shape") and x.type != y.type)
        ]
    names = [o.name for o in before.output]
    for row in drawn.runs:
        feeds = row.feeds
        at = {n: a.shape for n, a in feeds.items()}
        try:
            made = run(after, feeds)
        except Exception as error:  # onnxruntime's own classes
            wrong = [f"at {at}: does not run: {str(error)[:300]}"]
        else:
            pairs = ((name, compare(a, b, drawn.exact.get(name, False)))
                     for name, a, b in zip(names, row.made, made, strict=True))  # fmt: skip
            wrong = [f"at {at}: {name}: {problem}" for name, problem in pairs if problem]
        found += [] if wrong and _forbidden(drawn.model, feeds) else wrong
    return found


def meaning(drawn: Drawn) -> list[str]:
    """How the meaning of the model as a program differs from what onnxruntime computes.

    Programs take sizes that a model names to be at least 1. An output whose rank nobody knows is no tensor of the
    program, which only carries it. A size that was not tried node by node may be one that ONNX forbids and onnxruntime
    lets pass in a model (an empty operand of Concat fits any other): it is left out where a node alone is refused.
    """
    program = read(drawn.model, fold_inputs=True)
    names = [o.name for o in drawn.model.graph.output]
    kinds = {x.name: x.type.tensor_type for x in drawn.model.graph.input}
    named = [(name, n) for name, kind in kinds.items() for n, d in enumerate(kind.shape.dim) if d.dim_param]
    found: list[str] = []
    for row in drawn.runs:
        feeds = row.feeds
        if any(feeds[name].shape[n] == 0 for name, n in named if name in feeds):
            continue
        try:
            with np.errstate(all="ignore"):
                made = evaluate_outputs(program, {x.name: feeds[x.name] for x in program.inputs})
        except EvaluationError:
            if row.tried or not _forbidden(drawn.model, feeds):
                raise
            continue
        for name, a in zip(names, row.made, strict=True):
            y = program.outputs[name]
            if (y.shape, y.dtype) == TOKEN and isinstance(y.node, Opaque) and y.node.op.startswith(PREFIX):
                continue
            problem = compare(a, made[name], drawn.exact.get(name, False))
            if problem:
                found.append(f"at { {n: x.shape for n, x in feeds.items()} }: the program's {name}: {problem}")
    return found


def _forbidden(model: ModelProto, feeds: Mapping[str, Any]) -> bool:
    """Whether a node, alone with the shapes that it gets, is refused by onnxruntime and by onnx.reference; or, with
    its integers as constants, of which onnxruntime asks more: OneHot has no negative positions before opset 11."""
    graph, whole = model.graph, ModelProto()
    whole.CopyFrom(model)
    names = [o for n in graph.node for o in n.output if o]
    del whole.graph.output[:]
    whole.graph.output.extend(helper.make_empty_tensor_value_info(o) for o in names)
    values = {**feeds, **dict(zip(names, run(whole, feeds), strict=True))}
    constants = {x.name: x for x in graph.initializer}
    for node in graph.node:
        used = dict.fromkeys(n for n in (*node.input, *captured(node)) if n)
        own = {n: values[n] for n in used if n in values}
        known = [constants[n] for n in used if n in constants]
        whole_numbers = {n: a for n, a in own.items() if a.dtype.kind == "i" and a.size}
        for fixed in ({}, whole_numbers):
            given = {n: a for n, a in own.items() if n not in fixed}
            alone = helper.make_graph(
                [node],
                "one",
                [info(n, a.dtype.name, a.shape) for n, a in given.items()],
                [helper.make_empty_tensor_value_info(o) for o in node.output if o],
                [*known, *(numpy_helper.from_array(a, n) for n, a in fixed.items())],
            )
            one = helper.make_model(alone, opset_imports=model.opset_import, ir_version=8)
            try:
                (run if fixed else run_model)(one, given)
            except Exception:  # onnxruntime's own classes
                return True
    return False


def compare(a: Any, b: Any, exact: bool) -> str:
    """What is wrong with b where a was expected; empty where nothing is."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}"
    if exact or a.dtype.kind != "f":
        wrong = int(np.sum(~((a == b) | ((a != a) & (b != b)))))
        return f"{wrong} of {a.size} cells differ" if wrong else ""
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x)
    if not np.array_equal(finite, np.isfinite(y)):
        return "other cells are finite"
    gap = np.abs(np.where(finite, x, 0) - np.where(finite, y, 0)).max(initial=0)
    scale = np.abs(np.where(finite, x, 0)).max(initial=0)
    return f"cells differ by {gap:.3g} of {scale:.3g}" if gap > TOLERANCE[a.dtype.name] * max(scale, 1) else ""

"""Comparing two models by running them, together with the proof that the comparison can fail.

A comparison of outputs shows nothing where the outputs do not depend on the input (a model whose weights are all one
constant), or where a softmax at the end hides differences. So three things are checked beside equality: another input
changes the outputs by far more than the tolerance; a Transpose replaced by a Reshape of the same shape is noticed; and
what goes into a final softmax is compared too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from eqsat.checking.equal import tolerance_of
from eqsat.checking.model_run import BY_CAST
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, FrontendError
from eqsat.ir.terms.shape import static_shape
from eqsat.ir.terms.text import fresh_name
from eqsat.models.guarded import MOST_SECONDS
from eqsat.models.guarded_runs import run_apart
from eqsat.models.package import dtype_name, element_type, run_session, session
from eqsat.onnx.graphs import nested_nodes, subgraphs
from eqsat.onnx.read import ModelValues, value_types
from eqsat.workers.call import UNLIMITED

TOLERANCE = 1e-4
SENSITIVITY, ENOUGH = 100.0, 0.1
"""Another input must change some output by more than this many tolerances, or by this share of the largest value."""
MUTANTS = 8


@dataclass(frozen=True)
class Comparison:
    """The verdict on two models, and how far it can be trusted.

    `worst` is the largest max|a - b| / max|a| over outputs and seeds; `sensitivity` the change of the most sensitive
    output under another input in the same measure; `mutants` the (tried, noticed) replaced Transposes; `tolerance` the
    largest that the type of an output allows: a unit in the last place of a float16 is no difference.
    """

    equal: bool
    worst: float
    sensitivity: float
    mutants: tuple[int, int]
    tolerance: float = TOLERANCE
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple[str, ...])

    @property
    def can_fail(self) -> bool:
        """Whether a wrong model would have been noticed."""
        tried, noticed = self.mutants
        return self.sensitivity > _needed(self.tolerance) and (tried == 0 or noticed > 0)

    @property
    def ok(self) -> bool:
        """Equal, by a comparison that can fail."""
        return self.equal and self.can_fail


def _needed(tolerance: float) -> float:
    return min(SENSITIVITY * tolerance, ENOUGH)


def compare_models(
    before: ModelProto,
    after: ModelProto,
    seeds: Sequence[int] = (0, 1),
    tolerance: float = TOLERANCE,
    sizes: Mapping[str, int] | None = None,
) -> Comparison:
    """Run both models on random inputs and compare all outputs, and what goes into a final softmax.

    >>> from eqsat.nets import conv_chain
    >>> compare_models(conv_chain(), conv_chain()).ok
    True
    """
    notes: list[str] = []
    names = [o.name for o in before.graph.output]
    names = [n for n in names if n in {o.name for o in after.graph.output}]
    if len(names) != len(before.graph.output):
        return Comparison(False, np.inf, np.inf, (0, 0), tolerance, ("the outputs have other names",))
    before, after, cast = with_casts(before, after)
    names = [cast.get(n, (n, ""))[0] for n in names]
    tolerances = {name: tolerance_of(kind, tolerance) if tolerance else 0.0 for name, kind in cast.values()}
    known, too = value_types(before), value_types(after)
    pairs = softmax_inputs(before, after)
    pairs = [(a, b) for a, b in pairs if a in known.types and b in too.types]
    first = with_outputs(before, [a for a, _ in pairs], known)
    second = with_outputs(after, [b for _, b in pairs], too)
    left, right = [*names, *(a for a, _ in pairs)], [*names, *(b for _, b in pairs)]
    feeds = [random_inputs(before, seed, sizes) for seed in seeds]
    feeds.append(random_inputs(before, max(seeds, default=0) + 1, sizes, scale=4.0))
    tried_apart([(first, known), (second, too)], feeds[0])
    live, other = session(first), session(second)
    results = [run_session(live, f, left) for f in feeds]
    worst, differences, allowed = 0.0, list[str](), tolerance
    for f, expected in zip(feeds[:-1], results, strict=False):
        for name, a, b in zip(left, expected, run_session(other, f, right), strict=True):
            gap, own = distance(a, b), tolerances.get(name, _allowed(a, tolerance))
            worst, allowed = max(worst, gap), max(allowed, own)
            if not gap <= own:
                differences.append(f"{name}: max|a-b| is {gap:.3g} of max|a|")
    sensitivity = max((distance(a, b) for a, b in zip(results[0], results[-1], strict=True)), default=0.0)
    if sensitivity <= _needed(allowed):
        notes.append("another input hardly changes the outputs: give the model other weights (reseed_weights)")
    limits = [tolerances.get(name, _allowed(a, tolerance)) for name, a in zip(left, results[0], strict=True)]
    mutants = _try_mutants(second, too, feeds[0], right, results[0], limits)
    if mutants[0] == 0:  # no Transpose is left
        mutants = _try_mutants(first, known, feeds[0], left, results[0], limits)
    if mutants[0] == 0:
        notes.append("no Transpose of known shape to replace")
    return Comparison(not differences, worst, sensitivity, mutants, allowed, tuple(differences), tuple(notes))


def _allowed(a: Any, tolerance: float) -> float:
    """The tolerance for an output, by its type."""
    return tolerance_of(np.asarray(a).dtype.name, tolerance) if tolerance else 0.0


def distance(a: Any, b: Any) -> float:
    """max|a - b| / max|a| over finite cells; infinite where shapes, types, or the places of NaN and inf differ.

    >>> distance(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    0.25
    """
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        return np.inf
    if x.dtype.kind not in "f":
        return 0.0 if bool(np.array_equal(x, y)) else np.inf
    x, y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(x)
    odd = ~finite & ~((x == y) | (np.isnan(x) & np.isnan(y)))
    if bool(np.any(finite != np.isfinite(y))) or bool(np.any(odd)):
        return np.inf
    gap = float(np.max(np.abs(np.subtract(x, y, where=finite, out=np.zeros_like(x))), initial=0.0))
    scale = float(np.max(np.abs(x), initial=0.0, where=finite))
    return gap / scale if scale else (0.0 if gap == 0 else np.inf)


def with_casts(*models: ModelProto) -> tuple[ModelProto, ModelProto, dict[str, tuple[str, str]]]:
    """Two models as they can be fed and read: inputs and outputs of types that numpy has not (bfloat16) are float32
    ones, cast inside; with the new name of each such output, and the type whose tolerance it gets."""
    taken = {name for m in models for name in (*_names(m.graph), *(o.name for o in m.graph.output))}
    cast: dict[str, tuple[str, str]] = {}
    made: list[ModelProto] = []
    table: dict[str, str] = {}
    for model in models:
        copy = ModelProto()
        copy.CopyFrom(model)
        graph, constants = copy.graph, {x.name for x in model.graph.initializer}
        for ends, reads in ((graph.input, True), (graph.output, False)):
            for end in ends:
                kind, name = end.type.tensor_type, end.name
                element = kind.elem_type
                if element not in BY_CAST or (reads and name in constants):
                    continue
                side = f"{name} {'read' if reads else 'made'}"
                table[side] = table.get(side) or fresh_name(f"{name}_float", taken)
                taken.add(table[side])
                end.name, kind.elem_type = table[side], BY_CAST[element][0]
                if reads:
                    graph.node.insert(0, helper.make_node("Cast", [end.name], [name], to=element))
                else:
                    graph.node.append(helper.make_node("Cast", [name], [end.name], to=kind.elem_type))
                    cast[name] = end.name, BY_CAST[element][1]
        made.append(copy)
    return made[0], made[-1], cast


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (x.name for x in (*graph.input, *graph.initializer))
    yield from (name for node in nested_nodes(graph.node) for name in (*node.input, *node.output))


def random_inputs(
    model: ModelProto, seed: int, sizes: Mapping[str, int] | None = None, scale: float = 1.0
) -> dict[str, NDArray]:
    """Random inputs of a model: normal floats times `scale`, whole numbers 0..3, bits; named sizes default to 2."""
    random = np.random.default_rng(seed)
    constants = {x.name for x in model.graph.initializer}
    result: dict[str, NDArray] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        dtype = dtype_name(kind.elem_type)
        if dtype is None or not kind.HasField("shape"):
            raise FrontendError(f"input {value.name!r}", "random values need a tensor of known rank and a plain type")
        shape = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else (sizes or {}).get(d.dim_param, 2)
            for d in kind.shape.dim
        )
        if dtype.startswith("float"):
            result[value.name] = (scale * random.standard_normal(shape)).astype(dtype)
        else:
            result[value.name] = random.integers(0, 2 if dtype == "bool" else 4, shape).astype(dtype)
    return result


def tried_apart(
    models: Sequence[tuple[ModelProto, ModelValues]], feeds: Mapping[str, NDArray], optimize: bool = False
) -> None:
    """Run models of which a value may have no cells in a process of its own first: onnxruntime may end it.

    Raises ProcessEnded (an EvaluationError) where it does, EvaluationError where a model does not run.
    """
    for model, values in models:
        if _may_be_empty(model, values):
            data = model.SerializeToString()
            run_apart(data, feeds, optimize=optimize, seconds=MOST_SECONDS, memory_mb=UNLIMITED)


def _may_be_empty(model: ModelProto, values: ModelValues) -> bool:
    """Whether a value of a model has an extent that is 0 or no number, or no known shape, or hides in a body."""
    if model.functions or any(next(subgraphs(node), None) is not None for node in model.graph.node):
        return True
    names = {name for node in model.graph.node for name in (*node.input, *node.output) if name}
    if not names <= values.types.keys():
        return True
    return not all(isinstance(d, int) and d > 0 for name in names for d in values.types[name][0])


# -- before a final softmax -----------------------------------------------------------------------------------------


def softmax_inputs(before: ModelProto, after: ModelProto) -> list[tuple[str, str]]:
    """The values that go into a softmax which makes an output, in both models."""
    left, right = _makers(before), _makers(after)
    result: list[tuple[str, str]] = []
    for output in before.graph.output:
        a, b = _behind_softmax(left, output.name), _behind_softmax(right, output.name)
        if a is not None and b is not None:
            result.append((a, b))
    return result


def _makers(model: ModelProto) -> dict[str, NodeProto]:
    return {o: n for n in model.graph.node for o in n.output if o}


def _behind_softmax(makers: Mapping[str, NodeProto], name: str) -> str | None:
    node = makers.get(name)
    while node is not None and node.op_type == "Identity":
        node = makers.get(node.input[0])
    if node is None or node.op_type not in ("Softmax", "LogSoftmax") or node.input[0] not in makers:
        return None
    return node.input[0]


def with_outputs(model: ModelProto, names: Sequence[str], values: ModelValues) -> ModelProto:
    """A copy of a model with some of its values as further outputs."""
    copy = ModelProto()
    copy.CopyFrom(model)
    have = {o.name for o in copy.graph.output}
    for name in names:
        if name not in have:
            shape, dtype = values.types[name]
            sizes = [d if isinstance(d, int) else None for d in shape]
            copy.graph.output.append(
                ValueInfoProto(name=name, type=helper.make_tensor_type_proto(element_type(dtype), sizes))
            )
    return copy


# -- mutants --------------------------------------------------------------------------------------------------------


def transpose_mutants(model: ModelProto, values: ModelValues | None = None) -> Iterator[ModelProto]:
    """Copies of a model in which one Transpose that moves data is a Reshape to the same shape."""
    known = values or value_types(model)
    for place, node in enumerate(model.graph.node):
        if node.op_type != "Transpose":
            continue
        shape = _extents(known, node.input[0])
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
        if shape is None:
            continue
        perm = list(reversed(range(len(shape)))) if perm is None else perm
        moving = [a for a in perm if shape[a] != 1]
        if moving == sorted(moving):
            continue
        copy = ModelProto()
        copy.CopyFrom(model)
        target = numpy_helper.from_array(np.array([shape[a] for a in perm], np.int64), f"{node.output[0]}_mutant_shape")
        copy.graph.initializer.append(target)
        copy.graph.node[place].CopyFrom(helper.make_node("Reshape", [node.input[0], target.name], [node.output[0]]))
        yield copy


def _extents(known: ModelValues, name: str) -> tuple[int, ...] | None:
    """The shape of a value, of a type that programs have or not, if it is known and in numbers."""
    if name in known.types:
        return static_shape(known.types[name][0])
    kind = known.others[name].tensor_type if name in known.others else None
    if kind is None or not kind.HasField("shape") or not all(d.HasField("dim_value") for d in kind.shape.dim):
        return None
    return tuple(d.dim_value for d in kind.shape.dim)


def _try_mutants(
    model: ModelProto,
    values: ModelValues,
    feed: Mapping[str, NDArray],
    names: Sequence[str],
    expected: Sequence[Any],
    limits: Sequence[float],
) -> tuple[int, int]:
    """How many mutants were tried until one was noticed, and 1 if one was."""
    tried = 0
    for mutant in transpose_mutants(model, values):
        tried += 1
        try:
            made = run_session(session(mutant), feed, names)
        except EqsatError:
            return tried, 1  # a model that does not run is noticed
        if any(not distance(a, b) <= most for a, b, most in zip(expected, made, limits, strict=True)):
            return tried, 1
        if tried == MUTANTS:
            break
    return tried, 0

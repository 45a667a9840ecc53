"""Bodies of If, Loop and Scan as programs of their own: each is a model whose inputs are its own and the outer values.

Every body is optimised and checked by itself, and put back under its own names. What is assumed of the extents of its
inputs holds in every iteration: an extent of a state is what it is at first only if the body leaves it so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

from eqsat.engine import Limits
from eqsat.ir.errors import EqsatError
from eqsat.ir.terms.text import fresh_name
from eqsat.models.guarded import check_model, infer_shapes
from eqsat.onnx.barrier import uses_function
from eqsat.onnx.bytes import INPUT_AND_OUTPUT, JOINS, TWICE_OUTPUT
from eqsat.onnx.graphs import subgraphs
from eqsat.onnx.infer import SMALL_TENSOR, captured, elements
from eqsat.onnx.parts.defaults import value_type
from eqsat.onnx.parts.own import Parts
from eqsat.onnx.read import ModelValues
from eqsat.onnx.write import renamed

Optimize = Callable[..., Any]
MOVES = (*TWICE_OUTPUT, *INPUT_AND_OUTPUT, *JOINS)
STATES = {"Loop": (2, 2, 1), "Scan": (0, 0, 0)}
"""Where the states begin among the inputs of the node, the inputs of its body, and the outputs of that."""


def optimized(model: ModelProto, values: ModelValues, optimize: Optimize, limits: Limits) -> Parts:
    """The model with its bodies optimised; the model itself where none is better, or there is none.

    Each body may take a quarter of the time that is left.
    """
    result = Parts(model, "bodies of If, Loop and Scan are better as programs of their own")
    named = {d.dim_param for x in model.graph.input for d in x.type.tensor_type.shape.dim if d.dim_param}

    def better(share: Limits, place: int, number: int, what: str) -> ModelProto | None:
        node = model.graph.node[place]
        own = model_of(node.attribute[number].g, node, model, values, named)
        found = optimize(own, limits=share)
        after = found.model
        if after is own:
            result.results = (*result.results, (what, found))
            return None
        candidate = ModelProto()
        candidate.CopyFrom(result.model)
        put_back(candidate, candidate.graph.node[place].attribute[number].g, after, own)
        check_model(candidate)
        result.results = (*result.results, (what, found))
        return candidate

    for place, node in enumerate(model.graph.node):
        for number, attribute in enumerate(node.attribute):
            if attribute.type == AttributeProto.GRAPH and _lays_out(attribute.g):
                what = body_name(node, attribute)
                result.attempt(what, limits, partial(better, place=place, number=number, what=what))
    return result


def body_name(node: NodeProto, attribute: AttributeProto) -> str:
    """How a body is called in what is said of it."""
    return f"{attribute.name} of {node.op_type} {node.name or node.output[0]!r}"


def _lays_out(graph: GraphProto) -> bool:
    """Whether there is anything to gain or to tell of, in the body or inside of its nodes: two nodes, or a move."""
    moves = any(n.op_type in MOVES for n in graph.node)
    return moves or len(graph.node) > 1 or any(_lays_out(g) for n in graph.node for g in subgraphs(n))


def model_of(graph: GraphProto, node: NodeProto, outer: ModelProto, values: ModelValues, named: set[str]) -> ModelProto:
    """The body as a model; EqsatError where the type of an input is not known to programs."""
    own = GraphProto()
    own.CopyFrom(graph)
    known = {x.name: x for x in outer.graph.initializer if elements(x) <= SMALL_TENSOR}
    listed = {x.name for x in outer.graph.input}
    free = captured(helper.make_node("If", ["c"], ["y"], then_branch=graph))
    if {o.name for o in graph.output} & {*free, *(x.name for x in graph.input)}:
        raise EqsatError("body", "hands an outer value or an input through")
    for name in free:
        if name in known and name not in listed and known[name].data_location != TensorProto.EXTERNAL:
            own.initializer.append(known[name])
        elif name in values.types or name in values.others:
            own.input.append(ValueInfoProto(name=name, type=value_type(name, values, named)))
        else:
            raise EqsatError("body", f"the type of the outer value {name!r} is not known")
    states = _states(node, graph)
    for x in own.input:
        if x.name in states:
            source = states[x.name][0]
            if source not in values.types and source not in values.others:
                raise EqsatError("body", f"the type of the state {x.name!r} is not known")
            x.type.CopyFrom(value_type(source, values, named))
        else:
            _forget(x.type, named)
    del own.value_info[:]
    for x in own.output if node.op_type in STATES else ():
        x.type.tensor_type.ClearField("shape")  # what the first iteration makes
    own.name = graph.name or "body"
    model = ModelProto(ir_version=max(4, outer.ir_version), graph=own)
    model.opset_import.extend(outer.opset_import)
    local = {(f.domain, f.name) for f in outer.functions}
    if any(uses_function(n, local) for n in own.node):
        model.functions.extend(outer.functions)
    _settle(model, {x: after for x, (_, after) in states.items()})
    _give_shapes(model)
    return model


def _forget(kind: TypeProto, named: set[str]) -> None:
    """Leave extents open that only the body has a name for: they may be 0."""
    for d in kind.tensor_type.shape.dim:
        if d.dim_param and d.dim_param not in named:
            d.ClearField("dim_param")


def _states(node: NodeProto, graph: GraphProto) -> dict[str, tuple[str, str]]:
    """Inputs of a body that hold what its outputs were before: the outer value at first, and that output."""
    if node.op_type not in STATES:
        return {}
    first, inner, after = STATES[node.op_type]
    scanned = next((int(a.i) for a in node.attribute if a.name == "num_scan_inputs"), 0)
    count = len(graph.input) - inner - scanned
    return {
        graph.input[inner + k].name: (node.input[first + k], graph.output[after + k].name)
        for k in range(count)
        if first + k < len(node.input) and after + k < len(graph.output)
    }


def _settle(model: ModelProto, states: Mapping[str, str]) -> None:
    """Open the extents of states that an iteration may change, until what is left stays the same."""
    inputs = {x.name: x.type.tensor_type for x in model.graph.input}
    while states:
        found = {x.name: x.type.tensor_type for x in infer_shapes(model).graph.output}
        changed = False
        for name, output in states.items():
            before, after = inputs[name], found[output]
            if len(before.shape.dim) != len(after.shape.dim) or not after.HasField("shape"):
                raise EqsatError("body", f"the rank of the state {name!r} is not known")
            for d, e in zip(before.shape.dim, after.shape.dim, strict=True):
                fixed = (d.HasField("dim_value") and e.HasField("dim_value") and d.dim_value == e.dim_value) or (
                    d.dim_param and d.dim_param == e.dim_param
                )
                if not fixed and d.WhichOneof("value"):
                    d.Clear()
                    changed = True
        if not changed:
            return


def _give_shapes(model: ModelProto) -> None:
    """Say the shapes of results that a body need not declare, and a model must, as far as they are known."""
    if all(x.type.tensor_type.HasField("shape") for x in model.graph.output):
        return
    for x, found in zip(model.graph.output, infer_shapes(model).graph.output, strict=True):
        if not x.type.tensor_type.HasField("shape") and found.type.tensor_type.HasField("shape"):
            x.type.tensor_type.shape.CopyFrom(found.type.tensor_type.shape)


def put_back(model: ModelProto, graph: GraphProto, after: ModelProto, own: ModelProto) -> None:
    """Replace a body by its optimised model, whose inner values get names that nothing else in the model has."""
    before = {x.name for x in graph.initializer}
    outer = {x.name: x.SerializeToString() for x in own.graph.initializer if x.name not in before}
    constants = [x for x in after.graph.initializer if outer.get(x.name) != x.SerializeToString()]
    kept = {x.name for x in (*own.graph.input, *own.graph.output)}
    for entries in (graph.node, graph.initializer, graph.sparse_initializer, graph.value_info):
        del entries[:]
    table = free_names(model.graph, after, constants, kept)
    nodes = [renamed(n, table) for n in after.graph.node]
    for x in constants:
        x.name = table[x.name]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    graph.sparse_initializer.extend(after.graph.sparse_initializer)


def free_names(
    graph: GraphProto, part: ModelProto, constants: Iterable[TensorProto], kept: Collection[str]
) -> dict[str, str]:
    """Names for the values and some constants of a part that nothing in a graph has; `kept` keep theirs."""
    taken = {*names_in(graph)}
    table: dict[str, str] = {}
    for name in (*(o for n in part.graph.node for o in n.output if o), *(x.name for x in constants)):
        if name in kept:
            continue
        table[name] = fresh_name(name, taken)
        taken.add(table[name])
    return table


def names_in(graph: GraphProto) -> Iterator[str]:
    """Every name of a value in a graph and in the graphs inside of it."""
    yield from (x.name for x in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in subgraphs(node):
            yield from names_in(inner)

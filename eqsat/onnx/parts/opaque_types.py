"""Moves of elements that programs have no type for (bfloat16, float8, int4, complex numbers, strings): as a model of
their own, over elements of a type that takes as many bytes. What only moves cells does so alike for all types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from eqsat.checking.model_graph import MOVES
from eqsat.engine import Limits
from eqsat.ir.errors import EqsatError
from eqsat.onnx.call import schema
from eqsat.onnx.islands import islands, node_inputs
from eqsat.onnx.parts.bodies import Optimize, free_names
from eqsat.onnx.parts.own import Parts
from eqsat.onnx.read import ModelValues
from eqsat.onnx.write import renamed

STANDS_FOR: Mapping[int, int] = {
    TensorProto.BFLOAT16: TensorProto.INT16,
    TensorProto.COMPLEX64: TensorProto.UINT64,
    TensorProto.COMPLEX128: TensorProto.UINT64,
    TensorProto.STRING: TensorProto.UINT64,
}
"""Types in place of those that programs do not have; others of them take a byte or less."""
MOVERS = MOVES - {"Pad"}


def optimized(model: ModelProto, values: ModelValues, optimize: Optimize, limits: Limits) -> Parts:
    """The model with its chains of moves over types that programs do not have optimised; the model itself where none is
    better, or there is none. Each may take a quarter of the time that is left."""
    result = Parts(model, "chains of moves over types that programs do not have are shorter")

    def better(share: Limits, nodes: Sequence[NodeProto], what: str) -> ModelProto | None:
        own = _model_of(nodes, model, values)
        found = optimize(own, limits=share)
        kind = values.others[nodes[0].output[0]].tensor_type.elem_type
        if not all(takes(n, kind, model) for n in found.model.graph.node):
            return None
        result.results = (*result.results, (what, found))
        return None if found.model is own else _put_back(result.model, nodes, found.model, own)

    for group in list(_chains(model, values.others)):
        nodes = [model.graph.node[k] for k in group]
        what = f"the chain of moves from {nodes[0].name or nodes[0].output[0]!r} on"
        result.attempt(what, limits, partial(better, nodes=nodes, what=what))
    return result


def _chains(model: ModelProto, others: Mapping[str, TypeProto]) -> Iterator[list[int]]:
    """Two nodes or more that move values of such a type between each other, and nothing else."""
    nodes = model.graph.node
    if not others:
        return
    movers = [_moves(node, others) for node in nodes]
    touched: set[str] = set()
    for node, moves in zip(nodes, movers, strict=True):
        if not moves:
            touched.update((*node_inputs(node), *node.output))
    for group in islands(nodes, lambda name: name not in others or name in touched):
        if len(group) > 1 and all(movers[k] for k in group):
            yield group


def _moves(node: NodeProto, others: Mapping[str, TypeProto]) -> bool:
    made = [o for o in node.output if o]
    return node.op_type in MOVERS and node.domain in ("", "ai.onnx") and all(o in others for o in made)


def takes(node: NodeProto, kind: int, model: ModelProto) -> bool:
    """Whether a node only moves cells, and takes elements of a type."""
    opset = next((x.version for x in model.opset_import if x.domain in ("", "ai.onnx")), 1)
    found = schema(node.op_type, opset, "") if node.op_type in MOVERS and node.domain in ("", "ai.onnx") else None
    return found is not None and f"tensor({TensorProto.DataType.Name(kind).lower()})" in found.inputs[0].types


def _model_of(nodes: Sequence[NodeProto], outer: ModelProto, values: ModelValues) -> ModelProto:
    """The nodes as a model, over elements of a type that programs have."""
    graph = GraphProto(name="moves", node=nodes)
    inside = {o for n in nodes for o in n.output if o}
    constants = {x.name: x for x in outer.graph.initializer if x.name in values.constants}
    for name in dict.fromkeys(x for n in nodes for x in node_inputs(n) if x not in inside):
        if name in constants:
            graph.initializer.append(constants[name])
        elif name in values.others:
            graph.input.append(ValueInfoProto(name=name, type=_stand_in(values.others[name])))
        else:
            raise EqsatError("moves", f"what {name!r} says is computed elsewhere")
    read = {x for n in outer.graph.node if not inside & set(n.output) for x in node_inputs(n)}
    ends = read | {x.name for x in outer.graph.output}
    graph.output.extend(
        ValueInfoProto(name=x, type=_stand_in(values.others[x])) for n in nodes for x in n.output if x in ends
    )
    model = ModelProto(ir_version=outer.ir_version, graph=graph)
    model.opset_import.extend(outer.opset_import)
    return model


def _stand_in(kind: TypeProto) -> TypeProto:
    made = TypeProto()
    made.CopyFrom(kind)
    tensor = made.tensor_type
    tensor.elem_type = STANDS_FOR.get(tensor.elem_type, TensorProto.INT8)
    return made


def _put_back(model: ModelProto, nodes: Sequence[NodeProto], after: ModelProto, own: ModelProto) -> ModelProto:
    """The model with the nodes of an optimised part in place of others, in an order that can be run."""
    made = ModelProto()
    made.CopyFrom(model)
    graph, gone = made.graph, {o for n in nodes for o in n.output if o}
    kept = {x.name for x in (*own.graph.input, *own.graph.output)}
    have = {x.name: x.SerializeToString() for x in own.graph.initializer}
    constants = [x for x in after.graph.initializer if have.get(x.name) != x.SerializeToString()]
    table = free_names(graph, after, constants, kept)
    left = [n for n in graph.node if not gone & set(n.output)]
    inside = [renamed(n, table) for n in after.graph.node]
    ends = {x.name for x in graph.output}
    copies = [n for n in inside if n.op_type == "Identity" and n.output[0] not in ends]
    same: dict[str, str] = {}
    for node in copies:  # in an order that can be run
        same[node.output[0]] = same.get(node.input[0], node.input[0])
    for node in inside:
        node.name = ""
    placed = [renamed(n, same) for n in (*left, *inside) if n not in copies]
    ordered = [placed[k] for (k,) in islands(placed, lambda name: True)]
    nodes_in_order = [n.SerializeToString() for n in ordered]
    del graph.node[:]
    graph.node.extend(NodeProto.FromString(data) for data in nodes_in_order)
    for x in constants:
        x.name = table[x.name]
    graph.initializer.extend(constants)
    stay = [v for v in graph.value_info if v.name not in {*(gone - kept), *same}]
    del graph.value_info[:]
    graph.value_info.extend(stay)
    return made

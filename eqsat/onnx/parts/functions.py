"""Calls of a model's own functions, written out: what is in them is then read, and layouts cross their borders."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from onnx import ModelProto, OperatorSetIdProto, TensorProto

from eqsat.checking.guard import differs
from eqsat.checking.models import check_and_names
from eqsat.freezing.names import Freeze, frozen_items
from eqsat.ir.errors import FrontendError
from eqsat.models.guarded import inline_functions
from eqsat.onnx.barrier import KNOWN_DOMAINS
from eqsat.onnx.graphs import nested_nodes
from eqsat.onnx.infer import copy_field
from eqsat.onnx.ops.table import PREFIX
from eqsat.onnx.read import ModelValues, OnnxProgram, read_with_types

Known = tuple[ModelProto, OnnxProgram, ModelValues]
SECONDS = 5.0
"""For the comparison of both."""
LIGHT = 64
"""The bytes of constants that are handed on as they are; of others, only the names."""


def unfolded(known: Known, freeze: Freeze) -> tuple[ModelProto, OnnxProgram, ModelValues, Sequence[str]]:
    """A model without calls of its functions, compared with it, as it is read, and what there is to say; the model
    itself where none may go, where onnx cannot write them out, or where that is another model."""
    model = known[0]
    kept = {name for name, _ in frozen_items(freeze) if isinstance(name, str)}
    try:
        made = written_out(model, kept)
        if made is model:
            return *known, ()
        found = read_with_types(made)
    except FrontendError as error:
        return *known, [f"calls of the model's functions stay as they are: {error}"]
    difference = check_and_names(model, made, SECONDS)[0].difference
    if difference is not None:
        return *known, [differs("the model without its functions", difference)]
    return made, *found, ()


def written_out(model: ModelProto, kept: Collection[str]) -> ModelProto:
    """A model without calls of its functions; the model itself where there is none that may go.

    Those stay that a runtime may have a kernel for, by their domain, those of other opsets than the model, and those
    with a name in `kept`: of the function, of a node that calls it, or of a result.
    Raises FrontendError where onnx cannot write a function out.
    """
    stay = {key for key, names in _calls(model) if not names.isdisjoint(kept)}
    functions = [f for f in model.functions if f.domain not in KNOWN_DOMAINS and (f.domain, f.name) not in stay]
    opsets = {_domain(x.domain): x.version for f in reversed(functions) for x in f.opset_import}
    opsets |= {_domain(x.domain): x.version for x in model.opset_import}
    wanted = [
        (f.domain, f.name) for f in functions if all(opsets[_domain(x.domain)] == x.version for x in f.opset_import)
    ]
    if not wanted:
        return model
    light = _light(model)
    there = {_domain(x.domain) for x in model.opset_import}
    light.opset_import.extend(OperatorSetIdProto(domain=d, version=v) for d, v in opsets.items() if d not in there)
    _give_defaults(light)
    made = inline_functions(light, wanted)
    del made.graph.initializer[:]
    made.graph.initializer.extend(model.graph.initializer)
    return made


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _give_defaults(model: ModelProto) -> None:
    """Let calls say what functions have by default: onnx writes bodies out without that."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions if f.attribute_proto}
    for n in nested_nodes([*model.graph.node, *(n for f in model.functions for n in f.node)]):
        given = {a.name for a in n.attribute}
        n.attribute.extend(a for a in defaults.get((n.domain, n.op_type), ()) if a.name not in given)


def _calls(model: ModelProto) -> Iterator[tuple[tuple[str, str], set[str]]]:
    """What every node calls, and the names by which a user may mean it."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    for n in nested_nodes(nodes):
        yield (n.domain, n.op_type), {n.name, n.op_type, PREFIX + n.op_type, *n.output}


def _light(model: ModelProto) -> ModelProto:
    """The model with the names of its large constants alone, in their places."""
    light = ModelProto()
    for entry, _ in model.ListFields():
        if entry.name != "graph":
            copy_field(light, model, entry.name)
    for entry, _ in model.graph.ListFields():
        if entry.name != "initializer":
            copy_field(light.graph, model.graph, entry.name)
    for x in model.graph.initializer:
        small = x.ByteSize() <= LIGHT
        light.graph.initializer.append(x if small else TensorProto(name=x.name, data_type=x.data_type, dims=x.dims))
    return light

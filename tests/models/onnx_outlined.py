"""Random models in which runs of nodes are functions of the model, and functions of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper
from onnx_fuzz import Drawn, Run, draw
from onnx_random import run

from eqsat.models.guarded import check_model
from eqsat.onnx.islands import node_inputs

DOMAIN = "local"


def outlined(seed: int) -> Drawn | None:
    """A random model with functions of its own; None where nothing valid came of the seed."""
    drawn = draw(seed)
    if drawn is None:
        return None
    random = np.random.default_rng(seed + 2)
    model = ModelProto()
    model.CopyFrom(drawn.model)
    model.ir_version = max(8, model.ir_version)
    opsets = list(model.opset_import)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    for number in range(int(random.integers(1, 4))):
        nodes = list(model.graph.node)
        first = int(random.integers(len(nodes)))
        last = min(len(nodes), first + int(random.integers(1, 6)))
        ends = {o.name for o in model.graph.output}
        later = {n for node in nodes[last:] for n in node_inputs(node)} | ends
        inside = nodes[first:last]
        made = [o for node in inside for o in node.output if o]
        outputs = [o for o in made if o in later]
        inputs = list(dict.fromkeys(n for node in inside for n in node_inputs(node) if n not in made))
        if not outputs:
            continue
        name = f"part{number}"
        body, given, defaults = _referring(inside, random)
        function = helper.make_function(
            DOMAIN, name, inputs, outputs, body, [*opsets, helper.make_opsetid(DOMAIN, 1)], [a.name for a in given]
        )
        function.attribute_proto.extend(defaults)
        call = helper.make_node(name, inputs, outputs, name=f"call{number}", domain=DOMAIN)
        call.attribute.extend(given)
        del model.graph.node[:]
        model.graph.node.extend([*nodes[:first], call, *nodes[last:]])
        model.functions.append(function)
    runs: list[Run] = []
    for row in drawn.runs:
        try:
            check_model(model)
            runs.append(replace(row, made=run(model, row.feeds)))
        except Exception:  # onnxruntime's own classes: not every operator may be in a function
            return None
    return replace(drawn, model=model, runs=runs)


def _referring(
    nodes: Sequence[NodeProto], random: np.random.Generator
) -> tuple[list[NodeProto], list[AttributeProto], list[AttributeProto]]:
    """Nodes of which some attributes are those of a call, these, and those that have a default."""
    body: list[NodeProto] = []
    given: list[AttributeProto] = []
    defaults: list[AttributeProto] = []
    for node in nodes:
        own = NodeProto()
        own.CopyFrom(node)
        for attribute in own.attribute:
            plain = attribute.type in (AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT)
            if plain and random.random() < 0.4:
                kept = AttributeProto()
                kept.CopyFrom(attribute)
                kept.name = f"a{len(given) + len(defaults)}"
                (given if random.random() < 0.6 else defaults).append(kept)
                kind, called = attribute.type, attribute.name
                attribute.Clear()
                attribute.name, attribute.type, attribute.ref_attr_name = called, kind, kept.name
        body.append(own)
    return body, given, defaults

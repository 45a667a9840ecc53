"""Frozen operators of a model: which they are in each program that comes of it, and the model in their layouts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from onnx import ModelProto

from eqsat.checking.guard import differs
from eqsat.checking.models import check_and_names
from eqsat.checking.verdict import CheckFailure
from eqsat.freezing.names import Freeze, called_nodes, frozen_items
from eqsat.freezing.relay import freezing
from eqsat.ir.tensors.tensor import Compute, Opaque, Tensor
from eqsat.onnx.graphs import nested_nodes, subgraphs
from eqsat.onnx.names import read_as, with_names
from eqsat.onnx.ops.table import PREFIX
from eqsat.onnx.read import ModelValues, OnnxProgram
from eqsat.onnx.spelling import Spelled, Spelling

SECONDS = 10.0
"""For the check that a model in other layouts is the model."""
Laid = tuple[ModelProto, OnnxProgram, ModelValues, list[Tensor]]
"""A model with its program and what is known of its values, and the results of frozen operators."""


def occurring(freeze: Freeze, program: OnnxProgram, model: ModelProto, body: bool) -> Freeze:
    """What a user freezes, less the names of what is in bodies alone; in the body of an If, Loop or Scan, less those
    that it has not."""
    known, inside = called_nodes(program), set[str]() if body else set(_inside(model))

    def kept(name: Any) -> bool:
        return not isinstance(name, str) or name in known or not (body or name in inside)

    return {name: layouts for name, layouts in frozen_items(freeze) if kept(name)}


def _inside(model: ModelProto) -> Iterator[str]:
    """The names of the nodes in bodies, of their operators and of their values."""
    for outer in model.graph.node:
        for node in nested_nodes([n for graph in subgraphs(outer) for n in graph.node]):
            yield from (node.name, node.op_type, PREFIX + node.op_type, *node.output)


def laid(
    model: ModelProto, program: OnnxProgram, values: ModelValues, freeze: Freeze, spelling: Spelling, target: str
) -> Laid:
    """A model with frozen operators in the layouts that they are given, checked against it."""
    found = freezing(program, freeze, target)
    if found.program is program:
        return model, program, values, _results(program, found.nodes)
    spelled = spelling.of(found.program)
    done, names = check_and_names(model, spelled.model, SECONDS)
    if done.difference is not None:
        raise CheckFailure("the model in the layouts that are frozen", differs("it", done.difference))
    frozen = frozen_in(spelled, found.nodes)
    named, table = with_names(spelled.model, model, names)
    return named, *read_as(spelled.program, spelled.values, table), frozen


def frozen_in(spelled: Spelled, nodes: Collection[int]) -> list[Tensor]:
    """The results of frozen operators in the program of a written model; `nodes`: the serials that they had before."""
    return making(spelled.program, [value for value, owner in spelled.owners.items() if owner in nodes])


def making(program: OnnxProgram, values: Collection[str]) -> list[Tensor]:
    """The results of the operators of a program that make these values of its model."""
    named = program.named_nodes()
    return _results(program, {node.serial for value in values for part in named.get(value, ()) for node in part})


def _results(program: OnnxProgram, nodes: Collection[int]) -> list[Tensor]:
    return [Tensor(node) for node in program.nodes() if node.serial in nodes and isinstance(node, (Compute, Opaque))]

"""A model as it is read, and what it leaves open: inputs that have a default, and the shapes of outputs."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from onnx import ModelProto, TypeProto, helper

from eqsat.ir import clock
from eqsat.ir.errors import FrontendError
from eqsat.models.package import element_type

if TYPE_CHECKING:
    from eqsat.onnx.read import ModelValues, OnnxProgram

NAMED_CONSTANTS = 4
"""The version of the format from which on constants need not be inputs, too."""


def without_defaults(model: ModelProto) -> ModelProto:
    """A model without the inputs that have a value, which is a constant then; the model itself where none has."""
    known = {x.name for x in model.graph.initializer} | {x.values.name for x in model.graph.sparse_initializer}
    left = [x for x in model.graph.input if x.name not in known]
    if len(left) == len(model.graph.input) or model.ir_version < NAMED_CONSTANTS:
        return model
    folded = ModelProto()
    folded.CopyFrom(model)
    del folded.graph.input[:]
    folded.graph.input.extend(left)
    return folded


def with_shapes(model: ModelProto, values: ModelValues) -> ModelProto:
    """A model that says the shapes of its outputs, as ONNX wants it; the model itself where it does. Extents that have
    no name at an input stay open."""
    open_ = [x.name for x in model.graph.output if x.type.HasField("tensor_type") and not _is_shaped(x.type)]
    if not open_:
        return model
    named = {d.dim_param for x in model.graph.input for d in x.type.tensor_type.shape.dim if d.dim_param}
    whole = ModelProto()
    whole.CopyFrom(model)
    for output in whole.graph.output:
        if output.name in open_ and output.name in {*values.types, *values.others}:
            known = value_type(output.name, values, named)
            if known.tensor_type.elem_type == output.type.tensor_type.elem_type:  # else a token of it
                output.type.CopyFrom(known)
    return whole


def value_type(name: str, values: ModelValues, named: Collection[str]) -> TypeProto:
    """The type of a value: sizes that an input of the model names keep their name, others are open."""
    if name in values.others:  # a program has only a token of it
        other = TypeProto()
        other.CopyFrom(values.others[name])
        for d in other.tensor_type.shape.dim:
            if d.dim_param not in named:
                d.ClearField("dim_param")
        return other
    shape, dtype = values.types[name]
    names = [d if isinstance(d, int) else values.symbol_names.get(d) for d in shape]
    dims = [d if isinstance(d, int) or d in named else None for d in names]
    return helper.make_tensor_type_proto(element_type(dtype), dims)


def _is_shaped(proto: TypeProto) -> bool:
    return proto.tensor_type.HasField("shape")


def read_within(
    seconds: float, model: ModelProto | str | os.PathLike[str], fold_inputs: bool
) -> tuple[ModelProto, OnnxProgram, ModelValues]:
    """A model, read in so many seconds; FrontendError where that is not enough."""
    from eqsat.onnx import load_model
    from eqsat.onnx.read import read_with_types

    try:
        with clock.at_most(seconds):
            before = load_model(model)
            return before, *read_with_types(before, fold_inputs)
    except clock.OutOfTime:
        clock.check()  # an outer limit is for its owner to answer
        raise FrontendError("ONNX model", f"is not read within {seconds:g} s", "allow more time") from None

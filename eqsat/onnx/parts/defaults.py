"""Inputs of a model that have a default, as constants."""

from __future__ import annotations

from onnx import ModelProto

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

"""All that optimises parts of a model as models of their own, in the order in which that is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onnx import ModelProto

from eqsat.engine import Limits
from eqsat.freezing.names import Freeze, frozen_items
from eqsat.onnx.parts import bodies, borders, opaque_types
from eqsat.onnx.parts.bodies import Optimize
from eqsat.onnx.parts.own import Parts
from eqsat.onnx.read import ModelValues

Optimizer = Callable[[ModelProto, ModelValues, Limits], Parts]


def optimizers(body: Optimize, alone: bool, freeze: Freeze) -> list[Optimizer]:
    """What is done to a model before the rest of it is searched.

    body: what optimises a part. alone: bodies of If, Loop and Scan stay as they are. Where operators are frozen, values
    keep their layouts at borders.
    """

    def at_borders(model: ModelProto, values: ModelValues, limits: Limits) -> Parts:
        return borders.optimized(model, body, partial(body, alone=True), limits)

    def in_bodies(model: ModelProto, values: ModelValues, limits: Limits) -> Parts:
        return bodies.optimized(model, values, body, limits)

    def of_opaque_types(model: ModelProto, values: ModelValues, limits: Limits) -> Parts:
        return opaque_types.optimized(model, values, body, limits)

    frozen = any(True for _ in frozen_items(freeze))
    return [*([] if alone or frozen else [at_borders]), *([] if alone else [in_bodies]), of_opaque_types]

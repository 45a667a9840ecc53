"""Models for commands: reading them, and fixing named dimensions (`--shape N=4`) before anything else is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eqsat.ir.errors import EqsatError

if TYPE_CHECKING:
    from onnx import ModelProto, TensorShapeProto, ValueInfoProto

LARGEST = 2**31 - 1


def sizes_of(texts: Sequence[str], least: int = 1) -> dict[str, int]:
    """The values of named dimensions, from texts such as N=4; several may stand in one text, apart by commas.

    least: the smallest size that any may have.

    >>> sizes_of(["N=4,H=32", "W=32"])
    {'N': 4, 'H': 32, 'W': 32}
    """
    found: dict[str, int] = {}
    for piece in (p.strip() for text in texts for p in text.split(",")):
        name, _, value = (s.strip() for s in piece.rpartition("="))
        if not name or not value.isascii() or not value.isdecimal() or not least <= int(value) <= LARGEST:
            kind = "a positive size" if least else "a size"
            raise EqsatError(f"--shape {piece!r}", f"is not NAME=SIZE with {kind}", "for example --shape N=4")
        if found.setdefault(name, int(value)) != int(value):
            raise EqsatError(f"--shape {piece!r}", f"{name} is already {found[name]}")
    return found


def load(path: Path, sizes: Mapping[str, int], strict: bool = True) -> ModelProto:
    """A model with the named dimensions of its inputs fixed.

    Errors: FrontendError for files that are not models; EqsatError for names that no input has, if `strict`.
    """
    from eqsat.onnx import load_model

    model = load_model(path)
    known = {d.dim_param: None for d in _dims(model.graph.input) if d.dim_param}
    for name in sizes if strict else ():
        if name not in known:
            have = f"it has {', '.join(known)}" if known else "all its dimensions are fixed"
            raise EqsatError(f"--shape {name}={sizes[name]}", f"no input of {str(path)!r} has a dimension {name}", have)
    return bound(model, sizes)


def bound(model: ModelProto, sizes: Mapping[str, int]) -> ModelProto:
    """A copy of a model in which named dimensions are numbers; the model itself where there are none to fix."""
    from onnx import ModelProto

    if not sizes:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    graphs = [copy.graph]
    while graphs:
        graph = graphs.pop()
        for dim in _dims([*graph.input, *graph.output, *graph.value_info]):
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
        for node in graph.node:
            for attribute in node.attribute:
                graphs.extend(attribute.graphs)
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
    return copy


def _dims(values: Sequence[ValueInfoProto]) -> Iterator[TensorShapeProto.Dimension]:
    for value in values:
        yield from value.type.tensor_type.shape.dim

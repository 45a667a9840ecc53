"""ONNX models in and out: `load` a model as a program, `save` a program as a model, `optimize` a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.files import whole_file
from eqsat.ir.errors import FrontendError
from eqsat.ir.keywords import keywords
from eqsat.ir.tensors.tensor import Program, Tensor, as_program
from eqsat.models.package import require

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from eqsat.onnx.engine import OnnxResult as OnnxResult
    from eqsat.onnx.engine import optimize as optimize
    from eqsat.onnx.read import OnnxProgram

MAX_PROTO = 2**31 - 2**20
"""Models above this size, in bytes, are saved with their constants in a file beside them."""


__all__ = ["OnnxResult", "load", "optimize", "save"]


def __getattr__(name: str) -> Any:
    if name not in ("OnnxResult", "optimize"):
        raise AttributeError(f"module 'eqsat.onnx' has no attribute {name!r}")
    return getattr(import_module("eqsat.onnx.engine"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@keywords
def load(path: str | os.PathLike[str] | ModelProto, fold_inputs: bool = False) -> OnnxProgram:
    """The program of an ONNX model: a path, or a ModelProto whose data is in memory.

    Known operators become Views and Computes, or operators with a signature; everything else is carried as it is. An
    initialiser that is also a graph input stays an input (with its default) unless ir_version < 4 or `fold_inputs`.

    Errors: FrontendError for files that are not valid models or reach outside of their directory.
    """
    require("onnx")
    from eqsat.onnx.read import read

    return read(load_model(path), fold_inputs)


@keywords
def save(program: Program | Tensor, path: str | os.PathLike[str], like: OnnxProgram | None = None) -> None:
    """Write a program as an ONNX model that means the same; metadata and opsets are those of `like`, if given.

    A tensor is a program with the output `out`. What ONNX has as one operator becomes that operator; everything else
    is written in several, with numpy's meaning, also where onnxruntime's kernels lack a type, lose NaN or wrap
    otherwise. A program that came from a model keeps the operators of that model. The file appears whole or not at
    all. Constants go to `PATH.data` where the model would exceed 2 GB.

    Errors: FrontendError for what ONNX cannot express: operators without a formula, and ordered sums of many floats.
    """
    require("onnx")
    from eqsat.onnx.read import OnnxProgram
    from eqsat.onnx.write import write

    if not isinstance(path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise FrontendError(f"path {path!r}", "is not a path", "eq.onnx.save(program, path)")
    if like is not None and not isinstance(like, OnnxProgram):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise FrontendError("like", f"is {type(like).__name__}, not a program read from a model", "eq.onnx.load(path)")
    save_model(write(as_program(program), like), path)


# -- files ----------------------------------------------------------------------------------------------------------


def load_model(path: str | os.PathLike[str] | ModelProto) -> ModelProto:
    """A ModelProto with all its data in memory; external data only from below the model's own directory."""
    onnx = require("onnx")
    if not isinstance(path, (str, os.PathLike)):
        if not isinstance(path, onnx.ModelProto):
            fix = "eq.optimize takes programs and tensors" if isinstance(path, (Program, Tensor)) else ""
            raise FrontendError(f"a {type(path).__name__}", "is not a path or a ModelProto", fix)
        if any(_external(x) for x in _tensors(path)):
            raise FrontendError("ONNX model", "its external data is not loaded", "give the path of the model")
        return path
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FrontendError(f"model {str(file)!r}", f"cannot be read: {error.strerror}") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf implementations raise their own DecodeError classes
        raise FrontendError(f"model {str(file)!r}", "is not an ONNX file, or is cut short") from error
    if not model.HasField("graph") or not model.opset_import:
        raise FrontendError(f"model {str(file)!r}", "is not an ONNX file: it has no graph or no opset")
    for tensor in _tensors(model):
        if _external(tensor):
            _load_external(tensor, file.resolve().parent)
    return model


def beside(path: str | os.PathLike[str]) -> list[str]:
    """The files, as a model names them, in which it keeps data beside itself; not whether they are there."""
    onnx = require("onnx")
    model = onnx.load_model(os.fspath(path), load_external_data=False)
    names = {e.value for x in _tensors(model) if _external(x) for e in x.external_data if e.key == "location"}
    return sorted(n for n in names if not Path(n).is_absolute() and ".." not in Path(n).parts)


def _external(tensor: TensorProto) -> bool:
    return tensor.data_location == 1


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every constant of a model, those in subgraphs and functions included."""
    nodes: list[Any] = [n for f in model.functions for n in f.node]
    graphs: list[Any] = [model.graph]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield sparse.values
                yield sparse.indices
            nodes.extend(graph.node)
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            graphs.extend(attribute.graphs)


def _load_external(tensor: TensorProto, folder: Path) -> None:
    """Read the data of one tensor from a file below the model's directory."""
    entries = {e.key: e.value for e in tensor.external_data}
    location, what = entries.get("location", ""), f"external data of {tensor.name!r}"
    target = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not target.is_relative_to(folder) or not target.is_file():
        raise FrontendError(what, f"{location!r} is not a file below the model's directory")
    try:
        offset, size = int(entries.get("offset", 0)), target.stat().st_size
        length = int(entries.get("length", size - offset))
    except ValueError as error:
        raise FrontendError(what, "its offset or length is not a number") from error
    if offset < 0 or length < 0 or offset + length > size:
        raise FrontendError(what, f"bytes {offset}..{offset + length} of {location!r}, which has {size}")
    with target.open("rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    del tensor.external_data[:]
    tensor.data_location = 0  # pyright: ignore[reportAttributeAccessIssue]


def save_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write a model whole or not at all, after checking it; constants beyond 2 GB go to a file beside it."""
    onnx = require("onnx")
    try:
        with whole_file(path) as draft:
            if sum(len(x.raw_data) for x in _tensors(model)) > MAX_PROTO:
                copy = onnx.ModelProto()
                copy.CopyFrom(model)
                beside = {"save_as_external_data": True, "all_tensors_to_one_file": True, "size_threshold": 256}
                onnx.save_model(copy, str(draft), location=f"{draft.name}.data", **beside)
            else:
                draft.write_bytes(model.SerializeToString())
            _check(onnx, str(draft))
    except OSError as error:
        what = f"model {os.fspath(path)!r}"
        raise FrontendError(what, f"cannot be written: {error.strerror or error}") from error


def _check(onnx: Any, path: str) -> None:
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        raise FrontendError("ONNX model", f"would not be valid: {' '.join(str(error).split())[:300]}") from error

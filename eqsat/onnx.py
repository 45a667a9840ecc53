"""ONNX models in and out: `load` a model as a program, `save` a program as a model, `optimize` a model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.ir.errors import EqsatError, FrontendError
from eqsat.ir.tensor import Program
from eqsat.onnx_package import require

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from eqsat.onnx_read import OnnxProgram

MAX_PROTO = 2**31 - 2**20
"""Models above this size, in bytes, are saved with their constants in a file beside them."""


def load(path: str | os.PathLike[str] | ModelProto, fold_inputs: bool = False) -> OnnxProgram:
    """The program of an ONNX model: a path, or a ModelProto whose data is in memory.

    Known operators become Views and Computes, or operators with a signature; everything else is carried as it is. An
    initialiser that is also a graph input stays an input (with its default) unless ir_version < 4 or `fold_inputs`.

    Errors: FrontendError for files that are not valid models or reach outside of their directory.
    """
    require("onnx")
    from eqsat.onnx_read import read

    return read(load_model(path), fold_inputs)


def save(program: Program, path: str | os.PathLike[str], like: OnnxProgram | None = None) -> None:
    """Write a program as an ONNX model that onnx.checker accepts; metadata and opsets are those of `like`, if given.

    The file appears whole or not at all. Constants go to `PATH.data` where the model would exceed 2 GB.
    """
    require("onnx")
    from eqsat.onnx_write import write

    save_model(write(program, like), path)


def optimize(model: ModelProto | str | os.PathLike[str], fold_inputs: bool = False, **options: Any) -> OnnxResult:
    """Optimise a model: the result of `eqsat.optimize` with `.model`, the model itself where nothing was gained.

    `options` are those of `eqsat.optimize`. The output never moves more bytes than the input.
    """
    require("onnx")
    from eqsat.engine import optimize as search
    from eqsat.onnx_bytes import bytes_moved
    from eqsat.onnx_read import read
    from eqsat.onnx_write import write

    before = load_model(model)
    program = read(before, fold_inputs)
    target = str(options.pop("target", "onnx"))
    result = search(program, target, **options)
    try:
        after = write(result.program, program)
    except EqsatError as error:
        return OnnxResult(result, before, (f"the model is unchanged: {error}",))
    if bytes_moved(after).total > bytes_moved(before).total:
        return OnnxResult(result, before, ("the model is unchanged: its spelling in ONNX would move more bytes",))
    return OnnxResult(result, after)


class OnnxResult:
    """What the engine says about a model, and the optimised `model`; all else is asked of the engine's result."""

    def __init__(self, result: Any, model: ModelProto, remarks: tuple[str, ...] = ()) -> None:
        self.result = result
        self.model = model
        self.remarks = remarks

    @property
    def notes(self) -> tuple[str, ...]:
        """The engine's notes, and why the model stayed as it was, if it did."""
        return (*self.result.notes, *self.remarks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the optimised model."""
        save_model(self.model, path)


# -- files ----------------------------------------------------------------------------------------------------------


def load_model(path: str | os.PathLike[str] | ModelProto) -> ModelProto:
    """A ModelProto with all its data in memory; external data only from below the model's own directory."""
    onnx = require("onnx")
    if not isinstance(path, (str, os.PathLike)):
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
    """Write a model under a temporary name, check it, and move it into place."""
    onnx = require("onnx")
    file = Path(os.fspath(path))
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            draft = Path(folder) / file.name
            data = f"{file.name}.data"
            if sum(len(x.raw_data) for x in _tensors(model)) > MAX_PROTO:
                copy = onnx.ModelProto()
                copy.CopyFrom(model)
                beside = {"save_as_external_data": True, "all_tensors_to_one_file": True, "size_threshold": 256}
                onnx.save_model(copy, str(draft), location=data, **beside)
            else:
                draft.write_bytes(model.SerializeToString())
            _check(onnx, str(draft))
            if (Path(folder) / data).exists():
                os.replace(Path(folder) / data, file.parent / data)
            os.replace(draft, file)
    except OSError as error:
        raise FrontendError(f"model {str(file)!r}", f"cannot be written: {error.strerror or error}") from error


def _check(onnx: Any, path: str) -> None:
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        raise FrontendError("ONNX model", f"would not be valid: {' '.join(str(error).split())[:300]}") from error

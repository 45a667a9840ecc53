"""ONNX models in and out: `load` a model as a program, `save` a program as a model, `optimize` a model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.files import whole_file
from eqsat.ir import clock
from eqsat.ir.errors import EqsatError, FrontendError
from eqsat.ir.tensors.tensor import Program, Tensor, as_program
from eqsat.models.package import require
from eqsat.workers.call import Preparation, prepare

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from eqsat.extraction.left import Move
    from eqsat.onnx.confirm import Confirmation
    from eqsat.onnx.read import OnnxProgram, Values
    from eqsat.onnx.spelling import Spelling
    from eqsat.pricing.table import Table
    from eqsat.result import Result

    Searched = tuple[Result, Spelling]
    """What the engine found, and how it was spelled."""

PASSES = 3
"""How often a result is searched again, as long as that pays."""
LARGE, WORTH = 2000, 0.15
"""E-nodes above which a further search costs seconds, and the share of the time that one must have gained before it."""
FOR_ONNX = Preparation(("onnx", "eqsat.models.guarded", "egglog.bindings", "eqsat.graph.search"))
"""What a worker imports while this process reads a model."""
MAX_PROTO = 2**31 - 2**20
"""Models above this size, in bytes, are saved with their constants in a file beside them."""


def load(path: str | os.PathLike[str] | ModelProto, fold_inputs: bool = False) -> OnnxProgram:
    """The program of an ONNX model: a path, or a ModelProto whose data is in memory.

    Known operators become Views and Computes, or operators with a signature; everything else is carried as it is. An
    initialiser that is also a graph input stays an input (with its default) unless ir_version < 4 or `fold_inputs`.

    Errors: FrontendError for files that are not valid models or reach outside of their directory.
    """
    require("onnx")
    from eqsat.onnx.read import read

    return read(load_model(path), fold_inputs)


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


def optimize(
    model: ModelProto | str | os.PathLike[str],
    fold_inputs: bool = False,
    *,
    confirm: bool = False,
    reached: Callable[[str], None] = lambda phase: None,
    **options: Any,
) -> OnnxResult:
    """Optimise a model: the result of `eqsat.optimize` with `.model`, the model itself where nothing was gained.

    `options` are those of `eqsat.optimize`; its limits hold from reading to checking, and `reached` hears of phases
    that are done ("read"). The output never costs more than the input under the objective, which
    is time unless `objective="bytes"` says otherwise. It is checked against the input, region by region (`.checked`),
    before it is returned. confirm: run the input and the result in turns, for about a second, and give the input back
    where the result is not faster beyond noise (`.confirmation`).
    """
    require("onnx")
    if confirm:
        require("onnxruntime")
    prepare(FOR_ONNX)
    from eqsat.backends.targets import TARGETS
    from eqsat.engine import GROWTH, OUT_OF_MEMORY, OUT_OF_TIME, Limits, given_back, table_for
    from eqsat.engine import optimize as search
    from eqsat.onnx.bodies import optimized
    from eqsat.onnx.read import read_with_types
    from eqsat.onnx.spelling import Spelling

    begun = time.monotonic()
    target = str(options.pop("target", "onnx"))
    domains = TARGETS[target].domains if target in TARGETS else ()
    checked = bool(options.pop("checked", True))
    limits: Limits = options.pop("limits", None) or Limits()
    table = table_for(target, options.get("objective"), options.pop("prices", None))
    growth = float(options.pop("growth", GROWTH))
    before, program, values = _read_within(limits.seconds, model, fold_inputs)
    reached("read")

    def engine(current: OnnxProgram) -> Searched:
        spelling = Spelling(current, domains, table)
        allowed = growth if current is program else 0.0  # of what has grown already
        beyond = spelling.beyond if table is None else None
        asked: dict[str, Any] = {"growth": allowed, "beyond": beyond, "prices": table, **options}
        return search(current, target, checked=False, limits=limits, **asked), spelling

    try:
        with clock.at_most(limits.seconds - (time.monotonic() - begun)):
            inner = partial(optimize, target=target, checked=checked, prices=table, **options)
            bodies = optimized(before, values, inner, limits)
            if bodies.changed:
                before = bodies.model
                program, values = read_with_types(before, fold_inputs)
            first = engine(program)
            source = _Source(before, program, values, table)
            return _judged(source, first, engine, begun if checked else None, confirm, bodies.remarks)
    except MemoryError:
        return OnnxResult(given_back(program, [OUT_OF_MEMORY], status="memory-limit"), before)
    except clock.OutOfTime:
        clock.check()
        late = given_back(program, [OUT_OF_TIME.format(limits.seconds)], status="time-limit")
        return OnnxResult(late, before)


def _read_within(
    seconds: float, model: ModelProto | str | os.PathLike[str], fold_inputs: bool
) -> tuple[ModelProto, OnnxProgram, Values]:
    """A model, read in so many seconds; FrontendError where that is not enough."""
    from eqsat.onnx.read import read_with_types

    try:
        with clock.at_most(seconds):
            before = load_model(model)
            return before, *read_with_types(before, fold_inputs)
    except clock.OutOfTime:
        clock.check()  # an outer limit is for its owner to answer
        raise FrontendError("ONNX model", f"is not read within {seconds:g} s", "allow more time") from None


def _judged(
    source: _Source,
    first: Searched,
    engine: Callable[[OnnxProgram], Searched],
    begun: float | None,
    confirm: bool,
    remarks: tuple[str, ...],
) -> OnnxResult:
    """The result with its model; the model as it was where writing or checking fails."""
    from eqsat.checking.guard import failed
    from eqsat.engine import given_back

    before, program = source.model, source.program
    try:
        found = _written(source, first, engine, begun)
        found.remarks = (*found.remarks, *remarks, *_carried(before, source.values))
        return _confirmed(found, before, program) if confirm and found.model is not before else found
    except (clock.OutOfTime, MemoryError):
        raise
    except BaseException as error:
        return OnnxResult(given_back(program, first[0].notes), before, (failed("the model", error),))


def _confirmed(found: OnnxResult, before: ModelProto, program: OnnxProgram) -> OnnxResult:
    """The result, or the model as it was given where running both shows no gain."""
    from eqsat.onnx.confirm import confirm

    try:
        done = confirm(before, found.model)
    except EqsatError as error:
        done, why = None, f"the gain cannot be measured: {error}"
    else:
        why = f"it was not faster: {done}"
    if done is not None and done.real:
        found.confirmation = done
        return found
    result = replace(found.result, program=program, final=found.result.initial)
    kept = OnnxResult(result, before, (*found.remarks, f"the model is unchanged: {why}"))
    kept.confirmation = done
    return kept


def _carried(model: ModelProto, values: Values) -> Iterator[str]:
    """What was not looked into, and so is in no figure."""
    from eqsat.onnx.bytes import bytes_moved

    functions = {(f.domain, f.name) for f in model.functions}
    calls = sum((n.domain, n.op_type) in functions for n in model.graph.node)
    if calls:
        yield f"{calls} calls of the model's own functions stay as they are, with the layouts inside"
    unknown = bytes_moved(model, values=values).unknown
    if unknown:
        yield f"{unknown} layout operators are not counted: their types or shapes are not known to programs"


@dataclass(frozen=True)
class _Source:
    """A model as it was given, and the prices by which results are judged (None: by bytes)."""

    model: ModelProto
    program: OnnxProgram
    values: Values
    table: Table | None

    def rank(self, model: ModelProto, program: OnnxProgram, values: Values) -> tuple[int, int]:
        """What a model costs as it stands: time, then bytes, where prices are given."""
        from eqsat.onnx.bytes import price, time_of

        return (0 if self.table is None else time_of(model, program, self.table)), price(model, values)


def _written(
    source: _Source, first: Searched, engine: Callable[[OnnxProgram], Searched], begun: float | None
) -> OnnxResult:
    """The result with its model, checked against the original; that itself where it does not pay or differs."""
    from eqsat.checking.guard import budget, differs, unchecked
    from eqsat.checking.models import check_models
    from eqsat.checking.verdict import Checked, CheckFailure, Difference
    from eqsat.engine import given_back

    before, program = source.model, source.program
    try:
        result, after = _repeated(source, first, engine)
        remark = ""
    except CheckFailure as error:
        wrong = Difference(error.operation, error.problem)
        unchanged = given_back(program, first[0].notes, Checked((), 0.0, wrong), own=first[0].initial)
        return OnnxResult(unchanged, before, (differs("the model", wrong),))
    except EqsatError as error:
        result, after, remark = first[0], before, f"the model is unchanged: {error}"
    if after is before:
        result = replace(result, program=program, final=result.initial)
        return OnnxResult(result, before, (remark,) if remark else ())
    if begun is None:
        return OnnxResult(result, after)
    done = check_models(before, after, budget(begun))
    if done.difference is not None:
        note = differs("the model", done.difference)
        return OnnxResult(given_back(program, result.notes, done, own=first[0].initial), before, (note,))
    return OnnxResult(replace(result, checked=done), after, tuple(unchecked(done)))


def _repeated(source: _Source, first: Searched, engine: Callable[[OnnxProgram], Searched]) -> tuple[Result, ModelProto]:
    """The result that a further search does not better, with its model: the one given where nothing pays.

    What is written has other shapes and nodes than what was searched, from which a search may go on.
    """
    from eqsat.checking.guard import debugging

    model, current, result = source.model, source.program, first[0]
    best = source.rank(model, current, source.values)
    start = time.monotonic()
    for attempt in range(PASSES):
        try:
            found, spelling = first if attempt == 0 else engine(current)
            if _is_unchanged(current, found):
                break
            spelled = spelling.of(found.program)
            cost = source.rank(spelled.model, spelled.program, spelled.values)
        except EqsatError:
            if attempt == 0 or debugging():
                raise
            break  # what there is is right
        if cost >= best:
            break
        worth = source.table is None or found.progress.nodes < LARGE or cost[0] <= (1 - WORTH) * best[0]
        model, current, best = spelled.model, spelled.program, cost
        notes = list(dict.fromkeys([*first[0].notes, *found.notes]))
        result = replace(found, initial=first[0].initial, progress=first[0].progress, notes=notes)
        if not worth or clock.left() < 2 * (time.monotonic() - start) / (attempt + 1):
            break
    return result, model


def _is_unchanged(program: OnnxProgram, result: Result) -> bool:
    return result.program is program


class OnnxResult:
    """What the engine says about a model, and the optimised `model`; all else is asked of the engine's result."""

    def __init__(self, result: Any, model: ModelProto, remarks: tuple[str, ...] = ()) -> None:
        self.result = result
        self.model = model
        self.remarks = remarks
        self.confirmation: Confirmation | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The engine's notes, and why the model stayed as it was, if it did."""
        return (*self.result.notes, *self.remarks)

    @property
    def left(self) -> tuple[Move, ...]:
        """The moves that are left in the model, by the names of its values, each with the reason."""
        from eqsat.extraction.left import moves_left
        from eqsat.onnx.read import read

        program = read(self.model)
        result = self.result
        return tuple(moves_left(program, result.target, result.stopped, result.unproved, program.envelope.names))

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

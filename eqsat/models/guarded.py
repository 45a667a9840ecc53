"""onnx.shape_inference, onnx.checker and onnx.inliner, run where they can be ended: they are C++ that some models make
abort, run on for ever, or take all memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import ModelProto, TypeProto, checker, inliner, shape_inference

from eqsat.ir import clock
from eqsat.ir.errors import FrontendError
from eqsat.workers.call import WorkerFailure, WorkerLimit, WorkerTimeLimit, call
from eqsat.workers.limits import is_worker

MOST_SECONDS = 600.0  # where the caller has no limit
MEMORY_MB = 4096

Question = tuple[bytes, bytes | None, bool, bool]
check_model: Callable[[ModelProto], None] = getattr(checker, "check_model")  # noqa: B009 - its annotation is incomplete


def infer_shapes(
    model: ModelProto, *, data_prop: bool = False, valid: bool = False, plain: ModelProto | None = None
) -> ModelProto:
    """The model with the types of its values, by onnx.shape_inference.

    >>> from eqsat.nets import conv_chain
    >>> len(infer_shapes(conv_chain()).graph.value_info) > 0
    True

    valid: whether it must be a valid model as well; that is asked of `plain` with the inferred outputs, if given.
    Raises FrontendError, also where onnx would end this process; clock.OutOfTime.
    """
    outer = None if plain is None else plain.SerializeToString()
    question: Question = model.SerializeToString(), outer, data_prop, valid
    answer = _asked("answered", answered, question, "infer", "shapes")
    inferred = ModelProto()
    inferred.ParseFromString(answer)
    return inferred


def inline_functions(model: ModelProto, names: Sequence[tuple[str, str]]) -> ModelProto:
    """The model with the bodies of some of its functions, by domain and name, in place of their calls.

    Raises FrontendError, also where onnx would end this process; clock.OutOfTime.
    """
    question = model.SerializeToString(), tuple(names)
    made = ModelProto()
    made.ParseFromString(_asked("inlined", inlined, question, "write out", "functions"))
    return made


def _asked(name: str, job: Callable[..., bytes], question: Any, does: str, what: str) -> bytes:
    """The answer of a job of this module, run where it can be ended."""
    if is_worker():
        return job(question)
    seconds = min(clock.left(), MOST_SECONDS)
    try:
        return call(f"eqsat.models.guarded:{name}", question, seconds=seconds, memory_mb=MEMORY_MB)
    except WorkerLimit as limit:
        clock.check()
        reason = f"{seconds:.3g} s" if isinstance(limit, WorkerTimeLimit) else f"{MEMORY_MB} MB"
        raise FrontendError("ONNX model", f"onnx does not {does} its {what} within {reason}") from None
    except WorkerFailure as failure:
        if failure.signal is None:
            raise
        problem = f"onnx ends its process where it would {does} {what} (signal {failure.signal})"
        raise FrontendError("ONNX model", problem, "onnx.checker.check_model may say what is wrong") from None


def inlined(question: tuple[bytes, Sequence[tuple[str, str]]], report: Callable[[Any], None] = lambda _: None) -> bytes:
    """The job: the model without calls of some functions."""
    data, names = question
    model = ModelProto()
    model.ParseFromString(data)
    try:
        made = inliner.inline_selected_functions(model, list(names))
    except (ValueError, RuntimeError, TypeError) as error:
        raise FrontendError("ONNX model", f"its functions cannot be written out: {_clean(error)}") from error
    return made.SerializeToString()


def answered(question: Question, report: Callable[[Any], None] = lambda _: None) -> bytes:
    """The job: the model with its types."""
    model, plain, data_prop, valid = question
    try:
        inferred = shape_inference.infer_shapes(model, False, False, data_prop)
    except (shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise FrontendError("ONNX model", f"its shapes are inconsistent: {_clean(error)}") from error
    if valid:
        tested = inferred
        if plain is not None:
            tested = ModelProto()
            tested.ParseFromString(plain)
            del tested.graph.output[:]
            tested.graph.output.extend(inferred.graph.output)
            if not all(shaped(x.type) for x in inferred.graph.output):
                tested = shape_inference.infer_shapes(tested, False, False)
        _ends(tested)
        try:
            # After inference, which fills in the shapes of outputs that have none.
            check_model(tested)
        except (checker.ValidationError, ValueError) as error:
            raise FrontendError("ONNX model", f"is not valid: {_clean(error)}") from error
    return inferred.SerializeToString()


def _ends(model: ModelProto) -> None:
    """FrontendError for an input or output without a type or rank, by its name, which onnx.checker does not say."""
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            what = "type" if not value.type.WhichOneof("value") else "" if shaped(value.type) else "rank"
            if what:
                problem = f"its {what} is not known: the model does not say it, nor does onnx.shape_inference"
                raise FrontendError(f"{kind} {value.name!r}", problem, "declare it there; extents may stay open")


def shaped(proto: TypeProto) -> bool:
    """Whether all that ONNX asks of the type of an output is known."""
    return proto.WhichOneof("value") != "tensor_type" or proto.tensor_type.HasField("shape")


def _clean(error: Exception) -> str:
    return " ".join(str(error).split())[:300]

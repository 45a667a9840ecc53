"""`eqsat verify`: are two models the same function, by proof where that is possible, and by running both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import eqsat.onnx
from eqsat.cli.models import load, sizes_of
from eqsat.cli.optimize_job import comparison_data, comparison_lines
from eqsat.cli.output import Output
from eqsat.ir.errors import EvaluationError, FrontendError, MissingPackage
from eqsat.ir.tensors.bind import unified
from eqsat.ir.terms.shape import format_shape, same_shape, shape_names
from eqsat.onnx.check import compare_models
from eqsat.verifying.verify import verify

if TYPE_CHECKING:
    from onnx import ModelProto

    from eqsat.ir.decide import Proof
    from eqsat.ir.tensors.tensor import Program
    from eqsat.onnx.check import Comparison


def run_verify(before: Path, after: Path, shapes: tuple[str, ...], out: Output) -> int:
    """Print the verdicts; 1 where the models differ."""
    sizes = sizes_of(shapes)
    first = load(before, sizes)
    second = load(after, sizes, strict=False)
    p, q = eqsat.onnx.load(first), eqsat.onnx.load(second)
    difference = _other_ends(p, unified(q, p))
    if difference:
        out.answer({"equal": False, "difference": difference}, f"not the same: {difference}")
        return 1
    with out.progress("proving"):
        proof = verify(p, q)
    with out.progress("running both models"):
        comparison, why = _compared(first, second, proof)
    equal = proof.verdict != "refuted" and (comparison is None or comparison.equal)
    words = {"proved": f"proved equal ({proof.method})", "refuted": f"refuted ({proof.method})"}
    lines = [words.get(proof.verdict, f"note: not proved equal by the rules: {proof.note}")]
    lines += [f"note: not run: {why}"] if comparison is None else comparison_lines(comparison)
    data: dict[str, Any] = {
        "equal": equal,
        "proof": {"verdict": proof.verdict, "method": proof.method, "note": proof.note, "seconds": proof.seconds},
        "comparison": None if comparison is None else comparison_data(comparison),
        "note": why,
    }
    out.answer(data, "\n".join(lines))
    return 0 if equal else 1


def _other_ends(p: Program, q: Program) -> str:
    """What differs in the names and types of inputs and outputs, or ''."""
    ends = {"input": ({x.name: x for x in p.inputs}, {x.name: x for x in q.inputs}), "output": (p.outputs, q.outputs)}
    for kind, (a, b) in ends.items():
        alone = sorted(set(a) ^ set(b))
        if alone:
            return f"{kind} {alone[0]!r} is in one of them only"
        for name in a:
            if a[name].dtype != b[name].dtype or not same_shape(a[name].shape, b[name].shape):
                names = shape_names(a[name].shape, b[name].shape)
                types = [f"{x.dtype}{format_shape(x.shape, names)}" for x in (a[name], b[name])]
                return f"{kind} {name!r} is {types[0]} in one and {types[1]} in the other"
    return ""


def _compared(first: ModelProto, second: ModelProto, proof: Proof) -> tuple[Comparison | None, str]:
    """The comparison; where the models cannot be run, a proof alone is enough."""
    try:
        return compare_models(first, second), ""
    except (EvaluationError, FrontendError, MissingPackage) as error:
        if proof:
            return None, str(error)
        raise

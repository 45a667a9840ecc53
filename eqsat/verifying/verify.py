"""Is one program a refinement of another: proved cell by cell or by the rules that optimise, refuted by an input.

No proof is believed against a run: both programs are run on a few inputs whatever was proved."""

from __future__ import annotations

import time
from dataclasses import replace

from eqsat.freezing.formulas import with_formulas
from eqsat.graph.encode import encode
from eqsat.graph.fill_holes import assignments, holes_of
from eqsat.graph.rebuild import with_operands
from eqsat.graph.search import Limits, task_of
from eqsat.graph.search_worker import search
from eqsat.ir import clock
from eqsat.ir.decide import Proof
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.ir.tensors.bind import unified
from eqsat.ir.tensors.tensor import Node, Program, Tensor, as_program
from eqsat.ir.terms.shape import format_shape, same_shape, shape_names
from eqsat.verifying.cells import equal_cells
from eqsat.verifying.runs import Trials, compare
from eqsat.workers.call import WorkerLimit

SECONDS = 10.0
SECONDS_OF_RUNS = 3.0
MOST_AXES = 62
"""Tensors of more axes are neither computed nor followed cell by cell: numpy has 64, and takes fewer indices."""
ALARM = "was proved ({}), and this input contradicts it: a defect of eqsat, please report it"


@keywords
def verify(before: Program | Tensor, after: Program | Tensor, limits: Limits | None = None) -> Proof:
    """For all inputs, and all holes of `after`, are there holes of `before` with equal outputs?

    proved: the outputs are the same functions of the inputs cell by cell, or both programs have one normal form or meet
    in the e-graph under the proved rules; refuted: the witness is an input on which they differ; unknown: neither (they
    agreed on the inputs that were tried). Symbols at the same place of the interfaces are the same size. Functions over
    buffers that are called are followed statement by statement, or, where that is too long, are the formulas that they
    are known to be.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> verify(x.permute_dims((1, 0)).relu().permute_dims((1, 0)), x.relu()).verdict
    'proved'
    """
    start = time.monotonic()
    p = as_program(before)
    q = unified(as_program(after), p)
    _check_interfaces(p, q)
    q = _on_inputs(q, p)
    bound = limits or Limits(seconds=SECONDS)
    found = _by_cells(p, q, bound)
    plain = (p, q) if found is not None else _with_formulas(p, q, bound)
    outcome = _runs(p, q, SECONDS_OF_RUNS)
    if outcome.note.startswith("not run") and plain != (p, q):
        outcome = _runs(*plain, SECONDS_OF_RUNS)  # calls take longer than the formulas that they are
    if outcome.witness is not None:
        note = outcome.note if found is None else ALARM.format(found.method)
        found = Proof("refuted", outcome.witness, "random inputs", note=note)
    if found is None:
        found = _by_rules(*plain, bound)
    if found is None:
        note = outcome.note or f"equal on {outcome.equal} inputs"
        found = Proof("unknown", method="random inputs", note=note)
    return Proof(found.verdict, found.witness, found.method, time.monotonic() - start, found.note)


def _runs(p: Program, q: Program, seconds: float) -> Trials:
    """Both programs run, as far as the time allows."""
    if _has_many_axes(p, q):
        return Trials(0, None, f"not run: tensors of more than {MOST_AXES} axes")
    try:
        with clock.at_most(seconds):
            return compare(p, q)
    except clock.OutOfTime:
        clock.check()
        return Trials(0, None, f"not run in {seconds:g} s")


def _has_many_axes(*programs: Program) -> bool:
    """Whether some tensor has more axes than numpy computes with."""
    return any(len(shape) > MOST_AXES for p in programs for node in p.nodes() for shape, _ in node.outputs)


def _check_interfaces(p: Program, q: Program) -> None:
    for kind, a, b in (
        ("inputs", {x.name: x for x in p.inputs}, {x.name: x for x in q.inputs}), ("outputs", p.outputs, q.outputs)
    ):  # fmt: skip
        if a.keys() != b.keys():
            raise EqsatError("verify", f"the programs have the {kind} {sorted(a)} and {sorted(b)}")
        for name in a:
            if a[name].dtype != b[name].dtype or not same_shape(a[name].shape, b[name].shape):
                names = shape_names(a[name].shape, b[name].shape)
                types = [f"{x.dtype}{format_shape(x.shape, names)}" for x in (a[name], b[name])]
                raise EqsatError(
                    "verify", f"{kind[:-1]} {name!r} is {types[0]} in one program, {types[1]} in the other"
                )


def _on_inputs(q: Program, p: Program) -> Program:
    """The second program on the input tensors of the first."""
    table = {x.key: y for x in q.inputs for y in p.inputs if x.name == y.name}
    for node in q.nodes():
        operands = [table.get(x.key, x) for x in node.operands]
        new: Node = (
            node if all(a == b for a, b in zip(operands, node.operands, strict=True)) else with_operands(node, operands)
        )
        for k in range(len(node.outputs)):
            table.setdefault((node.serial, k), Tensor(new, k))
    return Program(p.inputs, {name: table.get(x.key, x) for name, x in q.outputs.items()})


def _by_cells(p: Program, q: Program, limits: Limits) -> Proof | None:
    """Equal outputs are the same functions of the inputs, cell by cell."""
    if _has_many_axes(p, q):
        return None
    try:
        with clock.at_most(limits.seconds):
            return Proof("proved", method="cell by cell") if equal_cells(p, q) else None
    except clock.OutOfTime:
        clock.check()
        return None


def _with_formulas(p: Program, q: Program, limits: Limits) -> tuple[Program, Program]:
    """Both programs with the calls of functions that are known to be formulas as these, where the time is enough."""
    try:
        with clock.at_most(limits.seconds):
            return with_formulas(p, ()).program, with_formulas(q, ()).program
    except clock.OutOfTime:
        clock.check()
        return p, q


def _by_rules(p: Program, q: Program, limits: Limits) -> Proof | None:
    """Equal outputs are equal values in equal layouts, in one normal form or in one e-graph."""
    begun = time.monotonic()
    candidates = [p] if holes_of(q) or not holes_of(p) else [filled for filled, _ in assignments(p)]
    for filled in candidates:
        both = Program(
            p.inputs, {f"{k} {name}": x for k, program in enumerate((filled, q)) for name, x in program.outputs.items()}
        )
        encoded = encode(both)
        pairs = [(filled.outputs[name], q.outputs[name]) for name in p.outputs]
        if all(encoded.placed[a.key] == encoded.placed[b.key] for a, b in pairs):
            return Proof("proved", method="normal form")
        left = limits.seconds - (time.monotonic() - begun)
        if left <= 0:
            return None
        try:
            snapshot = search(task_of(encoded, "c", replace(limits, seconds=left)))
        except WorkerLimit:
            continue  # nothing is known of this one
        half = len(p.outputs)
        if snapshot.roots[:half] == snapshot.roots[half:]:
            return Proof("proved", method="e-graph")
    return None

"""Is one program a refinement of another: proved by the same rules that optimise, refuted by an input that differs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from eqsat.encode import encode
from eqsat.holes_search import assignments, holes_of
from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.run import evaluate
from eqsat.ir.shape import same_shape, static_shape
from eqsat.ir.tensor import Compute, Node, Opaque, Program, Tensor, as_program
from eqsat.rebuild import with_operands
from eqsat.search import Limits, task_of
from eqsat.worker import search

TOLERANCE = 1e-4
TRIALS = 3


def verify(before: Program | Tensor, after: Program | Tensor, limits: Limits | None = None) -> Proof:
    """For all inputs, and all holes of `after`, are there holes of `before` with equal outputs?

    proved: both programs have one normal form, or meet in the e-graph under the proved rules; refuted: the witness is
    an input on which they differ; unknown: neither (they agreed on random inputs).

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> verify(x.permute_dims((1, 0)).relu().permute_dims((1, 0)), x.relu()).verdict
    'proved'
    """
    start = time.monotonic()
    p, q = as_program(before), as_program(after)
    _check_interfaces(p, q)
    q = _on_inputs(q, p)
    proof = _proved(p, q, limits or Limits(seconds=10))
    if proof is None:
        proof = _tested(p, q)
    return Proof(proof.verdict, proof.witness, proof.method, time.monotonic() - start, proof.note)


def _check_interfaces(p: Program, q: Program) -> None:
    for kind, a, b in (
        ("inputs", {x.name: x for x in p.inputs}, {x.name: x for x in q.inputs}), ("outputs", p.outputs, q.outputs)
    ):  # fmt: skip
        if a.keys() != b.keys():
            raise EqsatError("verify", f"the programs have the {kind} {sorted(a)} and {sorted(b)}")
        for name in a:
            if a[name].dtype != b[name].dtype or not same_shape(a[name].shape, b[name].shape):
                raise EqsatError(
                    "verify", f"{kind[:-1]} {name!r} is {a[name]!r} in one program, {b[name]!r} in the other"
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


def _proved(p: Program, q: Program, limits: Limits) -> Proof | None:
    """Put both programs into one e-graph; equal outputs are equal values in equal layouts."""
    candidates = [p] if holes_of(q) or not holes_of(p) else list(assignments(p))
    for filled in candidates:
        both = Program(
            p.inputs, {f"{k} {name}": x for k, program in enumerate((filled, q)) for name, x in program.outputs.items()}
        )
        encoded = encode(both)
        pairs = [(filled.outputs[name], q.outputs[name]) for name in p.outputs]
        if all(encoded.placed[a.key] == encoded.placed[b.key] for a, b in pairs):
            return Proof("proved", method="normal form")
        snapshot = search(task_of(encoded, "c", limits))
        if snapshot is not None:
            half = len(p.outputs)
            if snapshot.roots[:half] == snapshot.roots[half:]:
                return Proof("proved", method="e-graph")
    return None


def _tested(p: Program, q: Program) -> Proof:
    """Random inputs; a difference refutes."""
    if any(static_shape(x.shape) is None for x in p.inputs):
        return Proof("unknown", method="random inputs", note="symbolic shapes are not tested")
    if holes_of(p):
        return Proof("unknown", method="random inputs", note="the first program has holes")
    exact = not any(_reorders(n) for n in (*p.nodes(), *q.nodes()))
    for seed in range(TRIALS):
        feeds = random_inputs(p.inputs, seed)
        try:
            with np.errstate(all="ignore"):
                a, b = evaluate(p, feeds), evaluate(q, feeds)
        except EvaluationError as error:
            return Proof("unknown", method="random inputs", note=str(error))
        for name, expected in a.items():
            if not equal_arrays(expected, b[name], exact):
                return Proof("refuted", {"output": name, **feeds}, "random inputs", note=f"seed {seed}")
    return Proof("unknown", method="random inputs", note=f"equal on {TRIALS} random inputs")


def _reorders(node: Node) -> bool:
    if isinstance(node, Compute):
        return node.combiner in ("sum", "prod") and is_float(node.body.dtype)
    return isinstance(node, Opaque)


def random_inputs(inputs: Sequence[Tensor], seed: int) -> dict[str, NDArray]:
    """Arrays of random numbers for static inputs."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray] = {}
    for x in inputs:
        shape = static_shape(x.shape) or ()
        if x.dtype == "bool":
            feeds[x.name] = rng.integers(0, 2, shape).astype(bool)
        elif is_float(x.dtype):
            feeds[x.name] = np.asarray(rng.normal(size=shape), x.dtype)
        else:
            feeds[x.name] = rng.integers(0, 100, shape).astype(x.dtype)
    return feeds


def equal_arrays(a: NDArray, b: NDArray, exact: bool) -> bool:
    """Equal bit by bit (any NaN for any NaN), or within 1e-4 of the largest value, NaN and inf in the same places."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not is_float(a.dtype.name):
        return bool(np.array_equal(a, b))
    if exact:
        signs = np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)])
        return bool(np.array_equal(a, b, equal_nan=True)) and bool(np.array_equal(*signs))
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = float(np.max(np.abs(a[finite]), initial=0.0))
    gap = np.abs(a[finite].astype(np.float64) - b[finite].astype(np.float64))
    return bool(np.all(gap <= TOLERANCE * scale))

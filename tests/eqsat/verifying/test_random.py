"""What the optimiser did is proved, on random programs; and no proof is believed against a run."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import eqsat as eq
from eqsat import testing
from eqsat.graph.fill_holes import fill_holes, holes_of
from eqsat.graph.rebuild import rebuilt
from eqsat.ir.decide import Proof
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Program, Tensor, View, as_program, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, rebuild
from eqsat.ir.terms.walk import postorder, transform
from eqsat.verifying import runs as verify_runs
from eqsat.verifying.cells import equal_cells
from eqsat.verifying.runs import compare
from eqsat.verifying.verify import verify

DTYPES = ("float32", "float64", "float16", "int32", "int8", "uint8", "bool")
N = t.sym("N", lower=1)


# -- the optimiser's own steps ----------------------------------------------------------------------------------------


@settings(max_examples=18)
@given(testing.programs(dtypes=DTYPES))
def test_what_the_optimiser_did_is_proved(program: Program) -> None:  # feature: E2
    after = eq.optimize(program).program
    proof = verify(program, after)
    assert proof.verdict == "proved", proof


@pytest.mark.slow
@settings(max_examples=2000)
@given(testing.programs(max_ops=16, dtypes=DTYPES))
def test_what_the_optimiser_did_is_proved_at_length(program: Program) -> None:
    proof = verify(program, eq.optimize(program).program)
    assert proof.verdict == "proved", proof


def test_a_branch_that_is_never_taken_is_proved_away() -> None:
    x = input("x", (1, 1), "float32")
    padded = compute((2, 1), lambda i, j: t.where(i < 1, x[i, j], t.const(0.0, "float32")))
    before = compute((2, 1), lambda i, j: t.where(i < 0, padded[i, j], padded[1 - i, j]))
    assert verify(before, eq.optimize(before).program).verdict == "proved"


def rows_of(x: Tensor, k: int) -> Tensor:
    return compute((x.shape[1],), lambda i: x[k, i])


X = input("x", (4, 6), "float32")


def twice(op: str, x: Tensor) -> Tensor:
    """A unary operation and itself, in one formula."""

    def cell(i: Term, j: Term) -> Term:
        return t.make(op, (t.make(op, (x[i, j],), None, x.dtype),), None, x.dtype)

    return compute(x.shape, cell)


def plain(op: str, x: Tensor, number: float) -> Tensor:
    """An operation with a constant, as no constructor simplifies it."""
    return compute(x.shape, lambda i, j: t.make(op, (x[i, j], t.const(number, x.dtype)), None, x.dtype))


BITS, FLAGS = input("bits", (4, 6), "int8"), input("flags", (4, 6), "bool")
EQUAL: list[tuple[str, Tensor, Tensor]] = [
    ("negated twice", twice("neg", X).pad(1), X.pad(1)),
    ("inverted twice", twice("bitnot", BITS).pad(1), BITS.pad(1)),
    *(
        (f"{op} {c}", plain(op, BITS, c).pad(1), BITS.pad(1))
        for op, c in (
            ("truncdiv", 1),
            ("floordiv", 1),
            ("mul", 1),
            ("add", 0),
            ("bitxor", 0),
            ("shl", 0),
            ("max", -128),
            ("min", 127),
        )
    ),
    *(
        (f"{op} {c} in float", plain(op, X, c).pad(1), X.pad(1))
        for op, c in (("div", 1.0), ("mul", 1.0), ("sub", 0.0), ("add", -0.0))
    ),
    (
        "less than itself",
        compute((4, 6), lambda i, j: t.where(t.make("lt", (X[i, j], X[i, j]), None, "bool"), X[0, 0], X[i, j])),
        X,
    ),
    ("less itself", compute((4, 6), lambda i, j: t.make("sub", (BITS[i, j], BITS[i, j]), None, "int8")), BITS * 0),
    ("not twice", twice("not", FLAGS).pad(1, False), FLAGS.pad(1, False)),
    ("row of a transpose", rows_of(X.permute_dims((1, 0)), 2), compute((4,), lambda i: X[i, 2])),
    ("softmax", X.softmax(1).permute_dims((1, 0)), X.permute_dims((1, 0)).softmax(0)),
    ("max over all", X.max(), X.reshape((24,)).max(0)),
    ("max of copies", X.tile((2, 1)).max(0), X.max(0)),
    ("sum in another order", X.flip((0,)).sum(0), X.sum(0)),
    ("folded constants", X.pad(1, -1.0).relu(), X.relu().pad(1, 0.0)),
    ("commuted", X + X.relu(), X.relu() + X),
    ("sums of nothing", X.crop([0, 0], [4, 0]).sum(1), X.permute_dims((1, 0)).crop([0, 0], [0, 4]).sum(0)),
    (
        "no sums at all",
        compute((0,), lambda i, j: X[j, i], reduce=(4,)),
        compute((0,), lambda i, j: X[3 - j, i], reduce=(4,)),
    ),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in EQUAL], ids=[case[0] for case in EQUAL])
def test_cells_prove(before: Tensor, after: Tensor) -> None:
    proof = verify(before, after)
    assert proof.verdict == "proved" and proof.method == "cell by cell", proof
    assert verify(after, before).verdict == "proved"


DIFFERENT: list[tuple[str, Tensor, Tensor]] = [
    ("abs twice", twice("abs", X), X),
    ("floor", plain("floordiv", X, 1.0), X),
    ("0.0 is not neutral", plain("add", X, 0.0), X),
    ("-0.0 is not neutral", plain("sub", X, -0.0), X),
    ("0 before", compute((4, 6), lambda i, j: t.make("sub", (t.const(0, "int8"), BITS[i, j]), None, "int8")), BITS),
    ("0 is not the least", plain("max", BITS, 0), BITS),
    ("inf less inf", compute((4, 6), lambda i, j: t.make("sub", (X[i, j], X[i, j]), None, "float32")), X.relu() * 0.0),
    ("not", twice("not", FLAGS), compute((4, 6), lambda i, j: t.logical_not(FLAGS[i, j]))),
    ("a row and a column", compute((4,), lambda i: X[i, 2]), compute((4,), lambda i: X[2, i])),
    ("adding zero", X + 0.0, X),
    ("order of subtraction", X - X.relu(), X.relu() - X),
    ("fills", X.pad(1, 0.0), X.pad(1, -0.0)),
    ("another axis", X.softmax(0), X.softmax(1)),
    ("one cell", X, compute((4, 6), lambda i, j: t.where(t.logical_and(i >= 3, j >= 5), X[0, 0], X[i, j]))),
    ("NaN", compute((4, 6), lambda i, j: t.where(X[i, j] < X[i, j], X[0, 0], X[i, j])), X.relu()),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in DIFFERENT], ids=[case[0] for case in DIFFERENT])
def test_differences_are_found(before: Tensor, after: Tensor) -> None:
    assert not equal_cells(as_program(before), as_program(after))
    proof = verify(before, after)
    assert proof.verdict == "refuted" and proof.witness is not None, proof
    feeds = {k: v for k, v in proof.witness.items() if k != "output"}
    a, b = eq.evaluate(before, feeds), eq.evaluate(after, feeds)
    assert not np.array_equal(a, b, equal_nan=True) or not np.array_equal(np.signbit(a), np.signbit(b))


# -- no false proof ---------------------------------------------------------------------------------------------------


def _terms(node: Node) -> list[Term]:
    if isinstance(node, View):
        return [*node.gather, node.valid]
    return [node.body] if isinstance(node, Compute) else []


def _shifted(x: Term) -> Term | None:
    """The same operation with another number."""
    if x.op == "const" and x.dtype == t.INDEX:
        return t.index_const(x.payload + 1)
    if x.op == "sum" and x.payload[0]:
        return t.make("sum", x.args, (x.payload[0] - 1, x.payload[1]), x.dtype)
    if x.op in ("lt", "le"):
        return rebuild(x, x.args[::-1])
    return None


def mutant(program: Program, pick: int) -> Program | None:
    """The program with one number or comparison in one of its formulas changed."""
    places = [(n, x) for n in program.nodes() for x in postorder(*_terms(n)) if _shifted(x) is not None]
    if not places:
        return None
    chosen, target = places[pick % len(places)]
    first = [True]

    def changed(term: Term) -> Term:
        return transform(term, lambda x: _shifted(x) if x is target else None)

    def change(node: Node) -> Node | None:
        if not first[0] or isinstance(node, Opaque) or [*map(id, _terms(node))] != [*map(id, _terms(chosen))]:
            return None
        first[0] = False
        if isinstance(node, View):
            valid = changed(node.valid)
            return View(node.source, node.outputs[0][0], [*map(changed, node.gather)], valid, node.fill, node.tag)
        assert isinstance(node, Compute)
        return Compute(node.operands, node.shape, changed(node.body), node.reduce, node.combiner, node.tag)

    return rebuilt(program, change)


@given(testing.programs(max_ops=6), st.integers(0, 1000))
def test_equal_cells_are_equal_values(program: Program, pick: int) -> None:
    """A changed program is the same function where its cells say so."""
    try:
        other = mutant(program, pick)
    except EqsatError:
        other = None
    assume(other is not None)
    assert other is not None
    if not equal_cells(program, other):
        return
    for seed in range(3):
        feeds = testing.arrays_for(program, seed)
        with np.errstate(all="ignore"):
            before, after = evaluate_outputs(program, feeds), evaluate_outputs(other, feeds)
        for name in before:
            assert np.allclose(before[name], after[name], rtol=1e-3, atol=1e-3, equal_nan=True), name


def with_holes(program: Program) -> Program:
    """The program whose padding is a hole, another one at every place."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, View) or node.fill is None:
            return None
        shape = node.outputs[0][0]
        axes = [t.ax(n, extent) for n, extent in enumerate(shape)]
        hole = t.hole(next(numbers), node.fill.dtype, axes)
        return View(node.source, shape, node.gather, node.valid, hole, node.tag)

    numbers = count(1)
    return rebuilt(program, change)


@settings(max_examples=45)
@given(testing.programs(dtypes=DTYPES))
def test_what_fills_a_hole_is_no_difference(program: Program) -> None:  # feature: E2
    """A program refines itself with its holes filled."""
    try:
        holed = with_holes(program)
    except TypeMismatch:
        return  # what is read depends on the padding
    holes = holes_of(holed)
    for n in (0, 1) if holes else ():
        numbers = {k: np.asarray(n * (k % 2), x.dtype)[()] for k, x in holes.items()}
        filled, _ = fill_holes(holed, {k: t.const(numbers[k], x.dtype) for k, x in holes.items()})
        assert compare(holed, filled).witness is None


def test_a_difference_beside_holes_is_found() -> None:
    x = input("x", (N, 4), "int32")
    bounded = (x & 7).pad(((0, 0), (0, 2)), eq.UNDEF)
    zeros = (x & 0).pad(((0, 0), (0, 2)), 1)
    assert verify((bounded > 100).cast("int32"), zeros).verdict == "unknown"  # it holds: holes may be large
    assert verify((bounded > 5).cast("int32"), zeros).verdict == "refuted"
    assert verify(bounded.sum(1), (x & 7).sum(1)).verdict == "proved"
    assert verify(bounded.crop((0, 0), (N, 4)).sum(1), (x & 7).sum(1) + 1).verdict == "refuted"


def test_a_proof_is_not_believed_against_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with a prover: an input on which the programs differ is the last word."""
    module: Any = sys.modules["eqsat.verifying.verify"]

    def mistaken(*_: object) -> Proof:
        return Proof("proved", method="a mistake")

    monkeypatch.setattr(module, "_by_cells", mistaken)
    proof = verify(X + 1.0, X + 2.0)
    assert proof.verdict == "refuted" and "a mistake" in proof.note and proof.witness is not None
    assert verify(X + 1.0, X + 1.0).verdict == "proved"


def test_symbolic_sizes_are_run_too() -> None:
    x = input("x", (N, 4), "float32")
    assert verify(x + 1.0, x + 2.0).verdict == "refuted"
    assert verify(x.permute_dims((1, 0)).relu().permute_dims((1, 0)), x.relu()).verdict == "proved"
    assert verify(x.flip((0,)).abs().flip((0,)), x.abs()).verdict != "refuted"
    sizes = [verify_runs.inputs_for([x], trial) for trial in range(4)]
    assert {feeds["x"].shape for feeds in sizes if feeds is not None} == {(4, 4), (2, 4), (3, 4), (1, 4)}


def test_where_the_first_program_has_no_value_nothing_is_said() -> None:
    n = input("n", (4,), "int32")
    assert compare(Program([n], {"y": n // n}), Program([n], {"y": n * 0 + 1})).witness is None
    found = compare(Program([n], {"y": n * 0 + 1}), Program([n], {"y": n // n}))
    assert found.witness is not None and "fails" in found.note


def test_outputs_of_any_name_are_compared() -> None:
    for name in ("same", "rounded", "output"):
        found = compare(Program([X], {name: X}), Program([X], {name: X + 1.0}))
        assert found.witness is not None and found.witness["output"] == name


def test_another_order_of_additions_refutes_nothing() -> None:
    wide = input("wide", (64, 64), "float32").exp()
    before, after = wide.sum((0, 1)), wide.permute_dims((1, 0)).sum(1).sum(0)
    assert verify(before, after).verdict == "unknown"
    assert verify(before, after * 2.0).verdict == "refuted"
    one, zero = t.const(1.0, "float32"), t.const(0.0, "float32")
    rounded = wide.cast("float64").sum((0, 1)).cast("float32")
    unequal = compute((), lambda: t.where(t.compare("ne", before[()], rounded[()]), one, zero))
    same = compute((), lambda: t.where(t.compare("ne", before[()], before[()]), one, zero))
    proof = verify(unequal, same)
    assert proof.verdict == "unknown" and "roundings" in proof.note, proof


def test_running_out_of_sizes_is_no_answer() -> None:
    huge = input("huge", (1 << 13, 1 << 13), "float32")
    proof = verify(huge + 1.0, huge + 2.0)
    assert proof.verdict == "unknown" and "large" in proof.note

"""Results are checked before they are returned: faults of every kind are found, and right results pass."""

# feature: I11 J7
from __future__ import annotations

import ast
import json
import os
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import programs_with_a_fault
from program_checks import equal_arrays

import eqsat as eq
from eqsat import engine
from eqsat.checking.foreign import Foreign
from eqsat.checking.part import distinct
from eqsat.checking.programs import check_programs
from eqsat.checking.verdict import CheckFailure
from eqsat.extraction import decode
from eqsat.graph.rebuild import rebuilt
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Compute, Constant, Node, Opaque, Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.testing import arrays_for, programs

X = eq.input("x", (5, 5), "float32")
TURNED = X.permute_dims((1, 0))


def program(*tensors: Tensor, inputs: list[Tensor] | None = None) -> Program:
    names = {f"out{k}": y for k, y in enumerate(tensors)}
    return Program(inputs or [X], names)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As users run it: what fails gives the input back. The folder is the cache."""
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_check_shares_no_code_with_what_it_checks() -> None:
    """It may use the language and its numpy meaning, and run models and onnx; it reads, searches, writes by itself."""
    allowed = (
        "eqsat.checking",
        "eqsat.ir",
        "eqsat.models.package",
        "eqsat.models.reference",
        "eqsat.models.guarded",
        "eqsat.backends.cache",
    )
    for file in sorted((Path(eq.__file__).parent / "checking").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith("eqsat") or name.startswith(allowed), f"{file.name} imports {name}"


# -- the miscompiles that were found, as pairs of programs ------------------------------------------------------------

Y = eq.input("y", (4, 6), "float32")
SYMBOL = eq.symbol("N", lower=1)
S = eq.input("s", (SYMBOL, 4), "float32")
WRONG: dict[str, tuple[Program, Program]] = {
    "a load at 0 of a view": (
        program(eq.compute((3,), lambda i: TURNED[0, i])), program(eq.compute((3,), lambda i: X[i, i])),
    ),
    "a load at 0 of a view, under a guard": (
        program(eq.compute((3,), lambda i: eq.where(i < 2, TURNED[0, i], 1.0))),
        program(eq.compute((3,), lambda i: eq.where(i < 2, X[i, i], 1.0))),
    ),
    "two loads at 0 taken for one": (
        program(eq.compute((3,), lambda i: X[0, i]), eq.compute((3,), lambda i: TURNED[0, i])),
        program(eq.compute((3,), lambda i: X[0, i]), eq.compute((3,), lambda i: X[0, i])),
    ),
    "a row of ones at 0 in a sum": (
        program(eq.compute((3,), lambda i, k: TURNED[0, k] * X[k, i], reduce=(5,))),
        program(eq.compute((3,), lambda i, k: X[0, k] * X[k, i], reduce=(5,))),
    ),
    "two equal extents swapped": (program(X.relu().permute_dims((1, 0))), program(X.relu())),
    "a transpose dropped inside": (
        program(TURNED.relu().flip((1,)).permute_dims((1, 0))), program(TURNED.relu().flip((1,))),
    ),
    "a crop off by one": (program(X.crop((1, 0), (4, 5)).relu()), program(X.relu().crop((0, 0), (4, 5)))),
    "a pad crosses exp": (program(X.pad(1, 0).exp()), program(X.exp().pad(1, 0))),
    "the sign of zero": (program(-X.pad(1, 0.0)), program((-X).pad(1, 0.0))),
    "NaN is not dropped by a maximum": (program(X.relu() - X.relu()), program(X * 0.0)),
    "a softmax along the other axis": (program(X.softmax(0)), program(X.softmax(1))),
    "integers do not divide back": (
        program(eq.compute((5, 5), lambda i, j: eq.cast(X[i, j], "int8") * 2 // 2)),
        program(eq.compute((5, 5), lambda i, j: eq.cast(X[i, j], "int8"))),
    ),
    "a symbolic size": (
        program(S.permute_dims((1, 0)).relu().permute_dims((1, 0)), inputs=[S]),
        program(S.relu().reshape((4, SYMBOL)).permute_dims((1, 0)), inputs=[S]),
    ),
    "an access out of range": (
        program(eq.compute((4,), lambda i: X[i, 0])),
        program(eq.compute((4,), lambda i: eq.where(X[0, 0] < 9e9, X[i + 1, 0], X[i, 0]))),  # pyright: ignore[reportUnknownLambdaType]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_found(name: str) -> None:
    before, after = WRONG[name]
    assert check_programs(before, after, 10.0).difference is not None
    assert check_programs(before, before, 10.0).difference is None


@pytest.mark.parametrize("taps", [3, 5, 13, 40, 1000])
def test_sizes_are_chosen_for_which_there_are_cells(taps: int) -> None:
    """Windows over an image of any size: where they do not fit, an extent would be less than 0."""
    left = SYMBOL - (taps - 1)
    before = program(eq.compute((left, 4), lambda i, j, r: S[i + r, j], reduce=(taps,)), inputs=[S])
    for step in (1, 2):
        turned = eq.compute((4, left), lambda j, i, r, step=step: S[i + r // step, j], reduce=(taps,))
        found = check_programs(before, program(turned.permute_dims((1, 0)), inputs=[S]))
        assert found.count("run") == 1 and (found.difference is None) == (step == 1)


def test_a_result_may_not_have_extents_below_zero_on_its_own() -> None:
    """Where the original has a value."""
    less = eq.compute((SYMBOL - 3, 4), lambda i, j: S[i, j])
    before = program(eq.compute((4,), lambda i: S[0, i] * 2.0), inputs=[S])
    known = S[0, 0] < 9e9
    chosen = eq.compute((4,), lambda i: eq.where(known, S[0, i] * 2.0, less[0, i]))  # pyright: ignore[reportUnknownLambdaType]
    after = program(chosen, inputs=[S])
    found = check_programs(before, after)
    assert found.difference is not None and "a shape becomes" in found.difference.problem


@pytest.mark.parametrize("reduce", [(), (3,)])
def test_an_empty_tensor_reads_nothing(reduce: tuple[int, ...]) -> None:
    """Also where its formula loads one place whatever the index is."""
    v = eq.input("v", (1,), "float32")

    def empty(x: Tensor, factor: float) -> Program:
        def body(*index: t.Term) -> t.Term:
            return x[()] * factor

        return program(eq.compute((0,), body, reduce=reduce), inputs=[v])

    result = check_programs(empty(v.reshape(()).exp(), 2.0), empty(v.relu().reshape(()), 3.0))
    assert len(result) and result.difference is None and not result.skipped


def test_interfaces_are_compared() -> None:
    other = eq.input("x", (5, 5), "float64")
    relu = program(X.relu())
    cases = {
        "the outputs": Program([X], {"other": X.relu()}),
        "the inputs": Program([X, Y], {"out0": X.relu()}),
        "input 'x'": Program([other], {"out0": other.cast("float32").relu()}),
        "output 'out0'": program(X.relu().reshape((1, 5, 5))),
    }
    for what, after in cases.items():
        found = check_programs(relu, after).difference
        assert found is not None and found.what == what


# -- refinement -------------------------------------------------------------------------------------------------------


def test_what_depends_on_a_hole_may_be_anything() -> None:
    padded = X.crop((0, 0), (3, 3)).pad(((0, 2), (0, 2)), eq.UNDEF)
    assert check_programs(program(padded), program(X)).difference is None
    assert check_programs(program(padded.relu()), program(X.relu())).difference is None
    assert check_programs(program(padded), program(X.flip((0,)))).difference is not None
    zeros = X.crop((0, 0), (3, 3)).pad(((0, 2), (0, 2)), 0)
    assert check_programs(program(zeros), program(padded)).difference is not None, "a hole of the result is none"


def test_an_assumption_holds_for_the_inputs() -> None:
    padded = X.crop((0, 0), (3, 3), cropped_value=0.0).pad(((0, 2), (0, 2)), 0.0)
    assert check_programs(program(padded), program(X)).difference is None
    turned = TURNED.crop((0, 0), (3, 3), cropped_value=0.0).pad(((0, 2), (0, 2)), 0.0)
    assert check_programs(program(turned), program(TURNED)).difference is None
    assert check_programs(program(turned), program(X)).difference is not None


def test_inputs_on_which_the_original_fails_are_drawn_anew() -> None:
    a, b = eq.input("a", (64,), "int32"), eq.input("b", (64,), "int32")
    quotient = eq.compute((64,), lambda i: a[i] // b[i])
    other = eq.compute((8, 8), lambda i, j: a[8 * i + j] // b[8 * i + j]).reshape((64,))
    swapped = eq.compute((64,), lambda i: b[i] // a[i])
    before = program(quotient + quotient * 0, inputs=[a, b])
    found = check_programs(before, program(other, inputs=[a, b]))
    assert found.difference is None and found.count("run") == 1
    assert check_programs(before, program(swapped, inputs=[a, b])).difference is not None


# -- operators that nobody can run ------------------------------------------------------------------------------------


def foreign(x: Tensor, roles: dict[str, str], pure: bool = True, **attrs: Any) -> Tensor:
    signature = eq.Signature.parse("a b c -> a b c", **roles)
    return eq.opaque("Foreign", [x], [(x.shape, x.dtype)], attrs=attrs, signature=signature, pure=pure)[0]


@pytest.mark.parametrize("pure", [True, False])
def test_an_operator_without_a_meaning_lets_through_what_its_signature_does(pure: bool) -> None:
    z = eq.input("z", (3, 3, 3), "float32")
    roles = {"map": "a", "equivariant": "c"}

    def crossed(order: tuple[int, ...] | None, flipped: tuple[int, ...]) -> bool:
        """Whether a permutation or a flip before the operator is the same after it."""
        layout: Callable[[Tensor], Tensor] = (
            (lambda y: y.flip(flipped)) if order is None else (lambda y: y.permute_dims(order))
        )
        before = program(foreign(layout(z), roles, pure), inputs=[z])
        after = program(layout(foreign(z, roles, pure)), inputs=[z])
        return check_programs(before, after).difference is None

    assert crossed(None, (0,)) and crossed(None, (2,)) and crossed(None, (0, 2))
    assert not crossed(None, (1,)), "a fixed axis stays as it is"
    assert not crossed((1, 0, 2), ()) and not crossed((0, 2, 1), ()) and not crossed((2, 1, 0), ())


def test_attributes_tell_operators_apart() -> None:
    z = eq.input("z", (3, 3, 3), "float32")
    same = program(foreign(z, {"map": "a b c"}, k=1).flip((0,)), inputs=[z])
    moved = program(foreign(z.flip((0,)), {"map": "a b c"}, k=1), inputs=[z])
    other = program(foreign(z.flip((0,)), {"map": "a b c"}, k=2), inputs=[z])
    assert check_programs(same, moved).difference is None
    assert check_programs(same, other).difference is not None


def test_random_operators_are_not_merged() -> None:
    z = eq.input("z", (3, 3, 3), "float32")
    one, two = foreign(z, {}, pure=False), foreign(z, {}, pure=False)
    assert check_programs(program(one - two, inputs=[z]), program(one - one, inputs=[z])).difference is not None
    again = foreign(z, {}, pure=False) - foreign(z, {}, pure=False)
    assert check_programs(program(one - two, inputs=[z]), program(again, inputs=[z])).difference is None


def test_a_reduced_axis_has_no_order_but_pairs() -> None:
    a, b = eq.input("a", (3, 4), "float32"), eq.input("b", (4, 5), "float32")
    signature = eq.Signature.parse("m k, k n -> m n", map="m n", reduce="k")

    def product(x: Tensor, y: Tensor) -> Tensor:
        return eq.opaque("Product", [x, y], [((3, 5), "float32")], signature=signature)[0]

    before = program(product(a, b), inputs=[a, b])
    both = program(product(a.flip((1,)), b.flip((0,))), inputs=[a, b])
    one = program(product(a.flip((1,)), b), inputs=[a, b])
    assert check_programs(before, both).difference is None
    assert check_programs(before, one).difference is not None
    assert Foreign(before.outputs["out0"].node, [(3, 4), (4, 5)], [(3, 5)], 0).inner > 4  # type: ignore[arg-type]


def test_a_users_implementation_is_called() -> None:
    signature = eq.Signature.parse("a b -> a b", map="a b")  # wrong: sums along b

    def cumulated(x: Any) -> Any:
        return np.cumsum(x, axis=1)

    def op(x: Tensor) -> Tensor:
        return eq.opaque("op", [x], [(x.shape, x.dtype)], signature=signature, impl=cumulated)[0]

    before = program(op(TURNED).permute_dims((1, 0)))
    assert check_programs(before, program(op(X))).difference is not None


# -- large and repeated -----------------------------------------------------------------------------------------------


def test_large_tensors_are_sampled_at_their_own_extents() -> None:
    z = eq.input("z", (1, 64, 512, 512), "float32")
    y = z.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    before = program(y, inputs=[z])
    found = check_programs(before, program(z.relu(), inputs=[z]), 10.0)
    assert [r.verdict for r in found] == ["run"] and found.seconds < 1
    for wrong in (z.relu().flip((1,)), z.relu().permute_dims((0, 1, 3, 2)), z.relu().roll(1, 3)):
        assert check_programs(before, program(wrong, inputs=[z]), 10.0).difference is not None


def test_equal_regions_are_checked_once() -> None:
    def chain(turned: bool) -> Program:
        y = X
        for _ in range(12):
            y = foreign2(y.permute_dims((1, 0)).relu().permute_dims((1, 0)) if turned else y.relu())
        return program(y)

    def foreign2(x: Tensor) -> Tensor:
        return eq.opaque("Block", [x], [(x.shape, x.dtype)])[0]

    found = check_programs(chain(True), chain(False))
    assert len(found) == 12 and found.count("proved") == 12
    assert sum(r.seconds > 1e-3 for r in found) <= 2


def test_what_does_not_fit_the_budget_is_said() -> None:
    big = eq.input("big", (4096, 4096), "float32")
    before = program(big.permute_dims((1, 0)).exp().sum((0, 1)), inputs=[big])
    found = check_programs(before, program(big.exp().sum((0, 1)), inputs=[big]), 0.1)
    assert [r.verdict for r in found] == ["neither"] and found.difference is None
    assert "budget" in found.regions[0].reason and found.seconds < 2
    assert "1 of 1 changed regions neither" in found.summary()


# -- what the caller sees ---------------------------------------------------------------------------------------------


def faulty(monkeypatch: pytest.MonkeyPatch, change: Callable[[Program], Program]) -> None:
    """Let the decoder make something else of what was found."""
    right = decode.Decoder.program

    def wrong(self: decode.Decoder, roots: Any) -> Program:
        return change(right(self, roots))

    monkeypatch.setattr(engine.Decoder, "program", wrong)


def turned(made: Program) -> Program:
    """A transpose behind every formula."""

    def change(node: Node) -> Node | None:
        if isinstance(node, Compute):
            gather = [t.ax(1, node.shape[1]), t.ax(0, node.shape[0])]
            return View(Tensor(node), node.shape, gather, t.TRUE, None)
        return None

    return rebuilt(made, change)


SQUARE = X.permute_dims((1, 0)).relu().permute_dims((1, 0))


def test_a_wrong_result_is_not_returned(quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, turned)
    result = eq.optimize(SQUARE)
    assert result.program.outputs["out"] is SQUARE and result.cost_after == result.cost_before > 0
    assert result.checked.difference is not None
    (note,) = [n for n in result.notes if "defect" in n]
    assert "output 'out'" in note and str(quiet) in note and note in result.explain()
    (report,) = (quiet / "reports").iterdir()
    assert str(report) in note
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(report.parent.stat().st_mode) == stat.S_IMODE(quiet.stat().st_mode) == 0o700
    content = json.loads(report.read_text())
    assert content["region"]["before"] and "float32(5, 5)" in report.read_text()


def test_a_report_holds_no_numbers_of_constants(quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = np.full((5, 5), 1234.5678, np.float32)
    faulty(monkeypatch, turned)
    result = eq.optimize((TURNED + eq.constant(secret)).permute_dims((1, 0)))
    assert result.checked.difference is not None
    (report,) = (quiet / "reports").iterdir()
    assert "1234" not in report.read_text() and "1234" not in " ".join(result.notes)


def test_debugging_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, turned)
    monkeypatch.setenv("EQSAT_DEBUG", "1")
    with pytest.raises(CheckFailure, match="output 'out'"):
        eq.optimize(SQUARE)


class PanicException(BaseException):
    """As egglog's: no Exception."""


@pytest.mark.parametrize("error", [IndexError("x"), KeyError((1,)), RecursionError(), PanicException("p")])
def test_a_failure_gives_the_input_back(error: BaseException, quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(made: Program) -> Program:
        raise error

    faulty(monkeypatch, fail)
    result = eq.optimize(SQUARE)
    assert result.program.outputs["out"] is SQUARE and result.cost_after == result.cost_before
    (note,) = result.notes
    assert type(error).__name__ in note and "reports" in note
    monkeypatch.setenv("EQSAT_DEBUG", "1")
    with pytest.raises(type(error)):
        eq.optimize(SQUARE)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_is_none_of_ours(error: BaseException, quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(made: Program) -> Program:
        raise error

    faulty(monkeypatch, fail)
    with pytest.raises(type(error)):
        eq.optimize(SQUARE)
    assert not (quiet / "reports").exists()


def test_no_report_without_a_cache(quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, turned)
    monkeypatch.setenv("EQSAT_CACHE", "off")
    assert "cache is off" in " ".join(eq.optimize(SQUARE).notes)


@pytest.mark.filterwarnings("ignore::eqsat.backends.cache.CacheWarning")
def test_no_report_where_others_can_write(quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, turned)
    quiet.mkdir()
    quiet.chmod(0o777)
    (note,) = [n for n in eq.optimize(SQUARE).notes if "defect" in n]
    assert "no report could be kept: others can write" in note and list(quiet.iterdir()) == []


def test_bad_options_are_the_callers(quiet: Path) -> None:
    with pytest.raises(eq.EqsatError, match="unknown target"):
        eq.optimize(SQUARE, target="cuda")


def test_the_check_is_told(tmp_path: Path) -> None:
    result = eq.optimize(SQUARE)
    assert [r.verdict for r in result.checked] == ["proved"]
    assert "checked: 1 of 1 changed regions proved" in result.explain()
    result.to_html(str(tmp_path / "r.html"))
    assert "changed regions proved" in (tmp_path / "r.html").read_text()
    assert os.path.exists(tmp_path / "r.html")
    assert eq.optimize(SQUARE, checked=False).checked.regions == ()


# -- campaigns --------------------------------------------------------------------------------------------------------


def reordered(p: Program) -> bool:
    return any(isinstance(n, Opaque) or (isinstance(n, Compute) and n.combiner in ("sum", "prod")) for n in p.nodes())


def differs(before: Program, after: Program) -> bool:
    """By the numpy meaning, on random inputs at full size; a program that has no value differs."""
    feeds = arrays_for(before, 7)
    with np.errstate(all="ignore"):
        expected = evaluate_outputs(before, feeds)
        try:
            found = evaluate_outputs(after, feeds)
        except eq.EqsatError:
            return True
    return not all(equal_arrays(a, found[name], not reordered(before)) for name, a in expected.items())


def campaign(p: Program, seed: int, count: int) -> None:
    result = eq.optimize(p, checked=False)
    assert check_programs(p, result.program, 10.0).difference is None
    for fault, wrong in programs_with_a_fault(result.program, Random(seed), count):
        if differs(p, wrong):
            found = check_programs(p, wrong, 10.0)
            assert found.difference is not None, f"{fault} is not found: {found.summary()}\n{p}\n{wrong}"


@pytest.mark.parametrize("number", [7, -3, 1000, 12345])
def test_inputs_hold_the_numbers_of_the_region(number: int) -> None:
    """A comparison with one number is told from that with the next, whatever the number is."""
    x = eq.input("x", (2, 2, 3), "int32")

    def below(n: int) -> Program:
        return program(eq.compute(x.shape, lambda i, j, k: x[i, j, k] < n), inputs=[x])

    assert check_programs(below(number), below(number), 10.0).difference is None
    assert check_programs(below(number), below(number + 1), 10.0).difference is not None


def test_inputs_hold_numbers_of_floats() -> None:
    y = eq.input("y", (4, 4), "float32")
    strict = program(eq.compute(y.shape, lambda i, j: eq.where(y[i, j] < 0.75, y[i, j], 0.0)), inputs=[y])
    loose = program(eq.compute(y.shape, lambda i, j: eq.where(y[i, j] <= 0.75, y[i, j], 0.0)), inputs=[y])
    assert check_programs(loose, strict, 10.0).difference is not None


@pytest.mark.parametrize("number", [1, 2, 5])
def test_inputs_hold_numbers_that_are_computed(number: int) -> None:
    """Of an equality with one number that no constant of the region is, in a few cells."""
    x = eq.input("x", (3, 2), "int8")

    def below(n: int) -> Program:
        twice = eq.compute(x.shape, lambda i, j: x[i, j] * 2 + n)
        return program(eq.compute(x.shape, lambda i, j: x[i, j] < twice[i, j]), inputs=[x])

    assert check_programs(below(number), below(number + 1), 10.0).difference is not None


def test_inputs_hold_equal_numbers() -> None:
    """Of two inputs too, although each of them has many."""
    x, y = eq.input("x", (4, 4, 4), "int8"), eq.input("y", (4, 4, 4), "int8")
    least = eq.compute(x.shape, lambda i, j, k: eq.minimum(x[i, j, k], x[i, j, 0]))
    equal = eq.compute(x.shape, lambda i, j, k: t.compare("eq", y[i, j, k], least[i, j, k]))

    def made(turned: bool) -> Program:
        def body(i: t.Term, j: t.Term, k: t.Term) -> t.Term:
            other = equal[k, 3, i] if turned else equal[i, 3, k]
            return t.compare("ne", equal[i, j, k], other)

        return program(eq.compute(x.shape, body), inputs=[x, y])

    assert check_programs(made(False), made(True), 10.0).difference is not None


@pytest.mark.parametrize("kinds", [("max", "min"), ("sum", "prod"), ("min", "sum")])
def test_a_reduction_of_nothing_has_a_kind(kinds: tuple[str, str]) -> None:
    """What no cell is read for is no proof that two reductions are one."""
    x = eq.input("x", (3, 4), "int32")

    def over_nothing(kind: str) -> Program:
        return program(eq.compute((3,), lambda i, k: x[i, k], reduce=(0,), combiner=kind), inputs=[x])

    assert check_programs(over_nothing(kinds[0]), over_nothing(kinds[1]), 10.0).difference is not None
    assert check_programs(over_nothing(kinds[0]), over_nothing(kinds[0]), 10.0).difference is None


TYPES = ("float32", "float16", "int32", "int8")


@settings(max_examples=25)
@given(programs(max_ops=8, dtypes=TYPES), st.integers(0, 1 << 30))
def test_every_fault_that_changes_a_value_is_found(p: Program, seed: int) -> None:
    campaign(p, seed, 4)


@pytest.mark.slow
@settings(max_examples=3000)
@given(programs(max_ops=12, dtypes=(*TYPES, "float64")), st.integers(0, 1 << 30))
def test_many_faults_are_found(p: Program, seed: int) -> None:
    campaign(p, seed, 6)


def test_constants_of_one_content_are_one() -> None:
    """A constant in another shape, or copied, is no other constant; one number off is."""
    numbers = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    before = program((TURNED + eq.constant(numbers)).permute_dims((1, 0)))
    flat = eq.constant(numbers.reshape(25).copy()).reshape((5, 5))
    after = program((TURNED + flat).permute_dims((1, 0)))
    assert check_programs(before, after).difference is None
    other = numbers.copy()
    other[4, 4] = np.nextafter(other[4, 4], np.float32(9))
    wrong = program((TURNED + eq.constant(other)).permute_dims((1, 0)))
    assert check_programs(before, wrong).difference is not None
    assert isinstance(eq.constant(numbers).node, Constant)


HUGE = [(300_000_007, 3), (2**31, 4), (3_037_000_500, 3_037_000_500), (2**40, 2**30)]


@pytest.mark.parametrize("shape", HUGE)
def test_axes_of_any_extent_are_checked_at_a_few_positions(shape: tuple[int, int]) -> None:
    """In no time and memory; where cells have no numbers of 64 bits, nothing is said, and that is said."""
    x = eq.input("x", shape, "float32")
    first, memory = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = eq.optimize(x.permute_dims((1, 0)).relu().permute_dims((1, 0)))
    assert found.cost_after == 0 and found.checked.difference is None
    assert found.checked.count("neither") == 0 or any("64 bits" in note for note in found.notes)
    assert time.thread_time() - first < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 500_000  # kilobytes


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("shape", [(0,), (1,), (12,), (30, 40)])
def test_the_positions_that_occur(size: int, shape: tuple[int, ...]) -> None:
    """By flags where many are asked for, by sorting where few are."""
    places = np.random.default_rng(size).integers(0, size, shape)
    np.testing.assert_array_equal(distinct(places, size), np.unique(places))

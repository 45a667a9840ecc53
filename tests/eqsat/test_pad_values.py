"""Padded tensors through the whole engine: every reading agrees with numpy, and what may cancel cancels, only that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir import program_from_json, program_to_json
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.terms.term import Term
from eqsat.result import Result
from eqsat.testing import arrays_for

PadValue = Callable[[eq.Tensor], Any]


def two(f: Callable[[eq.Term, eq.Term], Any]) -> Any:
    return f


def corner(x: eq.Tensor) -> Any:
    return two(lambda io, ii: io + ii)


def wrapped(x: eq.Tensor) -> Any:
    return two(lambda io, ii: x[(4 * io + ii) % 14])


def mixed(x: eq.Tensor) -> Any:
    return two(lambda io, ii: eq.where(ii < 3, x[0] + x[1], x[13]))  # pyright: ignore[reportUnknownLambdaType]


# name -> (dtype, pad value, what the cells (3,2) and (3,3) hold where a = 1, 2, ..., 14)
KINDS: dict[str, tuple[str, PadValue, list[Any]]] = {
    "constant": ("float32", lambda x: 0.5, [0.5, 0.5]),  # feature: D5
    "an int in a float tensor": ("float32", lambda x: 3, [3, 3]),  # feature: D5
    "negative zero": ("float32", lambda x: -0.0, [-0.0, -0.0]),
    "nan": ("float32", lambda x: float("nan"), [np.nan, np.nan]),
    "minus infinity": ("float16", lambda x: -np.inf, [-np.inf, -np.inf]),
    "int8": ("int8", lambda x: -128, [-128, -128]),
    "bool": ("bool", lambda x: True, [True, True]),
    "function": ("float64", corner, [5, 6]),  # feature: D6
    "function in int16": ("int16", corner, [5, 6]),  # feature: D6
    "undefined": ("float32", lambda x: eq.UNDEF, [0, 0]),  # feature: D7
    "wrap-around": ("float32", wrapped, [1, 2]),  # feature: D8
    "formula": ("int32", mixed, [3, 14]),  # feature: D8
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_reading_agrees_with_numpy(kind: str) -> None:
    """One padded layout, then a second one with its own value: numpy, JSON, the optimum and the C kernel."""
    # feature: D14
    dtype, pad_value, cells = KINDS[kind]
    x, a = eq.input("x", (14,), dtype), (np.arange(14) + 1).astype(dtype)
    y = x.layout_transform("i -> i//4, i%4", pad_value=pad_value(x))
    second: Any = False if dtype == "bool" else 7
    z = y.layout_transform("i, j -> i, j//8, j%8", pad_value=second)
    expected: NDArray = np.full((4, 1, 8), second, dtype)
    expected[:, 0, :4] = np.append(a, np.array(cells, dtype)).reshape(4, 4)
    program = eq.Program([x], {"z": z})
    readings = {
        "numpy": eq.evaluate(program, {"x": a}, undef=0),
        "json": eq.evaluate(program_from_json(program_to_json(program)), {"x": a}, undef=0),
        "optimised": eq.evaluate(eq.optimize(program, target="c").program, {"x": a}, undef=0),
        "numpy target": eq.compile(program, target="numpy")(x=a),
        "c": eq.compile(program)(x=a),
    }
    for name, found in readings.items():
        assert found.dtype == expected.dtype and np.array_equal(found, expected, equal_nan=dtype[0] == "f"), name
        if dtype[0] == "f":
            assert np.array_equal(np.signbit(found[..., :4]), np.signbit(expected[..., :4])), name
    assert str(program).count("layout_transform") == 2


def test_the_padding_survives_json() -> None:  # feature: D11
    x = eq.input("x", (14,), "float32")
    program = eq.Program([x], {"y": x.layout_transform("i -> i//4, i%4", pad_value=wrapped(x))})
    found = program_from_json(program_to_json(program)).outputs["y"].padding
    assert found is not None and str(found.by_digits(["io", "ii"])) == "io == 3 and 2 <= ii"
    assert str(found.value) == "x[(4*i0 + i1) % 14]"


def test_predicates_are_equal_in_both_forms() -> None:  # feature: D11 D17
    for predicate, digits in (
        ("4*io + ii < 14", "not (io == 3 and ii >= 2)"),
        ("14 <= 4*io + ii", "io == 3 and ii >= 2"),
    ):
        a, b = eq.parse_expr(predicate), eq.parse_expr(digits)
        assert str(eq.simplify(b, {"io": 4, "ii": 4})) == str(eq.simplify(a, {"io": 4, "ii": 4})) == predicate


# -- crop and pad -----------------------------------------------------------------------------------------------------

X = eq.input("x", (6, 6), "float32")
N, H = eq.input("n", (4,), "int8"), (2, 2)


def best(y: eq.Tensor | eq.Program) -> Result:
    """The optimum, after checking it on random arrays: bit by bit, and never worse."""
    program = y if isinstance(y, eq.Program) else eq.Program([X], {"out": y})
    result = eq.optimize(program, target="c")
    feeds = arrays_for(program)
    with np.errstate(all="ignore"):
        before, after = evaluate_outputs(program, feeds, undef=0), evaluate_outputs(result.program, feeds, undef=0)
    for name, array in before.items():
        assert np.array_equal(array, after[name], equal_nan=True), name
    assert result.cost_after <= result.cost_before
    return result


def pad(x: eq.Tensor, value: Any = 0.0) -> eq.Tensor:
    return x.pad(1, value)


def crop(x: eq.Tensor) -> eq.Tensor:
    return x.crop((1, 1), (6, 6))


CROP_PAD: dict[str, Callable[[], eq.Tensor]] = {
    "the cropped cells were padded with the same value": lambda: pad(crop(pad(X))),
    "a function that keeps the value": lambda: pad(crop(pad(X).relu())),
    "a chain that brings the value back": lambda: pad(crop((pad(X, 3.0) - 3.0).relu())),
    "another value": lambda: pad(crop(pad(X, 1.0)), 0.0),
    "a function that changes it": lambda: pad(crop(pad(X).exp())),
    "zero of the other sign": lambda: pad(crop(pad(X, -0.0)), 0.0),
}


@pytest.mark.parametrize("case", CROP_PAD)
def test_pad_after_crop(case: str) -> None:  # feature: D16 G7
    """Always one pad is left: of the value itself where the cropped cells hold it, of the interior where not."""
    result = best(CROP_PAD[case]())
    assert result.layout_ops == 1 and result.bytes_moved == 4 * (64 + 36)


def test_what_cancels_is_proved() -> None:  # feature: D16 G7
    """With the padded value itself an output too, cancelling means: one tensor, stored once."""
    kept = pad(X).relu()
    same = best(eq.Program([X], {"kept": kept, "again": pad(crop(kept))}))
    assert same.program.outputs["kept"] == same.program.outputs["again"]
    assert any(o.proof.verdict == "proved" for o in same.obligations)
    for changed in (pad(X).exp(), pad(X, 1.0).relu(), pad(X, -0.0), pad(X, float("nan"))):
        other = best(eq.Program([X], {"kept": changed, "again": pad(crop(changed))}))
        assert other.program.outputs["kept"] != other.program.outputs["again"]


def test_a_program_input_never_cancels() -> None:  # feature: D16 G7
    whole = eq.input("x", (8, 8), "float32")
    for value in (0.0, float("nan")):
        result = best(eq.Program([whole], {"out": crop(whole).pad(1, value)}))
        assert result.layout_ops > 0 and result.bytes_moved > 0


def test_a_hint_on_an_input_is_checked_and_recorded() -> None:  # feature: G3
    whole = eq.input("x", (8, 8), "float32")
    y = whole.crop((1, 1), (6, 6), cropped_value=0.0).relu()
    good, bad = np.zeros((8, 8), "float32"), np.ones((8, 8), "float32")
    good[1:7, 1:7] = 5
    assert np.array_equal(eq.evaluate(y, {"x": good}), good[1:7, 1:7])
    with pytest.raises(eq.EqsatError, match="cropped"):
        eq.evaluate(y, {"x": bad})
    undefined = whole.crop((1, 1), (6, 6), cropped_value=eq.UNDEF)
    assert np.array_equal(eq.evaluate(undefined, {"x": bad}), bad[1:7, 1:7])


def test_a_hint_is_used_and_reported_where_it_pays() -> None:  # feature: G3
    """What is cropped is put back as it was said to be, through what is between; the result says what it assumed."""
    whole = eq.input("x", (8, 8), "float32")
    part, plain = whole.crop((1, 1), (6, 6), cropped_value=0.0), whole.crop((1, 1), (6, 6))
    for y in (pad(part), pad(part.relu()), pad(pad(part).relu().crop((1, 1), (6, 6)))):
        result = eq.optimize(y)
        assert result.layout_ops == 0 and result.assumptions == ("x holds float32(0.0) outside of [1:7, 1:7]",)
        assert any("assumed" in note for note in result.notes) and "assumed" in result.summary()
        x = np.pad(np.arange(-18, 18, dtype="float32").reshape(6, 6), 1)
        assert np.array_equal(eq.evaluate(y, {"x": x}), eq.evaluate(result.program, {"x": x}))
    for y in (
        pad(plain),
        pad(part, -0.0),
        pad(part.exp()),
        part.relu(),
        pad(whole.crop((1, 1), (6, 6), cropped_value=eq.UNDEF)),
    ):
        result = eq.optimize(y)
        assert result.program is result.original and not result.assumptions


def test_a_hint_that_is_proved_is_no_assumption() -> None:  # feature: G3
    result = best(pad(pad(X).relu().crop((1, 1), (6, 6), cropped_value=0.0)))
    assert result.layout_ops == 1 and not result.assumptions


def test_a_hint_is_about_bits() -> None:  # feature: G3
    y = eq.input("x", (3,), "float32").crop((1,), (2,), cropped_value=0.0)
    with pytest.raises(eq.EqsatError, match="cropped"):
        eq.evaluate(y, {"x": np.array([-0.0, 1, 2], "float32")})


def test_a_hole_of_the_program_may_be_filled_once() -> None:  # feature: G7
    """pad(UNDEF) cropped and padded with 0: the hole becomes that zero. An input's own cells are no hole."""
    filled = best(pad(crop(pad(X, eq.UNDEF).relu())))
    assert filled.layout_ops == 1 and filled.bytes_moved == 4 * (64 + 36)
    kept = pad(X, eq.UNDEF)
    both = eq.Program([X], {"zeros": pad(crop(kept), 0.0), "ones": pad(crop(kept), 1.0)})
    found = evaluate_outputs(best(both).program, {"x": np.zeros((6, 6), "float32")}, undef=9)
    assert found["zeros"][0, 0] == 0 and found["ones"][0, 0] == 1


def test_crop_after_pad() -> None:  # feature: G6
    layouts = [((1, 1), (6, 6), 0, 0), ((0, 1), (8, 6), 1, 36 + 48), ((2, 2), (3, 3), 1, 2 * 9), ((0, 0), (1, 8), 0, 0)]
    for start, size, ops, cells in layouts:
        result = best(pad(X).crop(start, size))
        assert (result.layout_ops, result.bytes_moved) == (ops, 4 * cells), (start, size)


# -- round trips of layouts -------------------------------------------------------------------------------------------


def image(channels: int) -> eq.Tensor:
    return eq.input("x", (2, channels, 3, 3), "float32")


def test_packing_and_unpacking_whole_blocks_cancels() -> None:  # feature: G5
    x = image(32)
    y = x.layout_transform("NCHW", "NCHW16c").layout_transform("NCHW16c", "NCHW8c").layout_transform("NCHW8c", "NCHW")
    assert best(eq.Program([x], {"out": y})).layout_ops == 0


def test_a_padded_round_trip_needs_its_crop() -> None:  # feature: F7 G6
    x = image(30)
    packed = x.layout_transform("NCHW", "NCHW16c", pad_value=0)
    unpacked = packed.layout_transform("NCHW16c", "NCHW")
    assert unpacked.shape == (2, 32, 3, 3), "the padding is visible"
    assert best(eq.Program([x], {"out": unpacked.crop((0, 0, 0, 0), (2, 30, 3, 3))})).layout_ops == 0
    left = best(eq.Program([x], {"out": unpacked}))
    assert left.layout_ops == 1 and left.bytes_moved == 4 * (2 * 9) * (30 + 32), "one pad of the channels"


def again(packed: eq.Tensor, value: float, explicit: bool) -> eq.Tensor:
    """Unpack 32 channels, keep 30, and pack them again: with a pad of its own, or one that the layout implies."""
    logical = packed.layout_transform("NCHW16c", "NCHW").crop((0, 0, 0, 0), (2, 30, 3, 3))
    if explicit:
        return logical.pad(((0, 0), (0, 2), (0, 0), (0, 0)), value).layout_transform("NCHW", "NCHW16c")
    return logical.layout_transform("NCHW", "NCHW16c", pad_value=value)


@pytest.mark.parametrize("explicit", [True, False])
def test_packing_what_was_unpacked_and_cropped(explicit: bool) -> None:  # feature: D16 G7
    """pack(crop(unpack(p))) is p only where the padding of p is proved to hold the same value."""
    x = image(30)
    packed = x.pad(((0, 0), (0, 2), (0, 0), (0, 0))).layout_transform("NCHW", "NCHW16c")
    for made, value, equal in (
        (packed.relu(), 0.0, True), (packed.exp(), 1.0, True), (packed.exp(), 0.0, False), (packed.relu(), 1.0, False),
        (-packed, 0.0, False),
    ):  # fmt: skip
        result = best(eq.Program([x], {"packed": made, "again": again(made, value, explicit)}))
        merged = result.program.outputs["packed"] == result.program.outputs["again"]
        assert merged == equal if explicit else not (merged and not equal)
    given = eq.input("x", (2, 2, 3, 3, 16), "float32")
    left = best(eq.Program([given], {"out": again(given, 0.0, explicit)}))
    assert left.layout_ops > 0, "an input's cells are not known"


# -- the boundary of a compiled call ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["c", "numpy"])
def test_wrong_arguments_are_refused_before_anything_runs(target: str) -> None:  # feature: B13
    a = eq.input("A", (4, 8), "float32")
    kernel = eq.compile(a.relu(), target=target)
    good = np.zeros((4, 8), "float32")
    for bad in (np.zeros((4, 9), "float32"), np.zeros((4, 8), "float64"), np.zeros(32, "float32"), None):
        with pytest.raises(eq.EqsatError, match="A"):
            kernel(A=bad)
    with pytest.raises(eq.EqsatError):
        kernel(B=good)
    out = np.full((4, 9), 5, "float32")
    with pytest.raises(eq.EqsatError):
        kernel(A=good, out=out)
    assert (out == 5).all() and np.array_equal(kernel(A=good[:, ::-1]), good)


def cell(source: eq.Buffer, column: int, row: int | None = None) -> Callable[[Term, Term, Term], Term]:
    """A pad value: one cell of each row, or of one row."""

    def value(i: Term, _j: Term, _k: Term) -> Term:
        return source[i if row is None else row, column]

    return value


@pytest.mark.parametrize("first", [None, eq.UNDEF])
def test_a_pad_value_may_not_read_padding_that_holds_nothing_known(first: Any) -> None:  # feature: D4
    b = eq.Buffer("b", (14,), "int32").transform_layout("i -> i//4, i%4", pad_value=first)
    with pytest.raises(EqsatError, match=r"undefined at the padding cell \(3, 1, 1\)"):
        b.transform_layout("i, j -> i, j//3, j%3", pad_value=cell(b, 3))
    read = b.transform_layout("i, j -> i, j//3, j%3", pad_value=cell(b, 3, 0))
    assert read.padding is not None and len(read.padding.steps) == 2
    zeros = eq.Buffer("b", (14,), "int32").transform_layout("i -> i//4, i%4", pad_value=0)
    zeros.transform_layout("i, j -> i, j//3, j%3", pad_value=cell(zeros, 3))


def test_a_pad_value_over_symbols_may_not_read_padding_that_holds_nothing_known() -> None:  # feature: D4
    n = eq.symbol("N", 1)
    b = eq.Buffer("b", (n,), "int32").transform_layout("i -> i//4, i%4", pad_value=None)
    with pytest.raises(EqsatError, match="may read padding of b that has no value"):
        b.transform_layout("i, j -> i, j//3, j%3", pad_value=cell(b, 3))
    b.transform_layout("i, j -> i, j//3, j%3", pad_value=cell(b, 0, 0))


def test_a_pad_value_reads_its_source_by_its_rank() -> None:
    func = eq.PrimFunc.parse("func f(A: int32[14], B: int32[14])\n  for i in 14:\n    B[i] = A[i]")
    with pytest.raises(EqsatError, match="reads B at 2 indices"):
        eq.Schedule(func).transform_layout("B", "i->i//4,i%4", "B[3, 3]", interface="free")

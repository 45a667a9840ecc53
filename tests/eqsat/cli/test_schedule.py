"""`eqsat schedule`: prints, takes steps, refuses with the program at the place, checks, lowers and runs."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat.cli.schedule
from eqsat.backends.compile import compile
from eqsat.cli import main
from eqsat.ir.dtypes import NDArray, as_dtype
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps

ROWS = """\
func rows(A: int32[16, 14], B: int32[16])
  for i in 16:
    B[i] = int32(0)
    reduce for j in 14:
      B[i] = B[i] + A[i, j]
"""
PADDED = """\
transform_layout('A', 'i, j -> i, j//4, j%4', pad_value=0, interface='free')
jo, ji = split('j', [None, 4], ['jo', 'ji'])
remove_branching_through_overcompute('4*jo + ji < 14')
"""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a function and steps for it; the name of the function's file."""
    monkeypatch.chdir(tmp_path)
    Path("rows.txt").write_text(ROWS)
    Path("steps.txt").write_text(PADDED)
    return "rows.txt"


def test_a_function_is_printed_and_written_as_json(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", rows]) == 0
    assert capsys.readouterr().out == ROWS
    assert main(["schedule", rows, "-o", "rows.json"]) == 0
    func = PrimFunc.from_json(Path("rows.json").read_text())
    capsys.readouterr()
    assert str(func) + "\n" == ROWS and main(["schedule", "rows.json"]) == 0
    assert capsys.readouterr().out == ROWS


def test_steps_are_taken_checked_run_and_kept(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", rows, "--steps", "steps.txt", "--check"]) == 0
    shown = capsys.readouterr().out
    assert "B[i] = B[i] + A[i, jo, ji]\n" in shown and "if 4*jo" not in shown.partition("\n\n")[0]
    assert "check: the same on 3 arguments" in shown
    again = Schedule(PrimFunc.parse(ROWS.rstrip()))
    take_steps(again, PADDED)
    assert str(again.func) == shown.partition("\n\n")[0]
    # What was printed is steps again.
    Path("printed.txt").write_text(shown.split("\n\n")[1])
    assert main(["schedule", rows, "--steps", "printed.txt"]) == 0
    assert capsys.readouterr().out.partition("\n\n")[0] == str(again.func)


def test_a_loop_that_may_not_run_at_once_as_it_is_written_is_refused(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(rows).write_text(ROWS.replace("  for i", "  parallel for i"))
    assert main(["schedule", rows]) == 0
    Path(rows).write_text(ROWS.replace("  reduce for j", "  parallel for j"))
    capsys.readouterr()
    assert main(["schedule", rows]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("refused: parallel loop j: ") and "meet in B[0]" in shown
    assert ">     parallel for j in 14:" in shown
    data = "func f(k: int64[8], x: int8[8])\n  parallel for i in 8:\n    x[cast(k[i], 'index')] = int8(1)"
    Path(rows).write_text(data)
    assert main(["schedule", rows]) == 0
    assert "i: not proved that its iterations may run at once" in capsys.readouterr().out


def test_a_refused_step_shows_the_program_at_the_place(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", rows, "-s", "parallel('j')"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("refused: line 1: parallel run of loop j: ") and "meet in B[0]" in shown
    assert ">     reduce for j in 14:\n>       B[i] = B[i] + A[i, j]" in shown and "  func rows" in shown
    for step in ("transform_layout('A', 'i j -> ')", "assume('A[0, 0')"):  # no step was begun
        assert main(["schedule", rows, "-s", step]) == 1 and "  func rows" in capsys.readouterr().out
    assert main(["schedule", rows, "-s", "parallel('i')", "-s", "parallel('j')", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["witness"]["buffer"] == "B" and data["trace"] == ["parallel(loop='i')"]


@pytest.mark.parametrize(
    ("step", "code", "message"),
    [
        ("split('k', [2])", 1, "there is no loop 'k'"),
        ("unknown('i')", 2, "there is no primitive unknown"),
        ("split('i', factors=f(2))", 2, "neither a literal nor UNDEF"),
        ("split('i'", 2, "is no call"),
        ("split('i', [2, None], 3, 4)", 2, "line 1: split"),
        ("split('i', factors=[None, 4], factors=[2, 8])", 2, "line 1: factors= stands twice"),
        ("split('i', [4.0, None])", 1, "4.0 is not an integer"),
        ("transform_layout('A', 'i, j -> j, i', interface='Free')", 1, "is none of 'fixed', 'free'"),
        ("a, b = split('i', [2, None])", 1, "split makes i_0, i_1, not a, b"),
        ("remove_branching_through_overcompute('4*')", 1, "expression"),
    ],
)
def test_what_is_no_step_is_said(
    rows: str, step: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", rows, "-s", step]) == code
    found = capsys.readouterr()
    assert message in (found.out if code == 1 else found.err)


# feature: E1
def test_an_assumption_that_cannot_hold_is_an_error(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    for assume in ("assume 1 == 2", "for i in 16:\n    assume i > 20"):
        Path("never.txt").write_text(ROWS + f"  {assume}\n")
        for more in ([], ["--target", "c"]):
            assert main(["schedule", "never.txt", *more]) == 2
            assert "can never hold" in capsys.readouterr().err


def test_it_is_lowered(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", rows, "--steps", "steps.txt", "--target", "c", "-o", "rows.c", "--check"]) == 0
    assert capsys.readouterr().out.count("as the interpreter has it") == 2
    source = Path("rows.c").read_text()
    loops = source.partition("static void run")[2].partition("\n}\n")[0]
    assert "for (" in loops and "if (" not in loops
    assert main(["schedule", rows, "--target", "fortran"]) == 2
    assert "not one of c, opencl" in capsys.readouterr().err


def test_sizes_and_arguments_are_given(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("n.txt").write_text(
        "func f(x: int8[N])\n  symbol N\n  for i in N:\n    assume x[i] == int8(1)\n    x[i] = x[i]\n"
    )
    assert main(["schedule", "n.txt", "--check"]) == 2
    assert "--shape N=SIZE" in capsys.readouterr().err
    assert main(["schedule", "n.txt", "--check", "--shape", "N=3"]) == 2
    assert "does not hold" in capsys.readouterr().err
    np.savez("ones.npz", x=np.ones(3, "int8"))
    assert main(["schedule", "n.txt", "--check", "--inputs", "ones.npz", "-s", "remove_no_op()"]) == 0
    assert "check: the same on 1 arguments" in capsys.readouterr().out


def test_a_wrong_file_is_bad_input(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.txt").write_text(ROWS.replace("B[i] = int32(0)", "B[i, 0] = int32(0)"))
    assert main(["schedule", "bad.txt"]) == 2
    assert "B" in capsys.readouterr().err
    assert main(["schedule", "missing.txt"]) == 2 and main(["schedule", rows, "--inputs", "x.npz", "--check"]) == 2


A: NDArray = np.arange(16 * 14, dtype="int32").reshape(16, 14)


def test_outputs_may_be_left_out(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("a.npz", A=A)
    for target in ([], ["--target", "c"]):
        assert main(["schedule", rows, "--inputs", "a.npz", "--check", *target]) == 0
        assert "check: the same on 1 arguments" in capsys.readouterr().out
    Path("part.txt").write_text("func f(x: int8[4], y: int8[4])\n  for i in 3:\n    y[i] = x[i]")
    np.savez("x.npz", x=np.ones(4, "int8"))
    assert main(["schedule", "part.txt", "--inputs", "x.npz"]) == 2
    assert "there is no array 'y', and what y held before matters at y[3]" in capsys.readouterr().err


def _pickled() -> None:
    np.savez("in.npz", A=np.array([None, A], dtype=object))


def _damaged() -> None:
    np.savez("in.npz", A=A)
    data = Path("in.npz").read_bytes()
    Path("in.npz").write_bytes(data[:200] + b"zzzz" + data[204:])


def _no_array() -> None:
    with zipfile.ZipFile("in.npz", "w") as archive:
        archive.writestr("A.npy", "text")


def _single() -> None:
    with Path("in.npz").open("wb") as file:
        np.save(file, A)


INPUTS: dict[str, tuple[Callable[[], Any], str]] = {
    "missing": (lambda: np.savez("in.npz", B=np.zeros(16, "int32")), "there is no array 'A'"),
    "unknown": (lambda: np.savez("in.npz", A=A, X=A), "there is no parameter 'X' (parameters are A, B)"),
    "type": (lambda: np.savez("in.npz", A=A.astype("float64")), "A is float64, expected int32"),
    "shape": (lambda: np.savez("in.npz", A=A[:3]), "A has shape (3, 14), expected (16, 14)"),
    "rank": (lambda: np.savez("in.npz", A=A[0]), "A has shape (14,), not of 2 axes"),
    "pickled": (_pickled, "A holds Python objects"),
    "text": (lambda: Path("in.npz").write_text("A"), "is no .npz file"),
    "npy": (_single, "is no .npz file"),
    "damaged": (_damaged, "A is broken"),
    "no array": (_no_array, "A is no array"),
    "no file": (lambda: None, "cannot be read: No such file"),
    "folder": (lambda: Path("in.npz").mkdir(), "cannot be read: Is a directory"),
}


@pytest.mark.parametrize("check", [[], ["--check"]])
@pytest.mark.parametrize("case", INPUTS)
def test_arguments_that_do_not_fit_are_said(
    rows: str, case: str, check: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = INPUTS[case]
    make()
    assert main(["schedule", rows, "--inputs", "in.npz", *check, "--outputs", "out.npz"]) == 2
    assert f"--inputs in.npz: {message}" in capsys.readouterr().err and not Path("out.npz").exists()


@pytest.mark.parametrize("target", [[], ["--target", "c"]])
def test_it_is_run(rows: str, target: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In the layout of the file, whatever steps do, and whatever the order of the bytes in the arguments."""
    np.savez("a.npz", A=np.asfortranarray(A.astype(">i4")))
    moved = "transform_layout('B', 'i -> i//4, 3 - i%4', interface='free')"
    who = target[1] if target else "interpreter"
    for steps in ([], ["-s", "steps.txt", "-s", moved]):
        assert main(["schedule", rows, *steps, *target, "--inputs", "a.npz", "--outputs", "out.npz"]) == 0
        assert f"{who}: B int32[16] 91 287 483 679 875 1071 1267 1463 ...\nwritten: out.npz" in capsys.readouterr().out
        with np.load("out.npz") as found:
            assert found.files == ["B"] and found["B"].tolist() == A.sum(1).tolist()
    assert main(["schedule", rows, *target, "--inputs", "a.npz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["B"]["first"][:2] == [91, 287]


def test_arrays_lie_as_they_are_declared(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ml_dtypes")
    assert as_dtype("bfloat16")
    Path("strided.txt").write_text(
        """\
func f(x: int32[N, 6], file: int32[N, 6] strides [8, 1] offset [2], v: bfloat16[2])
  symbol N lower 0
  for i in N:
    for j in 6:
      file[i, j] = x[i, j] + int32(1)
  v[0] = v[1]
"""
    )
    for n in (2, 0):
        x = np.arange(6 * n, dtype="int32").reshape(n, 6)
        np.savez("x.npz", x=x, v=np.ones(2, "float32").astype("bfloat16"))
        for more in (["--check"], []):
            arguments = ["--inputs", "x.npz", "--target", "c", "--outputs", "out.npz", *more]
            assert main(["schedule", "strided.txt", *arguments]) == 0, capsys.readouterr().err
            with np.load("out.npz") as found:
                assert found.files == ["file", "v"] and (found["file"] == x + 1).all()
    np.savez("again.npz", x=x, v=np.load("out.npz")["v"])
    assert main(["schedule", "strided.txt", "--inputs", "again.npz"]) == 0
    assert "interpreter: v bfloat16[2] 1 1" in capsys.readouterr().out


def test_results_need_arguments_and_a_place(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("a.npz", A=A)
    given = ["schedule", rows, "--inputs", "a.npz"]
    for arguments, message in (
        (["schedule", rows, "--outputs", "out.npz"], "give arguments with --inputs"),
        ([*given, "--outputs", "no/out.npz"], "cannot be written: there is no folder"),
        ([*given, "--outputs", "out", "-o", "out"], "is the name of the outputs too"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
    Path("open.txt").write_text("func f(x: int8[4])\n  if x[0]//x[1] == int8(1):\n    x[0] = x[1]")
    np.savez("zero.npz", x=np.zeros(4, "int8"))
    assert main(["schedule", "open.txt", "--inputs", "zero.npz"]) == 2
    assert "f has no meaning on the arguments" in capsys.readouterr().err


def test_freed_elements_are_counted(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("hole.txt").write_text("func f(y: int8[4])\n  for i in 2:\n    y[i] = hole(1, 'int8', i)")
    np.savez("y.npz", y=np.ones(4, "int8"))
    assert main(["schedule", "hole.txt", "--inputs", "y.npz"]) == 0
    assert "(2 elements may hold anything)" in capsys.readouterr().out


def test_sizes_may_be_zero_where_they_are_declared_so(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "func f(x: int8[N])\n  symbol N{}\n  for i in N:\n    x[i] = -x[i]"
    Path("zero.txt").write_text(text.format(" lower 0"))
    Path("one.txt").write_text(text.format(""))
    assert main(["schedule", "zero.txt", "--check", "--target", "c", "--shape", "N=0"]) == 0
    assert "c: x int8[0] as the interpreter has it" in capsys.readouterr().out
    for file, size, message in (
        ("one.txt", "N=0", "0 breaks 1 <= N"),
        ("one.txt", "N=-1", "is not NAME=SIZE with a size"),
        ("zero.txt", "M=1", "no symbol is M"),
    ):
        assert main(["schedule", file, "--shape", size]) == 2
        assert message in capsys.readouterr().err


def test_functions_of_a_library_may_differ_in_the_last_digits(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    for dtype, name in (("float32", "exp"), ("float32", "sin"), ("float64", "tanh")):
        Path("f.txt").write_text(
            f"func f(x: {dtype}[40], y: {dtype}[40], n: int32[1])\n"
            f"  for i in 40:\n    y[i] = {name}(x[i])\n  n[0] = n[0]"
        )
        x = np.linspace(-2, 2, 40).astype(dtype)
        np.savez("x.npz", x=x, n=np.zeros(1, "int32"))
        assert main(["schedule", "f.txt", "--inputs", "x.npz", "--check", "--target", "c", "-o", "f.c"]) == 0
        shown = capsys.readouterr().out
        assert f"c: y {dtype}[40] as the interpreter has it, but for the last digits of {name}\n" in shown
        assert "c: n int32[1] as the interpreter has it\n" in shown


class _Negated:
    """A kernel that is wrong in the sign of zeros."""

    def __init__(self, func: PrimFunc, target: str) -> None:
        self.right: Any = compile(func, target=target)
        self.source = self.right.source

    def __call__(self, arrays: dict[str, NDArray]) -> None:
        self.right(arrays)
        for array in arrays.values():
            array[array == 0] *= -1


@pytest.mark.parametrize("call", ["", "exp", "sqrt"])
def test_the_sign_of_zero_is_compared(
    rows: str, call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(eqsat.cli.schedule, "compile", _Negated)
    Path("f.txt").write_text(f"func f(x: float32[2])\n  x[0] = float32(0.0)\n  x[1] = {call}(x[1])")
    np.savez("x.npz", x=np.array([0, np.nan], "float32"))
    code = main(["schedule", "f.txt", "--inputs", "x.npz", "--check", "--target", "c"])
    shown = capsys.readouterr().out
    assert code == (0 if call == "exp" else 1)
    assert code == 0 or "x float32[2] differs from the interpreter at [0]: -0.0, not 0.0" in shown


def test_arguments_may_have_physical_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    decls = "x: int32[2, 3, 4] separators [2], y: int32[2, 4] strides [2, 1] separators [1]"
    loops = "  for i in 2:\n    for j in 4:\n      y[i, j] = x[i, 2, j]"
    Path("f.txt").write_text(f"func f({decls})\n{loops}\n")
    x = np.arange(24, dtype="int32").reshape(2, 3, 4)
    for array, y in ((x, np.zeros((2, 4), "int32")), (x.reshape(6, 4), np.ones((3, 4), "int32"))):
        np.savez("a.npz", x=array, y=y)
        for target in ([], ["--target", "c"]):
            run = ["schedule", "f.txt", "--inputs", "a.npz", "--check", *target, "--outputs", "out.npz"]
            assert main(run) == 0
            with np.load("out.npz") as found:
                np.testing.assert_array_equal(found["y"], x[:, 2])
    np.savez("a.npz", x=x.reshape(4, 6))
    assert main(["schedule", "f.txt", "--inputs", "a.npz"]) == 2


# -- what would take too long or too much ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["99999999999999999999", "4294967296, 4294967296", "4294967296, 1073741824"])
@pytest.mark.parametrize("place", ["(A: float32[{}])\n  pass", "(A: int8[1])\n  alloc t: int8[{}]\n  A[0] = int8(1)"])
def test_arrays_that_no_memory_has_are_refused(
    size: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "large.txt"
    file.write_text("func large" + place.format(size))
    assert main(["schedule", str(file), "--check"]) == 2
    assert "elements are more than any memory has" in capsys.readouterr().err


@pytest.mark.parametrize("steps", ["", "split('i', [None, 999999999999999])"])
def test_loops_that_the_interpreter_would_run_for_hours_are_refused(
    steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the steps, or after them; with a kernel on arrays that are given it is no question."""
    file, given = tmp_path / "long.txt", tmp_path / "given.npz"
    outer = 8 if steps else 10**6
    text = f"func long(A: float32[8])\n  for i in {outer}:\n    for j in {outer}:\n      A[j % 8] = float32(1.0)"
    file.write_text(text)
    asked = ["schedule", str(file), *(["--steps", steps] if steps else [])]
    assert main([*asked, "--check"]) == 2
    assert "iterations; the interpreter takes 1000000000 at most" in capsys.readouterr().err
    np.savez(given, A=np.zeros(8, "float32"))
    assert main([*asked, "--inputs", str(given), "--outputs", str(tmp_path / "out.npz")]) == 2
    assert "iterations; the interpreter takes" in capsys.readouterr().err
    assert main([*asked]) == 0


def test_files_may_begin_with_the_mark_of_their_encoding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As editors of Windows write them, with its ends of lines."""
    file, steps = tmp_path / "rows.txt", tmp_path / "steps.txt"
    file.write_bytes(ROWS.replace("\n", "\r\n").encode("utf-8-sig"))
    steps.write_bytes(PADDED.replace("\n", "\r\n").encode("utf-8-sig"))
    assert main(["schedule", str(file), "--steps", str(steps), "--check"]) == 0
    assert "check: the same on 3 arguments" in capsys.readouterr().out

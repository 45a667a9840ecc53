"""`eqsat schedule`: prints, takes steps, refuses with the program at the place, checks, lowers and runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from eqsat.cli import main
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


def test_a_refused_step_shows_the_program_at_the_place(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", rows, "-s", "parallel('j')"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("refused: line 1: parallel run of loop j: ") and "meet in B[0]" in shown
    assert ">     reduce for j in 14:\n>       B[i] = B[i] + A[i, j]" in shown and "  func rows" in shown
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

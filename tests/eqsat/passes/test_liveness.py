"""Who reads a cell before it is written again, behind many branches too."""

from __future__ import annotations

from typing import Any

import pytest
from small_functions import check_same

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Stmt
from eqsat.passes import liveness
from eqsat.passes.cells import accesses
from eqsat.passes.flow import entry
from eqsat.passes.liveness import Live, live_after
from eqsat.passes.no_op import remove_no_op
from eqsat.passes.paths import Path, at
from eqsat.statement_graph.optimize import optimize_statements

FIRST = "func f(A: int32[16], B: int32[16])\n  for i in 16:\n    A[i] = int32(7)\n"


def live(func: PrimFunc, path: Path = (0,)) -> Live | None:
    """Who sees the last cell that the statement at a path writes."""
    stmt: Stmt = at(func.body, path)
    return live_after(func.body, path, accesses(stmt)[-1], entry(func).roots)


def branches(number: int, arms: str) -> str:
    """Branches on data in a row."""
    return "".join(f"  if B[{k}] < int32(3):\n{arms.format(k=k)}" for k in range(number))


# feature: E6
@pytest.mark.parametrize(
    "arms",
    [
        "    B[{k}] = int32(1)\n",  # another buffer
        "    A[{k}] = int32(1)\n",  # one arm writes a cell
        "    A[{k}] = int32(1)\n  else:\n    A[15 - {k}] = int32(2)\n",
    ],
)
def test_branches_in_a_row_are_not_followed_in_all_combinations(arms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    prove = liveness.CELLS.prove

    def counted(*given: Any) -> Any:
        asked.append(given)
        return prove(*given)

    monkeypatch.setattr(liveness.CELLS, "prove", counted)
    numbers: list[int] = []
    for number in (3, 6):
        asked.clear()
        found = live(PrimFunc.parse(FIRST + branches(number, arms)))
        assert found is not None and found.reason == "the caller sees it"
        numbers.append(len(asked))
    assert numbers[1] <= 2 * numbers[0]


# feature: E6
@pytest.mark.parametrize(
    ("rest", "dead"),
    [
        ("  for j in 15:\n    A[j + 1] = B[j]", True),  # both arms of the first branch write A[0]
        ("  for j in 14:\n    A[j + 2] = B[j]", False),  # nobody writes A[1] if B[2] is large
        ("  if B[3] < int32(3):\n    B[4] = A[0]\n  for j in 15:\n    A[j + 1] = B[j]", True),
        ("  if B[3] < int32(3):\n    B[4] = A[2]\n  for j in 15:\n    A[j + 1] = B[j]", False),
    ],
)
def test_what_branches_leave_is_covered_later(rest: str, dead: bool) -> None:
    func = PrimFunc.parse(f"""\
{FIRST}  if B[0] < int32(3):
    A[0] = int32(1)
    A[5] = int32(1)
  else:
    A[0] = int32(2)
  if B[1] < int32(3):
    A[6] = int32(1)
  if B[2] < int32(3):
    A[1] = int32(1)
  else:
    A[7] = int32(1)
{rest}""")
    assert (live(func) is None) is dead
    for new in (remove_no_op(func), optimize_statements(func).func):
        assert ("A[i] = int32(7)" not in str(new)) is dead
        check_same(func, new)


def test_what_never_runs_is_seen_by_nobody() -> None:
    func = PrimFunc.parse("func f(A: int32[4])\n  for i in 4:\n    if i == 4:\n      A[i] = int32(1)")
    assert live(func) is None
    assert live(PrimFunc.parse(str(func).replace("== 4", "== 3"))) == Live(
        "the caller sees it", {"buffer": "A", "cell": (3,)}
    )

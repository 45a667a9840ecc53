"""What a statement computes at one position, by integers and by arrays: the same, or left to arrays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from random_primfuncs import random_case
from random_vectors import vector_case
from seeds import some_of

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.scalars import Plan

ODD = """\
func odd(x: int32[8], y: int32[8], at: int64[8])
  for i in 8:
    y[i] = {value}"""
VALUES = {
    "x[(i*3 + 2) % 8] + x[i // 2 + 1]": True,
    "x[min(i, 3)] - x[max(i - 5, 0)]": True,
    "x[7 - i] + cast(i*i, 'int32')": True,
    "where(i < 4, x[i + 4], x[i - 4])": False,  # one of the two is out of range, and is not needed
    "where(i < 1, x[i], x[7 // i])": False,
    "x[cast(at[i], 'index')]": True,  # the inner element is read first, the outer one by arrays
}


def by_arrays(monkeypatch: pytest.MonkeyPatch, func: PrimFunc, arrays: dict[str, NDArray], sizes: Any) -> str:
    """What `outcome` says of a run for which nothing is computed with integers."""

    def left(*_: object) -> None:
        """Everything is left to arrays."""

    with monkeypatch.context() as patch:
        patch.setattr(Plan, "evaluate", left)
        return outcome(func, arrays, sizes)


def outcome(func: PrimFunc, arrays: dict[str, NDArray], sizes: Any) -> str:
    """The error of a run, or what was freed."""
    try:
        freed = run_primfunc(func, arrays, sizes, track=True)
    except EvaluationError as error:
        return str(error)
    return str({name: marks.tolist() for name, marks in freed.items()})


@pytest.mark.parametrize("seed", some_of(range(0, 60, 10), 3))
def test_random_functions_mean_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(seed, seed + 10):
        case = (vector_case if number % 3 == 1 else random_case)(number)
        first, second = case.arguments(0), case.arguments(0)
        assert by_arrays(monkeypatch, case.func, second, case.sizes) == outcome(case.func, first, case.sizes), number
        for name, array in first.items():
            np.testing.assert_array_equal(array, second[name], f"{number}: {name}")


@pytest.mark.parametrize("value, taken", VALUES.items())
def test_what_is_out_of_the_ordinary_is_left_to_arrays(
    value: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    func = PrimFunc.parse(ODD.format(value=value))
    rng = np.random.default_rng(random.Random(value).randrange(99))
    arrays = {"x": rng.integers(-9, 9, 8).astype("int32"), "y": np.zeros(8, "int32"), "at": np.arange(8)[::-1].copy()}
    others = {name: array.copy() for name, array in arrays.items()}
    answers: list[bool] = []
    evaluate = Plan.evaluate

    def spy(self: Plan, *args: Any) -> Any:
        answers.append((found := evaluate(self, *args)) is not None)
        return found

    monkeypatch.setattr(Plan, "evaluate", spy)
    assert outcome(func, arrays, None) == by_arrays(monkeypatch, func, others, None)
    np.testing.assert_array_equal(arrays["y"], others["y"])
    assert all(answers) is taken and len(answers) == 8


@pytest.mark.parametrize(
    "value, said",
    [("x[i + 1]", "out of range"), ("x[7 // i]", "zero divisor"), ("x[cast(at[i], 'index') + 5]", "out of range")],
)
def test_errors_are_those_of_arrays(value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    func = PrimFunc.parse(ODD.format(value=value))
    arrays = {"x": np.zeros(8, "int32"), "y": np.zeros(8, "int32"), "at": np.arange(8)}
    told = outcome(func, arrays, None)
    assert said in told and told == by_arrays(monkeypatch, func, arrays, None)


def test_a_value_that_is_unknown_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    func = PrimFunc.parse("""\
func open(x: int32[8], y: int32[8])
  for i in 8:
    y[i] = hole(1, 'int32')
  for i in 8:
    x[i] = y[i] + x[i]""")
    arrays = {"x": np.zeros(8, "int32"), "y": np.zeros(8, "int32")}
    told = outcome(func, arrays, None)
    assert "holds an unknown value at the end" in told and told == by_arrays(monkeypatch, func, arrays, None)

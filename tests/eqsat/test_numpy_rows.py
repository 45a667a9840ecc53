"""Every name of numpy's that tensors have: its result, type and shape by evaluate, as C and optimised."""

# feature: A1

import warnings
from typing import Any

import numpy as np
import pytest
from numpy_rows import CREATION, DATA, REFUSED, ROWS, as_output, inputs, value
from seeds import some_of

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError

GROUP = 60
TOLERANCE = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-10}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(row: str, found: NDArray, expected: Any) -> None:
    wanted = np.asarray(expected)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), row
    near = TOLERANCE.get(wanted.dtype.name, 0)
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near, err_msg=row)


def outputs(rows: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The tensors of some rows by name, their numpy values, and the inputs."""
    names = inputs()
    made: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for row in rows:
        for n, (e, x) in enumerate(zip(value(row, DATA, np), value(row, names, eq), strict=True)):
            if as_output(x) is None:
                assert e == x, row
            else:
                made[f"{row} [{n}]"], expected[f"{row} [{n}]"] = x, e
    return made, expected, names


def test_the_table_is_whole() -> None:
    from eqsat.ir.tensors.arrays import namespace

    text = " ".join([*ROWS, *REFUSED])
    types = {n for n in namespace.__all__ if isinstance(getattr(namespace, n), (str, float))}
    here = {"array", "asarray", "rearrange", "result_type"}  # named in tests of their own
    missing = [n for n in namespace.__all__ if f"np.{n}(" not in text and n not in types | here]
    assert not missing
    assert len(ROWS) >= 160 and len(REFUSED) <= 0.05 * len(ROWS)


@pytest.mark.parametrize("turn", some_of([0, 1], 1))
@pytest.mark.parametrize("part", range(0, len(ROWS), GROUP))
def test_rows(part: int, turn: int) -> None:
    """Each part by evaluate, and in turns as C and optimised; the long run does both with each."""
    made, expected, names = outputs(ROWS[part : part + GROUP])
    program = eq.Program(list(names.values()), {f"out{n}": x for n, x in enumerate(made.values())})
    results = {"evaluate": eq.evaluate(program, DATA)}
    if (part // GROUP + turn) % 2:
        results["optimised"] = eq.evaluate(eq.optimize(program).program, DATA)
    else:
        results["C"] = eq.compile(program)(DATA)
    for way, found in results.items():
        for n, row in enumerate(made):
            check(f"{row} by {way}", found[f"out{n}"], expected[row])


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_each_row_alone(row: str) -> None:
    made, expected, names = outputs([row])
    for label, x in made.items():
        program = eq.Program(list(names.values()), {"out": x})
        best = eq.optimize(program).program
        for way in (eq.compile(program)(DATA), eq.compile(best)(DATA), eq.evaluate(best, DATA)):
            check(label, way, expected[label])


def test_numpys_own_functions_take_tensors() -> None:
    names = inputs()
    ours = [row for row in ROWS if "np." in row and row not in CREATION]
    for row in ours:
        # Arrays made by numpy in passing are constants.
        pair = zip(value(row, names, np), value(row, names, eq), strict=True)
        for x, y in pair:
            a, b = as_output(x), as_output(y)
            if b is None:
                assert x == y, row
            else:
                assert a is not None, row
                assert (eq.asarray(a).shape, eq.asarray(a).dtype) == (eq.asarray(b).shape, eq.asarray(b).dtype), row


@pytest.mark.parametrize("module", [eq, np])
@pytest.mark.parametrize("row", REFUSED)
def test_what_is_not_there_names_the_alternative(row: str, module: Any) -> None:
    with pytest.raises(EqsatError) as error:
        value(row, inputs(), module)
    assert REFUSED[row] in str(error.value), str(error.value)


REALS = np.array([[0.25, 0.5, 0.75], [0.125, 0.9, 0.4]]), np.array([[0.5, 0.25, 1.0], [2.0, 1.0, 3.0]])
WHOLE = np.array([[2, 4, 6], [1, 7, 3]]), np.array([[1, 2, 2], [4, 2, 6]])


def test_every_ufunc_takes_the_keywords_of_numpys() -> None:
    """dtype= gives numpy's numbers and type, or an error where numpy has one; out= and where= name the alternative."""
    made: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    arrays = {f"{kind}{n}": a for kind, pair in (("r", REALS), ("w", WHOLE)) for n, a in enumerate(pair)}
    named = {name: eq.input(name, a.shape, a.dtype.name) for name, a in arrays.items()}
    ufuncs = [n for n in eq.__all__ if isinstance(getattr(np, n, None), np.ufunc) and n not in ("matmul", "vecdot")]
    for name in ufuncs:
        ours, theirs = getattr(eq, name), getattr(np, name)
        for kind in "rw":
            given = [f"{kind}{n}" for n in range(theirs.nin)]
            tensors = [named[n] for n in given]
            for dtype in ("float32", "int32", "bool"):
                try:
                    wanted = theirs(*(arrays[n] for n in given), dtype=dtype)
                except TypeError:
                    with pytest.raises(EqsatError):
                        ours(*tensors, dtype=dtype)
                    continue
                made[f"{name} {kind} {dtype}"] = ours(*tensors, dtype=dtype)
                expected[f"{name} {kind} {dtype}"] = wanted
            for keyword in ("out", "where"):
                with pytest.raises(EqsatError, match=r"eq\.where|returns"):
                    ours(*tensors, **{keyword: np.ones((2, 3), bool)})
    assert len(ufuncs) > 70 and len(made) > 150
    program = eq.Program(list(named.values()), {f"out{n}": x for n, x in enumerate(made.values())})
    found = eq.evaluate(program, arrays)
    for n, label in enumerate(made):
        check(label, found[f"out{n}"], expected[label])

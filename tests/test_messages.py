"""Mistakes that new users make: each message names what was given, what is wrong, and what to write instead."""

import inspect
import pickle
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import EqsatError
from eqsat.result import Result


def x() -> eq.Tensor:
    return eq.input("x", (2, 3, 4, 5), "float32")


def halved(a: Any) -> Any:
    return a / 2


def loop() -> eq.Schedule:
    f = eq.primfunc("twice")
    out = f.param("out", (14,), "float32")
    with f.loop("i", 14) as i:
        out[i] = out[i] + out[i]
    return eq.Schedule(f.build())


CASES: list[tuple[Callable[[], object], str]] = [
    (lambda: eq.optimize("m.onnx"), r"is a path.*eq\.onnx\.optimize"),  # pyright: ignore[reportArgumentType]
    (lambda: eq.compile("m.onnx"), r"is a path.*eq\.onnx\.load"),  # pyright: ignore[reportArgumentType]
    (lambda: eq.optimize(np.zeros((3, 3))), r"an array float64\(3, 3\).*eq\.constant"),  # pyright: ignore[reportArgumentType]
    (lambda: eq.input("y", ("N", 2), "float32"), r"eq\.symbol\('N'\)"),
    (lambda: eq.Program([x()], [x()]), r'outputs=\{"y": y\}'),  # pyright: ignore[reportArgumentType]
    (lambda: eq.prove("4*io + ii < 14", {"oi": 4, "ii": 4}), r"range of 'oi'.*does not occur.*'io' was meant"),
    (lambda: eq.decide("i < 2", {"j": 4}), r"range of 'j'.*'i' was meant"),
    (lambda: eq.simplify("i // 2 * 2", {"j": 4}), r"range of 'j'.*'i' was meant"),
    (lambda: eq.explain("i + 0", "i", {"j": 4}), r"range of 'j'.*'i' was meant"),
    (lambda: eq.optimize(x().relu(), growth=-1), r"growth=-1"),
    (lambda: eq.optimize(x().relu(), "onnx", prices=cast(Any, 3)), r"prices=3: are no table of prices"),
    (lambda: eq.Limits(seconds=-1), r"seconds=-1.*a number from 0"),
    (lambda: np.asarray(x()), r"eq\.evaluate"),
    (lambda: float(x()), r"no value until.*eq\.evaluate"),
    (lambda: float(x()[0, 0, 0, 0]), r"no value until"),  # pyright: ignore[reportArgumentType]
    (lambda: x().__setitem__(0, 1), r"never written.*eq\.where"),
    (lambda: eq.parse_expr("x//4*4 +"), r"invalid syntax at character 9"),
    (lambda: loop().split("i", 4), r"factors=4: is no list"),  # pyright: ignore[reportArgumentType]
    (lambda: loop().split("i", [None, 4], names="ij"), r"names='ij': is no list"),
    (lambda: eq.jit(halved)([1, 2]), r"jit of halved.*np\.asarray"),
    (lambda: eq.evaluate(x().relu(), {"y": 1}), r"missing inputs: 'x'; unknown inputs: 'y'; it takes x"),
]


@pytest.mark.parametrize(("mistake", "said"), CASES)
def test_a_mistake_is_explained(mistake: Callable[[], object], said: str) -> None:
    with pytest.raises(EqsatError, match=said):
        mistake()


def _owners() -> list[tuple[str, Callable[..., Any]]]:
    """Every public function, and every public method of public classes, that has names for its parameters."""
    found = [(name, getattr(eq, name)) for name in dir(eq) if not name.startswith("_")]
    found += [(f"onnx.{name}", getattr(eq.onnx, name)) for name in ("load", "save", "optimize")]
    for kind in (eq.Tensor, eq.Schedule, eq.IndexMap, eq.Buffer, eq.Program, eq.PrimFunc, Result):
        methods = [n for owner in kind.__mro__[:-1] for n in vars(owner) if not n.startswith("_")]
        found += [(f"{kind.__name__}.{n}", getattr(kind, n)) for n in dict.fromkeys(methods)]
    return [(name, f) for name, f in found if inspect.isfunction(f) or inspect.ismethod(f) or f is eq.Limits]


def test_a_keyword_that_is_mistyped_names_the_one_that_was_meant() -> None:
    count = 0
    for name, function in _owners():
        own = inspect.signature(function).parameters
        if any(p.kind is p.VAR_KEYWORD for p in own.values()):
            continue
        named = [p for p in own.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"]
        method = "." in name and not name.startswith("onnx.") and not inspect.ismethod(function)
        for wrong in [f"{p.name}s" if p.name + "s" not in own else f"{p.name}_" for p in named[:3]] or ["whatever"]:
            with pytest.raises(TypeError) as error:
                function(*([x()] if method else []), **{wrong: 1})
            assert isinstance(error.value, EqsatError) and f"({wrong}=...): is no parameter" in str(error.value), name
            assert ("was meant" in str(error.value)) == bool(named) or len(wrong) < 4, str(error.value)
            count += 1
    assert count > 300


def test_ranges_of_names_that_fold_away_or_are_not_needed_are_no_mistake() -> None:
    assert eq.prove("i < 4", {"i": 4, "other": 3}) and eq.prove("0*y + i < 4", {"y": 8, "i": 4})
    assert eq.decide("i < 4", {"nothing": 0}) == "always", "an empty range leaves no point"


def test_axes_one_after_the_other_as_numpy_takes_them() -> None:
    assert x().permute_dims(0, 2, 3, 1).shape == x().permute_dims((0, 2, 3, 1)).shape == (2, 4, 5, 3)


def test_methods_that_are_looked_for_in_the_package() -> None:
    with pytest.raises(AttributeError, match=r"x\.relu\(\)"):
        _ = eq.relu  # pyright: ignore


@pytest.mark.onnx
def test_what_is_no_model() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(EqsatError, match=r"a Tensor: is not a path or a ModelProto.*eq\.optimize"):
        eq.onnx.optimize(x())  # pyright: ignore[reportArgumentType]


def test_public_functions_are_found_again_by_name() -> None:
    """So that they can be handed to other processes."""
    for name in eq.__all__:
        value = getattr(eq, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert pickle.loads(pickle.dumps(value)) is value, name

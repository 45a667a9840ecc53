"""What a step is given: any odd value is an error of the user, by every way there is to give it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.scheduling.primitives import PRIMITIVES
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.trace import Step, Trace

FUNCTION = eq.PrimFunc.parse("""func f(A: int32[16], B: int32[16])
  for i in 16:
    A[i] = int32(1)
    B[i] = A[i]
  for j in 4:
    for k in 4:
      B[4*j + k] = A[4*j + k]""")
FINE: dict[str, Any] = {
    "loop": "i", "loops": ["j", "k"], "factors": [4, None], "outer": "j", "inner": "k", "name": "n", "at": 1,
    "block": "B@1", "index_map": eq.IndexMap.parse("i, j -> j, i"), "buffer": "A", "axis_separators": [],
    "condition": eq.parse_expr("1 < 2"),
}  # fmt: skip
ODD: list[Any] = [
    None, 5, -1, 1.5, True, "", "zz", "i -> i", [], [5], ["i"], [None], [[1]], {}, object(), b"i", (1, 2), float("nan"),
    10**30, eq.parse_expr("i < 3"), eq.axis("q", 3), eq.IndexMap.parse("i -> i"), eq.UNDEF, max, FUNCTION,
]  # fmt: skip


def parameters(primitive: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(primitive).parameters.values())[1:]


@pytest.mark.parametrize("name", [n for n, p in PRIMITIVES.items() if parameters(p)])
def test_odd_arguments_of_a_step_in_a_trace(name: str) -> None:
    needed = {p.name: FINE[p.name] for p in parameters(PRIMITIVES[name]) if p.default is inspect.Parameter.empty}
    for parameter in parameters(PRIMITIVES[name]):
        for odd in ODD:
            s = Schedule(FUNCTION)
            try:
                s.take(Trace((Step(name, {**needed, parameter.name: odd}),)))
            except eq.EqsatError:
                assert s.func is FUNCTION and not len(s.trace), (parameter.name, odd)


def test_primitives_are_reached_through_a_schedule_alone() -> None:
    """Their arguments are checked there; nothing public takes a function to one of them."""
    public = [getattr(eq, name) for name in eq.__all__]
    assert not [p for p in PRIMITIVES.values() if any(p is x for x in public)]
    methods = {n for n, _ in inspect.getmembers(Schedule, inspect.isfunction) if not n.startswith("_")}
    assert {*PRIMITIVES} <= methods


@pytest.mark.parametrize("odd", [None, 5, "func f()", [], FUNCTION.body], ids=lambda x: type(x).__name__)
def test_what_is_no_function(odd: Any) -> None:
    for call in (
        lambda: eq.as_view(odd),
        lambda: eq.split_function(odd, 1),
        lambda: eq.hoist_preprocessing(odd, ["A"]),
        lambda: eq.run_primfunc(odd, {}),
        lambda: Schedule(odd),
    ):
        with pytest.raises(eq.EqsatError, match="no function over buffers"):
            call()


@pytest.mark.parametrize("odd", [5, "A", ["A"], np.zeros(3)], ids=lambda x: type(x).__name__)
def test_what_is_no_dict_of_arrays_or_sizes(odd: Any) -> None:
    with pytest.raises(eq.EqsatError, match=r"buffers=.* are no dict"):
        eq.run_primfunc(FUNCTION, odd)
    with pytest.raises(eq.EqsatError, match=r"symbols=.* are no dict"):
        eq.run_primfunc(FUNCTION, {}, odd)

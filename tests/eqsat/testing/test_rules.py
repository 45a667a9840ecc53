"""What `eq.testing` gives to tests of rules and programs."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.rule import Buffer, Data, Idx, Pos, rule, when
from eqsat.ir.terms import term as t
from eqsat.rules import scalar_rules


@rule("rounded")
def rounded(x: Idx, c: Pos):
    return x // c * c, x


@rule("rounded multiple")
def rounded_multiple(x: Idx, c: Pos):
    return x // c * c, x, when(t.compare("eq", x % c, 0))


@rule("plus zero", dtypes=["float32"])
def plus_zero(x: Data):
    return x + t.const(0.0, x.dtype), x


@rule("reads")
def reads(x: Buffer, i: Idx):
    return x[i // 4 * 4 + i % 4], x[i]


def test_wrong_rules_are_caught_with_small_values() -> None:  # feature: J1
    with pytest.raises(AssertionError, match=r"rounded: at \{'x': 1, 'c': 2\}: 0 is not 1"):
        eq.testing.check_rule(rounded)
    with pytest.raises(AssertionError, match="plus zero"):
        eq.testing.check_rule(plus_zero)
    eq.testing.check_rule(rounded_multiple, examples=50)
    with pytest.raises(eq.EqsatError, match="buffer"):
        eq.testing.check_rule(reads)


@pytest.mark.parametrize("r", random.Random(3).sample(scalar_rules(), 6), ids=lambda r: r.name)
def test_our_rules_hold(r: object) -> None:
    assert isinstance(r, type(rounded))
    example = eq.testing.rule_instances(r)

    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
    @given(example)
    def check(found: eq.testing.Example) -> None:
        assert found.holds

    check()


@settings(max_examples=40, deadline=None)
@given(eq.testing.layouts(), st.tuples(*(st.integers(0, 30) for _ in range(4))))
def test_layouts_are_conversions_of_their_axes(layout: eq.Layout, index: tuple[int, ...]) -> None:
    assert sorted(c for c in str(layout) if c.isupper()) == sorted("NCHW")
    pair = eq.Layout("NCHW").to(layout)
    assert pair.backward_index(pair.forward_index(index)) == index


def test_programs_are_compared() -> None:
    x = eq.input("x", (3, 8), "int32")
    program = eq.Program([x], {"y": x.flip((1,)).flip((1,)) + 1})
    eq.testing.check_program(program, lambda p: eq.optimize(p).program)
    with pytest.raises(AssertionError, match="output 'y' differs at"):
        eq.testing.check_program(program, lambda p: eq.Program([x], {"y": x.flip((1,)) + 1}))


def test_without_hypothesis_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['hypothesis'] = None\nimport eqsat as eq\neq.testing.check_rule"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "eqsat[testing]" in done.stderr

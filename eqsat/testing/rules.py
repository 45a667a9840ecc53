"""Rules and programs tried on random values: instances of rules, and checks that fail with the smallest example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, is_float
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Instance, Kind, Rule, variable
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.testing.arrays import arrays_for
from eqsat.testing.package import HealthCheck, given, settings, st

EXAMPLES = 200


@dataclass(frozen=True)
class Example:
    """A theorem of a rule at values of its parameters for which its conditions hold.

    left, right: what the sides are there; None where a side has no value.
    """

    instance: Instance
    values: Mapping[str, Any]
    left: Any
    right: Any

    @property
    def holds(self) -> bool:
        """Whether the right side has the left one's value, wherever that has one."""
        if self.left is None:
            return True
        if self.right is None:
            return False
        if isinstance(self.left, float):
            both = np.isnan(self.left) and np.isnan(self.right)
            same = self.left == self.right and np.signbit(self.left) == np.signbit(self.right)
            return bool(both or same)
        return bool(self.left == self.right)


def _values(kind: Kind, dtype: str) -> st.SearchStrategy[Any]:
    if kind is Kind.POS:
        return st.integers(1, 9) | st.integers(1, 4096)
    if dtype == BOOL:
        return st.booleans()
    if dtype == INDEX:
        return st.integers(-9, 9) | st.integers(-5000, 5000)
    if is_float(dtype):
        width: Any = 8 * np.dtype(dtype).itemsize
        return st.floats(width=width)
    info = np.iinfo(dtype)
    return st.integers(int(info.min), int(info.max))


def rule_instances(rule: Rule) -> st.SearchStrategy[Example]:
    """Theorems of a rule at random values for which its conditions hold.

    Errors: EqsatError for rules about buffers, whose contents are no single values.

    >>> from hypothesis import find
    >>> from eqsat.rules.index_arith import div_div
    >>> find(rule_instances(div_div), lambda e: e.left == 1).holds
    True
    """
    if any(p.kind is Kind.BUFFER for p in rule.parameters):
        raise EqsatError(f"instances of rule {rule.name}", "it reads a buffer", "check it by eq.check_rules")

    @st.composite
    def build(draw: st.DrawFn) -> Example | None:
        instance = draw(st.sampled_from(rule.instances))
        env: dict[Term, Any] = {}
        for p in rule.parameters:
            v: Term = variable(p, instance.dtype)
            number = draw(_values(p.kind, v.dtype))
            env[v] = np.array([number], np.int64 if v.dtype == INDEX else v.dtype)
        roots = [instance.left, instance.right, *instance.conditions]
        with np.errstate(all="ignore"):
            sides = [
                None if bad is not None and np.any(bad) else np.asarray(a) for a, bad in evaluate_masked(roots, env)
            ]
        left, right, *conditions = [None if a is None else a.ravel()[0].item() for a in sides]
        if not all(conditions):
            return None
        return Example(instance, {str(v): a[0].item() for v, a in env.items()}, left, right)

    return build().filter(lambda example: example is not None)  # pyright: ignore[reportReturnType]


def check_rule(rule: Rule, examples: int = EXAMPLES) -> None:
    """Try a rule on random values; an AssertionError shows the smallest values at which it is wrong.

    >>> from eqsat.rules.index_arith import div_div
    >>> check_rule(div_div, examples=20)
    """

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=[HealthCheck.filter_too_much])
    @given(rule_instances(rule))
    def run(example: Example) -> None:
        assert example.holds, f"{rule.name}: at {dict(example.values)}: {example.left} is not {example.right}"

    run()


def check_program(program: Program, changed: Callable[[Program], Program], seeds: int = 3) -> None:
    """Compare a program with what a function makes of it, on random inputs: integers exactly, floats nearly.

    An AssertionError names the output, the seed and the first cell that differs.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 8), "float32")
    >>> check_program(eq.Program([x], {"y": x.flip((1,)).flip((1,))}), lambda p: eq.optimize(p).program)
    """
    after = changed(program)
    for seed in range(seeds):
        feeds = arrays_for(program, seed)
        before, new = _outputs(program, feeds), _outputs(after, feeds)
        for name, expected in before.items():
            found = new[name]
            exact = not is_float(str(expected.dtype))
            near = expected == found if exact else np.isclose(expected, found, rtol=1e-3, atol=1e-5, equal_nan=True)
            wrong = np.argwhere(~np.asarray(near)) if expected.shape == found.shape else np.array([[0]])
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                raise AssertionError(f"output {name!r} differs at {at} for the inputs of seed {seed}")


def _outputs(program: Program, feeds: Mapping[str, Any]) -> dict[str, Any]:
    found: Any = evaluate(program, feeds)
    return found if isinstance(found, dict) else {name: found for name in program.outputs}  # pyright: ignore

"""The functions of `benchmarks/padding.py`: what is chosen has no branch in its loops of vectors, and is right."""

import numpy as np
import padding
import pytest

from eqsat.ir.statements.stmt import For, If, statements

SLOW = ("attention", "max_pool")
CASES = [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * c.name.startswith(SLOW)) for c in padding.CASES]


# feature: E12, E14, E18
@pytest.mark.parametrize("case", CASES)
def test_the_chosen_interior_has_no_branch(case: padding.Case) -> None:
    made = padding.attempts(case)
    branches, chosen = made["branch"].func, made["chosen"].func
    vectors = [s for s in statements(chosen.body) if isinstance(s, For) and s.kind == "vectorized"]
    assert len(vectors) == len(case.vectors)
    assert not any(isinstance(inner, If) for loop in vectors for inner in statements(loop.body))
    assert any(isinstance(s, If) for s in statements(branches.body))
    arguments = case.arguments(np.random.default_rng(1))
    wanted = np.asarray(case.logical(np, arguments))
    padding.bound(chosen, arguments, case.output)()
    assert float(np.abs(arguments[case.output] - wanted).max()) <= 1e-4 * float(np.abs(wanted).max())

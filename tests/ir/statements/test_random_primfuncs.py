"""The generator of functions makes what it says: functions with a meaning, every feature among them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from random_primfuncs import FEATURES, random_case
from seeds import some_of

from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Store, statements
from eqsat.ir.terms.shape import same_dim
from eqsat.ir.terms.walk import nodes_of


@pytest.mark.parametrize("seed", some_of(range(40), 16))
def test_random_functions_have_a_meaning_on_every_input(seed: int) -> None:
    """No access leaves its buffer, nothing unknown reaches an output, and a function refines itself."""
    case = random_case(seed)
    for other in range(2):
        assert same_meaning(case.func, case.func, case.arguments(seed + 100 * other), case.sizes)
    again = random_case(seed)
    assert str(again.func).replace("hole(", "").count("\n") == str(case.func).count("\n")


@pytest.mark.slow
def test_many_random_functions_have_a_meaning() -> None:
    for seed in range(40, 1000):
        case = random_case(seed)
        run_primfunc(case.func, case.arguments(seed), case.sizes, track=True)


def test_the_features_are_there_and_can_be_left_out() -> None:
    found: Counter[str] = Counter()
    for seed in range(120):
        func = random_case(seed).func
        stmts = list(statements(func.body))
        found["symbols"] += bool(func.symbols)
        found["holes"] += any(isinstance(s, Store) and nodes_of("hole", s.value) for s in stmts)
        found["aliases"] += any(isinstance(s, Alias) for s in stmts)
        found["assume"] += any(isinstance(s, Assume) for s in stmts)
        found["guards"] += any(isinstance(s, If) for s in stmts)
        found["locals"] += any(isinstance(s, Alloc) for s in stmts)
        found["reduce"] += any(isinstance(s, For) and s.reduce for s in stmts)
        found["vectors"] += any(isinstance(s, Store) and s.value.lanes > 1 for s in stmts)
        found["strides"] += any(not d.is_dense for d in func.buffer_map.values())
        found["empty"] += any(same_dim(n, 0) for d in func.buffer_map.values() for n in d.shape)
        terms = [s.value for s in stmts if isinstance(s, Store)]
        found["data"] += any(c.dtype == "index" for c in nodes_of("cast", *terms))
        plain = random_case(seed, without=FEATURES).func
        assert not plain.symbols and all(
            d.is_dense and not any(same_dim(n, 0) for n in d.shape) for d in plain.buffer_map.values()
        )
        assert not any(isinstance(s, (Alias, Assume)) for s in statements(plain.body))
    assert min(found.values()) >= 3, found


def test_arguments_lie_in_memory_as_declared() -> None:
    cases = [random_case(seed) for seed in range(80)]
    strided = [(c, n) for c in cases for n, d in c.func.buffer_map.items() if not d.is_dense]
    assert strided
    for case, name in strided:
        array = case.arguments()[name]
        assert isinstance(array.base, np.ndarray) and array.shape == case.func.buffer_map[name].shape

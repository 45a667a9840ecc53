"""Terms: interning, normal forms, typing, and the operators that build them."""

import copy
import gc
import operator
import os
import pickle
import subprocess
import sys
import threading
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from term_strategies import LEAVES, terms

from eqsat.ir.errors import TypeMismatch
from eqsat.ir.terms import node
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, postorder, substitute, transform

i, j = t.var("i"), t.var("j")
x = t.load(0, [i], "float32")
k8 = t.load(1, [i], "int8")


def test_equal_terms_are_one_object() -> None:
    assert (i + 2 * j) is (j + i + j)
    assert ((i + 1) * 4) is (4 * i + 4)
    assert i * j is j * i
    assert t.ax(0, 4) is not t.ax(0, 5) and t.ax(0, 4) is not t.red(0, 4)
    assert t.sym("N") is not t.sym("N")
    assert t.const(1, "int8") is not t.const(1, "int16") and t.bool_const(True) is not t.index_const(1)


def test_constants_are_compared_by_bits() -> None:
    assert t.const(0.0, "float32") is not t.const(-0.0, "float32")
    assert t.const(float("nan"), "float64") is t.const(-float("nan"), "float64")
    assert np.signbit(t.const_value(t.const(-0.0, "float16")))
    assert t.is_const(t.const(3, "int8"), 3)
    assert not any(t.is_const(t.const(1, "int8"), v) for v in (300, 1.5, True))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, "uint8"), (-1, "uint64"), (0.5, "int32"), (True, "int8"), (1, "bool"), (10**400, "float64"), ("a", "int8"),
     (1e5, "index"), (True, "index"), (None, "float32"), (True, "complex64"), (1, None), (1, "nonsense")],
)  # fmt: skip
def test_constants_must_fit(value: Any, dtype: Any) -> None:
    with pytest.raises(TypeMismatch):
        t.const(value, dtype)


def test_numpy_scalars_stand_on_either_side() -> None:
    assert np.int64(3) + i is i + 3
    assert np.int64(3) - i is 3 - i
    assert np.float32(2) * x is 2.0 * x
    assert operator.lt(np.int64(3), i) is t.compare("lt", 3, i)
    assert operator.eq(np.int64(3), i) is t.compare("eq", i, 3)
    assert (i + np.int32(3)).payload == (3, (1,))
    assert type((i * np.int64(3)).payload[1][0]) is int


ERRORS = [
    lambda: bool(i < 3),
    lambda: 1 if i == j else 0,
    lambda: list(i),
    lambda: i in [j],
    lambda: (i, j) == (j, i),
    lambda: i / 2,
    lambda: i + 0.5,
    lambda: i + x,
    lambda: x + k8,
    lambda: k8 / k8,
    lambda: x & x,
    lambda: (i < 3) + (i < 4),
    lambda: t.unary("exp", k8),
    lambda: t.where(i, i, i),
    lambda: t.load(0, [x], "float32"),
    lambda: t.cast_to(x, "index"),
    lambda: i == None,  # noqa: E711
    lambda: cast(Any, operator.add)(i, np.arange(3)),
    lambda: cast(Any, operator.add)(np.arange(3), i),
    lambda: t.var("a b"),
    lambda: t.sym("lambda"),
    lambda: t.sym("N", lower=5, upper=4),
    lambda: t.sym("N", lower=5, upper=7, multiple_of=4),
]


@pytest.mark.parametrize("build", ERRORS)
def test_refuses(build: Any) -> None:
    with pytest.raises(TypeMismatch):
        build()


def test_an_error_says_what_to_use_instead() -> None:
    with pytest.raises(TypeMismatch, match=r"eq\.where.*a\.same\(b\)"):
        bool(i < j)


def test_sums_cancel_and_fold() -> None:
    assert i - i is t.index_const(0)
    assert (i + 3) - (j + 3) is i - j
    assert (2 * i + 4) * 3 is 6 * i + 12
    assert -(i - j) is j - i
    assert t.index_const(7) // 2 is t.index_const(3) and t.index_const(-7) % 4 is t.index_const(1)
    assert (t.index_const(7) // 0).op == "floordiv"


def test_junctions_keep_their_order() -> None:
    p, q = i > 0, i < 4
    assert t.logical_and(p, True, q, p).args == (p, q)
    assert t.logical_and(q, p) is not t.logical_and(p, q)
    assert t.logical_and(p, False, q).args == (p, t.FALSE)
    assert t.logical_and(False, p) is t.FALSE and t.logical_or() is t.FALSE and t.logical_and(q) is q
    assert t.logical_or(t.logical_or(p, q), p) is t.logical_or(p, q)
    assert t.logical_not(p) is (i <= 0)
    assert t.logical_not(x < 0).op == "not", "a comparison with NaN is false both ways"


def test_where_with_equal_branches_is_the_branch() -> None:
    assert t.where(i < 3, j, j) is j
    assert t.where(i < 3, x, t.load(0, [i], "float32")) is x


@given(terms())
def test_rebuilding_changes_nothing(term: Term) -> None:
    assert transform(term, lambda node: None) is term


def test_what_a_term_folds_to_is_not_changed_twice() -> None:
    """Loads given other numbers: a fold over the new ones is new, too."""
    i, j = t.ax(0, 4), t.ax(1, 4)
    a, b = t.load(0, [i], "bool"), t.load(0, [j], "bool")

    def moved(term: Term) -> Term:
        def change(node: Term) -> Term | None:
            return t.load(node.payload + 1, [t.index_const(0)], node.dtype) if node.op == "load" else None

        return transform(term, change)

    once = t.load(1, [t.index_const(0)], "bool")
    for term in (t.logical_and(a, b), t.logical_or(a, b), t.where(i < 2, a, b)):
        assert moved(term) is once
    assert moved(t.logical_and(t.logical_and(a, i < 2), b)) is t.logical_and(once, i < 2)
    shift = {i: i + 1, j: t.index_const(0)}
    assert transform(i + j, lambda node: shift.get(node)) is i + 1
    assert all(t.rebuild(node, node.args) is node for node in postorder(term))
    assert substitute(term, {LEAVES[0]: LEAVES[0]}) is term
    assert copy.copy(term) is term and copy.deepcopy(term) is term and copy.deepcopy([term])[0] is term


def test_substitution_is_simultaneous_and_normalises() -> None:
    assert substitute(i + 2 * j, {i: j, j: i}) is j + 2 * i
    assert substitute(i * j, {i: t.index_const(3)}) is 3 * j
    assert substitute(t.where(i < 3, i, j), {i: t.index_const(1)}) is t.index_const(1)
    n = t.sym("N")
    assert substitute(t.ax(0, n), {n: t.index_const(4)}) is t.ax(0, 4)


def test_deep_and_wide_terms() -> None:
    deep = i
    for n in range(8_000):
        deep = t.binary("floordiv", deep + j, n % 7 + 2) if n % 3 else t.where(deep < 3, deep, j)
    wide = t.linear(0, [(n + 1, t.var(f"v{n}")) for n in range(8_000)])
    for term in (deep, wide):
        assert dag_size(term) > 8_000
        assert pickle.loads(pickle.dumps(term)) is term
        assert substitute(substitute(term, {j: i * i}), {i * i: j}) is term
        assert len(term.digest) == 12 and str(term)


def test_unused_terms_are_forgotten() -> None:
    gc.collect()
    before = len(node._interned)  # pyright: ignore[reportPrivateUsage]
    for n in range(1000):
        assert str(t.var("only_here") * (n + 2))
    gc.collect()
    assert len(node._interned) <= before + 10  # pyright: ignore[reportPrivateUsage]


def test_threads_share_terms() -> None:
    made: list[list[Term]] = []

    def work() -> None:
        made.append([t.binary("floordiv", t.var(f"shared{n % 10}"), n + 2) + n for n in range(2000)])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(a is b for other in made[1:] for a, b in zip(made[0], other, strict=True))


def test_the_order_of_summands_is_the_same_in_every_process() -> None:
    code = "import sys\nfrom eqsat.ir.terms import term as t\n"
    code += "print(t.linear(0, [(1, t.var(c)) for c in sys.argv[1]]).args)"
    runs: set[str] = set()
    for seed, names in (("1", "abcdefgh"), ("2", "hgfedcba")):
        command, env = [sys.executable, "-c", code, names], os.environ | {"PYTHONHASHSEED": seed}
        runs.add(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
    assert len(runs) == 1 and "h" in runs.pop()


def test_terms_and_numbers_can_share_a_set() -> None:
    known: set[Any] = {*range(5000)}
    known.update(t.var(f"n{n}") for n in range(100))
    assert len(known) == 5100

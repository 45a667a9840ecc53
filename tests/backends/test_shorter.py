"""Where rules in one direction are stuck, the index e-graph makes kernels smaller, and they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from kernel_checks import check_statements

from eqsat.backends.compile import compile
from eqsat.backends.lowering import shorter
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lower import lower
from eqsat.backends.opencl.kernel import make_unit
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.tensors.tensor import Program, Tensor, as_program, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.simplifying import simplify as simplifying


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that was made before must not stand in for another one."""
    monkeypatch.setenv("EQSAT_CACHE", "off")


@contextmanager
def without_the_graph() -> Generator[None]:
    """Simplification ends with its first stage."""

    def found_before(_: Term, found: Term, *more: Any) -> Term:
        return found

    forget: Callable[[], None] = simplifying._simplified.cache_clear  # pyright: ignore[reportPrivateUsage]
    forget()
    with mock.patch.object(simplifying, "other_form", found_before):
        yield
    forget()


def reversed_blocks() -> Tensor:
    """Blocks of 16 from the last to the first, each from its last cell to its first, begun at a cell inside of one."""
    x = input("x", (3584,), "float32")
    return compute((3584,), lambda i: x[(-((i + 13) // 16)) % 224 * 16 + (2 - i) % 16])


def sheared() -> Tensor:
    """An index that is the column, in so many words."""
    x = input("x", (1024,), "float32")
    return compute((64, 40), lambda i, j: x[1023 - ((i - j + 1) // 2 * 2 - i - (i + j) % 2 + 1023) % 1024])


def opencl(program: Program, kind: str) -> str:
    return make_unit(program, {}, {}, Profile(kind=kind, units=2, group=256, local_bytes=1 << 15))[1].source


def test_the_graph_makes_kernels_smaller() -> None:
    program = as_program(reversed_blocks())
    feeds = {"x": np.arange(3584, dtype="float32")}
    with without_the_graph():
        longer, plain = compile(program), str(lower(program).steps[0])
        texts = [opencl(program, kind) for kind in ("cpu", "gpu")]
    smaller = compile(program)
    assert len(smaller.source) < len(longer.source)
    for kind, text in zip(("cpu", "gpu"), texts, strict=True):
        assert len(opencl(program, kind)) < len(text), kind
    assert plain.count("for") == 3 and str(lower(program).steps[0]).count("for") == 2
    want = (2 - np.arange(3584)) % 3584
    np.testing.assert_array_equal(longer(feeds), want.astype("float32"))
    np.testing.assert_array_equal(smaller(feeds), want.astype("float32"))
    check_statements({"y": reversed_blocks()}, feeds)


def test_a_search_without_questions_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else finds these forms; the kernels are right with and without them."""
    for made, feeds in ((reversed_blocks, np.arange(3584)), (sheared, np.arange(1024))):
        program, x = as_program(made()), {"x": feeds.astype("float32")}
        smaller = str(lower(program).steps[0])
        assert "%" not in smaller and "//" not in smaller
        check_statements({"y": made()}, x)
        with monkeypatch.context() as patch:
            patch.setattr(shorter, "MOST_QUESTIONS", 0)
            assert len(str(lower(program).steps[0])) > len(smaller)
            check_statements({"y": made()}, x)


def test_few_questions_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """About whole addresses and sides of comparisons, those that are tangled, and no more than a number of them."""
    i, j = t.ax(0, 64), t.ax(1, 40)
    tangled = [(i - j + k) // 2 * 2 - (i + j) % 2 for k in range(shorter.MOST_QUESTIONS + 4)]
    body = t.logical_and(*(t.compare("lt", x, n) for n, x in enumerate([i // 8, *tangled])))
    tops = shorter.index_terms(body)
    assert set(tangled) < set(tops) and not {(i + j) % 2, i - j, i} & set(tops)
    asked: list[Term] = []

    class Counting:
        def shortest(self, terms: list[Term], box: object) -> list[Term]:
            asked.extend(terms)
            return [i]

    monkeypatch.setattr(shorter, "decider", Counting)
    found = shorter.Shorter(IndexSimplifier()).forms(body)
    assert len(asked) == len(found) == shorter.MOST_QUESTIONS and set(asked) < set(tangled)

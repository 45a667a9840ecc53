"""Conflicts of accesses against enumeration of every iteration, and the dependences of schedules built on them."""

from __future__ import annotations

import random

import pytest
from instances import Instance, instances
from random_nests import Nests
from seeds import some_of

from eqsat.accesses.access import Access, Context, Memory, accesses
from eqsat.accesses.accumulate import Accumulation, accumulation
from eqsat.accesses.conflict import Conflict, common_loops, conflict
from eqsat.accesses.dependences import carried, permuted, pulled_apart
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, If, Stmt, Store, seq, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load

P, Q = t.ax(0, 4), t.ax(1, 4)
ONE = t.const(1, "int32")


def context(**shapes: tuple[int, ...]) -> Context:
    return Context({n: Memory(BufferDecl(n, s, "int32"), n) for n, s in shapes.items()})


def x_at(*i: Term) -> Term:
    return load("x", i, "int32")


def meets(a: Instance, b: Instance, depth: int) -> bool:
    """Same memory, one writes, a in an earlier iteration of the loop at this depth."""
    if a.access.memory.root != b.access.memory.root or a.cell != b.cell or not (a.access.write or b.access.write):
        return False
    private = a.access.memory.private
    return a.at[: max(depth, private)] == b.at[: max(depth, private)] and a.at[depth] < b.at[depth]


def check_witness(found: Conflict, all_instances: list[Instance]) -> None:
    """Both iterations of a witness are ones that happen, and touch its cell."""
    assert found.exact and found.first_iteration is not None and found.second_iteration is not None
    for access, at in ((found.first, found.first_iteration), (found.second, found.second_iteration)):
        point = tuple(at.values())
        assert any(i.access.path == access.path and i.at == point and i.cell == found.cell for i in all_instances)


@pytest.mark.parametrize("seed", some_of(range(40), 16))
def test_carried_conflicts_are_those_of_enumeration(seed: int) -> None:
    func = Nests(random.Random(seed)).function()
    for stmt, here in loops(func):
        known, happened = accesses(stmt, here), instances(stmt, here)
        depth = len(here.loops)
        found = carried(known, depth)
        wanted = any(meets(a, b, depth) for a in happened for b in happened)
        assert (found is not None) == wanted, str(func)
        if found is not None:
            check_witness(found, happened)


def loops(func: PrimFunc) -> list[tuple[For, Context]]:
    """The outermost loops of a function, each with its context."""
    found: list[tuple[For, Context]] = []
    stack: list[tuple[Stmt, Context]] = [(func.body, Context.of(func))]
    while stack:
        stmt, here = stack.pop()
        if isinstance(stmt, For):
            found.append((stmt, here))
        elif isinstance(stmt, Alloc):
            stack.append(here.child(stmt, 0))
        else:
            stack.extend(here.child(stmt, n) for n in range(len(getattr(stmt, "parts", ()))))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_interchanges_are_refused_where_a_pair_of_iterations_turns_around(seed: int) -> None:
    rng = random.Random(seed)
    nests = Nests(rng)
    nests.function()
    axes = [t.ax(80, rng.choice((2, 3))), t.ax(81, 3)]
    body: Stmt = seq([nests.store(axes) for _ in range(rng.randint(1, 2))])
    nest = For(axes[0], For(axes[1], body))
    here = Context({n: Memory(d, n) for n, d in nests.decls.items()})
    happened = instances(nest, here)
    turned = [
        (a, b)
        for a in happened
        for b in happened
        if a.access.memory.root == b.access.memory.root
        and a.cell == b.cell
        and (a.access.write or b.access.write)
        and a.at[0] < b.at[0]
        and b.at[1] < a.at[1]
    ]
    found, _ = permuted(accesses(nest, here), 0, [1, 0])
    if found is not None:
        assert turned
        check_witness(found, happened)
    else:  # what turns around is an accumulation of integers
        assert all(isinstance(a.access.stmt, Store) and a.access.stmt.value.op in ("add", "max") for a, _ in turned)


def test_float_accumulation_needs_a_reduce_loop() -> None:
    b = load("b", [], "float32")
    nest = For(P, For(Q, Store("b", (), b + load("a", [P, Q], "float32"))))
    here = Context({n: Memory(BufferDecl(n, s, "float32"), n) for n, s in (("a", (4, 4)), ("b", ()))})
    met, free = permuted(accesses(nest, here), 0, [1, 0])
    assert met is not None and met.exact and not free
    whole = For(P, For(Q, nest.body.body, reduce=True), reduce=True)  # type: ignore[attr-defined]
    met, free = permuted(accesses(whole, here), 0, [1, 0])
    assert met is None and [type(s) for s in free] == [Store]
    half = For(P, For(Q, nest.body.body, reduce=True))  # type: ignore[attr-defined]
    assert permuted(accesses(half, here), 0, [1, 0])[0] is not None


def test_what_reads_other_cells_is_no_accumulation() -> None:
    own, other = x_at(P), x_at((P + 1) % 4)
    for value in (own - other, own + other, other - own, t.where(t.compare("lt", own, ONE), own + ONE, own)):
        assert accumulation(Store("x", (P,), value)) is None
    assert accumulation(Store("x", (P,), own - ONE - ONE)) == Accumulation("add", True)


def test_init_comes_apart_and_a_running_sum_does_not() -> None:
    init = Store("x", (P,), ONE)
    nest = For(P, seq([init, For(Q, Store("x", (P,), x_at(P) + load("y", [P, Q], "int32")))]))
    found = accesses(nest, context(x=(4,), y=(4, 4)))
    first = [a for a in found if a.stmt is init]
    second = [a for a in found if a.stmt is not init]
    assert pulled_apart(first, second, 0)[0] is None
    running = If(t.compare("lt", 0, P), Store("x", (P,), x_at(P - 1)))
    nest = For(P, seq([running, For(Q, Store("x", (P,), x_at(P) * load("y", [P, Q], "int32")))]))
    found = accesses(nest, context(x=(4,), y=(4, 4)))
    first = [a for a in found if len(a.loops) == 1]
    second = [a for a in found if len(a.loops) == 2]
    met = pulled_apart(first, second, 0)[0]
    assert met is not None and met.exact and met.cell == (0,)
    assert (met.first_iteration or {})["i0"] == 0 and met.second_iteration == {"i0": 1}


def test_memory_is_what_conflicts_not_names() -> None:
    flat = BufferDecl("flat", (16,), "int32")
    nest = Alias(flat, "x", For(P, For(Q, Store("flat", (4 * P + Q,), x_at(Q, P)))))
    here = context(x=(4, 4))
    met = carried(accesses(nest, here), 0)
    assert met is not None and met.exact
    same = Alias(flat, "x", For(P, For(Q, Store("flat", (4 * P + Q,), x_at(P, Q)))))
    assert carried(accesses(same, here), 0) is None
    bytewise = Alias(BufferDecl("b", (64,), "int8"), "x", For(P, Store("b", (16 * P + 3,), t.const(1, "int8"))))
    whole = seq([bytewise, For(Q, Store("x", (Q, t.index_const(0)), ONE))])
    a, b = (x for x in accesses(whole, here) if x.write)
    assert conflict(a, b) is not None and conflict(a, b, less=[(0, 0)]) is None


def test_local_memory_is_new_in_each_iteration_of_the_loops_around_it() -> None:
    local = BufferDecl("acc", (1,), "int32")
    zero = (t.index_const(0),)
    use = seq([Store("acc", zero, x_at(P)), Store("x", (P,), load("acc", zero, "int32"))])
    here = context(x=(4,))
    assert carried(accesses(For(P, Alloc(local, use)), here), 0) is None
    assert carried(accesses(Alloc(local, For(P, use)), here), 0) is not None


def test_what_depends_on_data_may_be_anywhere_but_along_known_axes() -> None:
    at = t.cast_to(load("p", [Q], "int32"), "index")
    here = context(x=(4, 4), p=(4,))
    rows = For(P, For(Q, Store("x", (P, at), ONE)))
    assert carried(accesses(rows, here), 0) is None
    met = carried(accesses(rows, here), 1)
    assert met is not None and not met.exact and met.cell == (0, None)


def test_symbolic_extents() -> None:
    n = t.sym("N")
    i, j = t.ax(0, n), t.ax(1, n)
    here = context(x=(4, 4))
    rows = For(i, For(j, Store("x", (i, j), ONE)))
    known = accesses(rows, here)
    assert carried(known, 0) is None and carried(known, 1) is None
    shifted = For(i, If(t.compare("lt", 0, i), Store("y", (i,), load("y", [i - 1], "int32"))))
    found = accesses(shifted, context(y=(9,)))
    assert common_loops(found[0], found[1]) == 1 and carried(found, 0) is not None


def test_zero_extents_and_rank_zero() -> None:
    empty = t.ax(0, 0)
    here = context(x=())
    assert carried(accesses(For(empty, Store("x", (), ONE)), here), 0) is None
    assert carried(accesses(For(P, Store("x", (), ONE)), here), 0) is not None
    only_read: list[Access] = accesses(For(P, Store("y", (P,), x_at())), context(x=(), y=(4,)))
    assert carried(only_read, 0) is None
    assert len(list(statements(For(P, If(t.compare("lt", P, Q), seq([])))))) == 3

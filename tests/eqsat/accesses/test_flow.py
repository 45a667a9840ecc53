"""The flow of values: what two orders of the same accesses see and leave."""

from __future__ import annotations

from eqsat.accesses.access import Context, Memory, accesses
from eqsat.accesses.flow import Named, same_flow
from eqsat.ir.statements.stmt import Assume, BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.term import Term, load

P, Q = t.ax(0, 3), t.ax(1, 2)
HERE = Context({n: Memory(BufferDecl(n, (6,), "int8"), n) for n in ("x", "y", "z")})


def known(stmt: Stmt, here: Context = HERE) -> list[Named]:
    """The accesses of a statement, named by the axes of these loops."""
    return [Named(a, tuple(x for x in (P, Q) if x in set(a.axes))) for a in accesses(stmt, here)]


def both(body: Stmt) -> tuple[list[Named], list[Named]]:
    return known(For(P, For(Q, body))), known(For(Q, For(P, body)))


def number(value: Term) -> Term:
    return t.cast_to(value, "int8")


def test_what_is_overwritten_may_change_places() -> None:
    last = Store("x", (P % 2,), number(P + Q))  # of each cell, the last write is the same in both orders
    assert same_flow(*both(last))
    assert not same_flow(*both(Store("x", (P + Q,), number(P))))


def test_what_is_read_before_may_not() -> None:
    seen = seq([Store("x", (P % 2,), number(P + Q)), Store("y", (P + 3 * Q,), load("x", [P % 2], "int8"))])
    assert same_flow(*both(seen))  # each read sees the write of its own iteration
    late = seq([Store("y", (P + 3 * Q,), load("x", [P % 2], "int8")), Store("x", (P % 2,), number(P + Q))])
    assert not same_flow(*both(late))
    guarded = If(t.compare("eq", P, 0), late)
    assert same_flow(*both(guarded))


def test_each_iteration_of_the_loops_around_is_looked_at_by_itself() -> None:
    outer = t.ax(2, 2)
    body = Store("x", (P + outer - P + Q - Q,), number(P + Q))
    around, inside = HERE.child(For(outer, seq([])), 0)[1], For(P, For(Q, body))
    assert same_flow(known(inside, around), known(For(Q, For(P, body)), around), 1)
    mixed = Store("x", (t.index_const(0),), number(outer * P))
    one, two = known(For(P, For(Q, mixed)), around), known(For(Q, For(P, mixed)), around)
    assert same_flow(one, two, 1)
    turned = Store("x", (t.index_const(0),), number(P - Q))
    # In the first iteration the last write differs; in the second, all is overwritten by the same one.
    swapped = If(t.logical_or(t.compare("eq", outer, 1), t.compare("eq", P + Q, 2)), turned)
    one, two = (known(For(outer, For(a, For(b, swapped)))) for a, b in ((P, Q), (Q, P)))
    assert same_flow(one, two)
    assert not same_flow(known(For(P, For(Q, swapped)), around), known(For(Q, For(P, swapped)), around), 1)


def test_what_cannot_be_told_is_no() -> None:
    data = Store("x", (t.cast_to(load("y", [P], "int8"), "index"),), number(Q))
    assert not same_flow(*both(data))
    n = t.ax(3, t.sym("N"))
    symbolic = known(For(n, Store("x", (n % 2,), number(n))))
    assert not same_flow(symbolic, symbolic)
    huge = t.ax(4, 1 << 20)
    many = known(For(huge, Store("x", (huge % 2,), number(huge))))
    assert not same_flow(many, many)
    assert not same_flow(known(For(P, Store("x", (P,), number(P)))), [])


def test_equal_values_are_one_whichever_iteration_makes_them() -> None:
    """What a store computes with, and what it reads, makes its value; not all axes of its loops."""
    same = Store("x", (P % 2,), load("y", [Q], "int8"))  # y is not written: for each cell, the last Q
    assert same_flow(*both(same))
    assert same_flow(*both(Store("x", (Q,), t.const(3, "int8"))))
    assert not same_flow(*both(Store("x", (P + Q,), load("y", [P], "int8"))))
    chained = seq([Store("y", (Q,), t.const(3, "int8")), Store("x", (P % 2,), load("y", [Q], "int8"))])
    assert same_flow(*both(chained))  # all that is read is the same 3
    grown = Store("x", (t.index_const(0),), load("x", [t.index_const(0)], "int8") + number(P))
    assert not same_flow(*both(grown))  # sums in another order
    steady = Store(
        "x", (t.index_const(0),), load("x", [t.index_const(0)], "int8") + load("y", [t.index_const(1)], "int8")
    )
    assert same_flow(*both(steady))  # the same is added each time


def test_copies_hold_what_they_are_copied_from() -> None:
    two = seq([Store("y", (P,), load("x", [P], "int8")), Store("x", (P,), load("y", [P], "int8"))])
    assert same_flow(*both(two))
    turned = Store("x", (P,), load("x", [2 - P], "int8"))
    assert not same_flow(known(For(P, turned)), known(For(P, Store("x", (2 - P,), load("x", [P], "int8")))))


def test_values_that_are_freed_or_read_by_conditions_are_told_apart() -> None:
    freed = Store("x", (P + Q,), new_hole("int8", []))
    assert not same_flow(*both(freed))  # it is another unknown value each time
    first = t.index_const(0)
    one = t.compare("eq", load("x", [first], "int8"), t.const(1, "int8"))
    assert not same_flow(*both(seq([Assume(one), Store("x", (first,), number(P))])))
    assert same_flow(*both(seq([Store("x", (first,), t.const(1, "int8")), Assume(one)])))


def test_a_cell_that_data_tells_is_no_copy_of_the_data() -> None:
    first, inner = t.index_const(0), load("x", [t.index_const(0)], "int8")

    def at(p: int, q: int, value: Term) -> Stmt:
        here = t.logical_and(t.compare("eq", P, p), t.compare("eq", Q, q))
        return seq([Store("x", (P + 1,), t.const(0, "int8")), If(here, Store("z", (first,), value))])

    looked = load("y", [t.cast_to(inner, "index")], "int8")
    assert not same_flow(*both(seq([at(0, 1, looked), at(1, 0, inner)])))

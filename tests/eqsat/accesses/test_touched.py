"""The cells that statements touch, against enumeration."""

from __future__ import annotations

import random

import numpy as np
import pytest
from instances import instances, number
from random_nests import Nests, extents

from eqsat.accesses.access import Context, Memory
from eqsat.accesses.touched import region, touched
from eqsat.ir.errors import ShapeError
from eqsat.ir.statements.stmt import BufferDecl, For, If, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import load
from eqsat.proving.prover import prove

P, Q = t.ax(0, 16), t.ax(1, 4)
ONE = t.const(1, "int32")


def context(**shapes: tuple[int, ...]) -> Context:
    return Context({n: Memory(BufferDecl(n, s, "int32"), n) for n, s in shapes.items()})


def test_the_condition_of_a_write_is_tracked() -> None:  # feature: E5
    part = For(P, If(P < 12, Store("x", (P,), load("y", [15 - P], "int32"))))
    here = context(x=(16,), y=(16,))
    written = touched(part, "x", here)
    assert (
        written.exact
        and [bool(number(written.may, {written.cells[0]: n})) for n in range(16)] == [True] * 12 + [False] * 4
    )
    read = touched(part, "y", here, "read")
    assert str(read.at([3])) == "False" and str(read.at([4])) == "True"
    assert touched(part, "y", here).may is t.FALSE
    # Inside of the loop, the axis around stays in the predicate.
    body, inner = here.child(part, 0)
    assert str(touched(body, "x", inner).at([P])) == "i0 < 12"


@pytest.mark.parametrize("seed", range(60))
def test_touched_cells_are_those_of_enumeration(seed: int) -> None:  # feature: E5
    nests = Nests(random.Random(seed))
    nests.function()
    stmt = nests.stage()
    here = Context({n: Memory(d, n) for n, d in nests.decls.items()})
    happened = instances(stmt, here)
    for name, memory in here.buffers.items():
        for kind in ("read", "write"):
            found = touched(stmt, name, here, kind)
            wanted = {i.cell for i in happened if i.access.buffer == name and i.access.write == (kind == "write")}
            assert found.exact
            got = {
                cell
                for cell in np.ndindex(*extents(memory.decl))
                if bool(number(found.may, dict(zip(found.cells, cell, strict=True))))
            }
            assert got == wanted, (str(found.may), kind, name)


def test_data_dependent_writes_may_touch_and_must_not_count() -> None:
    data = If(t.compare("lt", load("y", [P], "int32"), t.const(0, "int32")), Store("x", (P,), ONE))
    here = context(x=(16,), y=(16,))
    found = touched(For(P, data), "x", here)
    assert not found.exact and found.may is t.TRUE and found.must is t.FALSE
    scatter = Store("x", (t.cast_to(load("y", [P], "int32"), "index"),), ONE)
    found = touched(For(P, scatter), "x", here)
    assert found.may is t.TRUE and found.must is t.FALSE


def test_regions_compare_with_proofs() -> None:  # feature: E5
    here = context(x=(16,), y=(4, 4))
    all_of_it = touched(For(P, Store("x", (P,), ONE)), "x", here)
    tiles = touched(For(Q, If(Q < 3, Store("x", (4 * Q + 1,), ONE))), "x", here)
    assert all_of_it.covers(tiles) and not tiles.covers(all_of_it)
    witness = tiles.covers(all_of_it).witness or {}
    assert witness["c0#"] not in (1, 5, 9)
    others = touched(For(Q, Store("x", (4 * Q + 2,), ONE)), "x", here)
    assert tiles.apart(others) and tiles.apart(tiles).verdict == "refuted"
    with pytest.raises(ShapeError, match="compare one buffer"):
        tiles.covers(touched(seq([]), "y", here))


def test_swizzles_are_tried_and_symbols_stay() -> None:
    here = context(x=(16,), big=(1 << 40,))
    odd = touched(For(Q, Store("x", ((Q * Q) % 16,), ONE)), "x", here)
    assert odd.exact and [n for n in range(16) if bool(number(odd.at([n]), {}))] == [0, 1, 4, 9]
    wide = t.ax(5, 1 << 40)
    unknown = touched(For(wide, Store("big", ((wide * wide) % (1 << 40),), ONE)), "big", here)
    assert not unknown.exact and unknown.may is t.TRUE and unknown.must is t.FALSE
    n = t.sym("N", 1, 16)
    m = t.ax(6, n)
    some = touched(For(m, Store("x", (m,), ONE)), "x", here)
    cell = some.cells[0]
    assert some.exact and prove(t.logical_or(some.may, n <= cell))
    assert prove(t.logical_or(t.logical_not(some.may), cell < n))
    none = touched(For(t.ax(7, 0), Store("x", (t.ax(7, 0),), ONE)), "x", here)
    assert none.may is t.FALSE and region([], "x", here).may is t.FALSE

"""Work on constants hoisted out of a function: what packs its weights becomes a function of its own, run once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import listed, text
from eqsat.ir.statements.primfunc import PrimFunc, as_function
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import Alloc, Assume, Seq, Stmt, Store, has, seq, statements
from eqsat.passes.mentioned import names_in
from eqsat.passes.split import split_function


def hoist_preprocessing(func: PrimFunc, constants: Collection[str]) -> tuple[PrimFunc, PrimFunc]:
    """Two functions: what a function does with constant parameters alone, and the rest, which takes its results.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(x: int8[4], W: int8[8], y: int8[4])
    ...   alloc packed: int8[2, 4]
    ...   for a in 2:
    ...     for b in 4:
    ...       packed[a, b] = W[2*b + a]
    ...   for i in 4:
    ...     y[i] = x[i]*packed[0, i] + packed[1, i]''')
    >>> prepack, main = eq.hoist_preprocessing(f, ["W"])
    >>> print(prepack)
    func f_prepack(W: int8[8], packed: int8[2, 4])
      for a in 2:
        for b in 4:
          packed[a, b] = W[2*b + a]
    >>> print(main.params)
    ('x', 'y', 'packed')

    constants: parameters that are the same in every call, such as weights. Statements of the outermost sequence that
    read nothing but them and what was made of them, and write local buffers that no statement before them uses, go into
    the first function. What it makes are parameters of the second one, which begins with what is known of them.

    Errors: ScheduleError for a name that no parameter has, where there is nothing to hoist, or a constant is written.
    Source: the layout discussion of Apache TVM's Relax (row G15).
    """
    func = with_own_names(as_function(func, "hoist_preprocessing"))
    what = f"hoist_preprocessing of {func.name}"
    constants = [text(c, what, ScheduleError) for c in listed(constants, what, f"[{constants!r}]", ScheduleError)]
    unknown = sorted({*constants} - {*func.params})
    if unknown:
        raise ScheduleError(what, f"there is no parameter {unknown[0]!r}", f"parameters are {', '.join(func.params)}")
    written = {s.buffer for s in statements(func.body) if isinstance(s, Store)}
    changed = sorted(written & {*constants})
    if changed:
        raise ScheduleError(what, f"{changed[0]} is written", "name what is only read", {"buffer": changed[0]})
    first, rest, reason = _parted(func, constants)
    if not first or not rest:
        problem = reason if not first else "there would be nothing left"
        raise ScheduleError(what, problem, "copy or compute what is constant in a statement of its own, before its use")
    prepack, main = split_function(_with_parts(func, [*first, *rest]), len(first))
    return replace(prepack, name=f"{func.name}_prepack"), replace(main, name=f"{func.name}_main")


def _parted(func: PrimFunc, constants: Collection[str]) -> tuple[list[Stmt], list[Stmt], str]:
    """The statements that work on constants alone, the others, and why the first of those that read one is not."""
    body = func.body
    while isinstance(body, Alloc):
        body = body.body
    parts = body.parts if isinstance(body, Seq) else (body,)
    closed = {*func.params}
    while True:  # what is made once must not be written again by what runs in every call
        first, rest, reason = _with_closed(parts, constants, closed)
        again = _written(rest) & _written(first)
        if not again:
            return first, rest, reason
        closed |= again


def _with_closed(
    parts: Sequence[Stmt], constants: Collection[str], closed: Collection[str]
) -> tuple[list[Stmt], list[Stmt], str]:
    known, used = {*constants}, {*closed}
    first: list[Stmt] = []
    rest: list[Stmt] = []
    reason = ""
    for part in parts:
        writes, names = _written([part]), names_in(part)
        more, seen = sorted(names - known - writes), sorted(writes & used)
        if writes and not more and not seen and not has(part, Assume):
            first.append(part)
            known |= writes
            continue
        rest.append(part)
        used |= names
        known -= writes
        if names & {*constants} and not reason:
            reason = f"the statement that writes {', '.join(sorted(writes))} " + (
                f"reads {more[0]}" if more else f"writes {seen[0]}, which is used elsewhere" if seen else "assumes"
            )
    return first, rest, reason or f"no statement reads {', '.join(sorted(constants))}"


def _written(parts: Sequence[Stmt]) -> set[str]:
    return {s.buffer for s in statements(seq(parts)) if isinstance(s, Store)}


def _with_parts(func: PrimFunc, parts: Sequence[Stmt]) -> PrimFunc:
    """The function with other statements in its local buffers."""
    found: list[Alloc] = []
    body = func.body
    while isinstance(body, Alloc):
        found.append(body)
        body = body.body
    body = seq(parts)
    for alloc in reversed(found):
        body = replace(alloc, body=body)
    return replace(func, body=body)

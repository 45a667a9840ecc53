"""Accesses that are not shown to stay inside of their buffers are checked where they run.

An access that certainly leaves its buffer is an error here. One that may, by what the program knows, gets a test: where
it fails the statement is left out, and its number goes to `status`, an extra parameter that callers look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eqsat.backends.lowering.access import by_position, guards
from eqsat.ir.decide import decider
from eqsat.ir.errors import BoundsError
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.statements.lanes import lane
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    For,
    If,
    Seq,
    Stmt,
    Store,
    children,
    seq,
    statements,
    stmt_terms,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import free_variables, nodes_of, symbols

SIMPLE_PARTS = 8
"""Guards of more parts are not asked the prover about: the access is checked where it runs."""


@dataclass
class Checked:
    """A function whose accesses stay inside; `accesses` are those that are tested, numbered from 1 in `status`."""

    func: PrimFunc
    status: str = ""
    accesses: list[str] = field(default_factory=list[str])


def with_checks(func: PrimFunc) -> Checked:
    """The function with a test around every statement that is not shown to stay inside of its buffers.

    >>> f = PrimFunc.parse('''func f(x: int8[4], at: int32[4])
    ...   for i in 4:
    ...     x[cast(at[i], 'index')] = int8(0)''')
    >>> print(with_checks(f).func)
    func f(x: int8[4], at: int32[4], status: int32[1])
      for i in 4:
        if 0 <= cast(at[i], 'index') and cast(at[i], 'index') <= 3:
          x[cast(at[i], 'index')] = int8(0)
        else:
          status[0] = int32(1)

    Raises BoundsError, with a position, where an access leaves its buffer whatever the data is.
    """
    work = _Checks(func)
    body = work.stmt(func.body, t.TRUE, dict(func.buffer_map))
    if not work.accesses:
        return Checked(func)
    decls = {**func.buffer_map, work.status: BufferDecl(work.status, (1,), "int32")}
    return Checked(PrimFunc(func.name, tuple(decls), decls, body, func.note), work.status, work.accesses)


class _Checks:
    def __init__(self, func: PrimFunc) -> None:
        local = {s.buffer.name for s in statements(func.body) if isinstance(s, (Alloc, Alias))}
        self.what = f"function {func.name}"
        self.status = fresh_name("status", {*func.params, *local})
        self.accesses: list[str] = []
        self.exact = True
        """Whether the context is all that decides if a statement runs."""

    def stmt(self, stmt: Stmt, context: Term, decls: Mapping[str, BufferDecl]) -> Stmt:
        """`context` is what holds where the statement runs."""
        if isinstance(stmt, (Alloc, Alias)):
            inner = {**decls, stmt.buffer.name: stmt.buffer}
            return replace(stmt, body=self.stmt(stmt.body, context, inner))
        if isinstance(stmt, (For, Seq)):
            if isinstance(stmt, For) and t.is_const(stmt.extent_term, 0):
                return seq([])
            return with_children(stmt, [self.stmt(p, context, decls) for p in children(stmt)])
        if isinstance(stmt, Assume):
            return stmt
        claim = self.unproved(stmt, context, decls)
        if isinstance(stmt, If):
            then = self.branch(stmt.then, stmt.condition, context, decls)
            other = t.logical_not(stmt.condition)
            orelse = None if stmt.orelse is None else self.branch(stmt.orelse, other, context, decls)
            stmt = If(stmt.condition, then, orelse)
        if claim is t.TRUE:
            return stmt
        failed = Store(self.status, (t.index_const(0),), t.const(len(self.accesses), "int32"))
        return If(claim, stmt, failed)

    def branch(self, stmt: Stmt, condition: Term, context: Term, decls: Mapping[str, BufferDecl]) -> Stmt:
        """A statement behind a condition; what that says of data may have changed when it matters."""
        fixed, outside = by_position(condition), self.exact
        self.exact = outside and fixed is condition
        result = self.stmt(stmt, t.logical_and(context, fixed), decls)
        self.exact = outside
        return result

    def unproved(self, stmt: Stmt, context: Term, decls: Mapping[str, BufferDecl]) -> Term:
        """What must be tested before a statement runs, in the order of its evaluation."""
        parts: list[Term] = []
        shown = ""
        terms = stmt_terms(stmt)
        for term in terms:
            reached = guards(term)
            for node in nodes_of("load", term):
                if isinstance(node.payload, str):
                    shape = decls[node.payload].shape
                    for index, reach in self.lanes(node.args, reached[node], str(node), decls, shape, context):
                        found = self.needed(str(node), index, shape, t.logical_and(context, reach))
                        shown = shown or (str(node) if found else "")
                        parts += [t.logical_or(t.logical_not(reach), claim) for claim in found]
        if isinstance(stmt, Store):
            text = f"{stmt.buffer}[{', '.join(map(str, stmt.index))}]"
            shape = decls[stmt.buffer].shape
            for index, _ in self.lanes(stmt.index, t.TRUE, text, decls, shape, context):
                found = self.needed(text, index, shape, context)
                shown = shown or (text if found else "")
                parts += found
        if parts:
            self.accesses.append(shown)
        return t.logical_and(*parts)

    def lanes(
        self,
        index: Sequence[Term],
        reach: Term,
        text: str,
        decls: Mapping[str, BufferDecl],
        shape: Sequence[Dim],
        context: Term,
    ) -> list[tuple[Sequence[Term], Term]]:
        """An access and the condition under which it happens: as they are for scalars and for ramps, of which the ends
        tell; else lane by lane. Nothing where vectors decide, and it is inside whatever they say."""
        if reach.lanes == 1 and all(i.lanes == 1 or i.op == "ramp" for i in index):
            return [(index, reach)]
        if any(decls[n.payload].lanes > 1 for n in nodes_of("load", *index, reach) if isinstance(n.payload, str)):
            if reach.lanes > 1 and self.inside(index, text, shape, context):
                return []
            problem = "it depends, lane by lane, on elements that are vectors"
            raise BoundsError(
                f"{self.what}: access {text}", problem, "declare the buffer that it depends on in scalars"
            )
        count = max(x.lanes for x in (*index, reach))
        return [([lane(i, k, {}) for i in index], lane(reach, k, {})) for k in range(count)]

    def inside(self, index: Sequence[Term], text: str, shape: Sequence[Dim], context: Term) -> bool:
        """Whether an access stays in its buffer, also in lanes where it does not happen."""
        if any(i.lanes > 1 and i.op != "ramp" for i in index):
            return False
        outside, self.exact = self.exact, False
        found = self.needed(text, index, shape, context)
        self.exact = outside
        return not found

    def needed(self, text: str, index: Sequence[Term], shape: Sequence[Dim], guard: Term) -> list[Term]:
        """The claims that are not shown of one access."""
        claims: list[Term] = []
        for i, extent in zip(index, shape, strict=True):
            ends = [i]
            if i.op == "ramp":
                ends = [i.args[0], i.args[0] + i.args[1] * (i.payload - 1)]
            for end in ends:
                for form in (end, extent - 1 - end):
                    if not self.shown(text, form, guard):
                        claims.append(t.compare("le", 0, form) if form is end else t.compare("le", end, extent - 1))
        return claims

    def shown(self, text: str, form: Term, guard: Term) -> bool:
        """Whether form >= 0 is shown under the guard; BoundsError where it certainly fails somewhere."""
        low = Bounds().of(form)[0]
        if low is not None and low >= 0:
            return True
        low = Bounds().under(guard).of(form)[0] if guard is not t.TRUE else low
        if low is not None and low >= 0:
            return True
        fixed = by_position(guard)
        if nodes_of("load", form) or len(fixed.args) > SIMPLE_PARTS:
            return False
        box = {a: (0, n) for a in free_variables(form, fixed) if a.args and (n := t.int_value(a.args[0])) is not None}
        proof = decider().prove(t.compare("le", 0, form), box, fixed)
        if proof:
            return True
        if proof.verdict == "refuted" and self.exact and fixed is guard and not symbols(form, fixed):
            at = {str(k): v for k, v in dict(proof.witness or {}).items()}
            raise BoundsError(f"{self.what}: access {text}", f"leaves its buffer at {at}", "guard it with an if")
        return False

"""Every load of a kernel is shown to stay inside of its buffer, under the guards above it; then loads become flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.backends.lowering.index_simplifier import IndexSimplifier, nonnegative_form
from eqsat.ir.decide import decider
from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import BoundsError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.sums import linear_parts
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term, int_value, load
from eqsat.ir.terms.walk import conjuncts, free_variables, nodes_of, postorder, substitute, transform

CHOSEN = ("min", "max", "where", "cast")
"""Operations that make an index of what is read from data."""
MAX_GUARD = 64
"""Of guards with more parts some are dropped: the claim below gets harder to prove, never wrong."""


@dataclass(frozen=True, eq=False)
class Claim(Record):
    """`form >= 0` is needed wherever `guard` holds; `access` is the load as the user wrote it."""

    guard: Term
    form: Term
    access: str


def flat_index(index: Sequence[Term], shape: Sequence[int]) -> Term:
    """The row-major position of an index."""
    total = t.index_const(0)
    for i, extent in zip(index, shape, strict=True):
        total = total * extent + i
    return total


def by_position(condition: Term) -> Term:
    """A condition without what it says about data: weaker, and so safe to assume in its place."""
    if not _reads_data(condition):
        return condition
    if condition.op in ("and", "or"):
        return t.junction(condition.op, [by_position(a) for a in condition.args])
    return t.TRUE


def guards(body: Term) -> dict[Term, Term]:
    """The condition under which each subterm is evaluated at all (`where`, `and` and `or` are lazy)."""
    order = list(postorder(body))
    reached: dict[Term, Term] = {body: t.TRUE}

    def reach(node: Term, condition: Term) -> None:
        known = reached.get(node)
        reached[node] = _narrowed(condition) if known is None else _either(known, condition)

    for node in reversed(order):
        here = reached[node]
        if node.op == "where":
            condition, yes, no = node.args
            reach(condition, here)
            reach(yes, t.logical_and(here, condition))
            reach(no, t.logical_and(here, t.logical_not(condition)))
        elif node.op in ("and", "or"):
            for part in node.args:
                reach(part, here)
                here = t.logical_and(here, part if node.op == "and" else t.logical_not(part))
        else:
            for a in node.args:
                reach(a, here)
    return reached


def _narrowed(condition: Term) -> Term:
    """A conjunction with one bound for each form, the tightest, where the first stood; of more than may be, those at
    both ends.

    A concatenation of many tensors is a chain of choices: in its last piece, all bounds of the others hold.

    >>> from eqsat.ir.terms.parse import parse_expr
    >>> _narrowed(parse_expr("6 <= i and j < 4 and 12 <= i and i < 18 and 9 <= i"))
    12 <= i and j < 4 and i < 18
    """
    parts, end = [part for _, part in _bounds(condition).values()], MAX_GUARD // 4
    return t.logical_and(*(parts if len(parts) <= 2 * end else parts[:end] + parts[-end:]))


def _bounds(condition: Term) -> dict[object, tuple[int, Term]]:
    """The tightest bound of each form in a conjunction, with its constant, where the first one stood."""
    found: dict[object, tuple[int, Term]] = {}
    for part in conjuncts(condition):
        form = nonnegative_form(part)
        constant, summands = (0, ()) if form is None else linear_parts(form)
        key = part.serial if form is None else tuple((c, s.serial) for c, s in summands)
        found[key] = min(found.get(key, (constant, part)), (constant, part), key=lambda bound: bound[0])
    return found


def _either(a: Term, b: Term) -> Term:
    """A disjunction; where it has more parts than may be, what all of them say: of each form the weakest bound.

    A concatenation of pieces of one tensor reads it in as many places, in each within the hull of these.
    """
    b = _narrowed(b)
    both = t.logical_or(a, b)
    if len(conjuncts(both)) + len(both.args) <= MAX_GUARD:
        return both
    first, *others = [_bounds(side) for side in (both.args if both.op == "or" else (both,))]
    common = [key for key in first if all(key in side for side in others)]
    return t.logical_and(
        *(max((side[key] for side in (first, *others)), key=lambda bound: bound[0])[1] for key in common)
    )


def load_claims(body: Term, shapes: Mapping[str, tuple[int, ...]], simplifier: IndexSimplifier) -> list[Claim]:
    """What must hold for every load to be in range, without what the box of the axes shows at once."""
    claims: list[Claim] = []
    reached = guards(body)
    for node in nodes_of("load", body):
        shape = (int(node.payload.array.size),) if isinstance(node.payload, Table) else shapes[node.payload]
        for i, extent in zip(node.args, shape, strict=True):
            for form in (i, extent - 1 - i):
                known = simplifier.range(simplifier.simplify(form))
                if known is None or known[0] < 0:
                    claims.append(Claim(simplifier.simplify(reached[node]), simplifier.simplify(form), str(node)))
    return [c for c in claims if c.guard is not t.FALSE]


def settle(claim: Claim, guard: Term, form: Term, simplifier: IndexSimplifier) -> None:
    """Show that the form is at least 0 under the guard, at one place of a kernel; else an error naming the access."""
    known = simplifier.range(form)
    if guard is t.FALSE or (known is not None and known[0] >= 0):
        return
    for condition in conjuncts(guard):
        given = nonnegative_form(condition)
        slack = None if given is None else simplifier.range(simplifier.simplify(form - given))
        if slack is not None and slack[0] >= 0:
            return
    witness = ""
    (guard, freed), data = _any_data(guard, form, simplifier)
    guard = by_position(guard)
    if guard is t.FALSE:
        return
    if not _reads_data(freed):
        box = {a: (0, int_value(a.args[0]) or 0) for a in free_variables(guard, freed) if a.args} | data
        proof = decider().prove(t.compare("le", 0, freed), box, guard)
        if proof:
            return
        if not data:  # else it may be of numbers that no data are
            witness = f", for example at {dict(proof.witness)}" if proof.witness else ""
    raise BoundsError(
        f"access {claim.access}", f"may leave its buffer: {form} >= 0 is not shown{witness}", "guard it with eq.where"
    )


def _reads_data(term: Term) -> bool:
    """Whether a term reads anything but constant tables."""
    return any(not isinstance(n.payload, Table) for n in nodes_of("load", term))


def _any_data(
    guard: Term, form: Term, simplifier: IndexSimplifier
) -> tuple[tuple[Term, Term], dict[Term, tuple[int, int]]]:
    """Guard and form with a variable in place of each index of known range that is read from data, and the ranges: what
    holds for every number in a range holds for those that are read."""
    found: dict[Term, Term] = {}
    ranges: dict[Term, tuple[int, int]] = {}
    stack, seen = [form, guard], set[Term]()
    while stack:
        node = stack.pop()
        if node in seen or not _reads_data(node):
            continue
        seen.add(node)
        known = simplifier.range(node) if node.dtype == INDEX and node.op in CHOSEN else None
        if known is None:
            stack.extend(node.args)
        else:
            found[node] = t.var(f"data{len(found)}")
            ranges[found[node]] = (known[0], known[1] + 1)
    return (substitute(guard, found), substitute(form, found)), ranges


def flatten_loads(body: Term, shapes: Mapping[str, tuple[int, ...]]) -> Term:
    """Loads by one row-major index each."""

    def change(node: Term) -> Term | None:
        if node.op != "load" or node.dtype == INDEX:
            return None
        return load(node.payload, [flat_index(node.args, shapes[node.payload])], node.dtype)

    return transform(body, change)

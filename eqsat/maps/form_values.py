"""What forms are at points, and over other forms: values of linear forms as arrays, and substitution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms.term import Term
from eqsat.maps.forms import Form

LARGEST = 1 << 62


def leaves_of(form: Form) -> list[Term]:
    """The leaves that occur in a form of quotients and remainders."""
    found: list[Term] = []
    stack = [a for a, _ in form.parts]
    while stack:
        atom = form.arena.atoms[stack.pop()]
        if atom.term is not None:
            found.append(atom.term)
        stack.extend(a for x in atom.args for a, _ in x.parts)
    return found


def replaced(form: Form, table: Mapping[Form, Form], memo: dict[int, Form]) -> Form | None:
    """The form with atoms replaced by other forms; None where one stands inside of what is no quotient."""
    summands: list[tuple[int, Form]] = []
    for a, c in form.parts:
        found = memo.get(a)
        if found is None:
            atom = form.arena.atoms[a]
            found = table.get(atom.form)
            if found is None and atom.args and atom.term is None:
                x = replaced(atom.args[0], table, memo)
                if x is not None:
                    found = form.arena.div(x, atom.number) if atom.op == "//" else form.arena.mod(x, atom.number)
            elif found is None and not atom.unknown:
                found = atom.form
            if found is None:
                return None
            memo[a] = found
        summands.append((c, found))
    return form.arena.linear(form.constant, summands)


def values_of(wanted: Sequence[Form], env: Mapping[Term, NDArray]) -> list[NDArray] | None:
    """The values of forms at arrays of leaves; None where 64 bits may not hold them, or where other operations than
    quotients and remainders occur."""
    done: dict[int, NDArray] = {}
    stack = list(reversed(wanted))
    while stack:
        form = stack[-1]
        missing = [a for a, _ in form.parts if a not in done]
        inner: list[Form] = []
        for a in missing:
            atom = form.arena.atoms[a]
            if atom.term is not None:
                if atom.op != "leaf" or atom.term not in env:
                    return None
                done[a] = env[atom.term]
            elif all(b in done for b, _ in atom.args[0].parts):
                x = _value(atom.args[0], done)
                if x is None:
                    return None
                done[a] = np.floor_divide(x, atom.number) if atom.op == "//" else np.remainder(x, atom.number)
            else:
                inner.append(atom.args[0])
        stack.extend(inner)
        if not inner:
            stack.pop()
    result = [_value(form, done) for form in wanted]
    return [x for x in result if x is not None] if all(x is not None for x in result) else None


def _value(form: Form, done: Mapping[int, NDArray]) -> NDArray | None:
    size = abs(form.constant)
    for a, c in form.parts:
        atom = form.arena.atoms[a]
        if atom.low is None or atom.high is None:
            return None
        most = max(abs(atom.low), abs(atom.high))
        if form.arena.restricted:  # what is assumed need not hold at these points
            most = max(most, int(np.abs(done[a]).max(initial=0)))
        size += abs(c) * most
    if size >= LARGEST:
        return None
    total: NDArray | int = form.constant
    for a, c in form.parts:
        total = total + (done[a] if c == 1 else c * done[a])
    return np.asarray(total)

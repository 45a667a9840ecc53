"""What a primitive answers: the function after it, the names that it made, and what was reordered."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.accesses.conflict import Conflict
from eqsat.ir.decide import Proof
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Stmt
from eqsat.ir.statements.text import format_stmt


@dataclass(frozen=True, eq=False)
class Change:
    """A function, changed: `made` names new loops or buffers; `reordered` holds the float accumulations whose order
    changed along loops marked reduce, as text; `steps` are the smaller steps that it consists of."""

    func: PrimFunc
    made: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def shown(stores: list[Stmt]) -> tuple[str, ...]:
    """Stores as text."""
    return tuple(dict.fromkeys(format_stmt(s)[0] for s in stores))


def refuse(what: str, met: Conflict, advice: str) -> ScheduleError:
    """The error for a conflict that forbids a step."""
    fix = advice if met.exact else f"{advice}; whether they do depends on data, or could not be decided"
    return ScheduleError(what, str(met), fix, met.witness)


def become_one(things: str, proof: Proof) -> str:
    """That a map is not injective, with the two that say so."""
    points = [proof.witness[k] for k in ("first", "second")] if proof.witness else []
    shown = " and ".join(f"({', '.join(f'{name} = {n}' for name, n in p.items())})" for p in points)
    return f"two {things} become one" + (f": {shown}" if shown else "")

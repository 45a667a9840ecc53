"""Which laws a search uses: those of eqsat, fewer by name, or more by declaration, once they are proved."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.laws.plan import check_can_act
from eqsat.laws.text import acts
from eqsat.rulebook import BELIEVED, check_rule
from eqsat.rules import tensor_laws

NEEDED = ("identity", "spell", "absorb")
"""Laws that no search can do without: without them no program could be built from its graph."""


def admitted(rules: Iterable[str | Law] | None) -> tuple[Law, ...]:
    """The laws of a search. Names choose among those of eqsat; laws are added to them.

    >>> [law.name for law in admitted(["compose"])]
    ['compose', 'identity', 'spell', 'absorb']

    Errors: an unknown name; a law that is not proved (with the witness) or that can act nowhere (with the reason).
    """
    own = tensor_laws()
    given = [] if rules is None else [rules] if isinstance(rules, (str, Law)) else list(rules)
    names = [x for x in given if isinstance(x, str)]
    for name in names:
        if all(law.name != name for law in own):
            known = ", ".join(law.name for law in own)
            raise EqsatError(f"rule {name!r}", "eqsat has no such rule", f"one of {known}")
    more = [x for x in given if isinstance(x, Law)]
    for law in more:
        if any(law.name == other.name for other in own if other.name not in names or other != law):
            raise EqsatError(f"law {law.name}", "eqsat has a law of this name", "choose another")
        _believed(law)
    chosen = [law for law in own if not names or law.name in (*names, *NEEDED)]
    return (*chosen, *(law for law in more if law not in chosen))


@lru_cache(maxsize=1 << 8)
def _believed(law: Law) -> None:
    """Refuse a law that is not proved, or that can act nowhere."""
    if acts(law):
        check_can_act(law)
    report = check_rule(law)
    if report.status not in BELIEVED:
        witness = f" at {dict(report.witness)}" if report.witness else ""
        raise EqsatError(f"law {law}", f"{report.status}{witness}", "only proved laws may be used")

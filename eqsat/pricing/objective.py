"""What is made less: time, by a table of prices, or bytes."""

from __future__ import annotations

from eqsat.backends.targets import target_named
from eqsat.ir.errors import EqsatError
from eqsat.ir.given import told
from eqsat.pricing.table import Table, current


def table_for(target: str, objective: str | None, prices: Table | None = None) -> Table | None:
    """The table of prices by which a target's results are chosen: those given, else those of this machine, else those
    that come with the package; None where bytes are counted."""
    usual = target_named(target).objective
    known = sorted({"bytes", usual})
    chosen = usual if objective is None else objective
    if chosen not in known:
        names = " or ".join(repr(name) for name in known)
        raise EqsatError(f"optimize for {chosen!r}", f"is no objective of target {target!r}", f"{names}")
    if prices is not None and not isinstance(prices, Table):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = "eqsat.pricing.table.read(path) reads what `eqsat calibrate` keeps"
        raise EqsatError(f"prices={told(prices)}", "are no table of prices", fix)
    return (prices or current()) if chosen == "time" else None

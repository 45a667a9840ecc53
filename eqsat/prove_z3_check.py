"""Asking Z3: the verdict of a solver, interruptible from the keyboard."""

from __future__ import annotations

from typing import Any

INTERRUPTED = "interrupted from keyboard"


def verdict_of(solver: Any) -> str:
    """ "sat", "unsat" or "unknown"; Z3 takes Ctrl-C for itself and answers "unknown", which must stay an interrupt."""
    verdict = str(solver.check())
    if verdict == "unknown" and solver.reason_unknown() == INTERRUPTED:
        raise KeyboardInterrupt
    return verdict

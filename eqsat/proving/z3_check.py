"""Asking Z3: the verdict of a solver, interruptible from the keyboard."""

from __future__ import annotations

import threading
from typing import Any

from eqsat import interrupt

INTERRUPTED = "interrupted from keyboard"


def verdict_of(solver: Any) -> str:
    """ "sat", "unsat" or "unknown".

    Z3 takes Ctrl-C for itself and answers "unknown", or, where it had just finished, forgets it. So it is told not to
    in a command, which stops it in another way, and in other threads than the main one, to which Ctrl-C belongs.
    """
    if interrupt.is_watched():
        solver.set("ctrl_c", False)
        with interrupt.stopped_by(solver.ctx.interrupt):
            return str(solver.check())
    if threading.current_thread() is not threading.main_thread():
        solver.set("ctrl_c", False)
    verdict = str(solver.check())
    if verdict == "unknown" and solver.reason_unknown() == INTERRUPTED:
        raise KeyboardInterrupt
    return verdict

"""Locks that survive a fork."""

from __future__ import annotations

import os
from typing import Any, TypeVar

Lock = TypeVar("Lock", bound=Any)


def fork_safe(lock: Lock) -> Lock:
    """The lock, held by whoever forks while it does: so no other thread holds it, and what it guards is whole, in the
    child, where nobody else could ever release it. For locks that live as long as the process and are held briefly.

    >>> import threading
    >>> with fork_safe(threading.Lock()) as held:
    ...     held
    True
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock

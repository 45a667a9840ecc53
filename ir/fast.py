"""The switch for fast paths: what is also known by rules of an e-graph may be computed directly, and tests turn that
off to see that the e-graphs alone come to the same."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_FAST: ContextVar[bool] = ContextVar("fast paths", default=True)


def fast_paths() -> bool:
    """Whether direct computations may stand in for the rules that they are instances of."""
    return _FAST.get()


@contextmanager
def by_rules_alone() -> Generator[None]:
    """No fast path is taken inside of the block.

    >>> with by_rules_alone():
    ...     fast_paths()
    False
    """
    token = _FAST.set(False)
    try:
        yield
    finally:
        _FAST.reset(token)

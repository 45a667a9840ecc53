"""What long work says of itself while it goes on, and who hears it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], None]
_heard: ContextVar[Listener | None] = ContextVar("heard", default=None)


@contextmanager
def heard_by(listener: Listener) -> Generator[None]:
    """Let a listener hear what the block says.

    >>> said = []
    >>> with heard_by(said.append):
    ...     tell("searching")
    >>> tell("nobody hears it"); said
    ['searching']
    """
    before = _heard.set(listener)
    try:
        yield
    finally:
        _heard.reset(before)


def tell(phase: str) -> None:
    """Say which phase the work is in, or what is the best so far."""
    listener = _heard.get()
    if listener is not None:
        listener(phase)

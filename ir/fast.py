"""The switch for fast paths: what is also known by rules of an e-graph may be computed directly, and tests turn that
off to see that the e-graphs alone come to the same. Fast paths are the laws applied while a program is loaded, the
rewriter's passes of `simplify`, and inverses of index maps by digits and by bits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

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


def remembered(most: int) -> Callable[[F], F]:
    """`lru_cache` for functions of positional arguments that may ask `fast_paths`: what was found with fast paths does
    not stand in for what is found without.

    >>> @remembered(8)
    ... def way(n: int) -> str:
    ...     return f"{n} fast" if fast_paths() else f"{n} by rules"
    >>> with by_rules_alone():
    ...     way(1)
    '1 by rules'
    >>> way(1)
    '1 fast'
    """

    def decorate(function: F) -> F:
        @lru_cache(maxsize=most)
        def kept(_: bool, *args: Any) -> Any:
            return function(*args)

        @wraps(function)
        def asked(*args: Any) -> Any:
            return kept(fast_paths(), *args)

        told = cast("Any", asked)
        told.cache_clear, told.cache_parameters = kept.cache_clear, kept.cache_parameters
        return cast("F", asked)

    return decorate

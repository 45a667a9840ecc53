"""Attributes that are computed when first asked for, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """`functools.cached_property` as Python 3.12 has it, for 3.11 too.

    Python 3.11 computes under a lock that all objects of a class share: threads wait for each other, and a process that
    is forked meanwhile waits for ever. Here two threads may both compute a value, so it must not matter whose is kept.

    >>> class Square:
    ...     @cached_property
    ...     def area(self) -> int:
    ...         print("computed")
    ...         return 9
    >>> square = Square()
    >>> square.area + square.area
    computed
    18
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = self.function(instance)
        # The first that is kept stays: what was handed out once is the same for ever.
        return instance.__dict__.setdefault(self.name, value)

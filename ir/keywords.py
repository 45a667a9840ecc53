"""Keywords that a function does not have: the error says which one was meant."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from eqsat.ir.errors import EqsatError

CO_VARKEYWORDS = 0x08
"""The flag of code that takes any keywords, as `inspect` has it, which takes long to import."""
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])


class UnknownKeyword(EqsatError, TypeError):
    """A keyword that a function does not have."""


def keywords(function: F, owner: str | None = None) -> F:
    """A function whose other keywords are an error that names the nearest of its own.

    owner: the class of a method, or '' where that is the class of its first argument.

    >>> @keywords
    ... def cut(x, start=0, stop=None): ...
    >>> cut(1, begin=2)
    Traceback (most recent call last):
        ...
    eqsat.ir.keywords.UnknownKeyword: cut(begin=...): is no parameter (it has x, start, stop)
    >>> cut(1, stopp=2)
    Traceback (most recent call last):
        ...
    eqsat.ir.keywords.UnknownKeyword: cut(stopp=...): is no parameter ('stop' was meant)
    """
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or code.co_flags & CO_VARKEYWORDS:
        return function
    listed = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    known = frozenset(listed)

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if given and not known.issuperset(given):
            raise _unknown(_called(function.__name__, owner, args), given, listed)
        return function(*args, **given)

    return cast("F", checked)


def keyword_methods(kind: C) -> C:
    """A class whose constructor and public methods are functions with `keywords`."""
    for name, method in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(method, (staticmethod, classmethod)):
            wrapped = cast("Any", method)
            setattr(kind, name, type(wrapped)(keywords(wrapped.__func__, kind.__name__)))
        elif isinstance(method, FunctionType):
            setattr(kind, name, keywords(method, ""))
    return kind


def keyword_functions(names: Iterable[str], scope: dict[str, Any]) -> None:
    """Make the functions of a module that have these names functions with `keywords`, there and where they are made, so
    that they are found again by name."""
    for name in names:
        function = scope.get(name)
        checked = keywords(function) if isinstance(function, FunctionType) else function
        if isinstance(function, FunctionType) and checked is not function:
            home = sys.modules.get(function.__module__)
            if getattr(home, function.__name__, None) is function:
                setattr(home, function.__name__, checked)
            else:
                checked.__module__ = scope["__name__"]
            scope[name] = checked


def _called(name: str, owner: str | None, args: Sequence[Any]) -> str:
    if owner is None:
        return name
    owner = owner or (type(args[0]).__name__ if args else "")
    return owner if name == "__init__" else f"{owner}.{name}"


def _unknown(called: str, given: Collection[str], listed: Sequence[str]) -> UnknownKeyword:
    from difflib import get_close_matches  # only needed here

    own = [name for name in listed if name not in ("self", "cls")]
    wrong = next(name for name in given if name not in own)
    close = get_close_matches(wrong, own, 1) or [name for name in own if wrong in name or name in wrong]
    fix = f"{close[0]!r} was meant" if close else f"it has {', '.join(own)}" if own else "it has none"
    return UnknownKeyword(f"{called}({wrong}=...)", "is no parameter", fix)


def inputs_problem(names: Collection[str], given: Collection[object]) -> str:
    """What is wrong with the names of arguments that stand for inputs; '' where nothing is.

    >>> inputs_problem(["x", "y"], ["x", "z"])
    "missing inputs: 'y'; unknown inputs: 'z'; it takes x, y"
    """
    said = {"missing": [n for n in names if n not in given], "unknown": [n for n in given if n not in names]}
    parts = [f"{kind} inputs: {', '.join(map(repr, some))}" for kind, some in said.items() if some]
    return "; ".join([*parts, f"it takes {', '.join(names) or 'none'}"]) if parts else ""

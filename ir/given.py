"""What users give as a number, a word, a name or a list: checked in one place, and made plain.

`what` is said to have been given, such as "split with factors=[4.5, None]", and `error` the kind of the refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from keyword import iskeyword
from typing import Any, cast

import numpy as np

from eqsat.ir.errors import EqsatError, ShapeError, TypeMismatch

Errors = type[EqsatError]


def whole(value: Any, what: str, name: str = "", error: Errors = ShapeError) -> int:
    """A Python int from an integer of Python or numpy; truths and floats are none, whatever they are.

    >>> whole(np.int64(3), "cut at")
    3
    >>> whole(2.0, "cut at")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.ShapeError: cut at: 2.0 is not an integer
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise error(what, f"{name} {value!r} is not an integer".lstrip())
    return int(cast(Any, value))


def one_of(value: Any, words: Sequence[str], what: str, error: Errors = TypeMismatch) -> str:
    """One of some words; the refusal names them, and the one that was meant.

    >>> one_of("Fixed", ("fixed", "free"), "layout with interface='Fixed'")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.TypeMismatch: layout with interface='Fixed': 'Fixed' is none of 'fixed', 'free' ('fixed' was meant)
    """
    if isinstance(value, str) and value in words:
        return value
    meant = _meant(value, words) if isinstance(value, str) else ""
    problem = f"{value!r} is none of {', '.join(map(repr, words))}"
    raise error(what, problem, f"{meant!r} was meant" if meant else "")


def _meant(value: str, words: Sequence[str]) -> str:
    from difflib import get_close_matches  # only needed here

    return next(iter(get_close_matches(value.lower(), words, 1)), "")


def truth(value: Any, what: str, error: Errors = TypeMismatch) -> bool:
    """True or False, of Python or numpy."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(what, f"{value!r} is neither True nor False")
    return bool(cast(Any, value))


def text(value: Any, what: str, error: Errors = TypeMismatch) -> str:
    """A text, such as the name of something that there is."""
    if not isinstance(value, str):
        raise error(what, f"{value!r} is no text")
    return value


def new_name(value: Any, what: str, error: Errors = TypeMismatch) -> str:
    """A name for something new, which a text of it can hold."""
    name = text(value, what, error)
    if not name.isidentifier() or iskeyword(name):
        raise error(what, f"{name!r} is no name", "use letters, digits and _")
    return name


def label(value: Any, kind: str) -> str:
    """What a rule or a law is called, given to its decorator.

    >>> label(3, "rule")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.TypeMismatch: rule: 3 is no name (a decorator takes one: @eq.rule("my-rule"))
    """
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise TypeMismatch(kind, f"{told(value)} is no name", f'a decorator takes one: @eq.{kind}("my-{kind}")')
    return value


def told(value: object) -> str:
    """A value as an error says it: short."""
    found = repr(value)
    return found if len(found) < 80 and "\n" not in found else f"a {type(value).__name__}"


def listed(value: Any, what: str, fix: str = "", error: Errors = TypeMismatch) -> list[Any]:
    """What was given for a list: one thing alone is none, nor is a text, which would be taken apart."""
    if not isinstance(value, (str, bytes)) and isinstance(value, Iterable):
        try:
            return list(cast("Iterable[Any]", value))
        except (EqsatError, TypeError):  # of a term, or of an array without axes
            pass
    raise error(what, "is no list", fix)

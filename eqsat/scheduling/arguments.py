"""The arguments of steps: each is checked by its name, before the step, and made what a trace can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import listed, new_name, one_of, text, truth, whole
from eqsat.ir.terms.term import Term
from eqsat.passes.hoist import ALL
from eqsat.scheduling.layout import INTERFACES, STYLES

Check = Callable[[Any, str], Any]
"""What an argument is made, from what was given and how that is said; ScheduleError where it is none."""


def checked(step: str, primitive: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a step without those that are None, where a step need not have them.

    >>> from eqsat.scheduling.loops import split
    >>> checked("split", split, {"loop": "i", "factors": (None, 4), "names": None})
    {'loop': 'i', 'factors': [None, 4]}
    >>> checked("split", split, {"loop": "i", "factors": [4.0, None]})
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.ScheduleError: split with factors=[4.0, None]: 4.0 is not an integer
    """
    needed = _needed(primitive)
    given: dict[str, Any] = {}
    for name, value in args.items():
        if value is not None or name in needed:
            check = _CHECKS.get(name)
            given[name] = value if check is None else check(value, f"{step} with {name}={value!r}")
    return given


def _needed(primitive: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters without a default."""
    code, defaults = primitive.__code__, primitive.__defaults__
    return code.co_varnames[: code.co_argcount - len(defaults or ())]


def _text(value: Any, what: str) -> str:
    return text(value, what, ScheduleError)


def _name(value: Any, what: str) -> str:
    return new_name(value, what, ScheduleError)


def _whole(value: Any, what: str) -> int:
    return whole(value, what, "", ScheduleError)


def _factor(value: Any, what: str) -> int | None:
    return None if value is None else _whole(value, what)


def _word(*words: str) -> Check:
    return lambda value, what: one_of(value, words, what, ScheduleError)


def _truth(value: Any, what: str) -> bool:
    return truth(value, what, ScheduleError)


def _condition(value: Any, what: str) -> Term:
    if not isinstance(value, Term):
        raise ScheduleError(what, f"{value!r} is no condition", "a term, or a text such as 'i < 3'")
    return value


def _list(check: Check) -> Check:
    def each(value: Any, what: str) -> list[Any]:
        name = what.rpartition(" with ")[2].partition("=")[0]
        return [check(item, what) for item in listed(value, what, f"{name}=[{value!r}]", ScheduleError)]

    return each


_CHECKS: Mapping[str, Check] = {
    "loop": _text, "loops": _list(_text), "outer": _text, "inner": _text, "first": _text, "block": _text,
    "buffer": _text, "name": _name, "names": _list(_name), "factors": _list(_factor), "at": _whole,
    "axis_separators": _list(_whole), "interface": _word(*INTERFACES), "style": _word(*STYLES),
    "rewrite_loops": _truth, "kinds": _list(_word(*ALL)), "condition": _condition,
}  # fmt: skip
"""By the names that parameters of primitives have."""

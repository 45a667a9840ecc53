"""A function as text, with marks at what a step was refused for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms.term import Term

_MOST = 60
_AROUND = 6
_LOOP = re.compile(r"\s*(?:\w+ )*?for (\w+)(?: as (?:var )?(\w+))? in ")


def excerpt(func: PrimFunc, args: Mapping[str, Any], witness: Mapping[str, Any]) -> str:
    """The text of a function; `>` stands before loops, conditions and accesses that arguments or a witness name.

    >>> f = PrimFunc.parse("func f(x: int8[4])\\n  for i in 3:\\n    x[i + 1] = x[i]")
    >>> print(excerpt(f, {"loop": "i"}, {"buffer": "x"}))
      func f(x: int8[4])
    >   for i in 3:
    >     x[i + 1] = x[i]

    Of a long function the lines around the marks are shown.
    """
    lines = str(func).splitlines()
    names, conditions = set(_names(args)) | set(_names(witness)), {str(v) for v in args.values() if isinstance(v, Term)}
    seen: dict[str, int] = {}
    marked = [n for n, line in enumerate(lines) if _means(line, names, conditions, seen) and n]
    near = range(len(lines))
    if len(lines) > _MOST:
        near = [n for n in near if n == 0 or any(abs(n - m) <= _AROUND for m in marked[:3] or [0])]
    shown: list[str] = []
    last = -1
    for n in near:
        if n > last + 1:
            shown.append("  ...")
        shown.append(f"{'>' if n in marked else ' '} {lines[n]}")
        last = n
    return "\n".join(shown if last == len(lines) - 1 else [*shown, "  ..."])


def _names(values: Mapping[str, Any]) -> Iterator[str]:
    """The names in arguments or in a witness: texts, lists of texts, and loops with their iterations."""
    for value in values.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from cast("Mapping[str, Any]", value)
        elif isinstance(value, (list, tuple)):
            yield from (v for v in cast("Sequence[Any]", value) if isinstance(v, str))


def _means(line: str, names: set[str], conditions: set[str], seen: dict[str, int]) -> bool:
    """Whether a line is the head of a loop of these names, a branch of these conditions, or accesses a buffer."""
    found = _LOOP.match(line)
    if found:
        name = found[2] or found[1]
        number = seen[name] = seen.get(name, -1) + 1
        return name in names or f"{name}@{number}" in names
    if line.strip().startswith("if ") and line.strip()[3:-1] in conditions:
        return True
    return any(re.search(rf"(?<!\w){re.escape(name.partition('@')[0])}\[", line) for name in names if name)

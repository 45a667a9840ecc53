"""Steps of a schedule as text: one call on each line, as a trace prints them."""

from __future__ import annotations

import ast
from typing import Any

from eqsat.ir.errors import EqsatError, ParseError, ScheduleError
from eqsat.ir.given import told
from eqsat.ir.terms.holes import UNDEF
from eqsat.scheduling.excerpt import excerpt
from eqsat.scheduling.primitives import PRIMITIVES
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.trace import Trace


def take_steps(schedule: Schedule, text: str) -> None:
    """Take the steps of a text: lines such as `split('i', [None, 4])`, or the JSON of a trace.

    A line may begin with the names that the step must make (`io, ii = split(...)`). Arguments are literals and `UNDEF`;
    index maps, terms and conditions are texts. Lines that begin with a blank or `#` are remarks, so that what a trace
    prints can be read again.

    >>> from eqsat.scheduling.schedule import example
    >>> s = example()
    >>> take_steps(s, "io, ii = split('i', [None, 4], ['io', 'ii'])\\nvectorize('ii')")
    >>> print(s.trace)
    io, ii = split(loop='i', factors=[None, 4], names=['io', 'ii'])
    vectorize(loop='ii')

    Errors: ParseError, naming the line; ScheduleError where a step is refused, its `operation` naming the line. Steps
    before it are taken.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParseError("steps", f"{told(text)} is no text")
    if text.lstrip().startswith("{"):
        schedule.take(Trace.from_json(text))
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line[0].isspace() and line[0] != "#":
            _take(schedule, number, line)


def _take(schedule: Schedule, number: int, line: str) -> None:
    where = f"line {number}"
    name, args, named, made = _call(line, where)
    try:
        found = getattr(schedule, name)(*args, **named)
    except ScheduleError as error:
        placed = ScheduleError(f"{where}: {error.operation}", error.problem, error.fix, error.witness)
        placed.program = error.program or excerpt(schedule.func, {"steps": args, **named}, error.witness)
        raise placed from error
    except TypeError as error:
        raise ParseError(where, f"{line.strip()}: {error}") from error
    except EqsatError as error:
        placed = ScheduleError(where, str(error), witness=error.witness)
        placed.program = excerpt(schedule.func, {"steps": args, **named}, error.witness)
        raise placed from error
    names = (found,) if isinstance(found, str) else tuple(found or ())
    if made and names != made:
        schedule.undo()
        problem = f"{name} makes {', '.join(names) or 'no name'}, not {', '.join(made)}"
        raise ScheduleError(where, problem, "give the names that it makes, or none")


def _call(line: str, where: str) -> tuple[str, list[Any], dict[str, Any], tuple[str, ...]]:
    """The primitive of a line, its arguments, and the names before `=`."""
    try:
        body = ast.parse(line).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ParseError(where, f"{line.strip()!r} is no call", "for example split('i', [None, 4])") from error
    stmt = body[0] if len(body) == 1 else None
    made: tuple[str, ...] = ()
    if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
        target = stmt.targets[0]
        made = tuple(ast.unparse(e) for e in (target.elts if isinstance(target, ast.Tuple) else [target]))
    call = stmt.value if isinstance(stmt, (ast.Assign, ast.Expr)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ParseError(where, f"{line.strip()!r} is no call", "for example split('i', [None, 4])")
    if call.func.id not in PRIMITIVES:
        raise ParseError(where, f"there is no primitive {call.func.id}", f"one of {', '.join(sorted(PRIMITIVES))}")
    named: dict[str, Any] = {}
    for word in call.keywords:
        if word.arg is None or word.arg in named:
            raise ParseError(where, f"{word.arg}= stands twice" if word.arg else "** is no argument", "give each once")
        named[word.arg] = _value(word.value, where)
    return call.func.id, [_value(a, where) for a in call.args], named, made


def _value(node: ast.expr, where: str) -> Any:
    if isinstance(node, ast.Name) and node.id == "UNDEF":
        return UNDEF
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        problem = f"{ast.unparse(node)} is neither a literal nor UNDEF"
        raise ParseError(where, problem, "write maps, terms and conditions as texts") from error

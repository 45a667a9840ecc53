"""Functions that share a buffer: its layout changes in all of them, or in none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import listed, text
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.scheduling.layout import Style
from eqsat.scheduling.memory import family, touches
from eqsat.scheduling.schedule import Schedule


def transform_together(
    schedules: Sequence[Schedule],
    buffer: str,
    index_map: Any,
    pad_value: Any = None,
    *,
    style: Style = "after",
    rewrite_loops: bool = True,
) -> list[tuple[str, ...]]:
    """Put a parameter that several functions share in another layout; returns for each the loops that write it now.

    schedules: of the functions in the order in which they are called. Those without the parameter stay as they are. A
    function that writes the buffer writes its padding, one that only reads it assumes that; so a function that reads
    padding with a value must not be called before the first one that writes it.
    ScheduleError where a step is refused in one of them, which then is taken in none.

    >>> make = PrimFunc.parse("func make(x: int8[3], t: int8[3])\\n  for i in 3:\\n    t[i] = x[i]")
    >>> use = PrimFunc.parse("func use(t: int8[3], y: int8[3])\\n  for j in 3:\\n    y[j] = t[j]")
    >>> both = [Schedule(make), Schedule(use)]
    >>> transform_together(both, "t", "i -> i//2, i%2", 0)
    [('i_0', 'i_1'), ()]
    >>> [s.buffer("t").shape for s in both]
    [(2, 2), (2, 2)]
    """
    what = f"transform_together of {buffer}"
    schedules = listed(schedules, what, f"[{schedules!r}]", ScheduleError)
    for schedule in schedules:
        if not isinstance(schedule, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScheduleError(what, f"{schedule!r} is no eq.Schedule")
    sharing = [s for s in schedules if text(buffer, what, ScheduleError) in s.func.params]
    require_same_interface([s.func for s in sharing], buffer)
    if not sharing:
        raise ScheduleError(what, f"no function has a parameter {buffer}")
    writes = [touches(s.func.body, family(s.func.body, buffer))[1] for s in sharing]
    if pad_value is not None and any(writes) and not writes[0]:
        problem = f"{sharing[0].func.name} reads {buffer} before {sharing[writes.index(True)].func.name} writes it"
        fix, first = "call it later, or use pad_value=None", {"buffer": buffer, "function": sharing[0].func.name}
        raise ScheduleError(what, f"{problem}, and would assume its padding", fix, first)
    taken: list[Schedule] = []
    found: list[tuple[str, ...]] = []
    try:
        for schedule in schedules:
            if buffer not in schedule.func.params:
                found.append(())
                continue
            found.append(
                schedule.transform_layout(
                    buffer, index_map, pad_value, interface="free", style=style, rewrite_loops=rewrite_loops
                )
            )
            taken.append(schedule)
    except ScheduleError as error:
        for schedule in taken:
            schedule.undo()
        refused = next(s for s in sharing if s not in taken)
        again = ScheduleError(f"{what}, in {refused.func.name}", str(error), "", error.witness)
        again.program = error.program
        raise again from error
    require_same_interface([s.func for s in sharing], buffer)
    return found


def require_same_interface(funcs: Sequence[PrimFunc], buffer: str) -> None:
    """Refuse functions that take a buffer in different types, shapes, layouts or with different padding.

    >>> f, g = (PrimFunc.parse(f"func {n}(t: int8[{k}])\\n  t[0] = t[1]") for n, k in (("f", 3), ("g", 4)))
    >>> require_same_interface([f, g], "t")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.ScheduleError: buffer t: f takes int8[3], g takes int8[4] (transform it in all of them)
    """
    sharing = [f for f in funcs if buffer in f.params]
    for other in sharing[1:]:
        first = sharing[0]
        a, b = (_interface(f, buffer) for f in (first, other))
        if a != b:
            problem = f"{first.name} takes {a}, {other.name} takes {b}"
            raise ScheduleError(f"buffer {buffer}", problem, "transform it in all of them", {"buffer": buffer})


def _interface(func: PrimFunc, buffer: str) -> str:
    """How a function takes a parameter, as text: two holes say the same."""
    decl = func.buffer_map[buffer]
    parts = [str(decl).partition(": ")[2]]
    if decl.strides is not None or decl.elem_offset:
        parts.append(f"strides {decl.strides} offset {decl.elem_offset}")
    if decl.axis_separators:
        parts.append(f"separators {decl.axis_separators}")
    for step in decl.transforms:
        value = "undef" if step.pad_value is not None and step.pad_value.op == "hole" else step.pad_value
        parts.append(f"by {step.index_map} of {step.logical_shape}, {value} where {step.predicate}")
    return "; ".join(parts)

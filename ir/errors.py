"""Every error a user of eqsat can meet: one base class, and one message shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EqsatError(Exception):
    """The base of all eqsat errors.

    Parameters are the parts of a good message: the operation, the thing as the user wrote it, the condition that failed
    (with a witness) and what to do about it. `witness` says where it failed, as data: names of axes, symbols and cells
    with their values; it is empty where there is none.

    >>> raise EqsatError("inverse of i -> i % 7 on (14,)", "0 and 7 both map to 0", "use a bijective map")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.EqsatError: inverse of i -> i % 7 on (14,): 0 and 7 both map to 0 (use a bijective map)
    """

    def __init__(
        self, operation: str, problem: str = "", fix: str = "", witness: Mapping[str, Any] | None = None
    ) -> None:
        text = operation + (f": {problem}" if problem else "") + (f" ({fix})" if fix else "")
        super().__init__(text)
        self.operation = operation
        self.problem = problem
        self.fix = fix
        self.witness = dict(witness or {})


class TypeMismatch(EqsatError):
    """Operand types (index or dtype) do not fit the operation."""


class ShapeError(EqsatError):
    """Shapes or ranks do not fit the operation."""


class ParseError(EqsatError):
    """A text (expression, index map, layout, JSON) could not be read."""


class LayoutError(EqsatError):
    """A layout or an index map cannot do what was asked (not injective, needs padding, ...)."""


class BoundsError(EqsatError):
    """An access may leave its buffer."""


class EvaluationError(EqsatError):
    """A program or term has no value for the given inputs."""


class ScheduleError(EqsatError):
    """A step of a schedule or a pass would change what a function does, or cannot be shown not to.

    `program` is the function that a step of a schedule was refused for, as text with `>` before the lines that the step
    or the witness names.

    >>> error = ScheduleError("merge of i and j", "B[3] is read before it is written", witness={"i": 4, "j": 3})
    >>> print(error, error.witness["i"])
    merge of i and j: B[3] is read before it is written 4
    """

    program: str = ""


class MissingMethod(EqsatError, AttributeError):
    """A method of numpy's arrays that tensors do not have; the message names what to write instead."""


class BackendError(EqsatError):
    """A target cannot compile or run what was asked."""


class MissingPackage(EqsatError):
    """An optional package is not installed; the message names the extra that brings it."""


class FrontendError(EqsatError):
    """A model file could not be read or written."""

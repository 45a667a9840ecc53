"""The language of eqsat: terms, index maps, tensor programs, statements, their types and their numpy meaning.

Names are imported when they are first used, so that a module of the language costs only what it needs.
"""

import copyreg
from importlib import import_module
from typing import TYPE_CHECKING, Any

from eqsat.ir.decide import Decider, Proof, decider, register_decider
from eqsat.ir.terms.term import Term, const

if TYPE_CHECKING:
    from eqsat.ir.errors import (
        BackendError,
        BoundsError,
        EqsatError,
        EvaluationError,
        FrontendError,
        LayoutError,
        MissingPackage,
        ParseError,
        ScheduleError,
        ShapeError,
        TypeMismatch,
    )
    from eqsat.ir.layouts.buffer import Buffer
    from eqsat.ir.layouts.index_map import AXIS_SEPARATOR, IndexMap
    from eqsat.ir.layouts.layout import Layout
    from eqsat.ir.layouts.term_json import term_from_json, term_to_json
    from eqsat.ir.ranges.bounds import Bounds, fits_int32, narrow, overflowing
    from eqsat.ir.statements.primfunc import PrimFunc
    from eqsat.ir.tensors.contraction import conv2d
    from eqsat.ir.tensors.library import define, opaque, operator
    from eqsat.ir.tensors.program_json import program_from_json, program_to_json
    from eqsat.ir.tensors.program_text import format_program
    from eqsat.ir.tensors.reductions import concat, matmul, split
    from eqsat.ir.tensors.signature import Signature
    from eqsat.ir.tensors.tensor import (
        Compute,
        Constant,
        Input,
        Opaque,
        Program,
        Tag,
        Tensor,
        View,
        compute,
        constant,
        input,
    )
    from eqsat.ir.tensors.views import view
    from eqsat.ir.terms.build import axis, given, ramp, symbol
    from eqsat.ir.terms.holes import UNDEF
    from eqsat.ir.terms.parse import parse_expr

_MODULES: dict[str, tuple[str, ...]] = {
    "ranges.bounds": ("Bounds", "fits_int32", "narrow", "overflowing"),
    "layouts.buffer": ("Buffer",),
    "terms.build": ("axis", "given", "ramp", "symbol"),
    "tensors.contraction": ("conv2d",),
    "errors": (
        "BackendError",
        "BoundsError",
        "EqsatError",
        "EvaluationError",
        "FrontendError",
        "LayoutError",
        "MissingPackage",
        "ParseError",
        "ScheduleError",
        "ShapeError",
        "TypeMismatch",
    ),
    "terms.holes": ("UNDEF",),
    "layouts.index_map": ("AXIS_SEPARATOR", "IndexMap"),
    "layouts.layout": ("Layout",),
    "tensors.library": ("define", "opaque", "operator"),
    "terms.parse": ("parse_expr",),
    "tensors.program_json": ("program_from_json", "program_to_json"),
    "tensors.program_text": ("format_program",),
    "tensors.reductions": ("concat", "matmul", "split"),
    "layouts.term_json": ("term_from_json", "term_to_json"),
    "tensors.signature": ("Signature",),
    "statements.primfunc": ("PrimFunc",),
    "tensors.tensor": (
        "Compute",
        "Constant",
        "Input",
        "Opaque",
        "Program",
        "Tag",
        "Tensor",
        "View",
        "compute",
        "constant",
        "input",
    ),
    "tensors.views": ("view",),
}


def _enumerator() -> Decider:
    from eqsat.ir.enumerator import Enumerator

    return Enumerator()


register_decider(_enumerator)


def _pickled(term: Term) -> tuple[Any, ...]:
    from eqsat.ir.layouts.term_json import term_from_json, term_to_json

    return term_from_json, (term_to_json(term),)


copyreg.pickle(Term, _pickled)

_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AXIS_SEPARATOR",
    "UNDEF",
    "BackendError",
    "Bounds",
    "BoundsError",
    "Buffer",
    "Compute",
    "Constant",
    "Decider",
    "EqsatError",
    "EvaluationError",
    "FrontendError",
    "IndexMap",
    "Input",
    "Layout",
    "LayoutError",
    "MissingPackage",
    "Opaque",
    "ParseError",
    "PrimFunc",
    "Program",
    "Proof",
    "ScheduleError",
    "ShapeError",
    "Signature",
    "Tag",
    "Tensor",
    "Term",
    "TypeMismatch",
    "View",
    "axis",
    "compute",
    "concat",
    "const",
    "constant",
    "conv2d",
    "decider",
    "define",
    "fits_int32",
    "format_program",
    "given",
    "input",
    "matmul",
    "narrow",
    "opaque",
    "operator",
    "overflowing",
    "parse_expr",
    "program_from_json",
    "program_to_json",
    "ramp",
    "register_decider",
    "split",
    "symbol",
    "term_from_json",
    "term_to_json",
    "view",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'eqsat.ir' has no attribute {name!r}")
    value = getattr(import_module(f"eqsat.ir.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

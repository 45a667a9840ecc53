"""The language of eqsat: terms, index maps, tensor programs, statements, their types and their numpy meaning.

Names are imported when they are first used, so that a module of the language costs only what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eqsat.ir.bounds import Bounds, fits_int32, narrow, overflowing
    from eqsat.ir.buffer import Buffer
    from eqsat.ir.build import axis, given, ramp, symbol
    from eqsat.ir.contraction import conv2d
    from eqsat.ir.decide import Decider, Proof, decider, register_decider
    from eqsat.ir.errors import (
        BackendError,
        BoundsError,
        EqsatError,
        EvaluationError,
        FrontendError,
        LayoutError,
        MissingPackage,
        ParseError,
        ShapeError,
        TypeMismatch,
    )
    from eqsat.ir.holes import UNDEF
    from eqsat.ir.index_map import AXIS_SEPARATOR, IndexMap
    from eqsat.ir.layout import Layout
    from eqsat.ir.library import OperatorSpec, define, opaque, operator
    from eqsat.ir.parse import parse_expr
    from eqsat.ir.program_json import program_from_json, program_to_json
    from eqsat.ir.program_text import format_program
    from eqsat.ir.reductions import concat, matmul, split
    from eqsat.ir.serialize import term_from_json, term_to_json
    from eqsat.ir.signature import Signature
    from eqsat.ir.stmt import PrimFunc
    from eqsat.ir.tensor import Compute, Constant, Input, Opaque, Program, Tag, Tensor, View, compute, constant, input
    from eqsat.ir.term import Term, const
    from eqsat.ir.views import view

_MODULES: dict[str, tuple[str, ...]] = {
    "bounds": ("Bounds", "fits_int32", "narrow", "overflowing"),
    "buffer": ("Buffer",),
    "build": ("axis", "given", "ramp", "symbol"),
    "contraction": ("conv2d",),
    "decide": ("Decider", "Proof", "decider", "register_decider"),
    "errors": (
        "BackendError",
        "BoundsError",
        "EqsatError",
        "EvaluationError",
        "FrontendError",
        "LayoutError",
        "MissingPackage",
        "ParseError",
        "ShapeError",
        "TypeMismatch",
    ),
    "holes": ("UNDEF",),
    "index_map": ("AXIS_SEPARATOR", "IndexMap"),
    "layout": ("Layout",),
    "library": ("OperatorSpec", "define", "opaque", "operator"),
    "parse": ("parse_expr",),
    "program_json": ("program_from_json", "program_to_json"),
    "program_text": ("format_program",),
    "reductions": ("concat", "matmul", "split"),
    "serialize": ("term_from_json", "term_to_json"),
    "signature": ("Signature",),
    "stmt": ("PrimFunc",),
    "tensor": (
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
    "term": ("Term", "const"),
    "views": ("view",),
}
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
    "OperatorSpec",
    "ParseError",
    "PrimFunc",
    "Program",
    "Proof",
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

"""Equality saturation of tensor layouts: rewrite, prove, optimise and compile programs made of reindexing."""

from eqsat import interrupt_start as interrupt_start  # the first of all: it protects a command from its start on

# isort: split
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eqsat.ir.decide import Decider, register_decider
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keyword_functions
from eqsat.ir.tensors.arrays import namespace as _arrays
from eqsat.ir.tensors.arrays.namespace import *  # noqa: F403
from eqsat.ir.tensors.functions import cast, erf, sigmoid, truncdiv, truncmod
from eqsat.ir.tensors.library import opaque
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Program, Tensor, compute, constant, input
from eqsat.ir.terms.build import axis, given, ramp, symbol
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.term import Term, const

if TYPE_CHECKING:
    from eqsat import onnx
    from eqsat import testing as testing
    from eqsat.backends.compile import compile
    from eqsat.calls import call, transform_calls
    from eqsat.engine import optimize
    from eqsat.explaining.chain import explain
    from eqsat.flow import flow_layout
    from eqsat.graph.limits import Limits
    from eqsat.ir.errors import ScheduleError
    from eqsat.ir.law import law
    from eqsat.ir.layouts.buffer import Buffer
    from eqsat.ir.layouts.index_map import AXIS_SEPARATOR, IndexMap
    from eqsat.ir.layouts.layout import Layout
    from eqsat.ir.rule import rule, when
    from eqsat.ir.statements.builder import primfunc
    from eqsat.ir.statements.primfunc import PrimFunc
    from eqsat.ir.statements.run import run_primfunc
    from eqsat.ir.tensors.contraction import conv2d
    from eqsat.ir.tensors.told import operator as operator
    from eqsat.ir.tensors.told import pad_value as pad_value
    from eqsat.passes.formula import as_formula
    from eqsat.passes.preprocess import hoist_preprocessing
    from eqsat.passes.recognise import as_function, as_view
    from eqsat.passes.split import split_function
    from eqsat.pictures.plot import plot
    from eqsat.proving.prover import decide, prove
    from eqsat.rulebook import check_rules
    from eqsat.scheduling.schedule import Schedule
    from eqsat.simplifying.simplify import simplify
    from eqsat.tracing.jit import jit
    from eqsat.verifying.verify import verify

__version__ = "0.1.0"


def _answers() -> Decider:
    from eqsat.answers import Answers

    return Answers()


register_decider(_answers)

# Names whose modules are imported when they are first used; "" marks a sub-module.
_LAZY: dict[str, str] = {
    "AXIS_SEPARATOR": "eqsat.ir.layouts.index_map",
    "Buffer": "eqsat.ir.layouts.buffer",
    "IndexMap": "eqsat.ir.layouts.index_map",
    "Layout": "eqsat.ir.layouts.layout",
    "PrimFunc": "eqsat.ir.statements.primfunc",
    "Schedule": "eqsat.scheduling.schedule",
    "ScheduleError": "eqsat.ir.errors",
    "as_formula": "eqsat.passes.formula",
    "as_function": "eqsat.passes.recognise",
    "as_view": "eqsat.passes.recognise",
    "call": "eqsat.calls",
    "compile": "eqsat.backends.compile",
    "conv2d": "eqsat.ir.tensors.contraction",
    "law": "eqsat.ir.law",
    "operator": "eqsat.ir.tensors.told",
    "pad_value": "eqsat.ir.tensors.told",
    "rule": "eqsat.ir.rule",
    "when": "eqsat.ir.rule",
    "Limits": "eqsat.graph.limits",
    "check_rules": "eqsat.rulebook",
    "decide": "eqsat.proving.prover",
    "explain": "eqsat.explaining.chain",
    "flow_layout": "eqsat.flow",
    "hoist_preprocessing": "eqsat.passes.preprocess",
    "jit": "eqsat.tracing.jit",
    "optimize": "eqsat.engine",
    "plot": "eqsat.pictures.plot",
    "primfunc": "eqsat.ir.statements.builder",
    "prove": "eqsat.proving.prover",
    "run_primfunc": "eqsat.ir.statements.run",
    "simplify": "eqsat.simplifying.simplify",
    "split_function": "eqsat.passes.split",
    "transform_calls": "eqsat.calls",
    "verify": "eqsat.verifying.verify",
    "onnx": "",
    "testing": "",
}

__all__: list[str] = [
    "AXIS_SEPARATOR",
    "UNDEF",
    "Buffer",
    "EqsatError",
    "IndexMap",
    "Layout",
    "Limits",
    "PrimFunc",
    "Program",
    "Schedule",
    "ScheduleError",
    "Signature",
    "Tensor",
    "Term",
    "as_formula",
    "as_function",
    "as_view",
    "axis",
    "call",
    "cast",
    "check_rules",
    "compile",
    "compute",
    "const",
    "constant",
    "conv2d",
    "decide",
    "erf",
    "evaluate",
    "explain",
    "flow_layout",
    "given",
    "hoist_preprocessing",
    "input",
    "jit",
    "law",
    "onnx",
    "opaque",
    "operator",
    "optimize",
    "pad_value",
    "parse_expr",
    "plot",
    "primfunc",
    "prove",
    "ramp",
    "rule",
    "run_primfunc",
    "sigmoid",
    "simplify",
    "split_function",
    "symbol",
    "transform_calls",
    "truncdiv",
    "truncmod",
    "verify",
    "when",
]
__all__ += _arrays.__all__
keyword_functions(__all__, globals())


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        hint = f"; tensors have it as a method: x.{name}()" if hasattr(Tensor, name) and name[0] != "_" else ""
        raise AttributeError(f"module 'eqsat' has no attribute {name!r}{hint}", name=name, obj=sys.modules[__name__])
    module = _LAZY[name]
    value = getattr(import_module(module), name) if module else import_module(f"eqsat.{name}")
    globals()[name] = value
    keyword_functions((name,), globals())
    return globals()[name]


class _Package(ModuleType):
    """The package: importing a submodule does not hide the function of the same name, as `eqsat.verifying.verify`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and _LAZY.get(name)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The public names; `testing` is one where the package that it needs is installed, as all of these can be had."""
    return sorted([*__all__, "testing"] if find_spec("hypothesis") else __all__)

"""The call of a compiled function: everything that can be wrong with its arguments is found before any access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from eqsat.backends.functions.prepare import Prepared
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.memory import argument, check_apart
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import symbol_names


@dataclass(frozen=True)
class Arguments:
    """What a kernel is called with: the bytes of each parameter, from the start of its memory on, and the sizes."""

    memory: Mapping[str, NDArray]
    sizes: Mapping[Term, int]


def bound_arguments(
    prepared: Prepared, written: set[str], args: tuple[Any, ...], given: Mapping[str, Any]
) -> Arguments:
    """The arguments of a call, checked: names, types, shapes, strides, offsets, sizes, and memory that is written.

    Raises EvaluationError, naming the parameter.
    """
    func = prepared.func
    what = f"call of {func.name}"
    values = _named(what, func.params, symbol_names(func.symbols), args, given)
    arrays = {n: _array(what, n, values[n]) for n in func.params}
    symbols = {n: v for n, v in values.items() if n not in arrays}
    sizes = bind_function(func, {n: a.shape for n, a in arrays.items()}, symbols)
    for symbol, value in sizes.items():
        most = t.symbol_facts(prepared.sizes[symbol]).upper
        if most is not None and value > most:
            problem = f"{t.symbol_facts(symbol).name} is {value}, the kernel computes indices for at most {most}"
            raise EvaluationError(what, problem, "declare the symbol with an upper bound and compile again")
    memory = {n: argument(func.buffer_map[n], sizes, a, what, False).raw for n, a in arrays.items()}
    for name in func.params:
        array = arrays[name]
        if not array.dtype.isnative or not array.flags.aligned:
            raise EvaluationError(what, f"{name} is not aligned, or in another byte order", "pass a copy")
        if name in written:
            if not array.flags.writeable:
                raise EvaluationError(what, f"{name} is written, and read-only")
            check_apart(func.buffer_map[name], sizes, what)
        other = next((n for n in func.params if n != name and np.may_share_memory(memory[n], memory[name])), None)
        if other is not None and name in written:
            raise EvaluationError(what, f"{name} is written, and shares memory with {other}", "pass a separate array")
    return Arguments(memory, {prepared.sizes[s]: n for s, n in sizes.items()})


def _named(
    what: str, params: tuple[str, ...], symbols: Mapping[Term, str], args: tuple[Any, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by name: one dict, or keywords; sizes that no shape tells are given beside the arrays."""
    if len(args) > 1 or (args and given) or (args and not isinstance(args[0], Mapping)):
        raise EvaluationError(what, "takes arrays by name, or one dict of them", f"parameters: {', '.join(params)}")
    values = dict(cast("Mapping[str, Any]", args[0]) if args else given)
    missing = [n for n in params if n not in values]
    extra = [str(n) for n in values if n not in params and n not in symbols.values()]
    if missing or extra:
        raise EvaluationError(what, f"missing {missing}, unknown {extra}", f"parameters: {', '.join(params)}")
    return values


def _array(what: str, name: str, value: Any) -> NDArray:
    if not isinstance(value, np.ndarray):
        raise EvaluationError(
            what, f"{name} is {type(value).__name__}, not a numpy array", "it may be written in place"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise EvaluationError(what, f"{name} is a masked array, whose mask would be lost", "pass its data")
    return cast(NDArray, value)


def report_failed(prepared: Prepared, status: NDArray) -> None:
    """Raise where the kernel noted an access that would have left its buffer."""
    number = int(status[0])
    if number:
        access = prepared.checked.accesses[number - 1]
        raise EvaluationError(f"call of {prepared.func.name}", f"access {access} leaves its buffer", "check the data")


def size_value(term: Term, sizes: Mapping[Term, int]) -> int:
    """A size of a call as a number."""
    return int(term.evaluate(dict(sizes)))

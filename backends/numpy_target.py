"""The reference target: a program run by its numpy meaning, behind the same calling convention as compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.backends.arguments import bound_output, named_arguments, output_arrays
from eqsat.ir.shown import card
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program


class NumpyKernel:
    """A program evaluated by numpy; holes hold zeros, as in the other targets."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def _repr_html_(self) -> str:
        return card(f"numpy kernel {self.program.name}", self.source, {"workspace": "0 bytes"})

    @property
    def source(self) -> str:
        """The program as text."""
        return str(self.program)

    @property
    def header(self) -> str:
        """Empty: there is no C."""
        return ""

    @property
    def workspace_bytes(self) -> int:
        """0: numpy allocates as it goes."""
        return 0

    def __call__(self, /, *args: Any, out: Any = None, **arrays: Any) -> Any:
        """Run on numpy arrays; the result is an array, or a dict for several outputs."""
        given = named_arguments([x.name for x in self.program.inputs], args, arrays)
        values = evaluate_outputs(self.program, given, undef=0)
        # Copies, because a value may be an input, a constant or another output.
        specs = {name: (value.shape, value.dtype.name) for name, value in values.items()}
        outputs = output_arrays(out, specs, given)
        for name, value in values.items():
            np.copyto(outputs[name], value)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def bind(self, /, *args: Any, out: Any = None, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments; the first call is made now, to check them."""
        self(*args, out=bound_output(out), **arrays)

        def call() -> None:
            self(*args, out=out, **arrays)

        return call

"""Program -> kernels: one PrimFunc per materialised value, Python calls where only Python can, and a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from eqsat.backends.interface import HostCall, ProgramBuffer, Role
from eqsat.backends.lowering.contracted import contracted
from eqsat.backends.lowering.dedupe_kernels import KernelCache
from eqsat.backends.lowering.fuse import fuse
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered, Step, plan_workspace
from eqsat.backends.lowering.moves import Move
from eqsat.backends.lowering.operands import put_in_order
from eqsat.backends.lowering.pack import pack_weights
from eqsat.backends.lowering.rows import Group, share_rows
from eqsat.backends.lowering.values import Flat, Value, flatten_program
from eqsat.backends.lowering.windows import share_windows
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.term import Term


def lower(program: Program, sizes: Mapping[Term, int] | None = None, machine: Machine | None = None) -> Lowered:
    """The kernels of a program; `sizes` gives values to its symbols, `machine` names vector registers to sum in.

    Raises BackendError for symbols without a value and operators without a meaning, BoundsError for accesses that are
    not shown to be in range.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> program = eq.Program([x], {"y": x.permute_dims((1, 0)).relu()})
    >>> print(lower(program).steps[0])
    func kernel_0(v0: float32[6], v2: float32[6])
      for i0 in 3:
        for i1 in 2:
          v2[2*i0 + i1] = maximum(v0[3*i1 + i0], float32(0.0))
    """
    return lower_flat(program, flatten_program(program, sizes), machine)


def lower_flat(program: Program, flat: Flat, machine: Machine | None = None, contract: bool = False) -> Lowered:
    """The kernels of a program from its values; with `contract` a product of halves and its sum are rounded once."""
    simplifier = IndexSimplifier(flat.tables())
    fused = fuse(flat, simplifier)
    values = contracted(fused.values, contract)
    values, packed = put_in_order(*pack_weights(values, simplifier, machine), simplifier, machine)
    outputs = set(fused.outputs.values())
    buffers: dict[str, ProgramBuffer] = {}
    constants: dict[str, NDArray] = {}
    steps: list[Step] = []
    grouped = share_windows(share_rows(values, outputs, simplifier, machine), simplifier, machine)
    made = [*values, *(v for step in grouped if isinstance(step, Group) for v in step.values)]
    work = KernelCache({v.name: v.shape for v in made}, {v.name: v.dtype for v in made}, simplifier, machine)
    called: dict[int, int] = {}
    moves: dict[str, tuple[Move, ...]] = {}
    for step in grouped:
        for value in (step,) if isinstance(step, Value) else step.values:
            if isinstance(step, Value) or value.name not in step.rows.local:
                role = _role(value, outputs)
                buffers[value.name] = ProgramBuffer(value.name, value.shape, value.dtype, role, value.label)
        if isinstance(step, Group) or (step.kind == "body" and prod(step.shape)):
            built = work.get(f"kernel_{sum(isinstance(s, PrimFunc) for s in steps)}", step)
            steps.append(built.func)
            if built.moves is not None:
                moves[built.func.name] = built.moves
            for name, array in built.tables.items():
                constants[name] = array
                buffers[name] = ProgramBuffer(name, array.shape, INDEX, "constant", "index table")
        elif step.kind == "constant":
            assert step.array is not None
            constants[step.name] = step.array
        elif step.kind == "host":
            assert step.operator is not None
            at = called.setdefault(step.operator.serial, len(steps))
            results = ((step.output, step.name),)
            if at == len(steps):
                steps.append(HostCall(step.operator, step.operands, results))
            else:
                earlier = steps[at]
                assert isinstance(earlier, HostCall)
                steps[at] = HostCall(step.operator, step.operands, earlier.results + results)
    planned, total = plan_workspace(buffers, steps)
    inputs = flat.inputs(program)
    return Lowered(
        program, planned, tuple(steps), inputs, fused.outputs, constants, total, moves, work.duplicates, packed
    )


def _role(value: Value, outputs: set[str]) -> Role:
    if value.kind == "input":
        return "input"
    if value.kind == "constant":
        return "constant"
    return "output" if value.name in outputs else "workspace"

"""What is computed from parameters alone, as a program of its own that is run once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.graph.rebuild import on, replaced
from eqsat.ir.tensors.tensor import Input, Node, Opaque, Program, Tensor, input, is_ahead, node_order


def prepacked(program: Program) -> tuple[Program, Program]:
    """A program as two: from its parameters to what is computed of them alone, which keeps the name of a parameter that
    stays as it is; and from that and the other inputs to its outputs.

    >>> import eqsat as eq
    >>> x, w = eq.input("x", (4, 2), "float32"), eq.input("w", (3, 2), "float32", parameter=True)
    >>> for part in prepacked(eq.Program([x, w], {"y": eq.matmul(x, w.permute_dims((1, 0)))})):
    ...     print(part)
    program_prepack(w: float32(3, 2)) -> w_packed
      w_packed = permute_dims w[i1, i0]                 # float32(2, 3)
    program_main(x: float32(4, 2), w_packed: float32(2, 3)) -> y
      y = matmul sum(x[i0, r0]*w_packed[r0, i1] for r0 < 2)  # float32(4, 3)
    """
    ahead: set[int] = set()
    for node in program.nodes():
        moves = bool(node.operands) and all(x.node.serial in ahead for x in node.operands)
        if is_ahead(node) or (moves and not (isinstance(node, Opaque) and not node.pure)):
            ahead.add(node.serial)
    read = [x for node in program.nodes() if node.serial not in ahead for x in node.operands]
    ends = dict.fromkeys(x for x in (*read, *program.outputs.values()) if x.node.serial in ahead)
    owners = {x: made[0] for x in ends if (made := _parameters(x))}
    names = _names(owners, {x.name for x in program.inputs})
    packed = {x: input(name, x.shape, x.dtype, parameter=True) for x, name in names.items()}

    def change(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        made = on(node, operands)
        return [packed.get(Tensor(node, k), Tensor(made, k)) for k in range(len(node.outputs))]

    table = replaced(program.outputs.values(), change)
    outputs = {name: table[x.key] for name, x in program.outputs.items()}
    given = [x for x in program.inputs if not is_ahead(x.node)]
    parameters = [x for x in program.inputs if is_ahead(x.node)]
    prepack = Program(parameters, {name: x for x, name in names.items()}, f"{program.name}_prepack")
    return prepack, Program([*given, *packed.values()], outputs, f"{program.name}_main")


def _parameters(x: Tensor) -> list[str]:
    """The parameters that a tensor is computed from."""
    return [node.name for node in node_order([x]) if isinstance(node, Input)]


def _names(owners: Mapping[Tensor, str], taken: set[str]) -> dict[Tensor, str]:
    """A name for each tensor: that of the parameter that it is, or is computed from."""
    found: dict[Tensor, str] = {}
    for x, owner in owners.items():
        name, number = owner if isinstance(x.node, Input) else f"{owner}_packed", 1
        while name in taken and not isinstance(x.node, Input):
            number += 1
            name = f"{owner}_packed{number}"
        taken.add(name)
        found[x] = name
    return found

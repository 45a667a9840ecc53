"""What a program says of its inputs, in words: the cells that crops take away (`cropped_value=`)."""

from __future__ import annotations

from eqsat.ir.tensors.tensor import Input, Program
from eqsat.ir.tensors.views import put_back
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.walk import substitute
from eqsat.operators.forms import operator_name


def assumptions(program: Program) -> tuple[str, ...]:
    """What a program says of cropped cells, in words.

    >>> import eqsat as eq
    >>> x = eq.input("x", (5,), "int8")
    >>> assumptions(eq.Program([x], {"y": x.crop((1,), (3,), cropped_value=0)}))
    ('x holds int8(0) outside of [1:4]',)
    """
    found: list[str] = []
    for node in program.nodes():
        back = put_back(node)
        if back is not None:
            (x,) = node.operands
            name = x.name if isinstance(x.node, Input) else f"the result of {operator_name(x.node) or 'an operator'}"
            first = dict.fromkeys(output_axes(x.shape), t.index_const(0))
            starts = [-substitute(g, first) for g in back.gather]
            box = ", ".join(f"{i}:{t.as_index(d) + i}" for i, d in zip(starts, node.outputs[0][0], strict=True))
            found.append(f"{name} holds {back.fill} outside of [{box}]")
    return tuple(dict.fromkeys(found))

"""The steps of an optimised program as LaTeX: what each value of a region is, by its indices, before and after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from eqsat.checking.programs import name_of
from eqsat.checking.verdict import RegionCheck
from eqsat.formulas import as_formula
from eqsat.ir.tensors.program_text import tensor_names
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Program, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import renumber_loads
from eqsat.latex import latex

Names = dict[tuple[int, int], str]
"""The name of each value, by node and output."""

SIGNS = {"sum": r"\sum", "prod": r"\prod", "max": r"\max", "min": r"\min"}


def steps_latex(before: Program, after: Program, regions: Iterable[tuple[RegionCheck, tuple[str, ...]]]) -> str:
    r"""The changed regions of a program, each with its laws, as aligned equations: what its values are, then what they
    are made of in the result, with the laws and the verdict.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> print(eq.optimize(x.permute_dims((1, 0)).relu().permute_dims((1, 0))).explain(steps=True, latex=True))
    \begin{align*}
    {t_{0}}_{i_{0},i_{1}} &= {x}_{i_{1},i_{0}} \\
    {t_{1}}_{i_{0},i_{1}} &= \max\left(0.0, {t_{0}}_{i_{0},i_{1}}\right) \\
    {out}_{i_{0},i_{1}} &= {t_{1}}_{i_{1},i_{0}} \\
    \Longrightarrow{} & && \text{by identity, spell, absorb: proved} \\
    {out}_{i_{0},i_{1}} &= \max\left(0.0, {x}_{i_{0},i_{1}}\right)
    \end{align*}
    """
    given = {x.key for x in (*after.inputs, *after.outputs.values())}
    sides = (
        _Side(before, tensor_names(before)),
        _Side(after, {key: n if key in given else _primed(n) for key, n in tensor_names(after).items()}),
    )
    return "\n\n".join(_step(check, laws, *sides) for check, laws in regions)


class _Side(NamedTuple):
    """A program and the names of its values."""

    program: Program
    names: Names

    def lines(self, called: Collection[str]) -> Iterator[str]:
        """An equation for each value that the nodes of these names make."""
        for node in self.program.nodes():
            if name_of(node) in called and not isinstance(node, Input):
                yield rf"{_left(node, self.names)} &= {_right(node, self.names)}"


def _step(check: RegionCheck, laws: tuple[str, ...], before: _Side, after: _Side) -> str:
    """One region before and after, in one display."""
    why = f"by {', '.join(laws)}" if laws else "checked as a whole"
    arrow = rf"\Longrightarrow{{}} & && \text{{{why}: {check.verdict}}}"
    made = [*after.lines(check.after)] or [r"& \text{no operation}"]
    lines = [*before.lines(check.before), arrow, *made]
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def _primed(name: str) -> str:
    """A name that sympy prints with a prime: t0 before and t0 after are not one value."""
    stem = name.rstrip("0123456789")
    return f"{stem}prime{name[len(stem) :]}"


def _left(node: Node, names: Names) -> str:
    """A value at its indices, or the values of an operator without a formula."""
    if isinstance(node, (View, Compute)):
        name, axes = names[node.serial, 0], [t.ax(n, d) for n, d in enumerate(node.outputs[0][0])]
        return latex(t.load(name, axes, node.outputs[0][1]))
    return r",\ ".join(_name(names[node.serial, k], dtype) for k, (_, dtype) in enumerate(node.outputs))


def _right(node: Node, names: Names) -> str:
    operands = [names[x.key] for x in node.operands]
    if isinstance(node, (View, Compute)):
        formula = as_formula(node) if isinstance(node, View) else node
        body = latex(renumber_loads(formula.body, dict(enumerate(operands))))
        return _reduced(formula, body)
    if isinstance(node, Constant):
        return latex(t.const(node.array.item(), node.outputs[0][1])) if node.array.size == 1 else r"\text{constant}"
    kinds = [x.dtype for x in node.operands]
    of = r",\ ".join(_name(name, dtype) for name, dtype in zip(operands, kinds, strict=True))
    op = name_of(node).split()[0].rpartition(":")[2].replace("_", r"\_")
    return rf"\operatorname{{{op}}}\left({of}\right)"


def _reduced(node: Compute, body: str) -> str:
    """The body below the sign of its reduction, one for each axis that is reduced."""
    if node.combiner is None:
        return body
    sign = SIGNS.get(node.combiner, rf"\operatorname*{{{node.combiner}}}")
    return "".join(rf"{sign}_{{{_range(n, d)}}} " for n, d in enumerate(node.reduce)) + rf"\left({body}\right)"


def _range(number: int, extent: Dim) -> str:
    end = latex(extent) if isinstance(extent, Term) else str(extent)
    return rf"0 \leq r_{{{number}}} < {end}"


def _name(name: str, dtype: str) -> str:
    return latex(t.load(name, [], dtype))

"""Functions of many loops as several: compilers take time that grows faster than the length of a function does.

before:  static void f(x0, ..., x255, y) { for i: y[i] = x0[i]; ...; for i: y[i + 2040] = x255[i]; }
after:   static void f_run0(x0, ..., x63, y) { for i: y[i] = x0[i]; ... }      # and so on
         static void f(x0, ..., x255, y) { f_run0(x0, ..., x63, y); ...; f_run3(x192, ..., x255, y); }
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eqsat.backends.c.parallel import Variable
from eqsat.ir.statements.stmt import For, Seq, Stmt, statements

MOST_LOOPS = 32
"""Loops of one function; a statement of more has one by itself."""
APART = """#if defined(__GNUC__)
#define EQSAT_APART __attribute__((noinline)) /* else compilers make one long function of several again */
#else
#define EQSAT_APART
#endif"""


def runs(body: Stmt) -> list[Seq]:
    """The statements of a body in their order, in runs of a number of loops that one function may have.

    >>> from eqsat.ir.statements.stmt import Store
    >>> from eqsat.ir.terms import term as t
    >>> i = t.ax(0, 4)
    >>> loop = For(i, Store("y", (i,), t.const(1, "int8")))
    >>> [len(run.parts) for run in runs(Seq((loop,) * 150))], len(runs(loop))
    ([32, 32, 32, 32, 22], 1)
    """
    found: list[list[Stmt]] = [[]]
    count = 0
    for part in body.parts if isinstance(body, Seq) else (body,):
        loops = sum(isinstance(s, For) for s in statements(part))
        if found[-1] and count + loops > MOST_LOOPS:
            found.append([])
            count = 0
        found[-1].append(part)
        count += loops
    return [Seq(tuple(run)) for run in found]


def run_function(
    name: str, variables: Sequence[Variable], body: Sequence[str], head: Sequence[str] = ()
) -> tuple[str, str]:
    """A function for a run, whose lines are `body`, and the statement that calls it.

    variables: what the function around has; head: lines that stand before the function's own.

    >>> x, y = Variable("const float *restrict ", "x"), Variable("float *restrict ", "y")
    >>> text, call = run_function("f_run0", [x, y, Variable("int ", "n")], ["    y[0] = x[0];"])
    >>> text.splitlines()[0], call
    ('EQSAT_APART static void f_run0(const float *restrict x, float *restrict y)', 'f_run0(x, y);')
    """
    words = set(re.findall(r"\b[A-Za-z_]\w*\b", "\n".join(body)))
    used = [v for v in variables if v.name in words]
    params = ", ".join(f"{v.kind}{v.name}" for v in used) or "void"
    lines = [*head, f"EQSAT_APART static void {name}({params})", "{", *body, "}"]
    return "\n".join(lines), f"{name}({', '.join(v.name for v in used)});"

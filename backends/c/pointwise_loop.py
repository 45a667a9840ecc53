"""One row of an element-wise body: a loop that compilers vectorise; with binary16 numbers, a few loops over floats.

    before:  for r: d[r] = h(f(x[r], y[r]))                           # x, d of binary16; h rounds to it
    after:   for r: a[r] = float(x[r])                                # eight at a time where the processor can
             for r: b[r] = f(a[r], y[r])
             for r: b[r] = h(b[r])                                    # for each operation that may need it
             for r: d[r] = binary16(b[r])

Operations that give a binary16 number for such numbers are not rounded. The values are those of element by element
conversions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.backends.c.element_types import HALF_ROWS
from eqsat.backends.c.expr import Expressions, Scope
from eqsat.backends.c.inner_loops import guards_loads
from eqsat.backends.c.nest import Level, SchedulePrinter, Text, address, nest, tile_start
from eqsat.backends.c.types import c_type
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.moves import Access
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.choose_pointwise import FLOAT16, computes_float16
from eqsat.backends.schedules.schedule import TILE_I, PointwiseRows
from eqsat.ir.dtypes import BOOL
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load, rebuild
from eqsat.ir.terms.walk import nodes_of, postorder, transform

LANE = t.ax(0, 1 << 30)
"""The position in a row: an axis that is longer than any row."""
EXACT = frozenset({"load", "const", "neg", "abs", "min", "max", "where", "floor", "ceil", "trunc", "round"})
"""Operations that give a binary16 number for such numbers, without rounding."""

ALIGNED = f"__attribute__((aligned({LINE})))"


class PointwiseLoop:
    """Prints rows of one body.

    strides: of each operand along a row, in elements; 0 for an operand that is one element.
    """

    def __init__(self, text: Text, body: Term, dtypes: Sequence[str], strides: Sequence[int]) -> None:
        self.text = text
        self.body = body
        self.dtypes = dtypes
        self.strides = strides

    def print(self, names: Mapping[int, str], result: str, count: int) -> None:
        """A row of `count` elements, of operands at the pointers `names`, to the pointer `result`."""
        names = {n: self._gathered(n, name, count) for n, name in names.items()}
        if computes_float16(self.body):
            self.text.pieces["half rows"] = HALF_ROWS
            return self._staged(names, result, count)
        body = transform(self.body, lambda node: self._element(node, dict[int, str]()))
        return self._loop(body, names, f"{result}[r]", count, False)

    def _gathered(self, number: int, name: str, count: int) -> str:
        """The operand, or a dense copy of its elements: a loop that only moves is faster than a mixed one."""
        stride = self.strides[number]
        if stride < 2:
            return name
        self.text.add(f"{c_type(self.dtypes[number], '')} dense{number}[{count}] {ALIGNED};")
        counter = "int" if stride * count < 1 << 31 else "ptrdiff_t"
        self.text.add(f"for ({counter} r = 0; r < {count}; ++r) dense{number}[r] = {name}[{stride} * r];")
        return f"dense{number}"

    def _element(self, node: Term, held: Mapping[int, str]) -> Term | None:
        if node.op != "load" or not isinstance(node.payload, int):
            return None
        number = node.payload
        place = LANE if self.strides[number] else t.index_const(0)
        return load(held.get(number, number), [place], node.dtype)

    def _staged(self, names: Mapping[int, str], result: str, count: int) -> None:
        """A loop for each value that is rounded."""
        text, body = self.text, self.body
        if body.op == "cast" and body.args[0].op == "load" and {body.dtype, body.args[0].dtype} == {FLOAT16, "float32"}:
            number: int = body.args[0].payload
            if self.strides[number]:
                change = "floats_to_halves" if body.dtype == FLOAT16 else "halves_to_floats"
                text.add(f"{change}({result}, {names[number]}, {count});")
                return
        held = {number: f"h{number}" for number in names if self.dtypes[number] == FLOAT16}
        for number, name in held.items():
            if not self.strides[number]:
                text.add(f"const float {name}[1] = {{half_to_float(*{names[number]})}};")
            else:
                text.add(f"float {name}[{count}] {ALIGNED};")
                text.add(f"halves_to_floats({name}, {names[number]}, {count});")
        done: dict[Term, Term] = {}
        for node in postorder(body):
            new = rebuild(node, [done[a] for a in node.args]) if node.args and node.op != "load" else node
            element = self._element(new, held)
            new = new if element is None else element
            if node.dtype == FLOAT16 and (node.op not in EXACT or node is body):
                name = text.name("v")
                text.add(f"float {name}[{count}] {ALIGNED};")
                self._loop(new, names, f"{name}[r]", count, True)
                if node is body:
                    text.add(f"floats_to_halves({result}, {name}, {count});")
                    return
                text.add(f"round_to_halves({name}, {count});")
                new = load(name, [LANE], FLOAT16)
            done[node] = new
        self._loop(done[body], names, f"{result}[r]", count, True)

    def _loop(self, value: Term, names: Mapping[int, str], place: str, count: int, wide: bool) -> None:
        local = {n.payload: n.payload for n in postorder(value) if n.op == "load" and isinstance(n.payload, str)}
        # Operands are numbered in the body of a move: their names are looked up by number.
        expressions = Expressions({**names, **local}, "int32_t", IndexSimplifier(), wide)  # pyright: ignore[reportArgumentType]
        expressions.axes[LANE] = "r"
        scope = Scope()
        # All elements of a row exist: loaded ahead of the guards, they need no masks.
        for node in nodes_of("load", value) if guards_loads(value) else ():
            (text,) = expressions.print_terms([node], scope)
            scope.texts[node] = expressions.declare(node, text, scope)
        (text,) = expressions.print_terms([value], scope)
        text = f"(uint8_t)({text})" if value.dtype == BOOL else expressions.narrowed(value.dtype, text)
        with self.text.block(f"for (int r = 0; r < {count}; ++r)"):
            for line in scope.lines:
                self.text.add(line)
            self.text.add(f"{place} = {text};")
        self.text.helpers |= expressions.helpers


def pointer(dtype: str, name: str, start: str, const: bool = True) -> str:
    """The declaration of a pointer to the elements of a row."""
    return f"{'const ' if const else ''}{c_type(dtype, '')} *restrict {name} = {start};"


class PointwiseRowsPrinter(SchedulePrinter[PointwiseRows]):
    """Prints one PointwiseRows: operands that all lie along the result, a few vectors at a time."""

    in_bytes = False

    def print(self) -> None:
        """Loops over rows and over pieces of a row, and in them the loops that compute one."""
        move, schedule, text = self.move, self.schedule, self.text
        i = schedule.i
        count = -(-move.extents[i] // schedule.ti)
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], count if n == TILE_I else move.extents[n], n == schedule.own) for n in schedule.order]
        row = PointwiseLoop(text, move.body, [a.dtype for a in move.operands], [a.strides[i] for a in move.operands])

        def start(access: Access) -> str:
            terms = [(names[n], access.strides[n]) for n in schedule.order if n >= 0 and move.extents[n] > 1]
            terms += [("at", access.strides[i])] if count > 1 else []
            return address(self.buffers[access.buffer], terms, access.offset)

        with nest(text, levels, schedule.threads):
            if count > 1:
                place = tile_start(f"{schedule.ti} * {names[TILE_I]}", move.extents[i], schedule.ti)
                text.add(f"const ptrdiff_t at = {place};")
            for k, access in enumerate(move.operands):
                text.add(pointer(access.dtype, f"p{k}", start(access)))
            text.add(pointer(move.out.dtype, "q", start(move.out), False))
            row.print({k: f"p{k}" for k in range(len(move.operands))}, "q", schedule.ti)

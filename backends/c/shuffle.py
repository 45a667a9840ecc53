"""Shuffles: blocks of 16 bytes whose elements change places among themselves, each by one instruction."""

from __future__ import annotations

from eqsat.backends.c.nest import Level, Text, address, nest
from eqsat.backends.c.vector import define_type, vector_type
from eqsat.backends.lowering.moves import Move
from eqsat.backends.schedules.schedule import Shuffle


class ShufflePrinter:
    """Prints one shuffle. The names s and d are the source and the result as bytes."""

    def __init__(self, text: Text, move: Move, plan: Shuffle) -> None:
        self.text = text
        self.move = move
        self.plan = plan

    def print(self) -> None:
        """Loops over the blocks, and in them one shuffle."""
        move, plan, text = self.move, self.plan, self.text
        (source,), out, size = move.operands, move.out, move.out.size
        taken = dict(plan.inside)
        steps = {n: taken.get(n, 1) for n in plan.order}
        names = {n: text.name("i") for n in plan.order}
        levels = [Level(names[n], move.extents[n] // steps[n]) for n in plan.order]
        with nest(text, levels, plan.threads, 8):
            many = [n for n in plan.order if move.extents[n] > steps[n]]
            start = [(names[n], source.strides[n] * steps[n] * size) for n in many]
            end = [(names[n], out.strides[n] * steps[n] * size) for n in many]
            first = address("s", start, (source.offset + plan.first) * size)
            self.define()
            text.add(f"{self.name}({address('d', end, out.offset * size)}, {first});")

    @property
    def name(self) -> str:
        """The name of the function, which says the places."""
        return f"shuffle_u{8 * self.move.out.size}_{'_'.join(map(str, self.plan.places))}"

    def define(self) -> None:
        """The function for one block."""
        size, places = self.move.out.size, ", ".join(map(str, self.plan.places))
        kind = vector_type(16, size)
        self.text.pieces[f"type 16 {size}"] = define_type(16, size)
        self.text.pieces[self.name] = "\n".join(
            [
                f"static inline void {self.name}(char *restrict d, const char *restrict s)",
                "{",
                "#ifdef EQSAT_VECTORS",
                f"    const {kind} x = *(const {kind} *)s;",
                f"    *({kind} *)d = __builtin_shufflevector(x, x, {places});",
                "#else",
                f"    static const unsigned char places[] = {{{places}}};",
                f"    for (int k = 0; k < {16 // size}; ++k) memcpy(d + {size} * k, s + {size} * places[k], {size});",
                "#endif",
                "}",
            ]
        )

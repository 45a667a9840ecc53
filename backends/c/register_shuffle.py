"""Prints permutations within blocks of 16 bytes, each by one shuffle of a register."""

from __future__ import annotations

from eqsat.backends.c.nest import Level, SchedulePrinter, address, nest
from eqsat.backends.c.vector import define_type, vector_type
from eqsat.backends.machine import BLOCK
from eqsat.backends.schedules.schedule import RegisterShuffle


class RegisterShufflePrinter(SchedulePrinter[RegisterShuffle]):
    """Prints one RegisterShuffle."""

    def print(self) -> None:
        """Loops over the blocks, and in them one shuffle."""
        move, schedule, text = self.move, self.schedule, self.text
        (source,), out, size = move.operands, move.out, move.out.size
        taken = dict(schedule.inside)
        steps = {n: taken.get(n, 1) for n in schedule.order}
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], move.extents[n] // steps[n], n == schedule.own) for n in schedule.order]
        with nest(text, levels, schedule.threads):
            many = [n for n in schedule.order if move.extents[n] > steps[n]]
            start = [(names[n], source.strides[n] * steps[n] * size) for n in many]
            end = [(names[n], out.strides[n] * steps[n] * size) for n in many]
            first = address("s", start, (source.offset + schedule.first) * size)
            self.define()
            text.add(f"{self.function}({address('d', end, out.offset * size)}, {first});")

    @property
    def function(self) -> str:
        """The name of the function, which says the places."""
        return f"shuffle_u{8 * self.move.out.size}_{'_'.join(map(str, self.schedule.places))}"

    def define(self) -> None:
        """The function for one block."""
        size, places = self.move.out.size, ", ".join(map(str, self.schedule.places))
        kind, count = vector_type(BLOCK, size), self.e
        self.text.pieces[f"type {BLOCK} {size}"] = define_type(BLOCK, size)
        self.text.pieces[self.function] = "\n".join(
            [
                f"static inline void {self.function}(char *restrict d, const char *restrict s)",
                "{",
                "#ifdef EQSAT_VECTORS",
                f"    const {kind} x = *(const {kind} *)s;",
                f"    *({kind} *)d = __builtin_shufflevector(x, x, {places});",
                "#else",
                f"    static const unsigned char places[] = {{{places}}};",
                f"    for (int k = 0; k < {count}; ++k) memcpy(d + {size} * k, s + {size} * places[k], {size});",
                "#endif",
                "}",
            ]
        )

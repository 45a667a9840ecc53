"""What all printers of schedules share: indented text, shared loops, addresses, where tiles begin, a base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Generic, TypeVar

from eqsat.backends.c.parallel import share
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.schedule import Schedule

S = TypeVar("S", bound=Schedule)

SHARED = 8
"""Iterations for each thread, at least, of the loops that threads share: so that all end at about the same time."""


PAGE = 4 << 10
"""Bytes of a page of memory, at least."""


@dataclass
class Text:
    """C lines under construction, what must stand before them.

    pieces: texts before the function, by name. helpers: names of scalar functions. depth: levels of indentation.
    names: how many local names have been made.
    """

    lines: list[str] = field(default_factory=list[str])
    pieces: dict[str, str] = field(default_factory=dict[str, str])
    helpers: dict[str, None] = field(default_factory=dict[str, None])
    depth: int = 1
    names: int = 0

    def function(self) -> Text:
        """The text of a function that stands before this one: what both need stands before both."""
        return Text(pieces=self.pieces, helpers=self.helpers)

    def add(self, line: str) -> None:
        """One line at the current depth; preprocessor lines start at the margin."""
        self.lines.append(line if line.startswith("#") else "    " * self.depth + line)

    def name(self, prefix: str) -> str:
        """A fresh local name."""
        self.names += 1
        return f"{prefix}{self.names - 1}"

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """A braced block under a head line."""
        self.add(f"{head} {{".strip())
        self.depth += 1
        yield
        self.depth -= 1
        self.add("}")

    @contextmanager
    def loop(self, variable: str, count: int, start: int = 0) -> Generator[None]:
        """A counting loop; one iteration is a block."""
        if count == start + 1:
            with self.block(""):
                self.add(f"const ptrdiff_t {variable} = {start};")
                yield
            return
        with self.block(f"for (ptrdiff_t {variable} = {start}; {variable} < {count}; ++{variable})"):
            yield


@dataclass(frozen=True)
class Level:
    """One loop of a nest: its variable and how often it runs; whether threads share its steps, and no others."""

    variable: str
    count: int
    own: bool = False


@contextmanager
def nest(text: Text, levels: Sequence[Level], threads: int, shared: int = SHARED) -> Generator[None]:
    """Loops one inside of the other, within a part that all threads run; loops of one step are left out.

    Threads share the outer ones, as many as give each of them `shared` iterations or more; or one, which is its own.
    """
    levels = [v for v in levels if v.count > 1]
    together, iterations = 0, 1
    own = threads > 1 and any(v.own for v in levels)
    while threads > 1 and not own and together < len(levels) and iterations < shared * threads:
        iterations *= levels[together].count
        together += 1
    depth = text.depth
    if together:
        # Tiles may overlap at the end of a loop: then two threads store the same bytes.
        outer, levels = levels[:together], levels[together:]
        first, last = share(str(iterations))
        if iterations * threads >= 1 << 31:
            first, last = share(f"(ptrdiff_t){iterations}")
        text.add(f"for (ptrdiff_t step = {first}; step < {last}; ++step) {{")
        text.depth += 1
        inside = iterations
        for level in outer:
            inside //= level.count
            at = f"step / {inside}" if inside > 1 else "step"
            at = at if inside * level.count == iterations else f"{at} % {level.count}"
            text.add(f"const ptrdiff_t {level.variable} = {at};")
    elif not levels:
        text.add("if (thread == 0) {" if threads > 1 else "{")
        text.depth += 1
    for level in levels:
        name = level.variable
        first, last = share(str(level.count)) if own and level.own else ("0", str(level.count))
        text.add(f"for (ptrdiff_t {name} = {first}; {name} < {last}; ++{name}) {{")
        text.depth += 1
    yield
    while text.depth > depth:
        text.depth -= 1
        text.add("}")


def local(declared: str, nbytes: int) -> str:
    """The declaration of a local array of so many bytes, from the start of a line on, and within one page if it can be.

    Where stacks begin is random. A store that lies in two pages takes hundreds of cycles: a transpose whose tiles of
    800 bytes crossed the end of one took three times as long, one run in five.

    >>> local("char stage[800]", 800), local("float t[4 * 4]", 64)
    ('char stage[800] __attribute__((aligned(1024)));', 'float t[4 * 4] __attribute__((aligned(64)));')
    """
    whole = 1 << (nbytes - 1).bit_length()
    return f"{declared} __attribute__((aligned({whole if LINE < whole <= PAGE else LINE})));"


def tile_start(start: str, extent: int, tile: int) -> str:
    """Where a tile of a run begins: at `start`, but the last one ends where the run ends, overlapping the one before.

    >>> tile_start("16 * k", 40, 16), tile_start("16 * k", 48, 16)
    ('16 * k > 24 ? 24 : 16 * k', '16 * k')
    """
    last = extent - tile
    return f"{start} > {last} ? {last} : {start}" if extent % tile else start


def product(*factors: int | str) -> str:
    """A product in C, which would multiply numbers in 32 bits: here, where they need more.

    >>> product(168, 8, "t"), product(46349, 64, "(724)"), product("46349", 1 << 20, "t")
    ('168 * 8 * t', '2147627264', '48600449024 * t')
    """
    texts = [str(factor) for factor in factors]
    names = [text for text in texts if not text.strip("(-)").isdecimal()]
    number = prod(int(text.strip("()")) for text in texts if text not in names)
    return " * ".join(texts if abs(number) < 1 << 31 else [str(number), *names])


def address(base: str, terms: Sequence[tuple[str, int]], constant: int = 0) -> str:
    """`base`, plus each variable times its scale, plus a constant.

    >>> address("s", [("i", 4), ("j", 1), ("k", -8), ("m", 0)], 12)
    's + 4 * i + j - 8 * k + 12'
    """
    text = base
    for variable, scale in terms:
        if scale == 1:
            text += f" + {variable}"
        elif scale == -1:
            text += f" - {variable}"
        elif scale:
            text += f" {'-' if scale < 0 else '+'} {abs(scale)} * {variable}"
    if constant:
        text += f" {'-' if constant < 0 else '+'} {abs(constant)}"
    return text


class SchedulePrinter(ABC, Generic[S]):
    """Prints one move as its schedule says, into `text`.

    `name` begins the names of the functions that it adds; `buffers` gives the C name of every buffer.
    """

    in_bytes = True
    """Whether what is printed uses the source and the result as bytes, with the names s and d."""

    def __init__(
        self, text: Text, move: Move, schedule: S, machine: Machine, name: str, buffers: Mapping[str, str]
    ) -> None:
        self.text = text
        self.move = move
        self.schedule = schedule
        self.vector = machine.vector
        """Bytes of a vector register."""
        self.shuffled = min(machine.vector, machine.shuffled)
        """Bytes of the vectors in which blocks are transposed that are not read again soon in wider ones."""
        self.name = name
        self.buffers = buffers
        self.size = move.out.size
        """Bytes of an element of the result."""
        self.e = BLOCK // self.size
        """Elements of 16 bytes."""

    @abstractmethod
    def print(self) -> None:
        """Add the loops, and the functions that they call."""

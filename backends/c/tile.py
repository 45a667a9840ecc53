"""Turns: a nest of tile loops around one tile, which is transposed block by block (see c_turn)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.backends.c.copy import bits_of, emit_copy, emit_fill
from eqsat.backends.c.nest import Level, Text, address, nest, product
from eqsat.backends.c.turn import Block
from eqsat.backends.c.vector import STREAM_NEXT, STREAM_OUT, stream_pieces
from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, Chain, Turn

UNROLLED = 4
"""So many lines of a row are asked for one by one, without a loop."""


def cover(count: int, e: int, lanes: int) -> list[tuple[int, int]]:
    """(first row, lanes) of the blocks that cover `count` rows: wide ones, then one that just fits or overlaps."""
    pieces: list[tuple[int, int]] = []
    at, most = 0, 1 << (lanes.bit_length() - 1)
    while at < count:
        width = most
        while width > 1 and (width * e > count or width // 2 * e >= count - at):
            width //= 2
        pieces.append((min(at, count - width * e), width))
        at += width * e
    return pieces


def banded(parts: Sequence[tuple[int, int]], e: int, height: int) -> list[list[tuple[int, int]]]:
    """Blocks grouped into bands of at most `height` rows."""
    bands: list[list[tuple[int, int]]] = []
    for at, lanes in parts:
        if bands and at + lanes * e <= bands[-1][0][0] + height:
            bands[-1].append((at, lanes))
        else:
            bands.append([(at, lanes)])
    return bands


def padded_rows(nbytes: int) -> int:
    """Bytes between rows of a local buffer: an odd number of lines, so that columns spread over the cache."""
    lines = -(-nbytes // LINE)
    return (lines | 1) * LINE


class TurnPrinter:
    """Prints one turn. The names s and d are the source and the result as bytes."""

    def __init__(self, text: Text, move: Move, plan: Turn, machine: Machine, name: str) -> None:
        self.text = text
        self.move = move
        self.plan = plan
        self.machine = machine
        self.name = name
        self.size = move.out.size
        self.source: Access = move.operands[0]
        self.e = 16 // self.size
        # Of a row that the source has only in part, a tile takes all.
        assert not move.boxed or (move.boxed == plan.i.loops and plan.ti == plan.i.size and move.fill is not None)

    def stride(self, access: Access, loop: int) -> int:
        return access.strides[loop] * self.size

    def table(self, chain: Chain, access: Access, name: str) -> None:
        """Offsets of the elements of a chain in the other buffer."""
        text = self.text
        text.add(f"ptrdiff_t {name}[{chain.size}];")
        variables = [text.name("k") for _ in chain.loops]
        at, scale = "", 1
        terms: list[tuple[str, int]] = []
        places: list[tuple[str, int]] = []
        for variable, loop in zip(variables, chain.loops, strict=True):
            terms.append((variable, self.stride(access, loop)))
            places.append((variable, scale))
            scale *= self.extent(loop)
        at = address("0", places).removeprefix("0 + ")
        for variable, loop in zip(reversed(variables), reversed(chain.loops), strict=True):
            text.add(f"for (ptrdiff_t {variable} = 0; {variable} < {self.extent(loop)}; ++{variable})")
            text.depth += 1
        text.add(f"{name}[{at}] = {address('0', terms).removeprefix('0 + ')};")
        text.depth -= len(variables)

    def extent(self, loop: int) -> int:
        return self.move.extents[loop]

    # -- the nest

    def print(self) -> None:
        """Tables, tile loops, and in them a call of the tile function."""
        plan, text = self.plan, self.text
        i, j = plan.i, plan.j
        if not i.plain:
            self.table(i, self.source, "row")
        if not j.plain:
            self.table(j, self.move.out, "column")
        counts = {TILE_I: -(-i.size // plan.ti), TILE_J: -(-j.size // plan.tj)}
        names = {n: text.name("i") for n in plan.order}
        levels = [Level(names[n], counts[n] if n < 0 else self.extent(n)) for n in plan.order]
        source = [(names[n], self.stride(self.source, n)) for n in plan.order if n >= 0 and self.extent(n) > 1]
        target = [(names[n], self.stride(self.move.out, n)) for n in plan.order if n >= 0 and self.extent(n) > 1]
        self.pieces()
        if plan.dense:
            self.sequence(names, source, target)
            return
        with nest(text, levels, plan.threads, 8):
            self.tile_start("ti", names[TILE_I], i.size, plan.ti)
            self.tile_start("tj", names[TILE_J], j.size, plan.tj)
            source.append(("tj", self.size))
            target.append(("ti", self.size))
            arguments = [""]
            if i.plain:
                source.append(("ti", self.stride(self.source, i.loops[0])))
            else:
                arguments.append("row + ti")
            if j.plain:
                target.append(("tj", self.stride(self.move.out, j.loops[0])))
            else:
                arguments.append("column + tj")
            start = address("s", source, self.source.offset * self.size)
            end = address("d", target, self.move.out.offset * self.size)
            text.add(f"{self.name}_tile({start}, {end}{', '.join(arguments)});")

    def sequence(self, names: dict[int, str], source: list[tuple[str, int]], target: list[tuple[str, int]]) -> None:
        """Tiles along j one after the other: their results are one stretch of memory, which leaves line by line."""
        plan, text, size = self.plan, self.text, self.size
        j = plan.j
        levels = [Level(names[n], self.extent(n)) for n in plan.order if n >= 0]
        row = plan.ti * size
        with nest(text, levels, plan.threads, 8):
            text.add(f"char line[192] __attribute__((aligned({LINE})));")
            text.add(f"char *const start = {address('d', target, self.move.out.offset * size)};")
            with text.loop("t", -(-j.size // plan.tj)):
                self.tile_start("tj", "t", j.size, plan.tj)
                from_ = address("s", [*source, ("tj", size)], self.source.offset * size)
                if plan.fetch:
                    self.fetch_share(address("s", source, self.source.offset * size))
                done = f"{plan.tj} * t - tj" if j.size % plan.tj else "0"
                text.add(f"{self.name}_tile({from_}, start + {row} * tj, {done}, line + {LINE}, t == 0);")
            total = row * j.size
            text.add(f"const size_t held = (size_t)((uintptr_t)(start + {total}) & {LINE - 1});")
            text.add(f"if (held != 0) memcpy(start + {total} - held, line + {LINE}, held);")

    def fetch_share(self, block: str) -> None:
        """Ask for a part of the rows that come next, each tile for another: few at a time, so that none has to wait.

        Of the next block of rows all tiles together ask for all; along a row, those of one line for the next line.
        """
        plan, text, rows = self.plan, self.text, self.plan.i.size
        row = self.stride(self.source, plan.i.loops[0])
        width = plan.tj * self.size
        if plan.next is not None:
            turns, turn, ahead = -(-plan.j.size // plan.tj), "t", self.stride(self.source, plan.next)
            lines = range(ahead, ahead + plan.j.size * self.size, LINE)
        else:
            turns = max(1, LINE // width)
            turn = f"t % {turns}" if turns > 1 else "0"
            block += f" + {LINE} * (t / {turns})" if turns > 1 else f" + {width} * t"
            lines = range(plan.fetch, plan.fetch + max(width, LINE), LINE)
        first, last = f"{turn} * {rows} / {turns}", f"({turn} + 1) * {rows} / {turns}"
        with text.block(f"for (ptrdiff_t r = {first}; r < {last}; ++r)"):
            text.add(f"const char *at = {block} + {row} * r;")
            if len(lines) > UNROLLED:
                head = f"for (ptrdiff_t n = {lines.start}; n < {lines.stop}; n += {LINE})"
                text.add(f"{head} __builtin_prefetch(at + n, 0, 2);")
            for line in lines if len(lines) <= UNROLLED else ():
                text.add(f"__builtin_prefetch(at + {line});")

    def tile_start(self, name: str, counter: str, extent: int, tile: int) -> None:
        """The first element of a tile; the last tile ends where the run ends, overlapping the one before."""
        if extent <= tile:
            self.text.add(f"const ptrdiff_t {name} = 0;")
        elif extent % tile == 0:
            self.text.add(f"const ptrdiff_t {name} = {counter} * {tile};")
        else:
            last = extent - tile
            condition = f"{counter} * {tile} > {last}"
            self.text.add(f"const ptrdiff_t {name} = {condition} ? {last} : {counter} * {tile};")

    # -- one tile

    def pieces(self) -> None:
        """The tile function and what it needs."""
        plan, inner = self.plan, Text()
        run, rows = plan.tj * self.size, plan.ti * self.size
        inner.pieces = self.text.pieces
        params = ["const char *restrict s", "char *restrict d"]
        params += [] if plan.i.plain else ["const ptrdiff_t *restrict row"]
        params += [] if plan.j.plain else ["const ptrdiff_t *restrict column"]
        params += ["ptrdiff_t done", "char *restrict line", "int first"] if plan.dense else []
        row = str(self.stride(self.source, plan.i.loops[0])) if plan.i.plain else "row"
        column = str(self.stride(self.move.out, plan.j.loops[0])) if plan.j.plain else "column"
        source, target = "s", "d"
        first, last = self.present()
        if plan.pack:
            source, width = "pack", padded_rows(run)
            inner.add(f"char pack[{plan.ti} * {width}] __attribute__((aligned({LINE})));")
            at = f"s + {row} * r" if plan.i.plain else "s + row[r]"
            with inner.loop("r", last, first):
                if plan.fetch and not plan.dense:
                    inner.add(f"__builtin_prefetch({at} + {plan.fetch});")
                emit_copy(inner, f"pack + {width} * r", at, run, self.machine.vector)
            row = str(width)
        apart = column
        if plan.stage:
            target, width = "stage", rows if plan.dense else padded_rows(rows)
            inner.add(f"char stage[{plan.tj} * {width}] __attribute__((aligned({LINE})));")
            column = str(width)
        self.body(inner, source, row, target, column)
        if plan.dense:
            inner.pieces["stream"] = stream_pieces(self.machine.vector)
            inner.pieces["stream_next"] = STREAM_NEXT
            part = f"{rows} * done"
            inner.add(f"stream_next(d + {part}, stage + {part}, {rows * plan.tj} - {part}, line, first);")
        elif plan.stage:
            at = f"d + {apart} * c" if plan.j.plain else "d + column[c]"
            with inner.loop("c", plan.tj):
                if plan.stream:
                    inner.pieces["stream"] = stream_pieces(self.machine.vector)
                    inner.pieces["stream_out"] = STREAM_OUT
                    inner.add(f"stream_out({at}, stage + {column} * c, {rows});")
                else:
                    emit_copy(inner, at, f"stage + {column} * c", rows, self.machine.vector)
        head = f"static inline void {self.name}_tile({', '.join(params)})"
        note = f"/* {plan.ti} x {plan.tj} elements of {self.size} bytes. */"
        self.text.pieces[f"{self.name}_tile"] = "\n".join([note, head, "{", *inner.lines, "}"])

    def present(self) -> tuple[int, int]:
        """The rows of a tile that the source has."""
        if self.plan.i.plain and self.plan.i.loops[0] in self.move.boxed:
            return self.move.box[self.plan.i.loops[0]]
        return 0, self.plan.ti

    def body(self, inner: Text, source: str, row: str, target: str, column: str) -> None:
        """Bands of rows that make whole lines of the result; in a band, blocks from left to right."""
        plan = self.plan
        lanes = min(self.machine.vector // 16, max(1, plan.ti // self.e))
        height = plan.band or LINE // self.size
        bands = banded(cover(plan.ti, self.e, lanes), self.e, height)
        whole = [b for k, b in enumerate(bands) if b == [(at + k * height, w) for at, w in bands[0]]]
        if len(whole) > 2 and self.present() == (0, plan.ti):
            with inner.loop("k", len(whole)):
                if plan.fetch and not (plan.pack or plan.dense):
                    self.fetch(inner, source, row, height, f"{height} * (k + 1)", 0)
                self.band(inner, bands[0], f"{height} * k", (source, row, target, column))
            bands = bands[len(whole) :]
        elif plan.fetch and not (plan.pack or plan.dense):
            low, high = self.present()
            self.fetch(inner, source, row, high - low, str(low), plan.fetch)
        for band in bands:
            self.band(inner, band, "0", (source, row, target, column))

    def fetch(self, inner: Text, source: str, row: str, rows: int, first: str, ahead: int) -> None:
        """Ask for rows of the source that come next."""
        at = f"{source} + {row} * ({first} + r)" if self.plan.i.plain else f"{source} + row[{first} + r]"
        with inner.loop("r", rows):
            for line in range(0, self.plan.tj * self.size, LINE):
                inner.add(f"__builtin_prefetch({at} + {ahead + line});")

    def band(self, inner: Text, parts: Sequence[tuple[int, int]], base: str, names: tuple[str, str, str, str]) -> None:
        """The blocks of one band, which starts at row `base`."""
        source, row, target, column = names
        plan, e, size = self.plan, self.e, self.size
        column_table = not plan.j.plain and not plan.stage
        row_table = not plan.i.plain and not plan.pack
        if base != "0":
            with inner.block(""):
                inner.add(f"const char *sk = {source}{'' if row_table else f' + {row} * ({base})'};")
                inner.add(f"char *dk = {target} + {size} * ({base});")
                if row_table:
                    inner.add(f"const ptrdiff_t *rk = row + {base};")
                self.band(inner, parts, "0", ("sk", "rk" if row_table else row, "dk", column))
            return
        with inner.loop("c", -(-plan.tj // e)):
            at = f"{e} * c"
            if plan.tj % e:
                inner.add(f"const ptrdiff_t at = {e} * c > {plan.tj - e} ? {plan.tj - e} : {e} * c;")
                at = "at"
            s, d = f"{source} + {size} * {at}" if at == "at" else f"{source} + 16 * c", target
            columns = f"column + {at}" if column_table else column
            if not column_table:
                d = f"{target} + {column} * ({at})"
            for first, lanes in parts:
                self.part(inner, Block(size, lanes, row_table, column_table, 0, lanes * e), first, (s, row, d, columns))

    def part(self, inner: Text, block: Block, at: int, names: tuple[str, str, str, str]) -> None:
        """One block, from row `at`, of which the source may have a part only."""
        s, row, d, column = names
        low, high = self.present()
        if (low, high) != (0, self.plan.ti):
            assert self.plan.i.size == self.plan.ti and self.move.fill is not None
            block = replace(block, low=max(low - at, 0), high=min(high - at, block.rows), fill=bits_of(self.move.fill))
        if block.low >= block.high:
            with inner.loop("n", self.e):
                into = f"{d} + ({column})[n]" if block.column_table else f"{d} + {column} * n"
                emit_fill(inner, f"{into} + {self.size * at}", block.rows, self.size, block.fill)
            return
        for name, piece in {**block.pieces, block.name: block.text()}.items():
            inner.pieces.setdefault(name, piece)
        into = f"{d} + {self.size * at}" if at else d
        if block.row_table:
            inner.add(f"{block.name}({s}, {row}{f' + {at}' if at else ''}, {into}, {column});")
        else:
            inner.add(f"{block.name}({s}{f' + {product(row, at)}' if at else ''}, {row}, {into}, {column});")

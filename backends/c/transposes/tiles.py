"""Prints transposes in tiles: loops over tiles, and a function for one tile, which transposes it block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.backends.c.copy_fill import (
    APPEND_BUFFER,
    APPEND_LINE,
    append_end,
    bits_of,
    emit_append,
    emit_copy,
    emit_fill,
    emit_nt_copy,
)
from eqsat.backends.c.nest import Level, SchedulePrinter, Text, address, local, nest, product, tile_start
from eqsat.backends.c.transposes.block import Block
from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.machine import BLOCK, LINE
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, ContiguousLoops, TransposeTiles

UNROLLED = 4
"""Prefetches of up to so many lines are printed one by one, without a loop."""


def cover(count: int, e: int, lanes: int) -> list[tuple[int, int]]:
    """(first row, lanes) of the blocks that cover `count` rows: wide ones, then one that just fits or overlaps.

    e: rows of a block of one lane. lanes: blocks in the widest vector.

    >>> cover(20, 4, 4), cover(6, 4, 4)
    ([(0, 4), (16, 1)], [(0, 1), (2, 1)])
    """
    blocks: list[tuple[int, int]] = []
    at, most = 0, 1 << (lanes.bit_length() - 1)
    while at < count:
        width = most
        while width > 1 and (width * e > count or width // 2 * e >= count - at):
            width //= 2
        blocks.append((min(at, count - width * e), width))
        at += width * e
    return blocks


def banded(blocks: Sequence[tuple[int, int]], e: int, height: int) -> list[list[tuple[int, int]]]:
    """Blocks grouped into bands of at most `height` rows."""
    bands: list[list[tuple[int, int]]] = []
    for at, lanes in blocks:
        if bands and at + lanes * e <= bands[-1][0][0] + height:
            bands[-1].append((at, lanes))
        else:
            bands.append([(at, lanes)])
    return bands


def padded_rows(nbytes: int) -> int:
    """Bytes between rows of a local buffer: an odd number of lines, so that its columns spread over the cache sets."""
    lines = -(-nbytes // LINE)
    return (lines | 1) * LINE


def define_offsets(text: Text, move: Move, run: ContiguousLoops, access: Access, name: str) -> None:
    """An array with the offsets in bytes of a run's elements in the other buffer, where they have no common stride."""
    text.add(f"ptrdiff_t {name}[{run.size}];")
    variables = [text.name("k") for _ in run.loops]
    scale = 1
    terms: list[tuple[str, int]] = []
    places: list[tuple[str, int]] = []
    for variable, loop in zip(variables, run.loops, strict=True):
        terms.append((variable, access.strides[loop] * access.size))
        places.append((variable, scale))
        scale *= move.extents[loop]
    at = address("0", places).removeprefix("0 + ")
    for variable, loop in zip(reversed(variables), reversed(run.loops), strict=True):
        text.add(f"for (ptrdiff_t {variable} = 0; {variable} < {move.extents[loop]}; ++{variable})")
        text.depth += 1
    text.add(f"{name}[{at}] = {address('0', terms).removeprefix('0 + ')};")
    text.depth -= len(variables)


class TransposeTilesPrinter(SchedulePrinter[TransposeTiles]):
    """Prints one TransposeTiles."""

    @property
    def source(self) -> Access:
        """What is transposed."""
        return self.move.operands[0]

    def stride(self, access: Access, loop: int) -> int:
        """Bytes between the steps of a loop in a buffer."""
        return access.strides[loop] * self.size

    def extent(self, loop: int) -> int:
        """How often a loop of the move runs."""
        return self.move.extents[loop]

    # -- the nest

    def print(self) -> None:
        """Tables, tile loops, and in them a call of the tile function."""
        schedule, text, move = self.schedule, self.text, self.move
        i, j = schedule.i, schedule.j
        # Of a row that the source has only in part, a tile takes all.
        assert not move.boxed or (move.boxed == i.loops and schedule.ti == i.size and move.fill is not None)
        assert min(schedule.ti, schedule.tj) >= BLOCK // self.size, "a tile is smaller than a register block"
        assert schedule.ti <= i.size and schedule.tj <= j.size, "a tile exceeds its runs"
        if not i.single:
            define_offsets(text, move, i, self.source, "row")
        if not j.single:
            define_offsets(text, move, j, move.out, "column")
        counts = {TILE_I: -(-i.size // schedule.ti), TILE_J: -(-j.size // schedule.tj)}
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], counts[n] if n < 0 else self.extent(n), n == schedule.own) for n in schedule.order]
        source = [(names[n], self.stride(self.source, n)) for n in schedule.order if n >= 0 and self.extent(n) > 1]
        target = [(names[n], self.stride(self.move.out, n)) for n in schedule.order if n >= 0 and self.extent(n) > 1]
        self.define_tile()
        if schedule.contiguous:
            self.sequence(names, source, target)
            return
        with nest(text, levels, schedule.threads):
            self.start("ti", names[TILE_I], i.size, schedule.ti)
            self.start("tj", names[TILE_J], j.size, schedule.tj)
            source.append(("tj", self.size))
            target.append(("ti", self.size))
            arguments = [""]
            if i.single:
                source.append(("ti", self.stride(self.source, i.loops[0])))
            else:
                arguments.append("row + ti")
            if j.single:
                target.append(("tj", self.stride(self.move.out, j.loops[0])))
            else:
                arguments.append("column + tj")
            start = address("s", source, self.source.offset * self.size)
            end = address("d", target, self.move.out.offset * self.size)
            text.add(f"{self.name}_tile({start}, {end}{', '.join(arguments)});")

    def sequence(self, names: dict[int, str], source: list[tuple[str, int]], target: list[tuple[str, int]]) -> None:
        """Tiles along j one after the other, whose results are one stretch of memory, written line by line."""
        schedule, text, size = self.schedule, self.text, self.size
        j = schedule.j
        levels = [Level(names[n], self.extent(n)) for n in schedule.order if n >= 0]
        row = schedule.ti * size
        assert row * min(schedule.tj, j.size % schedule.tj or j.size) >= LINE, "a tile is less than a line"
        with nest(text, levels, schedule.threads):
            text.add(APPEND_BUFFER)
            text.add(f"char *const start = {address('d', target, self.move.out.offset * size)};")
            with text.loop("t", -(-j.size // schedule.tj)):
                self.start("tj", "t", j.size, schedule.tj)
                from_ = address("s", [*source, ("tj", size)], self.source.offset * size)
                if schedule.prefetch:
                    self.prefetch_share(address("s", source, self.source.offset * size))
                done = f"{schedule.tj} * t - tj" if j.size % schedule.tj else "0"
                text.add(f"{self.name}_tile({from_}, start + {row} * tj, {done}, {APPEND_LINE}, t == 0);")
            append_end(text, row * j.size)

    def prefetch_share(self, block: str) -> None:
        """Prefetch this tile's share of the rows that are read next: few lines at a time, so that none has to wait.

        With `prefetch_loop`, all tiles together prefetch the rows of its next step; else those within one line of the
        source prefetch what lies `prefetch` bytes further along the rows.
        """
        schedule, text, rows = self.schedule, self.text, self.schedule.i.size
        row = self.stride(self.source, schedule.i.loops[0])
        width = schedule.tj * self.size
        if schedule.prefetch_loop is not None:
            shares, share = -(-schedule.j.size // schedule.tj), "t"
            step = self.stride(self.source, schedule.prefetch_loop)
            lines = range(step, step + schedule.j.size * self.size, LINE)
        else:
            shares = max(1, LINE // width)
            share = f"t % {shares}" if shares > 1 else "0"
            block += f" + {LINE} * (t / {shares})" if shares > 1 else f" + {width} * t"
            lines = range(schedule.prefetch, schedule.prefetch + max(width, LINE), LINE)
        first, last = f"{share} * {rows} / {shares}", f"({share} + 1) * {rows} / {shares}"
        with text.block(f"for (ptrdiff_t r = {first}; r < {last}; ++r)"):
            text.add(f"const char *at = {block} + {row} * r;")
            if len(lines) > UNROLLED:
                head = f"for (ptrdiff_t n = {lines.start}; n < {lines.stop}; n += {LINE})"
                text.add(f"{head} __builtin_prefetch(at + n, 0, 2);")
            for line in lines if len(lines) <= UNROLLED else ():
                text.add(f"__builtin_prefetch(at + {line});")

    def start(self, name: str, counter: str, extent: int, tile: int) -> None:
        """The declaration of the first element of a tile."""
        at = "0" if extent <= tile else tile_start(f"{counter} * {tile}", extent, tile)
        self.text.add(f"const ptrdiff_t {name} = {at};")

    # -- one tile

    def define_tile(self) -> None:
        """The tile function and what it needs."""
        schedule, inner = self.schedule, self.text.function()
        run, rows = schedule.tj * self.size, schedule.ti * self.size
        params = ["const char *restrict s", "char *restrict d"]
        params += [] if schedule.i.single else ["const ptrdiff_t *restrict row"]
        params += [] if schedule.j.single else ["const ptrdiff_t *restrict column"]
        params += ["ptrdiff_t done", "char *restrict line", "int first"] if schedule.contiguous else []
        row = str(self.stride(self.source, schedule.i.loops[0])) if schedule.i.single else "row"
        column = str(self.stride(self.move.out, schedule.j.loops[0])) if schedule.j.single else "column"
        source, target = "s", "d"
        first, last = self.present()
        if schedule.pack:
            source, width = "pack", padded_rows(run)
            inner.add(local(f"char pack[{schedule.ti} * {width}]", schedule.ti * width))
            at = f"s + {row} * r" if schedule.i.single else "s + row[r]"
            with inner.loop("r", last, first):
                if schedule.prefetch and not schedule.contiguous:
                    inner.add(f"__builtin_prefetch({at} + {schedule.prefetch});")
                emit_copy(inner, f"pack + {width} * r", at, run, self.vector)
            row = str(width)
        apart = column
        if schedule.stage:
            target, width = "stage", rows if schedule.contiguous else padded_rows(rows)
            inner.add(local(f"char stage[{schedule.tj} * {width}]", schedule.tj * width))
            column = str(width)
        self.body(inner, source, row, target, column)
        if schedule.contiguous:
            part = f"{rows} * done"
            nbytes = f"{rows * schedule.tj} - {part}"
            emit_append(inner, f"d + {part}", f"stage + {part}", nbytes, "line", "first", self.vector)
        elif schedule.stage:
            at = f"d + {apart} * c" if schedule.j.single else "d + column[c]"
            with inner.loop("c", schedule.tj):
                emit = emit_nt_copy if schedule.nontemporal else emit_copy
                emit(inner, at, f"stage + {column} * c", rows, self.vector)
        head = f"static inline void {self.name}_tile({', '.join(params)})"
        note = f"/* {schedule.ti} x {schedule.tj} elements of {self.size} bytes. */"
        self.text.pieces[f"{self.name}_tile"] = "\n".join([note, head, "{", *inner.lines, "}"])

    def present(self) -> tuple[int, int]:
        """The rows of a tile that the source has."""
        if self.schedule.i.single and self.schedule.i.loops[0] in self.move.boxed:
            return self.move.box[self.schedule.i.loops[0]]
        return 0, self.schedule.ti

    def body(self, inner: Text, source: str, row: str, target: str, column: str) -> None:
        """Bands of rows that make whole lines of the result; in a band, blocks from left to right."""
        schedule = self.schedule
        lanes = min((self.vector if schedule.stage else self.shuffled) // BLOCK, max(1, schedule.ti // self.e))
        height = schedule.band or LINE // self.size
        bands = banded(cover(schedule.ti, self.e, lanes), self.e, height)
        whole = [b for k, b in enumerate(bands) if b == [(at + k * height, w) for at, w in bands[0]]]
        if len(whole) > 2 and self.present() == (0, schedule.ti):
            with inner.loop("k", len(whole)):
                if schedule.prefetch and not (schedule.pack or schedule.contiguous):
                    self.prefetch(inner, source, row, height, f"{height} * (k + 1)", 0)
                self.band(inner, bands[0], f"{height} * k", (source, row, target, column))
            bands = bands[len(whole) :]
        elif schedule.prefetch and not (schedule.pack or schedule.contiguous):
            low, high = self.present()
            self.prefetch(inner, source, row, high - low, str(low), schedule.prefetch)
        for band in bands:
            self.band(inner, band, "0", (source, row, target, column))

    def prefetch(self, inner: Text, source: str, row: str, rows: int, first: str, distance: int) -> None:
        """Prefetch `rows` rows of a tile from row `first` on, `distance` bytes further on."""
        at = f"{source} + {row} * ({first} + r)" if self.schedule.i.single else f"{source} + row[{first} + r]"
        with inner.loop("r", rows):
            for line in range(0, self.schedule.tj * self.size, LINE):
                inner.add(f"__builtin_prefetch({at} + {distance + line});")

    def band(self, inner: Text, blocks: Sequence[tuple[int, int]], base: str, names: tuple[str, str, str, str]) -> None:
        """The blocks of a band that starts at row `base`; `names` are the source, its rows, the result, its rows."""
        source, row, target, column = names
        schedule, e, size = self.schedule, self.e, self.size
        column_table = not schedule.j.single and not schedule.stage
        row_table = not schedule.i.single and not schedule.pack
        if base != "0":
            with inner.block(""):
                inner.add(f"const char *sk = {source}{'' if row_table else f' + {row} * ({base})'};")
                inner.add(f"char *dk = {target} + {size} * ({base});")
                if row_table:
                    inner.add(f"const ptrdiff_t *rk = row + {base};")
                self.band(inner, blocks, "0", ("sk", "rk" if row_table else row, "dk", column))
            return
        with inner.loop("c", -(-schedule.tj // e)):
            at = f"{e} * c"
            if schedule.tj % e:
                inner.add(f"const ptrdiff_t at = {tile_start(at, schedule.tj, e)};")
                at = "at"
            s, d = f"{source} + {size} * {at}" if at == "at" else f"{source} + {BLOCK} * c", target
            columns = f"column + {at}" if column_table else column
            if not column_table:
                d = f"{target} + {column} * ({at})"
            for first, lanes in blocks:
                self.block(
                    inner, Block(size, lanes, row_table, column_table, 0, lanes * e), first, (s, row, d, columns)
                )

    def block(self, inner: Text, block: Block, at: int, names: tuple[str, str, str, str]) -> None:
        """One block, from row `at`, of which the source may have a part only."""
        s, row, d, column = names
        low, high = self.present()
        if (low, high) != (0, self.schedule.ti):
            assert self.schedule.i.size == self.schedule.ti and self.move.fill is not None
            block = replace(block, low=max(low - at, 0), high=min(high - at, block.rows), fill=bits_of(self.move.fill))
        if block.low >= block.high:
            with inner.loop("n", self.e):
                into = f"{d} + ({column})[n]" if block.column_table else f"{d} + {column} * n"
                emit_fill(inner, f"{into} + {self.size * at}", block.rows, self.size, block.fill)
            return
        block.define(inner)
        into = f"{d} + {self.size * at}" if at else d
        if block.row_table:
            inner.add(f"{block.name}({s}, {row}{f' + {at}' if at else ''}, {into}, {column});")
        else:
            inner.add(f"{block.name}({s}{f' + {product(row, at)}' if at else ''}, {row}, {into}, {column});")

"""What a schedule is: plain data that says how a move is carried out. `choose` makes them, the printers read them.

Each class shows the loops before and after it. In these pictures `d` is the result, `s` the source, `E` the number of
elements in 16 bytes, `a:b:c` a loop from a to b in steps of c, and `<-nt-` a non-temporal store, which goes to memory
without being kept in the caches. Lengths are in elements where nothing else is said.
"""

from __future__ import annotations

from dataclasses import dataclass

TILE_I, TILE_J = -1, -2
"""The loops over tiles along i and along j, as entries of `Schedule.order`; other entries number loops of the move."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What all schedules have.

    order: the loops that stay loops, outermost first, as numbers of the move's loops, or TILE_I and TILE_J.
    threads: how many threads share the outer ones.
    own: the loop whose steps threads share instead, of which each takes those that follow each other, and runs all
    others: the outermost one of the result. Whoever reads a part of the result later finds what he wrote in his cache.
    nontemporal: whether the result is written by non-temporal stores.
    """

    order: tuple[int, ...]
    threads: int = 1
    own: int | None = None
    nontemporal: bool = False


@dataclass(frozen=True)
class ContiguousLoops:
    """Loops of a move, innermost first, that together are one contiguous run of `size` elements in one buffer.

    Split and transposed axes make such runs: of NCHW to NCHW16c, the loops over h and w are one run of the source.
    """

    loops: tuple[int, ...]
    size: int

    @property
    def single(self) -> bool:
        """Whether it is one loop, so that its elements lie at one stride in the other buffer too."""
        return len(self.loops) == 1


@dataclass(frozen=True)
class ContiguousCopy(Schedule):
    """Copy runs that are contiguous on both sides, or fill such runs with a constant.

        before:  for b, k, r: d[b, k, r] = s[b, k, r]                 # r contiguous in d and in s
        after:   for b:                                               # `order` without its last `inner` loops
                     prefetch s[b] + prefetch bytes
                     d[b, 0:K, 0:R] <-nt- s[b, 0:K, 0:R]              # one stretch of d, whole vectors, padding too

    inner: how many of the last loops of `order` make one contiguous stretch of the result.
    prefetch: bytes between what is copied and what is prefetched; 0: nothing is.
    tiled, tile: this loop is cut into pieces of so many steps, which TILE_I counts: short runs are then read one after
    the other, few of them at a time, before the next rows of the result.
    prefetch_group: the loop around the stretch is taken in groups of so many steps, of which the source is adjacent:
    while one group is copied, the next is prefetched row by row; 0: `prefetch` holds.
    """

    inner: int = 0
    prefetch: int = 0
    tiled: int | None = None
    tile: int = 0
    prefetch_group: int = 0


@dataclass(frozen=True)
class TransposeTiles(Schedule):
    """Transpose tile by tile, each in vector registers.

        before:  for b, j, i: d[b, j, i] = s[b, i, j]                 # i contiguous in d, j in s
        after:   for b, j0 = 0:J:tj, i0 = 0:I:ti:                     # in `order`
                     for each block of E columns and some times E rows of the tile:
                         x[0:E] = rows of s; log2(E) rounds of interleaving; rows of d = x[0:E]

    i, j: the contiguous loops of the result and of the source.
    ti, tj: the extents of a tile along them; the last tile overlaps the one before.
    pack: the rows of the tile are first copied side by side, so that they do not meet in one cache set.
    stage: the tile of the result is collected in a local buffer, and leaves it row by row.
    contiguous: with `stage`, the rows of a tile follow each other in the result, and so do the tiles along j: all of
    them leave as one stretch of memory, in whole cache lines.
    prefetch: bytes between a source row and what is prefetched of it; 0: nothing is.
    prefetch_loop: with `contiguous`, what the next step of this loop reads is prefetched instead.
    band: at most so many rows of a tile are read before their part of the result is written; 0: one cache line's worth.
    """

    i: ContiguousLoops
    j: ContiguousLoops
    ti: int
    tj: int
    pack: bool = False
    stage: bool = False
    contiguous: bool = False
    prefetch: int = 0
    prefetch_loop: int | None = None
    band: int = 0


@dataclass(frozen=True)
class StreamingTranspose(Schedule):
    """Transpose what is larger than the caches: each row of the result is written in whole cache lines, from its start
    to its end, wherever in a line it begins.

        before:  for b, j, i: d[b, j, i] = s[b, i, j]                 # i contiguous in d, j in s
        after:   for b, each of `blocks` parts of j, i0 = 0:I:lines * LINE, j0 in the part by tj:
                     stage = transpose s[b, i0:, j0:]; then (or meanwhile, of the tile before and its stage):
                         d[b, j, whole lines] <-nt- held[j], stage[j]; held[j] = what is left
                         prefetch the rows of the tile `prefetch_tiles` further on

    i, j: the contiguous loops of the result and of the source.
    tj: columns of the source that are transposed at a time.
    blocks: j is cut into so many parts, such that `held`, a line for each row of the result, stays in the second cache.
    lines: cache lines of a row of the result that are written at a time.
    pack: the rows of a tile are first copied side by side, so that they do not meet in one cache set.
    prefetch_tiles: tiles between the one that is transposed and the one that is prefetched; 0: nothing is.
    interleaved: whether the lines of a tile leave between the shuffles of the next.
    """

    i: ContiguousLoops
    j: ContiguousLoops
    tj: int
    blocks: int
    lines: int = 1
    pack: bool = False
    prefetch_tiles: int = 1
    interleaved: bool = True


@dataclass(frozen=True)
class LineTranspose(Schedule):
    """Transpose what is larger than the caches line by line: whole lines are read and written, each of them once.

        before:  for b, j, i: d[b, j, i] = s[b, i, j]                 # i contiguous in d, j in s; rows of d whole lines
        after:   for b, each part of j, i0 = 0:I:lines * LINE, j0 in the part by LINE:
                     words = R rows of s[b, i0:, j0:j0 + LINE] interleaved, for all R rows of them: 8 bytes of a column
                     meanwhile, of the tile before and its words:
                         x[0:8] = 8 lines of words; 3 rounds of interleaving; d[b, some 8 j, i0:] <-nt- x[0:8]
                     prefetch the rows of the tile `prefetch_tiles` further on

    i, j: the contiguous loops of the result and of the source.
    lines: cache lines of a row of the result that are written at a time.
    prefetch_tiles: tiles between the one that is transposed and the one that is prefetched; 0: nothing is.
    part: columns of the source that are done for all rows before the next ones, a multiple of a line, and TILE_J is in
    `order`; the last part overlaps the one before. 0: all are one part.
    unaligned: what is done instead where the result does not begin at a line; None: the same.
    """

    i: ContiguousLoops
    j: ContiguousLoops
    lines: int = 2
    prefetch_tiles: int = 2
    part: int = 0
    unaligned: Schedule | None = None


@dataclass(frozen=True)
class JoinedLines(LineTranspose):
    """The same where rows of the result begin anywhere in a line: whole lines are written, put together of two parts.

    before:  for b, j, i: d[b, j, i] = s[b, i, j]                 # i contiguous in d, j in s
    after:   for b, each part of j, i0 = 0:I:lines * LINE:
                 for j0 in the part by LINE: as above, but of each row
                     d[b, j, lines from where i0 lies] <-nt- the ends of held[j] and x, x and the next x, ...
                     held[j] = the last x
    """


@dataclass(frozen=True)
class LineTiles(Schedule):
    """Transpose tile by tile what a cache holds but few sets of the first one: some lines of a row each time it is met.

        before:  for b, j, i: d[b, j, i] = s[b, i, j]                 # i contiguous in d, j in s; both begin anywhere
        after:   for b, i0 = 0:I:high * LINE, j0 = 0:J:wide * LINE:   # in `order`
                     words = R rows of s[b, i0:, j0:j0 + wide * LINE] interleaved, for all R rows of the tile
                     for all 8 columns of the tile: x[0:8] = 8 lines of words, interleaved; d[b, j0:, i0:] = x[0:8]

    Rows that meet in a set of the cache are evicted before they are met again: so each of the source is read for `wide`
    lines and each of the result written for `high` lines. Between, a tile lies in `words`, where nothing meets.

    i, j: the contiguous loops of the result and of the source. The last tile overlaps the one before.
    """

    i: ContiguousLoops
    j: ContiguousLoops
    high: int
    wide: int


@dataclass(frozen=True)
class Interleave(Schedule):
    """Interleave a few rows element by element, or separate them again.

        before:  for b, k, m: d[b, k, m] = s[b, m, k]                 # few m; to separate, d and s change places
        after:   for b, k0 = 0:K:block, k = k0:k0 + block:
                     d[b, k, 0] = s[b, 0, k]; d[b, k, 1] = s[b, 1, k]; ...
        or:      for b, k0 = 0:K:block, k = k0:k0 + block:E:          # in_registers
                     x[m] = s[b, m, k:k + E] for all m; shuffles and blends; d[b, k:k + E, :] = x

    long: the loop k. small: the loop m. block: steps of the long loop that are done, and perhaps collected, at a time.
    in_registers: whether vectors are interleaved; else compilers make what they can of the statements.
    wide: whether these are vectors of 64 bytes, permuted as a whole where the processor can do that with bytes.
    tiles: loops of `order`, each with how many of its steps are done before the others go on.
    apart: whether what follows a row in the result is written much later: with `nontemporal`, a row is then written
    past the caches only where it begins at a line, as all rows do or none.
    """

    long: int
    small: int
    block: int
    in_registers: bool = False
    wide: bool = False
    tiles: tuple[tuple[int, int], ...] = ()
    apart: bool = False

    @property
    def loops(self) -> list[tuple[int, bool]]:
        """The loops, outermost first, and whether each goes from tile to tile: such stand before all that go through
        one.

        >>> Interleave(2, 3, 16, tiles=((1, 4),), order=(0, 1)).loops
        [(0, False), (1, True), (1, False)]
        """
        tiled = [n for n, _ in self.tiles]
        first = min((self.order.index(n) for n in tiled), default=0)
        before, after = self.order[:first], self.order[first:]
        return [*((n, False) for n in before), *((n, True) for n in tiled), *((n, False) for n in after)]


@dataclass(frozen=True)
class PointwiseTiles(Schedule):
    """Compute an element-wise body tile by tile, where some operands lie across the result.

        before:  for b, j, i: d[b, j, i] = f(p[b, j, i], q[b, i, j])  # i contiguous in d and p, j in q
        after:   for b, j0 = 0:J:tj, i0 = 0:I:ti:                     # along i:
                     t = transpose q[b, i0:, j0:]; for j of the tile: d[b, j, i0:] = f(p[b, j, i0:], t[j])
        or:          for i of the tile: t[i] = f(q[b, i, j0:], ...); d[b, j0:, i0:] = transpose t    # along j

    i, j: the contiguous loops of the result, and of operands that lie across it.
    ti, tj: the extents of a tile; the last tile overlaps the one before.
    along: i or j, the loop that the body is computed along. Along i, operands are transposed before; along j, what is
    computed is transposed afterwards, together with a border that the result has along i.
    """

    i: int
    j: int
    ti: int
    tj: int
    along: int


@dataclass(frozen=True)
class PointwiseRows(Schedule):
    """Compute an element-wise body along the result, a few vectors at a time: for binary16, which is converted by rows.

        before:  for b, i: d[b, i] = f(p[b, i], q[b, i])              # all operands at small strides along i
        after:   for b, i0 = 0:I:ti:                                  # in `order`
                     widen p[b, i0:i0 + ti] and q[...] to floats; compute; narrow into d[b, i0:i0 + ti]

    i: the contiguous loop of the result. ti: the elements of a piece; the last piece overlaps the one before.
    """

    i: int
    ti: int


@dataclass(frozen=True)
class RegisterShuffle(Schedule):
    """Permute the elements of blocks of 16 bytes, each by one shuffle of a register.

        before:  for b, y, x: d[b, y, x] = s[b, x, y]                 # the loops y and x walk 16 bytes on both sides
        after:   for b:
                     v = s[b, 16 bytes]
                     d[b, 16 bytes] = shuffle(v, places)

    inside: the loops that walk a block, innermost first, and how many of their steps a block takes.
    places: element k of a block of the result is element places[k] of the block of the source.
    first: where a block of the source begins, in elements behind the source of its first result.
    """

    inside: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    first: int

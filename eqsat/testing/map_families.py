"""The families of random index maps: one function each, from a random generator and a number of points to a map.

Every map is defined and not negative on its shape. `eqsat.testing.maps` is the door to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from random import Random

import numpy as np

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term

Shape = tuple[int, ...]
Family = Callable[[Random, int], tuple[IndexMap, Shape]]

NAMES = ("i", "j", "k", "l", "m", "n")
_NICE = (2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 16, 32, 64)


# -- shapes -----------------------------------------------------------------------------------------------------------


def _upto(rng: Random, most: int) -> int:
    """A number in [1, most], about log-uniform; often a power of two or a multiple of a small number."""
    if most <= 1:
        return 1
    n = max(1, min(most, round(2 ** rng.uniform(0, most.bit_length() - 0.01))))
    kind = rng.randrange(4)
    if kind == 0:
        n = 1 << (n.bit_length() - 1)
    elif kind == 1:
        c = rng.choice(_NICE)
        n = n if n < c else n // c * c
    return n


def some_shape(rng: Random, most: int, rank: int) -> Shape:
    """A shape whose number of points is at most `most`."""
    total = _upto(rng, most)
    cuts = sorted(rng.random() for _ in range(rank - 1))
    parts = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
    shape: list[int] = []
    for p in parts:
        room = most // prod(shape)
        extent = max(1, min(room, round(total**p)))
        if rng.randrange(3) == 0:
            extent = 1 << (extent.bit_length() - 1)
        shape.append(extent)
    return tuple(shape)


def _powers(rng: Random, most: int, rank: int) -> Shape:
    """Extents that are powers of two."""
    shape: list[int] = []
    for _ in range(rank):
        room = most // prod(shape)
        shape.append(1 << rng.randrange(room.bit_length()))
    rng.shuffle(shape)
    return tuple(shape)


def indices(shape: Sequence[int]) -> list[Term]:
    return [t.var(NAMES[k]) for k in range(len(shape))]


def map_of(shape: Sequence[int], outputs: Sequence[Term]) -> tuple[IndexMap, Shape]:
    return IndexMap(NAMES[: len(shape)], tuple(outputs)), tuple(shape)


def _factors(rng: Random, n: int) -> list[int]:
    """n as a product of a few numbers, in random order."""
    result: list[int] = []
    while n > 1:
        divisors = [d for d in range(2, min(n, 64) + 1) if n % d == 0] or [n]
        d = rng.choice(divisors) if len(result) < 3 else n
        result.append(d)
        n //= d
    rng.shuffle(result)
    return result


def _unit(rng: Random, n: int) -> int:
    """A number prime to n."""
    return next(a for a in (rng.randrange(1, max(2, n)) for _ in range(1000)) if gcd(a, n) == 1)


def _fuse(parts: Sequence[tuple[Term, int]]) -> Term:
    """Digits with their radices as one number, the first the highest."""
    total = t.index_const(0)
    for digit, radix in parts:
        total = total * radix + digit
    return total


# -- families ---------------------------------------------------------------------------------------------------------


def _permute(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    shape = some_shape(rng, most, rng.randint(1, 5))
    outputs = indices(shape)
    rng.shuffle(outputs)
    return map_of(shape, outputs)


def _split(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Axes split by factors that need not divide, also with an offset; the pieces in any order."""
    shape = some_shape(rng, most, rng.randint(1, 4))
    outer: list[Term] = []
    inner: list[Term] = []
    for v in indices(shape):
        if rng.randrange(3) == 0:
            outer.append(v)
            continue
        c = rng.choice(_NICE)
        x = v + rng.randrange(c) if rng.randrange(4) == 0 else v
        outer.append(x // c)
        inner.append(x % c)
    outputs = [*outer, *inner]
    if rng.randrange(2):
        rng.shuffle(outputs)
    return map_of(shape, outputs)


def _merge(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Runs of permuted axes fused to one; sometimes with a stride that is too small, or larger than needed."""
    shape = some_shape(rng, most, rng.randint(2, 5))
    axes = list(zip(indices(shape), shape, strict=True))
    rng.shuffle(axes)
    cut = rng.randint(0, len(axes) - 1)
    outputs = [_fuse(run) for run in (axes[:cut], axes[cut:]) if run]
    if rng.randrange(4) == 0:
        (a, _), (b, n) = axes[-2:]
        outputs = [*(v for v, _ in axes[:-2]), a * max(1, n + rng.choice((-1, 1, 2))) + b]
    return map_of(shape, outputs)


def _digits(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Mixed-radix digits of all axes, shuffled and fused again; sometimes one is lost."""
    shape = some_shape(rng, most, rng.randint(1, 4))
    digits: list[tuple[Term, int]] = []
    for v, extent in zip(indices(shape), shape, strict=True):
        left = extent
        for radix in _factors(rng, extent):
            left //= radix
            digit = v if left == 1 else v // left
            digits.append((digit if left * radix == extent else digit % radix, radix))
    rng.shuffle(digits)
    if len(digits) > 1 and rng.randrange(5) == 0:
        digits.pop()
    groups: list[list[tuple[Term, int]]] = [[]]
    for digit in digits:
        if groups[-1] and rng.randrange(2):
            groups.append([])
        groups[-1].append(digit)
    outputs = [_fuse(g) for g in groups if g] or [t.index_const(0)]
    return map_of(shape, outputs)


def _reblock(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """One blocked layout to another: (o*a + i) // b, (o*a + i) % b."""
    a, b = rng.choice(_NICE), rng.choice(_NICE)
    shape = (max(1, _upto(rng, max(1, most // a))), min(a, most))
    o, i = indices(shape)
    x = o * shape[1] + i
    return map_of(shape, [x // b, x % b])


def _offset(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    shape = (_upto(rng, most),)
    (i,) = indices(shape)
    c, s = rng.choice(_NICE), rng.randrange(40)
    form = rng.randrange(3)
    if form == 0:
        return map_of(shape, [i + s])
    if form == 1:
        return map_of(shape, [(i + s) // c, (i + s) % c])
    return map_of(shape, [(i + s) % c, (i + s) // c, t.index_const(s % 3)])


def _rotate(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    shape = some_shape(rng, most, rng.randint(1, 3))
    outputs: list[Term] = []
    for v, n in zip(indices(shape), shape, strict=True):
        modulus = n if rng.randrange(5) else max(1, n + rng.choice((-1, 1, 3)))
        s = rng.randrange(2 * modulus + 1)
        outputs.append((v + s) % modulus if rng.randrange(2) else (v - s) % modulus)
    return map_of(shape, outputs)


def _reverse(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    shape = some_shape(rng, most, rng.randint(1, 3))
    outputs: list[Term] = []
    for v, n in zip(indices(shape), shape, strict=True):
        x = n - 1 - v
        c = rng.choice(_NICE)
        outputs += [[x], [x // c, x % c], [v // c, c - 1 - v % c], [v]][rng.randrange(4)]
    return map_of(shape, outputs)


def _skew(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """(i, i + j), (i, (a*i + j) % n), and both axes skewed."""
    shape = some_shape(rng, most, 2)
    (i, j), (m, n) = indices(shape), shape
    a = rng.randint(1, 5)
    forms: list[list[Term]] = [
        [i, i + j], [i + j, j], [i, (i + j) % n], [i, (a * i + j) % n], [(i + a * j) % m, j], [i, (j - a * i) % n],
        [(i + j) % m, (i + a * j) % n], [i, j + 2 * i], [i - j + n - 1, j], [(i + j) % m, j], [i + j, i - j + n - 1],
        [i, (i // 2 + j) % n],
    ]  # fmt: skip
    return map_of(shape, rng.choice(forms))


def _multiply(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """(a*i + b) % n, mostly with a prime to n; also of digits and fused axes."""
    form = rng.randrange(3)
    if form < 2:
        n = _upto(rng, most)
        a = _unit(rng, n) if rng.randrange(4) else rng.randrange(1, 20)
        b = rng.randrange(n) if rng.randrange(2) else 0
        (i,) = indices((n,))
        x = (a * i + b) % n
        c = rng.choice(_NICE)
        return map_of((n,), [x] if form == 0 else [x // c, x % c])
    shape = some_shape(rng, most, 2)
    (i, j), n = indices(shape), prod(shape)
    return map_of(shape, [(_unit(rng, n) * (i * shape[1] + j)) % n])


def _xor(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Swizzles: one axis xored with another, or with some of its digits."""
    shape = _powers(rng, most, 2) if rng.randrange(3) else some_shape(rng, most, 2)
    (i, j), n = indices(shape), shape[1]
    c = rng.choice((2, 4, 8))
    b = rng.choice((2, 4, 8, 16))
    forms: list[list[Term]] = [
        [i, j ^ i], [i, j ^ (i % n)], [i, j ^ (i % c)], [i, ((j // c) ^ (i % b)) * c + j % c], [i ^ j, j],
        [i, j ^ (i // c % b)], [i, j ^ 5], [i ^ (j // c), j], [i, (j % c) ^ (i % c), j // c], [i ^ j],
    ]  # fmt: skip
    return map_of(shape, rng.choice(forms))


def _bits(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Linear maps over the bits of one or two axes: permutations of bits, shifted copies, random xors."""
    shape = _powers(rng, most, rng.randint(1, 2))
    variables = indices(shape)
    widths = [n.bit_length() - 1 for n in shape]
    bits = [(v >> k) & 1 for v, w in zip(variables, widths, strict=True) for k in range(w)]
    form = rng.randrange(3)
    if form == 0 or len(bits) > 10:
        v, w = variables[0], max(widths[0], 1)
        s, mask = rng.randint(1, w), (1 << w) - 1
        steps: list[Term] = [v ^ (v >> s), v ^ ((v << s) & mask), v ^ (v >> s) ^ ((v & 1) << (w - 1))]
        return map_of(shape, [rng.choice(steps), *variables[1:]])
    rng.shuffle(bits)
    if form == 2:
        for _ in range(rng.randint(0, 2 * len(bits))):
            a, b = rng.randrange(len(bits)), rng.randrange(len(bits))
            bits[a] = bits[a] ^ bits[b] if a != b or rng.randrange(8) == 0 else bits[a]
    cut = rng.randint(0, len(bits))
    outputs: list[Term] = []
    for run in (bits[:cut], bits[cut:]):
        total = t.index_const(0)
        for k, bit in enumerate(run):
            total = total + bit * (1 << k)
        outputs.append(total)
    return map_of(shape, outputs)


def _gray(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    n = _upto(rng, most)
    if rng.randrange(2):
        n = 1 << (n.bit_length() - 1)
    if rng.randrange(3) == 0:
        shape = (n, max(1, _upto(rng, most // n)))
        i, j = indices(shape)
        return map_of(shape, [i ^ (i >> 1), j ^ (j // 2)])
    (i,) = indices((n,))
    x = rng.choice([i ^ (i // 2), i ^ (i >> 1), (i // 2) ^ i, i ^ (i >> 2)])
    c = rng.choice(_NICE)
    return map_of((n,), [x] if rng.randrange(2) else [x // c, x % c])


def _crt(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Residues modulo numbers that are mostly prime to each other, of a box that they mostly tell apart."""
    moduli = [rng.randint(2, 17) for _ in range(rng.randint(2, 3))]
    while prod(moduli) > max(most, 6) and len(moduli) > 2:
        moduli.pop()
    whole = moduli[0]
    for m in moduli[1:]:
        whole = whole * m // gcd(whole, m)
    n = min(most, max(1, whole + rng.choice((0, 0, 0, -1, 1, -2))))
    (i,) = indices((n,))
    x = i if rng.randrange(2) else i * _unit(rng, whole) + rng.randrange(5)
    return map_of((n,), [x % m for m in moduli])


def _constant(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Axes of extent one, constant outputs, repeated outputs, outputs of nothing at all."""
    shape = list(some_shape(rng, most, rng.randint(1, 2)))
    shape[rng.randrange(len(shape)) :] = [1] * rng.randint(0, 2) + shape[:1]
    while prod(shape) > most:
        shape[shape.index(max(shape))] = 1
    outputs = [*indices(shape), t.index_const(rng.randrange(4))]
    rng.shuffle(outputs)
    if rng.randrange(4) == 0:
        outputs.pop()
    if outputs and rng.randrange(4) == 0:
        outputs.append(rng.choice(outputs))
    return map_of(shape, outputs or [t.index_const(0)])


def _stride(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Strides of both signs, gaps, and sums of strided axes that may overlap."""
    shape = some_shape(rng, most, rng.randint(1, 2))
    variables = indices(shape)
    if len(shape) == 1 or rng.randrange(2):
        outputs: list[Term] = []
        for v, n in zip(variables, shape, strict=True):
            s = rng.randint(1, 4)
            outputs.append(rng.choice([v * s, v * s + rng.randrange(5), (n - 1 - v) * s, n - 1 - v]))
        return map_of(shape, outputs)
    (i, j), (m, n) = variables, shape
    s = max(1, n + rng.choice((-2, -1, 0, 0, 1)))
    return map_of(shape, [rng.choice([i * s + j, (m - 1 - i) * s + j, i * s + (n - 1 - j), 2 * i + 3 * j])])


def _swizzle(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Rotations inside of blocks by an amount that depends on the block: nested // and %."""
    c, b = rng.choice((2, 4, 8, 6)), rng.choice((2, 4, 8, 5))
    if rng.randrange(2):
        n = _upto(rng, most)
        if rng.randrange(2):
            n = max(1, n // (c * b)) * c * b
        (i,) = indices((min(n, most),))
        forms = [
            i // c * c + (i + i // c) % c,
            (i // c % b) * c + (i + i // (c * b)) % c + i // (c * b) * (c * b),
            i // c * c + (i % c + i // c % b) % c,
            i // (c * b) * (c * b) + (i // c + i % c) % b * c + i % c,
            i // c * c + (i % c ^ (i // c % c)) % c,
        ]
        return map_of((min(n, most),), [rng.choice(forms)])
    shape = some_shape(rng, most, 2)
    i, j = indices(shape)
    two: list[list[Term]] = [
        [i, (j // c + i) % (-(-shape[1] // c)), j % c], [i, j // c * c + (j % c + i) % c],
        [i // c, j, (i % c + j) % c], [(i % c + j) % c + i // c * c, j],
    ]  # fmt: skip
    return map_of(shape, rng.choice(two))


def _where(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Pieces: rolls, swapped halves, interleaving, a reversed part."""
    n = _upto(rng, most)
    (i,) = indices((n,))
    k, c = rng.randrange(n + 1), rng.choice(_NICE)
    forms = [
        t.where(i < k, i + n - k, i - k),
        t.where(i < k, k - 1 - i, i),
        t.where(t.compare("eq", i % 2, 0), i // 2, (n + 1) // 2 + i // 2),
        t.where(i < n // 2, 2 * i, 2 * (i - n // 2) + 1),
        t.where(k <= i, n - 1 - (i - k), i),
        t.where(i < k, i, i + 3),
        t.where(i // c % 2 < 1, i, i // c * c + (c - 1 - i % c)),
        t.where(i < k, i, k),
    ]
    if rng.randrange(2):
        return map_of((n,), [rng.choice(forms)])
    shape = (n, max(1, _upto(rng, max(1, most // n))))
    i, j = indices(shape)
    m = shape[1]
    serpent = t.where(t.compare("eq", i % 2, 0), j, m - 1 - j)
    two: list[list[Term]] = [
        [i, serpent], [i * m + serpent], [t.where(i < k, i, i - k), t.where(i < k, j, j + m)],
        [t.where(j < m // 2, i, n - 1 - i), j],
    ]  # fmt: skip
    return map_of(shape, rng.choice(two))


def _minmax(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Clamps, folds and pairs of a clamp and its rest."""
    shape = some_shape(rng, most, 2)
    (i, j), m = indices(shape), shape[0]
    k = rng.randrange(m + 1)
    low, high = t.binary("min", i, j), t.binary("max", i, j)
    forms: list[list[Term]] = [
        [t.binary("min", i, k), t.binary("max", i - k, 0), j], [low, high], [low + high, j],
        [t.binary("min", i, m - 1), j], [t.binary("max", i, k), j], [low, i - low, j - low], [high - low, low, j],
        [t.binary("min", i, t.index_const(k)) + t.binary("max", i, k), j], [t.binary("max", i - j, 0), j],
    ]  # fmt: skip
    return map_of(shape, rng.choice(forms))


def _abs(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    n = _upto(rng, most)
    (i,) = indices((n,))
    k = rng.choice((rng.randrange(n + 1), 0, n // 2, n))
    side = t.where(i < k, t.index_const(1), t.index_const(0))
    forms: list[list[Term]] = [
        [t.absolute(i - k)], [t.absolute(i - k), side], [t.absolute(2 * i - 2 * k + 1)], [t.absolute(i - n)],
        [t.absolute(i - k), i], [t.absolute(i - k) * 2 + side],
    ]  # fmt: skip
    return map_of((n,), rng.choice(forms))


def _table(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Literal tables: permutations, tables with repetitions, and tables of a digit."""
    n = _upto(rng, min(most, 1 << 14))
    values = list(range(n))
    kind = rng.randrange(4)
    if kind == 0:
        values = [rng.randrange(n) for _ in range(n)]
    elif kind > 1:
        rng.shuffle(values)
    (i,) = indices((n,))
    form = rng.randrange(3)
    if form == 0:
        return map_of((n,), [table_load(np.array(values), i)])
    c = rng.choice(_NICE)
    if form == 1:
        return map_of((n,), [i // c, table_load(np.array(rng.sample(range(c), c)), i % c)])
    shape = (n, max(1, _upto(rng, max(1, most // n))))
    i, j = indices(shape)
    return map_of(shape, [table_load(np.array(values), i), j])


def _shift(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Splits and merges written with shifts and masks, and with truncating division."""
    shape = some_shape(rng, most, 2)
    (i, j), n = indices(shape), shape[1]
    s = rng.randint(1, 4)
    w = max(0, (n - 1).bit_length())
    forms: list[list[Term]] = [
        [i >> s, i & ((1 << s) - 1), j], [(i << w) | j], [(i << w) + j], [t.binary("truncdiv", i, s), j,
        t.binary("truncmod", i, s)], [(j & 1) | (i << 1), j >> 1], [i, (j << 1) & ((2 << w) - 1)],
    ]  # fmt: skip
    return map_of(shape, rng.choice(forms))


def _power(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Products of indices: cubes modulo a number, triangular numbers, squares."""
    n = _upto(rng, min(most, 4096))
    (i,) = indices((n,))
    forms = [(i * i * i) % n, i * (i + 1) // 2, i * i, (i * i + i) // 2 % n, i * (n - 1 - i), (i * i) % n]
    if rng.randrange(2) or n > 512:
        return map_of((n,), [rng.choice(forms) if n <= 512 else forms[0]])
    shape = (n, max(1, _upto(rng, max(1, min(n, most // n)))))
    i, j = indices(shape)
    return map_of(shape, [i, (j * (2 * i + 1)) % (1 << max(1, (shape[1] - 1).bit_length()))])


def _copy(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Outputs that say the same twice: redundant digits and sums."""
    shape = some_shape(rng, most, rng.randint(1, 2))
    variables = indices(shape)
    i, n = variables[0], shape[0]
    c = rng.choice(_NICE)
    extra = rng.choice([i, i % c, i // c, n - 1 - i, (i + 1) % n, sum(variables[1:], i)])
    return map_of(shape, [*variables, extra])


def _lossy(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Maps that mostly forget something."""
    shape = some_shape(rng, most, 2)
    (i, j), (m, n) = indices(shape), shape
    c = rng.choice(_NICE)
    forms: list[list[Term]] = [
        [i % c, j], [i // c, j], [i & 6, j], [i + j], [i // c, i % (c + 1), j], [i // c, j // c, i % c],
        [i * n // 2 + j], [i], [(i + j) % m, (i - j) % n], [i * n + j // 2], [i // c, (i + 1) % c, j],
    ]  # fmt: skip
    return map_of(shape, rng.choice(forms))


FAMILIES: dict[str, Family] = {
    "permute": _permute, "split": _split, "merge": _merge, "digits": _digits, "reblock": _reblock, "offset": _offset,
    "rotate": _rotate, "reverse": _reverse, "skew": _skew, "multiply": _multiply, "xor": _xor, "bits": _bits,
    "gray": _gray, "crt": _crt, "constant": _constant, "stride": _stride, "swizzle": _swizzle, "where": _where,
    "minmax": _minmax, "abs": _abs, "table": _table, "shift": _shift, "power": _power, "copy": _copy, "lossy": _lossy,
}  # fmt: skip

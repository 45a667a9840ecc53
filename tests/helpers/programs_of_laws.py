"""Small programs in which the laws of tensors act, at least one for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from swizzles import gathered

import eqsat as eq
from eqsat.ir.terms import term as t


def corpus() -> Iterator[eq.Tensor]:
    """Small programs, at least one for each law but `inverse-pair`, for which there is `swapped_twice`."""
    x = eq.input("x", (1, 32, 8, 8), "float32")
    yield x.permute_dims((0, 2, 3, 1)).relu().permute_dims((0, 3, 1, 2))
    yield x.pad(((0, 0), (0, 4), (0, 0), (0, 0))).relu().crop((0, 0, 0, 0), (1, 32, 8, 8))
    yield x.pad(((0, 0), (0, 4), (0, 0), (0, 0))).relu().pad(((0, 0), (0, 4), (0, 0), (0, 0)))
    yield x.crop((0, 0, 0, 0), (1, 16, 8, 8)).relu().pad(((0, 0), (0, 16), (0, 0), (0, 0)))
    yield x.flip((1,)).abs().flip((1,))
    yield x.roll(3, 1).sigmoid().roll(-3, 1)
    parts = [p.relu() for p in eq.split(x, 2, axis=1)]
    yield eq.concat(parts, axis=1).crop((0, 16, 0, 0), (1, 16, 8, 8)).exp()
    yield eq.concat([p.exp() for p in eq.split(x.relu(), 2, axis=1)], axis=1)
    yield eq.concat(eq.split(x.relu(), 2, axis=1), axis=1)
    y = eq.input("y", (1, 32, 8, 8), "float32")
    yield x.flip((1,)) + y.flip((1,))
    yield x.pad(((0, 0), (0, 4), (0, 0), (0, 0))).exp().crop((0, 0, 0, 0), (1, 32, 8, 8)) + y
    yield (x.pad(((0, 0), (0, 4), (0, 0), (0, 0))) + eq.input("z", (1, 36, 8, 8), "float32")).crop(
        (0, 0, 0, 0), (1, 32, 8, 8)
    )
    wide = [v.pad(((0, 0), (0, 4), (0, 0), (0, 0))) for v in (x, x.relu())]
    yield eq.opaque("pair", wide, outputs=[((1, 36, 8, 8), "float32")])[0]
    yield eq.concat([x.exp(), y], axis=1).crop((0, 32, 0, 0), (1, 32, 8, 8))
    rows = eq.input("rows", (16, 8), "float32")
    kept = eq.compute((16, 8), lambda i, j: eq.where(i < 5, rows[i, j], 0.0))
    yield kept + kept.crop((0, 0), (5, 8)).pad(((0, 11), (0, 0)))
    weights = eq.constant(np.arange(16, dtype="float32").reshape(2, 8))
    yield eq.matmul(eq.input("two", (16, 2), "float32"), weights).crop((0, 4), (16, 4))
    yield eq.matmul(eq.input("two", (16, 2), "float32"), weights).roll(3, 1)
    yield rows.pad(((0, 4), (0, 0))).max(1)
    yield x.roll(3, 1).softmax(3).roll(-3, 1)
    yield x.flip((1,)).max((1,))
    yield x.pad(((0, 0), (0, 4), (0, 0), (0, 0))).sum((1,))


def swapped_twice() -> eq.Tensor:
    """Two columns of rows of unknown length exchanged, and exchanged again: no digits, no table, no shorter formula."""
    n, m = t.sym("N", 1), t.sym("M", 8)

    def swapped(x: eq.Tensor) -> eq.Tensor:
        return gathered(x, lambda i, j: (i, t.where(t.compare("eq", j, 0), 5, t.where(t.compare("eq", j, 5), 0, j))))

    return swapped(swapped(eq.input("x", (8 * n, m), "float32")).relu())

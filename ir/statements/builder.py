"""Writing functions in Python: blocks are `with`, accesses are subscripts.

>>> import eqsat as eq
>>> n = eq.symbol("N")
>>> f = eq.primfunc("row_sums")
>>> x, y = f.param("x", (n, 14), "float32"), f.param("y", (n,), "float32")
>>> with f.loop("i", n) as i:
...     y[i] = 0
...     with f.loop("k", 14, reduce=True) as k:
...         y[i] = y[i] + x[i, k]
>>> print(f.build())
func row_sums(x: float32[N, 14], y: float32[N])
  symbol N
  for i in N:
    y[i] = float32(0.0)
    reduce for k in 14:
      y[i] = y[i] + x[i, k]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.given import text, told, truth, whole
from eqsat.ir.keywords import keyword_methods, keywords
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.layouts.buffer_index import as_ramp
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, LoopKind, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF, new_hole
from eqsat.ir.terms.shape import as_shape
from eqsat.ir.terms.term import Term, TermLike

Part = Stmt | Callable[[Stmt], Stmt]
"""A statement of a block, or what takes the rest of the block as its body."""


class Cells:
    """A buffer of a function that is being built: `x[i, j]` is a load, `x[i, j] = value` adds a store.

    A slice in the last index is a vector: `x[4*i : 4*i + 4]`. A value may be a number, or eq.UNDEF, which frees the
    cell. What is no vector is stored in each lane of one, as in numpy.
    """

    def __init__(self, builder: Builder, decl: BufferDecl) -> None:
        self.builder = builder
        self.decl = decl

    @property
    def name(self) -> str:
        """The name of the buffer."""
        return self.decl.name

    def _index(self, index: Any) -> tuple[Term, ...]:
        items: list[Any] = list(cast("Sequence[Any]", index)) if isinstance(index, tuple) else [index]
        return tuple(_vector(self.name, i) if isinstance(i, slice) else as_ramp(t.as_index(i)) for i in items)

    def __getitem__(self, index: Any) -> Term:
        at = self._index(index)
        lanes = max((i.lanes for i in at), default=1) * self.decl.lanes
        return t.make("load", at, self.name, self.decl.scalar, lanes)

    def __setitem__(self, index: Any, value: Any) -> None:
        at = self._index(index)
        if value is UNDEF:
            lanes = self.decl.lanes
            value = new_hole(self.decl.scalar, [*at, *([t.ramp(0, 1, lanes)] if lanes > 1 else [])])
        made = t.as_term(value, self.decl.scalar)
        lanes = max((i.lanes for i in at), default=1) * self.decl.lanes
        self.builder.add(Store(self.name, at, t.broadcast(made, lanes) if made.lanes == 1 else made))


def _vector(name: str, index: Any) -> Term:
    """The ramp of a slice of known length."""
    start = t.as_index(0 if index.start is None else index.start)
    step = t.as_index(1 if index.step is None else index.step)
    stride = t.int_value(step)
    length = None if index.stop is None or not stride else t.int_value(t.as_index(index.stop) - start)
    if length is None or stride is None or stride < 1 or length < 1:
        raise ShapeError(f"{name}[{index.start}:{index.stop}:{index.step}]", "its length is not a number of lanes")
    return as_ramp(t.ramp(start, stride, -(-length // stride)))


@keyword_methods
class Builder:
    """A function that is being written; made by `eq.primfunc(name)`, finished by `build()`."""

    def __init__(self, name: str, note: str = "") -> None:
        self.name = name
        self.note = note
        self._decls: dict[str, BufferDecl] = {}
        self._blocks: list[list[Part]] = [[]]

    def param(self, name: str, shape: Any, dtype: str, **layout: Any) -> Cells:
        """A parameter; `layout` is what a BufferDecl takes besides: strides, elem_offset, axis_separators."""
        return self._declared(BufferDecl(name, as_shape(shape), dtype, **layout))

    def param_of(self, buffer: Buffer) -> Cells:
        """A parameter that lies as an eq.Buffer does, its transforms and padding with it."""
        if not isinstance(buffer, Buffer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(f"param_of in {self.name}", f"{told(buffer)} is no eq.Buffer")
        return self._declared(BufferDecl.from_buffer(buffer))

    def _declared(self, decl: BufferDecl) -> Cells:
        if decl.name in self._decls:
            raise ShapeError(f"parameter {decl.name} of {self.name}", "is declared already")
        self._decls[decl.name] = decl
        return Cells(self, decl)

    def alloc(self, name: str, shape: Any, dtype: str, **layout: Any) -> Cells:
        """A local buffer that lives to the end of the block."""
        decl = BufferDecl(name, as_shape(shape), dtype, **layout)
        self._blocks[-1].append(lambda body: Alloc(decl, body))
        return Cells(self, decl)

    def alias(self, name: str, of: Cells, shape: Any, dtype: str, offset: int = 0, **layout: Any) -> Cells:
        """Another shape or type of a buffer's memory, from element `offset` on, to the end of the block."""
        decl = BufferDecl(name, as_shape(shape), dtype, **layout)
        if not isinstance(of, Cells):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(f"alias {decl} in {self.name}", f"{told(of)} is no buffer of it", "what param returned")
        start = whole(offset, f"alias {decl} in {self.name}", "offset")
        self._blocks[-1].append(lambda body: Alias(decl, of.name, body, start))
        return Cells(self, decl)

    def add(self, stmt: Stmt) -> None:
        """Any statement."""
        if not isinstance(stmt, Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(f"add in {self.name}", f"{told(stmt)} is no statement")
        self._blocks[-1].append(stmt)

    def assume(self, condition: Any) -> None:
        """A promise that the condition holds here."""
        self.add(Assume(t.as_bool(condition)))

    @contextmanager
    def loop(
        self, name: str, extent: TermLike, kind: LoopKind = "serial", *, reduce: bool = False
    ) -> Generator[Term, None, None]:
        """A loop over an axis of this name."""
        axis, marked = t.var(name, extent), truth(reduce, f"reduce={reduce!r} of loop {name}")
        with self._block() as parts:
            yield axis
        self.add(For(axis, _folded(parts), kind, marked))

    @contextmanager
    def when(self, condition: Any) -> Generator[None, None, None]:
        """Statements that run where the condition holds."""
        with self._block() as parts:
            yield
        self.add(If(t.as_bool(condition), _folded(parts)))

    @contextmanager
    def otherwise(self) -> Generator[None, None, None]:
        """Statements that run where the condition of the `when` before does not hold."""
        before = self._blocks[-1][-1] if self._blocks[-1] else None
        if not isinstance(before, If) or before.orelse is not None:
            raise TypeMismatch(f"otherwise in {self.name}", "there is no `when` before it")
        with self._block() as parts:
            yield
        self._blocks[-1][-1] = If(before.condition, before.then, _folded(parts))

    @contextmanager
    def _block(self) -> Generator[list[Part], None, None]:
        parts: list[Part] = []
        self._blocks.append(parts)
        try:
            yield parts
        finally:
            self._blocks.pop()

    def build(self) -> PrimFunc:
        """The function; raises where it is not well formed, as PrimFunc does."""
        if len(self._blocks) > 1:
            raise TypeMismatch(f"build of {self.name}", "a block is open", "call it behind the `with` blocks")
        return PrimFunc(self.name, tuple(self._decls), dict(self._decls), _folded(self._blocks[0]), self.note)


def _folded(parts: Sequence[Part]) -> Stmt:
    """The statements of a block; what is declared in it holds the rest of it."""
    for place, part in enumerate(parts):
        if not isinstance(part, Stmt):
            before = [p for p in parts[:place] if isinstance(p, Stmt)]
            return seq([*before, part(_folded(parts[place + 1 :]))])
    return seq([p for p in parts if isinstance(p, Stmt)])


@keywords
def primfunc(name: str, note: str = "") -> Builder:
    """A function over buffers to be written statement by statement; see `eqsat.ir.statements.builder`.

    >>> f = primfunc("twice")
    >>> x = f.param("x", (4,), "int32")
    >>> with f.loop("i", 4) as i:
    ...     x[i] = x[i] + x[i]
    >>> f.build().params
    ('x',)
    """
    return Builder(text(name, "primfunc"), note)

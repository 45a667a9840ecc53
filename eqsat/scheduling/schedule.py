"""Schedules: a function, and the legal steps that rewrite it. The public face of this room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import listed, told
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.shown import card, folded
from eqsat.ir.statements.primfunc import PrimFunc, as_function
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import BufferDecl, For, Store, seq
from eqsat.ir.terms.term import Term, ax, load, var
from eqsat.passes.holes import numbered
from eqsat.scheduling import layout, nest
from eqsat.scheduling.arguments import checked
from eqsat.scheduling.loops import check_loops
from eqsat.scheduling.memory import declared
from eqsat.scheduling.primitives import PRIMITIVES, take
from eqsat.scheduling.trace import Step, Trace, at_sizes_of, sizes_of
from eqsat.scheduling.whole import WholeFunction


@keyword_methods
class Schedule(WholeFunction):
    """A function that is rewritten step by step. Each step is legal and keeps what the function does, or raises
    ScheduleError with a witness and changes nothing.

    >>> import eqsat as eq
    >>> f = eq.primfunc("twice")
    >>> x, y = f.param("x", (14,), "int32"), f.param("y", (14,), "int32")
    >>> with f.loop("i", 14) as i:
    ...     y[i] = x[i] + x[i]
    >>> s = eq.Schedule(f.build())
    >>> io, ii = s.split("i", [None, 4])
    >>> s.vectorize(ii)
    >>> print(s.func)
    func twice(x: int32[14], y: int32[14])
      for i_0 in 4:
        vectorized for i_1 in 4:
          if 4*i_0 + i_1 < 14:
            y[4*i_0 + i_1] = x[4*i_0 + i_1] + x[4*i_0 + i_1]
    >>> print(s.trace)
    i_0, i_1 = split(loop='i', factors=[None, 4])
    vectorize(loop='i_1')

    Loops are called by the name of their axis, blocks (the outermost statements) by the buffer that they write last;
    where several have one name they are `name@0`, `name@1`, ... in order. Local buffers that have one name get others:
    `t`, `t_1`, ... Memory of different parameters does not
    overlap. Serial loops fix the order of what they do; only float accumulations along loops marked `reduce` may run in
    another order, which the trace records.
    """

    def __init__(self, func: PrimFunc) -> None:
        self._original = as_function(func, "Schedule")
        self._first = with_own_names(self._original)
        self._done: list[tuple[Step, PrimFunc]] = []

    def _repr_html_(self) -> str:
        return card("", str(self.func), None, folded("steps", str(self.trace)))

    @property
    def original(self) -> PrimFunc:
        """The function before all steps."""
        return self._original

    @property
    def func(self) -> PrimFunc:
        """The function as it is now."""
        return self._done[-1][1] if self._done else self._first

    @property
    def trace(self) -> Trace:
        """The steps so far."""
        return Trace(tuple(step for step, _ in self._done))

    @property
    def loops(self) -> list[str]:
        """The names of the loops, in order."""
        return list(nest.loops(self.func))

    @property
    def blocks(self) -> list[str]:
        """The names of the blocks, in order."""
        return list(nest.blocks(self.func))

    @staticmethod
    def replay(func: PrimFunc, trace: Trace) -> Schedule:
        """The schedule of a function by the steps of a trace.

        >>> s = example()
        >>> _ = s.split("i", [None, 4])
        >>> Schedule.replay(example().func, s.trace).loops
        ['i_0', 'i_1']

        Raises ScheduleError where a step is not known, is illegal for this function, or makes other names.
        """
        result = Schedule(func)
        result.take(trace)
        return result

    def take(self, trace: Trace) -> None:
        """Take the steps of a trace, in order; where one is refused, those before it are taken. Sizes that are not this
        function's are those of it that have their names.

        >>> s, other = example(), example()
        >>> s.parallel("i")
        >>> other.take(s.trace)
        >>> len(other.trace)
        1

        Raises ScheduleError as `replay` does.
        """
        if not isinstance(trace, Trace):  # pyright: ignore[reportUnnecessaryIsInstance]
            problem = f"{told(trace)} is no trace"
            raise ScheduleError("replay", problem, "give the `trace` of a schedule, or Trace.from_json of its text")
        for step in trace.steps:
            if step.name not in PRIMITIVES:
                known = ", ".join(sorted(PRIMITIVES))
                raise ScheduleError(f"replay of {step.name}", "there is no such primitive", f"one of {known}")
            try:
                made = self._apply(step.name, **at_sizes_of(self.func, step.args, step.sizes))
            except TypeError as error:
                raise ScheduleError(f"replay of {step.name}", str(error)) from error
            if step.made and made != step.made:
                problem = f"it made {', '.join(made)}, in the trace {', '.join(step.made)}"
                raise ScheduleError(f"replay of {step.name}", problem, "replay on the function of the trace")

    def undo(self) -> None:
        """Take back the last step; ScheduleError where there is none.

        >>> s = example()
        >>> s.parallel("i")
        >>> s.undo()
        >>> len(s.trace)
        0
        """
        if not self._done:
            raise ScheduleError("undo", "no step was taken")
        self._done.pop()

    def _apply(self, name: str, /, **args: Any) -> tuple[str, ...]:
        given = checked(name, PRIMITIVES[name], args)
        change = take(name, self.func, given)
        sizes = sizes_of(self.func, given)
        step = Step(name, given, change.made, change.reordered, change.steps, sizes)
        self._done.append((step, with_own_names(numbered(self.func, change.func))))
        return change.made

    def check_loops(self) -> tuple[str, ...]:
        """Check the loops that are `parallel` or `vectorized`, which steps make only by proof; the names of those that
        whoever wrote them has to answer for: whether two iterations conflict depends on data, or could not be decided.
        ScheduleError, with the two iterations, where they do.

        >>> import eqsat as eq
        >>> text = "func f(k: int64[8], x: int8[8])\\n  parallel for i in 8:\\n    x[cast(k[i], 'index')] = int8(1)"
        >>> eq.Schedule(eq.PrimFunc.parse(text)).check_loops()
        ('i',)
        """
        return check_loops(self.func)

    # -- loops ---------------------------------------------------------------------------------------------------------

    def split(self, loop: str, factors: Sequence[int | None], names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Split a loop; see `eqsat.scheduling.loops.split`. Returns the names of the new loops, outer ones first.

        >>> example().split("i", [None, 4], ["io", "ii"])
        ('io', 'ii')
        """
        return self._apply("split", loop=loop, factors=factors, names=names)

    def fuse(self, outer: str, inner: str, name: str | None = None) -> str:
        """Fuse two loops, one directly inside of the other; returns the name of the new one.

        >>> s = example()
        >>> s.fuse(*s.split("i", [2, None]))
        'i_0_i_1'
        """
        return self._apply("fuse", outer=outer, inner=inner, name=name)[0]

    def rename_loop(self, loop: str, name: str) -> str:
        """Give a loop a name that nothing else has; returns it.

        >>> example().rename_loop("i", "k")
        'k'
        """
        return self._apply("rename_loop", loop=loop, name=name)[0]

    def reorder(self, *loops: str) -> None:
        """Reorder the loops of a nest, outer ones first; refused where two accesses would change places.

        >>> s = example()
        >>> io, ii = s.split("i", [2, None])
        >>> s.reorder(ii, io)
        >>> s.loops
        ['i_1', 'i_0']
        """
        self._apply("reorder", loops=loops)

    def fission(self, loop: str, at: int) -> tuple[str, ...]:
        """Cut a loop over a sequence of statements in two, before part number `at`; returns the names of both.

        >>> s = example(stores=2)
        >>> s.fission("i", 1)
        ('i', 'i_1')
        """
        return self._apply("fission", loop=loop, at=at)

    def unroll(self, loop: str) -> None:
        """Mark a loop to be unrolled.

        >>> s = example()
        >>> s.unroll("i")
        """
        self._apply("unroll", loop=loop)

    def vectorize(self, loop: str) -> None:
        """Run a loop in vectors; refused where two of its iterations touch one cell and one of them writes.

        >>> s = example()
        >>> s.vectorize("i")
        """
        self._apply("vectorize", loop=loop)

    def parallel(self, loop: str) -> None:
        """Run a loop in threads; refused where two of its iterations touch one cell and one of them writes.

        >>> s = example()
        >>> s.parallel("i")
        """
        self._apply("parallel", loop=loop)

    def transform_block_layout(self, block: str, index_map: Any, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Replace the loops of a block by those of an index map's outputs; see `transform_block_layout`.

        >>> example().transform_block_layout("y", "i -> i//7, i%7", ["a", "b"])
        ('a', 'b')
        """
        what = f"transform_block_layout of {block}"
        m = nest.index_map_in(what, index_map, nest.block_depth(self.func, block, what), self.func.symbols)
        return self._apply("transform_block_layout", block=block, index_map=m, names=names)

    def transform_loops(
        self, loops: Sequence[str], index_map: Any, names: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Replace loops of one nest by those of an index map's outputs, guarded where the map adds iterations.

        >>> s = example()
        >>> s.transform_loops(["i"], "i -> (i+3)//4, (i+3)%4", ["a", "b"])
        ('a', 'b')
        >>> s.func.body.body.body.condition
        4*a + b < 17 and 3 <= 4*a + b
        """
        given = listed(loops, f"transform_loops with loops={loops!r}", f"loops=[{loops!r}]", ScheduleError)
        m = nest.index_map_in(
            f"transform_loops of {', '.join(map(str, given))}", index_map, len(given), self.func.symbols
        )
        return self._apply("transform_loops", loops=given, index_map=m, names=names)

    def reorder_by_buffer(self, buffer: str, block: str | None = None) -> tuple[str, ...]:
        """Let the loops of a block (or of every block that touches the buffer) follow the order of a buffer's cells.

        >>> s = example()
        >>> _ = s.transform_layout("y", "i -> i//4, i%4", interface="free", rewrite_loops=False)
        >>> s.reorder_by_buffer("y")
        ('i_0', 'i_1')
        """
        return self._apply("reorder_by_buffer", buffer=buffer, block=block)

    # -- buffers -------------------------------------------------------------------------------------------------------

    def buffer(self, name: str) -> Buffer:
        """A parameter or local buffer as an eq.Buffer: its shape, padding and layouts; pad values may load it.

        >>> example().buffer("y").shape
        (14,)
        """
        return declared(self.func, name, f"buffer {name}").decl.as_buffer()

    def transform_layout(
        self,
        buffer: str,
        index_map: Any,
        pad_value: Any = None,
        *,
        interface: layout.Interface = "fixed",
        style: layout.Style = "after",
        rewrite_loops: bool = True,
    ) -> tuple[str, ...]:
        """Put a buffer in the physical layout of an index map; returns the loops that write it now.

        pad_value: what padding holds. None: it must not be accessed; a number; eq.UNDEF; or a function of the physical
        indices, which may load the buffer by its own (logical) index, as `s.buffer("B")[...]`; or such a function as
        text over i0, i1, ...: "B[(4*i0 + i1) % 14]".
        interface: "fixed" refuses parameters, "free" changes the signature. style: padding is written "after" each
        stage that writes the buffer, by a "select" in its stores, or (eq.UNDEF) computed like the rest, "elementwise".
        rewrite_loops: whether loops that write the buffer follow its new cells where that is legal.

        >>> s = example()
        >>> s.transform_layout("y", "i -> i//4, i%4", pad_value=0, interface="free")
        ('i_0', 'i_1')
        """
        what = f"transform_layout of {buffer}"
        decl = declared(self.func, buffer, what).decl
        m = nest.index_map_in(what, index_map, len(decl.shape), self.func.symbols)
        if isinstance(pad_value, str):
            places = {f"i{n}": ax(n, 0) for n in range(len(m.outputs))}
            pad_value = self._term(pad_value, places)
        pad = layout.resolved_pad(decl, m, pad_value, what)
        more = {
            "interface": None if interface == "fixed" else interface,
            "style": None if style == "after" else style,
            "rewrite_loops": None if rewrite_loops is True else rewrite_loops,
        }
        return self._apply("transform_layout", buffer=buffer, index_map=m, pad_value=pad, **more)

    def set_axis_separators(
        self, buffer: str, axis_separators: Sequence[int], *, interface: layout.Interface = "fixed"
    ) -> None:
        """Give a buffer several physical axes: the positions of the first axis of each further one.

        A call takes the array of a parameter as it is declared, or that of its physical axes: the same memory.

        >>> s = example()
        >>> _ = s.transform_layout("y", "i -> i//4, i%4", interface="free")
        >>> s.set_axis_separators("y", [1], interface="free")
        >>> s.buffer("y").flat_shape
        (4, 4)
        """
        own = None if interface == "fixed" else interface
        self._apply("set_axis_separators", buffer=buffer, axis_separators=axis_separators, interface=own)

    def cache_read(self, buffer: str, name: str | None = None) -> str:
        """Copy a buffer before it is first read, and read the copy; returns the name of the copy.

        >>> example().cache_read("x")
        'x_cache'
        """
        return self._apply("cache_read", buffer=buffer, name=name)[0]

    def cache_write(self, buffer: str, name: str | None = None) -> str:
        """Write to a local buffer, and copy it after the last write; returns its name.

        >>> s = example()
        >>> s.transform_layout(s.cache_write("y"), "i -> i//4, i%4", 0)
        ('i_0', 'i_1')
        """
        return self._apply("cache_write", buffer=buffer, name=name)[0]

    def assume(self, condition: Term | str, block: str | None = None) -> None:
        """Assume a condition at the start, or before a block; a promise of the caller, which the trace keeps.

        As text it speaks of loops by their names, which stand for all of their iterations; where loops over different
        extents are called `i`, `i_0` is the first of them, `i_1` the next, and `i` is an error.

        >>> from eqsat.ir.terms.term import const, load
        >>> s = example()
        >>> s.assume(const(0, "int32") <= load("x", [3], "int32"))
        """
        self._apply("assume", condition=self._condition(condition), block=block)


def example(stores: int = 1) -> Schedule:
    """A schedule for examples: `y[i] = x[i]` over 14 elements, once or more.

    >>> print(example().func)
    func example(x: int32[14], y: int32[14])
      for i in 14:
        y[i] = x[i]
    """
    i = var("i", 14)
    decls = {name: BufferDecl(name, (14,), "int32") for name in ("x", "y")}
    body = seq([Store("y", (i,), load("x", [i], "int32"))] * stores)
    return Schedule(PrimFunc("example", ("x", "y"), decls, For(i, body)))

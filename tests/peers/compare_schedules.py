"""The same schedules by eqsat and by Apache TVM: who takes a step, and whether what is left computes the same.

    python tests/peers/compare_schedules.py [--functions N] [--seed N] [--reasons]

Functions and steps are random. A step that one side refuses is taken back on the other one, after what it made was run.
Exit code 1: a schedule of eqsat computes something else.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.statements.run import run_primfunc

KINDS = ("both", "eqsat alone", "TVM alone, right", "TVM alone, wrong", "both, TVM wrong", "neither")
MAPS = {
    1: ("i -> i//4, i%4", "i -> i%5", "i -> i//2, i%2", "i -> i + 2", "i -> 3*i", "i -> i//3"),
    2: ("i, j -> j, i", "i, j -> i//2, j, i%2", "i, j -> i + j", "i, j -> i, j//4, j%4", "i, j -> j"),
}


@dataclass(frozen=True)
class Stage:
    """A nest with one store: its loops, what each is to TVM, and the store in the syntax that both sides read."""

    loops: tuple[tuple[str, int, str], ...]
    store: str


@dataclass(frozen=True)
class Function:
    """A function of int32 buffers, as text for both sides. `local` buffers are no parameters."""

    shapes: dict[str, tuple[int, ...]]
    local: frozenset[str]
    stages: tuple[Stage, ...]

    def ours(self) -> eq.PrimFunc:
        buffers = {n: f"int32[{', '.join(map(str, s))}]" for n, s in self.shapes.items()}
        lines = [f"func f({', '.join(f'{n}: {b}' for n, b in buffers.items() if n not in self.local)})"]
        lines += [f"  alloc {n}: {buffers[n]}" for n in buffers if n in self.local]
        for stage in self.stages:
            for depth, (name, extent, _) in enumerate(stage.loops):
                lines.append(f"{'  ' * (depth + 1)}for {name} in {extent}:")
            lines.append(f"{'  ' * (len(stage.loops) + 1)}{stage.store}")
        return eq.PrimFunc.parse("\n".join(lines))

    def theirs(self) -> Any:
        """A TVM schedule of the function."""

        def at(name: str) -> str:
            return f"{self.shapes[name]}, 'int32'"

        parameters = ", ".join(f"{n}: T.Buffer({at(n)})" for n in self.shapes if n not in self.local)
        lines = ["@T.prim_func(s_tir=True)", f"def main({parameters}):", "    T.func_attr({'tirx.noalias': True})"]
        lines += [f"    {n} = T.sblock_alloc_buffer({at(n)})" for n in self.shapes if n in self.local]
        for number, stage in enumerate(self.stages):
            indent = "    "
            for name, extent, _ in stage.loops:
                lines.append(f"{indent}for {name} in range({extent}):")
                indent += "    "
            lines.append(f"{indent}with T.sblock('b{number}'):")
            indent += "    "
            lines += [f"{indent}v_{n} = T.axis.{kind}({extent}, {n})" for n, extent, kind in stage.loops]
            text = re.sub(rf"\b({'|'.join(n for n, _, _ in stage.loops)})\b", r"v_\1", stage.store)
            lines.append(indent + text.replace("int32(", "T.int32(").replace("maximum(", "T.max("))
        made = importlib.import_module("tvm.script").from_source("\n".join(lines))
        tvm = importlib.import_module("tvm")
        return importlib.import_module("tvm.s_tir").Schedule(tvm.IRModule({"main": made}), error_render_level="none")


class Functions:
    """Random functions: element-wise stages, transposes, windows, reductions, running sums, in a row."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = 0

    def function(self) -> Function:
        shapes = {"A": tuple(self.rng.choice((4, 6, 8, 12)) for _ in range(self.rng.randint(1, 2)))}
        stages: list[Stage] = []
        names = ["A"]
        for name in ("B", "C", "D")[: self.rng.randint(1, 3)]:
            source = self.rng.choice(names)
            kind = self.rng.choice([self.copy, self.copy, self.window, self.rows, self.running])
            shape, made = kind(name, source, shapes[source])
            shapes[name] = shape
            stages += made
            names.append(name)
        inner = [n for n in names[1:-1] if self.rng.random() < 0.7]
        return Function(shapes, frozenset(inner), tuple(stages))

    def axes(self, shape: Sequence[int], kinds: str = "s") -> tuple[tuple[str, int, str], ...]:
        words = {"s": "spatial", "r": "reduce", "o": "opaque"}
        found = [(f"i{self.loops + n}", extent, words[kinds[min(n, len(kinds) - 1)]]) for n, extent in enumerate(shape)]
        self.loops += len(found)
        return tuple(found)

    def copy(self, name: str, source: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[Stage]]:
        order = self.rng.sample(range(len(shape)), len(shape))
        axes = self.axes([shape[n] for n in order])
        reads = [""] * len(shape)
        for (axis, extent, _), n in zip(axes, order, strict=True):
            reads[n] = self.rng.choice([axis, axis, f"{extent - 1} - {axis}", f"({axis} + 1) % {extent}"])
        value = f"{source}[{', '.join(reads)}]"
        value = self.rng.choice([value, f"{value} + int32(3)", f"maximum({value}, int32(1))"])
        stage = Stage(axes, f"{name}[{', '.join(a for a, _, _ in axes)}] = {value}")
        return tuple(shape[n] for n in order), [stage]

    def window(self, name: str, source: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[Stage]]:
        out = (*shape[:-1], shape[-1] - 1)
        axes = self.axes(out)
        *outer, last = (a for a, _, _ in axes)
        here, there = (f"{source}[{', '.join([*outer, x])}]" for x in (last, f"{last} + 1"))
        return out, [Stage(axes, f"{name}[{', '.join([*outer, last])}] = {here} + {there}")]

    def rows(self, name: str, source: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[Stage]]:
        """The sums of rows; of a vector, of pairs."""
        if len(shape) == 1:
            first, axes = self.axes((shape[0] // 2,)), self.axes((shape[0] // 2, 2), "sr")
            read, out = f"{source}[2*{axes[0][0]} + {axes[1][0]}]", (shape[0] // 2,)
        else:
            first, axes, out = self.axes(shape[:1]), self.axes(shape, "sr"), shape[:1]
            read = f"{source}[{axes[0][0]}, {axes[1][0]}]"
        own = f"{name}[{axes[0][0]}]"
        return out, [Stage(first, f"{name}[{first[0][0]}] = int32(0)"), Stage(axes, f"{own} = {own} + {read}")]

    def running(self, name: str, source: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[Stage]]:
        """Sums of all elements up to one, along the last axis."""
        first, axes = self.axes(shape), self.axes((*shape[:-1], shape[-1] - 1), "s" * (len(shape) - 1) + "o")
        *outer, last = (a for a, _, _ in axes)
        here, there = (f"{name}[{', '.join([*outer, x])}]" for x in (last, f"{last} + 1"))
        copied = ", ".join(a for a, _, _ in first)
        return shape, [
            Stage(first, f"{name}[{copied}] = {source}[{copied}]"),
            Stage(axes, f"{there} = {there} + {here}"),
        ]


@dataclass
class Pair:
    """One function under both schedules, and what both did with each step."""

    function: Function
    random: random.Random
    counts: Counter[tuple[str, str]]
    problems: list[str]
    witnesses: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    """Why a step was not taken by both."""

    def __post_init__(self) -> None:
        self.mine = eq.Schedule(self.function.ours())
        self.other = self.function.theirs()
        self.steps: list[str] = []
        self.marked: set[str] = set()
        """Loops that are unrolled, parallel or vectors: TVM forgets that where it splits them, we refuse."""
        self.stage = {n: k for k, s in enumerate(self.function.stages) for n, _, _ in s.loops}
        self.loops: dict[str, Any] = {}
        for k, stage in enumerate(self.function.stages):
            found = self.other.get_loops(self.other.get_sblock(f"b{k}"))
            self.loops.update({n: loop for (n, _, _), loop in zip(stage.loops, found, strict=True)})
        generator = np.random.default_rng(self.random.randrange(1 << 30))
        shapes = {n: s for n, s in self.function.shapes.items() if n not in self.function.local}
        self.given = {n: generator.integers(-9, 9, s).astype(np.int32) for n, s in shapes.items()}
        self.expected = self.by_us(self.mine.original)

    def by_us(self, func: eq.PrimFunc) -> dict[str, NDArray]:
        arrays = {n: a.copy() for n, a in self.given.items()}
        run_primfunc(func, arrays)
        return arrays

    def by_tvm(self, schedule: Any) -> dict[str, NDArray]:
        tvm = importlib.import_module("tvm")
        tensors = {n: tvm.runtime.tensor(a.copy()) for n, a in self.given.items()}
        tvm.compile(schedule.mod, target="llvm")["main"](*tensors.values())
        return {n: x.numpy() for n, x in tensors.items()}

    def same(self, found: dict[str, NDArray]) -> bool:
        return all(np.array_equal(found[n], a) for n, a in self.expected.items())

    def step(self) -> None:
        """One random step, on both sides."""
        kinds = {
            "split": self._split, "fuse": self._fuse, "reorder": self._reorder, "unroll": self._unroll,
            "parallel": self._parallel, "vectorize": self._vectorize, "merge": self._merge,
            "transform_layout": self._transform_layout, "transform_block_layout": self._transform_block_layout,
        }  # fmt: skip
        kind = self.random.choice([*kinds, "split", "reorder", "transform_layout"])
        name, mine, other = kinds[kind]()
        if not name:
            return
        length, copied, loops = len(self.mine.trace), self.other.copy(), dict(self.loops)
        ours, theirs = attempt(mine), attempt(lambda: other(copied))
        if ours is None and not self.same(self.by_us(self.mine.func)):
            self.problems.append(f"{[*self.steps, name]}\n{self.mine.original}\n{self.mine.func}")
        wrong = self.wrong_with(copied) if theirs is None else ""
        right = theirs is None and not wrong
        if ours is None and theirs is None and right:
            self.counts[kind, "both"] += 1
            self.other = copied
            self.steps.append(name)
            return
        self.counts[kind, verdict(ours is None, theirs is None, right)] += 1
        self.refused.append(f"{name}: {verdict(ours is None, theirs is None, right)}: {ours or theirs}")
        if theirs is None and not right:
            self.witnesses.append(f"{[*self.steps, name]} {wrong}\n{self.mine.original}")
        self.loops = loops
        while len(self.mine.trace) > length:
            self.mine.undo()

    def wrong_with(self, schedule: Any) -> str:
        """What is wrong with a schedule of TVM; "" where nothing is."""
        try:
            found = self.by_tvm(schedule)
        except Exception as error:  # it made a function that it cannot compile
            return f"does not compile: {str(error).strip().splitlines()[-1][:160]}"
        return "" if self.same(found) else "computes something else"

    # -- steps: their text, what takes them here, and there ------------------------------------------------------------

    def _nest(self, least: int) -> list[str]:
        """The serial loops around one store, outermost first, as far as both sides know them."""
        k = self.random.randrange(len(self.function.stages))
        found = [n for n in self.mine.loops if self.stage.get(n) == k and n in self.loops and n not in self.marked]
        return found if len(found) >= least else []

    def _split(self) -> Any:
        loops = self._nest(1)
        if not loops:
            return "", None, None
        loop, factor = self.random.choice(loops), self.random.choice((2, 3, 4))
        names = [f"{loop}a", f"{loop}b"]
        self.stage.update(dict.fromkeys(names, self.stage[loop]))

        def theirs(schedule: Any) -> None:
            self.loops.update(zip(names, schedule.split(self.loops.pop(loop), [None, factor]), strict=True))

        return f"split {loop} by {factor}", lambda: self.mine.split(loop, [None, factor], names), theirs

    def _fuse(self) -> Any:
        loops = self._nest(2)
        if not loops:
            return "", None, None
        at = self.random.randrange(len(loops) - 1)
        outer, inner = loops[at : at + 2]
        self.stage[f"{outer}x"] = self.stage[outer]

        def theirs(schedule: Any) -> None:
            self.loops[f"{outer}x"] = schedule.fuse(self.loops.pop(outer), self.loops.pop(inner))

        return f"fuse {outer}, {inner}", lambda: self.mine.fuse(outer, inner, f"{outer}x"), theirs

    def _reorder(self) -> Any:
        loops = self._nest(2)
        if not loops:
            return "", None, None
        chosen = self.random.sample(loops, self.random.randint(2, len(loops)))

        def theirs(schedule: Any) -> None:
            schedule.reorder(*(self.loops[n] for n in chosen))

        return f"reorder {', '.join(chosen)}", lambda: self.mine.reorder(*chosen), theirs

    def _marked(self, kind: str, last: bool = False) -> Any:
        loops = self._nest(1)
        if not loops:
            return "", None, None
        loop = loops[-1] if last else self.random.choice(loops)

        def theirs(schedule: Any) -> None:
            getattr(schedule, kind)(self.loops[loop])
            self.marked.add(loop)

        return f"{kind} {loop}", lambda: getattr(self.mine, kind)(loop), theirs

    def _unroll(self) -> Any:
        return self._marked("unroll")

    def _parallel(self) -> Any:
        return self._marked("parallel")

    def _vectorize(self) -> Any:
        return self._marked("vectorize", last=True)

    def _merge(self) -> Any:
        """The outermost loops of two stages, one after the other."""
        if len(self.function.stages) < 2:
            return "", None, None
        k = self.random.randrange(len(self.function.stages) - 1)
        pair = [
            next((n for n in self.mine.loops if self.stage.get(n) == s and n in self.loops), "") for s in (k, k + 1)
        ]
        if "" in pair:
            return "", None, None
        first, second = pair

        def theirs(schedule: Any) -> None:
            schedule.merge(self.loops.pop(first), self.loops.pop(second))

        def ours() -> None:
            before = self.mine.func
            self.mine.merge_adjacent_loops(first)
            if self.mine.func == before:
                raise eq.ScheduleError("merge", "nothing was merged")

        return f"merge {first}, {second}", ours, theirs

    def _transform_layout(self) -> Any:
        if not self.function.local:
            return "", None, None
        buffer = self.random.choice(sorted(self.function.local))
        stage = next(k for k, s in enumerate(self.function.stages) if s.store.startswith(f"{buffer}["))
        text = self.random.choice(MAPS[len(self.function.shapes[buffer])])
        pad = self.random.choice((None, None, 0))

        def theirs(schedule: Any) -> None:
            block = schedule.get_sblock(f"b{stage}")
            schedule.transform_layout(block, ("write", 0), as_function(text), pad_value=pad)

        def ours() -> None:
            self.mine.transform_layout(buffer, text, pad, rewrite_loops=False)

        return f"transform_layout {buffer} by {text}, {pad}", ours, theirs

    def _transform_block_layout(self) -> Any:
        k = self.random.randrange(len(self.function.stages))
        loops = [n for n in self.mine.loops if self.stage.get(n) == k]
        if len(loops) != len(self.function.stages[k].loops) or loops != [
            n for n, _, _ in self.function.stages[k].loops
        ]:
            return "", None, None
        text = self.random.choice(MAPS[len(loops)])
        made = [f"{loops[0]}t{n}" for n in range(text.count(",", text.index("->")) + 1)]
        block = next((n for n in self.mine.blocks if self._stored(n) == k), "")
        if not block:
            return "", None, None

        def theirs(schedule: Any) -> None:
            schedule.transform_block_layout(schedule.get_sblock(f"b{k}"), as_function(text))
            for n in loops:
                self.loops.pop(n)
            found = schedule.get_loops(schedule.get_sblock(f"b{k}"))
            self.loops.update(zip(made, found, strict=True))

        self.stage.update(dict.fromkeys(made, k))
        name = f"transform_block_layout {block} by {text}"
        return name, lambda: self.mine.transform_block_layout(block, text, made), theirs

    def _stored(self, block: str) -> int:
        """The stage whose store a block of ours is: they stay in order."""
        return list(self.mine.blocks).index(block) if len(self.mine.blocks) == len(self.function.stages) else -1


def as_function(text: str) -> Callable[..., list[Any]]:
    """An index map as a Python function: TVM counts its parameters, and gives them indices of its own type."""
    inputs, outputs = text.split(" -> ")
    return eval(f"lambda {inputs}: [{outputs}]")


def attempt(take: Callable[[], Any]) -> str | None:
    """Why a step was refused."""
    try:
        take()
    except EqsatError as error:
        return str(error)
    except Exception as error:  # TVM raises many types
        return str(error).strip() or type(error).__name__
    return None


def verdict(ours: bool, theirs: bool, right: bool) -> str:
    if ours:
        return "both, TVM wrong" if theirs else "eqsat alone"
    return "neither" if not theirs else "TVM alone, right" if right else "TVM alone, wrong"


@dataclass(frozen=True)
class Compared:
    """How often which step was taken by whom; schedules of eqsat that compute something else, and of TVM; and why steps
    were refused."""

    counts: Counter[tuple[str, str]]
    problems: list[str]
    witnesses: list[str]
    refused: list[str]


def compared(functions: int, seed: int, steps: int = 8) -> Compared:
    """Random functions under random schedules, by both; each function is first run as it is."""
    counts, problems, witnesses, refused = Counter[tuple[str, str]](), list[str](), list[str](), list[str]()
    for n in range(functions):
        pair = Pair(Functions(seed + n).function(), random.Random(seed + n), counts, problems)
        wrong = pair.wrong_with(pair.other)
        if wrong:
            problems.append(f"before any step {wrong}\n{pair.mine.original}")
        for _ in range(steps):
            pair.step()
        witnesses += pair.witnesses
        refused += pair.refused
    return Compared(counts, problems, witnesses, refused)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reasons", action="store_true", help="print why steps were refused")
    options = parser.parse_args(arguments)
    found = compared(options.functions, options.seed)
    counts = found.counts
    print(f"{'':24}" + "".join(f"{kind:>18}" for kind in KINDS))
    for name in sorted({name for name, _ in counts}):
        print(f"{name:24}" + "".join(f"{counts[name, kind]:18}" for kind in KINDS))
    if options.reasons:
        print("\n" + "\n".join(sorted(found.refused)))
    for title, texts in (
        ("eqsat computes something else", found.problems),
        ("TVM does, or cannot compile what it took", found.witnesses),
    ):
        print(f"\n{title}: {len(texts)}")
        for text in texts:
            print(f"  {text}")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

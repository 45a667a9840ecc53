"""Programs with repeated blocks: searched with a few of them, and what is found is right for all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from program_checks import equal_arrays, interface, values
from seeds import some_of

from eqsat import engine
from eqsat.engine import Limits, optimize
from eqsat.graph.encode import Encoded, encode
from eqsat.graph.rebuild import on
from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.reductions import matmul
from eqsat.ir.tensors.tensor import Constant, Node, Program, Tensor, constant, input
from eqsat.repeats.fewer import Fewer, fewer_blocks, with_fewer_blocks
from eqsat.testing import arrays_for

ROWS, COLUMNS, BLOCKS = 6, 8, 36
LIMITS = Limits(seconds=60)

Step = Callable[["_Block", Tensor], Tensor]


class _Block:
    """One block while it is made: its own weights, what all blocks share, and what it has made."""

    def __init__(self, weights: np.random.Generator, shared: dict[str, Tensor], number: int) -> None:
        self.weights, self.shared, self.number = weights, shared, number
        self.made: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def own(self, *shape: int) -> Tensor:
        return constant((0.3 * self.weights.standard_normal(shape)).astype("float32"))


def _kept(rng: Random) -> Step:
    far = rng.randint(1, 3)
    return lambda block, x: x + block.made[max(0, len(block.made) - far)]


def _fed(block: _Block, x: Tensor) -> Tensor:
    given = input(f"past{block.number}.{len(block.inputs)}", (ROWS, COLUMNS), "float32")
    block.inputs.append(given)
    return x + given


def _told(block: _Block, x: Tensor) -> Tensor:
    block.outputs.append(x.T)
    return x


def _split(block: _Block, x: Tensor) -> Tensor:
    return x.reshape(ROWS, 2, COLUMNS // 2).transpose(1, 0, 2).relu().transpose(1, 0, 2).reshape(ROWS, COLUMNS)


STEPS: list[Callable[[Random], Step]] = [
    lambda rng: lambda block, x: matmul(x, block.own(COLUMNS, COLUMNS)).tanh(),
    lambda rng: lambda block, x: matmul(block.own(COLUMNS, COLUMNS), x.T).T.tanh(),
    lambda rng: lambda block, x: (x.T + block.own(COLUMNS, ROWS)).T,
    lambda rng: lambda block, x: x * block.own(ROWS, COLUMNS).T.relu().T,
    lambda rng: lambda block, x: x + constant(np.full((ROWS, COLUMNS), 0.5, "float32")),
    lambda rng: lambda block, x: x.T.relu().T,
    lambda rng: lambda block, x: (x.T * block.shared["mask"]).T,
    lambda rng: lambda block, x: x + block.shared["first"],
    lambda rng: _split,
    _kept,
    lambda rng: _fed,
    lambda rng: _told,
]


def _network(seed: int, count: int = BLOCKS, tap: int | None = None) -> Program:
    """So many blocks of the same steps with other weights, before and behind them something else; tap: a block of which
    something is read at the end."""
    rng, weights = Random(seed), np.random.default_rng(seed)
    chosen = [rng.choice(STEPS)(rng) for _ in range(rng.randint(3, 7))]
    steps = [STEPS[rng.randrange(4)](rng), *chosen]
    x = input("x", (ROWS, COLUMNS), "float32")
    shared = {"mask": constant(weights.standard_normal((COLUMNS, ROWS)).astype("float32")), "first": x.relu()}
    y, inputs, outputs = x.exp() if seed % 2 else x, [x], dict[str, Tensor]()
    tapped: Tensor | None = None
    for number in range(count):
        block = _Block(weights, shared, number)
        block.made.append(y)
        for step in steps:
            y = step(block, y)
            block.made.append(y)
        inputs += block.inputs
        outputs |= {f"told{number}.{n}": z for n, z in enumerate(block.outputs)}
        tapped = block.made[-2] if number == tap else tapped
    y = y if tapped is None else y + tapped
    return Program(inputs, outputs | {"y": y.T if seed % 3 else y.tanh()})


def _fewer(program: Program) -> Fewer:
    fewer = fewer_blocks(program)
    assert fewer is not None
    return fewer


def _same(before: Program, after: Program, exact: bool) -> None:
    feeds = {name: 0.1 * array for name, array in arrays_for(before).items()}
    wanted, found = values(before, feeds), values(after, feeds)
    assert interface(before) == interface(after)
    for name, array in wanted.items():
        assert equal_arrays(array, found[name], exact), name


@pytest.mark.parametrize("seed", some_of(range(40), 24))
def test_a_program_with_fewer_blocks_becomes_itself(seed: int) -> None:
    program = _network(seed)
    fewer = fewer_blocks(program)
    if fewer is None:
        assert len(program.nodes()) < 300
        return
    assert len(fewer.program.nodes()) < len(program.nodes()) / 1.5
    whole = fewer.spread(fewer.program)
    assert whole is not None and len(whole[0].nodes()) <= len(program.nodes())
    _same(program, whole[0], exact=True)


@pytest.mark.parametrize("tap", [0, 1, 2, 3, 17, 33, 34, 35])
@pytest.mark.parametrize("seed", [1, 4, 7])
def test_what_reads_a_block_reads_that_block(seed: int, tap: int) -> None:
    program = _network(seed, tap=tap)
    fewer = fewer_blocks(program)
    whole = None if fewer is None else fewer.spread(fewer.program)
    assert whole is not None or tap < 34
    if whole is not None:
        _same(program, whole[0], exact=True)


def _with_moves(program: Program, where: Callable[[int], bool]) -> Program:
    """The program, where some nodes are read through two moves that cancel."""
    made: dict[int, Node] = {}

    def at(x: Tensor) -> Tensor:
        new = Tensor(made[x.node.serial], x.index)
        return new.transpose(1, 0).transpose(1, 0) if len(x.shape) == 2 and where(x.node.serial) else new

    for node in program.nodes():
        made[node.serial] = on(node, [at(x) for x in node.operands])
    return Program(program.inputs, {name: at(x) for name, x in program.outputs.items()})


@pytest.mark.parametrize("seed", range(24))
def test_what_differs_from_block_to_block_is_not_spread_or_right(seed: int) -> None:
    """Moves at any places, in some blocks only: another block is put in, or none."""
    program, rng = _network(seed), Random(seed)
    fewer = fewer_blocks(program)
    if fewer is None:
        return
    for share in (0.003, 0.01, 0.1):
        chosen = {node.serial for node in fewer.program.nodes() if rng.random() < share}
        whole = fewer.spread(_with_moves(fewer.program, chosen.__contains__))
        if whole is not None:
            _same(program, whole[0], exact=True)


def test_blocks_that_all_differ_are_not_spread() -> None:
    program = _network(1)
    fewer = _fewer(program)
    odd = [n for n, node in enumerate(fewer.program.nodes()) if not isinstance(node, Constant)]
    there = {fewer.program.nodes()[n].serial for n in odd[:: fewer.stretch.period + 1]}
    assert fewer.spread(_with_moves(fewer.program, there.__contains__)) is None


def _other(program: Program, change: Callable[[Constant], Constant]) -> Program:
    made: dict[int, Node] = {}
    for node in program.nodes():
        new = change(node) if isinstance(node, Constant) else node
        made[node.serial] = (
            new if not new.operands else on(node, [Tensor(made[x.node.serial], x.index) for x in node.operands])
        )
    return Program(program.inputs, {name: Tensor(made[x.node.serial], x.index) for name, x in program.outputs.items()})


def _mirrored(array: NDArray) -> NDArray:
    return array[::-1]


def test_what_moves_a_constant_moves_those_of_all_blocks() -> None:
    """And what is known of one no longer, is known of none."""
    program = _network(1)
    fewer = _fewer(program)
    moved = fewer.spread(_other(fewer.program, lambda c: c.moved(_mirrored)))
    assert moved is not None
    _same(_other(program, lambda c: c.moved(_mirrored)), moved[0], exact=True)
    assert fewer.spread(_other(fewer.program, lambda c: Constant(c.array + 1))) is None
    given = {new: fewer.whole.place[old] for old, new in fewer.now.items()}

    def in_turns(c: Constant) -> Constant:
        return c.moved(_mirrored) if given[c.serial] // fewer.stretch.period % 2 else c

    assert fewer.spread(_other(fewer.program, in_turns)) is None


def _pairs(x: Tensor, weights: list[tuple[Tensor, Tensor]], turned: bool = False) -> Program:
    """Blocks that add a constant, as it is or turned, and multiply with another one."""
    y = x
    for a, b in weights:
        node = a.node
        assert isinstance(node, Constant)
        y = (y.T + Tensor(node.moved(np.transpose))).T if turned else y + a
        y = (y.relu() * b).tanh()
    return Program([x], {"y": y})


def test_constants_that_only_look_equal_are_told_apart() -> None:
    """One that is moved to the bits of another stays its own: in other blocks they differ."""
    rng = np.random.default_rng(0)
    weights: list[tuple[Tensor, Tensor]] = []
    for n in range(80):
        a, b = (rng.standard_normal((8, 8)).astype("float32") for _ in range(2))
        weights.append((constant(a), constant(a.T.copy() if n < 20 or n > 60 else b)))
    program = _pairs(input("x", (8, 8), "float32"), weights)
    fewer = _fewer(program)
    there = {node.serial: Tensor(node) for node in fewer.program.nodes()}
    kept = [
        tuple(there[fewer.now[x.node.serial]] for x in pair) for pair in weights if pair[0].node.serial in fewer.now
    ]
    assert 3 < len(kept) < 40
    whole = fewer.spread(_pairs(fewer.program.inputs[0], [(a, b) for a, b in kept], turned=True))
    assert whole is not None
    _same(program, whole[0], exact=True)


SKIPS: dict[str, Callable[[int], int]] = {
    "alike": lambda n: n,
    "backwards": lambda n: 89 - n,
    "behind": lambda n: max(0, n - 2),
    "ahead": lambda n: min(89, n + 3),
}


def _in_two(skips: Callable[[int], int] | None, longer: bool) -> Program:
    """Blocks of one kind, and behind them blocks of another; each of these may read one of the first."""
    rng, x = np.random.default_rng(0), input("x", (8, 8), "float32")
    y, made = x, list[Tensor]()
    for _ in range(90):
        y = (y.T + constant(rng.standard_normal((8, 8)).astype("float32"))).T.tanh().relu()
        made.append(y)
    for n in range(90):
        skipped = y if skips is None else made[skips(n)]
        y = (skipped * y).tanh() + constant(rng.standard_normal((8, 8)).astype("float32"))
        y = y.relu().exp().tanh() if longer else y.relu()
    return Program([x], {"y": y})


@pytest.mark.parametrize("longer", [False, True])
def test_two_kinds_of_blocks(longer: bool) -> None:
    program = _in_two(None, longer)
    chain = with_fewer_blocks(program)
    assert len(chain) == 2
    found = chain[-1].program
    for fewer in reversed(chain):
        whole = fewer.spread(found)
        assert whole is not None
        found = whole[0]
    _same(program, found, exact=True)


@pytest.mark.parametrize("longer", [False, True])
@pytest.mark.parametrize("skips", ["alike", "backwards", "behind", "ahead"])
def test_blocks_that_read_other_blocks(skips: str, longer: bool) -> None:
    """One each, in their order or from the last to the first: what is left out would be missed."""
    program = _in_two(SKIPS[skips], longer)
    fewer = fewer_blocks(program)
    whole = None if fewer is None else fewer.spread(fewer.program)
    if whole is not None:
        _same(program, whole[0], exact=True)


def test_frozen_nodes_are_frozen_in_all_blocks() -> None:
    program = _network(1)
    some = {node.serial for node in program.nodes() if getattr(node, "combiner", None) == "sum"}
    fewer = fewer_blocks(program, some)
    assert fewer is not None and len(some) >= BLOCKS
    whole = fewer.spread(fewer.program, {fewer.now[n] for n in some if n in fewer.now})
    assert whole is not None and len(whole[1]) == len(some)
    assert {type(node) for node in whole[0].nodes() if node.serial in whole[1]} == {
        type(node) for node in program.nodes() if node.serial in some
    }


@pytest.mark.parametrize("odd", [1, 17, 35])
def test_a_block_that_is_frozen_is_no_equal_one(odd: int) -> None:
    """Nor one with other numbers in a small constant, or another formula."""
    program = _network(1)
    sums = [node.serial for node in program.nodes() if getattr(node, "combiner", None) == "sum"]
    fewer = fewer_blocks(program, sums[odd : odd + 1])
    whole = len(program.nodes())
    if fewer is not None:
        assert sums[odd] in fewer.now
        assert len(fewer.program.nodes()) > whole * min(odd, BLOCKS - odd) / BLOCKS / 2


def test_programs_of_other_shapes_stay() -> None:
    """Few nodes, few blocks, blocks without anything of their own."""
    x = y = input("x", (4, 8), "float32")
    for _ in range(300):
        y = y.T.exp()
    assert fewer_blocks(Program([x], {"y": y})) is None
    assert with_fewer_blocks(_network(1, 6)) == [] and with_fewer_blocks(_network(1, 2)) == []


def _none(*_: object) -> list[Fewer]:
    return []


@pytest.mark.parametrize("case", some_of([(n, t) for n in range(8) for t in ("onnx", "c")], 3))
def test_what_is_found_for_a_few_blocks_is_as_good(case: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And right, with a note that says so."""
    seed, target = case
    program = _network(seed)
    found = optimize(program, target, limits=LIMITS)
    repeats = bool(with_fewer_blocks(program))
    assert any("as the equal ones before" in note for note in found.notes) == (repeats and found.program is not program)
    if found.program is not program:
        _same(program, found.program, exact=False)
    monkeypatch.setattr(engine, "with_fewer_blocks", _none)
    assert found.final.cost <= optimize(program, target, limits=LIMITS).final.cost


@pytest.mark.parametrize("late", [False, True])
def test_where_the_choice_may_be_far_from_the_best_all_blocks_are_searched_as_well(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the better result is taken; that of few blocks where the time is over before there is another one."""
    program = _network(1)
    assert with_fewer_blocks(program)
    near = optimize(program, "onnx", limits=LIMITS)
    searched: list[int] = []

    def counted(given: Program, *options: Any) -> Encoded:
        searched.append(len(given.nodes()))
        if late and searched[-1] == len(program.nodes()):
            raise clock.OutOfTime
        return encode(given, *options)

    monkeypatch.setattr(engine, "encode", counted)
    monkeypatch.setattr(engine, "NEAR", -1.0)
    far = optimize(program, "onnx", limits=LIMITS)
    assert len(searched) == 2 and searched[0] < searched[1] == len(program.nodes())
    assert far.final.cost <= near.final.cost
    assert not late or any("as the equal ones before" in note for note in far.notes)

"""Parts of an operator's result: taken of its operands, constants always, others where nothing needs the rest."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import each_value, some_of

import eqsat as eq
from eqsat.graph.encode import encode
from eqsat.graph.search import Limits, Snapshot, run, task_of
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import as_program
from eqsat.ir.terms import term as t
from eqsat.operators.labels import CanonicalOp, Label, OpaqueKind
from eqsat.operators.restrict import is_part, restricted
from eqsat.rules import tensor_laws

WITHOUT = [law.name for law in tensor_laws() if law.name != "restrict"]


def _random(shape: tuple[int, ...], seed: int = 0) -> eq.Tensor:
    return eq.constant(np.random.default_rng(seed).normal(0, 0.1, shape).astype("float32"))


def _attention(x: eq.Tensor, heads: int, seed: int = 0) -> eq.Tensor:
    """One product for queries, keys and values, split into heads."""
    n, c = x.shape
    assert isinstance(n, int) and isinstance(c, int)
    y = eq.matmul(x, _random((c, 3 * c), seed)) + _random((3 * c,), seed + 1)
    q, k, v = (p.reshape((n, heads, c // heads)).permute_dims((1, 0, 2)) for p in eq.split(y, 3, axis=1))
    found = eq.matmul(eq.matmul(q, k.permute_dims((0, 2, 1))).softmax(-1), v)
    return x + eq.matmul(found.permute_dims((1, 0, 2)).reshape((n, c)), _random((c, c), seed + 2))


def _blocks(count: int, shape: tuple[int, int] = (16, 8)) -> eq.Tensor:
    x = eq.input("x", shape, "float32")
    for n in range(count):
        x = _attention(x, 2, 3 * n)
    return x


def _searched(y: eq.Tensor, target: str = "onnx") -> Snapshot:
    last: list[Snapshot] = []
    run(task_of(encode(as_program(y)), target, Limits()), last.append)
    return last[-1]


def _same(before: eq.Tensor | eq.Program, after: eq.Program, feeds: dict[str, np.ndarray[Any, Any]]) -> None:
    left, right = evaluate_outputs(as_program(before), feeds), evaluate_outputs(after, feeds)
    for name, array in left.items():
        np.testing.assert_allclose(right[name], array, rtol=1e-4, atol=1e-4)


def _feed(shape: tuple[int, ...]) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.random.default_rng(1).normal(size=shape).astype("float32")}


def test_a_part_of_a_product_is_a_product_with_a_part() -> None:
    x = eq.input("x", (512, 64), "float32")
    q, k, v = eq.split(eq.matmul(x, _random((64, 192))), 3, axis=1)
    out = q.relu() + k * v
    with_it, without = eq.optimize(out, "onnx", "bytes"), eq.optimize(out, "onnx", "bytes", rules=WITHOUT)
    assert with_it.cost_after == 0 < without.cost_after
    _same(out, with_it.program, _feed((512, 64)))


def test_queries_keys_and_values_are_split_in_the_weights() -> None:
    """Of the splits and moves of heads nothing is left but what products cannot read as it is."""
    out = _blocks(1, (512, 64))
    with_it, without = eq.optimize(out, "onnx", "bytes"), eq.optimize(out, "onnx", "bytes", rules=WITHOUT)
    array = 2 * 4 * 512 * 64
    assert without.cost_after - with_it.cost_after >= 3 * array
    _same(out, with_it.program, _feed((512, 64)))


def test_the_graph_grows_with_the_blocks() -> None:
    """24 equal blocks of attention: each adds as many nodes as the last one did, in as many steps."""
    sizes = {count: _searched(_blocks(count)).progress for count in (6, 12, 24)}
    assert {p.status for p in sizes.values()} == {"saturated"}
    assert sizes[24].matches["restrict"] == 2 * sizes[12].matches["restrict"] > 0
    assert sizes[24].nodes - sizes[12].nodes <= 2.05 * (sizes[12].nodes - sizes[6].nodes)
    assert sizes[24].nodes < 24 * 200
    assert sizes[24].iterations <= sizes[6].iterations + 2


def test_operands_that_others_need_whole_stay_whole() -> None:
    """Rows that a product is cut to are cut before it only where nothing else reads the others."""
    x = eq.input("x", (16, 8), "float32")
    inner = eq.matmul(x, _random((8, 8)))
    alone = eq.matmul(inner, _random((8, 8))).crop((4, 0), (4, 8))
    assert _searched(alone).progress.matches["restrict"] == 2
    both = [eq.matmul(inner, _random((8, 8), 1)).crop((4, 0), (4, 8)), inner]
    last: list[Snapshot] = []
    run(task_of(encode(eq.Program((x,), {"a": both[0], "b": both[1]})), "onnx", Limits()), last.append)
    assert not last[-1].progress.matches.get("restrict")


def test_which_maps_take_parts() -> None:
    from flat_build import broadcast, crop, flip, pad, permute, slice_

    assert is_part(crop((4, 6), (1, 2), (2, 3))) and is_part(slice_((9,), (1,), (4,), (2,)))
    assert not is_part(permute((4, 6), (1, 0))) and not is_part(broadcast((1, 3), (4, 3)))
    assert not is_part(pad((4,), (1,), (0,))) and not is_part(flip((4,), (0,)))


def test_axes_with_a_meaning_are_not_cut() -> None:
    from flat_build import crop

    kind = OpaqueKind("f", "", ("float32",), ("float32",))
    whole = CanonicalOp(kind, (Label("map", 4), Label("fixed", 6, "a")), ((0, 1),), ((0, 1),))
    assert restricted(whole, crop((4, 6), (0, 1), (4, 5))) is None


@pytest.mark.parametrize("target", ["c", "onnx"])
def test_a_window_over_joined_rows_is_the_join_of_their_parts(target: str) -> None:
    """The last 16 rows of a cache of 128 and a new one: 15 rows are read of the cache."""
    cache, new = eq.input("cache", (4, 128, 64), "float32"), eq.input("new", (4, 1, 64), "float32")
    out = eq.concat([cache, new], 1)[:, -16:] * 2
    with_it, without = eq.optimize(out, target, "bytes"), eq.optimize(out, target, "bytes", rules=WITHOUT)
    row = 2 * 4 * 4 * 64
    assert with_it.cost_after == (15 + 16) * row and without.cost_after == (129 + 16) * row
    assert with_it.checked.difference is None and "concat" in str(with_it.program)
    rng = np.random.default_rng(0)
    feeds = {x.name: rng.normal(size=[int(d) for d in x.shape]).astype("float32") for x in (cache, new)}
    _same(out, with_it.program, feeds)


def test_parts_are_taken_at_unknown_sizes() -> None:
    """Rows of any number: the weights are cut along their columns, and joined rows along theirs."""
    n = t.sym("N", 1)
    x = eq.input("x", (n, 64), "float32")
    q, k, v = eq.split(eq.matmul(x, _random((64, 192))), 3, axis=1)
    out = q.relu() + k * v
    with_it, without = eq.optimize(out, "onnx", "bytes"), eq.optimize(out, "onnx", "bytes", rules=WITHOUT)
    assert with_it.cost_after == 0 < without.cost_after
    _same(out, with_it.program, _feed((5, 64)))
    a, b = eq.input("a", (n, 8, 4), "float32"), eq.input("b", (n, 8, 4), "float32")
    window = eq.concat([a, b], 1)[:, 4:12].exp()
    result = eq.optimize(window)
    assert 3 * result.cost_after == 2 * result.cost_before
    rng = np.random.default_rng(0)
    _same(window, result.program, {x.name: rng.normal(size=(3, 8, 4)).astype("float32") for x in (a, b)})


def test_joined_rows_are_not_cut_where_all_are_needed() -> None:
    cache, new = eq.input("cache", (4, 128, 64), "float32"), eq.input("new", (4, 1, 64), "float32")
    whole = eq.concat([cache, new], 1)
    last: list[Snapshot] = []
    run(task_of(encode(eq.Program((cache, new), {"a": whole[:, -16:], "b": whole})), "onnx", Limits()), last.append)
    assert not last[-1].progress.matches.get("restrict")


@each_value(axis=[0, 1], lengths=[(5, 4), (4, 1), (2, 3, 2)])
def test_windows_over_joined_tensors(axis: int, lengths: tuple[int, ...]) -> None:
    """A window that reads all of them moves no more than their parts and the join of these."""
    shapes = [(n, 3) if axis == 0 else (2, n) for n in lengths]
    xs = [eq.input(f"x{k}", shape, "float32") for k, shape in enumerate(shapes)]
    rng = np.random.default_rng(len(lengths))
    feeds = {x.name: rng.normal(size=shape).astype("float32") for x, shape in zip(xs, shapes, strict=True)}
    joined, total = eq.concat(xs, axis), sum(lengths)
    windows = [(a, b) for a in range(total) for b in range(a + 1, total + 1) if b - a < total]
    across = [(a, b) for a, b in windows if a < lengths[0] and b > total - lengths[-1]]
    for a, b in {*windows[::5], *across}:
        out = joined[(slice(None),) * axis + (slice(a, b),)].exp()
        result = eq.optimize(eq.Program(xs, {"out": out}), checked=False)
        _same(eq.Program(xs, {"out": out}), result.program, feeds)
        if (a, b) in across:
            assert result.cost_after <= 16 * out.size, (a, b)


# -- random programs ---------------------------------------------------------------------------------------------------


class _Maker:
    """Random programs of products, sums, joins and parts, over sizes of which some may be 1, 0 or symbols."""

    def __init__(self, seed: int, symbolic: bool) -> None:
        self.rng = Random(seed)
        self.inputs: list[eq.Tensor] = []
        self.n: Any = t.sym("N", 1) if symbolic else self.rng.choice([0, 1, 1, 4, 6])
        self.count = 0

    def data(self, shape: Any) -> eq.Tensor:
        if not any(isinstance(d, t.Term) for d in shape) and self.rng.random() < 0.6:
            self.count += 1
            return eq.constant(np.asarray(np.random.default_rng(self.count).integers(-4, 5, shape), "float32"))
        self.inputs.append(eq.input(f"x{len(self.inputs)}", shape, "float32"))
        return self.inputs[-1]

    def program(self) -> eq.Tensor:
        rng = self.rng
        x = self.data((self.n, rng.choice([2, 4, 6])))
        for _ in range(rng.randint(2, 5)):
            x = self.step(x)
        return x

    def step(self, x: eq.Tensor) -> eq.Tensor:
        rng, (rows, columns) = self.rng, x.shape
        assert isinstance(columns, int)
        pick = rng.randrange(9)
        if pick <= 2:
            y = eq.matmul(x, self.data((columns, rng.choice([1, 6, 12]))))
            return self.part(y)
        if pick == 3:
            return eq.matmul(
                x, self.data((columns, 6)) if rng.random() < 0.5 else eq.constant(np.ones((columns, 6), "float32"))
            ).relu()
        if pick == 4:
            return self.part(x + self.data((columns,)) if rng.random() < 0.5 else x * self.data((rows, columns)))
        if pick == 5:
            return self.part(eq.concat([x, x.relu(), self.data((rows, 2))], axis=1))
        if pick == 6:
            wide = x.reshape((rows, columns, 1)) * self.data((columns, 3))
            return self.part(wide.sum((1,)))
        if pick == 7 and not isinstance(rows, t.Term):
            return self.part(eq.matmul(x.permute_dims((1, 0)), self.data((rows, 3))))
        return self.part(
            eq.matmul(self.data((rows, columns)).permute_dims((0, 1)), eq.constant(np.eye(columns, dtype="float32")))
            + x
        )

    def part(self, x: eq.Tensor) -> eq.Tensor:
        rng, (rows, columns) = self.rng, x.shape
        assert isinstance(columns, int)
        if columns < 2 or rng.random() < 0.15:
            return x
        step = rng.choice([1, 1, 2])
        size = rng.randint(1, columns // step)
        start = rng.randint(0, columns - (size - 1) * step - 1)
        first = x.slice((0, start), (rows, size), (1, step))
        if isinstance(rows, t.Term) or rows < 2 or rng.random() < 0.5:
            return first
        return first.crop((1, 0), (rows - 1, size))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("seed", some_of(range(30), 4))
def test_random_programs_keep_their_values(seed: int, symbolic: bool) -> None:
    maker = _Maker(seed, symbolic)
    y = maker.program()
    for target in ("onnx", "c"):
        result = eq.optimize(y, target, checked=False)
        for size in (1, 3) if symbolic else (0,):
            rng = np.random.default_rng(seed)
            shapes = {x.name: [d if isinstance(d, int) else size for d in x.shape] for x in maker.inputs}
            _same(y, result.program, {n: rng.integers(-4, 5, s).astype("float32") for n, s in shapes.items()})


def test_random_programs_take_parts() -> None:
    """The programs above are of the kind that they are meant to be."""
    found = [_searched(_Maker(seed, seed % 2 == 0).program()).progress.matches for seed in range(10)]
    assert sum(bool(m.get("restrict")) for m in found) >= 4


def test_a_slice_passes_an_operator_in_one_pass() -> None:
    """What tells which parts may be taken is followed at once: a pass of all laws takes as long as all else."""

    def passes(length: int) -> int:
        y = eq.input("x", (8, 6), "float32")
        for n in range(length):
            y = eq.matmul(y, _random((6, 6), n))
        found = eq.optimize(y[2:3])
        assert found.status == "saturated"
        return found.progress.iterations

    few, many = passes(4), passes(12)
    assert many - few <= 12, (few, many)

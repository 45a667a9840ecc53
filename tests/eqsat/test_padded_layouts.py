"""Padding to a multiple of a block, and cropping back: one View whose window spans digits is a pad and its digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat as eq
from eqsat.engine import Limits, measure
from eqsat.graph.fill_holes import assignments
from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.formula import map_of_view
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Input, Opaque, Tensor, View, as_program
from eqsat.ir.tensors.views import view
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, output_axes
from eqsat.ir.terms.walk import nodes_of
from eqsat.result import Result

N = t.sym("N")
TARGETS = ["c", "onnx"]


def pack(x: eq.Tensor, value: object = 0, layout: str = "NCHW16c") -> eq.Tensor:
    return x.layout_transform("NCHW", layout, pad_value=value)


def unpack(p: eq.Tensor, channels: int = 30, block: int = 16) -> eq.Tensor:
    """The crop as one View: NCHW, without the padding."""
    n, _, h, w, _ = p.shape
    shape = (n, channels, h, w)
    a, c, y, x = output_axes(shape)
    return view(p, shape, [a, c // block, y, x, c % block])


def unpack_in_two(p: eq.Tensor, channels: int = 30, block: int = 16) -> eq.Tensor:
    n, _, h, w, _ = p.shape
    return p.layout_transform(f"NCHW{block}c", "NCHW").crop((0, 0, 0, 0), (n, channels, h, w))


def feeds_of(program: eq.Program, batch: int = 2) -> dict[str, NDArray]:
    """Arrays with negative zeros among random numbers; symbols are `batch`."""
    random = np.random.default_rng(7)
    feeds: dict[str, NDArray] = {}
    for x in program.inputs:
        shape = [d if isinstance(d, int) else batch for d in x.shape]
        array = random.normal(size=shape).astype(x.dtype)
        assert isinstance(x.node, Input)
        feeds[x.node.name] = np.where(random.random(shape) < 0.2, np.asarray(-0.0, x.dtype), array)
    return feeds


def best(y: eq.Tensor | eq.Program, target: str = "c", exact: bool = True) -> Result:
    """The optimum, after checking on random arrays that it means the same (bit by bit where `exact`), never worse."""
    program = y if isinstance(y, eq.Program) else as_program(y)
    result = eq.optimize(program, target=target, objective="bytes")
    assert result.status == "saturated"
    feeds = feeds_of(program)
    with np.errstate(all="ignore"):
        before, after = evaluate_outputs(program, feeds, undef=0), evaluate_outputs(result.program, feeds, undef=0)
    for name, array in before.items():
        if exact:
            assert array.tobytes() == after[name].tobytes(), name
        else:
            np.testing.assert_allclose(array, after[name], rtol=1e-5, atol=1e-5)
    assert (result.cost_after, result.final.nodes) <= (result.cost_before, result.initial.nodes)
    assert result.final == measure(result.program)
    return result


def kinds(result: Result) -> list[str]:
    return [type(n).__name__ for n in result.program.nodes()]


def images(n: Dim = 1) -> eq.Tensor:
    return eq.input("x", (n, 30, 5, 5), "float32")


# -- reading ----------------------------------------------------------------------------------------------------------


def flat(*extents: int) -> eq.Tensor:
    return eq.input("x", extents, "float32")


Axes = Sequence[t.Term]


def masked(
    x: eq.Tensor, shape: Shape, gather: Callable[[Axes], list[t.Term]], valid: Callable[[Axes], t.Term]
) -> eq.Tensor:
    axes = output_axes(shape)
    return view(x, shape, gather(axes), valid(axes), t.const(0, x.dtype))


# name -> (the View, how many digit maps it is; 0: only a table)
READINGS: dict[str, tuple[Callable[[], eq.Tensor], int]] = {
    "channel blocks": (lambda: pack(images()), 2),
    "channel blocks, cropped": (lambda: unpack(flat(1, 2, 5, 5, 16)), 2),
    "two axes": (lambda: flat(6, 5).layout_transform("i, j -> j//2, i//4, j%2, i%4", pad_value=0), 2),
    "three digits, cut in two steps": (
        lambda: flat(30, 3).layout_transform("i, j -> i//16, j, i//4%4, i%4", pad_value=0),
        2,
    ),
    "an offset": (lambda: flat(30, 3).layout_transform("i, j -> (i+3)//16, j, (i+3)%16", pad_value=0), 2),
    "backwards": (lambda: flat(30, 3).layout_transform("i, j -> (31-i)//16, j, (31-i)%16", pad_value=0), 2),
    "a window and a repeated axis besides": (
        lambda: masked(
            flat(30, 3),
            (4, 3, 8, 5),
            lambda i: [8 * i[0] + i[2], i[1]],
            lambda i: t.logical_and(8 * i[0] + i[2] < 30, i[1] > 0, i[3] < 3, i[2] >= 1),
        ),
        2,
    ),
    "pad and crop at once": (
        lambda: masked(
            flat(4, 8),
            (31,),
            lambda i: [i[0] // 8, i[0] % 8],
            lambda i: t.logical_and(i[0] // 8 * 8 + i[0] % 8 < 30, i[0] % 8 >= 1),
        ),
        3,
    ),
    "one digit after all": (lambda: flat(30).layout_transform("i -> i//16, i%16", pad_value=0), 1),
    "no mixed radix: im2col": (
        lambda: masked(
            flat(9), (8, 3), lambda i: [i[0] + i[1] - 1], lambda i: t.logical_and(i[0] + i[1] >= 1, i[0] + i[1] < 10)
        ),
        0,
    ),
    "a window on what is not an index": (
        lambda: masked(flat(4, 3), (4, 3), lambda i: [i[0], i[1]], lambda i: i[0] + i[1] < 3),
        0,
    ),
    "the crop would be read from outside": (
        lambda: masked(flat(30, 3), (3, 30), lambda i: [i[1] // 16 * 16 + i[1] % 16, i[0]], lambda _: t.TRUE),
        1,
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_view_is_a_chain_of_digit_maps(name: str) -> None:
    make, count = READINGS[name]
    node = make().node
    assert isinstance(node, View)
    maps, whole = maps_of_view(node), map_of_view(node)
    assert maps is not None and whole is not None
    assert sum(isinstance(m, FlatMap) for m in maps) == count
    joined = maps[0]
    for m in maps[1:]:
        both = compose(joined, m)
        assert both is not None
        joined = both
    assert np.array_equal(joined.to_array(), whole.to_array())


@settings(max_examples=300)
@given(st.data())
def test_the_chain_is_the_view(data: st.DataObject) -> None:
    """Views at random: digits that make up an axis, in any order and direction, windows anywhere."""
    radices = data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=3))
    other = data.draw(st.integers(1, 3))
    extents = [*radices, other]
    order = data.draw(st.permutations(range(len(extents))))
    shape = tuple(extents[k] for k in order)
    axes = output_axes(shape)
    axis = {k: axes[n] for n, k in enumerate(order)}
    value, size = t.index_const(0), 1
    for k in reversed(range(len(radices))):
        value, size = value + axis[k] * size, size * radices[k]
    before = data.draw(st.integers(0, 2))
    length = data.draw(st.integers(1, size))
    source = data.draw(st.integers(length, length + 2))
    valid = [before <= value, value < before + length]
    if data.draw(st.booleans()):
        valid.append(axis[data.draw(st.integers(0, len(radices)))] < 2)
    gather = [value - before] if data.draw(st.booleans()) else [before + length - 1 - value]
    made = view(flat(source, other), shape, [*gather, axis[len(radices)]], t.logical_and(*valid), t.const(0, "float32"))
    if not isinstance(made.node, View):
        return
    maps, whole = maps_of_view(made.node), map_of_view(made.node)
    assert maps is not None and whole is not None and all(isinstance(m, FlatMap) for m in maps)
    cells = np.arange(whole.to_array().size)
    for m in reversed(maps):
        cells = np.where(cells >= 0, m.to_array()[np.maximum(cells, 0)], -1)
    assert np.array_equal(cells, whole.to_array())


def test_a_batch_of_any_size() -> None:
    for made in (pack(images(N)), unpack(eq.input("p", (N, 2, 5, 5, 16), "float32"))):
        assert isinstance(made.node, View)
        maps = maps_of_view(made.node)
        assert not isinstance(map_of_view(made.node), FlatMap)
        assert maps is not None and [type(m) for m in maps] == [FlatMap, FlatMap]


# -- cancelling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("back", [unpack, unpack_in_two])
@pytest.mark.parametrize("batch", [1, 3, N], ids=["1", "3", "N"])
def test_relu_in_padded_blocks_is_relu(target: str, back: Callable[[eq.Tensor], eq.Tensor], batch: Dim) -> None:
    result = best(back(pack(images(batch)).relu()), target)
    assert kinds(result) == ["Input", "Compute"] and result.bytes_moved == 0


# feature: I6
@pytest.mark.parametrize("target", TARGETS)
def test_exp_in_padded_blocks(target: str) -> None:
    """crop(exp(pad x)) is exp x; but the cells that exp made 1 are not a pad by 0."""
    x = images()
    assert kinds(best(unpack(pack(x).exp()), target)) == ["Input", "Compute"]
    result = best(pack(unpack(pack(x).exp())), target)
    assert kinds(result) == ["Input", "Compute", "View"] and result.layout_ops == 1
    both = eq.Program([x], {"ones": pack(x).exp(), "zeros": pack(unpack(pack(x).exp()))})
    best(both, target)


def test_relu_keeps_the_padding() -> None:
    """relu(0) = 0: one pad is left, on either side, and its cost is that of the pad alone."""
    x = images()
    result = best(pack(unpack(pack(x).relu())))
    assert (
        kinds(result) == ["Input", "Compute", "View"] and result.bytes_moved == measure(as_program(pack(x))).bytes_moved
    )


def test_the_one_view_is_spelled_as_one() -> None:
    """Chains end in the View that a person would write: no table, no pad before a layout."""
    result = best(pack(images()).relu().layout_transform("NCHW16c", "NCHW8c"))
    assert kinds(result) in (["Input", "View", "Compute"], ["Input", "Compute", "View"])
    (node,) = [n for n in result.program.nodes() if isinstance(n, View)]
    assert str(node.valid) == "8*i1 + i4 < 30" and str(node.gather) == "(0, 8*i1 + i4, i2, i3)"


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_another_size(target: str) -> None:
    y = pack(images()).relu().layout_transform("NCHW16c", "NCHW8c").exp()
    assert kinds(best(unpack(y, block=8), target)) == ["Input", "Compute", "Compute"]


def test_what_the_padding_cells_hold_is_kept() -> None:
    """Padded by 1 and by 0: both pads show, so nothing is merged that is not equal."""
    x = images()
    result = best(
        eq.Program([x], {"a": pack(x, 1.0), "b": pack(x, 0.0), "c": pack(x, -0.0), "d": unpack(pack(x, 1.0))})
    )
    assert result.layout_ops == 3 and kinds(result).count("View") == 3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("batch", [1, N], ids=["1", "N"])
def test_what_an_input_holds_in_padding_cells_is_not_known(target: str, batch: Dim) -> None:
    p = eq.input("p", (batch, 2, 5, 5, 16), "float32")
    result = best(pack(unpack(p)), target)
    assert result.layout_ops >= 1 and result.bytes_moved > 0


def test_undefined_padding_may_be_anything() -> None:
    p = eq.input("p", (1, 2, 5, 5, 16), "float32")
    assert eq.optimize(pack(unpack(p), eq.UNDEF)).bytes_moved == 0
    assert best(unpack(pack(images(), eq.UNDEF).exp())).bytes_moved == 0


@pytest.mark.parametrize("target", TARGETS)
def test_two_consumers(target: str) -> None:
    """The packed tensor is needed as it is and unpacked: one pack, and the rest on the plain side."""
    x = images()
    a = pack(x).relu()
    result = best(eq.Program([x], {"a": a, "b": unpack(a).exp(), "c": unpack(a)}), target)
    assert result.layout_ops == 1 and kinds(result).count("Compute") == 2


def test_two_layouts_of_one_padded_tensor() -> None:
    x = images()
    padded = x.pad(((0, 0), (0, 2), (0, 0), (0, 0)))
    y = eq.Program([x], {k: padded.layout_transform("NCHW", k).relu() for k in ("NCHW16c", "NCHW8c")})
    best(y)


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions_in_padded_blocks(target: str) -> None:
    x, w = eq.input("x", (1, 30, 4, 4), "float32"), eq.input("w", (20, 30, 1, 1), "float32")
    v = eq.input("v", (8, 20, 1, 1), "float32")

    def blocked(data: eq.Tensor, kernel: eq.Tensor) -> eq.Tensor:
        packed = kernel.layout_transform("OIHW", "OIHW16i16o", pad_value=0)
        return eq.conv2d(data, packed, data_layout="NCHW16c", kernel_layout="OIHW16i16o")

    first = blocked(pack(x), w)
    second = blocked(pack(unpack(first, 20)).relu(), v)
    best(unpack(second, 8), target, exact=False)
    plain = eq.conv2d(unpack(pack(eq.conv2d(x, w)).relu(), 20), v)
    result = best(plain, target, exact=False)
    assert kinds(result) == ["Input", "Input", "Compute", "Compute", "Input", "Compute"] or result.bytes_moved == 0


def test_large_tensors_need_no_table() -> None:
    x = eq.input("x", (1, 62, 160, 160), "float32")
    result = best(unpack(pack(x).relu(), 62))
    assert kinds(result) == ["Input", "Compute"]
    result = best(pack(unpack(pack(x).relu(), 62)))
    assert kinds(result) == ["Input", "Compute", "View"]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_chains(data: st.DataObject) -> None:
    """Packs, unpacks, crops, pads and formulas in any order mean the same, and are never worse, for both targets."""
    channels = data.draw(st.integers(2, 9))
    x = eq.input("x", (1, channels, 2, 2), "float32")
    block = 0  # of the layout at hand; 0: plain
    y, outputs = x, dict[str, eq.Tensor]()
    for step in data.draw(st.lists(st.sampled_from(["layout", "relu", "exp", "neg", "out", "width"]), max_size=7)):
        if step == "layout" and block:
            _, blocks, _, _, size = y.shape
            assert isinstance(blocks, int) and isinstance(size, int)
            y, block = unpack(y, data.draw(st.integers(1, blocks * size)), block), 0
        elif step == "layout":
            block = data.draw(st.sampled_from([2, 3, 4]))
            y = pack(y, data.draw(st.sampled_from([0, 1, -0.0])), f"NCHW{block}c")
        elif step == "width":
            y = y.pad([(0, 0)] * (y.rank - 1) + [(0, 1)]) if not block else y
        elif step == "out":
            outputs[f"y{len(outputs)}"] = y
        else:
            y = -y if step == "neg" else y.relu() if step == "relu" else y.exp()
    program = eq.Program([x], {**outputs, "out": y})
    feeds = feeds_of(program)
    for target in TARGETS:
        result = eq.optimize(program, target=target, objective="bytes", limits=Limits(3000, 5, 60))
        before, after = evaluate_outputs(program, feeds), evaluate_outputs(result.program, feeds)
        assert all(before[k].tobytes() == after[k].tobytes() for k in before), f"{program}\n{result.program}"
        assert result.cost_after <= result.cost_before


@pytest.mark.parametrize("target", TARGETS)
def test_two_fills_are_two_views(target: str) -> None:
    """Channels padded by 1 in blocks, then rows by 0: one View has one fill."""
    rows = ((0, 0), (0, 0), (1, 1), (0, 0), (0, 0))
    best(pack(images(), 1.0).relu().pad(rows, 0.0), target)
    best(pack(images(), 0.0).relu().pad(rows, 0.0), target)


# feature: D7, G7
def test_a_hole_may_be_what_was_cropped_some_views_before() -> None:
    """It is the cells of what is changed itself where that has holes, too, and of one that two views share there are
    none: what they read may differ."""
    (a,) = eq.opaque("foo", [eq.input("x", (4, 4), "float32")], [((4, 4), "float32")])
    cropped = a.reshape((16,)).crop((0,), (14,))
    padded = cropped.layout_transform("i -> i//4, i%4", pad_value=eq.UNDEF)
    found = eq.optimize(padded)
    assert found.layout_ops == 0 and eq.verify(padded, found.program).verdict == "proved"
    twice = padded.reshape((16,)).crop((0,), (15,)).pad(((0, 1),), eq.UNDEF)
    found = eq.optimize(twice)
    assert found.bytes_moved == 0 and eq.verify(twice, found.program).verdict == "proved"
    (b,) = eq.opaque("bar", [padded], [((4, 4), "float32")])
    again = b.reshape((16,)).crop((0,), (14,)).layout_transform("i -> i//4, i%4", pad_value=eq.UNDEF)
    found = eq.optimize(again)
    assert found.layout_ops == 0 and len([n for n in found.program.nodes() if isinstance(n, Opaque)]) == 2
    node = padded.node
    assert isinstance(node, View)
    one, other = (Tensor(View(x, (4, 4), node.gather, node.valid, node.fill)) for x in (cropped, -cropped))
    for program, _ in assignments(as_program(one + other)):  # the hole is one number, whatever fills it
        filled = [n.fill for n in program.nodes() if isinstance(n, View) and n.fill is not None]
        assert len(filled) == 2 and filled[0] is filled[1]
    assert node.fill is not None
    (hole,) = nodes_of("hole", node.fill)
    rows = Tensor(View(cropped, (4, 4), node.gather, node.valid, t.make("hole", hole.args[:1], 99, "float32")))
    for program, _ in assignments(as_program(rows)):  # a hole for each row is one number there
        (result,) = program.outputs.values()
        assert isinstance(result.node, View) and result.node.fill is not None and result.node.fill.op == "const"

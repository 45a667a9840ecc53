"""ONNX operators without a formula here: which axes of operands and outputs are one, and what may be done to them.

In the notation of `Signature.parse`, with every input in its place: what a use leaves out is left out of the signature,
as are the roles that no axis has then.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.terms.shape import Dim, Shape, same_dim
from eqsat.onnx.call import Call, Declined, Type, ints
from eqsat.onnx.ops.table import by_signature, labelled


def spelled(c: Call, text: str, map: str = "", reduce: str = "") -> Signature:
    """The signature of a use from the one over all inputs and outputs, whose labels are `map`, `reduce` or fixed.

    An axis of extent 1 that broadcasts has no label; labels of other extents than elsewhere are axes of their own.
    """
    left, _, right = text.partition("->")
    slots = [_dims(p) for p in left.split(",")]
    read = [(slots[n], x.shape) for n, x in enumerate(c.operands) if x is not None and n < len(slots)]
    if len(read) != len(c.tensors):
        raise Declined(c.op, "has more inputs than its signature")
    written = [(_dims(p), t[0]) for p, t in zip(right.split(","), _types(c), strict=False)]
    roles = {**dict.fromkeys(map.split(), "map"), **dict.fromkeys(reduce.split(), "reduce")}
    return named([n for n, _ in read], [n for n, _ in written], [s for _, s in read], [s for _, s in written], roles)


def named(
    read: Sequence[Sequence[str]],
    written: Sequence[Sequence[str]],
    operands: Sequence[Shape],
    outputs: Sequence[Shape],
    roles: dict[str, str],
) -> Signature:
    """A signature by the names of axes; where extents of one name differ, 1 broadcasts and anything else is fixed."""
    for names, shape in zip((*read, *written), (*operands, *outputs), strict=True):
        if len(names) != len(shape):
            raise Declined("signature", f"{len(names)} axes for rank {len(shape)}")
    sides = [(n, d) for names, shape in zip((*read, *written), (*operands, *outputs), strict=True)
             for n, d in zip(names, shape, strict=True)]  # fmt: skip
    extents: dict[str, Dim] = {}
    for name, d in sides:
        if name not in extents or same_dim(extents[name], 1):
            extents[name] = d
    odd = {n for n, d in sides if not same_dim(d, extents[n]) and not same_dim(d, 1)}
    count = 0

    def dims(names: Sequence[str], shape: Shape) -> Dims:
        nonlocal count
        result: list[tuple[str, ...]] = []
        for name, d in zip(names, shape, strict=True):
            count += 1
            own = (f"{name}_{count}",) if name in odd else (name,)
            result.append(own if name in odd or same_dim(d, extents[name]) else ())
        return tuple(result)

    left = [dims(n, s) for n, s in zip(read, operands, strict=True)]
    right = [dims(n, s) for n, s in zip(written, outputs, strict=True)]
    return labelled(left, right, roles)


def _dims(part: str) -> tuple[str, ...]:
    return tuple(x for x in part.split() if x != "()")


def _types(c: Call) -> list[Type]:
    return [k for k in c.types[: c.count] if k is not None]


def output_shape(c: Call) -> Shape:
    """The shape of the first output, which the model says."""
    known = _types(c)
    if not known:
        raise Declined(c.op, "the output shape is not known")
    return known[0][0]


RECURRENT = "clip activation_alpha activation_beta hidden_size layout=0|1 direction=forward|reverse|bidirectional"


@by_signature("RNN", "x w r b? sequence_lens? initial_h?", RECURRENT)
@by_signature("GRU", "x w r b? sequence_lens? initial_h?", f"{RECURRENT} linear_before_reset=0|1")
@by_signature("LSTM", "x w r b? sequence_lens? initial_h? initial_c? p?", f"{RECURRENT} input_forget=0|1")
def recurrent(c: Call) -> Signature:
    """Rows of a batch are independent; the features of the operand are summed."""
    first = bool(c.get("layout", 0))
    state = "b d h" if first else "d b h"
    ins = f"{'b s i' if first else 's b i'}, d g i, d g h, d q, b, {state}, {state}, d p"
    return spelled(c, f"{ins} -> {'b s d h' if first else 's d b h'}, {state}, {state}", map="b", reduce="i")


@by_signature("LinearAttention", "query key value past_state? decay? beta?",
        "chunk_size kv_num_heads q_num_heads scale update_rule=linear|gated|delta|gated_delta")  # fmt: skip
def linear_attention(c: Call) -> Signature:
    return spelled(c, "b t q, b t k, b t v, b h x y, b t g, b t u -> b t o, b h x y", map="b")


@by_signature("CausalConvWithState", "input weight bias? past_state?", "activation=silu|swish|none")
def causal_convolution(c: Call) -> Signature:
    """Every channel has a kernel of its own."""
    return spelled(c, "b c l, c u k, c, b c p -> b c l, b c p", map="b c")


def _spatial(rank: int, prefix: str) -> str:
    return " ".join(f"{prefix}{n}" for n in range(rank - 2))


SAMPLING = "align_corners=0|1 padding_mode=zeros|border|reflection mode=linear|nearest|cubic|bilinear|bicubic"


@by_signature("GridSample", "x grid", SAMPLING)
def grid_sample(c: Call) -> Signature:
    """Each output position looks up its own place."""
    rank = c.tensors[0].rank
    outer = _spatial(rank, "o")
    return spelled(c, f"n c {_spatial(rank, 'i')}, n {outer} r -> n c {outer}", map=f"n c {outer}")


@by_signature("AffineGrid", "theta size", "align_corners=0|1", "size[]")
def affine_grid(c: Call) -> Signature:
    return spelled(c, f"n r m, s -> n {_spatial(len(output_shape(c)), 'o')} r", map="n r")


@by_signature("RoiAlign", "x rois batch_indices", "output_height output_width sampling_ratio spatial_scale "
              "mode=avg|max coordinate_transformation_mode=half_pixel|output_half_pixel")  # fmt: skip
def roi_align(c: Call) -> Signature:
    return spelled(c, "n c h w, r q, r -> r c y x", map="r c")


@by_signature("MaxRoiPool", "x rois", "pooled_shape spatial_scale")
def max_roi_pool(c: Call) -> Signature:
    return spelled(c, "n c h w, r q -> r c y x", map="r c")


@by_signature("DeformConv", "x w offset b? mask?", "dilations group kernel_shape offset_group pads strides")
def deformable(c: Call) -> Signature:
    """Every output channel has its own kernel; in groups, which input channels it reads depends on its place."""
    rank = c.tensors[0].rank
    outer, group = _spatial(rank, "o"), int(c.get("group", 1))
    ins = f"n c {_spatial(rank, 'i')}, m k {_spatial(rank, 't')}, n f {outer}, m, n g {outer}"
    return spelled(c, f"{ins} -> n m {outer}", map="n m" if group == 1 else "n")


@by_signature("Det", "x")
def determinant(c: Call) -> Signature:
    batch = " ".join(f"b{n}" for n in range(c.tensors[0].rank - 2))
    return spelled(c, f"{batch} r k -> {batch}", map=batch)


@by_signature("DFT", "input dft_length? axis?", "axis inverse=0|1 onesided=0|1", "dft_length axis", axis=-2)
def fourier(c: Call) -> Signature:
    """Along one axis; the last one holds real and imaginary parts."""
    x, axis = c.one(), int(c.attrs["axis"])
    if axis == x.rank - 1:
        raise Declined(c.op, "along the parts of numbers")
    free = [f"b{n}" for n in range(x.rank - 1) if n != axis]
    read = [f"t{n}" if n == axis else "p" if n == x.rank - 1 else f"b{n}" for n in range(x.rank)]
    written = [f"f{n}" if n == axis else "c" if n == x.rank - 1 else f"b{n}" for n in range(x.rank)]
    return spelled(c, f"{' '.join(read)} -> {' '.join(written)}", map=" ".join(free))


@by_signature("STFT", "signal frame_step window? frame_length?", "onesided=0|1", "frame_step frame_length")
def short_fourier(c: Call) -> Signature:
    return spelled(c, "b t p, (), w, () -> b f k c", map="b")


@by_signature("TensorScatter", "past_cache update write_indices?", "axis mode=linear|circular", axis=-2)
def tensor_scatter(c: Call) -> Signature:
    """Rows of a batch start at places of their own; all other axes but the written one are independent."""
    rank, axis = c.tensors[0].rank, int(c.attrs["axis"])
    if axis == 0:
        raise Declined(c.op, "writes along the batch")
    names = [f"a{n}" for n in range(rank)]
    update = [f"u{n}" if n == axis else x for n, x in enumerate(names)]
    free = " ".join(x for n, x in enumerate(names) if n != axis)
    return spelled(c, f"{' '.join(names)}, {' '.join(update)}, a0 -> {' '.join(names)}", map=free)


@by_signature("TopK", "x k", "axis k largest=0|1 sorted=0|1", "k[]", axis=-1)
def top_k(c: Call) -> Signature:
    """Which of equal values is taken is the runtime's, so that there is no formula."""
    x = c.one()
    if len(ints(c.get("k"), c.op)) != 1:
        raise Declined(c.op, "k is not one number")
    axis = int(c.attrs["axis"])
    read = [f"a{n}" for n in range(x.rank)]
    written = " ".join("k" if n == axis else a for n, a in enumerate(read))
    free = " ".join(a for n, a in enumerate(read) if n != axis)
    return spelled(c, f"{' '.join(read)} -> {written}, {written}", map=free)

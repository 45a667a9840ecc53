"""The kernel suite: 110 ways of moving data between layouts, in families a to g, and families v and w beyond it.

a NCHW and NHWC, b blocked layouts, c packing for matmul, d 2-D transposes, e the tensor-transposition benchmark of the
TTC and HPTT papers at about 50 MB a tensor, f pads and crops, g fused chains; v is families a, d and g in other element
types and odd sizes, w windows with padding. What is no pad, crop, split and transpose is in `fused.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_suite.case import Case, Ranges, Shape

SUFFIX = {"float32": "", "float16": "_f2", "int8": "_i1", "float64": "_f8"}


def _of_shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _both(family: str, n: int, c: int, h: int, w: int, dtype: str = "float32") -> list[Case]:
    """NCHW to NHWC and back."""
    tail = f"{_of_shape((n, c, h, w))}{SUFFIX[dtype]}"
    there, back = (n, c, h, w), (n, h, w, c)
    return [
        Case(f"nchw2nhwc_{tail}", family, dtype, there, there, (0, 2, 3, 1)),
        Case(f"nhwc2nchw_{tail}", family, dtype, back, back, (0, 3, 1, 2)),
    ]


def _blocked(n: int, c: int, h: int, w: int, block: int) -> list[Case]:
    """NCHW to NCHWc and back."""
    tail, split = _of_shape((n, c, h, w)), (n, c // block, block, h, w)
    packed = (n, c // block, h, w, block)
    return [
        Case(f"nchw2nchw{block}c_{tail}", "b", "float32", (n, c, h, w), split, (0, 1, 3, 4, 2)),
        Case(f"nchw{block}c2nchw_{tail}", "b", "float32", packed, packed, (0, 1, 4, 2, 3)),
    ]


def _weights(o: int, i: int, h: int, w: int) -> Case:
    split = (o // 16, 16, i // 16, 16, h, w)
    name = f"oihw2OIhw16i16o_{_of_shape((o, i, h, w))}"
    return Case(name, "b", "float32", (o, i, h, w), split, (0, 2, 4, 5, 3, 1))


def _flat(family: str, rows: int, columns: int, dtype: str = "float32") -> Case:
    name = f"tr_{rows}x{columns}{SUFFIX[dtype]}"
    return Case(name, family, dtype, (rows, columns), (rows, columns), (1, 0))


def ttc_case(order: str, sizes: str) -> Case:
    """A case of the tensor-transposition benchmark, given as there: the first axis is the one of stride 1.

    >>> case = ttc_case("021", "368x192x96")
    >>> case.shape, case.transpose
    ((96, 192, 368), (1, 0, 2))
    """
    shape = tuple(int(n) for n in reversed(sizes.split("x")))
    last = len(shape) - 1
    axes = tuple(last - int(p) for p in reversed(order))
    return Case(f"ttc_{order}_{sizes}", "e", "float32", shape, shape, axes)


TTC = """
10     3632x3632 10852x1216 1216x10852
021    368x192x192 536x64x384 368x64x577
102    192x192x355 580x384x59 384x580x59
210    192x355x192 580x59x384 384x59x580
0321   80x48x75x48 116x16x75x96 80x16x75x146
2130   48x75x48x75 152x12x96x75 96x12x152x75
2031   48x75x48x75 152x12x96x75 96x12x152x75
1032   48x48x75x75 152x96x12x75 96x152x12x75
3210   48x75x75x48 152x12x75x96 96x12x75x152
04213  32x24x28x28x24 44x8x28x28x48 32x8x28x28x75
32140  24x28x28x24x28 88x4x28x48x28 48x4x28x88x28
20413  24x28x24x28x28 88x4x48x28x28 48x4x88x28x28
13042  24x24x28x28x28 88x48x4x28x28 48x88x4x28x28
43210  24x28x28x28x24 88x4x28x28x48 48x4x28x28x88
032541 16x16x15x16x15x15 24x10x15x16x15x15 16x10x15x26x15x15
320514 16x15x15x16x15x15 28x5x15x32x15x15 32x5x15x28x15x15
204153 16x15x16x15x15x15 28x5x32x15x15x15 32x5x28x15x15x15
325104 16x15x15x16x15x15 28x5x15x32x15x15 32x5x15x28x15x15
543210 16x15x15x15x15x16 28x5x15x15x15x32 32x5x15x15x15x28
"""

BORDER: Ranges = ((0, 0), (0, 0), (1, 1), (1, 1))
INSIDE: Ranges = ((0, 8), (0, 64), (1, 57), (1, 57))


def _fused(dtype: str, family: str = "g") -> list[Case]:
    """Windows, shuffles and attention layouts."""
    end = SUFFIX[dtype]

    def case(name: str, shape: Shape, split: Shape, axes: Shape) -> Case:
        return Case(name + end, family, dtype, shape, split, axes)

    image, heads = (8, 56, 56, 96), (8, 197, 12, 64)
    return [
        case("swin_part_8x56x56x96_w7", image, (8, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
        case("swin_rev_8x56x56x96_w7", (512, 7, 7, 96), (8, 8, 8, 7, 7, 96), (0, 1, 3, 2, 4, 5)),
        case("pixshuf_r2_8x256x64x64", (8, 256, 64, 64), (8, 64, 2, 2, 64, 64), (0, 1, 4, 2, 5, 3)),
        case("pixunshuf_r2_8x64x128x128", (8, 64, 128, 128), (8, 64, 64, 2, 64, 2), (0, 1, 3, 5, 2, 4)),
        case("chshuf_g8_8x256x28x28", (8, 256, 28, 28), (8, 8, 32, 28, 28), (0, 2, 1, 3, 4)),
        case("attn_heads_8x197x12x64", heads, heads, (0, 2, 1, 3)),
        case("attn_kT_8x197x12x64", heads, heads, (0, 2, 3, 1)),
        case("patchify_8x3x224x224_p16", (8, 3, 224, 224), (8, 3, 14, 16, 14, 16), (0, 2, 4, 3, 5, 1)),
    ]


def suite() -> list[Case]:
    """The 110 cases, in families a to g."""
    small, middle, images = (1, 64, 56, 56), (8, 256, 14, 14), (32, 3, 224, 224)
    kinds = ("float32", "float16", "int8")
    activations = [case for dtype in kinds for case in _both("a", *small, dtype)]
    activations += _both("a", *middle) + [case for dtype in kinds for case in _both("a", *images, dtype)]
    blocks = [case for s in (small, middle, (32, 64, 56, 56)) for block in (16, 8) for case in _blocked(*s, block)]
    channels: Ranges = ((0, 0), (0, 13), (0, 0), (0, 0))
    padded = Case(
        "nchw2nchw16c_32x3x224x224_pad",
        "b",
        "float32",
        images,
        (32, 1, 16, 224, 224),
        (0, 1, 3, 4, 2),
        pad=channels,
    )
    blocks += [padded, _weights(256, 256, 3, 3), _weights(512, 512, 1, 1), _weights(64, 64, 7, 7)]
    square, tail = (1024, 1024), ((0, 0), (0, 8))
    packing = [
        Case("pack_KN16_1024", "c", "float32", square, (1024, 64, 16), (1, 0, 2)),
        Case("pack_KN16_1000p1008", "c", "float32", (1000, 1000), (1000, 63, 16), (1, 0, 2), pad=tail),
        Case("pack_vnni_i8_1024", "c", "int8", square, (256, 4, 64, 16), (2, 0, 3, 1)),
        Case("pack_vnni_f16_1024", "c", "float16", square, (512, 2, 64, 16), (2, 0, 3, 1)),
        Case("packT_NK16_1024", "c", "float32", square, (64, 16, 1024), (0, 2, 1)),
    ]
    flat = [_flat("d", 4096, 4096), _flat("d", 1023, 2047), _flat("d", 512, 512)]
    flat += [_flat("d", 4096, 4096, dtype) for dtype in ("float16", "int8", "float64")]
    rows = (line.split() for line in TTC.split("\n") if line)
    tensors = [ttc_case(order, sizes) for order, *several in rows for sizes in several]
    plain, wide, chunks = (8, 64, 56, 56), (8, 64, 58, 58), (8, 4, 16, 56, 56)
    borders = [
        Case("pad1_nchw_8x64x56x56", "f", "float32", plain, wide, (0, 1, 2, 3), pad=BORDER),
        Case("crop1_nchw_8x64x58x58", "f", "float32", wide, plain, (0, 1, 2, 3), crop=INSIDE),
        Case("pad1_nhwc_fused_8x64x56x56", "f", "float32", plain, wide, (0, 2, 3, 1), pad=BORDER),
        Case("crop1_nchw16c_8x64x58x58", "f", "float32", wide, chunks, (0, 1, 3, 4, 2), crop=INSIDE),
    ]
    return activations + blocks + packing + flat + tensors + borders + _fused("float32")


def extras() -> list[Case]:
    """Families v and w: other element types, odd sizes, windows that need padding."""
    cases = [case for dtype in ("int8", "float16", "float64") for case in _fused(dtype, "v")]
    cases += _both("v", 8, 256, 14, 14, "float64") + _both("v", 7, 33, 27, 29) + _both("v", 7, 33, 27, 29, "int8")
    cases += [_flat("v", 1023, 2047, dtype) for dtype in ("int8", "float16", "float64")] + [_flat("v", 37, 41)]
    for dtype in ("float32", "float16", "int8"):
        name = f"swin_part_pad_8x52x52x96_w7{SUFFIX[dtype]}"
        bottom: Ranges = ((0, 0), (0, 4), (0, 4), (0, 0))
        cases.append(Case(name, "w", dtype, (8, 52, 52, 96), (8, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5), pad=bottom))
    return cases

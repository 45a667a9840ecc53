"""Buffers of two physical axes as OpenCL images.

A tensor is an image where its layout says so: `buffers={"x": eq.Buffer("x", shape, dtype, axis_separators=(2,))}`, or
an output whose last step is a layout_transform by a map with an AXIS_SEPARATOR. The first physical axis is the rows. An
innermost axis of extent 4 makes the four channels of a pixel (RGBA), anything else has one channel (R).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.interface import ProgramBuffer
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered, Step
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.dtypes import BOOL, INTS, is_float
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_names
from eqsat.ir.statements.stmt import BufferDecl, For, If, Stmt, Store, children, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, linear_parts, load
from eqsat.ir.terms.walk import substitute, transform

CHANNEL_TYPES = {
    "float32": "FLOAT", "float16": "HALF_FLOAT", "int8": "SIGNED_INT8", "int16": "SIGNED_INT16",
    "int32": "SIGNED_INT32", "uint8": "UNSIGNED_INT8", "uint16": "UNSIGNED_INT16", "uint32": "UNSIGNED_INT32",
    BOOL: "UNSIGNED_INT8",
}  # fmt: skip
"""The channel type of an image of each dtype that one can hold exactly."""


@dataclass(frozen=True)
class Image:
    """An image: rows of `columns` elements of a dtype, `channels` elements in each pixel."""

    rows: int
    columns: int
    channels: int
    dtype: str

    @property
    def width(self) -> int:
        """Pixels in a row."""
        return self.columns // self.channels

    @property
    def channel_type(self) -> str:
        """How OpenCL calls the type of its elements."""
        return CHANNEL_TYPES[self.dtype]

    @property
    def kind(self) -> str:
        """How its channels come into registers: f (float), i (int) or ui (uint)."""
        return "f" if is_float(self.dtype) else "i" if self.dtype in INTS else "ui"

    @property
    def vector(self) -> str:
        """The type of a pixel in registers."""
        return {"f": "float4", "i": "int4", "ui": "uint4"}[self.kind]

    @property
    def label(self) -> str:
        """What it is, in words."""
        order = "RGBA" if self.channels == 4 else "R"
        return f"image2d_t of {self.width} x {self.rows} pixels {order} {self.channel_type}"


SAMPLER = """\
__constant sampler_t exact_pixel = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;"""
"""How pixels are read. A constant of the program: where a call spells it, NVIDIA's driver 580 reads the first pixel
from everywhere."""


def read_pixel(kind: str, image: str, column: str, row: str) -> str:
    """The text that reads a pixel, a vector of four, in a program with `SAMPLER`.

    At its middle, in float: at integers that come of a difference, such as 5 - i, NVIDIA's driver 580 reads row 0.
    """
    return f"read_image{kind}({image}, exact_pixel, (float2)({column}, {row}) + 0.5f)"


@dataclass(frozen=True)
class PixelStore(Store):
    """A store of all channels of the pixel number index[0]: `value` and then `more`."""

    more: tuple[Term, ...] = ()


# -- which buffers are images -----------------------------------------------------------------------------------------


def plan_images(lowered: Lowered, places: Mapping[str, tuple[int, ...]], profile: Profile) -> dict[str, Image]:
    """The images among the buffers of a program.

    Raises BackendError for more than two physical axes, and for what the device's images cannot hold.
    """
    images: dict[str, Image] = {}
    names = {**lowered.inputs, **lowered.outputs}
    for name, cuts in places.items():
        buffer = lowered.buffers[names[name]]
        what = f"buffer {name!r} of shape {buffer.shape}"
        if len(cuts) != 1:
            problem = f"has {len(cuts) + 1} physical axes; target opencl takes 1 (a buffer) or 2 (an image)"
            raise BackendError(what, problem, "leave out an AXIS_SEPARATOR")
        if not profile.images:
            raise BackendError(what, f"is an image, and {profile.name} has none", "leave out the AXIS_SEPARATOR")
        if buffer.dtype not in CHANNEL_TYPES:
            raise BackendError(what, f"no image holds {buffer.dtype}", "cast it, or leave out the AXIS_SEPARATOR")
        if not all(buffer.shape):
            raise BackendError(what, "an image has no empty axis", "leave out the AXIS_SEPARATOR")
        channels = 4 if buffer.shape[-1] == 4 else 1
        (cut,) = cuts
        rows, columns = prod(buffer.shape[:cut]), prod(buffer.shape[cut:])
        image = Image(rows, columns, channels, buffer.dtype)
        if image.width > profile.images[0] or rows > profile.images[1]:
            limit = f"{profile.images[0]} x {profile.images[1]}"
            raise BackendError(what, f"is {image.label}; {profile.name} takes {limit}", "move the AXIS_SEPARATOR")
        images[names[name]] = image
    return images


# -- whole pixels -----------------------------------------------------------------------------------------------------


def stage(lowered: Lowered, images: Mapping[str, Image], simplifier: IndexSimplifier) -> Lowered:
    """The program with every store to an image a store of whole pixels.

    A kernel whose loops do not come in whole pixels fills a buffer of the workspace, which is copied.
    """
    buffers, moves, steps = dict(lowered.buffers), dict(lowered.moves), list[Step]()
    for step in lowered.steps:
        target = next((s.buffer for s in _stores(step) if s.buffer in images), None)
        if target is None or not isinstance(step, PrimFunc):
            steps.append(step)
            continue
        body = whole_pixels(step.body, target, images[target], simplifier)
        if body is not None:
            steps.append(replace(step, body=body))
            continue
        whole = buffers[target]
        flat = ProgramBuffer(f"{target}_flat", whole.shape, whole.dtype, "workspace", "the elements of an image")
        buffers[flat.name] = flat
        steps.append(with_names(step, {target: flat.name}))
        if step.name in moves:
            moves[step.name] = tuple(replace(m, out=replace(m.out, buffer=flat.name)) for m in moves[step.name])
        steps.append(_copy(f"{step.name}_image", flat, target, images[target], simplifier))
    return replace(lowered, buffers=buffers, steps=tuple(steps), moves=moves)


def _stores(step: Step) -> list[Store]:
    return [s for s in statements(step.body) if isinstance(s, Store)] if isinstance(step, PrimFunc) else []


def whole_pixels(stmt: Stmt, target: str, image: Image, simplifier: IndexSimplifier) -> Stmt | None:
    """The statement with stores of pixels in place of elements; None where its loops do not allow that."""
    if isinstance(stmt, Store):
        if stmt.buffer != target:
            return stmt
        return PixelStore(stmt.buffer, stmt.index, stmt.value) if image.channels == 1 else None
    if isinstance(stmt, For):
        unrolled = _unrolled(stmt, target, image, simplifier)
        if unrolled is not None:
            return unrolled
    if isinstance(stmt, If):
        return None
    found = [whole_pixels(part, target, image, simplifier) for part in children(stmt)]
    parts = [part for part in found if part is not None]
    return with_children(stmt, parts) if len(parts) == len(found) else None


def _unrolled(loop: For, target: str, image: Image, simplifier: IndexSimplifier) -> Stmt | None:
    """A loop that walks through the channels, in steps of a pixel."""
    inside = list[For]()
    stmt = loop.body
    while isinstance(stmt, For):
        inside.append(stmt)
        stmt = stmt.body
    if image.channels == 1 or not isinstance(stmt, Store) or stmt.buffer != target or loop.extent % image.channels:
        return None
    table = {u: k for k, u in linear_parts(stmt.index[0])[1]}
    rest = simplifier.simplify(stmt.index[0] - loop.axis)
    if table.get(loop.axis) != 1 or simplifier.simplify(rest % image.channels) is not t.index_const(0):
        return None
    axis = t.index_const(0)
    if loop.extent > image.channels:
        axis = t.make("axis", (t.index_const(loop.extent // image.channels),), loop.axis.payload)
    first, *more = (
        simplifier.simplify(substitute(stmt.value, {loop.axis: image.channels * axis + n}))
        for n in range(image.channels)
    )
    pixel = simplifier.simplify(substitute(stmt.index[0], {loop.axis: image.channels * axis}) // image.channels)
    body: Stmt = PixelStore(target, (pixel,), first, tuple(more))
    for other in reversed(inside):
        body = replace(other, body=body)
    return For(axis, body, loop.kind) if axis.op == "axis" else body


def _copy(name: str, source: ProgramBuffer, target: str, image: Image, simplifier: IndexSimplifier) -> PrimFunc:
    size = prod(source.shape)
    axis = t.ax(0, size)
    elements = For(axis, Store(target, (axis,), load(source.name, [axis], source.dtype)))
    body = whole_pixels(elements, target, image, simplifier)
    assert body is not None
    decls = {n: BufferDecl(n, (size,), source.dtype) for n in (source.name, target)}
    return PrimFunc(name, (source.name, target), decls, body, "to an image")


def row_and_column(pixel: Term, image: Image, simplifier: IndexSimplifier) -> tuple[Term, Term]:
    """The row and the column of a pixel."""
    return simplifier.simplify(pixel // image.width), simplifier.simplify(pixel % image.width)


def pixel_loads(term: Term, images: Mapping[str, Image], simplifier: IndexSimplifier) -> Term:
    """The term with row, column and channel as the indices of loads from images."""

    def change(node: Term) -> Term | None:
        image = images.get(node.payload) if node.op == "load" else None
        if image is None:
            return None
        pixel = simplifier.simplify(node.args[0] // image.channels)
        channel = simplifier.simplify(node.args[0] % image.channels)
        return load(node.payload, [*row_and_column(pixel, image, simplifier), channel], node.dtype)

    return transform(term, change) if images else term

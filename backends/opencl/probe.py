"""Whether a device reads and writes images of a format rightly: tried out before the first use, and remembered.

Drivers list formats that they get wrong: PoCL 3.0 reads the same number from everywhere in an image of one float16
channel. A program that would compute with such numbers is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from eqsat.backends import cache
from eqsat.backends.opencl.arrays import image_format
from eqsat.backends.opencl.device import OpenDevice, build, driver_identity, failures, opencl
from eqsat.backends.opencl.image import SAMPLER, Image, read_pixel
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.errors import BackendError

WIDTH, HEIGHT = 5, 3
"""The image that is tried; odd, so that rows begin at odd places."""

LANES = "xyzw"
"""The channels of a pixel in registers."""

GET = """\
__kernel void get_LANE(__read_only image2d_t image, __global ELEMENT *restrict pixels)
{
    const int item = (int)get_global_id(0);
    if (item < COUNT) {
        const int row = item / WIDTH;
        const int column = item % WIDTH;
        pixels[WIDTH * row + column] = READ.LANE;
        pixels[WIDTH * row + column + COUNT] = BACK.LANE;
    }
}
"""
"""A kernel for each channel, in the form of those that programs get: a driver may be wrong where no other is used,
right where a kernel asks for an image's width, and wrong again where coordinates are differences."""

PUT = """\
__kernel void put(__global const VECTOR *pixels, __write_only image2d_t image)
{
    const int item = (int)get_global_id(0);
    write_imageKIND(image, (int2)(item % WIDTH, item / WIDTH), pixels[item]);
}
"""


def trial_source(image: Image) -> str:
    """The kernels that try an image."""
    read = read_pixel(image.kind, "image", "column", "row")
    back = read_pixel(image.kind, "image", f"{image.width - 1} - column", f"{image.rows - 1} - row")
    get = GET.replace("READ", read).replace("BACK", back)
    gets = [get.replace("LANE", lane) for lane in LANES[: image.channels]]
    text = "\n".join([SAMPLER, *gets, PUT])
    numbers = {"COUNT": str(image.rows * image.width), "WIDTH": str(image.width)}
    facts = {"ELEMENT": image.vector[:-1], "VECTOR": image.vector, "KIND": image.kind, **numbers}
    for name, fact in facts.items():
        text = text.replace(name, fact)
    return text


def check_images(where: OpenDevice, images: Mapping[str, Image]) -> None:
    """Refuse a program with images of which the device makes other numbers than they hold."""
    for image in images.values():
        wrong = _wrong(where, Image(HEIGHT, WIDTH * image.channels, image.channels, image.dtype))
        if wrong:
            driver = f"{where.device.platform.version.strip()}, driver {where.device.driver_version.strip()}"
            problem = f"{where.profile.name} {wrong} such an image wrongly: a trial came out otherwise ({driver})"
            others = "cast to float32, " if image.dtype == "float16" else ""
            fix = f"leave out the AXIS_SEPARATOR, {others}or update the driver"
            raise BackendError(image.label, problem, fix)


@lru_cache(maxsize=64)
def _found(facts: tuple[str, ...]) -> list[str]:
    """Where the answer of this process is kept; the list is empty until it is known."""
    return []


def _wrong(where: OpenDevice, image: Image) -> str:
    """What the device does wrongly with a format ("reads", "writes"); nothing where all is right."""
    facts = (*driver_identity(where.device), image.label, trial_source(image))
    found = _found(facts)
    if not found:
        name = f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}.json"
        kept = cache.answer("opencl", name, "wrong")
        if not isinstance(kept, str):
            kept = _tried(where, image)
            cache.keep("opencl", name, json.dumps({"wrong": kept, "image": image.label, "driver": facts[:8]}))
        found.append(kept)
    return found[0]


def sample(image: Image) -> NDArray:
    """Pixels that tell places, channels, signs and sizes apart, exactly as the element type has them."""
    count = image.rows * image.columns
    if is_float(image.dtype):
        numbers = (np.arange(count) * 37 % 101 - 50) / 8
    elif image.dtype == "bool":
        numbers = np.arange(count) * 5 % 7 % 2
    else:
        least, most = np.iinfo(image.dtype).min, np.iinfo(image.dtype).max
        numbers = np.linspace(float(least), float(most), count)
    return numbers.astype(image.dtype).reshape(image.rows, image.width, image.channels)


def _tried(where: OpenDevice, image: Image) -> str:
    """Read an image and write one with the device, and compare with what the host sees."""
    cl = opencl()
    with failures(f"trial of {image.label} on {where.profile.name}"):
        flags, wanted = cl.mem_flags.READ_WRITE, image_format(image)
        if wanted not in cl.get_supported_image_formats(where.context, flags, cl.mem_object_type.IMAGE2D):
            return ""  # refused, with that reason, where an image is made
        kernels = {k.function_name: k for k in build(where, trial_source(image)).all_kernels()}
        given = sample(image)
        made: Any = cl.create_image(where.context, flags, wanted, shape=(image.width, image.rows))
        region = {"origin": (0, 0), "region": (image.width, image.rows), "is_blocking": True}
        element = {"f": "float32", "i": "int32", "ui": "uint32"}[image.kind]
        shape = (image.rows, image.width, 4)
        wide, got = np.zeros((2, *shape), element), np.zeros((2, *shape[:2]), element)
        pixels = cl.Buffer(where.context, flags, wide.nbytes)
        items = (image.width * image.rows,)

        cl.enqueue_copy(where.queue, made, given, **region)
        for channel, lane in enumerate(LANES[: image.channels]):
            kernels[f"get_{lane}"](where.queue, items, None, made, pixels)
            cl.enqueue_copy(where.queue, got, pixels)
            wide[..., channel] = got
        right = given.astype(element), given[::-1, ::-1].astype(element)
        wrong = [] if np.array_equal(wide[..., : image.channels], right) else ["reads"]

        wide[0, ..., : image.channels] = given
        cl.enqueue_copy(where.queue, pixels, wide)
        cl.enqueue_copy(where.queue, made, np.zeros_like(given), **region)
        kernels["put"](where.queue, items, None, pixels, made)
        back = np.ones_like(given)
        cl.enqueue_copy(where.queue, back, made, **region)
        return " and ".join(wrong if np.array_equal(back, given) else [*wrong, "writes"])

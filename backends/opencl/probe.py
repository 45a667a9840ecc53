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
from eqsat.backends.opencl.image import Image
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.errors import BackendError

WIDTH, HEIGHT = 5, 3
"""The image that is tried; odd, so that rows begin at odd places."""

SOURCE = """\
__kernel void get(__read_only image2d_t image, __global VECTOR *pixels)
{
    const int k = get_global_id(0), width = get_image_width(image);
    pixels[k] = read_imageKIND(image, (int2)(k % width, k / width));
}

__kernel void put(__global const VECTOR *pixels, __write_only image2d_t image)
{
    const int k = get_global_id(0), width = get_image_width(image);
    write_imageKIND(image, (int2)(k % width, k / width), pixels[k]);
}
"""


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
    facts = (*driver_identity(where.device), image.label, SOURCE)
    found = _found(facts)
    if not found:
        name = f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}.json"
        kept = _kept(name)
        if kept is None:
            kept = _tried(where, image)
            cache.keep("opencl", name, json.dumps({"wrong": kept, "image": image.label, "driver": facts[:8]}))
        found.append(kept)
    return found[0]


def _kept(name: str) -> str | None:
    folder = cache.folder("opencl")
    held = None if folder is None else cache.read(folder / name)
    if held is None:
        return None
    try:
        wrong = json.loads(held)["wrong"]
    except (ValueError, KeyError, TypeError):
        return None
    return wrong if isinstance(wrong, str) else None


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
        source = SOURCE.replace("VECTOR", image.vector).replace("KIND", image.kind)
        kernels = {k.function_name: k for k in build(where, source).all_kernels()}
        given = sample(image)
        made: Any = cl.create_image(where.context, flags, wanted, shape=(image.width, image.rows))
        region = {"origin": (0, 0), "region": (image.width, image.rows), "is_blocking": True}
        wide = np.zeros((image.rows, image.width, 4), {"f": "float32", "i": "int32", "ui": "uint32"}[image.kind])
        pixels = cl.Buffer(where.context, flags, wide.nbytes)
        items = (image.width * image.rows,)

        cl.enqueue_copy(where.queue, made, given, **region)
        kernels["get"](where.queue, items, None, made, pixels)
        cl.enqueue_copy(where.queue, wide, pixels)
        wrong = [] if np.array_equal(wide[..., : image.channels], given.astype(wide.dtype)) else ["reads"]

        wide[:] = 0
        wide[..., : image.channels] = given
        cl.enqueue_copy(where.queue, pixels, wide)
        cl.enqueue_copy(where.queue, made, np.zeros_like(given), **region)
        kernels["put"](where.queue, items, None, pixels, made)
        back = np.ones_like(given)
        cl.enqueue_copy(where.queue, back, made, **region)
        return " and ".join(wrong if np.array_equal(back, given) else [*wrong, "writes"])

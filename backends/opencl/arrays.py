"""Arguments that lie on the device: pyopencl arrays and images, checked as numpy arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.backends.interface import ProgramBuffer
from eqsat.backends.opencl.device import OpenDevice, opencl
from eqsat.backends.opencl.image import Image
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.shape import static_shape


def on_device(value: Any) -> bool:
    """Whether a value is memory of a device: a pyopencl array or image."""
    return type(value).__module__.startswith("pyopencl")


def stand_in(name: str, value: Any, x: Tensor) -> NDArray:
    """A numpy array without memory, of the shape and type of a device array; of an image, those that are expected."""
    if isinstance(value, opencl().Image):
        shape = static_shape(x.shape)
        if shape is None:
            problem = "an image does not tell the sizes of its symbols"
            raise EvaluationError(f"input {name!r}", problem, "pass an array, or compile with numbers")
        return np.broadcast_to(np.zeros((), x.dtype), shape)
    return np.broadcast_to(np.zeros((), getattr(value, "dtype", "V1")), getattr(value, "shape", ()))


def check_device_array(what: str, value: Any, buffer: ProgramBuffer, image: Image | None, where: OpenDevice) -> Any:
    """The value, if it is memory of this context that a kernel can take for the buffer; else EvaluationError."""
    cl = opencl()
    wanted = f"{buffer.dtype}{buffer.shape}" if image is None else image.label
    if isinstance(value, cl.Image):
        if image is None:
            raise EvaluationError(what, f"is an image, expected a pyopencl array {wanted}", "declare it in buffers=")
        same = value.format == image_format(image) and (value.width, value.height) == (image.width, image.rows)
        context = value.context
    elif image is not None or not hasattr(value, "base_data"):
        raise EvaluationError(what, f"is {type(value).__name__}, expected {wanted}", "pass a numpy array, or that")
    else:
        same = value.dtype.name == buffer.dtype and value.shape == buffer.shape
        context = value.context
        if not value.flags.c_contiguous or value.offset:
            raise EvaluationError(what, "is not dense row-major memory from its start", "pass a copy")
    if not same:
        got = f"{value.format}" if image is not None else f"{value.dtype}{value.shape}"
        raise EvaluationError(what, f"got {got}, expected {wanted}")
    if context != where.context:
        raise EvaluationError(what, "lies in another context", "compile with device= its context or queue")
    return value


def image_format(image: Image) -> Any:
    """The format of an image in pyopencl's terms."""
    cl = opencl()
    order = cl.channel_order.RGBA if image.channels == 4 else cl.channel_order.R
    return cl.ImageFormat(order, getattr(cl.channel_type, image.channel_type))


def same_memory(a: Any, b: Any) -> bool:
    """Whether two device arrays are the same memory."""
    return on_device(a) and on_device(b) and getattr(a, "base_data", a) == getattr(b, "base_data", b)


def settle(value: Any, queue: Any) -> None:
    """Wait for what another queue still does to a device array."""
    if on_device(value) and hasattr(value, "base_data") and value.queue not in (None, queue):
        value.queue.finish()


def is_queued(value: Any, queue: Any) -> bool:
    """Whether whoever uses the value next does so on this queue, and so need not be waited for."""
    return on_device(value) and getattr(value, "queue", None) == queue

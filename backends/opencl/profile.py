"""What the code generator asks about an OpenCL device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from eqsat.ir.dtypes import BFLOAT16, COMPLEX
from eqsat.ir.errors import BackendError


@dataclass(frozen=True)
class Profile:
    """The facts of a device that decide what its kernels look like."""

    name: str = "an OpenCL device"
    kind: str = "cpu"
    """cpu: a few heavy work-items with loops inside; gpu: one work-item for each position."""
    units: int = 1
    """Compute units."""
    group: int = 1
    """The most work-items in a group."""
    local_bytes: int = 0
    double: bool = True
    exact_division: bool = True
    """Whether float32 division and square root round correctly on request."""
    images: tuple[int, int] | None = None
    """The largest width and height of an image, where there are images."""
    alignment: int = 64
    """Bytes at which a part of a buffer may start."""
    whole_vectors: bool = False
    """Whether every buffer begins at a multiple of 16 bytes: memory of the device, never the host's own arrays."""
    largest: int = 1 << 62
    """Bytes of the largest buffer."""
    tile: str = "padded"
    """Where the cells of a transposed tile lie in local memory: one of `local_tiles.LAYOUTS`."""

    def require(self, what: str, held: Collection[str]) -> None:
        """BackendError where a kernel holds a type that OpenCL C, or this device, has not."""
        strange = next((d for d in held if d == BFLOAT16 or d in COMPLEX), None)
        if strange is not None:
            raise BackendError(what, f"has {strange}, which target opencl has not", "use target c")
        if "float64" in held and not self.double:
            problem = f"needs float64, which {self.name} has not (cl_khr_fp64)"
            raise BackendError(what, problem, "cast, or choose another device")

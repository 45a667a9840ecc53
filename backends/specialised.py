"""Programs with symbols: one compiled module for each set of sizes, and what the latest one says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from eqsat.ir.errors import BackendError
from eqsat.ir.shown import card, folded
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.shape import static_shape
from eqsat.ir.terms.term import Term

if TYPE_CHECKING:
    from eqsat.backends.lowering.lowered import Lowered

Sizes = Mapping[Term, int]


class Module(Protocol):
    """A program with numbers for its symbols."""

    @property
    def source(self) -> str: ...
    @property
    def header(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def lowered(self) -> Lowered: ...


M = TypeVar("M", bound=Module)


class Specialised(Generic[M]):
    """The part of a kernel that targets share. Each has `_made`, a module for sizes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._modules: dict[tuple[tuple[Term, int], ...], M] = {}
        self._symbolic = any(static_shape(shape) is None for n in program.all_nodes() for shape, _ in n.outputs)

    def _repr_html_(self) -> str:
        if self._symbolic and not self._modules:
            return card(f"kernel {self.program.name}", "not called yet: its sizes have no values")
        facts = {"workspace": f"{self.workspace_bytes} bytes"}
        texts = folded("header", self.header) + folded("source", self.source)
        return card(f"kernel {self.program.name}", "", facts, texts)

    def _made(self, sizes: Sizes) -> M:
        raise BackendError(f"program {self.program.name!r}", "has no target")

    def _module(self, sizes: Sizes) -> M:
        """The module of these sizes, made once."""
        key = tuple(sorted(sizes.items(), key=lambda item: item[0].digest))
        if key not in self._modules:
            self._modules[key] = self._made(sizes)
        return self._modules[key]

    def _latest(self) -> M:
        if not self._modules:
            raise BackendError(
                f"source of program {self.program.name!r}", "its symbols have no value yet", "call the kernel first"
            )
        return list(self._modules.values())[-1]

    @property
    def source(self) -> str:
        """The program in the target's language (of the sizes of the latest call, where there are symbols)."""
        return self._latest().source

    @property
    def header(self) -> str:
        """The header of the exported C functions; of an OpenCL program, its kernels in the order of their launches."""
        return self._latest().header

    @property
    def workspace_bytes(self) -> int:
        """The memory that a call needs besides inputs, outputs and constants."""
        return self._latest().workspace_bytes

    @property
    def lowered(self) -> Lowered:
        """The statements that the source prints."""
        return self._latest().lowered

"""Functions over buffers compiled to OpenCL: arrays of the host go to the device and back in every call."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from eqsat.backends.c.function import written
from eqsat.backends.functions.call import Arguments, bound_arguments, report_failed, size_value
from eqsat.backends.functions.cl_printer import ClStatementPrinter
from eqsat.backends.functions.prepare import Prepared, prepare
from eqsat.backends.opencl.device import build, check_process, failures, open_device, opencl
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms import term as t


class ClFunctionKernel:
    """A PrimFunc compiled to OpenCL; made by `eq.compile(func, target="opencl")`.

    One work-item runs it, or one for each position of its outermost loop where that is marked parallel. Called as the
    kernels of target c are: all parameters, numpy arrays that are changed in place.
    """

    header = ""

    def __init__(self, func: PrimFunc, threads: int | None = None, device: Any = None) -> None:
        self.func = func
        self.where = open_device(device, threads)
        self.prepared: Prepared = prepare(func)
        self.written = {n for n in written(func) if n in func.params}
        self.printer = ClStatementPrinter(self.prepared, self.where.profile)
        self.source = self.printer.source()
        self.kernel: Any = build(self.where, self.source).run
        self.lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        raise BackendError("pickle of an OpenCL kernel", "a device cannot be pickled", "pickle k.func, compile that")

    @property
    def workspace_bytes(self) -> int:
        """The memory of the device for local buffers, for the greatest sizes that the kernel takes."""
        return size_value(self.printer.workspace, {s: t.symbol_facts(s).upper or 0 for s in self.prepared.names})

    def __call__(self, /, *args: Any, **arrays: Any) -> None:
        """Run on numpy arrays by name; sizes by the names of their symbols."""
        self.bind(*args, **arrays)()

    def bind(self, /, *args: Any, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments: checked now, run as often as it is called."""
        checked = bound_arguments(self.prepared, self.written, args, arrays)

        def call() -> None:
            check_process()
            with self.lock, failures(f"function {self.func.name} on {self.where.profile.name}"):
                self._run(checked)

        return call

    def _run(self, checked: Arguments) -> None:
        cl, queue = opencl(), self.where.queue
        flags = cl.mem_flags
        status = np.zeros(1, np.int32)
        memory: dict[str, NDArray] = {**checked.memory}
        if self.prepared.checked.status:
            memory[self.prepared.checked.status] = status.view(np.uint8)
        held: dict[str, Any] = {}
        for name, raw in memory.items():
            full = raw if raw.size else np.zeros(8, np.uint8)
            held[name] = cl.Buffer(self.where.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=full)
        sizes = checked.sizes
        kind = np.int64 if self.prepared.index == "int64_t" else np.int32
        numbers = [kind(sizes[s]) for s in self.prepared.names]
        local = [
            cl.Buffer(self.where.context, flags.READ_WRITE, max(size_value(self.prepared.nbytes(p.decl), sizes), 1))
            for p in self.printer.parts.values()
        ]
        params = self.prepared.checked.func.params
        self.kernel.set_args(*(held[n] for n in params), *numbers, *local)
        items = max(size_value(self.printer.items, sizes), 1)
        cl.enqueue_nd_range_kernel(queue, self.kernel, (items,), None)
        for name in (*self.written, *([self.prepared.checked.status] if self.prepared.checked.status else [])):
            if memory[name].size:
                cl.enqueue_copy(queue, memory[name], held[name])
        queue.finish()
        report_failed(self.prepared, status)

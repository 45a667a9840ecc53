"""The kernels of eqsat and the peers that are Python packages, as adapters that make calls without arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from eqsat.backends.compile import compile
from eqsat.ir.dtypes import NDArray
from kernel_suite.case import Case
from kernel_suite.fused import Fused
from kernel_suite.native import Call

Task = Case | Fused


class Peer(Protocol):
    """One way of doing the cases; several calls for one case are variants, of which the quickest counts."""

    name: str
    needs: str

    def found(self) -> str | None:
        """The version that is here, or None."""
        ...

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        """Calls that fill `out` from `x`, prepared as far as the peer allows; none if it cannot do the case."""
        ...


def package_version(package: str, module: str | None = None) -> str | None:
    """The version of an installed package, or None."""
    return version(package) if find_spec(module or package) is not None else None


def in_order(*calls: Call) -> Call:
    """One call that makes several."""
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


class Eqsat:
    """The kernels under test, by their leanest call."""

    def __init__(self, tune: bool = False) -> None:
        self.tune = tune
        self.name = "eqsat tuned" if tune else "eqsat"
        self.needs = "nothing"

    def found(self) -> str | None:
        return version("eqsat")

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        kernel: Any = compile(task.program(), threads=threads, tune=self.tune)
        if self.tune and kernel.source == compile(task.program(), threads=threads).source:
            # The tuner kept the default: there is nothing to compare.
            return []
        return [kernel.bind(x=x, out=out)]


class Numpy:
    """Strided assignment."""

    name = "numpy"
    needs = "pip install numpy"

    def found(self) -> str | None:
        return version("numpy")

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        if isinstance(task, Fused):
            return [task.with_numpy(x, out)]
        zeros, pairs = task.copies(x, out)
        fills = [partial(np.copyto, view, 0) for view in zeros]
        return [in_order(*fills, *(partial(np.copyto, target, source) for target, source in pairs))]


class Torch:
    """Strided `copy_`."""

    name = "torch"
    needs = "pip install torch==2.13.0"

    def found(self) -> str | None:
        return package_version("torch")

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        torch: Any = import_module("torch")
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if isinstance(task, Fused):
            return [] if task.with_torch is None else [task.with_torch(torch, x, out)]
        zeros, pairs = task.copies(x, out)
        fills = [torch.from_numpy(view).zero_ for view in zeros]
        moves = [partial(torch.from_numpy(t).copy_, torch.from_numpy(s)) for t, s in pairs]
        return [in_order(*fills, *moves)]


class Einops:
    """`rearrange` over numpy; a result is made and copied only where numpy has no view of it."""

    name = "einops"
    needs = "pip install einops"

    def found(self) -> str | None:
        return package_version("einops")

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        if isinstance(task, Fused) or task.crop or task.pad:
            return []
        rearrange: Any = import_module("einops").rearrange
        names = [f"a{k}" for k in range(len(task.reshape))]
        left = " ".join("(" + " ".join(names[a] for a in group) + ")" for group in task.groups)
        pattern = f"{left} -> {' '.join(names[a] for a in task.transpose)}"
        sizes = dict(zip(names, task.reshape, strict=True))
        return [lambda: np.copyto(out, rearrange(x, pattern, **sizes))]


class Tvm:
    """TVM's default schedule for this processor; the outer loops in parallel where there are several threads."""

    name = "tvm"
    needs = "pip install apache-tvm"

    def found(self) -> str | None:
        return package_version("apache-tvm", "tvm")

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        if isinstance(task, Fused):
            return []
        tvm: Any = import_module("tvm")
        te: Any = import_module("tvm.te")
        source = te.placeholder(task.shape, task.dtype, name="x")

        def element(*index: Any) -> Any:
            at, inside = _source_index(task, index)
            value = source[tuple(at)]
            return te.if_then_else(te.all(*inside), value, te.const(0, task.dtype)) if inside else value

        made = te.create_prim_func([source, te.compute(task.out_shape, element, name="y")])
        module = tvm.IRModule({"main": made})
        if threads > 1:
            schedule: Any = import_module("tvm.s_tir").Schedule(module)
            loops = schedule.get_loops(schedule.get_sblock("y"))
            schedule.parallel(schedule.fuse(*loops[: max(1, len(loops) - 2)]))
            module = schedule.mod
            tvm.get_global_func("runtime.config_threadpool")(1, threads)
        cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
        main: Any = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "mcpu": cpu}))["main"]
        wrap: Any = tvm.runtime.from_dlpack
        return [partial(main, wrap(x), wrap(out))]


def _source_index(task: Case, index: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Where an element of the output is in the input, and the conditions under which it is there at all."""
    split: dict[int, Any] = dict(zip(task.transpose, index, strict=True))
    at: list[Any] = []
    inside: list[Any] = []
    for group, (start, stop), (before, after) in zip(task.groups, task.ranges, task.pads, strict=True):
        place: Any = 0
        for axis in group:
            place = place * task.reshape[axis] + split[axis]
        if before:
            inside.append(place >= before)
        if after:
            inside.append(place < before + stop - start)
        at.append(place - before + start)
    return at, inside


class OnnxRuntime:
    """A model of Slice, Pad, Reshape and Transpose, its input and output bound to memory."""

    name = "onnxruntime"
    needs = "pip install onnxruntime onnx"

    def found(self) -> str | None:
        return package_version("onnxruntime") if find_spec("onnx") is not None else None

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        if isinstance(task, Fused):
            return []
        runtime: Any = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # Its threads would wait busily into the next peer's turn.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = runtime.InferenceSession(_onnx_model(task), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, x.dtype.type, x.shape, x.ctypes.data)
        binding.bind_output("y", "cpu", 0, out.dtype.type, out.shape, out.ctypes.data)
        return [partial(session.run_with_iobinding, binding)]


def _onnx_model(task: Case) -> bytes:
    onnx: Any = import_module("onnx")
    helper: Any = import_module("onnx.helper")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(task.dtype))
    nodes: list[Any] = []
    constants: list[Any] = []

    def add(op: str, numbers: Sequence[Sequence[int]], **attributes: Any) -> None:
        names = [f"k{len(constants) + k}" for k in range(len(numbers))]
        constants.extend(
            helper.make_tensor(n, onnx.TensorProto.INT64, [len(v)], list(v))
            for n, v in zip(names, numbers, strict=True)
        )
        source = nodes[-1].output[0] if nodes else "x"
        nodes.append(helper.make_node(op, [source, *names], [f"t{len(nodes)}"], **attributes))

    axes = range(len(task.shape))
    if task.crop:
        add("Slice", [[a for a, _ in task.crop], [b for _, b in task.crop], list(axes)])
    if task.pad:
        add("Pad", [[a for a, _ in task.pad] + [b for _, b in task.pad]])
    if task.reshape != tuple(b - a + p + q for (a, b), (p, q) in zip(task.ranges, task.pads, strict=True)):
        add("Reshape", [list(task.reshape)])
    if task.transpose != tuple(range(len(task.transpose))):
        add("Transpose", [], perm=list(task.transpose))
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", kind, task.shape)],
        [helper.make_tensor_value_info("y", kind, task.out_shape)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model.SerializeToString()

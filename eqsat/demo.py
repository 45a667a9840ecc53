"""`python -m eqsat.demo`: a chain of layout changes compiled, and two ONNX models optimised and checked, with reasons.

Exit code 1 where a check fails; with --strict also where a part had to be skipped.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsat import interrupt, streams
from eqsat.cli.output import Output
from eqsat.interrupt_start import CODE
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError, EqsatError, MissingPackage
from eqsat.ir.tensors.tensor import Tensor, input
from eqsat.timing import interleaved

if TYPE_CHECKING:
    from onnx import ModelProto

SHAPE = (1, 64, 112, 112)
WHEEL, MODEL = "ddddocr", "common_det.onnx"
WIDTH = 116


@dataclass
class Stage:
    """What a run of the demo has met: failed checks and skipped parts."""

    folder: Path
    failed: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    reports: list[Path] = field(default_factory=list[Path])

    def say(self, *lines: str) -> None:
        """Print lines at once, so that a slow part is seen to begin."""
        if lines:
            print("\n".join(lines), flush=True)

    def check(self, name: str, passed: bool, detail: str = "") -> None:
        """Print a verdict, and remember it where it is bad."""
        self.say(f"  {'ok  ' if passed else 'FAIL'} {name}{detail}")
        if not passed:
            self.failed.append(name)

    def skip(self, what: str, why: str) -> None:
        """Say what is left out and why."""
        self.say(f"  SKIPPED {what}: {why}")
        self.skipped.append(what)


# -- the chain --------------------------------------------------------------------------------------------------------


def chain(x: Tensor) -> Tensor:
    """NCHW to NCHW16c; relu; to NCHW8c; pad height and width by 1; crop back; to NCHW.

    >>> chain(input("x", (1, 32, 4, 4), "float32")).shape
    (1, 32, 4, 4)
    """
    y = x.layout_transform("NCHW", "NCHW16c").relu().layout_transform("NCHW16c", "NCHW8c")
    starts, sizes = (0, 0, 1, 1, 0), y.shape
    y = y.pad([(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)]).crop(starts, sizes)
    return y.layout_transform("NCHW8c", "NCHW")


def chain_in_numpy(x: NDArray) -> NDArray:
    """The same, step by step."""
    n, c, h, w = x.shape
    y: NDArray = x.reshape(n, c // 16, 16, h, w).transpose(0, 1, 3, 4, 2)
    y = np.maximum(y, 0)
    y = y.reshape(n, c // 16, h, w, 2, 8).transpose(0, 1, 4, 2, 3, 5).reshape(n, c // 8, h, w, 8)
    y = np.pad(y, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))[:, :, 1:-1, 1:-1]
    return y.transpose(0, 1, 4, 2, 3).reshape(n, c, h, w)


def show_chain(stage: Stage) -> None:
    """Optimise, explain, compile, check and time the chain."""
    from eqsat.backends.compile import compile
    from eqsat.engine import optimize

    program = chain(input("x", SHAPE, "float32"))
    stage.say("", "== 1. A chain of layout changes", "", _indented(_program(program)), "")
    with Output().progress("optimising"):
        result = optimize(program)
    stage.say(
        "optimised, it is", "", _indented(_program(result.program)), "", _indented(result.summary(verbose=True)), ""
    )
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    expected = chain_in_numpy(x)
    try:
        with Output().progress("compiling"):
            before, after = compile(program), compile(result.program)
    except BackendError as error:
        stage.skip("compiling the chain", str(error))
        return
    n, c, h, w = SHAPE
    wrong = program.reshape((n, h, c, w)).permute_dims((0, 2, 1, 3))
    stage.check("the check can fail", not np.array_equal(compile(wrong)(x=x), expected), ": a wrong layout is noticed")
    stage.check("compiled as written = numpy, bit by bit", np.array_equal(before(x=x), expected))
    stage.check("compiled optimised = numpy, bit by bit", np.array_equal(after(x=x), expected))
    out = np.empty_like(x)
    rows: list[tuple[str, Callable[[], Any]]] = [
        ("numpy, step by step", lambda: chain_in_numpy(x)),
        ("compiled as written", lambda: before(x=x, out=out)),
        ("compiled optimised", lambda: after(x=x, out=out)),
        ("numpy, only the relu", lambda: np.maximum(x, 0, out=out)),
    ]
    with Output().progress("timing"):
        times = interleaved([action for _, action in rows], seconds=2.0)
    stage.say("", f"  median times for float32{SHAPE}:")
    for (name, _), seconds in zip(rows, times, strict=True):
        stage.say(f"    {name:22} {seconds * 1e3:8.3f} ms {times[0] / seconds:7.1f} x")


def _program(program: Any) -> str:
    from eqsat.ir.tensors.program_text import format_program
    from eqsat.ir.tensors.tensor import as_program

    return format_program(as_program(program))


def _indented(text: str, limit: int = 10_000) -> str:
    lines = text.splitlines()
    shown = [f"  {line if len(line) <= WIDTH else line[: WIDTH - 3] + '...'}" for line in lines[:limit]]
    return "\n".join(shown + ([f"  ... {len(lines) - limit} more lines"] if len(lines) > limit else []))


# -- models -----------------------------------------------------------------------------------------------------------


def show_models(stage: Stage) -> None:
    """Optimise a converter's network and a real model."""
    try:
        from eqsat.nets import nhwc_converter_net
        from eqsat.onnx import load_model
    except ImportError as error:
        stage.skip("the two models", f"the package {error.name} is not installed (pip install eqsat[onnx])")
        return
    stage.say("", "== 2. A network as an NHWC converter emits it: a transpose pair around each of 20 convolutions", "")
    show_model(stage, "converter", nhwc_converter_net())
    stage.say("", f"== 3. A real model: {MODEL} from the wheel of {WHEEL}", "")
    path = real_model()
    if path is None:
        stage.skip(MODEL, f"the wheel {WHEEL} is not installed (pip install --no-deps {WHEEL})")
        return
    show_model(stage, Path(MODEL).stem, load_model(path))


def real_model() -> Path | None:
    """The detector in the wheel, found without importing it."""
    try:
        listed = files(WHEEL) or []
    except PackageNotFoundError:
        return None
    paths = [Path(str(f.locate())) for f in listed if f.name == MODEL]
    return next((p for p in paths if p.is_file()), None)


def show_model(stage: Stage, name: str, model: ModelProto) -> None:
    """Optimise one model, explain, check and write it."""
    import eqsat.onnx
    from eqsat.cli.optimize_job import comparison_lines
    from eqsat.onnx.check import compare_models
    from eqsat.verifying.verify import verify

    begun = time.perf_counter()
    with Output().progress("optimising"):
        result = eqsat.onnx.optimize(model)
    seconds = time.perf_counter() - begun
    stage.say(f"  optimised in {seconds:.1f} s", "", _indented(result.summary()), "")
    with Output().progress("proving"):
        proof = verify(eqsat.onnx.load(model), eqsat.onnx.load(result.model))
    stage.check("never worse", result.cost_after <= result.cost_before)
    stage.check("proved equal by the rules", bool(proof), f": {proof.method}, {proof.seconds:.1f} s")
    try:
        with Output().progress("running both models"):
            comparison = compare_models(model, result.model)
    except MissingPackage as error:
        stage.skip(f"running {name}", str(error))
    else:
        stage.check("run on random inputs", comparison.ok)
        stage.say(*(f"       {line}" for line in comparison_lines(comparison)))
    target = stage.folder / f"{name}-optimised.onnx"
    stage.folder.mkdir(parents=True, exist_ok=True)
    eqsat.onnx.save_model(model, stage.folder / f"{name}.onnx")
    eqsat.onnx.save_model(result.model, target)
    stage.say(f"  written: {target}")
    stage.reports.append(stage.folder / f"{name}.html")
    replace(result, file=f"{name}.onnx").to_html(stage.reports[-1])


# -- the whole --------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; the answer is its exit code."""
    parser = argparse.ArgumentParser(prog="python -m eqsat.demo", description="Optimise, compile and check examples.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the models (demo-output)")
    parser.add_argument("--strict", action="store_true", help="fail where a part has to be skipped")
    options = parser.parse_args(argv)
    stage, begun = Stage(options.output), time.perf_counter()
    try:
        with streams.complete(), interrupt.watched():
            show_chain(stage)
            show_models(stage)
    except KeyboardInterrupt:
        print(f"demo: {interrupt.WORD}", file=sys.stderr)
        return CODE
    except (EqsatError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    stage.say("", f"{time.perf_counter() - begun:.0f} s in all.", *(f"FAILED: {name}" for name in stage.failed))
    stage.say(*(f"skipped: {name}" for name in stage.skipped))
    stage.say(*(f"open in a browser, to see what was done and why: {path}" for path in stage.reports))
    return 1 if stage.failed or (options.strict and stage.skipped) else 0


if __name__ == "__main__":
    sys.exit(main())

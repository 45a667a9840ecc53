"""The command line: answers, exit codes, files, JSON."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seeds import each_value

from eqsat.backends.arguments import named_arguments
from eqsat.backends.compile import compile
from eqsat.cli import main, optimize_job
from eqsat.cli.kernel import conversion_of, shape_of, timed
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.run import evaluate

COMMAND = (sys.executable, "-m", "eqsat")


class Answer:
    """What one command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> Answer:
        capsys.readouterr()
        code = main([str(a) for a in args])
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return call


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with conv.onnx, its broken copy wrong.onnx, window.onnx, symbols.onnx (x: N, 3, H, 8) and det.onnx."""
    pytest.importorskip("onnx")
    from eqsat import nets
    from eqsat.onnx import save_model
    from eqsat.onnx.check import transpose_mutants

    folder = tmp_path_factory.mktemp("models")
    save_model(nets.conv_chain(), folder / "conv.onnx")
    save_model(next(iter(transpose_mutants(nets.conv_chain()))), folder / "wrong.onnx")
    save_model(nets.window_partition(), folder / "window.onnx")
    net = nets.Net()
    x = net.transpose(net.add("Relu", net.transpose("x", 0, 2, 3, 1)), 0, 2, 1, 3)
    model = net.model([("x", ("N", 3, "H", 8))], [(x, ("N", 8, "H", 3))])
    save_model(model, folder / "symbols.onnx")
    net = nets.Net()
    save_model(net.model([("x", (2, 3, 3))], [(net.add("Det", "x"), (2,))]), folder / "det.onnx")
    return folder


# -- optimize and verify ----------------------------------------------------------------------------------------------


@pytest.mark.onnx
def test_optimize_writes_only_what_is_asked_for(run: Run, models: Path, tmp_path: Path) -> None:
    summary = run("optimize", models / "conv.onnx")
    assert summary.code == 0 and not any(tmp_path.iterdir())
    assert re.search(r"10,240 -> 4,096", summary.out)
    written = run("optimize", models / "conv.onnx", "-o", "new.onnx", "--report", "why.html", "--verify", "--json")
    assert written.code == 0
    assert written.data["bytes_before"] == 10240 and written.data["bytes_after"] == 4096
    assert written.data["verified"]["equal"] and written.data["verified"]["can_fail"]
    assert {p.name for p in tmp_path.iterdir()} == {"new.onnx", "why.html"}
    checked = run("verify", models / "conv.onnx", "new.onnx", "--json")
    assert (checked.code, checked.data["proof"]["verdict"], checked.data["equal"]) == (0, "proved", True)


@pytest.mark.onnx
def test_verify_fails_on_a_wrong_model(run: Run, models: Path) -> None:
    wrong = run("verify", models / "conv.onnx", models / "wrong.onnx", "--json")
    assert (wrong.code, wrong.data["equal"], wrong.data["comparison"]["equal"]) == (1, False, False)
    other = run("verify", models / "conv.onnx", models / "window.onnx")
    assert other.code == 1 and "input 'x' is float32(1, 8, 8, 4) in one" in other.out


@pytest.mark.onnx
def test_a_failed_verification_writes_nothing(run: Run, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import eqsat.onnx

    def broken(*args: Any, **options: Any) -> eqsat.onnx.OnnxResult:
        return replace(honest(*args, **options), model=eqsat.onnx.load_model(models / "wrong.onnx"), notes=())

    def here(job: str, argument: optimize_job.Job, *, report: Callable[[str], None], **_: float) -> optimize_job.Answer:
        return optimize_job.run(argument, report)

    monkeypatch.setattr("eqsat.cli.optimize.call", here)
    honest = eqsat.onnx.optimize
    monkeypatch.setattr(eqsat.onnx, "optimize", broken)
    failed = run("optimize", models / "conv.onnx", "-o", "new.onnx", "--report", "why.html", "--verify")
    assert failed.code == 1 and "nothing was written" in failed.out and not list(Path().iterdir())
    unchecked = run("optimize", models / "conv.onnx", "-o", "new.onnx")
    assert unchecked.code == 0 and Path("new.onnx").exists(), "the stand-in itself can be written"


@pytest.mark.onnx
def test_shape_fixes_named_dimensions(run: Run, models: Path) -> None:
    from eqsat.onnx import load_model

    done = run("optimize", models / "symbols.onnx", "--shape", "N=2,H=5", "--verify", "-o", "fixed.onnx")
    assert done.code == 0
    dims = load_model("fixed.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in dims] == [2, 3, 5, 8]
    assert run("verify", models / "symbols.onnx", "fixed.onnx").code == 1
    assert run("verify", models / "symbols.onnx", "fixed.onnx", "--shape", "N=2", "--shape", "H=5").code == 0


@pytest.mark.onnx
def test_target_c_writes_source(run: Run, models: Path) -> None:
    done = run("optimize", models / "window.onnx", "--target", "c", "-o", "net.c")
    assert done.code == 0 and "eqsat_net" in Path("net.c").read_text()
    assert run("optimize", models / "conv.onnx", "--target", "c", "-o", "conv.c").code == 0
    refused = run("optimize", models / "det.onnx", "--target", "c", "-o", "det.c")
    assert refused.code == 2 and "Det" in refused.err and not Path("det.c").exists()
    open_ends = run("optimize", models / "symbols.onnx", "--target", "c", "-o", "s.c")
    assert open_ends.code == 2 and "--shape" in open_ends.err and not Path("s.c").exists()
    assert run("optimize", models / "symbols.onnx", "--target", "c", "--shape", "N=2,H=3", "-o", "s.c").code == 0


# -- kernel -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "split", "order", "merged"),
    [
        ("NCHW -> NHWC", (2, 3, 4, 5), (), (0, 2, 3, 1), ()),
        ("NCHW -> NCHW4c", (2, 8, 3, 3), (2, 2, 4, 3, 3), (0, 1, 3, 4, 2), ()),
        ("NCHW4c->NCHW", (2, 2, 3, 3, 4), (), (0, 1, 4, 2, 3), (2, 8, 3, 3)),
        ("i, j -> j, i", (3, 4), (), (1, 0), ()),
        ("i -> i//4, i%4", (12,), (3, 4), (0, 1), ()),
        ("N -> N4n", (8,), (2, 4), (0, 1), ()),
    ],
)
def test_conversions(
    text: str, shape: tuple[int, ...], split: tuple[int, ...], order: tuple[int, ...], merged: tuple[int, ...]
) -> None:
    """A conversion is what numpy does by reshape, transpose, reshape."""
    array = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    expected = array.reshape(split or shape).transpose(order)
    expected = expected.reshape(merged or expected.shape)
    assert np.array_equal(evaluate(conversion_of(text, shape, "int32"), {"x": array}), expected)


def test_kernel_prints_source_and_speed(run: Run) -> None:
    plain = run("kernel", "NCHW -> NCHW16c", "--shape", "1,32,8,8")
    assert plain.code == 0 and "eqsat_program" in plain.out and "GB/s" not in plain.out
    padded = run("kernel", "NCHW -> NCHW16c", "--shape", "1,30,8,8", "--pad-value", "0", "--bench", "--json")
    assert padded.data["output_shape"] == [1, 2, 8, 8, 16]
    assert padded.data["bench"]["gb_per_second"] > 0 and padded.data["bench"]["of_copy"] > 0
    written = run("kernel", "i, j -> j, i", "--shape", "4,6", "--dtype", "int8", "-o", "t.c")
    assert written.code == 0 and "int8_t" in Path("t.c").read_text()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", "-1"),
        ("float16", "nan"),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in (("uint8", "255"), ("bool", "true"), ("float64", "-inf"))),
    ],
)
def test_pad_values_of_every_kind(run: Run, dtype: str, value: str) -> None:
    padded = run("kernel", "i -> i//4, i%4", "--shape", "14", "--dtype", dtype, "--pad-value", value, "--bench")
    assert padded.code == 0 and "GB/s" in padded.out


def test_a_kernel_is_timed_without_the_checks_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy beside it has none either."""
    y = conversion_of("i, j -> j, i", (3, 4), "float32")
    kernel = compile(y)
    checks: list[int] = []

    def counted(*args: Any) -> Any:
        checks.append(1)
        return named_arguments(*args)

    monkeypatch.setattr("eqsat.backends.c.kernel.named_arguments", counted)
    assert timed(y, kernel, "float32").kernel > 0 and len(checks) == 2


def test_shape_text() -> None:
    assert shape_of("(1, 64)") == (1, 64)
    assert (shape_of("(3,)"), shape_of("()"), shape_of(" 2 ,3, ")) == ((3,), (), (2, 3))
    for wrong in ("1,x", "1,,2", ",1", "1;2", "1 2", "-1", "1.0"):
        with pytest.raises(EqsatError, match="not a list of sizes"):
            shape_of(wrong)


# -- rules, explain, cache --------------------------------------------------------------------------------------------


def test_rules(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = run("rules", "list", "--json").data["rules"]
    laws = {r["name"]: r for r in listed}
    assert laws["split-merge"]["family"] == "split_merge" and len(laws) == len(listed) > 50
    assert laws["split-merge"]["acts"] == ["rewriter", "graph"] and laws["min-div"]["acts"] == ["graph"]
    assert set(laws["min-div"]["fires"]) == {"graph"} and laws["min-div"]["fires"]["graph"]["text"]
    assert "split-merge" in run("rules", "list").out
    checked = run("rules", "check", "split-merge", "compose", "--json")
    assert (checked.code, checked.data["counts"]) == (0, {"proved": 2})
    from eqsat.cli import rules as cli_rules
    from eqsat.ir.rule import Idx, Pos, rule

    @rule("wrong")
    def wrong(x: Idx, c: Pos):  # pyright: ignore[reportUnknownParameterType]
        return x // c * c, x

    monkeypatch.setattr(cli_rules, "all_rules", lambda: [wrong])
    refuted = run("rules", "check", "--json")
    assert (refuted.code, refuted.data["ok"], refuted.data["rules"][0]["status"]) == (1, False, "refuted")


@pytest.mark.parametrize(
    ("a", "b", "ranges", "code", "verdict"),
    [
        ("x//4*4 + x%4", "x", "", 0, "proved"),
        ("(8*i + j)//8", "i", "j=8", 0, "proved"),
        ("(8*i + j)//8", "i", "j=9,i=4", 1, "refuted"),
        ("(8*i + j)//8", "i", "j=0:8,i=:", 0, "proved"),
    ],
)
def test_explain(run: Run, a: str, b: str, ranges: str, code: int, verdict: str) -> None:
    answer = run("explain", a, b, "--ranges", ranges, "--json")
    assert (answer.code, answer.data["verdict"]) == (code, verdict)
    assert run("explain", a, b, "--ranges", ranges).code == code
    if verdict == "refuted":
        at = answer.data["witness"]
        assert (8 * at["i"] + at["j"]) // 8 != at["i"]
    elif not ranges:
        assert answer.data["rules"] == ["split-merge"]


def test_cache(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EQSAT_CACHE", str(folder))
    assert run("cache", "info", "--json").data["objects"]["entries"] == 0
    assert run("kernel", "i, j -> j, i", "--shape", "3,5").code == 0
    mine = [folder / name for name in ("mine.txt", "objects/notes.so.txt", "programs/mine.toml", "tuned/My notes")]
    (folder / "tuned").mkdir(exist_ok=True)
    for path in mine:
        path.touch()
    kept = run("cache", "info", "--json").data
    assert [kept[kind]["entries"] for kind in ("objects", "programs", "tuned")] == [1, 1, 0]
    assert "1 objects, 1 programs, 0 tuned, 0 opencl, " in run("cache", "clear").out
    kept = run("cache", "info", "--json").data
    assert all(entry["entries"] == 0 for entry in kept.values())
    assert sorted(p for p in folder.rglob("*") if p.is_file() and "sqlite" not in p.name) == sorted(mine)
    monkeypatch.setenv("EQSAT_CACHE", "off")
    assert run("kernel", "i, j -> j, i", "--shape", "3,7").code == 0
    kinds = ("verdicts", "objects", "programs", "tuned", "opencl", "machines", "reports", "unfinished")
    assert run("cache", "info").out.startswith("".join(f"{kind}: off\n" for kind in kinds) + "temporary: ")
    assert [p.name for p in tmp_path.iterdir()] == ["cache"]


# -- the process ------------------------------------------------------------------------------------------------------


def test_help_and_version(run: Run) -> None:
    for args in (["--help"], ["kernel", "--help"], ["rules", "check", "-h"], ["--version"]):
        answer = run(*args)
        assert (answer.code, answer.err) == (0, "") and answer.out, args
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", answer.out)
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "eqsat", "--help"], capture_output=True, text=True
    ).stderr
    assert "typer" in loaded and not re.search(
        r"\| +(onnx|z3|egglog|eqsat\.graph\.egglog_bindings|islpy|sympy)\b", loaded
    )


LIGHT = """
import sys
from eqsat.cli import main
assert main(["optimize", "missing.onnx"]) == 2
print(*sorted({"eqsat.engine", "eqsat.graph.search", "eqsat.rulebook", "z3", "onnx"} & set(sys.modules)))
"""


def test_what_leaves_its_work_to_a_worker_imports_nothing_for_it() -> None:
    environment = {**os.environ, "EQSAT_DEBUG": "0"}
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, env=environment)
    assert done.stdout == "\n" and done.stderr.count("\n") == 1, done.stderr


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    with subprocess.Popen([*COMMAND, "rules", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


STREAMLESS = [
    ["kernel", "i, j -> j, i", "--shape", "3,5", "-o", "out"],
    ["explain", "i + 0", "i"],
    ["rules", "list", "--json"],
    ["rules", "check", "split-merge"],
    ["cache", "info"],
    ["cache", "clear"],
    ["optimize", "{models}/conv.onnx", "-o", "out"],
    ["verify", "{models}/window.onnx", "{models}/window.onnx"],
    ["--help"],
    ["--version"],
]


@pytest.mark.onnx
@pytest.mark.parametrize("args", STREAMLESS, ids=lambda args: " ".join(args[:2]))
def test_streams_that_are_missing(
    args: list[str], models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are missing again afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    for missing in (["stdout"], ["stderr"], ["stdout", "stderr"]):
        with monkeypatch.context() as patch:
            for name in missing:
                patch.setattr(sys, name, None)
            assert main([arg.format(models=models) for arg in args]) == 0, missing
            assert [name for name in ("stdout", "stderr") if getattr(sys, name) is None] == missing


@pytest.mark.onnx
@pytest.mark.skipif(os.name != "posix", reason="a shell")
@each_value(args=[STREAMLESS[6], STREAMLESS[0]], closed=[">&-", "2>&-", "<&- >&- 2>&-"])
def test_nobody_to_tell(args: list[str], closed: str, models: Path, tmp_path: Path) -> None:
    """With closed streams the work is done all the same, and what is open says what it says otherwise."""
    command = [*COMMAND, *(arg.format(models=models) for arg in args)]
    environment = {**os.environ, "EQSAT_CACHE": str(tmp_path / "cache")}
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")
    assert (tmp_path / "out").stat().st_size > 100


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@each_value(args=[["optimize", "missing.onnx", "--json"], ["frobnicate"]], closed=[">&- 2>&-", ">&-", "2>&-"])
def test_exit_codes_need_no_streams(args: list[str], closed: str, tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *args]
    assert subprocess.run(shell, capture_output=True, cwd=tmp_path, timeout=60).returncode == 2


INTERRUPT = """
import os, signal, sys, threading, time
from eqsat.cli import main
from eqsat.workers.process import alive

def interrupt():
    while {worker} and not alive:
        time.sleep(0.05)
    time.sleep({delay})
    os.killpg(0, signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may have been started with it ignored
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main({args!r}))
"""
FERMAT = ["explain", "where(x*x*x + y*y*y == z*z*z, 1, 0)", "0", "--ranges", "x=1:,y=1:,z=1:"]


@pytest.mark.onnx
@pytest.mark.skipif(os.name != "posix", reason="process groups")
@pytest.mark.parametrize(("where", "delay"), [("solver", 0.8), ("worker", 0.2), ("worker", 0)])
def test_interrupted(where: str, delay: float, tmp_path: Path) -> None:
    """Ctrl-C reaches the whole process group: solvers in this process, and the worker, which is still loading or has
    not run its first line; the answer is one line."""
    args = FERMAT
    if where == "worker":
        from eqsat.nets import nhwc_converter_net
        from eqsat.onnx import save_model

        save_model(nhwc_converter_net(blocks=200), tmp_path / "long.onnx")
        args = ["optimize", "long.onnx", "-o", "out.onnx"]
    code = INTERRUPT.format(worker=where == "worker", delay=delay, args=args)
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "EQSAT_CACHE": "off"}
    done = subprocess.run(
        command, capture_output=True, text=True, start_new_session=True, cwd=tmp_path, env=environment, timeout=30
    )
    assert (done.returncode, done.stderr) == (130, "eqsat: interrupted\n")
    assert not (tmp_path / "out.onnx").exists()


def test_an_internal_error_is_short(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsat.cli import kernel as cli_kernel

    def broken(*args: Any, **options: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(cli_kernel, "compile", broken)
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)
    short = run("kernel", "i, j -> j, i", "--shape", "3,5")
    assert short.code == 3 and "Traceback" not in short.err and len(short.err.splitlines()) == 1
    monkeypatch.setenv("EQSAT_DEBUG", "1")
    long = run("kernel", "i, j -> j, i", "--shape", "3,5")
    assert long.code == 3 and "Traceback" in long.err

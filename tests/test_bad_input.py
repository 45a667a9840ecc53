"""Bad input: each one clear error of one line, the documented exit code, and nothing half-written."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import eqsat as eq
from eqsat.cli import main
from eqsat.ir.errors import EqsatError

X = eq.input("x", (2, 8, 6, 6), "float32")
N = eq.input("n", (eq.symbol("n"),), "float64")
MASKED: Any = np.ma.masked_array(np.zeros((2, 8, 6, 6), "float32"), True)

CALLS: list[tuple[str, Callable[[], Any], str]] = [
    ("unparsable map", lambda: eq.IndexMap.parse("i -> i//"), "i//"),
    ("map without arrow", lambda: eq.IndexMap.parse("i, j"), "->"),
    ("map with code", lambda: eq.IndexMap.parse("i -> __import__('os')"), "index map|expression"),
    ("map of another name", lambda: eq.IndexMap.parse("i -> j"), "j is not an input"),
    ("unparsable layout", lambda: eq.Layout("NC16"), "NC16"),
    ("layout of other axes", lambda: X.layout_transform("NCHW", "NCW8c"), "H"),
    ("map of the wrong rank", lambda: X.layout_transform("i, j -> j, i"), "4 extents for 2 inputs"),
    ("layout of the wrong rank", lambda: X.layout_transform("NCHW8c", "NCHW"), "4 extents for 5 axes"),
    ("permutation of the wrong rank", lambda: X.permute_dims((1, 0)), r"\(1, 0\)"),
    ("not a permutation", lambda: X.permute_dims((0, 1, 2, 2)), r"\(0, 1, 2, 2\)"),
    ("reshape to another size", lambda: X.reshape((5, 5)), "576|25"),
    ("shapes that do not broadcast", lambda: X + eq.input("y", (3,), "float32"), r"\(3,?\)"),
    ("product of shapes that do not fit", lambda: eq.matmul(X, eq.input("y", (5, 4), "float32")), "5"),
    ("types that do not fit", lambda: X & eq.input("y", (6,), "int8"), "int8"),
    ("negative pad", lambda: X.pad([(0, 0), (0, 0), (-1, 0), (0, 0)]), "-1"),
    ("crop out of range", lambda: X.crop((0, 0, 3, 0), (2, 8, 6, 6)), "9|6"),
    ("negative extent", lambda: eq.input("y", (-1,), "float32"), "-1"),
    ("map that is not injective", lambda: X.layout_transform("n,c,h,w -> n,c,h"), r"\(0, 0, 0, 0\) and"),
    ("map that pads without a value", lambda: X.layout_transform("NCHW", "NCHW16c"), "first padded cell"),
    ("unknown type", lambda: eq.input("y", (1,), "datetime64[s]"), "datetime64"),
    ("unknown target", lambda: eq.compile(X.relu(), target="fpga"), "fpga"),
    ("optimizer target", lambda: eq.optimize(X.relu(), target="fpga"), "fpga"),
    ("optimizer objective", lambda: eq.optimize(X.relu(), objective="beauty"), "beauty"),
    ("limit that is text", lambda: eq.Limits(nodes=cast("int", "a")), r"nodes='a'.*whole number from 0"),
    ("limit that is no whole number", lambda: eq.Limits(memory_mb=cast("int", 0.5)), r"memory_mb=0.5"),
    ("limit that is a truth", lambda: eq.Limits(iterations=True), "iterations=True"),
    ("negative limit", lambda: eq.Limits(iterations=-1), "iterations=-1.*from 0"),
    ("seconds that are no number", lambda: eq.Limits(seconds=float("nan")), "seconds=nan.*number from 0"),
    ("negative seconds", lambda: eq.Limits(seconds=-0.5), "seconds=-0.5"),
    ("seconds that are a truth", lambda: eq.Limits(seconds=True), "seconds=True"),
    ("truth of a term", lambda: bool(eq.axis("i", 4) < 2), "where|logical"),
    ("contradictory assumption", lambda: eq.prove("i < 4", {"i": 8}, assuming="i < 0"), "contradictory"),
    ("reshape by floats", lambda: X.reshape(cast("int", 2.0), -1), "2.0 is not an integer"),
    ("reshape by one float", lambda: eq.reshape(X, 576.0), "576.0"),
    ("axis that is a float", lambda: X.sum(cast("int", 1.0)), "axis 1.0"),
    ("axis that is text", lambda: eq.flip(X, cast("int", "a")), "axis 'a'"),
    ("einsum of a label beyond letters", lambda: eq.einsum(X, [0, 1, 2, 52]), r"axis 52 is not in 0\.\.51"),
    ("einsum of a negative label", lambda: eq.einsum(X, [0, 1, 2, -1]), "axis -1"),
    ("einsum of labels that are text", lambda: eq.einsum(X, ["a", "b"]), "'a' is not an integer"),
    ("einsum of an operand alone", lambda: eq.einsum(X), "no list"),
    ("diagonal of two extents", lambda: eq.einsum("abii", eq.input("y", (2, 2, 1, 3), "float32")), "1 and 3"),
    ("tensordot by one list", lambda: eq.tensordot(X, X, [[0]]), "two lists"),
    ("rearrange by a number", lambda: eq.rearrange(X, cast("str", 3)), "3 is no text"),
    ("index of ragged rows", lambda: X[[[0], [0, 1]]], "several lengths"),
    ("shifts that do not fit axes", lambda: eq.roll(X, (1, 2, 3), (0, 1)), "not one for each shift"),
    ("correction that is text", lambda: X.var(ddof=cast("float", "a")), "'a' is no number"),
    ("range without an end", lambda: eq.arange(0, float("nan")), "no number of steps"),
    ("fill that does not fit", lambda: eq.full(3, 300, "uint8"), "300: does not fit uint8"),
    ("fill that is text", lambda: eq.full(3, "a", "uint8"), "'a' is no number"),
    ("fill like a type", lambda: eq.full_like(eq.input("y", (1,), "uint16"), -1), "-1: does not fit uint16"),
    ("pad with what a type lacks", lambda: eq.pad(eq.input("y", (1,), "int8"), 1, constant_values=300), "300"),
    ("pad of integers with NaN", lambda: eq.pad(eq.input("y", (1,), "uint8"), 1, constant_values=np.nan), "NaN"),
    ("mask of more axes", lambda: X.sum(where=np.ones((3, 2, 8, 6, 6), bool)), "fewer axes"),
    ("initial value of several", lambda: X.sum(0, initial=X[0]), r"initial= has shape \(8, 6, 6\)"),
    ("initial values of an array", lambda: X.max(initial=np.zeros(6)), r"initial= has shape \(6,\)"),
    ("masked array for jit", lambda: eq.jit(abs)(np.ma.masked_array([1, 2], [True, False])), "MaskedArray"),
    ("masked array for a kernel", lambda: eq.compile(X + 1)(x=MASKED), "mask would be lost"),
    ("masked array to evaluate", lambda: eq.evaluate(X, {"x": MASKED}), "mask would be lost"),
    ("masked constant", lambda: eq.constant(np.ma.masked_array([1, 2], [True, False])), "mask would be lost"),
    ("size of an empty array", lambda: eq.evaluate(N, {"n": np.zeros(0)}), "n = 0 breaks 1 <= n$"),
    ("ragged rows to evaluate", lambda: eq.evaluate(X, {"x": [[1], [1, 2]]}), "is no array"),
    ("predicate that is a number", lambda: eq.prove(5), "5 is neither a text nor a term"),
    ("predicate that is a truth", lambda: eq.decide(True), "True is neither a text nor a term"),
    ("no expression", lambda: eq.simplify(None), "None is neither a text nor a term"),
    ("ranges that are a number", lambda: eq.prove("i < 4", cast("Any", 5)), "ranges: 5 is no dict"),
    ("range of a number", lambda: eq.simplify("i % 4", cast("Any", {3: 4})), "ranges: 3 is no name"),
    ("extent that is a truth", lambda: eq.prove("i < 4", {"i": True}), "True is not an extent"),
    ("bound that is a truth", lambda: eq.prove("i < 4", {"i": (False, 3)}), "is not an extent"),
    ("composition with a number", lambda: eq.IndexMap.identity(1).then(cast("Any", 5)), "5 is no text"),
    ("map compared with a number", lambda: eq.IndexMap.identity(1).is_equivalent_to(cast("Any", 5), (3,)), "5 is no"),
    ("identity of a negative rank", lambda: eq.IndexMap.identity(-1), "rank is negative"),
    ("identity of no rank", lambda: eq.IndexMap.identity(cast("Any", 2.0)), "2.0 is not an integer"),
    (
        "store of a number without a type",
        lambda: eq.PrimFunc.parse("func f(x: float32[2])\n  x[0] = 1"),
        r"the access is index \(write numbers as float32\(1\)",
    ),
    ("opposite bits of a float", lambda: ~eq.const(1.0, "float32"), "bitnot of float32.*not defined for float32"),
    ("input missing", lambda: eq.evaluate(X.relu(), {}), "'x'"),
    ("input of another shape", lambda: eq.evaluate(X.relu(), {"x": np.zeros((2, 2), "float32")}), r"\(2, 2\)"),
]


@pytest.mark.parametrize(("call", "text"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_library_errors(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(EqsatError, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1


def test_limits_that_are_allowed() -> None:
    assert eq.Limits(0, 0, 0, 0).seconds == 0 and eq.Limits(seconds=float("inf"), nodes=cast("int", np.int64(7)))


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run a command that must end with 2, one line on stderr and nothing on stdout; the line."""
    capsys.readouterr()
    code = main([str(a) for a in args])
    out, err = capsys.readouterr()
    assert code == 2, (code, out, err)
    assert out == "" and err.startswith("eqsat: ") and len(err.splitlines()) == 1, (out, err)
    assert "Traceback" not in err
    return err


KERNEL = ["kernel", "NCHW -> NCHW8c", "--shape", "1,8,2,2"]
USAGE: list[tuple[list[str], str]] = [
    ([], "--help"),
    (["frobnicate"], "frobnicate"),
    (["kernel"], "CONVERSION"),
    ([*KERNEL, "--colour"], "--colour"),
    ([*KERNEL, "--target", "fpga"], "fpga"),
    ([*KERNEL, "--dtype", "float33"], "float33"),
    (["kernel", "i -> i//", "--shape", "8"], "i//"),
    (["kernel", "NCHW", "--shape", "8"], "NCHW"),
    (["kernel", "NCHW -> NC16HW", "--shape", "1,8,2,2"], "NC16HW"),
    (["kernel", "i, j -> j, i", "--shape", "8"], "1 extents for 2 inputs"),
    (["kernel", "i, j -> j, i", "--shape", "8,-8"], "-8"),
    (["kernel", "i, j -> j, i", "--shape", "8,x"], "8,x"),
    (["kernel", "i, j -> j", "--shape", "8,8"], "not injective"),
    (["kernel", "NCHW -> NCHW8c", "--shape", "1,7,2,2"], "first padded cell"),
    (["kernel", "i, j -> j, i", "--shape", "8,,8"], "8,,8"),
    (["kernel", "i, j -> j, i", "--shape", "4294967296,4294967296"], "more than pointers reach"),
    ([*KERNEL, "--dtype", "uint8", "--pad-value", "0.5"], "is not a uint8 value"),
    ([*KERNEL, "--dtype", "bool", "--pad-value", "2"], "is not a bool value"),
    ([*KERNEL, "--pad-value", "x"], "is not a float32 value"),
    (["explain", "i +", "i"], "i +"),
    (["explain", "i", "i", "--ranges", "i=x"], "i=x"),
    (["explain", "i", "i", "--ranges", "i=2,i=3"], "already"),
    (["rules", "check", "no-such-rule"], "no-such-rule"),
    (["optimize", "missing.onnx"], "missing.onnx"),
    (["verify", "missing.onnx", "missing.onnx"], "missing.onnx"),
    (["optimize", "model.onnx", "--time", "-1"], "--time"),
    (["optimize", "model.onnx", "--time", "nan"], "--time"),
    (["optimize", "model.onnx", "--shape", "N=0"], "N=0"),
    (["optimize", "model.onnx", "--shape", "N"], "NAME=SIZE"),
    (["optimize", "model.onnx", "--shape", "N=2,N=3"], "already"),
    (["optimize", "model.onnx", "--shape", "Q=2"], "Q"),
    (["optimize", "model.onnx", "--target", "c", "--objective", "time"], "no objective of target 'c'"),
    (["optimize", "model.onnx", "--target", "c", "--confirm"], "runs ONNX models"),
    (["optimize", "model.onnx", "--prices", "none.json"], "cannot be read"),
    (["calibrate", "-o", "no/folder/prices.json"], "cannot be written"),
    (["optimize", "model.onnx", "--target", "opencl"], "is not one of c, onnx"),
    (["optimize", "model.onnx", "-o", "same", "--report", "same"], "report"),
    (["optimize", "model.onnx", "-o", "no/such/folder/out.onnx"], "no folder"),
    (["optimize", "model.onnx", "-o", "."], "not a plain file"),
    (["optimize", "model.onnx", "-o", os.devnull], "not a plain file"),
    (["optimize", "model.onnx", "-o", "n" * 300], "cannot be written"),
    (["optimize", "model.onnx", "-o", "a\0b"], "embedded null"),  # "byte", or "character" from Python 3.13 on
    (["optimize", "model.onnx", "--report", "no/such/folder/out.html"], "no folder"),
    ([*KERNEL, "-o", "no/such/folder/out.c"], "no folder"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small good model."""
    pytest.importorskip("onnx")
    from eqsat.nets import conv_chain
    from eqsat.onnx import save_model

    path = tmp_path_factory.mktemp("model") / "model.onnx"
    save_model(conv_chain(), path)
    return path


@pytest.mark.onnx
@pytest.mark.parametrize(("args", "text"), USAGE, ids=[" ".join(a)[:60] or "nothing" for a, _ in USAGE])
def test_command_errors(
    args: list[str], text: str, folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(model, folder / "model.onnx")
    if args:
        assert text in refused(capsys, *args)
    else:
        assert main([]) == 2
    assert [p.name for p in folder.iterdir()] == ["model.onnx"]


@pytest.mark.onnx
def test_json_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "missing.onnx", "--json"]) == 2
    out, err = capsys.readouterr()
    assert '"exit": 2' in out and "missing.onnx" in out and err.startswith("eqsat: ")


def corrupt(model: bytes) -> list[tuple[str, bytes]]:
    """Files that are not models, made from a good one."""
    flipped = bytearray(model)
    for place in range(0, 400, 7):
        flipped[place] ^= 0xFF
    return [
        ("empty", b""),
        ("text", b"this is not a model\n" * 100),
        ("zeros", bytes(10_000)),
        ("truncated", model[: len(model) // 2]),
        ("one byte short", model[:-1]),
        ("flipped", bytes(flipped)),
        ("doubled length", b"\x3a\xff\xff\xff\xff\x0f" + model),
    ]


@pytest.mark.onnx
@pytest.mark.parametrize("kind", range(7))
def test_corrupt_models(kind: int, model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, data = corrupt(model.read_bytes())[kind]
    (folder / "bad.onnx").write_bytes(data)
    assert "bad.onnx" in refused(capsys, "optimize", "bad.onnx", "-o", "out.onnx"), name
    refused(capsys, "verify", model, "bad.onnx")
    assert [p.name for p in folder.iterdir()] == ["bad.onnx"]


@pytest.mark.onnx
def test_oversized_and_hostile_models(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes that lie, and data outside of the model's folder, are refused before anything is allocated."""
    from onnx import ModelProto

    def changed(change: Callable[[Any], None]) -> None:
        copy = ModelProto.FromString(model.read_bytes())
        change(copy.graph.initializer[0])
        (folder / "bad.onnx").write_bytes(copy.SerializeToString())

    def huge(tensor: Any) -> None:
        tensor.dims[:] = [1 << 40, 1 << 20]

    def negative(tensor: Any) -> None:
        tensor.dims[:] = [-1, -1]

    def outside(tensor: Any) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "../../../../etc/hostname"

    for change in (huge, negative, outside):
        changed(change)
        refused(capsys, "optimize", "bad.onnx", "-o", "out.onnx")
        assert [p.name for p in folder.iterdir()] == ["bad.onnx"], change.__name__


@pytest.mark.onnx
def test_hostile_names_reach_neither_terminal_nor_source(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from eqsat.nets import Net
    from eqsat.onnx import save_model

    hostile = 'a\x1b[2J*/ system("true"); /*'
    net = Net()
    x = net.add("Relu", net.transpose(hostile, 1, 0))
    net.nodes[0].op_type = "Transpose"
    save_model(net.model([(hostile, (hostile, 4))], [(x, (4, hostile))]), folder / "bad.onnx")
    for args in (["optimize", "bad.onnx", "--report", "why.html"], ["optimize", "bad.onnx", "--shape", "Q=1"]):
        main(args)
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
    assert main(["optimize", "bad.onnx", "--target", "c", "--shape", f"{hostile}=3", "-o", "x.c"]) == 0
    text = (folder / "x.c").read_text()
    assert "system(" not in text and "\x1b" not in text and hostile[6:] not in text
    assert text.count("/*") == text.count("*/")


@pytest.mark.onnx
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_write_protected(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "old.onnx").write_text("old")
    (folder / "old.onnx").chmod(stat.S_IREAD)
    assert "write-protected" in refused(capsys, "optimize", model, "-o", "old.onnx")
    folder.chmod(stat.S_IREAD | stat.S_IEXEC)
    try:
        assert "cannot be written" in refused(capsys, "optimize", model, "-o", "new.onnx")
    finally:
        folder.chmod(stat.S_IRWXU)


@pytest.mark.onnx
def test_a_link_is_followed_not_replaced(model: Path, folder: Path) -> None:
    (folder / "real.onnx").write_text("old")
    (folder / "link.onnx").symlink_to("real.onnx")
    assert main(["optimize", str(model), "-o", "link.onnx"]) == 0
    assert (folder / "link.onnx").is_symlink() and (folder / "real.onnx").read_bytes() != b"old"


def test_missing_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no-such-compiler" in refused(capsys, *KERNEL, "-o", "k.c")
    monkeypatch.delenv("CC")
    monkeypatch.setattr("eqsat.backends.c.cc.has_zig", lambda: False)
    monkeypatch.setenv("PATH", str(folder))
    assert "no C compiler" in refused(capsys, *KERNEL, "-o", "k.c")
    assert not list(folder.iterdir())


def test_a_solver_timeout_is_a_note(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """x^3 + y^3 is never z^3 for positive numbers, which no member of the portfolio can prove."""
    monkeypatch.setenv("EQSAT_CACHE", "off")
    small = (1 << 10, 1 << 10, 1000, (1000,), 1, True, 20.0)
    monkeypatch.setattr("eqsat.proving.prover.Budget.__init__.__defaults__", small, raising=False)
    args = ["explain", "where(x*x*x + y*y*y == z*z*z, 1, 0)", "0", "--ranges", "x=1:,y=1:,z=1:"]
    assert main(args) == 0
    assert "not known to be equal" in capsys.readouterr().out


@pytest.mark.onnx
def test_a_search_limit_is_a_note(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    r = eq.optimize(X.permute_dims((0, 2, 3, 1)).relu().permute_dims((0, 3, 1, 2)), limits=eq.Limits(iterations=1))
    assert r.status == "iteration-limit" and r.cost_after <= r.cost_before
    assert "not read within 0.001 s" in refused(capsys, "optimize", model, "--time", "0.001", "-o", "out.onnx")
    assert not (folder / "out.onnx").exists()


@pytest.mark.onnx
@pytest.mark.parametrize(
    ("option", "value"), [("rules", 3), ("freeze", 3), ("growth", "much"), ("growth", -1), ("limits", 3)]
)
def test_options_of_another_kind_are_refused(option: str, value: object) -> None:
    from eqsat.nets import conv_chain

    asked: dict[str, Any] = {option: value}
    with pytest.raises(EqsatError, match=f"{option}.*{value}"):
        eq.optimize(X.relu(), **asked)
    with pytest.raises(EqsatError, match=f"{option}.*{value}"):
        eq.onnx.optimize(conv_chain(), **asked)

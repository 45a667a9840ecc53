"""Ctrl-C at any moment in any command: exit code 130, one line, nothing half-written, no process left."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from eqsat.interrupt_start import is_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

SOON = 3.0  # seconds, on a machine that does much else
LINE = "eqsat: interrupted\n"
FERMAT = ("explain", "where(x*x*x + y*y*y == z*z*z, 1, 0)", "0", "--ranges", "x=1:,y=1:,z=1:")
# What the installed script `eqsat` does, from the moment on at which the package can do something about it: Python's
# own start is not ours. A background job may have been started with the signal ignored.
SCRIPT = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.default_int_handler)

class Begin:
    def find_spec(self, name, path=None, target=None):
        if name == "eqsat.ir":
            sys.meta_path.remove(self)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            os.write(1, b"\\n")

sys.meta_path.insert(0, Begin())
from eqsat.cli import main
sys.exit(main())
"""
END = {".html": b"</pre>", ".c": b"}"}
IN_PROCESS = """
import os, signal, sys, z3
from eqsat.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
{patch}
sys.exit(main({args!r}))
"""
IN_A_DESTRUCTOR = """
old = z3.AstRef.__del__
def patched(self, seen=[0]):
    seen[0] += 1
    if seen[0] == {n}:
        os.kill(os.getpid(), signal.SIGINT)
    for _ in range(3):
        pass
    old(self)
z3.AstRef.__del__ = patched
"""
IN_A_CONSTRUCTOR = """
old = z3.Context.__init__
def patched(self, *args, seen=[0], **options):
    seen[0] += 1
    if seen[0] == {n}:
        os.kill(os.getpid(), signal.SIGINT)
    for _ in range(3):
        pass
    old(self, *args, **options)
z3.Context.__init__ = patched
"""
CAUGHT_BY_A_LIBRARY = """
old = z3.Solver.check
def patched(self, *args):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(3):
            pass
    except:
        pass
    return old(self, *args)
z3.Solver.check = patched
"""


@pytest.mark.parametrize(
    "patch",
    [
        IN_A_DESTRUCTOR.format(n=5),
        IN_A_CONSTRUCTOR.format(n=1),
        CAUGHT_BY_A_LIBRARY,
        *(pytest.param(IN_A_DESTRUCTOR.format(n=n), marks=pytest.mark.slow) for n in (1, 60)),
        pytest.param(IN_A_CONSTRUCTOR.format(n=2), marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_is_not_swallowed(patch: str) -> None:
    """Where Python or a library drops the exception: in a destructor, in a half-made object, in `except:`."""
    code = IN_PROCESS.format(patch=patch, args=list(FERMAT))
    environment = {**os.environ, "EQSAT_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr, done.stdout) == (130, LINE, "")


@pytest.mark.parametrize(
    ("program", "original", "expected"),
    [
        ("/usr/bin/eqsat", ["python", "/usr/bin/eqsat"], True),
        ("eqsat.exe", ["python", "eqsat.exe"], True),
        ("-m", ["python", "-m", "eqsat", "optimize"], True),
        ("-m", ["python", "-um", "eqsat.demo"], True),
        ("-m", ["python", "-meqsat"], True),
        ("-m", ["python", "-Im", "mine"], False),
        ("mine.py", ["python", "mine.py", "eqsat"], False),
        ("", ["python"], False),
        ("-c", ["python", "-c", "import eqsat"], False),
    ],
)
def test_only_the_command_is_protected(
    program: str, original: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "orig_argv", original)
    assert is_command() is expected


def test_importing_the_package_leaves_signals_alone() -> None:
    code = "import signal, eqsat, eqsat.cli; print(signal.getsignal(signal.SIGINT) is {0})"
    for handler in ("signal.default_int_handler", "signal.SIG_IGN"):
        set_first = f"import signal; signal.signal(signal.SIGINT, {handler}); "
        done = subprocess.run([sys.executable, "-c", set_first + code.format(handler)], capture_output=True, text=True)
        assert done.stdout == "True\n", done.stderr


def in_session(session: int) -> list[int]:
    """The processes of a session that still run."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@dataclass
class Run:
    """What an interrupted command left."""

    code: int
    out: str
    err: str
    left: list[int]
    files: dict[str, bytes]
    seconds: float  # from the signal to the end


def interrupted(args: Sequence[str], folder: Path, delay: float, everyone: bool, cache: str = "off") -> Run:
    """Run a command in a folder, and press Ctrl-C after some seconds: in its process group, or in it alone."""
    environment = {**os.environ, "EQSAT_CACHE": cache}
    script, here = folder / "eqsat", folder / "here"
    script.write_text(SCRIPT)
    here.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, str(script), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here,
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.read(1) == "\n"
        time.sleep(delay)
        pressed = time.monotonic()
        if process.poll() is None:
            (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        seconds = time.monotonic() - pressed
    until = time.monotonic() + 5
    while (left := in_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    files = {p.name: p.read_bytes() if p.is_file() else b"" for p in here.iterdir()}
    shutil.rmtree(here)
    return Run(process.returncode, out, err, left, files, seconds)


def complaint(run: Run, names: Sequence[str], as_json: bool) -> str:
    """What is wrong with an interrupted command; '' for nothing. `names` are the files that it writes if it ends."""
    if run.left:
        return f"processes {run.left} were left"
    if run.files and set(run.files) != set(names):
        return f"files were left: {sorted(run.files)}"
    if any(not content.rstrip().endswith(END.get(Path(name).suffix, b"")) for name, content in run.files.items()):
        return f"half a file: {run.files}"
    if run.code == 130 and run.err == LINE:
        if as_json and json.loads(run.out) != {"error": "interrupted", "exit": 130}:
            return f"printed {run.out!r}"
        return ""
    if run.code == 0 and not run.err and run.out and set(run.files) == set(names):
        return ""  # it was faster
    return f"exit {run.code}, {run.err!r}, {run.out[-300:]!r}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with conv.onnx, and long.onnx whose search takes a while."""
    pytest.importorskip("onnx")
    from eqsat import nets
    from eqsat.onnx import save_model

    folder = tmp_path_factory.mktemp("models")
    save_model(nets.conv_chain(), folder / "conv.onnx")
    save_model(nets.nhwc_converter_net(blocks=40), folder / "long.onnx")
    return folder


# Each command with the files that it writes and about how long it runs; {m} is the folder of models.
COMMANDS: list[tuple[tuple[str, ...], tuple[str, ...], float]] = [
    (("optimize", "{m}/long.onnx", "-o", "o.onnx", "--report", "r.html", "--verify"), ("o.onnx", "r.html"), 8.0),
    (("optimize", "{m}/conv.onnx", "--target", "c", "-o", "o.c", "--json"), ("o.c",), 2.0),
    (("verify", "{m}/conv.onnx", "{m}/conv.onnx"), (), 2.0),
    (FERMAT, (), 3.0),
    ((*FERMAT, "--json"), (), 3.0),
    (("kernel", "NCHW -> NCHW16c", "--shape", "1,64,56,56", "--bench", "-o", "k.c"), ("k.c",), 3.0),
    (("rules", "check"), (), 10.0),
    (("rules", "list", "--json"), (), 1.0),
    (("cache", "info"), (), 1.0),
    (("cache", "clear"), (), 1.0),
    (("--help",), (), 0.5),
]


def try_moments(moments: Sequence[float], models: Path, folder: Path, seed: int) -> list[str]:
    """What went wrong in interrupts at these parts of the time that a command takes, each for a command of its own."""
    wrong: list[str] = []
    for k, moment in enumerate(moments):
        args, names, seconds = COMMANDS[(k + seed) % len(COMMANDS)]
        args = [a.format(m=models) for a in args]
        cache = str(folder / "cache") if k % 2 else "off"
        run = interrupted(args, folder, moment * seconds, everyone=k % 3 > 0, cache=cache)
        if said := complaint(run, names, "--json" in args):
            wrong.append(f"{' '.join(args)} after {moment * seconds:.3f} s: {said}")
        if run.code == 130 and run.seconds > SOON:
            wrong.append(f"{' '.join(args)} after {moment * seconds:.3f} s: took {run.seconds:.1f} s to end")
    return wrong


def test_interrupts_at_a_few_moments(models: Path, tmp_path: Path) -> None:
    assert not try_moments([0.0, 0.05, 0.3, 0.5, 0.02, 0.2, 0.1, 0.4, 0.15, 0.01, 0.35], models, tmp_path, 0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_interrupts_at_random_moments(models: Path, tmp_path: Path) -> None:
    moments = [random.random() ** 2 for _ in range(200)]
    assert not try_moments(moments, models, tmp_path, random.randrange(100))

"""Jobs in worker processes: every way in which one can end is told apart, and limits hold."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import worker_jobs

from eqsat.ir.errors import EqsatError, ShapeError
from eqsat.workers.call import WorkerFailure, WorkerMemoryLimit, WorkerTimeLimit, call
from eqsat.workers.pool import end_workers, most_workers, taken
from eqsat.workers.process import alive

FOLDER = str(Path(worker_jobs.__file__).parent)


@pytest.fixture(autouse=True, scope="module")
def jobs() -> Generator[None]:
    """Workers of these tests only."""
    end_workers()
    yield
    end_workers()


def do(job: str, argument: object = None, seconds: float = 20.0, memory_mb: int = 500, **options: Any) -> Any:
    return call(f"worker_jobs:{job}", argument, seconds=seconds, memory_mb=memory_mb, **options)


def still_works() -> bool:
    return do("add", (1, 2)) == 3


def ends(pids: list[int], seconds: float = 10.0) -> bool:
    """Whether these processes end, and nobody has to be waited for."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.smoke
def test_answers_and_reports() -> None:
    seen: list[int] = []
    assert do("count", 5, report=seen.append) == 5 and seen == [0, 1, 2, 3, 4]
    assert do("pid") == do("pid") != os.getpid(), "a worker is kept for the next task"


def test_what_a_job_leaves_for_later_is_done_after_its_answer_and_before_the_next_task(tmp_path: Path) -> None:
    assert do("leave_for_later", str(tmp_path)) == [] == list(tmp_path.iterdir()), "the answer does not wait for it"
    assert do("leave_for_later", str(tmp_path)) == ["later0"], "the next task does"
    assert do("do_at_once", str(tmp_path)) == ["later0", "later1", "later2"]


@pytest.mark.parametrize(
    ("job", "argument", "error", "text"),
    [
        ("shape_error", "one", ShapeError, r"^one: two \(three\)$"),
        ("odd_error", None, EqsatError, "^odd 1 and 2$"),
        ("defect", None, WorkerFailure, "Traceback.*ZeroDivisionError: by design"),
        ("panic", None, WorkerFailure, "Panic: by design"),
        ("unpicklable", None, WorkerFailure, "(?i)pickle"),
        ("missing", None, WorkerFailure, "AttributeError"),
        ("abort", None, WorkerFailure, "signal 6.*worker_jobs.py"),
        ("leave", 7, WorkerFailure, "exit code 7"),
        ("leave", 0, WorkerFailure, "exit code 0"),
        ("abort_for_memory", None, WorkerMemoryLimit, "more than 500 MB"),
        ("fill", 3000, WorkerMemoryLimit, "more than 500 MB"),
        ("die", None, WorkerMemoryLimit, "twice from outside"),
    ],
)
def test_every_end_has_its_error(
    job: str, argument: object, error: type[EqsatError], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)  # it adds the worker's traceback
    with pytest.raises(error, match=f"(?s){text}") as caught:
        do(job, argument)
    assert type(caught.value) is error and still_works()


def test_an_error_of_eqsat_leaves_its_worker() -> None:
    before = do("pid")
    with pytest.raises(ShapeError) as caught:
        do("shape_error", "one")
    assert (caught.value.operation, caught.value.problem, caught.value.fix) == ("one", "two", "three")
    assert do("pid") == before


@pytest.mark.parametrize(("job", "argument"), [("report_and_sleep", 60), ("hold_the_interpreter", 100_000_000)])
def test_time_limits(job: str, argument: Any) -> None:
    assert still_works()
    start = time.monotonic()
    with pytest.raises(WorkerTimeLimit) as caught:
        do(job, argument, seconds=0.5)
    assert time.monotonic() - start < 1.5
    assert caught.value.last == ("asleep" if job == "report_and_sleep" else None)
    assert still_works()


def test_memory_limits_keep_the_last_report() -> None:
    with pytest.raises(WorkerMemoryLimit) as caught:
        do("fill", 400, memory_mb=200)
    assert caught.value.last == "before"
    assert do("fill", 400, memory_mb=900) == 400 << 20, "the limit is the task's, not the worker's"


def test_where_addresses_have_no_limit_the_parent_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    def huge(pid: int) -> float:
        return 1000.0

    monkeypatch.setattr("eqsat.workers.call.addresses_are_limited", lambda: False)
    monkeypatch.setattr("eqsat.workers.call.resident_mb", huge)
    with pytest.raises(WorkerMemoryLimit):
        do("report_and_sleep", 20)
    monkeypatch.undo()
    assert still_works()


def test_large_messages_pass_both_ways() -> None:
    """More than a pipe holds, also while the worker talks."""
    data = os.urandom(20 << 20)
    seen: list[bytes] = []
    assert call("eqsat.workers.call:echo", data, seconds=60, memory_mb=2000, report=seen.append) == data == seen[0]
    assert do("noise", 2000) == "quiet"


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    assert do("die_once", str(tmp_path / "died")) == "second"
    idle = do("pid")
    os.kill(idle, signal.SIGKILL)
    assert do("pid") != idle and ends([idle])


def test_all_that_ended_are_waited_for_when_one_is_asked_for() -> None:
    with taken(), taken() as one, taken() as two:  # the first is the last that is given back, and taken next
        pids = [one.pid, two.pid]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z":
            time.sleep(0.01)
    assert still_works() and ends(pids, 0.1)


def test_settings_of_the_moment_reach_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert do("surroundings")[0] is None
    monkeypatch.setenv("EQSAT_FOR_TEST", "1")
    monkeypatch.chdir(tmp_path)
    assert do("surroundings") == ("1", str(tmp_path))
    monkeypatch.undo()
    assert do("surroundings") == (None, os.getcwd())


def test_a_report_may_ask_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that holds a worker gets another one, however many there are: else all could wait for each other."""
    monkeypatch.setattr("eqsat.workers.pool.most_workers", lambda: 1)
    sums: list[int] = []

    def add_ten(number: int) -> None:
        sums.append(do("add", (number, 10)))

    assert do("count", 3, report=add_ten) == 3 and sums == [10, 11, 12]
    assert do("nested", 5) == 6


def test_the_answer_to_another_task_is_not_taken_for_mine() -> None:
    """A worker that still owes an answer: to a task whose caller went away."""
    with taken() as worker:
        header = (worker.number(), "worker_jobs:count", 500, 20.0, dict[str, str](), None)
        worker.send(pickle.dumps(header) + pickle.dumps(3), time.monotonic() + 20)
        pid = worker.pid
    assert (do("add", (1, 2)), do("pid")) == (3, pid)


@pytest.mark.parametrize("program", ["/nowhere/python", None])
def test_where_no_worker_can_be_started_it_says_so(program: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    end_workers()
    monkeypatch.setattr("multiprocessing.spawn._python_exe", program)
    with pytest.raises(WorkerFailure, match=r"no worker can be started: .*set_executable"):
        do("add", (1, 2))
    monkeypatch.undo()
    assert still_works()


class Stop(Exception):
    """Raised by a report."""


def test_a_report_that_raises_ends_the_task() -> None:
    before = do("pid")

    def stop(number: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        do("count", 10, report=stop)
    assert do("pid") != before and ends([before])


@pytest.mark.smoke
def test_threads() -> None:
    """Every thread gets its own answers, and no more workers run than may."""
    wrong: list[str] = []
    most: list[int] = []

    def ask(thread: int) -> None:
        for k in range(20):
            if (found := do("add", (1000 * thread, k))) != 1000 * thread + k:
                wrong.append(f"thread {thread}, task {k}: {found}")
            most.append(len(alive))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and max(most) <= most_workers()


ORPHAN = """
import os, sys, threading, time
sys.path.insert(0, {folder!r})
from eqsat.workers.call import call
print(call("worker_jobs:pid", None, seconds=9, memory_mb=500), flush=True)
said = threading.Event()
def say(what):
    print(what, flush=True)
    said.set()
{rest}
"""
BUSY = 'call("worker_jobs:report_and_sleep", 60, seconds=90, memory_mb=500, report=say)'


@pytest.mark.parametrize(
    ("rest", "waits_for", "kill"),
    [
        ("", "", False),
        ("say('idle'); time.sleep(60)", "idle", True),
        (BUSY, "asleep", True),
        (f"threading.Thread(target=lambda: {BUSY}, daemon=True).start(); said.wait(20)", "asleep", False),
        (f"os.fork() or (time.sleep(60), os._exit(0)); {BUSY}", "asleep", True),
        pytest.param("sys.exit(3)", "", False, marks=pytest.mark.slow),
    ],
)
def test_no_worker_outlives_its_parent(rest: str, waits_for: str, kill: bool) -> None:
    """However the parent ends; a fork of it that lives on keeps no worker alive."""
    code = ORPHAN.format(folder=FOLDER, rest=rest)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, process_group=0) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        if waits_for:
            assert parent.stdout.readline().strip() == waits_for
        if kill:
            parent.kill()
        parent.wait(20)
        ended = ends([worker], 5)
        if kill and "fork" in rest:
            os.killpg(parent.pid, signal.SIGKILL)
        assert ended


CLOSED = """
import sys, threading, numpy as np, eqsat as eq
from eqsat.workers.call import call

def work():
    for data in ("x", b"y" * 1_000_000):
        assert call("eqsat.workers.call:echo", data, seconds=20, memory_mb=500) == data
    x = eq.input("x", (3, 5), "float32")
    r = eq.optimize(x.permute_dims((1, 0)).relu().permute_dims((1, 0)))
    assert (r.status, r.cost_after, r.notes) == ("saturated", 0, []), (r.status, r.cost_after, r.notes)
    a = np.ones((3, 5), "float32")
    assert np.array_equal(eq.compile(x * 2.0)(x=a), 2 * a)
    done.append(1)

done = []
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if not threads:
    work()
sys.exit(10 * len(done))
"""


@pytest.mark.parametrize(
    ("closed", "threads"),
    [
        ("<&-", 0),
        (">&-", 0),
        ("2>&-", 0),
        ("<&- >&- 2>&-", 2),
        *(pytest.param(closed, 0, marks=pytest.mark.slow) for closed in ("<&- >&-", ">&- 2>&-", "<&- >&- 2>&-")),
    ],
)
def test_without_standard_streams(closed: str, threads: int, tmp_path: Path) -> None:
    """As in a service: new pipes get the numbers of the streams, which the worker's own streams have."""
    environment = {**os.environ, "EQSAT_CACHE": str(tmp_path), "EQSAT_CFLAGS": "-O0"}
    command = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", CLOSED, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 10 * max(1, threads), done.stdout + done.stderr


def test_what_is_done_meanwhile_is_done_once_and_before_anything_is_heard() -> None:
    heard: list[object] = []
    answer = call(
        "eqsat.workers.call:echo", 7, seconds=20, memory_mb=500,
        report=heard.append, meanwhile=lambda: heard.append("meanwhile"),
    )  # fmt: skip
    assert (answer, heard) == (7, ["meanwhile", 7])

    def fails() -> None:
        raise ShapeError("meanwhile", "fails")

    with pytest.raises(ShapeError, match="meanwhile"):
        call("eqsat.workers.call:echo", 7, seconds=20, memory_mb=500, meanwhile=fails)
    assert still_works()

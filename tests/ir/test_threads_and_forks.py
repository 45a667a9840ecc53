"""What threads and forks share: attributes that are computed once, locks, rules that are compiled for each other."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from eqsat.ir.cached import cached_property
from eqsat.ir.locks import fork_safe
from eqsat.ir.terms import node
from eqsat.ir.terms import term as t
from eqsat.rewriting import rewrite
from eqsat.rewriting.rewrite import Rewriter, Session
from eqsat.rules import tagged

SECONDS = 20.0


class Meeting:
    """An object whose attribute is ready when two objects compute theirs at once."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    @cached_property
    def place(self) -> int:
        """Where it was."""
        return self.barrier.wait(SECONDS)


def test_attributes_of_two_objects_are_computed_at_once() -> None:
    barrier = threading.Barrier(2)
    objects = [Meeting(barrier), Meeting(barrier)]
    places: list[int] = []

    def find(x: Meeting) -> None:
        places.append(x.place)

    threads = [threading.Thread(target=find, args=(x,)) for x in objects]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == [0, 1] and sorted(x.place for x in objects) == [0, 1]
    assert isinstance(Meeting.place, cached_property) and Meeting.place.__doc__ == "Where it was."


def test_an_attribute_that_two_threads_compute_is_one_value() -> None:
    barrier = threading.Barrier(2)
    x = Meeting(barrier)
    places: list[int] = []
    threads = [threading.Thread(target=lambda: places.append(x.place)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert places[0] == places[1] == x.place


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_lock_that_another_thread_held_is_free_in_a_fork() -> None:
    lock = fork_safe(threading.RLock())
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            go.wait(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(SECONDS)
    child = os.fork()
    if not child:
        os._exit(0 if lock.acquire(timeout=1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert lock.acquire(timeout=1), "the parent let go of it too"
    lock.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_terms_can_be_built_in_a_fork_while_threads_build_terms() -> None:
    stop = threading.Event()

    def build() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            str(t.var(f"v{k}") + k)

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                signal.alarm(int(SECONDS))
                for k in range(100):
                    t.var(f"v{k}") + k + 1  # pyright: ignore[reportUnusedExpression]
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_rules_are_compiled_for_each_other_before_a_thread_can_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty rewriter that is seen too early leaves terms as they are."""
    all_rules, some = Rewriter(tagged("normal", "finish")), Rewriter(tagged("normal"))
    seen: list[int] = []
    keys = rewrite.FilterKeys

    def watched(*args: Any) -> Any:
        seen.append(len(all_rules.beyond))
        return keys(*args)

    monkeypatch.setattr(rewrite, "FilterKeys", watched)
    first = Session(some)
    Session(all_rules, after=[first])
    assert seen and not any(seen) and len(all_rules.beyond) == 1


FROZEN = """
import threading
from eqsat.ir.terms import node, term as t
kept = [t.var(f"v{k}") * 3 for k in range(10)]
before, held = len(node._interned), threading.Event()
def hold():
    with node._lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
kept.clear()
print("let go")
"""


def test_terms_are_let_go_of_while_a_thread_that_stands_still_holds_the_lock() -> None:
    """As when Python ends: daemon threads are frozen wherever they are."""
    done = subprocess.run([sys.executable, "-c", FROZEN], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "let go\n", done.stderr


def test_terms_that_were_let_go_of_leave_the_table() -> None:
    made = [t.var(f"let_go_{k}") for k in range(100)]
    serials = {x.serial for x in made}
    table = node._interned  # pyright: ignore[reportPrivateUsage]
    keys = [key for key, reference in table.items() if getattr(reference(), "serial", None) in serials]
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with node._lock:  # pyright: ignore[reportPrivateUsage]
            held.set()
            go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    made.clear()
    go.set()
    thread.join()
    t.var("one_more")
    assert len(keys) == 100 and not any(key in table for key in keys)

"""Loops that threads share: a part of a function that each thread runs for its share, and what starts the threads.

    before:  static void f(x, y) { for i: ... }
    after:   struct f_part0 { x; y; };                                # what the part uses of the function around it
             static void f_part0(void *all, ptrdiff_t thread, ptrdiff_t threads)
             { x = all->x; ...; for i = the share of this thread: ... }
             static void f(x, y) { run_parts(f_part0, &(struct f_part0){x, y}, 2); }

OpenMP starts the threads where the compiler has it. Elsewhere they are POSIX threads, which wait for the next part and
end with the library, or on Windows threads that are made for each part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

FEATURES = """#define _POSIX_C_SOURCE 200809L /* threads, before anything is included */
"""
"""What stands before all else in a source that has threads."""

RUN_PARTS = r"""/* Run a part of a function in so many threads, this one among them, and wait until all have ended. */
#include <stddef.h>
typedef void part_function(void *all, ptrdiff_t thread, ptrdiff_t threads);
#if defined(_OPENMP)
#include <omp.h>
static void run_parts(part_function *part, void *all, int threads)
{
#pragma omp parallel num_threads(threads)
    part(all, omp_get_thread_num(), omp_get_num_threads());
}
#elif defined(_WIN32)
#include <windows.h>
struct part_job { part_function *part; void *all; ptrdiff_t thread, threads; };
static DWORD WINAPI part_main(LPVOID given)
{
    const struct part_job *const job = given;
    job->part(job->all, job->thread, job->threads);
    return 0;
}
static void run_parts(part_function *part, void *all, int threads)
{
    struct part_job jobs[PART_THREADS];
    HANDLE made[PART_THREADS];
    for (int k = 1; k < threads; ++k) {
        jobs[k] = (struct part_job){part, all, k, threads};
        made[k] = CreateThread(NULL, 0, part_main, &jobs[k], 0, NULL);
    }
    part(all, 0, threads);
    for (int k = 1; k < threads; ++k) {
        if (made[k] == NULL) {
            part(all, k, threads);
            continue;
        }
        WaitForSingleObject(made[k], INFINITE);
        CloseHandle(made[k]);
    }
}
#else
#include <pthread.h>
#include <signal.h>
/* Threads that wait for parts. One caller at a time has them; another one meanwhile runs all of its parts itself. */
struct part_pool {
    pthread_mutex_t turn, lock;
    pthread_cond_t begin, end;
    part_function *part;
    void *all;
    int threads, made, left, stop;
    unsigned round;
    pthread_t ids[PART_THREADS];
};
#define NEW_POOL {.turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, \
    .begin = PTHREAD_COND_INITIALIZER, .end = PTHREAD_COND_INITIALIZER}
static struct part_pool pool = NEW_POOL;
static void *part_main(void *given)
{
    const int thread = (int)(intptr_t)given;
    unsigned seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.round == seen && !pool.stop) pthread_cond_wait(&pool.begin, &pool.lock);
        if (pool.stop) break;
        seen = pool.round;
        if (thread >= pool.threads) continue;
        pthread_mutex_unlock(&pool.lock);
        pool.part(pool.all, thread, pool.threads);
        pthread_mutex_lock(&pool.lock);
        if (--pool.left == 0) pthread_cond_signal(&pool.end);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}
/* After a fork the other threads are gone. */
static void part_forked(void)
{
    static const struct part_pool fresh = NEW_POOL;
    pool = fresh;
}
static void part_more(int threads)
{
    sigset_t all, old;
    pthread_attr_t large;
    static int registered = 0;
    if (!registered) registered = pthread_atfork(NULL, NULL, part_forked) == 0;
    if (!registered || pthread_attr_init(&large) != 0) return;
    pthread_attr_setstacksize(&large, 8 << 20); /* as the first thread has; some libraries give little */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old); /* signals are for the threads of others */
    if (pool.made == 0) pool.made = 1, pool.round = 0;
    while (pool.made < threads) {
        void *const number = (void *)(intptr_t)pool.made;
        if (pthread_create(&pool.ids[pool.made], &large, part_main, number) != 0) break;
        ++pool.made;
    }
    pthread_attr_destroy(&large);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
static void run_parts(part_function *part, void *all, int threads)
{
    if (pthread_mutex_trylock(&pool.turn) != 0) {
        for (int k = 0; k < threads; ++k) part(all, k, threads);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    if (pool.made < threads) part_more(threads);
    if (pool.made < threads) threads = pool.made > 1 ? pool.made : 1;
    pool.part = part, pool.all = all, pool.threads = threads, pool.left = threads - 1;
    ++pool.round;
    pthread_cond_broadcast(&pool.begin);
    pthread_mutex_unlock(&pool.lock);
    part(all, 0, threads);
    pthread_mutex_lock(&pool.lock);
    while (pool.left > 0) pthread_cond_wait(&pool.end, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.turn);
}
__attribute__((destructor)) static void part_unloaded(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.stop = 1;
    pthread_cond_broadcast(&pool.begin);
    pthread_mutex_unlock(&pool.lock);
    for (int k = 1; k < pool.made; ++k) pthread_join(pool.ids[k], NULL);
}
#endif"""


def run_parts(threads: int) -> str:
    """The definition of run_parts for so many threads at most."""
    return f"#define PART_THREADS {threads}\n{RUN_PARTS}"


@dataclass(frozen=True)
class Variable:
    """What a part may use of the function around it: its type in C, with `restrict` where it has that, its name."""

    kind: str
    name: str


def share(count: str) -> tuple[str, str]:
    """Where the share of a thread of `count` steps begins and ends."""
    return f"({count}) * thread / threads", f"({count}) * (thread + 1) / threads"


def outlined(
    name: str, variables: Sequence[Variable], body: Sequence[str], threads: int, head: Sequence[str] = ()
) -> tuple[str, str]:
    """A function for a part, whose lines are `body`, and the statement that runs it in so many threads.

    head: lines that stand before the function's own.
    """
    words = set(re.findall(r"\b[A-Za-z_]\w*\b", "\n".join(body)))
    used = [v for v in variables if v.name in words]
    members = " ".join(f"{v.kind.replace('restrict', '').rstrip()} {v.name};" for v in used)
    # C has no empty structs.
    lines = [f"struct {name} {{ {members or 'int none;'} }};"]
    lines += [*head, f"static void {name}(void *all, ptrdiff_t thread, ptrdiff_t threads)", "{"]
    lines.append(f"    const struct {name} *const given = all;")
    lines += [f"    {v.kind.rstrip()} {v.name} = given->{v.name};" for v in used] or ["    (void)given;"]
    lines += ["    (void)thread, (void)threads;", *body, "}"]
    values = ", ".join(v.name for v in used) or "0"
    return "\n".join(lines), f"run_parts({name}, &(struct {name}){{{values}}}, {threads});"

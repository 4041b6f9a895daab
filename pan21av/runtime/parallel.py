"""How many cores there are, and an ordered map over worker processes with bounded read-ahead."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

log = logging.getLogger("pan21av")
Item = TypeVar("Item")
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores this process may use: affinity, and the CPU quota of its cgroup (`docker --cpus`)."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, math.ceil(quota)) if quota else cores)


def _cgroup_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    def read(name: str) -> list[str]:
        try:
            return (root / name).read_text().split()
        except OSError:
            return []

    try:
        if version2 := read("cpu.max"):
            return None if version2[0] == "max" else int(version2[0]) / int(version2[1])
        quota, period = read("cpu/cpu.cfs_quota_us"), read("cpu/cpu.cfs_period_us")
        return int(quota[0]) / int(period[0]) if quota and period and int(quota[0]) > 0 else None
    except (ValueError, ZeroDivisionError, IndexError):
        return None


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """Fresh processes (no inherited threads or locks), each computing on one thread."""
    return ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker, initargs=(os.getpid(),)
    )


def _begin_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported there, if it is
    threading.Thread(target=_follow_parent, args=(parent,), daemon=True).start()


def _follow_parent(parent: int) -> None:
    """End with the parent, even one that was killed before this process had begun: an orphan would hold its pipes
    open, or go on writing what a new run resumes."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _release(broken: ProcessPoolExecutor) -> None:
    """Python before 3.11.5 shuts a broken pool down only when its jobs have gone into a pipe that nobody reads any more
    (CPython issue 94777). Without a reader they fail instead; later ones close it themselves."""
    if sys.version_info >= (3, 11, 5):
        return
    reader = getattr(getattr(broken, "_call_queue", None), "_reader", None)
    if reader is not None:
        reader.close()


def ordered_map(
    function: Callable[[Argument], Result],
    jobs: Iterable[tuple[Item, Argument]],
    pool: ProcessPoolExecutor | None,
    ahead: int,
) -> Iterator[tuple[Item, Result]]:
    """(item, function(argument)) in the order of the jobs, at most `ahead` of them under way (in place without a pool).

    The item stays here, only the argument travels. Should a worker be killed, by want of memory say, this process
    does the rest itself.
    """
    pending: deque[tuple[Item, Argument, Future[Result] | None]] = deque()

    def hand_in(argument: Argument) -> Future[Result] | None:
        try:
            return pool.submit(function, argument) if pool is not None else None
        except BrokenProcessPool:
            return None

    def result(argument: Argument, future: Future[Result] | None) -> Result:
        nonlocal pool
        try:
            if future is not None:
                return future.result()
        except BrokenProcessPool:
            if pool is not None:
                log.warning("a worker process was killed, perhaps for want of memory: going on without it")
                _release(pool)
            pool = None
        return function(argument)

    def first() -> tuple[Item, Result]:
        item, argument, future = pending.popleft()
        return item, result(argument, future)

    try:
        for item, argument in jobs:
            pending.append((item, argument, hand_in(argument)))
            if pool is None or len(pending) >= ahead:
                yield first()
        while pending:
            yield first()
    finally:
        for _, _, future in pending:
            if future is not None:
                future.cancel()

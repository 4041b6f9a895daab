"""How many cores there are, and an ordered map over worker processes with bounded read-ahead."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
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
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker)


def _begin_worker() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported there, if it is
    threading.Thread(target=_follow_parent, args=(os.getppid(),), daemon=True).start()


def _follow_parent(parent: int) -> None:
    """End with the parent, even a killed one: an orphan would go on writing what a new run resumes."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], pool: ProcessPoolExecutor | None, ahead: int
) -> Iterator[Result]:
    """function(item) in the order of items, at most `ahead` of them under way (in place without a pool)."""
    if pool is None:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()

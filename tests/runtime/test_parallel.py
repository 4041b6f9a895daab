"""Cores and worker processes. Functions travel to workers by name, so those here are the standard library's."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support import HANGS

from pan21av.runtime.parallel import ordered_map, usable_cores, worker_pool


def in_python(script):
    return [sys.executable, "-c", f"import os, sys, time; from pan21av.runtime.parallel import *\n{script}"]


# ---- cores -------------------------------------------------------------------------------------------


def test_the_cores_that_a_process_is_bound_to():
    core = min(os.sched_getaffinity(0))
    script = f"os.sched_setaffinity(0, {{{core}}}); print(usable_cores())"
    assert subprocess.run(in_python(script), capture_output=True, check=True).stdout == b"1\n"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000"}, 2),  # a core and a half
        ({"cpu.max": "1000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),  # more than there are
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu.max": "rubbish"}, 8),
        ({"cpu.max": ""}, 8),
        ({}, 8),
    ],
)
def test_the_quota_of_a_container(monkeypatch, files, cores):
    """The files as Linux shows them, of version 2 and 1, on a machine of eight cores."""

    def read(path):
        name = str(path.relative_to("/sys/fs/cgroup"))
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(Path, "read_text", read)
    assert usable_cores() == cores


# ---- ordered map -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool():
    with worker_pool(1) as workers:
        yield workers


def jobs(arguments, read=None):
    for argument in arguments:
        if read is not None:
            read.append(argument)
        yield f"item {argument}", argument


def test_order_and_how_far_it_reads_ahead(pool, caplog):
    read = []
    results = ordered_map(abs, jobs(range(0, -20, -1), read), pool, ahead=4)
    assert next(results) == ("item 0", 0)
    assert len(read) == 4
    assert next(results) == ("item -1", 1)
    assert len(read) == 5
    assert list(results) == [(f"item {-n}", n) for n in range(2, 20)]
    assert not caplog.records, "a worker died"


def test_without_workers():
    read = []
    results = ordered_map(abs, jobs([-1, 2], read), None, ahead=4)
    assert next(results) == ("item -1", 1)
    assert read == [-1]  # nobody else would work meanwhile
    assert list(results) == [("item 2", 2)]


def test_the_item_stays_here(pool):
    """It need not be picklable, and comes back as the same object."""
    item = lambda: None  # noqa: E731
    ((found, result),) = ordered_map(abs, [(item, -3)], pool, ahead=1)
    assert found is item
    assert result == 3


def test_workers_compute_elsewhere_on_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    script = "(__import__('os').getpid(), __import__('os').environ['OMP_NUM_THREADS'])"
    with worker_pool(1) as workers:
        ((_, (process, threads)),) = ordered_map(eval, [(None, script)], workers, ahead=1)
    assert process != os.getpid()
    assert threads == "1"


def test_errors_of_the_work_come_through(pool):
    results = ordered_map(int, jobs(["1", "x", "3"]), pool, ahead=2)
    assert next(results) == ("item 1", 1)
    with pytest.raises(ValueError, match="invalid literal"):
        next(results)


def test_a_killed_worker_is_replaced_by_this_process(caplog):
    """As the system kills one for want of memory. Nothing is lost, and it is said once."""
    fatal = f"__import__('os').kill(__import__('os').getpid(), 9) if __import__('os').getpid() != {os.getpid()} else 7"
    with worker_pool(1) as workers:
        found = list(ordered_map(eval, jobs(["1", "2", fatal, "4", "5", "6", "8"]), workers, ahead=3))
    assert [item for item, _ in found] == [f"item {n}" for n in ("1", "2", fatal, "4", "5", "6", "8")]
    assert [result for _, result in found] == [1, 2, 7, 4, 5, 6, 8]
    assert [record.message for record in caplog.records] == [
        "a worker process was killed, perhaps for want of memory: going on without it"
    ]


# ---- orphans -----------------------------------------------------------------------------------------


@pytest.fixture
def parent():
    """Starts a process with workers. They inherit its output, so that ends when the last of them does."""
    started = []

    def start(script):
        process = subprocess.Popen(
            in_python(script), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_workers_end_with_a_parent_that_is_killed(parent):
    work = "print('working', flush=True) or __import__('time').sleep(600)"
    process = parent(f"worker_pool(1).submit(eval, {work!r})\ntime.sleep(600)")
    assert process.stdout.readline() == b"working\n"
    process.kill()
    assert process.communicate(timeout=HANGS) == (b"", None)


def test_workers_end_whose_parent_was_killed_before_they_began(parent):
    """They find themselves with another parent from the start."""
    process = parent("worker_pool(1).submit(time.sleep, 600)\nos.kill(os.getpid(), 9)")
    assert process.communicate(timeout=HANGS) == (b"", None)

"""What depends on the machine: device, cores, worker processes, progress."""

import logging
import os
import subprocess
import sys

import pytest
import torch

from pan21av import progress
from pan21av.device import choose_device
from pan21av.errors import InputError
from pan21av.parallel import _cgroup_quota, ordered_map, usable_cores, worker_pool


def test_cpu_where_there_is_nothing_else(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == choose_device("cpu").type == "cpu"
    assert not caplog.records
    assert choose_device("cuda:1").type == "cpu"
    assert "no CUDA device" in caplog.text


def test_a_card_that_cannot_compute_gives_way(monkeypatch, caplog):
    """There is no GPU here, so torch's refusal is played: that of an old card under a new build."""

    def refuse(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nlong story")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", refuse)
    assert choose_device("auto").type == "cpu"
    assert "no kernel image is available" in caplog.text
    assert "long story" not in caplog.text


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "mps", ""])
def test_unknown_devices(name):
    with pytest.raises(InputError, match="--device takes"):
        choose_device(name)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "rubbish"}, None),
        ({}, None),
    ],
)
def test_cgroup_quota(tmp_path, files, expected):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert _cgroup_quota(tmp_path) == expected
    assert usable_cores() >= 1


def test_ordered_map_keeps_order_and_reads_ahead_only_so_far():
    read = []

    def items():
        for n in range(20):
            read.append(n)
            yield n

    with worker_pool(1) as pool:
        results = ordered_map(abs, items(), pool, ahead=4)
        assert next(results) == 0
        assert len(read) <= 5
        assert list(results) == list(range(1, 20))
    assert list(ordered_map(abs, [-1, 2], None, ahead=1)) == [1, 2]


def test_plain_progress_lines(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="pan21av")
    now = iter([0.0, 10.0, 31.0, 40.0, 62.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    with progress.Progress(8, "pairs") as bar:
        bar.bar = None
        for _ in range(4):
            bar.advance()
    assert [r.getMessage() for r in caplog.records] == [
        "2 of 8 pairs (25 %), 0.06 a second, about 1 min 33 s left",
        "4 of 8 pairs (50 %), 0.06 a second, about 1 min 02 s left",
    ]


def test_a_worker_whose_parent_was_killed_before_it_began_ends():
    """It finds itself with another parent from the start."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    script = f"import time; from pan21av.parallel import _begin_worker; _begin_worker({gone.pid}); time.sleep(60)"
    assert subprocess.run([sys.executable, "-c", script], timeout=20).returncode == 1
    alive = (
        f"import os, time; from pan21av.parallel import _begin_worker; _begin_worker({os.getpid()}); time.sleep(1.5)"
    )
    assert subprocess.run([sys.executable, "-c", alive], timeout=20).returncode == 0

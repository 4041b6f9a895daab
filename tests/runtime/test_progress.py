import io
import logging
import sys
from types import SimpleNamespace

import pytest

from pan21av.runtime import progress


@pytest.fixture
def at(monkeypatch):
    """A clock that shows these times one after the other."""

    def set_clock(*seconds):
        times = iter(seconds)
        monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(times)))

    return set_clock


class Stream(io.StringIO):
    """Standard error, as a terminal or not. (Put in place by each test: pytest has its own between the phases.)"""

    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


def test_plain_lines(at, monkeypatch, caplog):
    """One every 30 seconds. 2 in 31 s: 6 are left, so 93 s; 4 in 62 s: 4 are left, so 62 s."""
    caplog.set_level(logging.INFO, logger="pan21av")
    at(0.0, 10.0, 31.0, 40.0, 62.0)
    monkeypatch.setattr(sys, "stderr", stderr := Stream(terminal=False))
    with progress.Progress(8, "pairs") as bar:
        for _ in range(4):
            bar.advance()
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 8 pairs (25 %), 0.06 a second, about 1 min 33 s left",
        "4 of 8 pairs (50 %), 0.06 a second, about 1 min 02 s left",
    ]
    assert stderr.getvalue() == ""


def test_what_was_done_before_says_nothing_of_the_speed(at, monkeypatch, caplog):
    """100 of 200 were done; 5 more in 50 s leave 95, at 10 s each."""
    caplog.set_level(logging.INFO, logger="pan21av")
    at(0.0, 50.0)
    monkeypatch.setattr(sys, "stderr", Stream(terminal=False))
    progress.Progress(200, "pairs", done=100).advance(5)
    assert [record.getMessage() for record in caplog.records] == [
        "105 of 200 pairs (52 %), 0.10 a second, about 15 min 50 s left"
    ]


def test_a_bar_on_a_terminal(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="pan21av")
    monkeypatch.setattr(sys, "stderr", stderr := Stream(terminal=True))
    with progress.Progress(4, "pairs", done=1) as bar:
        for _ in range(3):
            bar.advance()
    shown = stderr.getvalue().split("\r")
    assert "1/4" in shown[1]
    assert "4/4" in shown[-1]
    assert not caplog.records


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 min 00 s"), (59.4, "0 min 59 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"),
        (3600, "1 h 00 min"), (3661, "1 h 01 min"), (100 * 3600, "100 h 00 min"),
    ],
)  # fmt: skip
def test_clock(seconds, words):
    assert progress.clock(seconds) == words

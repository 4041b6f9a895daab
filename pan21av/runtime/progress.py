"""Progress: a bar with an ETA on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time

from tqdm import tqdm

log = logging.getLogger("pan21av")

SECONDS_BETWEEN_LINES = 30.0


class Progress:
    """`with Progress(total, "pairs") as bar: bar.advance()`; `done` of them were done before."""

    def __init__(self, total: int, unit: str, done: int = 0) -> None:
        self.total, self.unit, self.done, self.first = total, unit, done, done
        self.began = self.said = time.perf_counter()
        terminal = sys.stderr.isatty()
        self.bar = tqdm(total=total, unit=f" {unit}", smoothing=0.05, initial=done) if terminal else None

    def __enter__(self) -> Progress:
        return self

    def advance(self, by: int = 1) -> None:
        self.done += by
        if self.bar is not None:
            self.bar.update(by)
            return
        now = time.perf_counter()
        if now - self.said >= SECONDS_BETWEEN_LINES:
            self.said = now
            rate = (self.done - self.first) / (now - self.began)
            log.info(
                "%d of %d %s (%.0f %%), %.2f a second, about %s left",
                self.done, self.total, self.unit, 100 * self.done / self.total, rate,
                clock((self.total - self.done) / rate),
            )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"

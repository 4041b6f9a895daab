"""What a person sees of a training: a line per epoch, and a bar over all members on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
from tqdm import tqdm

from ..metrics import auc_error
from ..runtime.progress import clock
from .member import HISTORY, MemberTask
from .report import MIN_PAIRS

log = logging.getLogger("pan21av")

EPOCHS_PER_LINE = 20  # of O2D2: these take a second each
SHOWN = (
    "loss", "held_out_loss", "dml_loss", "bfs_loss", "ual_loss", "accuracy", "topic_accuracy", "dev_auc_distance",
    "auc", "overall", "seconds",
)  # fmt: skip


class Watch:
    """Follows the members' history files."""

    def __init__(self, tasks: list[MemberTask]) -> None:
        self.tasks = tasks
        self.seen = dict.fromkeys((task.number for task in tasks), 0)
        epochs = sum(task.settings.epochs for task in tasks)
        self.bar = tqdm(total=epochs, unit=" epochs", desc="all members", disable=not sys.stderr.isatty())

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def say(self, line: str) -> None:
        if self.bar.disable:
            log.info("%s", line)
        else:
            self.bar.write(line, file=sys.stderr)

    def look(self) -> None:
        for task in self.tasks:
            try:
                lines = (task.folder / HISTORY).read_bytes().splitlines(keepends=True)
            except OSError:
                continue
            for line in lines[self.seen[task.number] :]:
                if not line.endswith(b"\n"):
                    break
                self.seen[task.number] += 1
                self._show(task.number, orjson.loads(line))

    def _show(self, number: int, record: dict[str, Any]) -> None:
        self.bar.update()
        if record["stage"] == "o2d2" and record["epoch"] % EPOCHS_PER_LINE:
            return
        values = "  ".join(f"{name} {record[name]:.4g}" for name in SHOWN if record.get(name) is not None)
        self.say(f"member {number:2d}  {record['stage']:11s} epoch {record['epoch']:3d}  {values}")

    def finished(self, task: MemberTask) -> None:
        result = task.result
        figures, pairs, line = result["validation"], result["pairs"], f"finished in {clock(result['seconds'])}"
        if pairs >= MIN_PAIRS:  # of a handful, figures say nothing
            auc, overall, with_o2d2 = figures["ual"]["auc"], figures["ual"]["overall"], figures["o2d2"]["overall"]
            error = auc_error(auc, pairs // 2, pairs - pairs // 2)
            line += f": validation AUC {auc:.3f} +- {error:.3f} ({pairs:,} pairs)"
            line += f", overall {overall:.3f}, with O2D2 {with_o2d2:.3f}"
        self.say(f"member {task.number:2d} {line}")

"""One member from seed to finished files: the task that runs in a process of its own."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from ..checkpoint import MANIFEST, member_files
from ..device import choose_device
from ..errors import EnvironmentFault
from .prepare import Prepared
from .settings import TrainSettings
from .stage1 import StageOne
from .stage2 import StageTwo

RESULT, HISTORY, SCORES = "result.json", "history.jsonl", "validation.npz"
ENSEMBLE_SCORES = "validation_scores.npz"  # the same of all members, in the ensemble's folder


PARTS = ("stage1", "o2d2")


@dataclass(frozen=True)
class MemberTask:
    number: int  # from 1
    seed: int
    prepared: Path
    folder: Path
    settings: dict[str, Any]
    device: str

    @property
    def finished(self) -> bool:
        return (self.folder / RESULT).exists()


def train_member(task: MemberTask) -> int:
    """Train one member, going on where an earlier process stopped. Returns its number."""
    if task.finished:
        return task.number
    if not task.prepared.is_dir():
        node = os.uname().nodename
        raise EnvironmentFault(
            f"{node} does not see {task.prepared}: --work must be on a file system that all nodes share"
        )
    torch.set_num_threads(1)  # members run side by side; and the same weights on any number of cores
    task.folder.mkdir(parents=True, exist_ok=True)
    settings = TrainSettings.from_dict(task.settings)
    prepared, device = Prepared.load(task.prepared), choose_device(task.device)
    with (task.folder / HISTORY).open("wb", buffering=0) as history:

        def log(record: dict[str, Any]) -> None:
            history.write(orjson.dumps(record) + b"\n")

        one = StageOne(prepared, settings, task.seed, device)
        members = one.run(task.folder, log)
        began = time.perf_counter()
        two = StageTwo(members, prepared, settings, task.seed, device)
        result = two.run(log)
    state = {name: tensor[0] for name, tensor in members.state_dict().items()}
    seconds = sum(record["seconds"] for record in one.state.history) + time.perf_counter() - began
    result |= {"seed": task.seed, "seconds": round(seconds, 1)}  # of earlier, broken runs too
    finish(task, member_files(state, half=True), two.validation_scores(), result)
    (task.folder / "stage1.pt").unlink(missing_ok=True)
    return task.number


def finish(task: MemberTask, files: dict[str, bytes], scores: dict[str, np.ndarray], result: dict[str, Any]) -> None:
    """Write what a finished member leaves; its result comes last and marks it as finished."""
    task.folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        (task.folder / f"{part}.safetensors").write_bytes(files[part])
    np.savez(task.folder / SCORES, **scores)  # type: ignore[arg-type]
    unfinished = task.folder / f"{RESULT}.part"
    unfinished.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    unfinished.replace(task.folder / RESULT)


def adopt(tasks: list[MemberTask], ensemble: Path, identity: dict[str, Any]) -> int:
    """Take over finished members from an ensemble of the same settings, seed and corpus; how many."""
    try:
        info = orjson.loads((ensemble / MANIFEST).read_bytes())
        training = info["training"]
        if {key: training[key] for key in identity} != identity:
            return 0
        scores = np.load(ensemble / ENSEMBLE_SCORES)
        adopted = 0
        for task, entry, row in zip(tasks, info["members"], range(len(info["members"])), strict=False):
            if task.finished or entry["seed"] != task.seed:
                continue
            files = {part: (ensemble / entry[part]["file"]).read_bytes() for part in PARTS}
            if any(hashlib.sha256(files[part]).hexdigest() != entry[part]["sha256"] for part in PARTS):
                continue
            result = {key: entry[key] for key in ("eps", "validation", "seed", "seconds")}
            finish(task, files, {name: scores[name][row] for name in scores.files}, result)
            adopted += 1
        return adopted
    except (OSError, KeyError, ValueError):
        return 0  # no ensemble there, or none of ours

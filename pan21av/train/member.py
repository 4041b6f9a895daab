"""One member from seed to finished files: the task that runs in a process of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from ..checkpoint import member_files
from .prepare import Prepared
from .settings import TrainSettings
from .stage1 import StageOne
from .stage2 import StageTwo

RESULT, HISTORY, SCORES = "result.json", "history.jsonl", "validation.npz"


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
    torch.set_num_threads(1)  # members run side by side; and the same weights on any number of cores
    task.folder.mkdir(parents=True, exist_ok=True)
    settings = TrainSettings.from_dict(task.settings)
    prepared, device = Prepared.load(task.prepared), torch.device(task.device)
    began = time.perf_counter()
    with (task.folder / HISTORY).open("wb", buffering=0) as history:

        def log(record: dict[str, Any]) -> None:
            history.write(orjson.dumps(record) + b"\n")

        members = StageOne(prepared, settings, task.seed, device).run(task.folder, log)
        two = StageTwo(members, prepared, settings, task.seed, device)
        result = two.run(log)
    state = {name: tensor[0] for name, tensor in members.state_dict().items()}
    for part, data in member_files(state, half=True).items():
        (task.folder / f"{part}.safetensors").write_bytes(data)
    np.savez(task.folder / SCORES, **two.validation_scores())  # type: ignore[arg-type]
    result |= {"seed": task.seed, "seconds": round(time.perf_counter() - began, 1)}
    unfinished = task.folder / f"{RESULT}.part"
    unfinished.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    unfinished.replace(task.folder / RESULT)
    (task.folder / "stage1.pt").unlink(missing_ok=True)
    return task.number

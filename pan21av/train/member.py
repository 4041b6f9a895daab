"""One member from seed to finished files: the task that runs in a process of its own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as format_safetensors
from torch import Tensor

from ..checkpoint import MANIFEST, compress, member_files
from ..device import choose_device
from ..errors import EnvironmentFault
from ..model import Members
from .prepare import Prepared
from .settings import STAGE_TWO, TrainSettings
from .stage1 import Log, StageOne
from .stage2 import StageTwo, stranger_documents

BODY, BODY_SECONDS = "body.safetensors", "body.json"  # stage one, taken over from another ensemble
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

        body, seconds = _stage_one(task, prepared, settings, device, log)
        began = time.perf_counter()
        settings = with_strangers(settings, prepared)
        torch.manual_seed(task.seed)
        vocabulary = prepared.vocabulary
        members = Members(settings.model, 1, vocabulary.word_rows, vocabulary.char_rows)
        start = members.state_dict()
        members.load_state_dict(start | {name: body[name][None] for name in start if name in body})
        two = StageTwo(members.to(device), prepared, settings, task.seed, device)
        result = two.run(log)
    state = {name: tensor[0] for name, tensor in members.state_dict().items()}
    seconds += time.perf_counter() - began
    result |= {"seed": task.seed, "seconds": round(seconds, 1)}  # of earlier, broken runs too
    finish(task, member_files(state, half=True), two.validation_scores(), result)
    for name in ("stage1.pt", BODY, BODY_SECONDS):
        (task.folder / name).unlink(missing_ok=True)
    return task.number


def with_strangers(settings: TrainSettings, prepared: Prepared) -> TrainSettings:
    """A small corpus may have fewer of them than the settings ask for."""
    count = len(stranger_documents(prepared, settings.model.strangers))
    return replace(settings, model=replace(settings.model, strangers=count))


def _stage_one(
    task: MemberTask, prepared: Prepared, settings: TrainSettings, device: torch.device, log: Log
) -> tuple[dict[str, Tensor], float]:
    """What stage two builds on, just as it will be shipped: rounded, and without scores if those begin anew.

    So it makes no difference whether stage one was trained here or taken over.
    """
    if (task.folder / BODY).exists():
        state = parse_safetensors((task.folder / BODY).read_bytes())
        seconds = float(orjson.loads((task.folder / BODY_SECONDS).read_bytes()))
    else:
        one = StageOne(prepared, settings, task.seed, device)
        members = one.run(task.folder, log)
        state = {name: compress(name, tensor[0]) for name, tensor in members.state_dict().items()}
        seconds = sum(record["seconds"] for record in one.state.history)
    return {name: tensor.float() for name, tensor in _body(state, settings).items()}, seconds


def _body(state: Mapping[str, Tensor], settings: TrainSettings) -> dict[str, Tensor]:
    kept = ("encoder.", "metric.", "style.") if settings.head_epochs else ("",)
    return {name: tensor for name, tensor in state.items() if name.startswith(kept)}


def finish(task: MemberTask, files: dict[str, bytes], scores: dict[str, np.ndarray], result: dict[str, Any]) -> None:
    """Write what a finished member leaves; its result comes last and marks it as finished."""
    task.folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        (task.folder / f"{part}.safetensors").write_bytes(files[part])
    np.savez(task.folder / SCORES, **scores)  # type: ignore[arg-type]
    unfinished = task.folder / f"{RESULT}.part"
    unfinished.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    unfinished.replace(task.folder / RESULT)


def adopt(tasks: list[MemberTask], ensemble: Path, identity: dict[str, Any]) -> tuple[int, int]:
    """Take over finished members from an ensemble of the same settings, seed and corpus, or their stage one
    if only settings of stage two differ; how many of either."""
    settings = TrainSettings.from_dict(identity["settings"])
    adopted, bodies = 0, 0
    try:
        info = orjson.loads((ensemble / MANIFEST).read_bytes())
        training = info["training"]
        if any(training[key] != identity[key] for key in ("seed", "corpus")):
            return 0, 0
        whole = training["settings"] == identity["settings"]
        stage_one = {name: value for name, value in training["settings"].items() if not name.startswith(STAGE_TWO)}
        # Where scores are stage one's own (head_epochs 0), they must not have begun anew in what is taken over.
        replaced = training["settings"]["head_epochs"] and not settings.head_epochs
        if not whole and (stage_one != settings.stage_one or replaced):
            return 0, 0
        scores = np.load(ensemble / ENSEMBLE_SCORES)
        for task, entry, row in zip(tasks, info["members"], range(len(info["members"])), strict=False):
            if task.finished or entry["seed"] != task.seed or (task.folder / "stage1.pt").exists():
                continue
            files = {part: (ensemble / entry[part]["file"]).read_bytes() for part in PARTS}
            if any(hashlib.sha256(files[part]).hexdigest() != entry[part]["sha256"] for part in PARTS):
                continue
            if not whole:
                task.folder.mkdir(parents=True, exist_ok=True)
                (task.folder / BODY_SECONDS).write_bytes(orjson.dumps(entry["seconds"]))
                body = _body(parse_safetensors(files["stage1"]), settings)
                unfinished = task.folder / f"{BODY}.part"
                unfinished.write_bytes(format_safetensors(body))
                unfinished.replace(task.folder / BODY)
                bodies += 1
                continue
            result = {key: entry[key] for key in ("eps", "validation", "seed", "seconds")}
            finish(task, files, {name: scores[name][row] for name in scores.files}, result)
            adopted += 1
    except (OSError, KeyError, ValueError):
        pass  # no ensemble there, or none of ours
    return adopted, bodies

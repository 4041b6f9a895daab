"""One member from seed to finished files: the task that runs in a process of its own."""

from __future__ import annotations

import io
import os
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from safetensors.torch import load as parse_safetensors
from torch import Tensor

from ..config import ModelConfig
from ..errors import EnvironmentFault
from ..files import write_whole
from ..network.checkpoint import STAGES, member_files
from ..network.network import Network
from ..network.ngram_part import NgramPart
from ..runtime.device import choose_device
from .calibration import fewest_in_cohort
from .fit_ngrams import LAYOUT, fit_ngrams, n_features
from .prepared import Prepared
from .settings import Settings
from .sources import n_known
from .stage1 import CHECKPOINT, Log, StageOne
from .stage2 import CHECKPOINTS, StageTwo
from .streams import Stream, torch_stream

STAGE_ONE, STAGE_TWO = (f"{stage}.safetensors" for stage in STAGES)
STAGE_ONE_RECORD = "stage1.json"  # how long it took, and its history
RESULT, HISTORY, VALIDATION_SCORES = "result.json", "history.jsonl", "validation.npz"


@dataclass(frozen=True)
class MemberTask:
    number: int  # from 1
    seed: int
    prepared: Path
    folder: Path
    settings: Settings
    device: str
    sources: tuple[int, ...]  # that it is made of

    @property
    def finished(self) -> bool:
        return (self.folder / RESULT).exists()

    @property
    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = orjson.loads((self.folder / RESULT).read_bytes())
        return result


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
    settings = task.settings
    prepared = Prepared.load(task.prepared, settings.model).for_sources(task.sources)
    device = choose_device(task.device)
    with (task.folder / HISTORY).open("wb", buffering=0) as history:

        def log(record: dict[str, Any]) -> None:
            history.write(orjson.dumps(record) + b"\n")

        if (task.folder / STAGE_ONE).exists():
            for record in stage_one_record(task)["history"]:
                log(record)
        else:
            _stage_one(task, prepared, device, log)
        began = time.perf_counter()
        # Just as it will be shipped, rounded: so it makes no difference whether stage one was trained here or reused.
        state = parse_safetensors((task.folder / STAGE_ONE).read_bytes())
        network = _network(full_model(settings, prepared), prepared, state, task.seed).to(device)
        two = StageTwo(network, prepared, settings, task.seed, device, task.folder)
        result = two.run(log)
    first = stage_one_record(task)["seconds"]  # of earlier, broken runs too
    seconds = first + time.perf_counter() - began
    result |= {"sources": [prepared.sources[number] for number in task.sources]}
    result |= {"seed": task.seed, "seconds": round(seconds, 1), "seconds_stage_one": round(first, 1)}
    files = member_files({name: tensor[0] for name, tensor in network.state_dict().items()}, fitted(settings))
    finish(task, files["stage2"], two.validation_scores(), result)
    for name in (CHECKPOINT, *CHECKPOINTS):
        (task.folder / name).unlink(missing_ok=True)
    return task.number


def fitted(settings: Settings) -> tuple[str, ...]:
    """How the names of stage two's tensors begin: O2D2, and the scores where they begin anew."""
    if not settings.heads.epochs:
        return ("o2d2.",)
    return ("o2d2.", "dml.", "bfs.", "ual.", "cohort.", "part_scale", "ngrams.kinds.")


def full_model(settings: Settings, prepared: Prepared) -> ModelConfig:
    """What is shipped. A small corpus may have fewer n-grams, and texts for a cohort, than the settings ask for."""
    pool = prepared.vocabulary.ngrams
    features = layout_features = 0
    if settings.model.ngram_dim and pool is not None:
        features = n_features(pool, settings.ngrams)
        layout_features = n_features(pool, settings.ngrams, LAYOUT) if settings.model.layout_dim else 0
    return replace(
        settings.model,
        ngram_features=features,
        ngram_dim=min(settings.model.ngram_dim, features),
        layout_features=layout_features,
        layout_dim=min(settings.model.layout_dim, layout_features),
        kinds=_kinds(settings, prepared) if features else 0,
        cohort=min(settings.calibration.cohort, fewest_in_cohort(prepared, settings.data.source_share)),
    )


def _kinds(settings: Settings, prepared: Prepared) -> int:
    """Kinds of text that a member knows; one alone is none."""
    count = n_known(len(prepared.sources), settings.data.source_share)
    return count if count > 1 else 0


def _stage_one(task: MemberTask, prepared: Prepared, device: torch.device, log: Log) -> None:
    """Train the encoder, fit what comes from frequencies, and leave what stage two builds on."""
    settings, history = task.settings, []
    state: dict[str, Tensor] = {}
    began = time.perf_counter()
    if settings.model.encoder_dim:
        one = StageOne(prepared, settings, task.seed, device)
        encoder = one.run(task.folder, log)
        state = {name: tensor[0] for name, tensor in encoder.state_dict().items()}
        if settings.heads.epochs:  # the scores begin anew
            state = {name: tensor for name, tensor in state.items() if not name.startswith(fitted(settings))}
        history = one.state.history
        began = time.perf_counter() - sum(record["seconds"] for record in history)
    if settings.model.ngram_dim:
        model = full_model(settings, prepared)
        parts = {"ngrams": NgramPart(1, model)}
        fit_ngrams(parts["ngrams"], prepared, settings.ngrams, task.seed)
        if model.layout_dim:
            parts["layout"] = NgramPart(1, model.of_layout)
            fit_ngrams(parts["layout"], prepared, settings.ngrams, task.seed, LAYOUT)
        named = {f"{name}.{key}": t[0] for name, part in parts.items() for key, t in part.state_dict().items()}
        state |= {name: tensor for name, tensor in named.items() if not name.startswith(fitted(settings))}
    seconds = time.perf_counter() - began
    keep_stage_one(task, member_files(state, fitted(settings))["stage1"], seconds, history)


def keep_stage_one(task: MemberTask, data: bytes, seconds: float, history: Sequence[dict[str, Any]] = ()) -> None:
    """The tensors come last: they say that stage one is done."""
    write_whole(task.folder / STAGE_ONE_RECORD, orjson.dumps({"seconds": seconds, "history": list(history)}))
    write_whole(task.folder / STAGE_ONE, data)


def stage_one_record(task: MemberTask) -> dict[str, Any]:
    """How long stage one took, and its history."""
    record: dict[str, Any] = orjson.loads((task.folder / STAGE_ONE_RECORD).read_bytes())
    return record


def _network(model: ModelConfig, prepared: Prepared, state: dict[str, Tensor], seed: int) -> Network:
    """A member with the tensors of `state`, the others at their start."""
    torch_stream(seed, Stream.STAGE_TWO_WEIGHTS)
    network = Network(model, 1, prepared.vocabulary.word_rows, prepared.vocabulary.char_rows)
    network.load_state_dict(network.state_dict() | {name: tensor[None] for name, tensor in state.items()})
    return network


def finish(task: MemberTask, stage_two: bytes, scores: dict[str, np.ndarray], result: dict[str, Any]) -> None:
    """Write what a finished member leaves; its result comes last and marks it as finished."""
    write_whole(task.folder / STAGE_TWO, stage_two)
    # In half precision: of thousands of pairs in many conditions, more would be as large as the weights.
    write_whole(task.folder / VALIDATION_SCORES, npz({name: p.astype(np.float16) for name, p in scores.items()}))
    write_whole(task.folder / RESULT, orjson.dumps(result, option=orjson.OPT_INDENT_2))


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    """A file that np.load reads; a fifth smaller than np.savez_compressed makes it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                # What members say of one pair lies together: it is much alike.
                np.lib.format.write_array(file, np.asfortranarray(array), allow_pickle=False)
    return buffer.getvalue()


def finished_files(task: MemberTask) -> dict[str, bytes]:
    return {stage: (task.folder / f"{stage}.safetensors").read_bytes() for stage in STAGES}
